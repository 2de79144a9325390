"""The tables of `pam.reporting.catalogue.TABLES`, built."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pam.data.dataset import Prepared
from pam.data.readers import read_lines
from pam.data.translation import REFERENCES
from pam.evaluation import summarization
from pam.evaluation.attention import Analysis
from pam.evaluation.inputs import load
from pam.evaluation.metrics import perplexity
from pam.evaluation.translation import Significance
from pam.io import UserError, unknown
from pam.reporting import data_and_cost, lengths
from pam.reporting.catalogue import (
    CAPTIONING,
    INFLECTION,
    SUMMARIZATION,
    TABLES,
    TRANSLATION,
    TableSpec,
    gains_of,
    refers_to_papers,
)
from pam.reporting.comparison import NOTE_OF_OWN_DATA, RULE_NOTE, Inputs, Row, compare, frame_of
from pam.reporting.render import (
    MODEL,
    SEEDS,
    TASK,
    Column,
    Table,
    interval,
    probability,
    signed,
    table_of,
)
from pam.reporting.runs import (
    LeftOutError,
    ScoredRun,
    TaskRuns,
    label_of,
    load_outputs,
    load_runs,
    processor_seconds,
    reasons_left_out,
)
from pam.run_folder import RunFolder


def build(name: str, inputs: Inputs) -> Table:
    """The table called `name`, else a UserError; `<name>_gains` for the gains of any comparison."""
    spec, compared = TABLES.get(name), TABLES.get(name.removesuffix("_gains"))
    if spec is None and compared is not None and compared.builder == "comparison":
        spec = gains_of(compared)
    if spec is None:
        raise unknown("table", name, list(TABLES))
    return BUILDERS[spec.builder](spec, inputs)


# Ours with the paper's, and gains over the baseline.

COMPARISON: tuple[str, ...] = (
    "task",
    "model",
    "metric",
    "mean",
    "sd",
    "n",
    "low",
    "high",
    "paper",
    "difference",
    "p_vs_soft",
    "p_holm",
    "direction",
    "size",
    "setting",
    "cpu_s",
    "gpu_s",
)
GAINS = (
    "task",
    "model",
    "metric",
    "baseline",
    "seeds",
    "gain",
    "low",
    "high",
    "paper_gain",
    "p",
    "p_holm",
    "direction",
    "size",
    "setting",
    "reason",
)
DIGITS = {
    **dict.fromkeys(("mean", "sd", "low", "high", "difference", "gain", "paper_gain"), 4),
    **dict.fromkeys(("p", "p_vs_soft", "p_holm"), 6),
    **dict.fromkeys(("cpu_s", "gpu_s"), 1),
}
VERDICT = [Column("Paper's claim", "{verdict_text}", "l"), Column("Setting", "{setting_text}", "l")]
OTHER_DATA_NOTE = (
    "* The paper's figure is for the paper's own data, which are not ours: a verdict is on the"
    " claim, in another setting."
)
OURS_NOTE = (
    "{units} Ours: mean and standard deviation over seeds. {gain} "
    "CPU s (and GPU s): mean of one training with the decoding of the test set."
)
GAIN_NOTE = (
    "Gain: over {0}, positive where the model is better. p: bootstrap against {0}, paired by units,"
    " two-sided, (c + 1) / (n + 1); Holm: corrected for all gains of this table."
)
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
    """Ours with the paper's, one row per task, metric and model."""
    rows = _compared(spec, inputs)
    frame = _with_texts(rows).rename(columns={"p": "p_vs_soft"})
    csv, sacrebleu = COMPARISON, _p_by_sacrebleu(rows, inputs.significance)
    if sacrebleu is not None:
        csv, frame["p_sacrebleu"] = (*COMPARISON, "p_sacrebleu"), sacrebleu
    names, paper, gained, verdict = _columns(rows, inputs.experiment.baseline)
    shown = [
        *(*names, *paper, Column("Ours", "{ours}"), Column("95 % interval", "{interval}"), *gained),
        *([Column("p, sacreBLEU", "{p_sacrebleu}")] if sacrebleu else []),
        *(SEEDS, Column("CPU s", "{cpu_s:,.0f}")),
        *([Column("GPU s", "{gpu_text}")] if any(row.gpu_s for row in rows) else []),
        *verdict,
    ]
    known = [task.runs[0].scores.details.get("signatures", {}) for task in inputs.tasks]
    signed_by = [
        f"{name} `{text}`"
        for one in known
        for name, text in one.items()
        if f"{name}_b*" in spec.metrics
    ]
    signatures = dict.fromkeys(signed_by)
    said = [f"Signatures of sacreBLEU: {'; '.join(signatures)}."] if signatures else []
    said += [SACREBLEU_NOTE] if sacrebleu else []
    said += _devices_notes(rows)
    said += [f"Left out: {reason}." for reason in reasons_left_out(inputs.tasks)]
    notes = _notes(spec, inputs, rows, OURS_NOTE, said)
    return table_of(inputs.title(spec), frame, csv, DIGITS, shown, notes, group=len(names) - 1)


def _compared(spec: TableSpec, inputs: Inputs) -> list[Row]:
    """The rows of a comparison, none where scoring has left out all of its metrics."""
    try:
        return compare(inputs.tasks, inputs.experiment, spec.metrics, inputs.paper(spec))
    except LeftOutError:
        return []


def gains(spec: TableSpec, inputs: Inputs) -> Table:
    """Gains over the baseline with paired intervals, and what decided each verdict."""
    baseline = inputs.experiment.baseline
    rows = _compared(spec, inputs)
    frame = (
        _with_texts(rows)
        .drop(columns=["low", "high"])
        .rename(columns={"gain_low": "low", "gain_high": "high"})
    )
    frame["baseline"] = baseline
    frame["seeds"] = frame["compared_seeds"]
    names, _, gained, verdict = _columns(rows, baseline)
    shown = [*names, *gained, *verdict, *([Column("Reason", "{reason}", "l")] if verdict else [])]
    title = f"Gain over {_label(rows, baseline)}. {inputs.title(spec)}"
    notes = _notes(spec, inputs, rows, "{units} {gain}")
    return table_of(
        title, frame[frame["gain"].notna()], GAINS, DIGITS, shown, notes, group=len(names) - 1
    )


def _devices_notes(rows: Sequence[Row]) -> list[str]:
    """Say whose seconds stand in which column, where some runs used a GPU."""
    divided = list(dict.fromkeys(f"{row.label} on {row.task_label}" for row in rows if row.divided))
    if not divided and not any(row.gpu_s for row in rows):
        return []
    return [DEVICES_NOTE, *([DIVIDED_NOTE.format(", ".join(divided))] if divided else [])]


def _with_texts(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a frame, with what people read of them."""
    texts = []
    for row in rows:
        digits, mark = row.digits, "" if row.same_data else "*"
        paper_gain = signed(row.paper_gain, row.metric.decimals)
        text = {
            "metric_label": row.metric.label,
            "ours": _spread(row, digits),
            "interval": interval(row.low, row.high, digits),
            "paper_text": (
                None if row.paper is None else f"{row.paper:.{row.metric.decimals}f}{mark}"
            ),
            "gain_text": signed(row.gain, digits),
            "gain_interval": interval(row.gain_low, row.gain_high, digits, sign=True),
            "p_text": None if row.p is None else probability(row.p),
            "holm_text": None if row.p_holm is None else probability(row.p_holm),
            "told": row.told,
            "gpu_text": f"{row.gpu_s:,.0f}" if row.gpu_s else None,
            "paper_gain_text": paper_gain and paper_gain + mark,
            # No word about a claim that the paper does not make.
            "verdict_text": row.verdict if row.paper is not None else None,
            "setting_text": row.setting if row.paper is not None else None,
        }
        texts.append(text)
    return pd.concat([frame_of(rows), pd.DataFrame(texts, dtype=object)], axis=1)


def _spread(row: Row, digits: int) -> str:
    """Mean and standard deviation over seeds."""
    return f"{row.mean:.{digits}f}" + ("" if row.sd is None else f" ± {row.sd:.{digits}f}")


def _columns(
    rows: Sequence[Row], baseline: str
) -> tuple[list[Column], list[Column], list[Column], list[Column]]:
    """Columns of names, with the metric where there are several; of the paper; of gains; of the
    verdict.

    Where the paper has no value, there is no column of it, and nothing to be judged.
    """
    several = len({row.metric.name for row in rows}) > 1
    names = [TASK, *([Column("Metric", "{metric_label}", "l")] if several else []), MODEL]
    gained = [
        Column("Gain, ours", "{gain_text}"),
        Column("95 % interval", "{gain_interval}"),
        Column("p", "{p_text}"),
        Column("Holm", "{holm_text}"),
        Column(f"Than {_label(rows, baseline)}", "{told}", "l"),
    ]
    if not any(row.paper is not None for row in rows):
        return names, [], gained, []
    return (
        names,
        [Column("Paper", "{paper_text}")],
        [Column("Gain, paper", "{paper_gain_text}"), *gained],
        VERDICT,
    )


def _label(rows: Sequence[Row], baseline: str) -> str:
    return next((row.label for row in rows if row.model == baseline), baseline)


def _notes(
    spec: TableSpec, inputs: Inputs, rows: Sequence[Row], first: str, more: Sequence[str] = ()
) -> list[str]:
    """What is said below a comparison; `first` takes the metrics' units and what a gain is."""
    units = set()
    for one in (row.metric for row in rows):
        unit, lower = (
            f" in {one.unit}" if one.unit else "",
            ", lower is better" if one.lower_is_better else "",
        )
        units.add(one.label + unit + lower)
    gain = GAIN_NOTE.format(_label(rows, inputs.experiment.baseline))
    labels, noted = {row.task: row.task_label for row in rows}, inputs.experiment.tasks
    reported = [row.same_data for row in rows if row.paper is not None]
    paper = inputs.paper(spec) if reported else None
    return [
        *([first.format(units="; ".join(sorted(units)) + ".", gain=gain)] if rows else []),
        *(f"{label}: {noted[task].note}" for task, label in labels.items() if noted[task].note),
        *more,
        *([OTHER_DATA_NOTE] if not all(reported) else []),
        *([f"Paper: {paper.source}. {paper.note}".strip()] if paper else []),
        RULE_NOTE if refers_to_papers(inputs.experiment) else NOTE_OF_OWN_DATA,
    ]


def _p_by_sacrebleu(rows: Sequence[Row], paths: Sequence[Path]) -> list[str | None] | None:
    """p of each row, one per seed; None where nothing was tested."""
    if not paths:
        return None
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in sorted((load(Significance, path) for path in paths), key=attrgetter("seed")):
        for test in one.tests:
            found.setdefault((one.task, test.model, test.metric), []).append(probability(test.p))
    keys = [(row.task, row.model, row.metric.name) for row in rows]
    return ["; ".join(found[key]) if key in found else None for key in keys]


# Every model at a glance: how good, how certain, how fast, how large.

GLANCE = (
    "task",
    "model",
    "metric",
    "mean",
    "sd",
    "low",
    "high",
    "ppl",
    "one_minus_aer",
    "entropy",
    "trained_per_s",
    "decoded_per_s",
    "parameters",
    "n",
)
GLANCE_DIGITS = dict.fromkeys(GLANCE[3:10], 4) | {"trained_per_s": 2, "decoded_per_s": 2}
GLANCE_SHOWN = (
    TASK,
    MODEL,
    Column("Quality", "{quality}"),
    Column("95 %", "{interval}", "l"),
    Column("Perplexity", "{ppl:.3f}"),
    Column("1 - AER", "{one_minus_aer:.3f}"),
    Column("Entropy", "{entropy:.3f}"),
    Column("Trained/s", "{trained_per_s:,.0f}"),
    Column("Decoded/s", "{decoded_per_s:,.0f}"),
    Column("Parameters", "{parameters:,.0f}"),
    SEEDS,
)
QUALITY_NOTE = (
    "Quality: {}; mean and standard deviation over seeds, 95 % bootstrap interval of the mean over"
    " the test split's units and over seeds."
)
GLANCE_NOTE = (
    "Perplexity is of the likelihood, also where a bound was trained: positions are summed out by"
    " the prior, latent vectors are at their means, hard attention feeds back the most probable"
    " position; it counts target symbols (letters, words or pieces of words). Entropy: mean of the"
    " prior's over positions, in nats; a model without attention counts as attending to all"
    " positions alike. Trained/s: training examples, Decoded/s: test rows with the main beam, per"
    " processor second, or per GPU second where one was used; other work on the machine blurs both,"
    " `python -m pam bench` takes the models in turns."
)
SEVERAL_DEVICES_NOTE = "No rate is shown where a model's seeds ran on different devices."


# Of each task the first that it has: what follows stands in where scoring has left out the one
# before.
QUALITIES = ("accuracy", "bleu_b*", "rouge1", "cider", "chrf_b*", "rouge_coco")


def attentions(spec: TableSpec, inputs: Inputs) -> Table:
    """One row per task and model, means over seeds; what was not measured is empty."""
    rows = compare(inputs.tasks, inputs.experiment, QUALITIES, None, first=True)
    gold = load_runs(inputs.gold_scores, inputs.experiment) if inputs.gold_scores else []
    aligned = compare(gold, inputs.experiment, ["one_minus_aer"], None, first=True) if gold else []
    certain = []
    for found in (load(Analysis, path) for path in inputs.analyses):
        sums = np.array([sum(found.sentences.nll), sum(found.sentences.tokens)])
        certain.append((found.task, found.model, float(perplexity(sums)), found.entropy.mean))
    quality = [_spread(row, row.digits) for row in rows]
    intervals = [interval(row.low, row.high, row.digits) for row in rows]
    frame = frame_of(rows).assign(quality=quality, interval=intervals)
    sizes = [
        (run.task, run.model, run.scores.training.get("parameters"))
        for task in inputs.tasks
        for run in task.runs
    ]
    rates = {name: _rates(inputs.tasks, measure) for name, measure in RATES.items()}
    measurements: list[tuple[Sequence[tuple[Any, ...]], Sequence[str]]] = [
        *((own, (name,)) for name, own in rates.items()),
        (sizes, ("parameters",)),
        (certain, ("ppl", "entropy")),
        ([(row.task, row.model, row.mean) for row in aligned], ("one_minus_aer",)),
    ]
    for measured, columns in measurements:
        frame = frame.merge(_means(measured, columns), how="left", on=["task", "model"])
    names = dict.fromkeys(f"{row.metric.label} on {row.task_label}" for row in rows)
    notes = [QUALITY_NOTE.format(", ".join(names)), GLANCE_NOTE]
    seeds = [runs for task in inputs.tasks for runs in task.models.values()]
    if any(_differ([measure(run) for run in runs]) for runs in seeds for measure in RATES.values()):
        notes.append(SEVERAL_DEVICES_NOTE)
    return table_of(inputs.title(spec), frame, GLANCE, GLANCE_DIGITS, GLANCE_SHOWN, notes)


def _trained_per_s(run: ScoredRun) -> tuple[str, float] | None:
    """The device that trained a run, and examples per second of it."""
    training = run.scores.training
    spent, rate = processor_seconds(training), training.get("examples_per_second")
    return (spent[0], rate * training["wall_s"] / spent[1]) if spent and rate else None


def _decoded_per_s(run: ScoredRun) -> tuple[str, float] | None:
    """The device that decoded a run's test split, and rows per second of it."""
    spent, rows = processor_seconds(run.main_decoding), run.main_decoding.get("sentences")
    return (spent[0], rows / spent[1]) if spent and rows else None


RATES = {"trained_per_s": _trained_per_s, "decoded_per_s": _decoded_per_s}


def _rates(
    tasks: Sequence[TaskRuns], measure: Callable[[ScoredRun], tuple[str, float] | None]
) -> list[tuple[str, str, float | None]]:
    """Return task, model and rate of each run; unknown where a model's seeds ran on different
    devices.
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
    """Whether rates are of different devices."""
    return len({rate[0] for rate in rates if rate is not None}) > 1


def _means(records: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pd.DataFrame:
    """Means over seeds of what follows task and model, unknown where one of them is."""

    def mean(seeds: pd.Series[float]) -> float:
        return float(seeds.mean(skipna=False))

    frame = pd.DataFrame(records, columns=["task", "model", *columns]).astype(
        dict.fromkeys(columns, float)
    )
    return frame.groupby(["task", "model"], as_index=False).agg(mean)


# Outputs of all models, side by side with the reference.

COUNT = 6  # rows of each task
# lengths of the sentences that are shown: neither trifling nor too long to be compared by eye
WORDS = range(6, 26)
OTHERS = 2  # references of a caption that are shown besides the first
SHOWN_WORDS = 100  # of a source that is summarized, at most
EXAMPLES = ("task", "sentence", "model", "label", "text")
EXAMPLES_SHOWN = (
    TASK,
    Column("Row", "{sentence}"),
    Column("", "{label}", "l"),
    Column("Text", "{shown}", "p"),
)
_SPREAD = (
    "spread evenly over those of the test split on which the models differ most: not the best ones,"
    " nor drawn at random."
)
EXAMPLES_NOTES = {
    TRANSLATION: (
        "First seed, main beam, words as the models write them. "
        f"{COUNT} sentences of {WORDS.start} to {WORDS.stop - 1} source words, {_SPREAD}"
    ),
    SUMMARIZATION: (
        f"First seed, main beam, words as the models write them. {COUNT} texts, {_SPREAD} Of a"
        f" source the first {SHOWN_WORDS} words are shown."
    ),
    INFLECTION: f"First seed, main beam. {COUNT} forms, {_SPREAD}",
    CAPTIONING: (
        f"First seed, main beam, words as the models write them. {COUNT} clips, {_SPREAD} The"
        " references are the first of a clip's captions."
    ),
}


def examples(spec: TableSpec, inputs: Inputs) -> Table:
    """Some rows of each task with the outputs of every model's first seed; a `UserError` if they
    are of others.
    """
    lines: list[tuple[str, str, int, str, str, str, str]] = []
    lengths = WORDS if spec.kind == TRANSLATION else range(2**31)
    for task, by_model in load_outputs(inputs.predictions, inputs.experiment).items():
        first, *others = models = [seeds[0] for seeds in by_model.values()]
        for other in others:
            if [line[:2] for line in other.lines] != [line[:2] for line in first.lines]:
                words, hint = (
                    f"these are not the rows of {first.path}",
                    "predict again on the same prepared data",
                )
                raise UserError(words, file=other.path, hint=hint)
        origins = _origins_of(spec, first.path)
        for place in _most_different([one.lines for one in models], lengths):
            source, target, _ = first.lines[place]
            written = [(one.model, one.label, one.lines[place][2]) for one in models]
            # before the source is cut
            outputs = [(*own, origins(own[-1], source)) for own in written]
            if spec.kind == SUMMARIZATION and len(source.split()) > SHOWN_WORDS:
                source = " ".join([*source.split()[:SHOWN_WORDS], "…"])
            texts = [("", "Source", source, ""), ("", "Reference", target, "")]
            texts += [
                ("", "Another reference", other, "")
                for other in _other_references(spec, first.path, place)
            ]
            lines += [
                (label_of(task, inputs.experiment), task, place + 1, *text)
                for text in (*texts, *outputs)
            ]
    frame = pd.DataFrame(
        lines, columns=["task_label", *EXAMPLES, summarization.ORIGINS], dtype=object
    )
    notes = (EXAMPLES_NOTES[str(spec.kind)],)
    frame["shown"] = frame["text"].replace("", "(empty)")
    csv = (*EXAMPLES, summarization.ORIGINS) if spec.kind == SUMMARIZATION else EXAMPLES
    return table_of(inputs.title(spec), frame, csv, {}, EXAMPLES_SHOWN, notes, group=2)


def _origins_of(spec: TableSpec, predictions: Path) -> Callable[[str, str], str]:
    """What says of an output, and its whole source, where each word comes from, with a space
    between two; of nothing but summaries.
    """
    if spec.kind != SUMMARIZATION:
        return lambda text, source: ""
    known = Prepared(RunFolder(predictions.parent.parent).data()).target
    return lambda text, source: " ".join(summarization.origins(text, source, known))


def _other_references(spec: TableSpec, predictions: Path, place: int) -> list[str]:
    """The next references of a row, where its kind of task has several that are as short as the
    first.
    """
    if spec.kind != CAPTIONING:
        return []
    path = RunFolder(predictions.parent.parent).data() / REFERENCES.format(split="test")
    found: list[str] = json.loads(read_lines(path)[place])
    return found[1 : 1 + OTHERS]


def _most_different(outputs: Sequence[Sequence[tuple[str, ...]]], lengths: range) -> list[int]:
    """Of each of `COUNT` stretches the sentence with most different outputs, of one of `lengths` if
    there is one.
    """

    def rank(number: int) -> tuple[bool, int]:
        return len(outputs[0][number][0].split()) in lengths, len(
            {lines[number][2] for lines in outputs}
        )

    bounds = [place * len(outputs[0]) // COUNT for place in range(COUNT + 1)]
    return [max(range(*ends), key=rank) for ends in pairwise(bounds) if range(*ends)]


BUILDERS: dict[str, Callable[[TableSpec, Inputs], Table]] = {
    "comparison": comparison,
    "gains": gains,
    "lengths": lengths.lengths,
    "attentions": attentions,
    "examples": examples,
    "overhead": data_and_cost.overhead,
    "costs": data_and_cost.costs,
    "environment": data_and_cost.environment,
}
"""How each table is made of its files."""
