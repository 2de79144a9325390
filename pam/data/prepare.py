"""What a kind of task is, and how fetched files become its prepared folder, stage by stage.

The rest of the project knows rows only through a `Task`, and symbols only through its codec. A new
kind is a class with a line in `pam.data.registry.TASKS`, and one in `pam.data.tokenizers.CODECS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from pam.data.dataset import (
    RECORD,
    SPLITS,
    hashes_of,
    read_checksummed,
    write_checksummed,
    write_summary,
)
from pam.data.download import check_fetched
from pam.data.readers import Files
from pam.data.sampling import Sample
from pam.io import Strict, UserError, sha256_of, unknown

if TYPE_CHECKING:
    from pam.data.registry import Dataset

Layout = TypeVar("Layout", bound=Strict)
MOST_UNKNOWN = (
    0.5  # share of symbols that training lacks above which a split is not what it should be,
)
FEWEST_SYMBOLS = 100  # if it has so many: of fewer it may be chance


class TaskFormat(Strict):
    """Keys that `format` has whatever a task's kind, if models learn it."""

    source_eos: bool = Field(
        False, description="whether sources end in an end symbol, which can be attended to"
    )
    sample: Sample = Field(
        Sample(), description="use so many rows: {train: N, dev: N, test: N, seed: 1}"
    )


@dataclass
class Stage(ABC, Generic[Layout]):
    """One step from the fetched `files` to the prepared folder `out`, which the last one makes.

    The others write into the folder of their name within it, and read what the one before wrote
    there.
    """

    # of the format, that decide the result, besides what the stage before wrote
    keys: ClassVar[tuple[str, ...]]

    files: Files
    layout: Layout  # the task's `Format`
    out: Path
    base: Path | None = (
        None  # prepared data in whose symbols the test split is to be; None: symbols are learned
    )

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are made from files."""
        return SPLITS if self.base is None else ("test",)

    @abstractmethod
    def run(self) -> dict[str, Any]:
        """Writes the stage's files; returns counts, and `warnings` that users should read; a fault
        is a UserError.
        """


class Task(ABC, Generic[Layout]):
    """A kind of task."""

    Format: ClassVar[type[Strict]]  # keys that a data set of this kind may have under `format`
    # by name, in their order; none where no model learns the data
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]]
    packages: ClassVar[
        tuple[str, ...]
    ] = ()  # that only this kind needs, and that are not installed with all others
    has_symbols: ClassVar[bool] = True  # whether sources are symbols; else they are vectors
    tests_alone: ClassVar[bool] = (
        False  # whether a test split can be prepared alone, in the symbols of other data
    )
    has_actions: ClassVar[bool] = (
        False  # whether targets can be a pointer's actions, as for hard monotone attention
    )

    @abstractmethod
    def splits(self, layout: Layout) -> tuple[str, ...]:
        """Splits that a registry has to give files for."""

    @abstractmethod
    def modules(self, stage: str, layout: Layout) -> list[str]:
        """`module:Class` of the classes that decide what a stage, or the `codec`, results in."""

    def first_rows(
        self, files: Files, layout: Layout, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        """So many rows of each file that the registry gives, by its split, as training would read
        them; a UserError names the line of a fault in them.
        """
        return {}

    def symbols(self, layout: Layout) -> dict[str, Any]:
        """What of a format decides which symbols a text becomes; data in the same symbols have the
        same.
        """
        return {}

    def keys(self, stage: str) -> tuple[str, ...]:
        """Keys of `Format` that decide what a stage results in."""
        return self.STAGES[stage].keys


def class_names(*classes: type) -> list[str]:
    """`module:Class` of each class, as `pam.fingerprint` takes them."""
    return [f"{own.__module__}:{own.__qualname__}" for own in classes]


def prepare(
    name: str,
    dataset: Dataset,
    raw: Path,
    out: Path,
    stage: str | None = None,
    base: Path | None = None,
) -> dict[str, Any]:
    """Makes the prepared folder `out` of the data set `name` from its fetched files in `raw`,
    `summary.json` last.

    A `stage` runs alone, after those before it; by default all run. With a `base`, other prepared
    data, only the test split is made, in their symbols; the rest of the folder is theirs, but for
    the training split, which is left out. Returns the last stage's counts, or the summary, with
    `warnings` for the user. A UserError names file and line if a file is missing, changed, or has a
    fault.
    """
    stages = list(dataset.kind.STAGES)
    if not stages:
        message = f"`{name}` holds word alignments, which belong to a task's data"
        raise UserError(message, hint="prepare that task, then run `python -m pam word-alignments`")
    if stage is not None and stage not in stages:
        raise unknown("stage", stage, stages)
    if base is None and list(dataset.splits) == ["test"]:
        raise UserError(
            f"`{name}` has no rows to train on", hint="name other prepared data with `--base`"
        )
    numbers = range(len(stages)) if stage is None else [stages.index(stage)]
    return [_run(name, dataset, raw, out, stages[: number + 1], base) for number in numbers][-1]


def _run(
    name: str, dataset: Dataset, raw: Path, out: Path, stages: list[str], base: Path | None = None
) -> dict[str, Any]:
    """Runs the last of `stages`, the others having run before."""
    stage, earlier = stages[-1], stages[:-1]
    records = {}
    for done in earlier:
        record, hint = out / done / RECORD, "run the stage again"
        if not record.is_file():
            raise UserError(
                f"the stage {done} has not run", file=record, hint="run the stages in order"
            )
        records[done] = read_checksummed(record, "a stage's record", hint)
        for written, known in records[done]["outputs_sha256"].items():
            path = out / done / written
            if not path.is_file() or sha256_of(path) != known:
                raise UserError(f"this is not what the stage {done} wrote", file=path, hint=hint)
    hashes = records[earlier[0]]["inputs_sha256"] if earlier else check_fetched(dataset, raw)
    last = stage == list(dataset.kind.STAGES)[-1]
    if not last:
        (out / stage / RECORD).unlink(missing_ok=True)
    try:
        files = files_of(dataset, raw)
        files = files if base is None else {"test": files["test"]}
        counts = dataset.kind.STAGES[stage](files, dataset.layout, out, base).run()
    except UserError as error:
        # The user's own files are named, not our copies of them; the longer of two names comes
        # first.
        for copy, path in sorted(
            (str(raw / key), file.path) for key, file in dataset.files.items() if file.path
        )[::-1]:
            error.message = error.message.replace(copy, path)
            error.file = error.file and error.file.replace(copy, path)
        raise
    counts.setdefault("warnings", [])
    if not last:
        own_hashes = {"inputs_sha256": hashes, "outputs_sha256": hashes_of(out / stage)}
        write_checksummed(out / stage / RECORD, own_hashes | counts)
        return counts
    summary = {
        **origin_of(name, dataset, hashes),
        "format": dataset.layout.model_dump(),
        **counts,
        "stages": [
            {"stage": done, **split} for done, own in records.items() for split in own["splits"]
        ],
        "warnings": [text for own in (*records.values(), counts) for text in own["warnings"]],
    }
    return write_summary(out, summary)


def origin_of(name: str, dataset: Dataset, hashes: dict[str, str]) -> dict[str, Any]:
    """The data set, as a summary names it; `hashes` are those of the fetched files."""
    own = {
        key: getattr(dataset, key)
        for key in ("task", "title", "licence", "redistributable", "citation")
    }
    return {"dataset": name, **own, "inputs_sha256": hashes}


def files_of(dataset: Dataset, raw: Path) -> Files:
    """Paths of the files of each split."""
    return {
        split: raw / key
        if isinstance(key, str)
        else {what: raw / name for what, name in key.items()}
        for split, key in dataset.splits.items()
    }
