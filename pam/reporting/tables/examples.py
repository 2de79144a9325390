"""Build the table of outputs of all models, side by side with the reference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pam.data.dataset import Prepared
from pam.data.text_files import read_lines
from pam.data.vocabulary import Vocabulary
from pam.evaluation.inputs import columns_of, read_predictions
from pam.experiments.experiment import Experiment
from pam.experiments.run_config import load_run
from pam.experiments.run_folder import RunFolder
from pam.reporting.cells import Cell, Name, Value
from pam.reporting.comparison import Inputs
from pam.reporting.items import Examples, TableSpec
from pam.reporting.render import TASK, TASK_KEY, Column, Field, Note, Row, Table
from pam.reporting.runs import ByTask, OfRun, by_task, label_of
from pam.runtime.errors import UserError
from pam.tasks import imported
from pam.tasks.summarization import counts
from pam.tasks.translation.files import REFERENCES

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


@dataclass(frozen=True)
class Outputs(OfRun):
    """One `predictions.tsv`."""

    lines: list[tuple[str, ...]]  # source, reference and output of each row of a split


def load_outputs(paths: Sequence[Path], experiment: Experiment) -> ByTask[Outputs]:
    """Read and group outputs, each `predictions.tsv` in a folder beside its run's `run.yaml`.

    The source of an inflected form is its lemma with the features.
    """
    outputs = []
    for path in paths:
        run = load_run(path.parents[1] / "run.yaml")

        lines: list[tuple[str, ...]]
        if "lemma" in columns_of(path):
            lines = []
            rows = read_predictions(path, ("lemma", "features", "form", "predicted"))
            for lemma, features, form, predicted in rows:
                source = f"{lemma} ({features.replace(',', ', ')})"
                lines.append((source, form, predicted))
        else:
            lines = read_predictions(path, ("source", "target", "predicted"))

        outputs.append(Outputs(path, run.task, run.model, run.label, run.seed, lines))

    return by_task(outputs, experiment)


def examples(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the table of some rows of each task, with the outputs of every model's first seed.

    Raises:
        UserError: the models' outputs are of different rows.
    """
    return _examples(spec, inputs, ROWS)


def all_examples(spec: TableSpec, inputs: Inputs) -> Table:
    """Build the same table of all rows of the test split, for the page.

    Raises:
        UserError: the models' outputs are of different rows.
    """
    return _examples(spec, inputs, None)


def _examples(spec: TableSpec, inputs: Inputs, count: int | None) -> Table:
    """Build the table of `count` rows of each task, or of all where that is None."""
    shown = spec.examples or Examples(rows="rows")
    rows: list[Row] = []
    for task, by_model in load_outputs(inputs.predictions, inputs.experiment).items():
        outputs = [seeds[0] for seeds in by_model.values()]
        _check_same_rows(outputs)
        name = Name(task, label_of(task, inputs.experiment))
        origins_of = _origins_of(shown, outputs[0].path)
        lines_by_model = [of_model.lines for of_model in outputs]
        first_rows = _most_different(lines_by_model, shown.lengths, COUNT)
        row_indices = list(range(len(lines_by_model[0])))
        if count is not None:
            row_indices = _most_different(lines_by_model, shown.lengths, count)
        for row_index in row_indices:
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
