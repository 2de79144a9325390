"""The output layer in search: p(y) of every symbol, of which nothing is kept for a gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.kernels.hidden_layers import IDENTITY, TANH, HiddenLayer
from pam.models.kernels.linear import SearchLinear
from pam.models.kernels.log_linear import PositionLogits, log_linear_mixture
from pam.models.kernels.output_layer import CUDA_PIECES, OutputLayer
from pam.models.kernels.pairs import Pairs, pieces

BEST = 16  # symbols of which search knows the probability in float32, at least
PIECE = 1 << 22  # bytes of distributions that are made and summed at a time
# distributions at a time, however large the vocabulary: each piece reads all weights of the layer
LEAST = 64
ADDED = 1 << 28  # bytes at most of what all positions of a batch add to the logits
COLUMN = 8  # numbers of which the largest is found first, where many are looked through


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest of each row of (n, N), in falling order, and their indices.

    (n, count) each. This is what `topk` computes, but over many numbers it takes three times as
    long: the largest are in the columns, `COLUMN` numbers each, that have the largest maxima.
    """
    columns = values.shape[1] // COLUMN
    if columns < COLUMN * count:
        return values.topk(count, dim=1)

    # Find the columns with the largest maxima.
    covered = columns * COLUMN
    table = values[:, :covered].unflatten(1, (COLUMN, columns))
    best_columns = table.amax(1).topk(count, dim=1).indices

    # Look through these columns, (n, COLUMN, count), and the numbers that are in no column.
    column_starts = columns * torch.arange(COLUMN, device=values.device)[:, None]
    in_columns = (column_starts + best_columns[:, None]).flatten(1)
    uncovered = torch.arange(covered, values.shape[1], device=values.device)
    candidates = torch.cat([in_columns, uncovered.expand(len(values), -1)], 1)

    best, order = values.gather(1, candidates).topk(count, dim=1)
    return best, candidates.gather(1, order)


class SearchLayer(OutputLayer):
    """softmax(W z + b) of the hidden layer z of u, for search.

    With `bf16`, the products with all of W are taken in bfloat16, and so are off by 0.01 where a
    logit is 5. The part of this error that enters a score is corrected: the logits of the likeliest
    symbols are computed once more in float32, and their share of the sum over all symbols with
    them. The rest of the sum has little weight, and many errors that cancel out.

    Args:
        weight: (V, R); bias: (V,).
        beam: hypotheses of a sentence; as many symbols are corrected, or `BEST` if that is more.
        bf16: whether large products are taken in bfloat16.
        hidden_layer: makes z of u.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        beam: int = 1,
        bf16: bool = False,
        hidden_layer: HiddenLayer = TANH,
    ) -> None:
        weight = weight.detach()
        bias = bias.detach()
        super().__init__(weight, bias, hidden_layer=hidden_layer)

        self.linear = SearchLinear(weight, bias, bf16)
        self.corrects = bf16
        self.best = min(max(BEST, beam), len(weight))

    @property
    def piece_rows(self) -> int:
        piece_bytes = PIECE
        if self.weight.is_cuda:
            piece_bytes = PIECE * CUDA_PIECES
        return max(LEAST, piece_bytes // self.distribution_bytes)

    def logits(self, z: Tensor) -> Tensor:
        """Return W z + b for z (n, R): (n, V), overwritten by the next call."""
        return self.linear(z, self._rows("logits", len(z)))

    @torch.no_grad()
    def log_probs(self, z: Tensor) -> Tensor:
        """Return log softmax(W z + b) for z (n, R): (n, V), overwritten by the next call."""
        logits = self.logits(z)
        if not self.corrects:
            return torch.log_softmax(logits, dim=1, out=logits)

        top, symbols = largest(logits, self.best)
        log_probs = torch.log_softmax(logits, dim=1, out=logits)

        # Correct the likeliest symbols, and with them the sum over all symbols.
        rough = log_probs.gather(1, symbols)
        norms = top[:, :1] - rough[:, :1]
        exact, rise = self.corrected(z[:, None], symbols, norms, rough[:, None].exp())
        return log_probs.sub_(rise).scatter_(1, symbols, exact.squeeze(1))

    def exact(self, z: Tensor, symbols: Tensor) -> Tensor:
        """Return the logits in float32 of some symbols (n, K) at every position.

        z (n, m, R) to (n, m, K).
        """
        weight = self.weight.index_select(0, symbols.flatten()).view(*symbols.shape, -1)
        return torch.baddbmm(self.bias[symbols][:, None], z, weight.transpose(1, 2))

    def corrected(
        self, z: Tensor, symbols: Tensor, norms: Tensor, rough: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Correct log p of the likeliest symbols by their logits in float32.

        Args:
            z: (n, m, R); symbols: (n, K).
            norms: (n, m) log sum exp of logits in bfloat16; rough: (n, m, K) p by them.

        Returns: log p, (n, m, K), and what is to be added to the norms, (n, m).
        """
        log_probs = self.exact(z, symbols) - norms[:, :, None]
        rise = torch.log1p((log_probs.exp() - rough).sum(2))

        return log_probs - rise[:, :, None], rise


class Lines:
    """The pairs of each row side by side, (n, k), where k is the most that a row has.

    Of all m positions few may count. What the pairs of a row share is then multiplied with all of
    them at once.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        if pairs.whole:
            return

        counts = pairs.kept.sum(1)
        first = counts.cumsum(0) - counts  # the number of each row's first pair
        self.width = int(counts.max())
        numbers = torch.arange(len(pairs.rows), device=counts.device)
        self.index = pairs.rows * self.width + numbers - first[pairs.rows]

    def arrange(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """Put the values (P, ...) of the pairs into (n, k, ...)."""
        if self.pairs.whole:
            return self.pairs.spread(values)

        trailing = values.shape[1:]
        lines = values.new_full((len(self.pairs.kept) * self.width, *trailing), fill)
        return lines.index_copy_(0, self.index, values).view(-1, self.width, *trailing)

    def spread(self, lines: Tensor) -> Tensor:
        """Put values (n, k) back to all positions, (n, m), zeros elsewhere."""
        if self.pairs.whole:
            return lines
        return self.pairs.spread(lines.flatten().index_select(0, self.index))


class SearchedMixture:
    """sum_a w(a) p(y | x_a) of every symbol, with x_a = W_x h_a + W_s s + b.

    Distributions of positions are made and summed a few rows at a time, as all of them together are
    many times larger than any cache. They are kept if they fit into a piece; if not, their
    normalizers are. Where positions add to the logits, two products of matrices take their place,
    always in float32.

    Args:
        views: (B, m, R) W_x h_a; query: (n, R) W_s s + b; weights: (n, m) probabilities.
        kept: (n, m) which positions count, at least one in each row.
        sentences: (n,) the sentence of each row.
        added: what positions add to the logits, the same in all steps; None: see `position_logits`.
    """

    @torch.no_grad()
    def __init__(
        self,
        views: Tensor,
        query: Tensor,
        weights: Tensor,
        kept: Tensor,
        sentences: Tensor,
        layer: SearchLayer,
        added: PositionLogits | None = None,
    ) -> None:
        self.views = views
        self.query = query
        self.kept = kept
        self.sentences = sentences
        self.layer = layer

        self.probs: Tensor | None = None
        if added is not None and self._sum_by_products(added, weights * kept):
            return

        self.sums = weights.new_empty(len(weights), layer.width)
        self.norms = torch.zeros_like(weights)
        if not layer.corrects and kept.numel() <= layer.piece_rows:
            self.probs = layer.weight.new_empty(*kept.shape, layer.width)

        for rows, pairs in pieces(kept, sentences, layer):
            z = layer.hidden_layer.overwrite(pairs.pre_activations(views, query[rows])).z
            self._sum(rows, pairs, z, weights[rows] * pairs.kept)

    def _sum_by_products(self, added: PositionLogits, weights: Tensor) -> bool:
        """Sum all distributions, with weights (n, m), unless that is not precise; tell whether."""
        by_sentence = (len(self.views), -1)
        mixture = log_linear_mixture(
            added=added,
            queries=self.query.unflatten(0, by_sentence),
            weights=weights.unflatten(0, by_sentence),
            weight=self.layer.weight,
            bias=self.layer.bias,
        )
        if mixture is None:
            return False

        self.sums = mixture.probs().flatten(0, 1)
        self.norms = mixture.log_normalizers.flatten(0, 1)
        return True

    def _sum(self, rows: slice, pairs: Pairs, z: Tensor, weights: Tensor) -> None:
        """Sum the distributions of some rows, with z (P, R) and weights (n, m)."""
        logits = self.layer.logits(z)
        if self.probs is not None:
            probs = torch.softmax(logits, dim=1, out=logits)
            self.probs[rows] = pairs.spread(probs)
        else:
            top = logits.amax(1)
            probs = torch.softmax(logits, dim=1, out=logits)
            self.norms[rows] = pairs.spread(top - probs.amax(1).log())

        if pairs.whole:
            sums = torch.bmm(weights[:, None], probs.view(*weights.shape, -1)).squeeze(1)
        else:
            # One product sums the positions of each row: its weights are zero at those of others.
            block = probs.new_zeros(len(weights), len(probs))
            pair_numbers = torch.arange(len(probs), device=probs.device)
            block[pairs.rows, pair_numbers] = pairs.pick(weights)
            sums = block @ probs

        if self.layer.corrects:
            self._correct(rows, pairs, z, weights, probs, sums)
        self.sums[rows] = sums

    def _correct(
        self, rows: slice, pairs: Pairs, z: Tensor, weights: Tensor, probs: Tensor, sums: Tensor
    ) -> None:
        """Correct the sums (n, V) and the norms of some rows at the likeliest symbols."""
        _, symbols = largest(sums, self.layer.best)
        row_of_pair = pairs.expand_rows(torch.arange(len(sums), device=sums.device))
        pair_symbols = symbols.index_select(0, row_of_pair)

        lines = Lines(pairs)
        norms = lines.arrange(pairs.pick(self.norms[rows]), torch.inf)
        rough = lines.arrange(probs.gather(1, pair_symbols))
        exact, rise = self.layer.corrected(lines.arrange(z), symbols, norms, rough)
        self.norms[rows] += lines.spread(rise)

        line_weights = lines.arrange(pairs.pick(weights))
        corrected = (line_weights[:, None] @ exact.exp()).squeeze(1)
        sums.scatter_(1, symbols, corrected)

    def log_probs(self) -> Tensor:
        """Return the logarithms of the sums, (n, V), written over them."""
        return self.sums.clamp_min_(torch.finfo(self.sums.dtype).tiny).log_()

    @torch.no_grad()
    def log_likelihood(self, rows: Tensor, symbols: Tensor) -> Tensor:
        """Return log p(y | x_a), (r, m), of one symbol (r,) each for some of the rows (r,)."""
        if self.probs is not None:
            positions = torch.arange(self.kept.shape[1], device=rows.device)
            likely = self.probs[rows[:, None], positions, symbols[:, None]]
            return likely.clamp_min(torch.finfo(likely.dtype).tiny).log()

        pairs = Pairs(self.kept[rows], self.layer.width, self.sentences[rows])
        lines = Lines(pairs)
        hidden = self.layer.hidden_layer.overwrite(
            pairs.pre_activations(self.views, self.query[rows])
        )
        z = lines.arrange(hidden.z)
        logits = self.layer.exact(z, symbols[:, None]).squeeze(2)
        return lines.spread(logits) - self.norms[rows]


@torch.no_grad()
def position_logits(views: Tensor, layer: SearchLayer) -> PositionLogits | None:
    """Return what positions add to the logits, for a search; None: logits are not added.

    None too where they would take more than `ADDED` bytes.

    Args:
        views: (B, m, R) W_x h_a.
    """
    rows, positions = views.shape[:2]
    is_large = rows * positions * layer.distribution_bytes > ADDED
    if layer.hidden_layer is not IDENTITY or is_large:
        return None
    return PositionLogits.of(views, layer.weight)
