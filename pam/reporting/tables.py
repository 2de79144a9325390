"""The tables there are, each a few lines, and how a comparison becomes a sheet.

To add one: name its metrics and the paper's table in `COMPARISONS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pam.config import Experiment, unknown
from pam.reporting import costs
from pam.reporting.cells import TaskCells
from pam.reporting.comparison import Row, compare
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


@dataclass(frozen=True)
class Comparison:
    """A table that sets ours beside a paper's.

    Attributes:
        title: heading; the experiment's title follows it.
        metrics: keys of `pam.scoring.metrics.METRICS`.
        paper: key in the file of the papers' figures; None: no paper reports this metric.
    """

    title: str
    metrics: tuple[str, ...]
    paper: str | None


COMPARISONS = {
    "table2": Comparison(
        "Accuracy over test forms, morphological inflection (the paper's Table 2)",
        ("accuracy",),
        "table2",
    ),
    "table2_paradigms": Comparison(
        "Accuracy over whole paradigms: lemmas with every form right",
        ("paradigm_accuracy",),
        None,
    ),
}
GAINS = "_gains"
NAMES = (*COMPARISONS, *(name + GAINS for name in COMPARISONS), "costs", "environment")


def build(
    name: str,
    tasks: Sequence[TaskCells],
    experiment: Experiment,
    papers: Mapping[str, PaperTable],
) -> Sheet:
    """The sheet called `name`, one of `NAMES`.

    Raises:
        UserError: no such table, or a task names a row that the paper's table does not have.
    """
    title = f": {experiment.title}" if experiment.title else ""
    if name == "costs":
        return costs.costs(tasks, title)
    if name == "environment":
        return costs.environment(tasks, title)
    spec = COMPARISONS.get(name.removesuffix(GAINS))
    if spec is None:
        raise unknown("table", name, list(NAMES))
    paper = papers.get(spec.paper) if spec.paper else None
    rows = compare(tasks, experiment, spec.metrics, paper)
    make = gains if name.endswith(GAINS) else comparison
    return make(rows, spec.title + title, paper, experiment.baseline)


COLUMNS = (
    *("task", "model", "metric", "mean", "sd", "n", "low", "high", "paper", "difference"),
    *("p_vs_soft", "verdict", "cpu_s", "gpu_s"),
)


def comparison(rows: Sequence[Row], title: str, paper: PaperTable | None, baseline: str) -> Sheet:
    """Ours beside the paper's, one row per task, metric and model."""
    several = len({row.metric.name for row in rows}) > 1
    on_gpu = any(row.gpu_s for row in rows)
    name = next((row.label for row in rows if row.model == baseline), baseline)
    return Sheet(
        title=title,
        columns=COLUMNS,
        records=[_record(row) for row in rows],
        headings=(
            *("Task", "Model", *(("Metric",) if several else ()), "Paper", "Ours"),
            *("95 % interval", "Gain, paper", "Gain, ours", "95 % interval"),
            *("p", "Seeds", "CPU s", *(("GPU s",) if on_gpu else ()), "Verdict"),
        ),
        body=[_shown(row, several, on_gpu) for row in rows],
        align="ll" + "l" * several + "rrrrrrrrr" + "r" * on_gpu + "l",
        notes=(
            f"{_units(rows)}. Ours: mean and standard deviation over seeds. Gain: over {name}. "
            f"{_p_value(name)} "
            "CPU s (and GPU s): mean of one training with the decoding of the test set.",
            *_notes(rows, paper),
        ),
    )


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


def _shown(row: Row, several: bool, on_gpu: bool) -> tuple[str, ...]:
    digits = row.metric.decimals
    spread = f" ± {fixed(row.sd, digits)}" if row.sd is not None else ""
    beside = "*" if row.paper is not None and not row.same_data else ""
    gain = row.gain
    return (
        row.task_label,
        row.label,
        *((row.metric.label,) if several else ()),
        fixed(row.paper, digits) + beside,
        fixed(row.mean, digits) + spread,
        between(row.interval, digits),
        signed(gain.paper, digits) + beside if gain and gain.paper is not None else "",
        signed(gain.value, digits) if gain else "",
        signed_between(gain.interval, digits) if gain else "",
        probability(gain.p) if gain else "",
        str(row.seeds),
        grouped(row.cpu_s),
        *((grouped(row.gpu_s),) if on_gpu else ()),
        row.verdict.word,
    )


def _units(rows: Sequence[Row]) -> str:
    return "; ".join(sorted({f"{row.metric.label} in {row.metric.unit}" for row in rows}))


def _p_value(baseline: str) -> str:
    return f"p: paired bootstrap against {baseline}, two-sided, (c + 1) / (n + 1)."


def _notes(rows: Sequence[Row], paper: PaperTable | None) -> list[str]:
    notes = []
    if any(row.paper is not None and not row.same_data for row in rows):
        notes.append(
            "* The paper's figure is for the paper's own data, which are not ours; it is shown for "
            "orientation and decides nothing."
        )
    if paper is not None:
        notes.append(f"Paper: {paper.source}. {paper.note}".strip())
    return [*notes, f"Verdict. {RULE}"]


def gains(rows: Sequence[Row], title: str, paper: PaperTable | None, baseline: str) -> Sheet:
    """Gains over the baseline with paired intervals, and what decided each verdict."""
    name = next((row.label for row in rows if row.model == baseline), baseline)
    records: list[tuple[object, ...]] = []
    body: list[tuple[str, ...]] = []
    for row in rows:
        gain, digits = row.gain, row.metric.decimals
        if gain is None:
            continue
        low, high = gain.interval.low, gain.interval.high
        numbers = [rounded(value, 4) for value in (gain.value, low, high, gain.paper)]
        records.append(
            (row.task, row.model, row.metric.name, baseline, *numbers, rounded(gain.p, 6))
            + (row.verdict.word, row.verdict.reason)
        )
        beside = "*" if gain.paper is not None and not row.same_data else ""
        body.append(
            (row.task_label, row.label)
            + (signed(gain.paper, digits) + beside, signed(gain.value, digits))
            + (signed_between(gain.interval, digits), probability(gain.p))
            + (row.verdict.word, row.verdict.reason)
        )
    return Sheet(
        title=f"Gain over {name}. {title}",
        columns=(
            *("task", "model", "metric", "baseline", "gain", "low", "high", "paper_gain", "p"),
            *("verdict", "reason"),
        ),
        records=records,
        headings=(
            *("Task", "Model", "Gain, paper", "Gain, ours", "95 % interval", "p"),
            *("Verdict", "Reason"),
        ),
        body=body,
        align="llrrrrll",
        notes=(f"{_units(rows)}. {_p_value(name)}", *_notes(rows, paper)),
    )
