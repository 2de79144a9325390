"""Build the tables of `pam.reporting.catalogue.TABLES`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pam.data.dataset import Prepared
from pam.data.text_files import read_lines
from pam.data.vocabulary import Vocabulary
from pam.evaluation.attention import Analysis
from pam.evaluation.metrics import Metric, perplexity
from pam.evaluation.records import load
from pam.evaluation.significance import Significance
from pam.experiments.experiment import Experiment
from pam.experiments.run_folder import RunFolder
from pam.experiments.sweep import text as text_of_value
from pam.reporting import data_and_cost, lengths
from pam.reporting.catalogue import TABLES, refers_to_papers
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
    QUALITIES,
    RULE_NOTE,
    Inputs,
    compare,
    compare_sweeps,
)
from pam.reporting.comparison import Row as Compared
from pam.reporting.items import Examples, TableSpec, gains_of
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
from pam.reporting.runs import (
    LeftOutError,
    Outputs,
    ScoredRun,
    TaskRuns,
    label_of,
    load_outputs,
    load_runs,
    notes_of,
    processor_seconds,
    reasons_left_out,
)
from pam.runtime.errors import UserError, unknown
from pam.tasks import imported
from pam.tasks.summarization import counts
from pam.tasks.translation.files import REFERENCES


def build(name: str, inputs: Inputs) -> Table:
    """Build the table called `name`; `<name>_gains` is the gains of any comparison.

    Raises:
        UserError: there is no such table.
    """
    spec = TABLES.get(name)
    if spec is None:
        compared = TABLES.get(name.removesuffix("_gains"))
        if compared is None or compared.builder != "comparison":
            raise unknown("table", name, list(TABLES))
        spec = gains_of(compared)

    return BUILDERS[spec.builder](spec, inputs)


# Our results with the paper's, and gains over the baseline.

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
    cells = _cells(rows, layout.baseline)

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

    more_notes = _signature_notes(spec, inputs)
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
        notes=_notes(spec, inputs, rows, OURS_NOTE, more_notes),
        group=len(layout.names) - 1,
    )


def _compared(spec: TableSpec, inputs: Inputs) -> list[Compared]:
    """Return the rows of a comparison; none if scoring has left out all of its metrics."""
    try:
        return compare(inputs.tasks, inputs.experiment, spec.metrics, inputs.paper(spec))
    except LeftOutError:
        return []


def _signature_notes(spec: TableSpec, inputs: Inputs) -> list[Note]:
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
        rows=[Row(of_row) for of_row in _cells(_with_gain(rows), layout.baseline)],
        columns=columns,
        fields=GAINS,
        notes=_notes(spec, inputs, rows, "{units} {gain}"),
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


def _cells(rows: Sequence[Compared], baseline: Name) -> list[dict[str, Cell]]:
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
        label = _label(rows, baseline)
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


def _label(rows: Sequence[Compared], baseline: str) -> str:
    """Return the baseline's label, or its name if it was not run."""
    return next((row.label for row in rows if row.model == baseline), baseline)


def _notes(
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
    return note.format(_label(rows, baseline))


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


# Sweeps: the values of an option as rows.

SWEEPS = (
    TASK_KEY,
    MODEL_KEY,
    Field("options", "options"),
    Field("values", "values"),
    Field("metric", "metric", "key"),
    *LEVEL,
    Field("baseline", "baseline", "key"),
    Field("gain", "gain", digits=4),
    Field("gain_low", "gain", "low", digits=4),
    Field("gain_high", "gain", "high", digits=4),
    Field("p", "gain", "p", digits=6),
    Field("p_holm", "gain", "p_holm", digits=6),
    Field("dev_loss", "dev_loss", digits=4),
)
SWEEPS_NOTE = (
    "{units} Mean and standard deviation over seeds on the test split. Dev loss: the mean loss of"
    " the development split in the epoch that was chosen; values are to be chosen by it, not by the"
    " test split. {gain}"
)


def sweeps(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of sweeps, one row per task and value, below the baseline's row."""
    experiment = inputs.experiment
    rows = compare_sweeps(inputs.tasks, experiment)
    # The baseline comes first, wherever it is listed.
    order = list(dict.fromkeys(row.task for row in rows))
    rows.sort(key=lambda row: (order.index(row.task), row.model != experiment.baseline))

    layout = Layout.of(rows, experiment.baseline)
    dev_losses = _means(_dev_losses(inputs.tasks))
    points = experiment.points()
    cells = _cells(rows, layout.baseline)
    for row, of_row in zip(rows, cells, strict=True):
        of_row["dev_loss"] = Value(dev_losses.get((row.task, row.model)), ".4f")
        of_row["options"] = of_row["values"] = Missing("this is the baseline")
        if row.model in points:
            values = points[row.model].values
            of_row["options"] = Value("; ".join(values))
            of_row["values"] = Value("; ".join(map(text_of_value, values.values())))

    return Table(
        title=inputs.title(spec),
        subject=experiment.title,
        rows=[Row(of_row) for of_row in cells],
        columns=[*layout.names, *OURS, *layout.gained, Column("Dev loss", "dev_loss"), SEEDS],
        fields=SWEEPS,
        notes=_notes(spec, inputs, rows, SWEEPS_NOTE),
        group=len(layout.names) - 1,
    )


def _dev_losses(tasks: Sequence[TaskRuns]) -> list[tuple[str, str, Any]]:
    """Return task, model and loss on the development split of each run, None where unknown."""
    return [
        (run.task, run.model, run.scores.training.get("dev_loss"))
        for task in tasks
        for run in task.runs
    ]


# All models at a glance: quality, certainty, speed, size.

MEASURED = {  # what is measured besides quality, with its heading and form
    "ppl": ("Perplexity", ".3f"),
    "one_minus_aer": ("1 − AER", ".3f"),
    "entropy": ("Entropy", ".3f"),
    "posterior_gain": ("Posterior's gain", ".3f"),
    "trained_per_s": ("Trained/s", ",.0f"),
    "decoded_per_s": ("Decoded/s", ",.0f"),
    "parameters": ("Parameters", ",.0f"),
}
GLANCE = (
    *NAMES,
    Field("mean", "level", digits=4),
    Field("sd", "level", "sd", digits=4),
    Field("low", "level", "low", digits=4),
    Field("high", "level", "high", digits=4),
    *(Field(name, name, digits=4) for name in list(MEASURED)[:4]),
    Field("trained_per_s", "trained_per_s", digits=2),
    Field("decoded_per_s", "decoded_per_s", digits=2),
    Field("parameters", "parameters"),
    Field("n", "level", "seeds"),
)
GLANCE_SHOWN = (
    TASK,
    MODEL,
    Column("Quality", "level"),
    Column("95 %", "level", "l", part="interval"),
    *(Column(heading, name) for name, (heading, _) in MEASURED.items()),
    SEEDS,
)
QUALITY_NOTE = "Quality: {}; {}, with a 95 % interval {}."
GLANCE_NOTE = (
    "Perplexity is of the likelihood, also where a bound was trained: positions are summed out by"
    " the prior, latent vectors are at their means, hard attention feeds back the most probable"
    " position; it counts target symbols (letters, words or pieces of words). Entropy: mean of the"
    " prior's over positions, in nats; a model without attention counts as attending to all"
    " positions alike. Posterior's gain: mean over target symbols of the KL divergence of posterior"
    " from prior, in nats: what a symbol tells about its position. Trained/s: training examples,"
    " Decoded/s: test rows with the main beam, per processor second, or per GPU second where one"
    " was used; other work on the machine lowers both rates; `pam bench` measures the"
    " models in turns."
)
SEVERAL_DEVICES_NOTE = "No rate is shown where a model's seeds ran on different devices."


def attentions(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of all models, one row per task and model, with means over seeds.

    Cells are empty where a quantity was not measured.
    """
    compared = compare(inputs.tasks, inputs.experiment, QUALITIES, None, first=True)
    measured = _measured(inputs)
    rows = []
    for row in compared:
        cells: dict[str, Cell] = {
            "task": Name(row.task, row.task_label),
            "model": Name(row.model, row.label),
            "metric": Name(row.metric.name, row.metric.label),
            "level": level_of(row),
        }
        for name, (_, form) in MEASURED.items():
            cells[name] = Value(measured[name].get((row.task, row.model)), form)
        rows.append(Row(cells))

    names = dict.fromkeys(f"{row.metric.label} on {row.task_label}" for row in compared)
    notes = [QUALITY_NOTE.format(", ".join(names), *_spreads(compared)), GLANCE_NOTE]
    seeds_of_models = [runs for task in inputs.tasks for runs in task.models.values()]
    if any(
        _differ([measure(run) for run in runs])
        for runs in seeds_of_models
        for measure in RATES.values()
    ):
        notes.append(SEVERAL_DEVICES_NOTE)

    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=rows,
        columns=GLANCE_SHOWN,
        fields=GLANCE,
        notes=[Note(note) for note in notes],
    )


def _measured(inputs: Inputs) -> dict[str, Means]:
    """Return what was measured besides quality, by the names of `MEASURED`."""
    uncertainties = list(_uncertainties(inputs.analyses))
    return {
        "ppl": _means((task, model, ppl) for task, model, ppl, _, _ in uncertainties),
        "one_minus_aer": _means(_alignments(inputs)),
        "entropy": _means((task, model, entropy) for task, model, _, entropy, _ in uncertainties),
        "posterior_gain": _means((task, model, gain) for task, model, _, _, gain in uncertainties),
        **{name: _means(_rates(inputs.tasks, measure)) for name, measure in RATES.items()},
        "parameters": _means(_sizes(inputs.tasks)),
    }


def _spreads(rows: Sequence[Compared]) -> tuple[str, str]:
    """Say what a table's values are of, and over what their intervals."""
    if any(row.sd is not None for row in rows):
        return OURS_OF_SEVERAL_SEEDS, "of the mean over the test split's units and over seeds"
    return OURS_OF_ONE_SEED, "over the test split's units"


def _sizes(tasks: Sequence[TaskRuns]) -> list[tuple[str, str, Any]]:
    """Return task, model and number of parameters of each run, None where it is unknown."""
    return [
        (run.task, run.model, run.scores.training.get("parameters"))
        for task in tasks
        for run in task.runs
    ]


def _uncertainties(paths: Sequence[Path]) -> list[tuple[str, str, float, float, float | None]]:
    """Return task, model, perplexity, entropy and the posterior's gain of each analysis."""
    records = []
    for path in paths:
        analysis = load(Analysis, path)
        sentences = analysis.sentences
        tokens = sum(sentences.tokens)
        sums = np.array([sum(sentences.nll), tokens])
        gain = None
        if sentences.posterior_gain is not None:
            gain = sum(sentences.posterior_gain) / tokens
        records.append(
            (
                analysis.task,
                analysis.model,
                float(perplexity(sums)),
                analysis.entropy.mean,
                gain,
            )
        )
    return records


def _alignments(inputs: Inputs) -> list[tuple[str, str, float]]:
    """Return task, model and 1 − AER, where word alignments were scored."""
    if not inputs.gold_scores:
        return []
    gold = load_runs(inputs.gold_scores, inputs.experiment)
    rows = compare(gold, inputs.experiment, ["one_minus_aer"], None, first=True)
    return [(row.task, row.model, row.mean) for row in rows]


def _trained_per_s(run: ScoredRun) -> tuple[str, float] | None:
    """Return the device that trained a run, and training examples per second of that device."""
    training = run.scores.training
    spent = processor_seconds(training)
    rate = training.get("examples_per_second")
    if not spent or not rate:
        return None

    device, seconds = spent
    # The recorded rate is per wall second.
    return device, rate * training["wall_s"] / seconds


def _decoded_per_s(run: ScoredRun) -> tuple[str, float] | None:
    """Return the device that decoded the test split, and rows per second of that device."""
    spent = processor_seconds(run.main_decoding)
    rows = run.main_decoding.get("sentences")
    if not spent or not rows:
        return None

    device, seconds = spent
    return device, rows / seconds


RATES = {"trained_per_s": _trained_per_s, "decoded_per_s": _decoded_per_s}


def _rates(
    tasks: Sequence[TaskRuns], measure: Callable[[ScoredRun], tuple[str, float] | None]
) -> list[tuple[str, str, float | None]]:
    """Return task, model and rate of each run.

    Rates are unknown where a model's seeds ran on different devices.
    """
    records = []
    for task in tasks:
        for model, runs in task.models.items():
            rates = [measure(run) for run in runs]
            is_comparable = not _differ(rates)
            records += [
                (task.name, model, rate[1] if rate and is_comparable else None) for rate in rates
            ]
    return records


def _differ(rates: Sequence[tuple[str, float] | None]) -> bool:
    """Check whether some rates are of another device than the others."""
    return len({rate[0] for rate in rates if rate is not None}) > 1


Means = Mapping[tuple[str, str], float | None]  # by task and model; None if unknown


def _means(records: Iterable[tuple[str, str, float | None]]) -> Means:
    """Return means over seeds, unknown where the value of one seed is.

    Args:
        records: task, model and value of each run.
    """
    by_model: dict[tuple[str, str], list[float | None]] = {}
    for task, model, value in records:
        by_model.setdefault((task, model), []).append(value)

    means: dict[tuple[str, str], float | None] = {}
    for key, values in by_model.items():
        known = [value for value in values if value is not None]
        # A mean over some of the seeds would not compare with the means of other models.
        means[key] = float(np.mean(known)) if len(known) == len(values) else None
    return means


# Outputs of all models, side by side with the reference.

COUNT = 6  # rows of each task that are shown to people
ROWS = 5 * COUNT  # rows of each task in the data, among them those that are shown
EXAMPLES = (
    TASK_KEY,
    Field("sentence", "sentence"),
    Field("model", "writer", "key"),
    Field("label", "writer", "label"),
    Field("text", "text"),
)
ORIGINS = Field(counts.ORIGINS, "origins")
EXAMPLES_SHOWN = (
    TASK,
    Column("Row", "sentence"),
    Column("", "writer", "l"),
    Column("Text", "shown", "p"),
)
_SPREAD = (
    "spread evenly over those of the test split on which the models differ most: not the best ones,"
    f" nor drawn at random. The CSV file has up to {ROWS}."
)


def examples(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of some rows of each task, with the outputs of every model's first seed.

    Raises:
        UserError: the models' outputs are of different rows.
    """
    shown = spec.examples or Examples(rows="rows")
    rows: list[Row] = []
    for task, by_model in load_outputs(inputs.predictions, inputs.experiment).items():
        outputs = [seeds[0] for seeds in by_model.values()]
        _check_same_rows(outputs)
        name = Name(task, label_of(task, inputs.experiment))
        origins_of = _origins_of(shown, outputs[0].path)
        lines_by_model = [of_model.lines for of_model in outputs]
        first_rows = _most_different(lines_by_model, shown.lengths, COUNT)
        for row_index in _most_different(lines_by_model, shown.lengths, ROWS):
            texts = _input_texts(shown, outputs[0], row_index)
            # A word's origin is looked up in the whole source, which may be shown in part.
            source = outputs[0].lines[row_index][0]
            for of_model in outputs:
                predicted_text = of_model.lines[row_index][2]
                origins = origins_of(predicted_text, source)
                texts.append((of_model.model, of_model.label, predicted_text, origins))
            rows += _example_rows(name, row_index + 1, texts, row_index in first_rows)

    return Table(
        title=inputs.title(spec),
        subject=inputs.experiment.title,
        rows=rows,
        columns=EXAMPLES_SHOWN,
        fields=(*EXAMPLES, ORIGINS) if shown.origins else EXAMPLES,
        notes=[Note(_examples_note(shown))],
        group=2,
    )


def _example_rows(
    task: Name, number: int, texts: Sequence[tuple[str, str, str, str]], is_shown: bool
) -> Iterator[Row]:
    """Yield a row for each text of a row of the test split: source, references and outputs.

    Args:
        number: of the row in the split, counted from 1.
        texts: model, label, text and its words' origins; the model is empty for what was given.
        is_shown: whether people are shown these texts.
    """
    for model, label, text, origins in texts:
        cells: dict[str, Cell] = {
            "task": task,
            "sentence": Value(number),
            "writer": Name(model, label),
            "text": Value(text),
            "shown": Value(text or "(empty)"),
            "origins": Value(origins),
        }
        yield Row(cells, is_shown=is_shown)


def _examples_note(shown: Examples) -> str:
    """Say which rows are shown."""
    words = ", words as the models write them" if shown.has_words else ""
    note = f"First seed, main beam{words}. {COUNT} {shown.rows}, {_SPREAD}"
    return f"{note} {shown.note}".rstrip()


def _check_same_rows(outputs: Sequence[Outputs]) -> None:
    """Check that all models' outputs have the same sources and references."""
    first = outputs[0]
    for other in outputs[1:]:
        if [line[:2] for line in other.lines] != [line[:2] for line in first.lines]:
            raise UserError(
                f"these are not the rows of {first.path}",
                file=other.path,
                hint="predict again on the same prepared data",
            )


def _input_texts(
    shown: Examples, outputs: Outputs, row_index: int
) -> list[tuple[str, str, str, str]]:
    """Return source and references of a row, with the fields that an output of a model has."""
    source, reference, _ = outputs.lines[row_index]
    words = source.split()
    if shown.source_words is not None and len(words) > shown.source_words:
        source = " ".join([*words[: shown.source_words], "…"])

    texts = [("", "Source", source, ""), ("", "Reference", reference, "")]
    texts += [
        ("", "Another reference", other_reference, "")
        for other_reference in _other_references(shown, outputs.path, row_index)
    ]
    return texts


def _origins_of(shown: Examples, predictions: Path) -> Callable[[str, str], str]:
    """Return the function of an output and its source that tells where each word comes from.

    It joins the words' origins by spaces; a kind of task without origins gets an empty text.
    """
    if not shown.origins:
        return lambda text, source: ""

    origins: Callable[[str, str, Vocabulary], Iterable[str]] = imported(shown.origins)

    vocabulary = Prepared(RunFolder(predictions.parent.parent).data()).target
    return lambda text, source: " ".join(origins(text, source, vocabulary))


def _other_references(shown: Examples, predictions: Path, row_index: int) -> list[str]:
    """Return the next references of a row, if its kind of task has several short ones."""
    if not shown.more_references:
        return []

    path = RunFolder(predictions.parent.parent).data() / REFERENCES.format(split="test")
    references: list[str] = json.loads(read_lines(path)[row_index])
    return references[1 : 1 + shown.more_references]


def _most_different(
    outputs: Sequence[Sequence[tuple[str, ...]]], lengths: range, count: int
) -> list[int]:
    """Return the row with the most different outputs in each of `count` stretches of the split.

    Where stretches are divided further, the rows of the larger ones are among those of the smaller.

    Args:
        outputs: model -> row -> source, reference and output.
        lengths: preferred numbers of source words; other rows are taken where there is none.
    """

    def rank(row_index: int) -> tuple[bool, int]:
        source = outputs[0][row_index][0]
        distinct_outputs = {lines[row_index][2] for lines in outputs}
        return len(source.split()) in lengths, len(distinct_outputs)

    # A stretch may be empty in a split of fewer rows than `count`.
    bounds = [index * len(outputs[0]) // count for index in range(count + 1)]
    return [max(range(*ends), key=rank) for ends in pairwise(bounds) if range(*ends)]


BUILDERS: dict[str, Callable[[TableSpec, Inputs], Table]] = {
    "comparison": comparison,
    "gains": gains,
    "sweeps": sweeps,
    "lengths": lengths.lengths,
    "attentions": attentions,
    "examples": examples,
    "overhead": data_and_cost.overhead,
    "costs": data_and_cost.costs,
    "environment": data_and_cost.environment,
}
"""The function that builds each kind of table from its files."""
