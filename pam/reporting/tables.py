"""The tables of `pam.reporting.catalogue.TABLES`, built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from pam.config import Experiment
from pam.evaluation import attention
from pam.evaluation.inputs import read_record
from pam.evaluation.metrics import Metric
from pam.evaluation.translation import Significance
from pam.io import unknown
from pam.reporting import attentions, costs
from pam.reporting.catalogue import TABLES, TableSpec, gains_of
from pam.reporting.comparison import RULE, PaperTable, Row, check_rows, compare, frame_of
from pam.reporting.examples import examples
from pam.reporting.render import Column, Table, probability, signed, table_of
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

COMPARISON: tuple[str, ...] = (
    *("task", "model", "metric", "mean", "sd", "n", "low", "high", "paper", "difference"),
    *("p_vs_soft", "verdict", "cpu_s", "gpu_s"),
)
GAINS = (*("task", "model", "metric", "baseline", "gain", "low", "high", "paper_gain"), *("p", "verdict", "reason"))
DIGITS = {
    **dict.fromkeys(("mean", "sd", "low", "high", "difference", "gain", "paper_gain"), 4),
    **dict.fromkeys(("p", "p_vs_soft"), 6),
    **dict.fromkeys(("cpu_s", "gpu_s"), 1),
}


def comparison(spec: TableSpec, inputs: Inputs) -> Table:
    """Ours with the paper's, one row per task, metric and model."""
    paper, baseline = inputs.paper(spec), inputs.experiment.baseline
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, paper)
    frame = _with_texts(rows).rename(columns={"p": "p_vs_soft"})
    csv, sacrebleu = COMPARISON, _p_by_sacrebleu(rows, inputs.significance)
    if sacrebleu is not None:
        csv, frame["p_sacrebleu"] = (*COMPARISON, "p_sacrebleu"), sacrebleu
    names, reported = _name_columns(rows), _reported(rows)
    shown = [
        *names,
        *([Column("Paper", "{paper_text}")] if reported else []),
        Column("Ours", "{ours}"),
        Column("95 % interval", "{interval}"),
        *_gain_columns(reported),
        *([Column("p, sacreBLEU", "{p_sacrebleu}")] if sacrebleu else []),
        Column("Seeds", "{n}"),
        Column("CPU s", "{cpu_s:,.0f}"),
        *([Column("GPU s", "{gpu_s:,.0f}")] if any(row.gpu_s for row in rows) else []),
        Column("Verdict", "{verdict}", "l"),
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
    return table_of(inputs.title(spec), frame, csv, DIGITS, shown, notes, group=len(names) - 1)


def gains(spec: TableSpec, inputs: Inputs) -> Table:
    """Gains over the baseline with paired intervals, and what decided each verdict."""
    paper, baseline = inputs.paper(spec), inputs.experiment.baseline
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, paper)
    frame = _with_texts(rows)
    frame = frame.assign(baseline=baseline, low=frame["gain_low"], high=frame["gain_high"])
    frame = frame[frame["gain"].notna()]
    label, names = _label(rows, baseline), _name_columns(rows)
    shown = [
        *names,
        *_gain_columns(_reported(rows)),
        Column("Verdict", "{verdict}", "l"),
        Column("Reason", "{reason}", "l"),
    ]
    notes = [f"{_units(rows)} {_gain_note(label)}", *inputs.notes(rows), *_verdict_notes(rows, paper)]
    title = f"Gain over {label}. {inputs.title(spec)}"
    return table_of(title, frame, GAINS, DIGITS, shown, notes, group=len(names) - 1)


def _with_texts(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a frame, with what people read of them."""
    texts = pd.DataFrame([_texts(row) for row in rows], dtype=object)
    return pd.concat([frame_of(rows), texts], axis=1)


def _texts(row: Row) -> dict[str, str | None]:
    digits, mark = row.metric.decimals, "" if row.same_data else "*"
    spread = "" if row.sd is None else f" ± {row.sd:.{digits}f}"
    low, high = signed(row.gain_low, digits), signed(row.gain_high, digits)
    paper_gain = signed(row.paper_gain, digits)
    return {
        "metric_label": row.metric.label,
        "ours": f"{row.mean:.{digits}f}{spread}",
        "interval": f"[{row.low:.{digits}f}, {row.high:.{digits}f}]",
        "paper_text": None if row.paper is None else f"{row.paper:.{digits}f}{mark}",
        "gain_text": signed(row.gain, digits),
        "gain_interval": low and f"[{low}, {high}]",
        "p_text": None if row.p is None else probability(row.p),
        "paper_gain_text": paper_gain and paper_gain + mark,
    }


def _name_columns(rows: Sequence[Row]) -> list[Column]:
    """Task and model, and between them the metric where there is more than one."""
    several = len({row.metric.name for row in rows}) > 1
    metric = [Column("Metric", "{metric_label}", "l")] if several else []
    return [Column("Task", "{task_label}", "l"), *metric, Column("Model", "{label}", "l")]


def _gain_columns(reported: bool) -> list[Column]:
    """Columns of gains; empty for the baseline."""
    return [
        *([Column("Gain, paper", "{paper_gain_text}")] if reported else []),
        Column("Gain, ours", "{gain_text}"),
        Column("95 % interval", "{gain_interval}"),
        Column("p", "{p_text}"),
    ]


def _reported(rows: Sequence[Row]) -> bool:
    """Whether the paper has a value for any of these rows."""
    return any(row.paper is not None for row in rows)


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
    if paper is not None and _reported(rows):
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


def _p_by_sacrebleu(rows: Sequence[Row], paths: Sequence[Path]) -> list[str | None] | None:
    """p of each row, one per seed; None where nothing was tested.

    Raises:
        UserError: a file is missing or holds no tests.
    """
    if not paths:
        return None
    read = sorted((read_record(Significance, path) for path in paths), key=lambda one: one.seed)
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in read:
        for test in one.tests:
            key = one.task, test.model, test.metric
            found.setdefault(key, []).append(probability(test.p))
    keys = [(row.task, row.model, row.metric.name) for row in rows]
    return ["; ".join(found[key]) if key in found else None for key in keys]


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
    "examples": lambda spec, inputs: examples(inputs.experiment, inputs.predictions, inputs.title(spec)),
    "overhead": lambda spec, inputs: costs.overhead(
        inputs.tasks, inputs.experiment, inputs.paper(spec), inputs.title(spec)
    ),
    "costs": lambda spec, inputs: costs.costs(inputs.tasks, inputs.title(spec)),
    "environment": lambda spec, inputs: costs.environment(inputs.tasks, inputs.title(spec)),
}
"""How each table is made of its files."""
