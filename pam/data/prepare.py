"""Kinds of tasks, and the stages that turn fetched files into a prepared folder.

The rest of the project knows rows only through a `Task`, and symbols only through its codec. A new
kind is a class that the `data` of its `pam.tasks.TaskKind` names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from pam.data.codecs import SIDES
from pam.data.dataset import (
    RECORD,
    SPLITS,
    hashes_of,
    read_checksummed,
    write_checksummed,
    write_summary,
)
from pam.data.download import check_fetched
from pam.data.languages import shown
from pam.data.lengths import warnings_of_lengths
from pam.data.reading import Files
from pam.data.sampling import Sample
from pam.data.vocabulary import Vocabulary
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import sha256_of

if TYPE_CHECKING:
    from pam.data.registry import Dataset

Layout = TypeVar("Layout", bound=Strict)

# keys of a data set that decide what is said of its data, and whether they may be published
DESCRIPTION = ("title", "licence", "redistributable", "citation")

# A split is refused if training lacks a larger share of its symbols than this.
MOST_UNKNOWN = 0.5
# A split with fewer symbols is not refused: there it may be chance.
FEWEST_SYMBOLS = 100


SHOWN_SYMBOLS = 10  # that a warning lists
ADD_SYMBOLS = "`format: {add_symbols: true}` to add the symbols of training"  # for hints


class TaskFormat(Strict):
    """Keys that `format` has whatever a task's kind, if models learn it."""

    source_eos: bool = Field(
        False, description="whether sources end in an end symbol, which can be attended to"
    )
    sample: Sample = Field(
        Sample(), description="a random sample of rows: `{train: N, dev: N, test: N, seed: 1}`"
    )
    # Left out where it is false, as in data from before there was this key.
    add_symbols: bool = Field(
        False,
        description=(
            "add the symbols of training to those of the model of other data that `init_from` names"
        ),
        exclude_if=lambda value: not value,
    )


@dataclass(frozen=True)
class Symbols:
    """The symbols of a trained model, in which other data are prepared."""

    name: str  # the model's, for people
    folder: Path  # with vocabularies, and the files of the codec
    task: str  # the kind of task
    source_eos: bool  # whether the sources that the model reads end in an end symbol


@dataclass
class Stage(ABC, Generic[Layout]):
    """One step from the fetched `files` to the prepared folder `out`.

    The last stage writes the prepared folder itself. Each earlier one writes into the folder of its
    name within it, and reads what the stage before wrote there.
    """

    # keys of the format that decide the result, besides what the stage before wrote
    keys: ClassVar[tuple[str, ...]]

    files: Files
    layout: Layout  # the task's `Format`
    out: Path
    # prepared data whose symbols the test split is to have; None: all splits are made
    base: Path | None = None
    # a model whose symbols all splits are to have; None: symbols are learned
    model: Symbols | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are made from files."""
        if self.base is None:
            return SPLITS
        return ("test",)

    @property
    def origin(self) -> Path | None:
        """The folder whose vocabularies and codec are taken; None: they are made of training."""
        if self.model is not None:
            return self.model.folder
        return self.base

    @abstractmethod
    def run(self) -> dict[str, Any]:
        """Write the stage's files and return counts, with `warnings` that users should read.

        A fault in the files is a UserError.
        """


class Task(ABC, Generic[Layout]):
    """A kind of task."""

    # keys that a data set of this kind may have under `format`
    Format: ClassVar[type[Strict]]

    # stages by name, in their order; none where no model learns the data
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]]

    # packages that only this kind needs, and that are not installed with all others
    packages: ClassVar[tuple[str, ...]] = ()

    # whether sources are symbols; else they are vectors
    has_symbols: ClassVar[bool] = True

    # whether a test split can be prepared alone, in the symbols of other data
    tests_alone: ClassVar[bool] = False

    # whether a split may be a list of parts, and a target have a list of files, its references
    has_lists: ClassVar[bool] = False

    # whether targets can be a pointer's actions, as for hard monotone attention
    has_actions: ClassVar[bool] = False
    # whether sources begin with features, symbols of several characters each
    has_features: ClassVar[bool] = False

    @abstractmethod
    def splits(self, layout: Layout) -> tuple[str, ...]:
        """Return the splits that a registry has to give files for."""

    @abstractmethod
    def modules(self, stage: str, layout: Layout) -> list[str]:
        """Return `module:Class` of the classes that decide the result of a stage or the `codec`."""

    def first_rows(
        self, files: Files, layout: Layout, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        """Return the first `count` rows of each file of the registry, by split.

        Rows are read as training would read them; a UserError names the line of a fault in them.
        """
        return {}

    def headings(self, layout: Layout) -> tuple[str, ...]:
        """Return names of the columns of a row, for people."""
        return SIDES

    def symbols(self, layout: Layout) -> dict[str, Any]:
        """Return the part of a format that decides which symbols a text becomes.

        Data sets for which it is equal have the same symbols.
        """
        return {}

    def in_symbols_of(self, layout: Layout, model: Symbols) -> Layout:
        """Return a format with which data become symbols of a trained model of this kind.

        A UserError says that they cannot.
        """
        hint = "prepare them with vocabularies of their own"
        raise UserError(
            "data of this kind cannot be prepared with the vocabularies of a model", hint=hint
        )

    def keys(self, stage: str) -> tuple[str, ...]:
        """Return the keys of `Format` that decide the result of a stage."""
        return self.STAGES[stage].keys


class SymbolWarning(str):
    """A warning of symbols that a model cannot read or write; `check` gives it too."""


def strange_warnings(
    split: str,
    side: str,
    rows: Iterable[Sequence[str]],
    vocabulary: Vocabulary,
    model: Symbols,
    *,
    adds_symbols: bool,
) -> list[SymbolWarning]:
    """Warn of rows of a side with symbols that a model does not know, with the first symbols.

    The vocabulary is the model's, to which those of training are added if `adds_symbols`.
    """
    count = 0
    strange: dict[str, None] = {}
    total = 0
    for row in rows:
        total += 1
        unknown_symbols = [symbol for symbol in row if symbol not in vocabulary]
        count += bool(unknown_symbols)
        strange |= dict.fromkeys(unknown_symbols)
    if not count:
        return []

    listed = ", ".join(map(shown, islice(strange, SHOWN_SYMBOLS)))
    if len(strange) > SHOWN_SYMBOLS:
        listed += ", ..."
    effect = "are read as one and the same"
    if side == "target":
        effect = "are written by no model but one that copies them"
    lacking = f"`{model.name}` does not know"
    remedy = f"write {ADD_SYMBOLS}, train without `init_from`, or leave such rows out"
    if adds_symbols:
        lacking = f"neither `{model.name}` nor what training adds to its vocabulary has"
        remedy = "add rows with them to training, or leave such rows out"

    return [
        SymbolWarning(
            f"{count} of {total} {side}s of {split} have symbols that {lacking}, which {effect}"
            f" ({len(strange)}: {listed}): {remedy}"
        )
    ]


def symbol_warnings(summary: Mapping[str, Any]) -> list[str]:
    """Return the warnings of symbols that `prepare` has just returned."""
    return [text for text in summary["warnings"] if isinstance(text, SymbolWarning)]


def class_names(*classes: type) -> list[str]:
    """Return `module:Class` of each class, as `pam.experiments.fingerprint` takes them."""
    return [f"{kind.__module__}:{kind.__qualname__}" for kind in classes]


def prepare(
    name: str,
    dataset: Dataset,
    raw: Path,
    out: Path,
    stage: str | None = None,
    base: Path | None = None,
    model: Symbols | None = None,
) -> dict[str, Any]:
    """Make the prepared folder `out` of the data set `name` from its fetched files in `raw`.

    `summary.json` is written last. A `stage` runs alone, after those before it; by default all run.
    With a `base`, other prepared data, only the test split is made, in their symbols; the rest of
    the folder is theirs, but for the training split, which is left out. With the symbols of a
    trained `model`, all splits are made in them.

    Returns the last stage's counts, or the summary, with `warnings` for the user. A UserError names
    file and line if a file is missing, changed, or has a fault.
    """
    stages = list(dataset.kind.STAGES)
    if not stages:
        message = f"`{name}` holds word alignments, which belong to a task's data"
        raise UserError(message, hint="prepare that task, then run `pam word-alignments`")
    if stage is not None and stage not in stages:
        raise unknown("stage", stage, stages)
    if base is None and list(dataset.splits) == ["test"]:
        raise UserError(
            f"`{name}` has no rows to train on", hint="name other prepared data with `--base`"
        )

    layout = dataset.layout
    assert isinstance(layout, TaskFormat)  # as of all that models learn
    if layout.add_symbols and model is None:
        message = "`add_symbols` adds symbols to those of a trained model, and none is named"
        raise UserError(message, hint="name one with `--symbols-of`, or leave out `add_symbols`")

    # A stage alone: Snakemake runs each as a job of its own.
    if stage is not None:
        last = stages.index(stage)
        return _run(name, dataset, raw, out, stages[: last + 1], base, model)

    for number in range(len(stages)):
        result = _run(name, dataset, raw, out, stages[: number + 1], base, model)
    return result


def _run(
    name: str,
    dataset: Dataset,
    raw: Path,
    out: Path,
    stages: list[str],
    base: Path | None = None,
    model: Symbols | None = None,
) -> dict[str, Any]:
    """Run the last of `stages`, after the others have run; return its counts or the summary."""
    *earlier, stage = stages
    records = _read_records(out, earlier)
    input_hashes = records[earlier[0]]["inputs_sha256"] if earlier else check_fetched(dataset, raw)

    is_last = stage == list(dataset.kind.STAGES)[-1]
    if not is_last:
        (out / stage / RECORD).unlink(missing_ok=True)

    try:
        files = files_of(dataset, raw)
        if base is not None:
            files = {"test": files["test"]}
        layout, changed = _layout(dataset, model)
        counts = dataset.kind.STAGES[stage](files, layout, out, base, model).run()
    except UserError as error:
        _name_original_files(error, dataset, raw)
        raise

    counts["warnings"] = [*counts.get("warnings", []), *(changed if is_last else [])]

    if not is_last:
        hashes = {"inputs_sha256": input_hashes, "outputs_sha256": hashes_of(out / stage)}
        write_checksummed(out / stage / RECORD, hashes | counts)
        return counts

    # The summary tells of the earlier stages too.
    stage_counts = []
    warnings = []
    for earlier_stage, record in records.items():
        stage_counts += [{"stage": earlier_stage, **split} for split in record["splits"]]
        warnings += record["warnings"]

    splits = SPLITS[1:] if base is None else ("test",)
    warnings += [*counts["warnings"], *warnings_of_lengths(base or out, out, splits)]
    summary = {
        **origin_of(name, dataset, input_hashes),
        "format": layout.model_dump(),
        **counts,
        "stages": stage_counts,
        "warnings": warnings,
    }
    if model is not None:
        summary["symbols_of"] = model.name
    if model is not None and layout.add_symbols:
        summary["added_symbols"] = _added_symbols(out, model)
    return write_summary(out, summary)


def _added_symbols(out: Path, model: Symbols) -> dict[str, int]:
    """Count the symbols that prepared vocabularies have beyond those of a model."""
    counts = {}
    for side in ("source", "target"):
        name = f"{side}.vocab"
        counts[side] = len(Vocabulary.load(out / name)) - len(Vocabulary.load(model.folder / name))
    return counts


def added_symbols_text(summary: Mapping[str, Any]) -> str:
    """Say how many symbols were added to those of a trained model, if any could be."""
    if "added_symbols" not in summary:
        return ""
    sides = [f"{count} of {side}s" for side, count in summary["added_symbols"].items()]
    return f"symbols of training added to those of `{summary['symbols_of']}`: {', '.join(sides)}"


def _layout(dataset: Dataset, model: Symbols | None) -> tuple[Any, list[str]]:
    """Return the format by which data are read, with warnings of what a model changes in it.

    A UserError says that the data cannot have the symbols of the model.
    """
    layout = dataset.layout
    if model is None:
        return layout, []
    if model.task != dataset.task:
        hint = "name a model of the same kind"
        message = f"`{model.name}` is for {model.task}, but the data are for {dataset.task}"
        raise UserError(message, hint=hint)

    changed = dataset.kind.in_symbols_of(layout, model)
    warnings = []
    for key in type(layout).model_fields:
        before = getattr(layout, key)
        after = getattr(changed, key)
        if after != before and key in layout.model_fields_set:
            warnings.append(f"`{key}` is {after}, as in the trained model, and not {before}")

    return changed, warnings


def _read_records(out: Path, stages: list[str]) -> dict[str, dict[str, Any]]:
    """Read the records of stages that have run.

    A UserError names a stage that has not run, or a file that is not what it wrote.
    """
    hint = "run the stage again"
    records = {}
    for stage in stages:
        record = out / stage / RECORD
        if not record.is_file():
            raise UserError(
                f"the stage {stage} has not run", file=record, hint="run the stages in order"
            )
        records[stage] = read_checksummed(record, "a stage's record", hint)

        for file_name, recorded_hash in records[stage]["outputs_sha256"].items():
            path = out / stage / file_name
            if not path.is_file() or sha256_of(path) != recorded_hash:
                raise UserError(f"this is not what the stage {stage} wrote", file=path, hint=hint)
    return records


def _name_original_files(error: UserError, dataset: Dataset, raw: Path) -> None:
    """Let an error name the user's own files in place of the fetched copies in `raw`."""
    originals = [(str(raw / key), file.path) for key, file in dataset.files.items() if file.path]
    # The longer of two names, of which one begins the other, comes first.
    for copy, original in sorted(originals, reverse=True):
        error.message = error.message.replace(copy, original)
        error.file = error.file and error.file.replace(copy, original)


def origin_of(name: str, dataset: Dataset, hashes: dict[str, str]) -> dict[str, Any]:
    """Return the data set as a summary names it; `hashes` are those of the fetched files."""
    description = {key: getattr(dataset, key) for key in ("task", *DESCRIPTION)}
    return {"dataset": name, **description, "inputs_sha256": hashes}


def files_of(dataset: Dataset, raw: Path) -> Files:
    """Return the paths of the files of each split."""
    return dataset.files_by_split(lambda name: raw / name)
