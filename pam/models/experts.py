"""A mixture of softmaxes of one context: the control for the sum over positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from pam.models import options
from pam.models.interfaces import Sizes
from pam.models.kernels.mixture import Mixture, mixture_log_likelihood
from pam.models.kernels.search_layer import SearchedMixture
from pam.models.marginalization import Marginalization
from pam.models.outputs import OutputRows, SingleContext
from pam.models.packing import optional_rows


class SoftmaxMixture(Marginalization):
    """p(y_t) = sum_k pi_t(k) softmax(W_o z_k + b_o)(y_t), a mixture of K softmaxes of one context.

    It is after Yang et al. 2018, "Breaking the Softmax Bottleneck". Like a sum over positions it
    is no single softmax, so that the rank of log p is not bounded by the units of the output layer.
    Unlike it, a component stands for no source position: all of them read the mean context of soft
    attention, c_t = sum_a prior_t(a) h_a. There is no posterior over positions.

    Let x_t be what the hidden layer of `input` reads: W_x c_t + W_s s_t + b in recurrent models,
    W_x c_t + s_t in Transformers. Then

        pi_t(k) = softmax_k(w_k . x_t),
        z_k = hidden layer of x_t + U_k V x_t + b_k,

    where the hidden layer is tanh, or the layer norm of a Transformer, and W_o, b_o are shared.
    With `rank` r, V is (r, R) and U_k is (R, r): r R + K R (r + 2) parameters more than `input` and
    `output` have, for R units of the decoder. Without a rank, U_k V is one full matrix (R, R) for
    each expert, the form of Yang et al.: K R (R + 2) more.
    """

    needs_context = True

    def __init__(self, options: options.SoftmaxMixture, sizes: Sizes) -> None:
        super().__init__()
        units = sizes.query

        self.reduce: nn.Module = nn.Identity()  # V
        if options.rank is not None:
            self.reduce = nn.Linear(units, options.rank, bias=False)
        self.expand = nn.Linear(options.rank or units, options.experts * units)  # U_k, b_k
        self.weigh = nn.Linear(units, options.experts, bias=False)  # w_k

    def output(self, rows: OutputRows) -> ExpertMixture:
        return ExpertMixture(rows, rows.attention.context, experts=self)

    def log_weights(self, x: Tensor) -> Tensor:
        """Return log pi(k) of x (n, R): (n, K)."""
        return torch.log_softmax(self.weigh(x), dim=1)

    def shifts(self, x: Tensor) -> Tensor:
        """Return U_k V x + b_k of x (n, R): (n, K, R)."""
        shifts: Tensor = self.expand(self.reduce(x))
        return shifts.view(len(x), -1, x.shape[1])


@dataclass(eq=False, kw_only=True)
class ExpertMixture(SingleContext):
    """p(y) = sum_k pi(k) p_k(y | s_t, c_t), with K experts that read a single context.

    To others it has one context, so that what is copied is mixed with the sum over experts. The
    kernels take experts as the positions of a source that a row has for itself.
    """

    experts: SoftmaxMixture

    @cached_property
    def log_pi(self) -> Tensor:
        """log pi(k), (n, K)."""
        return self.experts.log_weights(self.hidden)

    @property
    def kept(self) -> Tensor:
        """All experts count: true, (n, K)."""
        return torch.ones_like(self.log_pi, dtype=torch.bool)

    @property
    def row_index(self) -> Tensor:
        """The source of each row, (n,)."""
        return torch.arange(len(self.hidden), device=self.hidden.device)

    def mixture(
        self, symbols: Tensor, log_weights: Tensor, log_copied: Tensor | None = None
    ) -> Tensor:
        readout = self.rows.readout
        mixture = Mixture(
            symbols=symbols,
            kept=self.kept,
            sentences=self.row_index,
            compute=readout.compute,
            hidden_layer=readout.hidden_layer,
        )

        return mixture_log_likelihood(
            views=self.experts.shifts(self.hidden),
            query=self.hidden,
            weights=log_weights + self.log_pi,
            weight=readout.weight,
            bias=readout.bias,
            mixture=mixture,
            log_copied=log_copied,
        )

    @torch.no_grad()
    def log_probs(self) -> Tensor:
        searched = SearchedMixture(
            views=self.experts.shifts(self.hidden),
            query=self.hidden,
            weights=self.log_pi.exp(),
            kept=self.kept,
            sentences=self.row_index,
            layer=self.rows.readout.layer,
        )
        return searched.log_probs()

    def select(self, rows: Tensor) -> ExpertMixture:
        return ExpertMixture(
            rows=self.rows.select(rows),
            context=optional_rows(self.context, rows),
            alignment=optional_rows(self.alignment, rows),
            experts=self.experts,
        )
