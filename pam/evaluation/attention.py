"""Likelihood, attention and word links of targets under teacher forcing: `analysis.json`.

It holds likelihoods, and the subjects of the paper's section 4.3: how uncertain attention is and
how often the model is right then (Figure 3), how much of a sentence attention covers (Figure 4),
and which source word is attended most (Table 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pam.evaluation.metrics import Floats
from pam.experiments.parsing import Strict

DIGITS = 6  # after the point, in the file
COVERED = 0.5  # attention in all, from which on a source word is covered
ENTROPY_EDGES = [0.25 * number for number in range(17)]
COVERAGE_EDGES = [round(0.05 * number, 2) for number in range(21)]

Links = list[Annotated[tuple[int, int], Field(strict=False)]]
"""Pairs of a source word and a target word, counted from 0; not strict, as JSON has only lists."""


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
    posterior_gain: list[float] | None = Field(
        None,
        description="sum over target symbols, end symbol included, of KL(posterior || prior) in"
        " nats; of models whose positions have likelihoods",
    )
    # For each target word the source word most attended. Stored runs have them only of
    # hand-aligned sentences.
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
    links_heads: list[dict[str, Links]] | None = Field(
        None, description="the same by each head of a Transformer; late: of the step after"
    )
    links_shift_att: list[dict[str, Links]] | None = Field(
        None,
        description="the same by the mean of the heads of each layer, of the step after"
        " (Chen et al. 2020)",
    )

    @model_validator(mode="after")
    def _equally_many(self) -> Sentences:
        columns = (getattr(self, name) for name in type(self).model_fields)
        if len({len(column) for column in columns if column is not None}) != 1:
            raise ValueError("lists of different lengths")
        return self


class Entropy(Strict):
    description: str = (
        "entropy of a distribution over source positions, an end symbol included where sources have"
        " one, at each target symbol, end symbol included; correct: the most probable symbol is the"
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
    entropy: Entropy = Field(description="of the prior")
    posterior_entropy: Entropy | None = Field(
        None, description="of the posterior, given the symbol; null: not measured"
    )
    coverage: Coverage
    wall_s: float
    cpu_s: float
    gpu_s: float


@dataclass(frozen=True)
class Sentence:
    """One sentence of n target symbols and m source symbols, with any end symbols."""

    log_probs: Floats  # (n,) log p(y_t | y_<t, x)
    exact: Floats  # (n,) the same summed over all source positions
    correct: NDArray[np.bool_]  # (n,) whether y_t is the most probable symbol
    prior: Floats  # (n, m) distributions over source positions
    alignment: Floats  # (n, m) likewise; what is fed to the next state
    posterior: Floats  # (n, m) likewise, given the symbol
    source_words: list[int]  # for each source symbol but the end symbol, the index of its word
    target_words: list[int]  # (n - 1,) likewise
    gives_positions: bool = False  # whether the posterior is by Bayes' rule
    # the alignments (n, m) of the heads of a model that has several, by names such as
    # `layer 1, head 2`
    heads: dict[str, Floats] = field(default_factory=dict)


@dataclass
class Gatherer:
    """A collector of measures of sentences, which may come in any order."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    entropies: list[Floats] = field(default_factory=list)  # of priors
    posterior_entropies: list[Floats] = field(default_factory=list)
    correct: list[NDArray[np.bool_]] = field(default_factory=list)
    coverage: list[Floats] = field(default_factory=list)

    def add(self, row_index: int, sentence: Sentence) -> None:
        """Take in a row of the split."""
        # End symbols are left out on both sides. The prior of the next step is the `late` reading.
        alignment = _of_source_words(sentence.alignment, sentence.source_words)[:-1]
        posterior = _of_source_words(sentence.posterior, sentence.source_words)[:-1]
        priors = _of_source_words(sentence.prior, sentence.source_words)
        prior = priors[:-1]
        late = priors[1:]
        coverage = np.minimum(alignment.sum(axis=0), 1.0)

        self.rows[row_index] = {
            "nll": _rounded(-sentence.log_probs.sum()),
            "nll_exact": _rounded(-sentence.exact.sum()),
            "tokens": len(sentence.log_probs),
            "correct": int(sentence.correct.sum()),
            "source_words": alignment.shape[1],
            "coverage": _rounded(coverage.mean()),
            "covered": _rounded((coverage >= COVERED).mean()),
            "posterior_gain": _posterior_gain(sentence),
            "links": most_attended(alignment, sentence.target_words),
            "links_prior": most_attended(prior, sentence.target_words),
            "links_late": most_attended(late, sentence.target_words),
            "links_posterior": most_attended(posterior, sentence.target_words),
            "links_heads": _links_of_heads(sentence),
            "links_shift_att": _links_of_layers(sentence),
        }

        self.entropies.append(entropies(sentence.prior))
        self.posterior_entropies.append(entropies(sentence.posterior))
        self.correct.append(sentence.correct)
        self.coverage.append(coverage)

    def analysis(self, **about: Any) -> Analysis:
        """Return all that was gathered.

        Args:
            about: further fields of `Analysis`: which model was analyzed, and the cost.
        """
        rows = [self.rows[row_index] for row_index in sorted(self.rows)]
        columns = {key: [row[key] for row in rows] for key in Sentences.model_fields}
        if not any(columns["links_heads"]):
            del columns["links_heads"]
            del columns["links_shift_att"]
        if None in columns["posterior_gain"]:
            del columns["posterior_gain"]

        coverage = Coverage(
            words=_histogram(np.concatenate(self.coverage), COVERAGE_EDGES),
            sentences=_histogram(np.array(columns["covered"]), COVERAGE_EDGES),
        )

        return Analysis(
            sentences=Sentences(**columns),
            entropy=self._entropy(self.entropies),
            posterior_entropy=self._entropy(self.posterior_entropies),
            coverage=coverage,
            **about,
        )

    def _entropy(self, nats_of_sentences: Sequence[Floats]) -> Entropy:
        nats = np.concatenate(nats_of_sentences)
        is_correct = np.concatenate(self.correct)
        return Entropy(
            # An exact sum does not depend on the order in which batches came.
            mean=round(fsum(nats) / len(nats), DIGITS),
            count=_histogram(nats, ENTROPY_EDGES),
            correct=_histogram(nats[is_correct], ENTROPY_EDGES),
        )


def entropies(distributions: Floats) -> Floats:
    """Return the entropy in nats of each row of (n, m); zero probabilities add nothing."""
    # log 1 in place of log 0, which would be infinite, times 0.
    logs = np.log(np.where(distributions > 0, distributions, 1.0))
    return np.asarray(-(distributions * logs).sum(axis=1))


def _posterior_gain(sentence: Sentence) -> float | None:
    """Return the nats by which the symbols of a sentence tell where they come from."""
    if not sentence.gives_positions:
        return None

    prior = sentence.prior
    posterior = sentence.posterior
    is_possible = (posterior > 0) & (prior > 0)
    ratio = np.divide(posterior, prior, out=np.ones_like(prior), where=is_possible)
    return _rounded((posterior * np.log(ratio)).sum())


def most_attended(alignment: Floats, words: list[int]) -> Links:
    """Link each target word to its most attended source word.

    A word attends as its symbols do on average (Ghader & Monz 2017, section 3).

    Args:
        alignment: (n - 1, source words) the attention of target symbols.
        words: (n - 1,) the index of the word that each target symbol belongs to.
    """
    if not words:
        return []

    # A sum has its largest entry where the average has it.
    of_words = np.add.reduceat(alignment, _starts(words), axis=0)
    return [(int(source), target) for target, source in enumerate(of_words.argmax(axis=1))]


def _links_of_heads(sentence: Sentence) -> dict[str, Links]:
    """Link target words by each head, at the step that writes a word and at the step after."""
    links = {}
    for name, weights in sentence.heads.items():
        of_words = _of_source_words(weights, sentence.source_words)
        links[name] = most_attended(of_words[:-1], sentence.target_words)
        links[f"{name}, late"] = most_attended(of_words[1:], sentence.target_words)
    return links


def _links_of_layers(sentence: Sentence) -> dict[str, Links]:
    """Link target words by the mean of each layer's heads at the step whose input is the word."""
    heads_of_layer: dict[str, list[Floats]] = {}
    for name, weights in sentence.heads.items():
        layer, _, _ = name.partition(",")
        heads_of_layer.setdefault(layer, []).append(weights)

    links = {}
    for layer, heads in heads_of_layer.items():
        of_words = _of_source_words(np.mean(heads, axis=0), sentence.source_words)
        links[layer] = most_attended(of_words[1:], sentence.target_words)
    return links


def _of_source_words(weights: Floats, source_words: list[int]) -> Floats:
    """Sum the attention of symbols, (n, m), over the symbols of each source word."""
    symbols = len(source_words)
    return np.asarray(np.add.reduceat(weights[:, :symbols], _starts(source_words), axis=1))


def _starts(words: list[int]) -> NDArray[np.int64]:
    """Return the index of the first symbol of each word."""
    return np.flatnonzero(np.diff(words, prepend=-1))


def _histogram(values: Floats, edges: list[float]) -> list[int]:
    """Count the values in each bin; the outer bins hold what is beyond the edges too."""
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return list(counts.tolist())


def _rounded(value: np.float64) -> float:
    return round(float(value), DIGITS)
