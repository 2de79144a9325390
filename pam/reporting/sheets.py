"""How a comparison becomes a sheet: ours beside the paper's, and the gains over the baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pam.evaluation.metrics import Metric
from pam.reporting.comparison import Row
from pam.reporting.numbers import (
    between,
    fixed,
    grouped,
    probability,
    rounded,
    signed,
    signed_between,
)
from pam.reporting.paper import PaperTable
from pam.reporting.typeset import Sheet
from pam.reporting.verdict import RULE

COLUMNS = (
    *("task", "model", "metric", "mean", "sd", "n", "low", "high", "paper", "difference"),
    *("p_vs_soft", "verdict", "cpu_s", "gpu_s"),
)
GAIN_COLUMNS = (
    *("task", "model", "metric", "baseline", "gain", "low", "high", "paper_gain", "p"),
    *("verdict", "reason"),
)


@dataclass(frozen=True)
class Column:
    """A column for people: its heading, its side, and what it says of a row."""

    heading: str
    align: str
    text: Callable[[Row], str]


@dataclass(frozen=True)
class Extra:
    """A column of one table more than the others have.

    Attributes:
        name: its name in the CSV, where it holds the same text.
        after: the heading that it follows.
        note: what it says, in words.
    """

    name: str
    column: Column
    after: str
    note: str


def comparison(
    rows: Sequence[Row],
    title: str,
    paper: PaperTable | None,
    baseline: str,
    extra: Extra | None = None,
    remarks: Sequence[str] = (),
) -> Sheet:
    """Ours beside the paper's, one row per task, metric and model; `remarks` join the notes."""
    name = _label(rows, baseline)
    columns = [
        *_names(rows),
        *([Column("Paper", "r", _paper)] if _reported(rows) else []),
        Column("Ours", "r", _ours),
        Column("95 % interval", "r", lambda row: between(row.interval, row.metric.decimals)),
        *_gains(rows),
        Column("Seeds", "r", lambda row: str(row.seeds)),
        Column("CPU s", "r", lambda row: grouped(row.cpu_s)),
        *([Column("GPU s", "r", lambda row: grouped(row.gpu_s))] if _on_gpu(rows) else []),
        Column("Verdict", "l", lambda row: row.verdict.word),
    ]
    records = [_record(row) for row in rows]
    notes = [
        f"{_units(rows)} Ours: mean and standard deviation over seeds. {_gain_note(name)} "
        "CPU s (and GPU s): mean of one training with the decoding of the test set.",
        *remarks,
    ]
    if extra is not None:
        place = [column.heading for column in columns].index(extra.after) + 1
        columns.insert(place, extra.column)
        records = [
            (*record, extra.column.text(row) or None)
            for record, row in zip(records, rows, strict=True)
        ]
        notes.append(extra.note)
    names = COLUMNS if extra is None else (*COLUMNS, extra.name)
    return _sheet(title, names, records, columns, rows, [*notes, *_notes(rows, paper)])


def gains(
    rows: Sequence[Row],
    title: str,
    paper: PaperTable | None,
    baseline: str,
    remarks: Sequence[str] = (),
) -> Sheet:
    """Gains over the baseline with paired intervals, and what decided each verdict."""
    name = _label(rows, baseline)
    others = [row for row in rows if row.gain is not None]
    columns = [
        *_names(rows),
        *_gains(rows),
        Column("Verdict", "l", lambda row: row.verdict.word),
        Column("Reason", "l", lambda row: row.verdict.reason),
    ]
    records = [_gain_record(row, baseline) for row in others]
    notes = [f"{_units(rows)} {_gain_note(name)}", *remarks, *_notes(rows, paper)]
    title = f"Gain over {name}. {title}"
    return _sheet(title, GAIN_COLUMNS, records, columns, others, notes)


def _sheet(
    title: str,
    names: tuple[str, ...],
    records: list[tuple[object, ...]],
    columns: Sequence[Column],
    rows: Sequence[Row],
    notes: Sequence[str],
) -> Sheet:
    return Sheet(
        title=title,
        columns=names,
        records=records,
        headings=tuple(column.heading for column in columns),
        body=[tuple(column.text(row) for column in columns) for row in rows],
        align="".join(column.align for column in columns),
        notes=tuple(notes),
        group=len(_names(rows)) - 1,
    )


def _names(rows: Sequence[Row]) -> list[Column]:
    """Task and model, and between them the metric where there is more than one."""
    several = len({row.metric.name for row in rows}) > 1
    return [
        Column("Task", "l", lambda row: row.task_label),
        *([Column("Metric", "l", lambda row: row.metric.label)] if several else []),
        Column("Model", "l", lambda row: row.label),
    ]


def _paper(row: Row) -> str:
    beside = "*" if row.paper is not None and not row.same_data else ""
    return fixed(row.paper, row.metric.decimals) + beside


def _ours(row: Row) -> str:
    digits = row.metric.decimals
    spread = f" ± {fixed(row.sd, digits)}" if row.sd is not None else ""
    return fixed(row.mean, digits) + spread


def _paper_gain(row: Row) -> str:
    if row.gain is None or row.gain.paper is None:
        return ""
    return signed(row.gain.paper, row.metric.decimals) + ("" if row.same_data else "*")


def _gain(row: Row) -> str:
    return signed(row.gain.value, row.metric.decimals) if row.gain else ""


def _gain_interval(row: Row) -> str:
    return signed_between(row.gain.interval, row.metric.decimals) if row.gain else ""


def _gains(rows: Sequence[Row]) -> list[Column]:
    return [
        *([Column("Gain, paper", "r", _paper_gain)] if _reported(rows) else []),
        Column("Gain, ours", "r", _gain),
        Column("95 % interval", "r", _gain_interval),
        Column("p", "r", lambda row: probability(row.gain.p) if row.gain else ""),
    ]


def _reported(rows: Sequence[Row]) -> bool:
    """Whether the paper has a figure for any of these rows."""
    return any(row.paper is not None for row in rows)


def _record(row: Row) -> tuple[object, ...]:
    return (
        row.task,
        row.model,
        row.metric.name,
        rounded(row.mean, 4),
        rounded(row.sd, 4),
        row.seeds,
        rounded(row.interval.low, 4),
        rounded(row.interval.high, 4),
        row.paper,
        rounded(row.difference, 4),
        rounded(row.gain.p, 6) if row.gain else None,
        row.verdict.word,
        rounded(row.cpu_s, 1),
        rounded(row.gpu_s, 1),
    )


def _gain_record(row: Row, baseline: str) -> tuple[object, ...]:
    gain = row.gain
    numbers = (gain.value, gain.interval.low, gain.interval.high, gain.paper) if gain else ()
    return (
        *(row.task, row.model, row.metric.name, baseline),
        *(rounded(number, 4) for number in numbers),
        rounded(gain.p, 6) if gain else None,
        *(row.verdict.word, row.verdict.reason),
    )


def _label(rows: Sequence[Row], baseline: str) -> str:
    return next((row.label for row in rows if row.model == baseline), baseline)


def _on_gpu(rows: Sequence[Row]) -> bool:
    return any(row.gpu_s for row in rows)


def _units(rows: Sequence[Row]) -> str:
    """Units of the metrics, and which of them are better when lower."""
    metrics = {row.metric.name: row.metric for row in rows}.values()
    return "; ".join(sorted({_described(metric) for metric in metrics})) + "."


def _described(metric: Metric) -> str:
    unit = f" in {metric.unit}" if metric.unit else ""
    return f"{metric.label}{unit}{', lower is better' if metric.lower_is_better else ''}"


def _gain_note(baseline: str) -> str:
    return (
        f"Gain: over {baseline}, positive where the model is better. "
        f"p: paired bootstrap against {baseline}, two-sided, (c + 1) / (n + 1)."
    )


def _notes(rows: Sequence[Row], paper: PaperTable | None) -> list[str]:
    notes = []
    if any(row.paper is not None and not row.same_data for row in rows):
        notes.append(
            "* The paper's figure is for the paper's own data, which are not ours; it is shown for "
            "orientation and decides nothing."
        )
    if paper is not None and _reported(rows):
        notes.append(f"Paper: {paper.source}. {paper.note}".strip())
    return [*notes, f"Verdict. {RULE}"]
