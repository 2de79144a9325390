"""Files, YAML with line numbers, and errors for people: what every module reads and writes by."""

from __future__ import annotations

import difflib
import errno
import gzip
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

# The one kind of failure that a user can mend, and how it is worded.


class UserError(Exception):
    """Something in the user's hands is wrong: an input, an option, a disk that is full.

    The command line prints it as one message and ends with exit code 2; nothing is left half
    written.

    Args:
        message: what is wrong, one sentence without a full stop.
        file: the file at fault, where there is one.
        line: its line, counted from 1.
        hint: what to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: Path | str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.line = line
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        place = ""
        if self.file is not None:
            place = f"{self.file}:{self.line}: " if self.line is not None else f"{self.file}: "
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


# Files that are either whole or not there: written aside, flushed, then renamed.

PART = ".part"
"""How the name of a file ends that is not whole yet."""


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path in the folder of `path`; on success it takes `path`'s place.

    The file is flushed to disk before the rename, so that a crash leaves the old file or the new
    one, never a part. On any failure the temporary file is removed.

    Raises:
        UserError: the disk is full, or the folder may not be written to.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(PART, f".{path.name}.", path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        _flush(temporary)
        # mkstemp makes files private; results are to be read by others as any file is.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def clear_parts(folder: Path) -> None:
    """Removes what processes that were killed while writing left half written in a folder.

    Whoever calls this holds a lock, as it spares nothing that somebody is writing.
    """
    for left in folder.rglob(f"*{PART}"):
        left.unlink()


def check_writable(folder: Path | str) -> None:
    """Checks a folder and all in it, before much is computed that could not be kept.

    Raises:
        UserError: it is there and may not be written to, or a folder in it may not.
    """
    for place, _, _ in os.walk(folder):
        if not os.access(place, os.W_OK | os.X_OK):
            raise storage_error(PermissionError(errno.EACCES, ""), place)


def storage_error(error: OSError, path: Path | str) -> UserError | OSError:
    """Words a full disk, a missing permission, a wrong place; other errors are left alone."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError("the disk is full", file=path, hint="free some space and run again")
    if error.errno == errno.EFBIG:
        return UserError(
            "the file would be larger than is allowed here",
            file=path,
            hint="raise the limit (`ulimit -f`), or choose a folder on another disk",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return UserError(
            "no permission to write here",
            file=path,
            hint="choose a folder you may write to, or change its permissions",
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
        return UserError(
            "a file stands where a folder is needed, or a folder where a file is",
            file=path,
            hint="choose another place, or move what is there",
        )
    return error


def _flush(path: Path) -> None:
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path | str, text: str) -> None:
    """Writes `text` as UTF-8 with LF line ends, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path | str, value: Any) -> None:
    """Writes `value` as indented JSON with a stable order of keys as given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path | str) -> Any:
    """Reads JSON; a file whose name ends in `.gz` is unpacked first.

    Raises:
        UserError: the file is missing or is not JSON.
    """
    try:
        content = Path(path).read_bytes()
        if Path(path).suffix == ".gz":
            content = gzip.decompress(content)
        return json.loads(content.decode("utf-8"))
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="make it first") from error
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        line = getattr(error, "lineno", None)
        raise UserError(
            "this is not valid JSON", file=path, line=line, hint="delete it and make it again"
        ) from error


def sha256_of(path: Path | str) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


# From YAML to the classes that state what may be written, with errors that name the place.


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
        UserError: an unknown key, a missing key or a wrong type; names file, line and hint.
    """
    files = [] if file is None else [file] if isinstance(file, str | Path) else file
    if not isinstance(value, dict):
        place, line = place_of(files, under)
        raise UserError(
            "expected keys and values", file=place, line=line, hint="see config/README.md"
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
            hint=_hint(kind, problem, keys),
        ) from error


def _worded(problem: Any, keys: list[str]) -> str:
    where = ".".join(keys)
    if problem["type"] == "extra_forbidden":
        return f"unknown key `{where}`"
    if problem["type"] == "missing":
        return f"missing key `{where}`"
    return f"`{where}`: {problem['msg'][0].lower()}{problem['msg'][1:]}, not {problem['input']!r}"


def _hint(kind: type[BaseModel], problem: Any, keys: list[str]) -> str:
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
        f"unknown {what} `{name}`", file=file, hint=f"{hint}known: {', '.join(known) or 'none'}"
    )


def dump_yaml(value: Strict, exclude: dict[str, Any] | None = None) -> str:
    """A configuration as YAML, keys in the order of the class.

    Args:
        exclude: keys to leave out, as pydantic's `model_dump` takes them.
    """
    content = value.model_dump(exclude=exclude)
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


# YAML files: read safely, and the line on which a key stands.

LARGEST = 100_000
"""Keys and values of a file, each counted as often as it is repeated by an alias."""


def line_of(file: Path | str | None, keys: Sequence[str]) -> int | None:
    """The line on which the deepest of the nested `keys` that exists stands in a YAML file."""
    return place_of([] if file is None else [file], keys)[1]


def place_of(
    files: Sequence[Path | str], keys: Sequence[str]
) -> tuple[Path | str | None, int | None]:
    """The file, of several that were merged, that goes deepest into the nested `keys`.

    Args:
        files: YAML files, the last one winning.
        keys: names of keys; in a list, an item or its index.

    Returns:
        the file and the line of the deepest key in it; the first file and no line if none has any.
    """
    place: tuple[Path | str | None, int | None] = (files[0] if files else None, None)
    deepest = 0
    for file in files:
        depth, line = _depth(file, keys)
        if depth and depth >= deepest:
            place, deepest = (file, line), depth
    return place


def _depth(file: Path | str, keys: Sequence[str]) -> tuple[int, int | None]:
    """How many of the nested `keys` a file has, and the line of the last of them."""
    if not Path(file).is_file():
        return 0, None
    node = yaml.compose(Path(file).read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    line = None
    for depth, key in enumerate(keys):
        below = _below(node, key)
        if below is None:
            return depth, line
        line, node = below
    return len(keys), line


def _below(node: yaml.Node | None, key: str) -> tuple[int, yaml.Node] | None:
    """The line of `key` in a mapping or list, and what stands under it."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                return name.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode):
        # The last of equal items, which is the one that is said twice.
        for index, item in reversed(list(enumerate(node.value))):
            if key in (str(index), item.value):
                return item.start_mark.line + 1, item
    return None


def read_yaml(path: Path | str) -> Any:
    """Reads a YAML file safely: plain data only, no tags that would construct objects.

    Raises:
        UserError: missing, not UTF-8, not YAML; names the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError("this is not UTF-8 text", file=path, hint="save it as UTF-8") from error
    except PermissionError as error:
        raise UserError(
            "no permission to read this file", file=path, hint="change its permissions"
        ) from error
    except (OSError, ValueError) as error:  # a folder, or a name that no file can have
        raise UserError("no such file", file=path, hint="check the name") from error
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path | str) -> Any:
    """Reads YAML as `read_yaml` does; `path` is where it stands.

    Raises:
        UserError: not YAML, or larger than any configuration; names the line.
    """
    hint = "correct the line (indentation, colon and quotes are the usual causes)"
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _bounded(node)
        return None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise UserError(
            f"this is not valid YAML: {getattr(error, 'problem', None) or error}",
            file=path,
            line=None if mark is None else mark.line + 1,
            hint=hint,
        ) from error
    except RecursionError as error:
        raise UserError("lists in lists without end", file=path, hint=hint) from error
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        # Numbers and dates that are spelt like some, but are none: 2001-99-99, !!int x.
        raise UserError(
            f"a value is not what it seems to be: {error}", file=path, hint="put it into quotes"
        ) from error


def _bounded(node: yaml.Node | None) -> None:
    """Refuses aliases (`*name`) that stand for more than any file holds, or for themselves."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) not in sizes:
            sizes[id(node)] = math.inf  # until it is known; so it stays in itself
            value = node.value if isinstance(node, yaml.CollectionNode) else []
            parts = chain(*value) if isinstance(node, yaml.MappingNode) else value
            sizes[id(node)] = 1 + sum(map(size, parts))
        return sizes[id(node)]

    if node is not None and size(node) > LARGEST:
        raise yaml.MarkedYAMLError(
            problem=f"more than {LARGEST} keys and values", problem_mark=node.start_mark
        )
