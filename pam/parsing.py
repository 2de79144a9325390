"""From YAML to the classes that state what may be written, with errors that name the place."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from pam.errors import UserError
from pam.yaml_files import place_of


class Strict(BaseModel):
    """Unknown keys are errors, values keep their types, objects do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Section = TypeVar("Section", bound=Strict)


def parse(
    kind: type[Section],
    value: Any,
    file: Path | str | Sequence[Path] | None = None,
    under: Sequence[str] = (),
) -> Section:
    """Reads `value` (from YAML) as `kind`.

    Args:
        file: where the value was written, to be named with its line in a message; several files
            if it was merged from them.
        under: the keys in that file under which the value stands.

    Raises:
        UserError: an unknown key, a missing key or a wrong type; names file, line and remedy.
    """
    files = [] if file is None else [file] if isinstance(file, str | Path) else file
    if not isinstance(value, dict):
        place, line = place_of(files, under)
        raise UserError(
            "expected keys and values", file=place, line=line, remedy="see config/README.md"
        )
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problem = error.errors()[0]
        # A fault in a key itself is reported below that key, as `[key]`.
        keys = [str(part) for part in problem["loc"] if part != "[key]"]
        place, line = place_of(files, [*under, *keys])
        raise UserError(
            _worded(problem, [*under, *keys]),
            file=place,
            line=line,
            remedy=_remedy(kind, problem, keys),
        ) from error


def _worded(problem: Any, keys: list[str]) -> str:
    where = ".".join(keys)
    if problem["type"] == "extra_forbidden":
        return f"unknown key `{where}`"
    if problem["type"] == "missing":
        return f"missing key `{where}`"
    return f"`{where}`: {problem['msg'][0].lower()}{problem['msg'][1:]}, not {problem['input']!r}"


def _remedy(kind: type[BaseModel], problem: Any, keys: list[str]) -> str:
    known = sorted(_fields_at(kind, keys[:-1]))
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(keys[-1], known, n=1)
        return f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(known)}"
    if problem["type"] == "missing":
        return f"add `{keys[-1]}:`"
    return "correct the value; config/README.md describes each key"


def _fields_at(kind: type[BaseModel], keys: list[str]) -> list[str]:
    """Names of the fields of the section that `keys` lead to."""
    for key in keys:
        field = kind.model_fields.get(key)
        annotation = field.annotation if field else None
        # A section itself, or a section by name as in `dict[str, Section]`.
        for inner in (annotation, *get_args(annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                kind = inner
    return list(kind.model_fields)


def unknown(what: str, name: str, known: list[str], file: Path | str | None = None) -> UserError:
    """The error for a name that nothing bears, with the closest one that something does."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return UserError(
        f"unknown {what} `{name}`", file=file, remedy=f"{hint}known: {', '.join(known) or 'none'}"
    )


def dump_yaml(value: Strict, exclude: dict[str, Any] | None = None) -> str:
    """A configuration as YAML, keys in the order of the class.

    Args:
        exclude: keys to leave out, as pydantic's `model_dump` takes them.
    """
    content = value.model_dump(exclude=exclude)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
