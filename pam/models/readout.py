"""The parameters of the output layer: p(y | s_t, x)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from pam.models.interfaces import Sizes
from pam.models.kernels.compute import Part
from pam.models.kernels.hidden_layers import IDENTITY, STANDARDIZED, TANH, HiddenLayer
from pam.models.kernels.linear import SearchLinear, SharedLinear
from pam.models.kernels.search_layer import SearchLayer, position_logits
from pam.models.outputs import SourceReadout

Projection = Callable[[Tensor], Tensor]


class Readout(Part):
    """p(y | s_t, x) for a query and one view of the source (Luong et al. 2015, equations 5, 6).

    z = tanh(W_x x + W_s s + b), p = softmax(W_o z + b_o).
    """

    hidden_layer: HiddenLayer = TANH

    def __init__(self, sizes: Sizes, vocabulary: int) -> None:
        super().__init__()

        self.of_values = nn.Linear(sizes.values, sizes.query, bias=False)  # W_x
        self.of_query = nn.Linear(sizes.query, sizes.query)  # W_s, b
        self.output = nn.Linear(sizes.query, vocabulary)  # W_o, b_o

    def for_targets(self, views: Tensor | None) -> SourceReadout:
        """Make the output layer of a batch whose targets are given.

        Args:
            views: (B, m, R) W_x h_a, where positions have outputs of their own; None: contexts are
                read.
        """
        of_context = None
        if views is None:
            of_context = SharedLinear(self.of_values.weight, None, self.compute.bf16)

        weight, bias = self.output_layer()
        return SourceReadout(
            weight=weight,
            bias=bias,
            project=self.projection(),
            of_context=of_context,
            views=views,
            compute=self.compute,
            hidden_layer=self.hidden_layer,
        )

    def for_search(self, views: Tensor | None, beam: int) -> SourceReadout:
        """Make the output layer of a batch in a search with `beam` hypotheses, without gradients.

        Contexts come multiplied with W_x.
        """
        weight, bias = self.output_layer()
        search_layer = SearchLayer(
            weight=weight,
            bias=bias,
            beam=beam,
            bf16=self.compute.search_bf16,
            hidden_layer=self.hidden_layer,
        )
        added = None
        if views is not None:
            added = position_logits(views, search_layer)

        return SourceReadout(
            weight=weight,
            bias=bias,
            project=self.search_projection(),
            views=views,
            beam=beam,
            search_layer=search_layer,
            added=added,
            hidden_layer=self.hidden_layer,
        )

    def output_layer(self) -> tuple[Tensor, Tensor]:
        """Return W_o (V, R) and b_o (V,), by which symbols are scored from z."""
        return self.output.weight, self.output.bias

    def projection(self) -> Projection:
        """Return the function from a query s to W_s s + b, for given targets."""
        return SharedLinear(self.of_query.weight, self.of_query.bias, self.compute.bf16)

    def search_projection(self) -> Projection:
        """Return the same function for a search, without gradients."""
        return SearchLinear(self.of_query.weight, self.of_query.bias)


class LogLinearReadout(Readout):
    """p(y | s_t, x) of a Transformer whose state and source add their logits.

    z = W_x x + s, p = softmax(W_o z + b_o), which is proportional to exp(w_y s) exp(w_y W_x x).
    """

    hidden_layer: HiddenLayer = IDENTITY

    def __init__(self, sizes: Sizes, vocabulary: int) -> None:
        super().__init__(sizes, vocabulary)
        self.of_query = nn.Identity()  # type: ignore[assignment]

    def projection(self) -> Projection:
        return self.of_query

    def search_projection(self) -> Projection:
        return self.of_query


class ResidualReadout(LogLinearReadout):
    """p(y | s_t, x) of a Transformer: what the source adds joins the residual state.

    z = (x' - mean x') / std x' of x' = W_x x + s, p = softmax(W_o (g z + b) + b_o): a layer norm
    with its gain g and bias b.
    """

    hidden_layer = STANDARDIZED

    def __init__(self, sizes: Sizes, vocabulary: int) -> None:
        super().__init__(sizes, vocabulary)
        self.norm = nn.LayerNorm(sizes.query)  # g, b

    def output_layer(self) -> tuple[Tensor, Tensor]:
        """Return W_o diag(g) and W_o b + b_o, so that gain and bias cost nothing per position."""
        weight = self.output.weight * self.norm.weight
        bias = torch.addmv(self.output.bias, self.output.weight, self.norm.bias)
        return weight, bias
