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
from pam.reporting.catalogue import CAPTIONING, INFLECTION, SUMMARIZATION, TABLES, TRANSLATION, TableSpec, gains_of
from pam.reporting.comparison import RULE_NOTE, Inputs, Row, compare, frame_of
from pam.reporting.render import MODEL, SEEDS, TASK, Column, Table, interval, probability, signed, table_of
from pam.reporting.runs import ScoredRun, label_of, load_outputs, load_runs, processor_seconds
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
    "task", "model", "metric", "mean", "sd", "n", "low", "high", "paper", "difference",
    "p_vs_soft", "p_holm", "direction", "size", "setting", "cpu_s", "gpu_s",
)  # fmt: skip
GAINS = (
    "task", "model", "metric", "baseline", "seeds", "gain", "low", "high", "paper_gain", "p", "p_holm",
    "direction", "size", "setting", "reason",
)  # fmt: skip
DIGITS = {
    **dict.fromkeys(("mean", "sd", "low", "high", "difference", "gain", "paper_gain"), 4),
    **dict.fromkeys(("p", "p_vs_soft", "p_holm"), 6),
    **dict.fromkeys(("cpu_s", "gpu_s"), 1),
}
VERDICT = [Column("Paper's claim", "{verdict_text}", "l"), Column("Setting", "{setting_text}", "l")]
OTHER_DATA_NOTE = (
    "* The paper's figure is for the paper's own data, which are not ours: a verdict is on the claim, in another "
    "setting."
)
OURS_NOTE = (
    "{units} Ours: mean and standard deviation over seeds. {gain} "
    "CPU s (and GPU s): mean of one training with the decoding of the test set."
)
GAIN_NOTE = (
    "Gain: over {0}, positive where the model is better. p: bootstrap against {0}, paired by units, two-sided, "
    "(c + 1) / (n + 1); Holm: corrected for all gains of this table."
)
SACREBLEU_NOTE = (
    "p, sacreBLEU: by sacreBLEU's own paired bootstrap, each seed against the baseline's same seed. It differs from "
    "ours in two points: it is one-sided in effect, so that of a clear gain it is half of ours, and it does not "
    "average over seeds."
)


def comparison(spec: TableSpec, inputs: Inputs) -> Table:
    """Ours with the paper's, one row per task, metric and model."""
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, inputs.paper(spec))
    frame = _with_texts(rows).rename(columns={"p": "p_vs_soft"})
    csv, sacrebleu = COMPARISON, _p_by_sacrebleu(rows, inputs.significance)
    if sacrebleu is not None:
        csv, frame["p_sacrebleu"] = (*COMPARISON, "p_sacrebleu"), sacrebleu
    names, paper, gained, verdict = _columns(rows, inputs.experiment.baseline)
    shown = [
        *(*names, *paper, Column("Ours", "{ours}"), Column("95 % interval", "{interval}"), *gained),
        *([Column("p, sacreBLEU", "{p_sacrebleu}")] if sacrebleu else []),
        *(SEEDS, Column("CPU s", "{cpu_s:,.0f}")),
        *([Column("GPU s", "{gpu_s:,.0f}")] if any(row.gpu_s for row in rows) else []),
        *verdict,
    ]
    known = [task.runs[0].scores.details.get("signatures", {}) for task in inputs.tasks]
    signed_by = [f"{name} `{text}`" for one in known for name, text in one.items() if f"{name}_b*" in spec.metrics]
    signatures = dict.fromkeys(signed_by)
    said = [f"Signatures of sacreBLEU: {'; '.join(signatures)}."] if signatures else []
    said += [SACREBLEU_NOTE] if sacrebleu else []
    runs = [run.scores.details for task in inputs.tasks for run in task.runs]
    said += [f"Left out: {why}." for why in dict.fromkeys(one for own in runs for one in own.get("left_out", ()))]
    notes = _notes(spec, inputs, rows, OURS_NOTE, said)
    return table_of(inputs.title(spec), frame, csv, DIGITS, shown, notes, group=len(names) - 1)


def gains(spec: TableSpec, inputs: Inputs) -> Table:
    """Gains over the baseline with paired intervals, and what decided each verdict."""
    baseline = inputs.experiment.baseline
    rows = compare(inputs.tasks, inputs.experiment, spec.metrics, inputs.paper(spec))
    frame = _with_texts(rows).drop(columns=["low", "high"]).rename(columns={"gain_low": "low", "gain_high": "high"})
    frame["baseline"] = baseline
    frame["seeds"] = frame["compared_seeds"]
    names, _, gained, verdict = _columns(rows, baseline)
    shown = [*names, *gained, *verdict, *([Column("Reason", "{reason}", "l")] if verdict else [])]
    title = f"Gain over {_label(rows, baseline)}. {inputs.title(spec)}"
    notes = _notes(spec, inputs, rows, "{units} {gain}")
    return table_of(title, frame[frame["gain"].notna()], GAINS, DIGITS, shown, notes, group=len(names) - 1)


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
            "paper_text": None if row.paper is None else f"{row.paper:.{row.metric.decimals}f}{mark}",
            "gain_text": signed(row.gain, digits),
            "gain_interval": interval(row.gain_low, row.gain_high, digits, sign=True),
            "p_text": None if row.p is None else probability(row.p),
            "holm_text": None if row.p_holm is None else probability(row.p_holm),
            "told": row.told,
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


def _columns(rows: Sequence[Row], baseline: str) -> tuple[list[Column], list[Column], list[Column], list[Column]]:
    """Columns of names, with the metric where there are several; of the paper; of gains; of the verdict.

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
    return names, [Column("Paper", "{paper_text}")], [Column("Gain, paper", "{paper_gain_text}"), *gained], VERDICT


def _label(rows: Sequence[Row], baseline: str) -> str:
    return next((row.label for row in rows if row.model == baseline), baseline)


def _notes(spec: TableSpec, inputs: Inputs, rows: Sequence[Row], first: str, more: Sequence[str] = ()) -> list[str]:
    """What is said below a comparison; `first` takes the metrics' units and what a gain is."""
    units = set()
    for one in (row.metric for row in rows):
        unit, lower = f" in {one.unit}" if one.unit else "", ", lower is better" if one.lower_is_better else ""
        units.add(one.label + unit + lower)
    gain = GAIN_NOTE.format(_label(rows, inputs.experiment.baseline))
    labels, noted = {row.task: row.task_label for row in rows}, inputs.experiment.tasks
    reported = [row.same_data for row in rows if row.paper is not None]
    paper = inputs.paper(spec) if reported else None
    return [
        first.format(units="; ".join(sorted(units)) + ".", gain=gain),
        *(f"{label}: {noted[task].note}" for task, label in labels.items() if noted[task].note),
        *more,
        *([OTHER_DATA_NOTE] if not all(reported) else []),
        *([f"Paper: {paper.source}. {paper.note}".strip()] if paper else []),
        RULE_NOTE,
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
    "task", "model", "metric", "mean", "sd", "low", "high", "ppl", "one_minus_aer", "entropy",
    "trained_per_s", "decoded_per_s", "parameters", "n",
)  # fmt: skip
GLANCE_DIGITS = dict.fromkeys(GLANCE[3:10], 4) | {"trained_per_s": 2, "decoded_per_s": 2}
GLANCE_SHOWN = (
    TASK, MODEL, Column("Quality", "{quality}"), Column("95 %", "{interval}", "l"),
    Column("Perplexity", "{ppl:.3f}"), Column("1 - AER", "{one_minus_aer:.3f}"), Column("Entropy", "{entropy:.3f}"),
    Column("Trained/s", "{trained_per_s:,.0f}"), Column("Decoded/s", "{decoded_per_s:,.0f}"),
    Column("Parameters", "{parameters:,.0f}"), SEEDS,
)  # fmt: skip
QUALITY_NOTE = (
    "Quality: {}; mean and standard deviation over seeds, 95 % bootstrap interval of the mean over the test split's "
    "units and over seeds."
)
GLANCE_NOTE = (
    "Perplexity is of the likelihood, also where a bound was trained: positions are summed out by the prior, latent "
    "vectors are at their means, hard attention feeds back the most probable position; it counts target symbols "
    "(letters, words or pieces of words). Entropy: mean of the prior's over positions, in nats; a model without "
    "attention counts as attending to all positions alike. Trained/s: training examples, Decoded/s: test rows with the "
    "main beam, per processor second, or per GPU second where one was used; other work on the machine blurs both, "
    "`python -m pam bench` takes the models in turns."
)


def attentions(spec: TableSpec, inputs: Inputs) -> Table:
    """One row per task and model, means over seeds; what was not measured is empty."""
    rows = compare(inputs.tasks, inputs.experiment, ("accuracy", "bleu_b*", "rouge1", "cider"), None, first=True)
    gold = load_runs(inputs.gold_scores, inputs.experiment) if inputs.gold_scores else []
    aligned = compare(gold, inputs.experiment, ["one_minus_aer"], None, first=True) if gold else []
    certain = []
    for found in (load(Analysis, path) for path in inputs.analyses):
        sums = np.array([sum(found.sentences.nll), sum(found.sentences.tokens)])
        certain.append((found.task, found.model, float(perplexity(sums)), found.entropy.mean))
    quality = [_spread(row, row.digits) for row in rows]
    intervals = [interval(row.low, row.high, row.digits) for row in rows]
    frame = frame_of(rows).assign(quality=quality, interval=intervals)
    for measured, columns in (
        ([_speed_and_size(run) for task in inputs.tasks for run in task.runs], GLANCE[10:13]),
        (certain, ("ppl", "entropy")),
        ([(row.task, row.model, row.mean) for row in aligned], ("one_minus_aer",)),
    ):
        frame = frame.merge(_means(measured, columns), how="left", on=["task", "model"])
    names = dict.fromkeys(f"{row.metric.label} on {row.task_label}" for row in rows)
    notes = QUALITY_NOTE.format(", ".join(names)), GLANCE_NOTE
    return table_of(inputs.title(spec), frame, GLANCE, GLANCE_DIGITS, GLANCE_SHOWN, notes)


def _speed_and_size(run: ScoredRun) -> tuple[str, str, float | None, float | None, int | None]:
    """Task, model, examples and rows per processor or GPU second, and the number of parameters."""
    training, decoding = run.scores.training, run.main_decoding
    trained, decoded = processor_seconds(training), processor_seconds(decoding)
    rate, rows = training.get("examples_per_second"), decoding.get("sentences")
    return (
        *(run.task, run.model),
        rate * training["wall_s"] / trained[1] if trained and rate else None,
        rows / decoded[1] if decoded and rows else None,
        training.get("parameters"),
    )


def _means(records: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pd.DataFrame:
    """Means over seeds of what follows task and model, unknown where one of them is."""

    def mean(seeds: pd.Series[float]) -> float:
        return float(seeds.mean(skipna=False))

    frame = pd.DataFrame(records, columns=["task", "model", *columns]).astype(dict.fromkeys(columns, float))
    return frame.groupby(["task", "model"], as_index=False).agg(mean)


# Outputs of all models, side by side with the reference.

COUNT = 6  # rows of each task
WORDS = range(6, 26)  # lengths of the sentences that are shown: neither trifling nor too long to be compared by eye
OTHERS = 2  # references of a caption that are shown besides the first
SHOWN_WORDS = 100  # of a source that is summarized, at most
EXAMPLES = ("task", "sentence", "model", "label", "text")
EXAMPLES_SHOWN = (TASK, Column("Row", "{sentence}"), Column("", "{label}", "l"), Column("Text", "{shown}", "p"))
_SPREAD = (
    "spread evenly over those of the test split on which the models differ most: not the best ones, nor drawn at "
    "random."
)
EXAMPLES_NOTES = {
    TRANSLATION: "First seed, main beam, words as the models write them. "
    f"{COUNT} sentences of {WORDS.start} to {WORDS.stop - 1} source words, {_SPREAD}",
    SUMMARIZATION: f"First seed, main beam, words as the models write them. {COUNT} texts, {_SPREAD} Of a source the "
    f"first {SHOWN_WORDS} words are shown.",
    INFLECTION: f"First seed, main beam. {COUNT} forms, {_SPREAD}",
    CAPTIONING: f"First seed, main beam, words as the models write them. {COUNT} clips, {_SPREAD} The references are "
    "the first of a clip's captions.",
}


def examples(spec: TableSpec, inputs: Inputs) -> Table:
    """Some rows of each task with the outputs of every model's first seed; a `UserError` if they are of others."""
    lines: list[tuple[str, str, int, str, str, str, str]] = []
    lengths = WORDS if spec.kind == TRANSLATION else range(2**31)
    for task, by_model in load_outputs(inputs.predictions, inputs.experiment).items():
        first, *others = models = [seeds[0] for seeds in by_model.values()]
        for other in others:
            if [line[:2] for line in other.lines] != [line[:2] for line in first.lines]:
                words, hint = f"these are not the rows of {first.path}", "predict again on the same prepared data"
                raise UserError(words, file=other.path, hint=hint)
        origins = _origins_of(spec, first.path)
        for place in _most_different([one.lines for one in models], lengths):
            source, target, _ = first.lines[place]
            written = [(one.model, one.label, one.lines[place][2]) for one in models]
            outputs = [(*own, origins(own[-1], source)) for own in written]  # before the source is cut
            if spec.kind == SUMMARIZATION and len(source.split()) > SHOWN_WORDS:
                source = " ".join([*source.split()[:SHOWN_WORDS], "…"])
            texts = [("", "Source", source, ""), ("", "Reference", target, "")]
            texts += [("", "Another reference", other, "") for other in _other_references(spec, first.path, place)]
            lines += [(label_of(task, inputs.experiment), task, place + 1, *text) for text in (*texts, *outputs)]
    frame = pd.DataFrame(lines, columns=["task_label", *EXAMPLES, summarization.ORIGINS], dtype=object)
    notes = (EXAMPLES_NOTES[str(spec.kind)],)
    frame["shown"] = frame["text"].replace("", "(empty)")
    csv = (*EXAMPLES, summarization.ORIGINS) if spec.kind == SUMMARIZATION else EXAMPLES
    return table_of(inputs.title(spec), frame, csv, {}, EXAMPLES_SHOWN, notes, group=2)


def _origins_of(spec: TableSpec, predictions: Path) -> Callable[[str, str], str]:
    """What says of an output, and its whole source, where each word comes from, with a space between two; of nothing
    but summaries."""
    if spec.kind != SUMMARIZATION:
        return lambda text, source: ""
    known = Prepared(RunFolder(predictions.parent.parent).data()).target
    return lambda text, source: " ".join(summarization.origins(text, source, known))


def _other_references(spec: TableSpec, predictions: Path, place: int) -> list[str]:
    """The next references of a row, where its kind of task has several that are as short as the first."""
    if spec.kind != CAPTIONING:
        return []
    path = RunFolder(predictions.parent.parent).data() / REFERENCES.format(split="test")
    found: list[str] = json.loads(read_lines(path)[place])
    return found[1 : 1 + OTHERS]


def _most_different(outputs: Sequence[Sequence[tuple[str, ...]]], lengths: range) -> list[int]:
    """Of each of `COUNT` stretches the sentence with most different outputs, of one of `lengths` if there is one."""

    def rank(number: int) -> tuple[bool, int]:
        return len(outputs[0][number][0].split()) in lengths, len({lines[number][2] for lines in outputs})

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
