"""Greedy and beam search, and ancestral sampling, over a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.vocabulary import BOS, EOS
from pam.decoding.hypotheses import (
    NOTHING,
    Best,
    Hypotheses,
    LengthPrior,
    Output,
    Ranking,
    forbid,
    forbidden_symbols,
    longest,
)
from pam.models.model import Model, without_end
from pam.models.search_layer import largest
from pam.runtime import processor

KEEP_SHARE = 0.75  # finished sentences leave the batch once so many of it, at most, are still open


def search(
    model: Model, source: Tensor, lengths: Tensor, decoding: Decoding, actions: bool = False
) -> list[Output]:
    """The best output for each sentence of a batch, by `beam_search`."""
    return [best for best, *_ in beam_search(model, source, lengths, decoding, actions=actions)]


@torch.no_grad()
def beam_search(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    decoding: Decoding,
    n_best: int = 1,
    actions: bool = False,
    prior: LengthPrior | None = None,
    penalties: Sequence[float] = (),
) -> list[list[Output]]:
    """Decodes a batch by beam search; a beam of 1 is greedy search.

    Hypotheses are extended by their log probability. One that ends leaves its place to the next
    best. A sentence is finished when no open hypothesis can come to a score above that of the last
    of the `n_best` that ended, so that a beam larger than the search space finds the best.

    A length penalty thus decides nothing but which hypotheses need not be followed, and which that
        ended is best: those left off are less probable than those followed, and so is all that
        continues them. So one search serves several
    penalties: it leaves off what is hopeless for each of them, and finds for each what a search of
        its own finds.

    Args:
        model: in evaluation mode; source: (B, m) padded at the end; lengths: (B,).
        actions: whether the model writes pointer actions; steps stay in the output.
        prior: of target lengths, for `decoding.length_prior`.
        penalties: length penalties, each in place of that of `decoding`; `n_best` is then 1.

    Returns: For each sentence its `n_best` outputs, the best one first; fewer where the beam finds
        fewer. With
        `penalties`, the best output by each of them, in their order.
    """
    limits, words = longest(lengths, decoding), without_end(source, lengths)
    by_penalty = [decoding.model_copy(update={"length_penalty": one}) for one in penalties] or [
        decoding
    ]
    beams = _Beams(
        [Ranking(one, words, limits, prior) for one in by_penalty], limits, decoding, n_best
    )
    forbidden = torch.tensor(forbidden_symbols(actions), device=source.device)
    bf16 = processor.usable_search_precision(decoding.precision, source.device) == "bf16"
    hypotheses = Hypotheses(model, source, lengths, decoding.beam, bf16)
    for written in range(1, int(limits.max()) + 1):
        log_probs = hypotheses.step(beams.symbol).index_fill_(2, forbidden, -torch.inf)
        forbid(log_probs, beams.written, decoding)
        parents = beams.extend(log_probs)
        beams.collect(written)
        is_open = (beams.total > -torch.inf).any(1)
        if not is_open.any():
            break
        hypotheses.update(parents, beams.symbol)
        if decoding.replace_unknown:
            beams.attend(hypotheses.most_attended(words[beams.rows]))
        # Dropping finished sentences copies the others, so it waits for a few of them.
        if int(is_open.sum()) <= KEEP_SHARE * len(beams.rows):
            left = is_open.nonzero().squeeze(1)
            hypotheses.keep(left)
            beams.keep(left)
    found = [[best.outputs or [NOTHING] for best in race.best] for race in beams.races]
    return (
        [[outputs[0] for outputs in by_race] for by_race in zip(*found, strict=True)]
        if penalties
        else found[0]
    )


class _Race:
    """What ended, by one ranking: `best` of every sentence of a batch, and the `threshold` (B,)
    that a score must exceed to be among them.
    """

    def __init__(self, ranking: Ranking, sentences: int, device: torch.device, n_best: int) -> None:
        self.ranking = ranking
        self.best = [Best(n_best) for _ in range(sentences)]
        self.threshold = torch.full((sentences,), -torch.inf, device=device).double()

    def take(
        self, rows: list[int], ended: Sequence[tuple[float, bool, list[int], list[int]]]
    ) -> None:
        """Offers hypotheses to the best of their sentences `rows`: log p, whether complete, symbols
        with an end symbol if so, positions.
        """
        for row, (log_prob, complete, symbols, attended) in zip(rows, ended, strict=True):
            score = self.ranking.score(row, log_prob, len(symbols), complete)
            written = symbols[:-1] if complete else symbols
            self.best[row].add(Output(written, log_prob, complete, score, attended))
        self.threshold[rows] = self.threshold.new_tensor([self.best[row].threshold for row in rows])

    def is_lost(self, rows: Tensor, total: Tensor, written: int) -> Tensor:
        """Whether nothing that continues an open hypothesis can be among the best; arguments of
        `Ranking.bound`.
        """
        return self.ranking.bound(rows, total, written) <= self.threshold[rows, None]


class _Beams:
    """The hypotheses of a batch, k = `decoding.beam` for each of B sentences that are open.

    Attributes:
        rows: (B,) which sentences of the batch these are.
        symbol: (B, k) the symbol written last.
        total: (B, k) log p of each; -inf where there is none.
        written: (B, k, n) symbols so far; attended: (B, k, n - 1) positions of those before.
        races: what ended, by each of the rankings.
    """

    def __init__(
        self, rankings: Sequence[Ranking], limits: Tensor, decoding: Decoding, n_best: int
    ) -> None:
        sentences, device = len(limits), limits.device
        shape = (sentences, decoding.beam)
        self.races = [_Race(ranking, sentences, device, n_best) for ranking in rankings]
        self.limits = limits
        self.rows = torch.arange(sentences, device=device)
        self.symbol = torch.full(shape, BOS, device=device)
        # All places of a sentence begin alike, so only the first may go on.
        self.total = torch.full(shape, -torch.inf, device=device)
        self.total[:, 0] = 0.0
        self.written = torch.empty((*shape, 0), dtype=torch.long, device=device)
        self.attended = self.written

    def extend(self, log_probs: Tensor) -> Tensor:
        """Goes on with the best of all continuations (B, k, V), which are overwritten; their
        parents, (B, k).
        """
        beam, vocabulary = self.symbol.shape[1], log_probs.shape[2]
        self.total, chosen = largest(log_probs.add_(self.total[:, :, None]).flatten(1), beam)
        parents = chosen // vocabulary
        self.symbol = chosen - parents * vocabulary
        self.written = self.written.gather(1, _wide(parents, self.written))
        self.written = torch.cat([self.written, self.symbol[:, :, None]], 2)
        if self.attended.shape[2]:
            self.attended = self.attended.gather(1, _wide(parents, self.attended))
        return parents

    def collect(self, written: int) -> None:
        """Takes out what ended, what is too long, and what can no longer be among the best."""
        alive = self.total > -torch.inf
        ended = (self.symbol == EOS) & alive
        done = ended | ((written >= self.limits[self.rows])[:, None] & alive)
        if done.any():
            self._take(done, ended)
        hopeless = torch.stack(
            [race.is_lost(self.rows, self.total, written) for race in self.races]
        ).all(0)
        self.total = self.total.masked_fill(done | hopeless, -torch.inf)

    def _take(self, done: Tensor, ended: Tensor) -> None:
        """Offers hypotheses to the best of their sentences; those not `ended` are cut short."""
        places = done.nonzero(as_tuple=True)
        parts = (self.total[places], ended[places], self.written[places], self.attended[places])
        found = list(zip(*(part.tolist() for part in parts), strict=True))
        rows = self.rows[places[0]].tolist()
        for race in self.races:
            race.take(rows, found)

    def attend(self, positions: Tensor) -> None:
        """Notes which source positions (B, k) the symbols written last attended."""
        self.attended = torch.cat([self.attended, positions[:, :, None]], 2)

    def keep(self, left: Tensor) -> None:
        """Keeps the given sentences only."""
        self.rows, self.symbol, self.total = self.rows[left], self.symbol[left], self.total[left]
        self.written, self.attended = self.written[left], self.attended[left]


def _wide(parents: Tensor, written: Tensor) -> Tensor:
    """Indices (B, k, n) that gather whole prefixes."""
    return parents[:, :, None].expand(-1, -1, written.shape[2])


@dataclass(frozen=True)
class Sampling:
    """How outputs are drawn."""

    temperature: float = (
        1.0  # symbols are drawn with probability proportional to p^(1 / temperature)
    )
    seed: int = 1  # outputs depend on it and on the sentence's number, not on the batch


@torch.no_grad()
def sample(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    decoding: Decoding,
    sampling: Sampling,
    numbers: Sequence[int],
    n_best: int = 1,
    actions: bool = False,
) -> list[list[Output]]:
    """Draws outputs for each sentence of a batch.

    Args:
        model: in evaluation mode; source: (B, m) padded at the end; lengths: (B,).
        decoding: length limits; its beam and its ranking do not matter.
        numbers: (B,) what tells the sentences apart, so that each has random numbers of its own.
        actions: whether the model writes pointer actions; steps stay in the output.

    Returns:
        For each sentence `n_best` independent outputs in the order drawn; `log_prob` is the model's
        own, whatever the temperature, and `score` is the same.
    """
    limits, words, device = longest(lengths, decoding), without_end(source, lengths), source.device
    forbidden = torch.tensor(forbidden_symbols(actions), device=device)
    bf16 = processor.usable_search_precision(decoding.precision, device) == "bf16"
    hypotheses = Hypotheses(model, source, lengths, n_best, bf16)
    generators = [np.random.default_rng([sampling.seed, number]) for number in numbers]
    symbol = torch.full((len(source), n_best), BOS, device=device)
    total = torch.zeros(symbol.shape, dtype=torch.float64, device=device)
    is_open = torch.ones_like(symbol, dtype=torch.bool)
    symbols, attended = symbol[:, :, None][:, :, :0], []
    while is_open.any():
        log_probs = hypotheses.step(symbol).index_fill_(2, forbidden, -torch.inf)
        forbid(log_probs, symbols, decoding)
        uniform = np.stack([generator.random(n_best) for generator in generators])
        symbol = _draw(log_probs, sampling.temperature, torch.from_numpy(uniform).to(device))
        total += torch.where(is_open, log_probs.gather(2, symbol[:, :, None]).squeeze(2), 0.0)
        symbols = torch.cat([symbols, torch.where(is_open, symbol, EOS)[:, :, None]], 2)
        hypotheses.update(None, symbol)
        if decoding.replace_unknown:
            attended.append(hypotheses.most_attended(words))
        is_open = is_open & (symbol != EOS) & (symbols.shape[2] < limits)[:, None]
    positions = torch.stack(attended, 2) if attended else symbols[:, :, :0]
    drawn = zip(*(part.tolist() for part in (symbols, total, positions, limits)), strict=True)
    return [
        [_output(*one, limit) for one in zip(texts, log_probs, attended, strict=True)]
        for texts, log_probs, attended, limit in drawn
    ]


def _draw(log_probs: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """Symbols (B, k) by inverting the distribution function at `uniform` (B, k) in [0, 1)."""
    weights = torch.softmax(log_probs.double() / temperature, dim=2).cumsum(2)
    symbol = torch.searchsorted(weights, (uniform * weights[:, :, -1])[:, :, None], right=True)
    # Rounding may reach the very end of the distribution.
    return symbol.squeeze(2).clamp_max(log_probs.shape[2] - 1)


def _output(written: list[int], log_prob: float, attended: list[int], limit: int) -> Output:
    complete = EOS in written[:limit]
    length = written.index(EOS) if complete else limit
    return Output(written[:length], log_prob, complete, log_prob, attended[:length])
