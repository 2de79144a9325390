"""The output layer in search: p(y) of every symbol, of which nothing is kept for a gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.kernels import SearchLinear
from pam.models.output_kernels import ON_CUDA, OutputLayer, Pairs, pieces

BEST = 16  # symbols of which search knows the probability in float32, at least
PIECE = 1 << 22  # bytes of distributions that are made and summed at a time
# distributions at a time, however large the vocabulary: each piece reads all weights of the layer
LEAST = 64
COLUMN = 8  # numbers of which the largest is found first, where many are looked through


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of (n, N), in falling order, and their places: (n, count)
    each.

    What `topk` finds, of which it takes three times as long over many: the largest are in the
    columns, `COLUMN` numbers each, that have the largest maxima.
    """
    columns = values.shape[1] // COLUMN
    if columns < COLUMN * count:
        return values.topk(count, dim=1)
    whole = columns * COLUMN
    table = values[:, :whole].unflatten(1, (COLUMN, columns))
    best = table.amax(1).topk(count, dim=1).indices
    rest = torch.arange(whole, values.shape[1], device=values.device).expand(len(values), -1)
    # (n, COLUMN, count)
    within = columns * torch.arange(COLUMN, device=values.device)[:, None] + best[:, None]
    places = torch.cat([within.flatten(1), rest], 1)
    found, order = values.gather(1, places).topk(count, dim=1)
    return found, places.gather(1, order)


class SearchLayer(OutputLayer):
    """softmax(W z + b) of z = tanh(x).

    With `bf16`, the products with all of W are taken in bfloat16, and so are off by 0.01 where a
    logit is 5. What of that enters a score is corrected: the logits of the likeliest symbols are
    computed once more in
        float32, and their share of the sum over all symbols with them. The rest of the sum has
        little weight, and many errors that cancel out.

    Args:
        weight: (V, R); bias: (V,).
        beam: hypotheses of a sentence; as many symbols are corrected, or `BEST` if that is more.
        bf16: whether large products are taken in bfloat16.
    """

    def __init__(self, weight: Tensor, bias: Tensor, beam: int = 1, bf16: bool = False) -> None:
        weight, bias = weight.detach(), bias.detach()
        super().__init__(weight, bias)
        self.linear, self.corrects = SearchLinear(weight, bias, bf16), bf16
        self.best = min(max(BEST, beam), len(weight))

    @property
    def most(self) -> int:
        return max(LEAST, PIECE * (ON_CUDA if self.weight.is_cuda else 1) // self.bytes)

    def logits(self, z: Tensor) -> Tensor:
        """W z + b for z (n, R): (n, V), overwritten by the next call."""
        return self.linear(z, self._rows("logits", len(z)))

    @torch.no_grad()
    def log_probs(self, z: Tensor) -> Tensor:
        """log softmax(W z + b) for z (n, R): (n, V), overwritten by the next call."""
        logits = self.logits(z)
        if not self.corrects:
            return torch.log_softmax(logits, dim=1, out=logits)
        top, symbols = largest(logits, self.best)
        log_probs = torch.log_softmax(logits, dim=1, out=logits)
        rough = log_probs.gather(1, symbols)
        norms = top[:, :1] - rough[:, :1]
        exact, rise = self.corrected(z[:, None], symbols, norms, rough[:, None].exp())
        return log_probs.sub_(rise).scatter_(1, symbols, exact.squeeze(1))

    def exact(self, z: Tensor, symbols: Tensor) -> Tensor:
        """Logits of some symbols (n, K) at every position, in float32: z (n, m, R) to (n, m, K)."""
        weight = self.weight.index_select(0, symbols.flatten()).view(*symbols.shape, -1)
        return torch.baddbmm(self.bias[symbols][:, None], z, weight.transpose(1, 2))

    def corrected(
        self, z: Tensor, symbols: Tensor, norms: Tensor, rough: Tensor
    ) -> tuple[Tensor, Tensor]:
        """log p of the likeliest symbols (n, K) with their logits in float32, and what is to be
        added to the norms.

        Args:
            z: (n, m, R); norms: (n, m) log sum exp of logits in bfloat16; rough: (n, m, K) p by
                them.

        Returns: (n, m, K) and (n, m).
        """
        log_probs = self.exact(z, symbols) - norms[:, :, None]
        rise = torch.log1p((log_probs.exp() - rough).sum(2))
        return log_probs - rise[:, :, None], rise


class Lines:
    """The pairs of each row side by side, (n, k), where k is the most that a row has; of all m
    positions few may count.

    What a row's pairs share is then multiplied with all of them at once.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        if not pairs.whole:
            counts = pairs.kept.sum(1)
            self.most, first = int(counts.max()), counts.cumsum(0) - counts
            numbers = torch.arange(len(pairs.rows), device=counts.device)
            self.places = pairs.rows * self.most + numbers - first[pairs.rows]

    def of(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """Values (P, ...) of the pairs to (n, k, ...)."""
        if self.pairs.whole:
            return self.pairs.spread(values)
        lines = values.new_full((len(self.pairs.kept) * self.most, *values.shape[1:]), fill)
        return lines.index_copy_(0, self.places, values).view(-1, self.most, *values.shape[1:])

    def back(self, lines: Tensor) -> Tensor:
        """Values (n, k) to all positions, (n, m), zeros elsewhere."""
        return (
            lines
            if self.pairs.whole
            else self.pairs.spread(lines.flatten().index_select(0, self.places))
        )


class SearchedMixture:
    """sum_a w(a) p(y | x_a) of every symbol, with x_a = W_x h_a + W_s s + b.

    Distributions of positions are made and summed a few rows at a time, as all of them together are
    many times larger than any cache. Those that fit into a piece stay; of others the normalizers
    do.

    Args:
        views: (B, m, R) W_x h_a; query: (n, R) W_s s + b; weights: (n, m) probabilities.
        kept: (n, m) which positions count, at least one in each row; sentences: (n,) the sentence
            of each row.
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
    ) -> None:
        self.views, self.query, self.kept, self.sentences, self.layer = (
            views,
            query,
            kept,
            sentences,
            layer,
        )
        self.sums = weights.new_empty(len(weights), layer.width)
        self.norms = torch.zeros_like(weights)
        fits = not layer.corrects and kept.numel() <= layer.most
        self.probs = layer.weight.new_empty(*kept.shape, layer.width) if fits else None
        for rows, pairs in pieces(kept, sentences, layer):
            z = pairs.hidden(views, query[rows])
            self._sum(rows, pairs, z, weights[rows] * pairs.kept)

    def _sum(self, rows: slice, pairs: Pairs, z: Tensor, weights: Tensor) -> None:
        """Sums the pairs (P, R) of some rows."""
        logits = self.layer.logits(z)
        top = logits.amax(1) if self.probs is None else None
        probs = torch.softmax(logits, dim=1, out=logits)
        if self.probs is not None:
            self.probs[rows] = pairs.spread(probs)
        elif top is not None:
            self.norms[rows] = pairs.spread(top - probs.amax(1).log())
        if pairs.whole:
            sums = torch.bmm(weights[:, None], probs.view(*weights.shape, -1)).squeeze(1)
        else:
            # One product sums the positions of each row: its weights are zero at those of others.
            block = probs.new_zeros(len(weights), len(probs))
            block[pairs.rows, torch.arange(len(probs), device=probs.device)] = pairs.of(weights)
            sums = block @ probs
        if self.layer.corrects:
            symbols = largest(sums, self.layer.best)[1]
            of_pairs = symbols.index_select(
                0, pairs.of_rows(torch.arange(len(sums), device=sums.device))
            )
            lines = Lines(pairs)
            norms = lines.of(pairs.of(self.norms[rows]), torch.inf)
            exact, rise = self.layer.corrected(
                lines.of(z), symbols, norms, lines.of(probs.gather(1, of_pairs))
            )
            self.norms[rows] += lines.back(rise)
            of_best = (lines.of(pairs.of(weights))[:, None] @ exact.exp()).squeeze(1)
            sums.scatter_(1, symbols, of_best)
        self.sums[rows] = sums

    def log_probs(self) -> Tensor:
        """Their logarithms, (n, V), written over them."""
        return self.sums.clamp_min_(torch.finfo(self.sums.dtype).tiny).log_()

    @torch.no_grad()
    def log_likelihood(self, rows: Tensor, symbols: Tensor) -> Tensor:
        """log p(y | x_a) of one symbol (r,) each for some of the rows (r,): (r, m)."""
        if self.probs is not None:
            positions = torch.arange(self.kept.shape[1], device=rows.device)
            likely = self.probs[rows[:, None], positions, symbols[:, None]]
            return likely.clamp_min(torch.finfo(likely.dtype).tiny).log()
        pairs = Pairs(self.kept[rows], self.layer.width, self.sentences[rows])
        lines = Lines(pairs)
        z = lines.of(pairs.hidden(self.views, self.query[rows]))
        return lines.back(self.layer.exact(z, symbols[:, None]).squeeze(2)) - self.norms[rows]
