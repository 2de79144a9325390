"""Fetched files become a prepared folder: checked text, vocabularies and ids, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pam.data.dataset import RECORD, Prepared, hashes_of, read_checksummed, write_checksummed, write_summary
from pam.data.download import check_fetched
from pam.data.registry import Dataset, load_task
from pam.data.text import Files
from pam.data.word_alignments import WordAlignments
from pam.io import UserError, sha256_of, unknown


def prepare(name: str, dataset: Dataset, raw: Path, out: Path, stage: str | None = None) -> dict[str, Any]:
    """Makes the prepared folder `out` from the fetched files in `raw`, `summary.json` last.

    Args:
        name: the data set's name.
        dataset: its entry in the registry.
        raw: the folder that `fetch` filled.
        out: the prepared folder.
        stage: one stage alone, after those before it; all by default.

    Returns:
        The counts of the last stage that ran, its summary if it completes the folder;
        `["warnings"]` are sentences that the user should read.

    Raises:
        UserError: a file is missing, changed, or has a fault; names file and line.
    """
    stages = list(load_task(dataset.task).STAGES)
    if not stages:
        raise UserError(
            f"`{name}` holds word alignments, which belong to a task's data",
            hint="prepare that task, then run `python -m pam word-alignments`",
        )
    if stage is not None and stage not in stages:
        raise unknown("stage", stage, stages)
    counts: dict[str, Any] = {}
    for number, wanted in enumerate(stages):
        if stage in (None, wanted):
            counts = _run(name, dataset, raw, out, stages[: number + 1])
    return counts


def _run(name: str, dataset: Dataset, raw: Path, out: Path, stages: list[str]) -> dict[str, Any]:
    """Runs the last of `stages`, the others having run before."""
    task, stage, earlier = load_task(dataset.task), stages[-1], stages[:-1]
    records = {done: read_record(out / done) for done in earlier}
    hashes = records[earlier[0]]["inputs_sha256"] if earlier else check_fetched(dataset, raw)
    last = stage == list(task.STAGES)[-1]
    if not last:
        (out / stage / RECORD).unlink(missing_ok=True)
    try:
        counts = task.STAGES[stage](files_of(dataset, raw), dataset.layout, out).run()
    except UserError as error:
        raise _at_origin(error, dataset, raw) from error
    counts.setdefault("warnings", [])
    if not last:
        known = {"inputs_sha256": hashes, "outputs_sha256": hashes_of(out / stage)}
        write_checksummed(out / stage / RECORD, known | counts)
        return counts
    summary = {
        **_origin(name, dataset, hashes),
        "format": dataset.layout.model_dump(),
        **counts,
        "stages": [{"stage": done, **split} for done, record in records.items() for split in record["splits"]],
        "warnings": [text for own in (*records.values(), counts) for text in own["warnings"]],
    }
    return write_summary(out, summary)


def prepare_word_alignments(name: str, dataset: Dataset, raw: Path, data: Path, out: Path) -> dict[str, Any]:
    """Makes the prepared folder `out` of word alignments for the models of a task.

    Args:
        name: the data set's name.
        dataset: word alignments, in the registry.
        raw: the folder that `fetch` filled.
        data: the task's prepared folder.
        out: the folder to write.

    Returns:
        The summary.

    Raises:
        UserError: the data is not that of a task of translation, or as `WordAlignments.prepare`.
    """
    kind, task = load_task(dataset.task), Prepared(data)
    if not isinstance(kind, WordAlignments) or "languages" not in task.summary:
        raise UserError(
            f"`{name}` and the data in {data} are not word alignments and a task of translation",
            hint="name a data set with `task: alignment`",
        )
    hashes = check_fetched(dataset, raw)
    layout = kind.Format.model_validate(dataset.format)
    counts = kind.prepare(name, files_of(dataset, raw), layout, task, out)
    origin = _origin(name, dataset, hashes)
    return write_summary(out, {**origin, "languages": task.summary["languages"], **counts})


def _origin(name: str, dataset: Dataset, hashes: dict[str, str]) -> dict[str, Any]:
    """The data set, as a summary names it; `hashes` are those of the fetched files."""
    return {
        "dataset": name,
        "task": dataset.task,
        "title": dataset.title,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "inputs_sha256": hashes,
    }


def read_record(folder: Path) -> dict[str, Any]:
    """The counts of a stage, if its folder is as it left it.

    Raises:
        UserError: the stage has not run, or a file is missing or changed since.
    """
    path = folder / RECORD
    if not path.is_file():
        raise UserError(f"the stage {folder.name} has not run", file=path, hint="run the stages in order")
    record = read_checksummed(path, "a stage's record", "run the stage again")
    for file, known in record["outputs_sha256"].items():
        if not (folder / file).is_file() or sha256_of(folder / file) != known:
            raise UserError(
                f"this is not what the stage {folder.name} wrote", file=folder / file, hint="run the stage again"
            )
    return record


def files_of(dataset: Dataset, raw: Path) -> Files:
    """Paths of the files of each split."""
    return {
        split: raw / key if isinstance(key, str) else {what: raw / name for what, name in key.items()}
        for split, key in dataset.splits.items()
    }


def _at_origin(error: UserError, dataset: Dataset, raw: Path) -> UserError:
    """The same error, but naming the user's own file instead of our copy of it."""
    own = {str(raw / key): file.path for key, file in dataset.files.items()}
    origin = own.get(error.file or "") or error.file
    return UserError(error.message, file=origin, line=error.line, hint=error.hint)
