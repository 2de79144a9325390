"""JSON with a digest of its own content, so that damage is found when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pam.errors import UserError
from pam.files import read_json, write_json

SEAL = "content_sha256"


def write_sealed(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Writes keys and values as JSON, whole or not at all.

    Returns:
        What was written, the digest included.
    """
    sealed = dict(content) | {SEAL: _digest(content)}
    write_json(path, sealed)
    return sealed


def read_sealed(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """Reads what `write_sealed` wrote.

    Args:
        what: what the file is, for the message.

    Raises:
        UserError: missing, damaged, or something else.
    """
    content = read_json(path)
    if not isinstance(content, dict) or SEAL not in content:
        raise UserError(f"not {what}", file=path, remedy=remedy)
    if content[SEAL] != _digest(content):
        raise UserError("the file is damaged", file=path, remedy=remedy)
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Of keys and values, whatever their order and the layout of the file."""
    own = {key: value for key, value in content.items() if key != SEAL}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()
