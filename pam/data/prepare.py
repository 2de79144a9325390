"""Fetched files become a prepared folder: checked text, vocabularies and ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pam.data.fetch import check_fetched
from pam.data.registry import Dataset
from pam.data.tasks import load_task
from pam.errors import UserError
from pam.files import write_json


def prepare(name: str, dataset: Dataset, raw: Path, out: Path) -> dict[str, Any]:
    """Writes the prepared folder `out` from the fetched files in `raw`, `summary.json` last.

    Returns:
        The summary; `summary["warnings"]` are sentences that the user should read.

    Raises:
        UserError: a file is missing, changed, or has a fault; names file and line.
    """
    hashes = check_fetched(dataset, raw)
    files = {split: raw / key for split, key in dataset.splits.items()}
    try:
        counts = load_task(dataset.task).prepare(files, dataset.layout, out)
    except UserError as error:
        raise _at_origin(error, dataset, raw) from error
    summary = {
        "dataset": name,
        "task": dataset.task,
        "title": dataset.title,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "inputs_sha256": hashes,
        **counts,
    }
    write_json(out / "summary.json", summary)
    return summary


def _at_origin(error: UserError, dataset: Dataset, raw: Path) -> UserError:
    """The same error, but naming the user's own file instead of our copy of it."""
    own = {str(raw / key): file.path for key, file in dataset.files.items()}
    origin = own.get(error.file or "") or error.file
    return UserError(error.message, file=origin, line=error.line, remedy=error.remedy)
