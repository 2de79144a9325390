"""Records as JSON, which one step writes and later ones read."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TypeVar

from pam.experiments.parsing import Strict, parse
from pam.runtime.errors import UserError
from pam.runtime.files import read_json, write_text

Record = TypeVar("Record", bound=Strict)


def load(kind: type[Record], path: Path | str) -> Record:
    """Read JSON that an earlier step wrote, as `kind`; a UserError says to make it again."""
    content = read_json(path)
    try:
        return parse(kind, content, path)
    except UserError as error:
        raise UserError(
            error.message, file=path, line=error.line, hint="delete it and make it again"
        ) from error


def save(record: Strict, path: Path | str) -> None:
    """Write JSON, whole or not at all, for people to read too: a line for each entry."""
    as_json = partial(json.dumps, ensure_ascii=False)

    sections = []
    for key, value in record.model_dump().items():
        content = as_json(value)
        if isinstance(value, dict) and value:
            entries = [f"    {as_json(name)}: {as_json(entry)}" for name, entry in value.items()]
            content = "{\n" + ",\n".join(entries) + "\n  }"
        sections.append(f"  {as_json(key)}: {content}")

    write_text(path, "{\n" + ",\n".join(sections) + "\n}\n")
