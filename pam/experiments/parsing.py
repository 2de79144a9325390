"""Classes that are read from a configuration, with errors that name the key and its line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from pam.experiments.yaml import placed
from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


def refused(error: UserError, *keys: str) -> PydanticCustomError:
    """Return what a validator raises so that `parse` raises `error`.

    `keys` lead from what is validated to the line that the message names.
    """
    return PydanticCustomError(
        "refused", "{message}", {"message": error.message, "hint": error.hint, "keys": keys}
    )


# Bytes of a file's name and of a whole path, on the file systems of Linux.
LONGEST_NAME = 255
LONGEST_PATH = 4095


def _checked_path(path: str) -> str:
    """Return a path that somebody wrote in a configuration, if a file can have it.

    Else the error that `refused` makes is raised.
    """
    lengths = [len(os.fsencode(part)) for part in path.split("/")]
    slashes = len(lengths) - 1
    if max(lengths) > LONGEST_NAME or sum(lengths) + slashes > LONGEST_PATH:
        hint = f"use at most {LONGEST_NAME} bytes between two slashes, and {LONGEST_PATH} in all"
        raise refused(UserError("this name is longer than the file system allows", hint=hint))

    return path


PathText = Annotated[str, AfterValidator(_checked_path)]
"""A path as a configuration has it: of a length that a file can have."""


class Strict(BaseModel):
    """Unknown keys are errors, values keep their types, objects do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Section = TypeVar("Section", bound=Strict)


def parse(
    kind: type[Section],
    value: Any,
    file: Path | str | Sequence[Path | str] | None = None,
    under: Sequence[str] = (),
) -> Section:
    """Read `value` (from YAML) as `kind`.

    A UserError with file, line and hint says if a key is unknown or missing, or a value of a wrong
    type.

    Args:
        kind: the class.
        value: plain data.
        file: where it was written, or the files that it was merged from.
        under: the keys below which it was written there.
    """
    if file is None:
        files: Sequence[Path | str] = []
    elif isinstance(file, str | Path):
        files = [file]
    else:
        files = file

    if not isinstance(value, dict):
        error = UserError("expected keys and values", hint="see config/README.md")
        raise placed(error, files, under)

    try:
        return kind.model_validate(value)
    except ValidationError as invalid:
        # A key that is unknown is told before one that is missing, as it may be that one misspelt.
        # A name that YAML took for a truth value is why the value around it has no kind that fits.
        problem = min(
            invalid.errors(),
            key=lambda error: (error["type"] != "extra_forbidden", not _is_misread_name(error)),
        )
        # An error in a key itself is reported below that key, as `[key]`.
        keys = [str(part) for part in problem["loc"] if part != "[key]"]
        worded = _worded(kind, problem, [*under, *keys], keys)
        below = []
        if problem["type"] == "refused":
            below = problem["ctx"]["keys"]
        raise placed(worded, files, [*under, *keys, *below]) from invalid


def _worded(kind: type[BaseModel], problem: Any, path: list[str], keys: list[str]) -> UserError:
    """Return the error for what pydantic found at `keys` of `kind`; `path` is where in the file."""
    where = ".".join(path)
    if problem["type"] == "refused":
        return UserError(problem["ctx"]["message"], hint=problem["ctx"]["hint"])

    if problem["type"] == "missing":
        return UserError(f"missing key `{where}`", hint=f"add `{keys[-1]}:`")

    if problem["type"] == "extra_forbidden":
        fields = sorted(_fields_at(kind, keys[:-1]))
        closest = difflib.get_close_matches(keys[-1], fields, n=1)
        hint = f"known keys: {', '.join(fields)}"
        if closest:
            hint = f"did you mean `{closest[0]}`?"
        return UserError(f"unknown key `{where}`", hint=hint)

    hint = "correct the value; config/README.md describes each key"
    value = problem["input"]
    if isinstance(value, str) and re.fullmatch("0[0-9]+", value):
        hint = f"write {int(value)}, without zeros before it"
    elif isinstance(value, str) and value.isdecimal():
        hint = f"write {int(value)}, without quotes"
    # As YAML takes 1e-3 for a text.
    elif isinstance(value, str) and NUMBER.fullmatch(value):
        hint = "write a number with a point, such as 1.0e-3"
    elif _is_misread_name(problem):
        hint = "put it into quotes, as 'no': YAML takes yes, no, on and off for true and false"

    message = f"{problem['msg'][0].lower()}{problem['msg'][1:]}"
    return UserError(f"`{where}`: {message}, not {value!r}", hint=hint)


def _is_misread_name(problem: Any) -> bool:
    """Tell whether what pydantic found is a truth value in place of a name, such as `no`."""
    return isinstance(problem["input"], bool) and problem["type"] == "string_type"


def _fields_at(kind: type[BaseModel], keys: list[str]) -> list[str]:
    """List the fields of the section that `keys` lead to."""
    for key in keys:
        field = kind.model_fields.get(key)
        annotation = getattr(field, "annotation", None)
        # A section itself, or a section by name as in `dict[str, Section]`.
        for inner in (annotation, *get_args(annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                kind = inner

    return list(kind.model_fields)


def dump_yaml(value: Strict, exclude: dict[str, Any] | None = None) -> str:
    """Return a configuration as YAML, keys in the order of the class.

    `exclude` names keys to leave out, as pydantic takes them.
    """
    content = value.model_dump(exclude=exclude)
    if not content:
        return "{}\n"
    return "".join(_dump_key(key, below) for key, below in content.items())


_DUMPED: dict[tuple[str, str], str] = {}


def _dump_key(key: str, value: Any) -> str:
    """Return a key and what is below it as YAML.

    Configurations of an experiment's runs differ in few keys, and there are hundreds of them: so
    what was written of a value is kept.
    """
    content = (key, repr(value))
    if content not in _DUMPED:
        _DUMPED[content] = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True)
    return _DUMPED[content]
