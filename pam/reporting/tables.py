"""The tables of `pam.reporting.catalogue.TABLES`, built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pam.config import Experiment
from pam.evaluation import attention
from pam.evaluation.inputs import read_record
from pam.evaluation.metrics import Metric
from pam.evaluation.translation import Significance
from pam.io import unknown
from pam.reporting import attentions, costs
from pam.reporting.catalogue import TABLES, TableSpec, gains_of
from pam.reporting.comparison import RULE, Gain, PaperTable, Row, check_rows, compare
from pam.reporting.examples import examples
from pam.reporting.render import (
    Column,
    Table,
    between,
    fixed,
    grouped,
    probability,
    rounded,
    signed,
    signed_between,
    table_of,
)
from pam.reporting.runs import TaskRuns, load_runs


@dataclass(frozen=True)
class Inputs:
    """What a table may be made of."""

    experiment: Experiment
    papers: Mapping[str, PaperTable]
    scores: Sequence[Path] = ()
    predictions: Sequence[Path] = ()
    significance: Sequence[Path] = ()
    gold_scores: Sequence[Path] = ()
    analyses: Sequence[Path] = ()

    @cached_property
    def tasks(self) -> list[TaskRuns]:
        """The scored runs.

        Raises:
            UserError: they cannot be in one table, or a task names a row that no paper has.
        """
        tasks = load_runs(self.scores, self.experiment)
        check_rows(self.papers, tasks)
        return tasks

    def title(self, spec: TableSpec) -> str:
        """A table's title with the experiment's."""
        own = self.experiment.title
        return f"{spec.title}: {own}" if own else spec.title

    def paper(self, spec: TableSpec) -> PaperTable | None:
        """The paper's results that a table shows with ours."""
        return self.papers.get(spec.paper) if spec.paper else None

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """What the experiment says of the tasks that are shown."""
        shown = {row.task: row.task_label for row in rows}
        notes = {task: self.experiment.tasks[task].note for task in shown}
        return [f"{shown[task]}: {note}" for task, note in notes.items() if note]


def build(name: str, inputs: Inputs) -> Table:
    """The table called `name`; `<name>_gains` for the gains of any comparison.

    Raises:
        UserError: no such table, or inputs that do not belong together.
    """
    spec, compared = TABLES.get(name), TABLES.get(name.removesuffix("_gains"))
    if spec is None and compared is not None and compared.builder == "comparison":
        spec = gains_of(compared)
    if spec is None:
        raise unknown("table", name, list(TABLES))
    return BUILDERS[spec.builder](spec, inputs)


# Ours with the paper's, and gains over the baseline.

COMPARISON_DATA: dict[str, Callable[[Row], Any]] = {
    "task": lambda row: row.task,
    "model": lambda row: row.model,
    "metric": lambda row: row.metric.name,
    "mean": lambda row: rounded(row.mean, 4),
    "sd": lambda row: rounded(row.sd, 4),
    "n": lambda row: row.seeds,
    "low": lambda row: rounded(row.interval.low, 4),
    "high": lambda row: rounded(row.interval.high, 4),
    "paper": lambda row: row.paper,
    "difference": lambda row: rounded(row.difference, 4),
    "p_vs_soft": lambda row: rounded(row.gain.p, 6) if row.gain else None,
    "verdict": lambda row: row.verdict.word,
    "cpu_s": lambda row: rounded(row.cpu_s, 1),
    "gpu_s": lambda row: rounded(row.gpu_s, 1),
}


def comparison(spec: TableSpec, inputs: Inputs) -> Table:
    """Ours with the paper's, one row per task, metric and model."""
    paper, baseline = inputs.paper(spec), inputs.experiment.baseline
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, paper)
    reported = any(row.paper is not None for row in rows)
    on_gpu = any(row.gpu_s for row in rows)
    data, sacrebleu = dict(COMPARISON_DATA), _p_by_sacrebleu(inputs.significance)
    if sacrebleu is not None:
        data["p_sacrebleu"] = lambda row: sacrebleu(row) or None
    names = _name_columns(rows)
    shown = [
        *names,
        *([Column("Paper", _paper)] if reported else []),
        Column("Ours", _ours),
        Column("95 % interval", lambda row: between(row.interval, row.metric.decimals)),
        *_gain_columns(reported),
        *([Column("p, sacreBLEU", sacrebleu)] if sacrebleu else []),
        Column("Seeds", lambda row: str(row.seeds)),
        Column("CPU s", lambda row: grouped(row.cpu_s)),
        *([Column[Row]("GPU s", lambda row: grouped(row.gpu_s))] if on_gpu else []),
        Column("Verdict", lambda row: row.verdict.word, "l"),
    ]
    notes = [
        f"{_units(rows)} Ours: mean and standard deviation over seeds. "
        f"{_gain_note(_label(rows, baseline))} "
        "CPU s (and GPU s): mean of one training with the decoding of the test set.",
        *inputs.notes(rows),
        *_signatures(inputs.tasks, spec.metrics),
        *([_SACREBLEU_NOTE] if sacrebleu else []),
        *_verdict_notes(rows, paper),
    ]
    return table_of(inputs.title(spec), rows, data, shown, notes, group=len(names) - 1)


def gains(spec: TableSpec, inputs: Inputs) -> Table:
    """Gains over the baseline with paired intervals, and what decided each verdict."""
    paper, baseline = inputs.paper(spec), inputs.experiment.baseline
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, paper)
    label, names = _label(rows, baseline), _name_columns(rows)
    reported = any(row.paper is not None for row in rows)
    data: dict[str, Callable[[Row], Any]] = {
        "task": lambda row: row.task,
        "model": lambda row: row.model,
        "metric": lambda row: row.metric.name,
        "baseline": lambda row: baseline,
        "gain": lambda row: rounded(_gain(row).value, 4),
        "low": lambda row: rounded(_gain(row).interval.low, 4),
        "high": lambda row: rounded(_gain(row).interval.high, 4),
        "paper_gain": lambda row: rounded(_gain(row).paper, 4),
        "p": lambda row: rounded(_gain(row).p, 6),
        "verdict": lambda row: row.verdict.word,
        "reason": lambda row: row.verdict.reason,
    }
    shown = [
        *names,
        *_gain_columns(reported),
        Column[Row]("Verdict", lambda row: row.verdict.word, "l"),
        Column[Row]("Reason", lambda row: row.verdict.reason, "l"),
    ]
    notes = [
        f"{_units(rows)} {_gain_note(label)}",
        *inputs.notes(rows),
        *_verdict_notes(rows, paper),
    ]
    title = f"Gain over {label}. {inputs.title(spec)}"
    others = [row for row in rows if row.gain is not None]
    return table_of(title, others, data, shown, notes, group=len(names) - 1)


def _name_columns(rows: Sequence[Row]) -> list[Column[Row]]:
    """Task and model, and between them the metric where there is more than one."""
    several = len({row.metric.name for row in rows}) > 1
    return [
        Column("Task", lambda row: row.task_label, "l"),
        *([Column[Row]("Metric", lambda row: row.metric.label, "l")] if several else []),
        Column("Model", lambda row: row.label, "l"),
    ]


def _gain_columns(reported: bool) -> list[Column[Row]]:
    """Columns of gains; empty for the baseline.

    Args:
        reported: whether the paper has a value for any of the rows.
    """

    def paper(row: Row) -> str:
        if row.gain is None or row.gain.paper is None:
            return ""
        return signed(row.gain.paper, row.metric.decimals) + ("" if row.same_data else "*")

    def ours(row: Row) -> str:
        return signed(row.gain.value, row.metric.decimals) if row.gain else ""

    def interval(row: Row) -> str:
        return signed_between(row.gain.interval, row.metric.decimals) if row.gain else ""

    return [
        *([Column("Gain, paper", paper)] if reported else []),
        Column("Gain, ours", ours),
        Column("95 % interval", interval),
        Column("p", lambda row: probability(row.gain.p) if row.gain else ""),
    ]


def _gain(row: Row) -> Gain:
    """The gain of a row that has one."""
    assert row.gain is not None
    return row.gain


def _paper(row: Row) -> str:
    mark = "*" if row.paper is not None and not row.same_data else ""
    return fixed(row.paper, row.metric.decimals) + mark


def _ours(row: Row) -> str:
    digits = row.metric.decimals
    spread = f" ± {fixed(row.sd, digits)}" if row.sd is not None else ""
    return fixed(row.mean, digits) + spread


def _label(rows: Sequence[Row], baseline: str) -> str:
    return next((row.label for row in rows if row.model == baseline), baseline)


def _units(rows: Sequence[Row]) -> str:
    """Units of the metrics, and which of them are better when lower."""
    return "; ".join(sorted({_described(row.metric) for row in rows})) + "."


def _described(metric: Metric) -> str:
    unit = f" in {metric.unit}" if metric.unit else ""
    return f"{metric.label}{unit}{', lower is better' if metric.lower_is_better else ''}"


def _gain_note(baseline: str) -> str:
    return (
        f"Gain: over {baseline}, positive where the model is better. "
        f"p: paired bootstrap against {baseline}, two-sided, (c + 1) / (n + 1)."
    )


def _verdict_notes(rows: Sequence[Row], paper: PaperTable | None) -> list[str]:
    notes = []
    if any(row.paper is not None and not row.same_data for row in rows):
        notes.append(
            "* The paper's figure is for the paper's own data, which are not ours; it is shown for "
            "orientation and decides nothing."
        )
    if paper is not None and any(row.paper is not None for row in rows):
        notes.append(f"Paper: {paper.source}. {paper.note}".strip())
    return [*notes, f"Verdict. {RULE}"]


def _signatures(tasks: Sequence[TaskRuns], metrics: Sequence[str]) -> list[str]:
    """What sacreBLEU says of how its metrics were computed; one remark, or none."""
    found: dict[str, None] = {}
    for task in tasks:
        for name, signature in task.runs[0].scores.details.get("signatures", {}).items():
            if f"{name}_b*" in metrics:
                found[f"{name} `{signature}`"] = None
    return [f"Signatures of sacreBLEU: {'; '.join(found)}."] if found else []


_SACREBLEU_NOTE = (
    "p, sacreBLEU: by sacreBLEU's own paired bootstrap, each seed against the baseline's same "
    "seed. It differs from ours in two points: it is one-sided in effect, so that of a clear gain "
    "it is half of ours, and it does not average over seeds."
)


def _p_by_sacrebleu(paths: Sequence[Path]) -> Callable[[Row], str] | None:
    """p of a row, one per seed, as a function; None where nothing was tested.

    Raises:
        UserError: a file is missing or holds no tests.
    """
    if not paths:
        return None
    read = sorted((read_record(Significance, path) for path in paths), key=lambda one: one.seed)
    found: dict[tuple[str, str, str], list[float]] = {}
    for one in read:
        for test in one.tests:
            found.setdefault((one.task, test.model, test.metric), []).append(test.p)

    def text(row: Row) -> str:
        return "; ".join(map(probability, found.get((row.task, row.model, row.metric.name), [])))

    return text


BUILDERS: dict[str, Callable[[TableSpec, Inputs], Table]] = {
    "comparison": comparison,
    "gains": gains,
    "attentions": lambda spec, inputs: attentions.attentions(
        inputs.tasks,
        load_runs(inputs.gold_scores, inputs.experiment) if inputs.gold_scores else [],
        [attention.load(path) for path in inputs.analyses],
        inputs.experiment,
        inputs.title(spec),
    ),
    "examples": lambda spec, inputs: examples(
        inputs.experiment, inputs.predictions, inputs.title(spec)
    ),
    "overhead": lambda spec, inputs: costs.overhead(
        inputs.tasks, inputs.experiment, inputs.paper(spec), inputs.title(spec)
    ),
    "costs": lambda spec, inputs: costs.costs(inputs.tasks, inputs.title(spec)),
    "environment": lambda spec, inputs: costs.environment(inputs.tasks, inputs.title(spec)),
}
"""How each table is made of its files."""
