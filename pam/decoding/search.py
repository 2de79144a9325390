"""Greedy and beam search, and ancestral sampling, over a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pam.data.vocabulary import BOS, EOS
from pam.decoding.constraints import Constraints, spread
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
from pam.experiments.settings import Decoding
from pam.models.kernels.search_layer import largest
from pam.models.model import Model, without_end
from pam.runtime import processor
from pam.runtime.errors import UserError
from pam.runtime.numbers import is_number, is_whole

KEEP_SHARE = 0.75  # finished sentences leave the batch once so many of it, at most, are still open
# steps after which the processor asks a GPU what has ended, as it has to wait for the answer
LOOK_EVERY = 8


def search(
    model: Model, source: Tensor, lengths: Tensor, decoding: Decoding, actions: bool = False
) -> list[Output]:
    """Find the best output for each sentence of a batch, by `beam_search`."""
    return [best for best, *_ in beam_search(model, source, lengths, decoding, actions=actions)]


# Beam search.


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
    constraints: Constraints | None = None,
) -> list[list[Output]]:
    """Decode a batch by beam search; a beam of 1 is greedy search.

    Hypotheses are extended by their log probability. One that ends leaves its place to the next
    best. A sentence is finished when no open hypothesis can come to a score above that of the last
    of the `n_best` that ended, so that a beam larger than the search space finds the best.

    A length penalty thus decides only which hypotheses need not be followed, and which of those
    that ended is best. A hypothesis outside of the beam is less probable than those in it, and so
    are all its continuations. So one search serves several penalties: it drops what is hopeless for
    each of them, and finds for each what a search with this penalty alone finds.

    On a GPU the search looks only every few steps what has ended (`steps_between_looks`), and
    follows hopeless hypotheses until then. That changes no output: all that they displace is less
    probable, and so is hopeless too.

    Args:
        model: in evaluation mode.
        source: (B, m) padded at the end.
        lengths: (B,) lengths of the sources.
        actions: whether the model writes pointer actions; steps stay in the output.
        prior: of target lengths, for `decoding.length_prior`.
        penalties: length penalties, each in place of that of `decoding`; `n_best` is then 1.
        constraints: what outputs must be like. Where they must contain words, the beam is shared
            out by how far hypotheses have come with these.

    Returns:
        For each sentence its `n_best` outputs; fewer where the beam finds fewer. Outputs that ended
        come before those that were cut short, whatever their scores, and the best first within
        both. With `penalties`, the best output by each of them, in their order.
    """
    limits = longest(lengths, decoding)
    bare_lengths = without_end(source, lengths)
    variants = [decoding]
    if penalties:
        variants = [decoding.model_copy(update={"length_penalty": power}) for power in penalties]
    rankings = [Ranking(variant, bare_lengths, limits, prior) for variant in variants]

    beams = _Beams(rankings, limits, decoding, n_best)
    forbidden = torch.tensor(forbidden_symbols(actions), device=source.device)
    bf16 = processor.usable_search_precision(decoding.precision, source.device) == "bf16"
    hypotheses = Hypotheses(model, source, lengths, decoding.beam, bf16)
    look_every = steps_between_looks(source.device)
    # Hopeless hypotheses would take places from others of the same progress.
    if constraints is not None and constraints.has_include:
        look_every = 1
    last = int(limits.max())

    for written in range(1, last + 1):
        log_probs = hypotheses.step(beams.symbol).index_fill_(2, forbidden, -torch.inf)
        forbid(log_probs, beams.written, decoding)
        asked = None
        if constraints is not None:
            asked = constraints.select(beams.rows)
            asked.forbid(log_probs, beams.written)
        parents = beams.extend(log_probs, asked)

        looks = written % look_every == 0 or written == last
        beams.collect(written, looks)
        is_open = (beams.total > -torch.inf).any(1)
        if looks and not is_open.any():
            break

        hypotheses.update(parents, beams.symbol)
        if decoding.replace_unknown:
            beams.attend(hypotheses.most_attended(bare_lengths[beams.rows]))

        # Dropping finished sentences copies the others, so it waits for a few of them.
        if looks and int(is_open.sum()) <= KEEP_SHARE * len(beams.rows):
            open_rows = is_open.nonzero().squeeze(1)
            hypotheses.keep(open_rows)
            beams.keep(open_rows)

    by_ranking = [
        [best.outputs or [NOTHING] for best in finished.best] for finished in beams.finished
    ]
    if not penalties:
        return by_ranking[0]
    return [
        [outputs[0] for outputs in of_sentence] for of_sentence in zip(*by_ranking, strict=True)
    ]


def steps_between_looks(device: torch.device) -> int:
    """Return after how many steps a search looks what has ended; outputs do not depend on it."""
    if device.type == "cpu":
        return 1
    return LOOK_EVERY


@dataclass(frozen=True)
class _Ended:
    """A hypothesis that is not extended any more."""

    log_prob: float
    complete: bool  # false where the length limit cuts it short
    written: list[int]  # symbols, with an end symbol if it is complete
    attended: list[int]  # source positions


@dataclass(frozen=True)
class _Done:
    """The hypotheses of a step, of which some are done, while they are on the device."""

    rows: Tensor  # (B,) numbers of the sentences
    is_done: Tensor  # (B, k) whether a hypothesis has ended or is too long to go on
    has_ended: Tensor  # (B, k) whether it has ended
    total: Tensor  # (B, k) log p
    written: Tensor  # (B, k, n)
    attended: Tensor  # (B, k, n - 1)


class _Finished:
    """The best outputs of each sentence of a batch so far, by one ranking.

    Attributes:
        best: of each sentence.
        threshold: (B,) the score that an output must exceed to be among them.
    """

    def __init__(self, ranking: Ranking, sentences: int, device: torch.device, n_best: int) -> None:
        self.ranking = ranking
        self.best = [Best(n_best) for _ in range(sentences)]
        self.threshold = torch.full((sentences,), -torch.inf, device=device).double()

    def add(self, rows: list[int], hypotheses: Sequence[_Ended]) -> None:
        """Offer hypotheses to the best of their sentences `rows`."""
        for row, ended in zip(rows, hypotheses, strict=True):
            score = self.ranking.score(row, ended.log_prob, len(ended.written), ended.complete)
            symbols = ended.written[:-1] if ended.complete else ended.written
            output = Output(symbols, ended.log_prob, ended.complete, score, ended.attended)
            self.best[row].add(output)

        self.threshold[rows] = self.threshold.new_tensor([self.best[row].threshold for row in rows])

    def is_lost(self, rows: Tensor, total: Tensor, written: int) -> Tensor:
        """Return (B', k), whether no continuation of an open hypothesis can be among the best.

        The arguments are those of `Ranking.bound`.
        """
        return self.ranking.bound(rows, total, written) <= self.threshold[rows, None]


class _Beams:
    """The hypotheses of a batch, k = `decoding.beam` for each of B sentences that are open.

    Attributes:
        rows: (B,) the numbers of these sentences in the batch.
        symbol: (B, k) the symbol written last.
        total: (B, k) log p of each; -inf where there is none.
        written: (B, k, n) symbols so far.
        attended: (B, k, n - 1) source positions that the symbols before the last one attended.
        finished: the outputs that ended, by each of the rankings.
    """

    def __init__(
        self, rankings: Sequence[Ranking], limits: Tensor, decoding: Decoding, n_best: int
    ) -> None:
        sentences = len(limits)
        device = limits.device
        shape = (sentences, decoding.beam)

        self.finished = [_Finished(ranking, sentences, device, n_best) for ranking in rankings]
        self.limits = limits
        self.rows = torch.arange(sentences, device=device)
        self.symbol = torch.full(shape, BOS, device=device)
        # All hypotheses of a sentence begin alike, so only the first may go on.
        self.total = torch.full(shape, -torch.inf, device=device)
        self.total[:, 0] = 0.0
        self.written = torch.empty((*shape, 0), dtype=torch.long, device=device)
        self.attended = self.written
        self.unread: list[_Done] = []  # of the steps since the search has looked

    def extend(self, log_probs: Tensor, asked: Constraints | None = None) -> Tensor:
        """Go on with the best of all continuations (B, k, V); return their parents, (B, k).

        `log_probs` are overwritten. Hypotheses that are too long to go on and lack a word that is
        `asked` for are dropped.
        """
        beam = self.symbol.shape[1]
        vocabulary = log_probs.shape[2]
        scores = log_probs.add_(self.total[:, :, None]).flatten(1)
        if asked is not None and asked.has_include:
            progress = asked.progress(self.written, vocabulary).flatten(1)
            self.total, chosen = spread(scores, progress, asked.required(), beam)
        else:
            self.total, chosen = largest(scores, beam)
        parents = chosen // vocabulary
        self.symbol = chosen - parents * vocabulary

        self.written = self.written.gather(1, _wide(parents, self.written))
        self.written = torch.cat([self.written, self.symbol[:, :, None]], 2)
        if self.attended.shape[2]:
            self.attended = self.attended.gather(1, _wide(parents, self.attended))

        if asked is not None and asked.has_include:
            # The end symbol of a complete one is no part of a word.
            is_last = (self.written.shape[2] >= self.limits[self.rows])[:, None]
            is_lacking = is_last & ~asked.has_all(self.written)
            self.total = self.total.masked_fill(is_lacking, -torch.inf)
        return parents

    def collect(self, written: int, looks: bool) -> None:
        """Take out what ended, what is too long, and what can no longer be among the best.

        If the search looks, outputs that ended join the best of their sentences; before that they
        are kept on the device.
        """
        is_alive = self.total > -torch.inf
        has_ended = (self.symbol == EOS) & is_alive
        is_done = has_ended | ((written >= self.limits[self.rows])[:, None] & is_alive)
        self.unread.append(
            _Done(self.rows, is_done, has_ended, self.total, self.written, self.attended)
        )
        if looks:
            self._finish_unread()

        losses = [finished.is_lost(self.rows, self.total, written) for finished in self.finished]
        is_hopeless = torch.stack(losses).all(0)
        self.total = self.total.masked_fill(is_done | is_hopeless, -torch.inf)

    def _finish_unread(self) -> None:
        """Offer what was done in the steps since the search has looked to the best."""
        is_any_done = torch.stack([done.is_done.any() for done in self.unread]).tolist()
        for done, is_any in zip(self.unread, is_any_done, strict=True):
            if is_any:
                self._finish(done)
        self.unread.clear()

    def _finish(self, done: _Done) -> None:
        """Offer what is done to the best of its sentence; what has not ended is cut short."""
        indices = done.is_done.nonzero(as_tuple=True)
        columns = (done.total, done.has_ended, done.written, done.attended)
        values = zip(*(column[indices].tolist() for column in columns), strict=True)
        hypotheses = [_Ended(*row_values) for row_values in values]

        rows = done.rows[indices[0]].tolist()
        for finished in self.finished:
            finished.add(rows, hypotheses)

    def attend(self, positions: Tensor) -> None:
        """Note which source positions (B, k) the symbols written last attended."""
        self.attended = torch.cat([self.attended, positions[:, :, None]], 2)

    def keep(self, sentences: Tensor) -> None:
        """Keep the given sentences only."""
        self.rows = self.rows[sentences]
        self.symbol = self.symbol[sentences]
        self.total = self.total[sentences]
        self.written = self.written[sentences]
        self.attended = self.attended[sentences]


def _wide(parents: Tensor, written: Tensor) -> Tensor:
    """Return the indices (B, k, n) that gather whole prefixes."""
    return parents[:, :, None].expand(-1, -1, written.shape[2])


# Sampling.


@dataclass(frozen=True)
class Sampling:
    """The settings by which outputs are drawn."""

    # symbols are drawn with probability proportional to p^(1 / temperature)
    temperature: float = 1.0
    seed: int = 1  # outputs depend on it and on the sentence's number, not on the batch
    top_k: int | None = None  # only so many of the most probable symbols are drawn
    # only the most probable symbols are drawn whose probability is this together, or just above
    top_p: float | None = None

    def __post_init__(self) -> None:
        """Check all; a UserError names the one that is wrong."""
        if not (is_number(self.temperature) and 0 < self.temperature < float("inf")):
            hint = "use a number above 0; below 1 is less random"
            raise UserError(f"temperature {self.temperature}", hint=hint)
        if self.seed < 0:
            raise UserError(f"seed {self.seed}", hint="use a whole number, at least 0")
        if self.top_k is not None and not (is_whole(self.top_k) and self.top_k >= 1):
            raise UserError(f"top_k {self.top_k}", hint="use a whole number, at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p {self.top_p}", hint="use a number above 0, at most 1")


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
    constraints: Constraints | None = None,
) -> list[list[Output]]:
    """Draw outputs for each sentence of a batch.

    Args:
        model: in evaluation mode.
        source: (B, m) padded at the end.
        lengths: (B,) lengths of the sources.
        decoding: length limits; its beam and its ranking do not matter.
        numbers: (B,) numbers of the sentences, so that each has random numbers of its own.
        actions: whether the model writes pointer actions; steps stay in the output.
        constraints: a prefix that outputs begin with, and words that they do not contain.

    Returns:
        For each sentence `n_best` independent outputs in the order drawn; `log_prob` is the model's
        own, whatever the temperature, and `score` is the same.
    """
    device = source.device
    limits = longest(lengths, decoding)
    bare_lengths = without_end(source, lengths)
    forbidden = torch.tensor(forbidden_symbols(actions), device=device)
    bf16 = processor.usable_search_precision(decoding.precision, device) == "bf16"
    hypotheses = Hypotheses(model, source, lengths, n_best, bf16)
    # A generator of its own for each sentence, so that outputs do not depend on the batch.
    generators = [np.random.default_rng([sampling.seed, number]) for number in numbers]

    symbol = torch.full((len(source), n_best), BOS, device=device)  # written last
    total = torch.zeros(symbol.shape, dtype=torch.float64, device=device)
    is_open = torch.ones_like(symbol, dtype=torch.bool)
    written = symbol[:, :, None][:, :, :0]  # (B, n_best, n)
    attended: list[Tensor] = []  # (B, n_best) of each step
    look_every = steps_between_looks(device)
    while written.shape[2] % look_every or is_open.any():
        log_probs = hypotheses.step(symbol).index_fill_(2, forbidden, -torch.inf)
        forbid(log_probs, written, decoding)
        if constraints is not None:
            constraints.forbid(log_probs, written)

        uniform = np.stack([generator.random(n_best) for generator in generators])
        symbol = _draw(log_probs, sampling, torch.from_numpy(uniform).to(device))
        total += torch.where(is_open, log_probs.gather(2, symbol[:, :, None]).squeeze(2), 0.0)
        written = torch.cat([written, torch.where(is_open, symbol, EOS)[:, :, None]], 2)

        hypotheses.update(None, symbol)
        if decoding.replace_unknown:
            attended.append(hypotheses.most_attended(bare_lengths))
        is_open = is_open & (symbol != EOS) & (written.shape[2] < limits)[:, None]

    positions = torch.stack(attended, 2) if attended else written[:, :, :0]
    outputs = []
    for texts, log_likelihoods, positions_of_texts, limit in zip(
        written.tolist(), total.tolist(), positions.tolist(), limits.tolist(), strict=True
    ):
        drawn = zip(texts, log_likelihoods, positions_of_texts, strict=True)
        outputs.append([_output(*values, limit) for values in drawn])
    return outputs


def _draw(log_probs: Tensor, sampling: Sampling, uniform: Tensor) -> Tensor:
    """Draw symbols (B, k) by inverting the distribution function at `uniform` (B, k) in [0, 1)."""
    probs = torch.softmax(log_probs.double() / sampling.temperature, dim=2)
    if sampling.top_k is not None:
        probs = _most_probable(probs, sampling.top_k)
    if sampling.top_p is not None and sampling.top_p < 1:
        probs = _nucleus(probs, sampling.top_p)

    weights = probs.cumsum(2)
    symbol = torch.searchsorted(weights, (uniform * weights[:, :, -1])[:, :, None], right=True)
    # Rounding may reach the very end of the distribution.
    return symbol.squeeze(2).clamp_max(log_probs.shape[2] - 1)


def _most_probable(probs: Tensor, count: int) -> Tensor:
    """Keep the `count` largest probabilities (B, k, V); the others become zero."""
    kept, symbols = probs.topk(min(count, probs.shape[2]), 2)
    return torch.zeros_like(probs).scatter_(2, symbols, kept)


def _nucleus(probs: Tensor, mass: float) -> Tensor:
    """Keep the largest probabilities (B, k, V), as few as together have `mass` of the sum.

    The others become zero (Holtzman et al. 2020).
    """
    ranked, symbols = probs.sort(dim=2, descending=True)
    total = ranked.cumsum(2)
    # A symbol is kept if those that are more probable have not enough.
    is_kept = total - ranked < mass * total[:, :, -1:]
    return torch.zeros_like(probs).scatter_(2, symbols, ranked * is_kept)


def _output(written: list[int], log_prob: float, attended: list[int], limit: int) -> Output:
    complete = EOS in written[:limit]
    length = written.index(EOS) if complete else limit
    return Output(
        symbols=written[:length],
        log_prob=log_prob,
        complete=complete,
        score=log_prob,
        attended=attended[:length],
    )
