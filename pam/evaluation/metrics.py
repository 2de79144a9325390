"""Metrics as functions of summed counts, so that one bootstrap serves them all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pam.runtime.errors import unknown
from pam.tasks import OfKinds

Floats = NDArray[np.float64]
# prefix of counts of references that belong to outputs without a length penalty
UNPENALIZED_COUNT = "unpenalized_"
ORDERS = 4  # longest n-grams of words that BLEU counts


@dataclass(frozen=True)
class Units:
    """Counts of one system on one test set, per resampling unit (a lemma, a sentence).

    Metrics need nothing else.
    """

    names: tuple[str, ...]  # one per unit, unique
    columns: tuple[str, ...]  # names of the counts
    counts: Floats  # (units, columns)
    # SHA-256 of what was to be predicted; two systems can be compared only where it is the same
    references: str

    def index_of(self, column: str) -> int:
        """Return the index of a count; a ValueError says that there is none.

        A count of references that all outputs have in common is stored under its plain name.
        """
        stored_name = column
        for name in _names_of(column):
            if name in self.columns:
                stored_name = name
                break

        return self.columns.index(stored_name)

    def has(self, columns: Iterable[str]) -> bool:
        """Tell whether all named counts are there, under their own or their plain names."""
        return all(any(name in self.columns for name in _names_of(column)) for column in columns)

    def only(self, indices: Sequence[int]) -> Units:
        """Return the counts of some of the units."""
        return replace(
            self,
            names=tuple(self.names[index] for index in indices),
            counts=self.counts[list(indices)],
        )

    def of(self, columns: Sequence[str]) -> Floats:
        """Return the named counts, (units, len(columns))."""
        return self.counts[:, [self.index_of(column) for column in columns]]

    def total(self, columns: Sequence[str]) -> Floats:
        """Return the sums of the named counts over all units, (len(columns),)."""
        return np.asarray(np.sum(self.of(columns), axis=0))


def join(parts: Sequence[Units]) -> Units:
    """Put counts of the same units side by side.

    Of a column that several parts have, the first is kept. A ValueError says that the units differ.
    """
    first = parts[0]
    columns: dict[str, Floats] = {}
    for part in parts:
        if (part.names, part.references) != (first.names, first.references):
            raise ValueError("counts of other units")
        for name, counts in zip(part.columns, part.counts.T, strict=True):
            columns.setdefault(name, counts)

    return Units(
        names=first.names,
        columns=tuple(columns),
        counts=np.stack(list(columns.values()), axis=1),
        references=first.references,
    )


def digest_of(rows: Iterable[Sequence[str]]) -> str:
    """Return the SHA-256 of rows of text, as lines with tabs between columns."""
    return hashlib.sha256("".join("\t".join(row) + "\n" for row in rows).encode()).hexdigest()


def _names_of(column: str) -> tuple[str, ...]:
    """List the names under which a count may be stored.

    They are its own, the one without the beam, and the one without `unpenalized_`.
    """
    plain = _without_beam(column)
    return column, plain, plain.removeprefix(UNPENALIZED_COUNT)


def _without_beam(name: str) -> str:
    return re.sub(r"_b\d+$", "", name)


@dataclass(frozen=True)
class Metric:
    """A corpus figure that depends on the outputs only through sums over resampling units."""

    name: str  # key in `scores.json` and in the column `metric` of the tables
    label: str  # words for an axis or a heading, without the unit
    of_outputs: tuple[str, ...]  # names of the counts that change with the outputs
    shared: tuple[str, ...]  # names of the counts that are the same whatever the beam
    # sums (..., columns) to values (...); columns in the order of `columns`
    value: Callable[[Floats], Floats]
    counted: str = "sentences"  # the column whose sum is the number of things judged
    unit: str = ""  # of the value; empty where it has none
    decimals: int = 2  # digits shown after the point
    lower_is_better: bool = False
    over: str = "sentences"  # the resampling units, in words
    # lowest and highest value; None: it does not judge outputs
    span: tuple[float, float] | None = (0.0, 100.0)
    # whether the shared counts are those of the reference that fits an output best, so that they
    # depend on the beam
    is_of_nearest_reference: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all counts that the metric needs."""
        return self.of_outputs + self.shared


def of_beam(name: str, beam: int | None) -> str:
    """Return the name of a metric or count for outputs of one beam; None: no beam is known."""
    if beam is None:
        return name
    return f"{name}_b{beam}"


def plain_name(name: str) -> str:
    """Return the name of a metric without its beam, and without `_unpenalized`."""
    return _without_beam(name).removesuffix("_unpenalized")


def metric_of(name: str) -> Metric:
    """Return a metric by its name, such as `accuracy`, or `bleu_b4` for the outputs of beam 4.

    A UserError says that there is no such metric.
    """
    match = re.fullmatch(r"(\w+?)(?:_b([1-9]\d*))?", name)
    if match is None or match[1] not in METRICS:
        raise unknown("metric", name, sorted(METRICS))
    metric = METRICS[match[1]]
    if match[2] is None:
        return metric
    if not metric.of_outputs:
        raise unknown("metric", name, sorted(METRICS))

    beam = int(match[2])
    shared = metric.shared
    if metric.is_of_nearest_reference:
        shared = tuple(of_beam(column, beam) for column in shared)

    return replace(
        metric,
        name=of_beam(metric.name, beam),
        label=f"{metric.label}, beam {beam}",
        of_outputs=tuple(of_beam(column, beam) for column in metric.of_outputs),
        shared=shared,
    )


# The functions below map summed counts to values.


def percentage(sums: Floats) -> Floats:
    """Return 100 x first count / second count; sums (..., 2) -> (...)."""
    return 100.0 * sums[..., 0] / sums[..., 1]


def perplexity(sums: Floats) -> Floats:
    """Return exp(nll / tokens); sums (..., 2) -> (...)."""
    return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))


def bleu(sums: Floats, smooth: bool) -> Floats:
    """Compute BLEU times 100 (Papineni et al. 2002), (...).

    It is 0 where nothing matches, or where no output is four words long.

    Args:
        sums: (..., 10) matches and totals of orders 1 to 4, output length, reference length.
        smooth: whether an order without any match counts as 1/2 match, the next such as 1/4 and
            so on (sacreBLEU's `exp`). Without it, one such order makes BLEU 0, as in
            `multi-bleu.perl`.
    """
    match = sums[..., :ORDERS]
    total = sums[..., ORDERS : 2 * ORDERS]
    output_length = sums[..., -2]
    reference_length = sums[..., -1]
    if smooth:
        match = np.where(match > 0, match, 0.5 ** np.cumsum(match == 0, axis=-1))

    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(match / total).mean(axis=-1))
        brevity_penalty = np.exp(np.minimum(0.0, 1.0 - reference_length / output_length))
        value = 100.0 * brevity_penalty * precision

    # Smoothing must not lift outputs without any match above 0.
    is_possible = sums[..., :ORDERS].any(axis=-1) & (total > 0).all(axis=-1)
    return np.where(is_possible, value, 0.0)


def share(sums: Floats) -> Floats:
    """Return first count / second count, 0 where there is nothing; sums (..., 2) -> (...)."""
    return np.divide(
        sums[..., 0], sums[..., 1], out=np.zeros(sums.shape[:-1]), where=sums[..., 1] > 0
    )


def meteor(sums: Floats) -> Floats:
    """Compute METEOR times 100 (Denkowski and Lavie 2014), (...).

    It is a mean of precision and recall, less for matches in pieces. The parameters are those of
    English: alpha 0.85, beta 0.2, gamma 0.6.

    Args:
        sums: (..., 6) as in `METEOR_COUNTS`.
    """
    output, reference, output_whole, reference_whole, chunks, matched = np.moveaxis(sums, -1, 0)

    with np.errstate(divide="ignore", invalid="ignore"):
        precision = output / output_whole
        recall = reference / reference_whole
        mean = 1.0 / (0.15 / precision + 0.85 / recall)
        value = 100.0 * mean * (1.0 - 0.6 * (chunks / matched) ** 0.2)

    return np.where((output > 0) & (reference > 0), value, 0.0)


def numbered(count: int, stem: str = "") -> tuple[str, ...]:
    """Return names that end in the numbers from 1."""
    return tuple(f"{stem}{number}" for number in range(1, count + 1))


def bleu_columns(name: str) -> tuple[str, ...]:
    """Name the counts of the outputs for a kind of BLEU, in the order of `bleu`."""
    return (
        *numbered(ORDERS, f"{name}_match"),
        *numbered(ORDERS, f"{name}_total"),
        f"{name}_length",
    )


METEOR_COUNTS = ("matched_output", "matched_reference", "output", "reference", "chunks", "matched")
"""Counts of METEOR: weighted words of output and reference that match, all weighted words of output
and reference, runs of matches in order, and matches.
"""
# Metrics of several kinds of task; all others are in the folders of their kinds.


def error_rate(
    name: str,
    label: str,
    of_outputs: tuple[str, ...],
    shared: tuple[str, ...] = (),
    counted: str = "sentences",
    over: str = "sentences",
) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=of_outputs,
        shared=shared,
        value=percentage,
        counted=counted,
        unit="%",
        lower_is_better=True,
        over=over,
    )


def meteor_metric(name: str, label: str, over: str) -> Metric:
    return Metric(
        name=name,
        label=label,
        of_outputs=tuple(f"{name}_{count}" for count in METEOR_COUNTS),
        shared=(),
        value=meteor,
        counted=over,
        over=over,
    )


METRICS: Mapping[str, Metric] = OfKinds("metrics")
"""Every metric by name; `metric_of` finds those of a beam too."""


def names_for_beam(
    columns: Iterable[str], beam: int | None, metrics: Iterable[Metric]
) -> tuple[str, ...]:
    """Name counts by the beam, except those that `metrics` share whatever the beam."""
    shared = {column for metric in metrics for column in metric.shared}
    return tuple(column if column in shared else of_beam(column, beam) for column in columns)
