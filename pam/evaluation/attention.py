"""What a model makes of given targets under teacher forcing: likelihood, attention, word links.

`analysis.json` holds likelihoods, and what the paper's section 4.3 looks at: how uncertain
attention is and how often the model is right then (Figure 3), how much of a sentence attention
covers (Figure 4), and which source word is attended most (Table 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pam.evaluation.metrics import Floats
from pam.io import Strict

DIGITS = 6  # after the point, in the file
COVERED = 0.5  # a source word is covered once it was attended so much in all
ENTROPY_EDGES = [0.25 * number for number in range(17)]
COVERAGE_EDGES = [round(0.05 * number, 2) for number in range(21)]

Links = list[Annotated[tuple[int, int], Field(strict=False)]]
"""A source word and a target word of each, both counted from 0; JSON has only lists."""


class Sentences(Strict):
    """One entry per row of the split, in its order."""

    nll: list[float] = Field(description="- log p(target, end | source) in nats")
    nll_exact: list[float] = Field(description="the same with the sum over all source positions")
    tokens: list[int] = Field(description="target symbols, end symbol included")
    correct: list[int] = Field(description="of them, those that were the most probable symbol")
    source_words: list[int]
    coverage: list[float] = Field(
        description="mean over source words of the attention they got in all, at most 1 each"
    )
    covered: list[float] = Field(description=f"share of source words that got {COVERED} or more")
    # For each target word the source word most attended; of a run that was stored, in hand-aligned
    # sentences alone.
    links: list[Links] | None = Field(
        None, description="word links, by the alignment handed on to the next step"
    )
    links_prior: list[Links] | None = Field(None, description="the same by the prior of the step")
    links_late: list[Links] | None = Field(
        None, description="the same by the prior of the step after"
    )
    links_posterior: list[Links] | None = Field(
        None, description="the same by the posterior given the word"
    )

    @model_validator(mode="after")
    def _equally_many(self) -> Sentences:
        columns = (getattr(self, name) for name in type(self).model_fields)
        if len({len(column) for column in columns if column is not None}) != 1:
            raise ValueError("lists of different lengths")
        return self


class Entropy(Strict):
    description: str = (
        "entropy of the prior over source positions, an end symbol included where sources have one,"
        " at each target symbol, end symbol included; correct: the most probable symbol is the"
        " reference's; what lies above the last edge is in the last bin"
    )
    unit: str = "nats"
    mean: float = Field(description="over all target symbols")
    edges: list[float] = ENTROPY_EDGES
    count: list[int]
    correct: list[int]


class Coverage(Strict):
    description: str = (
        "words: attention that a source word got over all target symbols, at most 1; sentences:"
        f" share of the source words of a sentence that got {COVERED} or more; by the alignment"
        " that is handed on, end symbols excluded on both sides"
    )
    edges: list[float] = COVERAGE_EDGES
    words: list[int]
    sentences: list[int]


class Analysis(Strict):
    """The content of `analysis.json` and `gold_analysis.json`."""

    task: str
    model: str
    label: str
    seed: int
    split: str
    sentences: Sentences
    entropy: Entropy
    coverage: Coverage
    wall_s: float
    cpu_s: float
    gpu_s: float


@dataclass(frozen=True)
class Sentence:
    """One sentence of n target symbols and m source symbols, end symbols included where there are
    some.
    """

    log_probs: Floats  # (n,) log p(y_t | y_<t, x)
    exact: Floats  # (n,) the same summed over all source positions
    correct: NDArray[np.bool_]  # (n,) whether y_t is the most probable symbol
    prior: Floats  # (n, m) distributions over source positions
    alignment: Floats  # (n, m) likewise; what is fed to the next state
    posterior: Floats  # (n, m) likewise, given the symbol
    source_words: list[int]  # for each source symbol but the end symbol the number of its word
    target_words: list[int]  # (n - 1,) likewise


@dataclass
class Gatherer:
    """Adds up what sentences show; they may come in any order."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    entropies: list[Floats] = field(default_factory=list)
    correct: list[NDArray[np.bool_]] = field(default_factory=list)
    coverage: list[Floats] = field(default_factory=list)

    def add(self, number: int, sentence: Sentence) -> None:
        """Takes in row `number` of the split."""
        # A source word gets what its symbols get; end symbols are left out on both sides.
        starts = _starts(sentence.source_words)
        read, symbols = (
            (sentence.alignment, sentence.prior, sentence.posterior),
            len(sentence.source_words),
        )
        alignment, prior, posterior = (
            np.add.reduceat(weights[:, :symbols], starts, axis=1) for weights in read
        )
        alignment, prior, late, posterior = alignment[:-1], prior[:-1], prior[1:], posterior[:-1]
        coverage = np.minimum(alignment.sum(axis=0), 1.0)
        self.rows[number] = {
            "nll": _rounded(-sentence.log_probs.sum()),
            "nll_exact": _rounded(-sentence.exact.sum()),
            "tokens": len(sentence.log_probs),
            "correct": int(sentence.correct.sum()),
            "source_words": alignment.shape[1],
            "coverage": _rounded(coverage.mean()),
            "covered": _rounded((coverage >= COVERED).mean()),
            "links": most_attended(alignment, sentence.target_words),
            "links_prior": most_attended(prior, sentence.target_words),
            "links_late": most_attended(late, sentence.target_words),
            "links_posterior": most_attended(posterior, sentence.target_words),
        }
        self.entropies.append(entropies(sentence.prior))
        self.correct.append(sentence.correct)
        self.coverage.append(coverage)

    def analysis(self, **about: Any) -> Analysis:
        """All that was gathered, and `about` it whose it is and what it cost."""
        rows = [self.rows[number] for number in sorted(self.rows)]
        columns = {key: [row[key] for row in rows] for key in Sentences.model_fields}
        nats, correct = np.concatenate(self.entropies), np.concatenate(self.correct)
        mean, count, right = fsum(nats) / len(nats), _histogram(nats, ENTROPY_EDGES), nats[correct]
        covered, words = np.array(columns["covered"]), np.concatenate(self.coverage)
        coverage = Coverage(
            words=_histogram(words, COVERAGE_EDGES), sentences=_histogram(covered, COVERAGE_EDGES)
        )
        entropy = Entropy(
            mean=round(mean, DIGITS), count=count, correct=_histogram(right, ENTROPY_EDGES)
        )
        return Analysis(sentences=Sentences(**columns), entropy=entropy, coverage=coverage, **about)


def entropies(distributions: Floats) -> Floats:
    """Entropy in nats of each row of (n, m); what has no probability adds nothing."""
    logs = np.log(np.where(distributions > 0, distributions, 1.0))
    return np.asarray(-(distributions * logs).sum(axis=1))


def most_attended(alignment: Floats, words: list[int]) -> Links:
    """For each target word its most attended source word, by `alignment` (n - 1, source words).

    A word attends as its symbols do on average (Ghader & Monz 2017, section 3); `words` (n - 1,)
    says whose each is.
    """
    if not words:
        return []
    # A sum has its largest entry where the average has it.
    of_words = np.add.reduceat(alignment, _starts(words), axis=0)
    return [(int(source), target) for target, source in enumerate(of_words.argmax(axis=1))]


def _starts(words: list[int]) -> NDArray[np.int64]:
    """Where each word begins."""
    return np.flatnonzero(np.diff(words, prepend=-1))


def _histogram(values: Floats, edges: list[float]) -> list[int]:
    """How many values are in each bin; what is beyond the edges is in the outer bins."""
    return list(np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0].tolist())


def _rounded(value: np.float64) -> float:
    return round(float(value), DIGITS)
