"""log p(y_t | s_t, h_a) of source positions, one step at a time.

The gradient by a position's likelihood is known only in the backward pass, as later steps read the
posterior.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from pam.models.kernels import output_layer
from pam.models.kernels.compute import FLOAT32, Compute
from pam.models.kernels.hidden_layers import TANH, Hidden, HiddenLayer
from pam.models.kernels.output_layer import OutputLayer, backward_rows
from pam.models.kernels.pairs import Pairs, fixed_count
from pam.models.kernels.tape import Anchor, Tape

STORED = 1 << 29
"""Bytes of errors in bfloat16 that are kept for the backward pass, at most: 512 MB."""

STORED_ON_CUDA = 1 << 32
"""Bytes of errors that are kept on CUDA, at most, in either precision: 4 GB."""


def gold_log_probs_plain(
    views: Tensor,
    query: Tensor,
    weight: Tensor,
    bias: Tensor,
    symbols: Tensor,
    hidden_layer: HiddenLayer = TANH,
) -> Tensor:
    """Return log p(y | s, h_a), (n, m), of one symbol y in each row.

    Tests hold `PositionLikelihood` to it. Views (n, m, R), those of each row's sentence, are
    W_x h_a; the query (n, R) is W_s s + b.
    """
    logits = hidden_layer.plain(views + query[:, None]) @ weight.t() + bias
    index = symbols[:, None, None].expand(-1, views.shape[1], 1)

    return torch.log_softmax(logits, 2).gather(2, index).squeeze(2)


class PositionLikelihood:
    """log p(y_t | s_t, h_a) of source positions, at many steps that feed it back.

    The gradient of position a's logits is l(a) (onehot(y_t) - p(. | s_t, h_a)): l(a), the gradient
    of its log-likelihood, which later steps decide, times its error with the sign changed, which
    they do not. The errors of a step are kept if they fit beside those of the steps before. Else
    only the hidden layer is, and errors are computed once more for the positions that matter.

    Gradients of views, weight and bias are gathered on a tape. Every step takes the anchor as an
    input, so that autograd runs the anchor's backward pass last, which returns them.

    Args:
        views: (B, m, R) W_x h_a; weight: (V, R); bias: (V,): the output layer.
        compute: how products are taken.
        hidden_layer: makes z of u.
    """

    def __init__(
        self,
        views: Tensor,
        weight: Tensor,
        bias: Tensor,
        compute: Compute = FLOAT32,
        hidden_layer: HiddenLayer = TANH,
    ) -> None:
        layer = OutputLayer(
            weight=weight.detach(),
            bias=bias.detach(),
            compute=compute,
            hidden_layer=hidden_layer,
        )
        if weight.is_cuda:
            room = STORED_ON_CUDA
        elif compute.bf16:
            room = STORED
        else:
            # Errors in float32 are twice as many bytes: at most one piece is kept.
            room = output_layer.CHUNK

        self.tape = _PositionTape(views.detach(), layer, room)
        self.anchor = Anchor.apply(self.tape, views, weight, bias)

    def __call__(
        self,
        query: Tensor,
        symbols: Tensor,
        kept: Tensor,
        top_k: int | None = None,
        sentences: Tensor | None = None,
    ) -> Tensor:
        """Return the log-likelihoods of y_t at every position, (n, m).

        Args:
            query: (n, R) W_s s + b; symbols: (n,) y_t.
            kept: (n, m) the positions that count; values at others have no meaning.
            top_k: positions of a row that are kept, at most, if that is known.
            sentences: (n,) the sentence of each row; None: rows are the first n sentences.
        """
        fixed = None
        if self.tape.layer.compute.static:
            fixed = fixed_count(kept, top_k)

        log_likelihood: Tensor = _Position.apply(
            self.anchor, self.tape, query, symbols, kept, fixed, sentences
        )
        return log_likelihood


class _PositionTape(Tape):
    def __init__(self, views: Tensor, layer: OutputLayer, room: int) -> None:
        self.views = views
        self.layer = layer
        self.room = room  # bytes that are left for the errors of a batch
        self.dviews: Tensor | None = None

    def gradients(self) -> tuple[Tensor | None, ...]:
        dviews = self.dviews
        self.dviews = None
        return dviews, *self.layer.gradients()


class _Position(Function):
    """One step of `PositionLikelihood`."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        tape: _PositionTape,
        query: Tensor,
        symbols: Tensor,
        kept: Tensor,
        fixed: int | None,
        sentences: Tensor | None,
    ) -> Tensor:
        layer = tape.layer
        pairs = Pairs(kept, layer.width, sentences=sentences, fixed=fixed)
        hidden = layer.hidden_layer.overwrite(pairs.pre_activations(tape.views, query))
        z = hidden.z
        gold = pairs.expand_rows(symbols)  # (P,)

        # The errors are stored for the backward pass, if they fit.
        error = None
        padded = layer.padded(len(z))
        error_bytes = padded * layer.distribution_bytes
        if error_bytes <= tape.room and any(ctx.needs_input_grad):
            tape.room -= error_bytes
            error = layer.weight.new_empty(padded, layer.width)

        log_likelihood = z.new_empty(len(z))
        for first in range(0, len(z), layer.piece_rows):
            piece = slice(first, first + layer.piece_rows)
            is_last = piece.stop >= len(z)
            out = None
            if error is not None:
                # The last piece has the padding too.
                out = error[first:] if is_last else error[piece]
            log_likelihood[piece] = layer.errors(z[piece], gold[piece], out)[0]

        ctx.tape = tape
        ctx.pairs = pairs
        ctx.error = error
        ctx.save_for_backward(z, hidden.scale, gold)
        return pairs.spread(log_likelihood)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, hidden_scale, gold = ctx.saved_tensors
        tape = ctx.tape
        pairs = ctx.pairs
        error = ctx.error
        ctx.error = None  # it is dropped, and another backward pass computes it once more

        du = backward_rows(tape.layer, Hidden(z, hidden_scale), error, gold, pairs.pick(grads[0]))
        if tape.dviews is None:
            tape.dviews = torch.zeros_like(tape.views)
        dquery = pairs.backward(du, tape.dviews)
        return None, None, dquery, None, None, None, None
