"""Build the tables that compare models: our results with the paper's, and the gains."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pam.evaluation.metrics import Metric
from pam.evaluation.records import load
from pam.evaluation.significance import Significance
from pam.experiments.experiment import Experiment
from pam.reporting.catalogue import refers_to_papers
from pam.reporting.cells import (
    Cell,
    Estimate,
    Judgement,
    Missing,
    Name,
    PaperFigure,
    Value,
    probability,
)
from pam.reporting.comparison import (
    COMPARED,
    NOTE_OF_OWN_DATA,
    RULE_NOTE,
    Inputs,
    compare,
    label_of_baseline,
)
from pam.reporting.comparison import Row as Compared
from pam.reporting.items import TableSpec
from pam.reporting.render import (
    MODEL,
    MODEL_KEY,
    SEEDS,
    TASK,
    TASK_KEY,
    Column,
    Field,
    Note,
    Row,
    Table,
)
from pam.reporting.runs import LeftOutError, notes_of, reasons_left_out

NAMES = (TASK_KEY, MODEL_KEY, Field("metric", "metric", "key"))
LEVEL = (
    Field("mean", "level", digits=4),
    Field("sd", "level", "sd", digits=4),
    Field("n", "level", "seeds"),
    Field("low", "level", "low", digits=4),
    Field("high", "level", "high", digits=4),
)
JUDGED = (
    Field("direction", "verdict", "word"),
    Field("setting", "setting"),
)
COMPARISON = (
    *NAMES,
    *LEVEL,
    Field("paper", "paper"),
    Field("difference", "difference", digits=4),
    Field("gain", "gain", digits=4),
    Field("gain_low", "gain", "low", digits=4),
    Field("gain_high", "gain", "high", digits=4),
    Field("p_vs_soft", "gain", "p", digits=6),
    Field("p_holm", "gain", "p_holm", digits=6),
    *JUDGED,
    Field("cpu_s", "cpu_s", digits=1),
    Field("gpu_s", "gpu_s", digits=1),
)
GAINS = (
    *NAMES,
    Field("baseline", "baseline", "key"),
    Field("seeds", "gain", "seeds"),
    Field("gain", "gain", digits=4),
    Field("low", "gain", "low", digits=4),
    Field("high", "gain", "high", digits=4),
    Field("paper_gain", "paper_gain", digits=4),
    Field("p", "gain", "p", digits=6),
    Field("p_holm", "gain", "p_holm", digits=6),
    *JUDGED,
    Field("reason", "reason"),
)
METRIC = Column("Metric", "metric", "l")
OURS = (Column("Ours", "level"), Column("95 % interval", "level", part="interval"))
# Nothing is said about a claim that the paper does not make.
VERDICT = (
    Column("Paper's claim", "verdict", "l", needs="paper"),
    Column("Setting", "setting", "l", needs="paper"),
)
OTHER_DATA_NOTE = (
    "* The paper's figure is for the paper's own data, which are not ours: a verdict is on the"
    " claim, in another setting."
)
OURS_NOTE = (
    "{units} Ours: {ours}. {gain} "
    "CPU s (and GPU s): mean of one training with the decoding of the test set; of an ensemble with"
    " those of its members."
)
OURS_OF_ONE_SEED = "the value of a single seed"
OURS_OF_SEVERAL_SEEDS = "mean and standard deviation over seeds"
GAIN_NOTE = "Gain: over {0}, positive where the model is better."
TEST_NOTE = (
    " p: by the test of the interval, against {0}, paired by units, two-sided; Holm: p corrected"
    " for all gains of a task by one metric."
)
NO_TEST_NOTE = " A single seed has no interval of its gain, and no p."
DEVICES_NOTE = (
    "CPU s is of the seeds that were trained and decoded on a CPU, GPU s of those on a GPU."
)
DIVIDED_NOTE = (
    "Trained on a GPU and decoded on a CPU, or the other way round, and in neither column: {}."
)
SACREBLEU_NOTE = (
    "p, sacreBLEU: by sacreBLEU's own paired bootstrap, each seed against the baseline's same seed."
    " It differs from ours in two points: it is one-sided in effect, so that of a clear gain it is"
    " half of ours, and it does not average over seeds."
)


def comparison(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of our results with the paper's, one row per task, metric and model."""
    rows = _compared(spec, inputs)
    layout = Layout.of(rows, inputs.experiment.baseline)
    fields: tuple[Field, ...] = COMPARISON
    columns = [*layout.names, *layout.paper, *OURS, *layout.gained]
    cells = cells_of_rows(rows, layout.baseline)

    # Tests by sacreBLEU, where there are some, stand in a column beside our p.
    sacrebleu = _p_by_sacrebleu(rows, inputs.significance)
    if sacrebleu is not None:
        fields = (*COMPARISON, Field("p_sacrebleu", "sacrebleu"))
        columns.append(Column("p, sacreBLEU", "sacrebleu"))
        for of_row, p_text in zip(cells, sacrebleu, strict=True):
            of_row["sacrebleu"] = Value(p_text)

    columns += [SEEDS, Column("CPU s", "cpu_s")]
    if any(row.gpu_s for row in rows):
        columns.append(Column("GPU s", "gpu_s", part="text_unless_zero"))
    columns += layout.verdict

    more_notes = _signaturenotes_of_comparison(spec, inputs)
    if sacrebleu:
        more_notes.append(Note(SACREBLEU_NOTE))
    more_notes += _devices_notes(rows)
    more_notes += [
        Note(f"{note}.", task.name, task.label) for task in inputs.tasks for note in notes_of(task)
    ]
    more_notes += [Note(f"Left out: {reason}.") for reason in reasons_left_out(inputs.tasks)]

    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=[Row(of_row) for of_row in cells],
        columns=columns,
        fields=fields,
        notes=notes_of_comparison(spec, inputs, rows, OURS_NOTE, more_notes),
        group=len(layout.names) - 1,
    )


def _compared(spec: TableSpec, inputs: Inputs) -> list[Compared]:
    """Return the rows of a comparison; none if scoring has left out all of its metrics."""
    try:
        return compare(inputs.tasks, inputs.experiment, spec.metrics, inputs.paper(spec))
    except LeftOutError:
        return []


def _signaturenotes_of_comparison(spec: TableSpec, inputs: Inputs) -> list[Note]:
    """Name sacreBLEU's signature for each of its metrics in a table, in one note or none."""
    signatures: dict[str, None] = {}
    for task in inputs.tasks:
        by_metric = task.runs[0].scores.details.get("signatures", {})
        for metric, signature in by_metric.items():
            if f"{metric}_b*" in spec.metrics:
                signatures[f"{metric} `{signature}`"] = None

    if not signatures:
        return []
    return [Note(f"Signatures of sacreBLEU: {'; '.join(signatures)}.")]


def gains(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of gains over the baseline, with the reason of each verdict."""
    rows = _compared(spec, inputs)
    layout = Layout.of(rows, inputs.experiment.baseline)
    columns = [*layout.names, *layout.gained, *layout.verdict]
    if layout.verdict:
        columns.append(Column("Reason", "reason", "l"))

    return Table(
        title=f"Gain over {layout.baseline.label}. {inputs.title(spec)}",
        subject=inputs.experiment.title,
        rows=[Row(of_row) for of_row in cells_of_rows(_with_gain(rows), layout.baseline)],
        columns=columns,
        fields=GAINS,
        notes=notes_of_comparison(spec, inputs, rows, "{units} {gain}"),
        group=len(layout.names) - 1,
    )


def _with_gain(rows: Sequence[Compared]) -> list[Compared]:
    """Keep the rows that have a gain over the baseline."""
    return [row for row in rows if row.gain is not None]


def _devices_notes(rows: Sequence[Compared]) -> list[Note]:
    """Say whose seconds stand in which column, where some runs used a GPU."""
    divided = list(dict.fromkeys(f"{row.label} on {row.task_label}" for row in rows if row.divided))
    if not divided and not any(row.gpu_s for row in rows):
        return []

    notes = [Note(DEVICES_NOTE)]
    if divided:
        notes.append(Note(DIVIDED_NOTE.format(", ".join(divided))))
    return notes


def cells_of_rows(rows: Sequence[Compared], baseline: Name) -> list[dict[str, Cell]]:
    """Return the cells of compared models, row by row."""
    return [_cells_of(row, baseline) for row in rows]


def _cells_of(row: Compared, baseline: Name) -> dict[str, Cell]:
    """Return the cells of a compared model."""
    gain: Cell = Missing("this is the baseline, or the baseline was not run")
    if row.gain is not None:
        gain = Estimate(
            row.gain,
            row.digits,
            low=row.gain_low,
            high=row.gain_high,
            seeds=row.compared_seeds,
            is_gain=True,
            p=row.p,
            p_holm=row.p_holm,
        )
    outcome: Cell = Missing(f"not judged with {row.seeds_text}")
    if row.outcome is not None:
        outcome = Judgement(row.outcome)

    return {
        "task": Name(row.task, row.task_label),
        "model": Name(row.model, row.label),
        "metric": Name(row.metric.name, row.metric.label),
        "baseline": baseline,
        "level": level_of(row),
        "paper": _paper_figure(row.paper, row),
        "difference": Value(row.difference),
        "gain": gain,
        "paper_gain": _paper_figure(row.paper_gain, row, is_gain=True),
        "outcome": outcome,
        "verdict": Judgement(row.direction),
        "setting": Value(row.setting),
        "judged_seeds": Value(row.seeds_text),
        "reason": Value(row.reason),
        "cpu_s": Value(row.cpu_s, ",.0f"),
        "gpu_s": Value(row.gpu_s, ",.0f"),
    }


def level_of(row: Compared) -> Estimate:
    """Return a model's mean over seeds with its interval."""
    return Estimate(row.mean, row.digits, low=row.low, high=row.high, sd=row.sd, seeds=row.seeds)


def _paper_figure(value: float | None, row: Compared, is_gain: bool = False) -> Cell:
    """Return a value or a gain of the paper, if it has one."""
    if value is None:
        return Missing("the paper has no figure")
    return PaperFigure(value, row.metric.decimals, row.same_data, is_gain)


class Layout(NamedTuple):
    """The columns of a comparison for people.

    The metric is named where there are several. If the paper has no value, it has no column, and
    nothing is judged.
    """

    baseline: Name
    names: Sequence[Column]
    paper: Sequence[Column]
    gained: Sequence[Column]
    verdict: Sequence[Column]

    @classmethod
    def of(cls, rows: Sequence[Compared], baseline: str) -> Layout:
        """Choose the columns by what the rows have."""
        label = label_of_baseline(rows, baseline)
        names = [TASK, MODEL]
        if len({row.metric.name for row in rows}) > 1:
            names.insert(1, METRIC)
        gained = [
            Column("Gain, ours", "gain"),
            Column("95 % interval", "gain", part="interval"),
            Column("p", "gain", part="p_text"),
            Column("Holm", "gain", part="holm_text"),
            Column(f"{COMPARED}{label}", "outcome", "l"),
        ]

        if not any(row.paper is not None for row in rows):
            return cls(Name(baseline, label), names, [], gained, [])
        return cls(
            baseline=Name(baseline, label),
            names=names,
            paper=[Column("Paper", "paper")],
            gained=[Column("Gain, paper", "paper_gain"), *gained],
            verdict=VERDICT,
        )


def notes_of_comparison(
    spec: TableSpec,
    inputs: Inputs,
    rows: Sequence[Compared],
    first: str,
    more: Sequence[Note] = (),
) -> list[Note]:
    """Return the notes below a comparison.

    Args:
        first: template of the first note, with the metrics' `units` and what a `gain` is.
        more: notes to stand between those of the tasks and those of the paper.
    """
    notes = []
    if rows:
        units = "; ".join(sorted({_unit_of(row.metric) for row in rows})) + "."
        gain = _gain_note(rows, inputs.experiment.baseline)
        ours = OURS_OF_ONE_SEED
        if any(row.sd is not None for row in rows):
            ours = OURS_OF_SEVERAL_SEEDS
        note = first.format(units=units, gain=gain, ours=ours)
        # Where nothing is said of a gain, its place is left without a space of its own.
        notes.append(Note(" ".join(note.split())))

    task_labels = {row.task: row.task_label for row in rows}
    for task, label in task_labels.items():
        task_note = inputs.experiment.tasks[task].note
        if task_note:
            notes.append(Note(task_note, task, label, kind="about"))
    notes += more

    rows_of_paper = [row for row in rows if row.paper is not None]
    if not all(row.same_data for row in rows_of_paper):
        notes.append(Note(OTHER_DATA_NOTE))
    paper = inputs.paper(spec)
    if rows_of_paper and paper:
        names = _paper_rows(rows_of_paper, inputs.experiment)
        words = " ".join(filter(None, [f"Paper: {paper.source}.", paper.note, names]))
        notes.append(Note(words))

    rule = RULE_NOTE if refers_to_papers(inputs.experiment) else NOTE_OF_OWN_DATA
    notes.append(Note(rule, kind="rule"))
    return notes


def _gain_note(rows: Sequence[Compared], baseline: str) -> str:
    """Say what a gain is and how it is tested, or nothing where no row has one."""
    if all(row.gain is None and row.paper_gain is None for row in rows):
        return ""

    note = GAIN_NOTE
    note += TEST_NOTE if any(row.p is not None for row in rows) else NO_TEST_NOTE
    return note.format(label_of_baseline(rows, baseline))


def _paper_rows(rows: Sequence[Compared], experiment: Experiment) -> str:
    """Name the row of the paper's table beside each task that has another name here."""
    named = []
    for task, label in {row.task: row.task_label for row in rows}.items():
        config = experiment.tasks[task]
        paper_row = config.paper or config.paper_reference or ""
        if paper_row.lower() not in label.lower():
            named.append((label, paper_row))
    if not named:
        return ""

    (first_label, first_row), *others = named
    text = f"Its row beside {first_label} is {first_row}"
    for label, paper_row in others:
        text += f", beside {label} {paper_row}"
    return f"{text}."


def _unit_of(metric: Metric) -> str:
    """Name a metric with its unit, and say so if lower is better."""
    text = metric.label
    if metric.unit:
        text += f" in {metric.unit}"
    if metric.lower_is_better:
        text += ", lower is better"
    return text


def _p_by_sacrebleu(rows: Sequence[Compared], paths: Sequence[Path]) -> list[str | None] | None:
    """Return p of each row as text, one per seed; None where nothing was tested."""
    if not paths:
        return None

    tested: dict[tuple[str, str, str], list[str]] = {}
    for significance in sorted(
        (load(Significance, path) for path in paths), key=attrgetter("seed")
    ):
        for test in significance.tests:
            key = (significance.task, test.model, test.metric)
            tested.setdefault(key, []).append(probability(test.p))

    keys = [(row.task, row.model, row.metric.name) for row in rows]
    return ["; ".join(tested[key]) if key in tested else None for key in keys]
