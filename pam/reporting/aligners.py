"""The table of aligners: how well each links words, by how much it is better than the first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pam.alignment.record import AlignerRecord
from pam.evaluation import two_levels
from pam.evaluation.metrics import Floats
from pam.evaluation.records import load
from pam.evaluation.two_levels import Measured, Scatter
from pam.reporting.cells import Cell, Estimate, Judgement, Missing, Value
from pam.reporting.comparison import LEAST_SEEDS, gain_of, outcome_of
from pam.reporting.render import Column, Note, Row, Table
from pam.runtime.errors import UserError
from pam.tasks.alignment.metrics import alignment_agreement

DIGITS = 3
TITLE = "Word aligners"
ALIGNER = Column("aligner", "aligner", "l")
READING = Column("links of", "reading", "l")
SEEDS = Column("seeds", "seeds")
CPU_S = Column("CPU s", "cpu_s")
PAIRS = Column("pairs", "pairs")
NOT_ALIGNED = Column("not aligned", "not_aligned")
SCORED = (
    ALIGNER,
    READING,
    Column("1 − AER", "level"),
    Column("95 % interval", "level", part="interval"),
    Column("precision", "precision"),
    Column("recall", "recall"),
    Column("gain over {}", "gain"),
    Column("95 % interval", "gain", part="interval"),
    Column("p", "gain", part="p_text"),
    Column("Holm", "gain", part="holm_text"),
    Column("outcome", "outcome"),
    SEEDS,
    CPU_S,
    PAIRS,
    NOT_ALIGNED,
)
UNSCORED = (
    ALIGNER,
    READING,
    Column("links", "links"),
    PAIRS,
    NOT_ALIGNED,
    SEEDS,
    CPU_S,
)
NOTE = (
    "1 − AER, precision and recall: means over seeds on {sentences} sentences with gold links."
    " Intervals and p are of the closed-form test over seeds and sentences, paired by sentence;"
    " Holm: corrected for all gains of the table. An aligner with a single training has no gain,"
    f" and with fewer than {LEAST_SEEDS} none is judged. CPU s: training and aligning, a mean over"
    " seeds. Pairs: those of the text, as the first seed read it. Not aligned: those that are blank"
    " or could not be aligned."
)


@dataclass(frozen=True)
class Aligner:
    """The records of an aligner, one for each seed."""

    name: str
    records: Sequence[AlignerRecord]

    @property
    def first(self) -> AlignerRecord:
        """The first of them."""
        return self.records[0]

    @property
    def is_program(self) -> bool:
        """Whether it was not trained before it saw the text."""
        return self.first.seed is None

    @property
    def is_judged(self) -> bool:
        """Whether it has enough seeds for a gain to be called better or worse."""
        return self.is_program or len(self.records) >= LEAST_SEEDS

    @property
    def readings(self) -> list[str]:
        """The ways to read links, that of the links that were written first."""
        written = self.first.reading
        return [written, *(name for name in self.first.readings if name != written)]

    @property
    def cpu_s(self) -> float | None:
        """CPU seconds of a training and an alignment, a mean over seeds; None if unknown."""
        seconds = []
        for record in self.records:
            if not self.is_program and record.training_cpu_s is None:
                return None
            seconds.append(record.cpu_s + (record.training_cpu_s or 0.0))
        return float(np.mean(seconds))

    def counts(self, reading: str) -> Floats:
        """Return the counts of a reading, (seeds, sentences, 4)."""
        return np.array([record.readings[reading] for record in self.records], dtype=np.float64)

    def measured(self, reading: str) -> Measured:
        """Measure 1 - AER by a reading."""
        return Measured.of(self.counts(reading), alignment_agreement, repeatable=self.is_program)


def table(files: Sequence[Path]) -> Table:
    """Build the table of aligners, the first one first.

    Where there are gold links, every way to read the links has a row, the one that was written
    first.

    Args:
        files: records of `align --record`. Those of the same aligner and as many pairs with other
            seeds make one row.

    Raises:
        UserError: a file is no record, two are of the same seed, or two have other sentences.
    """
    aligners = list(_grouped(files))
    run = [aligner for aligner in aligners if not aligner.first.reason]
    _check_same_sentences(run, files)
    scored = [aligner for aligner in run if aligner.first.readings]
    if not scored:
        return Table(TITLE, [_unscored_row(aligner) for aligner in aligners], UNSCORED)

    unscored = [_unscored_row(aligner) for aligner in aligners if aligner not in scored]
    sentences = len(next(iter(scored[0].first.readings.values())))
    return Table(
        title=TITLE,
        rows=[*_scored_rows(scored), *unscored],
        columns=[
            replace(column, heading=column.heading.format(scored[0].name)) for column in SCORED
        ],
        notes=[Note(NOTE.format(sentences=sentences))],
    )


def _grouped(files: Sequence[Path]) -> Iterator[Aligner]:
    """Yield the records of each aligner, in the order of their first ones.

    Raises:
        UserError: two are of the same seed, or one was read by other ways than the others.
    """
    groups: dict[tuple[int | str, ...], list[AlignerRecord]] = {}
    for file in files:
        record = load(AlignerRecord, file)
        key = (record.aligner, record.directions, record.reading, record.reason, record.pairs)
        group = groups.setdefault(key, [])
        if record.seed in [earlier.seed for earlier in group]:
            problem = f"a second record of {record.aligner}"
            if record.seed is not None:
                problem += f", seed {record.seed}"
            raise UserError(problem, file=file, hint="name one record of each training")
        if group and record.readings.keys() != group[0].readings.keys():
            problem = f"links of {record.aligner} were not scored as those of its other seeds"
            raise UserError(problem, file=file, hint="give the same --gold to each `align`")
        group.append(record)

    for group in groups.values():
        yield Aligner(group[0].aligner, group)


def _check_same_sentences(aligners: Sequence[Aligner], files: Sequence[Path]) -> None:
    """Check that all aligners were scored on sentences with the same numbers of gold links."""
    sure = {
        tuple(hits[3] for hits in counts)
        for aligner in aligners
        for record in aligner.records
        for counts in record.readings.values()
    }
    if len(sure) > 1:
        hint = "give the same --gold to each `align`"
        raise UserError("records of different sentences", file=files[0], hint=hint)


def _scored_rows(aligners: Sequence[Aligner]) -> Iterator[Row]:
    """Yield the rows of all readings."""
    rows = [
        (aligner, reading, aligner.measured(reading))
        for aligner in aligners
        for reading in aligner.readings
    ]

    base = rows[0][2]
    # Several readings of an aligner are of the same trainings.
    scatter = Scatter.of(measured for _, _, measured in rows)._replace(
        freedom=sum(len(aligner.records) - 1 for aligner in aligners)
    )
    # The first row is that of the base.
    gains = [None, *(gain_of(measured, base, scatter) for _, _, measured in rows[1:])]

    p_values = [gain.p for gain in gains if gain is not None]
    corrected = iter(two_levels.holm(p_values))
    for (aligner, reading, measured), gain in zip(rows, gains, strict=True):
        cells = _cells_of(aligner) | _cells_of_gain(gain, None if gain is None else next(corrected))
        if gain is not None and not (aligner.is_judged and aligners[0].is_judged):
            cells["outcome"] = Missing(f"not judged: fewer than {LEAST_SEEDS} seeds")
        around = two_levels.level(measured, scatter).interval()
        level = Estimate(measured.mean, DIGITS, low=around.low, high=around.high)

        sums = aligner.counts(reading).sum(axis=1)
        precision = float(np.mean(sums[:, 1] / np.maximum(sums[:, 2], 1)))
        recall = float(np.mean(sums[:, 0] / np.maximum(sums[:, 3], 1)))
        cells |= {
            "reading": Value(reading),
            "level": level,
            "precision": Value(precision, f".{DIGITS}f"),
            "recall": Value(recall, f".{DIGITS}f"),
            "cpu_s": Value(aligner.cpu_s, ",.0f"),
        }
        yield Row(cells)


def _cells_of_gain(gain: two_levels.Estimate | None, p_holm: float | None) -> dict[str, Cell]:
    """Return a gain over the first row, and what follows from it."""
    if gain is None or p_holm is None:
        reason = "the first row, or a single training"
        return {"gain": Missing(reason), "outcome": Missing(reason)}

    around = gain.interval()
    estimate = Estimate(
        value=gain.value,
        digits=DIGITS,
        low=around.low,
        high=around.high,
        is_gain=True,
        p=gain.p,
        p_holm=p_holm,
    )
    return {"gain": estimate, "outcome": Judgement(outcome_of(around.low, around.high))}


def _unscored_row(aligner: Aligner) -> Row:
    """Return the row of an aligner without gold links, or of one that did not run."""
    record = aligner.first
    if record.reason:
        return Row({"aligner": Value(aligner.name), "reading": Value(record.reason)})

    cells = {"reading": Value(record.reading), "links": Value(record.links, ",")}
    return Row(_cells_of(aligner) | cells)


def _cells_of(aligner: Aligner) -> dict[str, Cell]:
    """Return the cells that every aligner has that ran."""
    seeds: Cell = Value(len(aligner.records))
    if aligner.is_program:
        seeds = Missing("a program has no training")
    return {
        "aligner": Value(aligner.name),
        "seeds": seeds,
        "cpu_s": Value(aligner.cpu_s, ",.1f"),
        "pairs": Value(aligner.first.pairs, ","),
        "not_aligned": Value(aligner.first.problems + aligner.first.blank, ","),
    }
