"""Errors for people, files that are written whole or not at all, YAML that knows its lines."""

from __future__ import annotations

import difflib
import errno
import fcntl
import glob
import gzip
import hashlib
import io
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError
from yaml.constructor import SafeConstructor

PACKAGE = Path(__file__).parent
# The folder with the workflow, its configurations and profiles: that of a checkout, or the one that
# is installed with the package.
SHIPPED = PACKAGE.parent
if (PACKAGE / "shipped").is_dir():
    SHIPPED = PACKAGE / "shipped"
PART = ".part"  # how the name of a file ends that is not whole yet
SCRATCH = "pam-unpacked-"  # how the names of temporary folders begin
NEW_S = 60.0  # age in seconds from which a temporary folder without a lock is a leftover
# The names of such files, as `mkstemp` makes them.
PARTS = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.part", re.DOTALL)
# how YAML calls the kinds of a key: `no` is a boolean, and a key is always a name, but for `<<`
BOOLEAN_TAG = "tag:yaml.org,2002:bool"
TEXT_TAG = "tag:yaml.org,2002:str"
MERGE_TAG = "tag:yaml.org,2002:merge"
# Numbers of YAML 1.1 that mean another one than they look like: 010 is 8, and 1:30 is 90.
MISREAD = re.compile(r"^[-+]?0+[1-7][0-7_]+$|:")
NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")
# Keys and values of a YAML file, each counted as often as it is repeated by an alias.
LARGEST = 100_000
# Sections and lists of a YAML file that are nested in each other.
DEEPEST = 50
HALF = re.compile("[\ud800-\udfff]")  # half of a character, as UTF-16 divides some

HOW_TO_GIVE = "write lists and sections as --config 'seeds=[1, 2]' 'training={epochs: 2}'"


class UserError(Exception):
    """Something in the user's hands is wrong, as an input, an option, a full disk.

    The command ends with exit code 2. `message` is one sentence without a full stop, `line` counts
    from 1, `hint` says what to do about it.
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
        self.line = line
        self.hint = hint
        self.file = None if file is None else str(file)
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.message
        if self.file is not None and self.line is not None:
            text = f"{self.file}:{self.line}: {text}"
        elif self.file is not None:
            text = f"{self.file}: {text}"

        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text


def write_utf8() -> None:
    """Let this process write and read UTF-8 in its streams, whatever the language settings say."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What is no character, as in some file names, is shown by its number.
            errors = None if stream is sys.stdin else "backslashreplace"
            stream.reconfigure(encoding="utf-8", errors=errors)


def find_file(path: Path | str, *folders: Path) -> Path:
    """Return a path in the first folder that has it, or as it is if none has.

    The folder of work is looked at first, then `folders`, and last the workflow's own.
    """
    for candidate in (Path(path), *(folder / path for folder in (*folders, SHIPPED))):
        if is_there(candidate):
            return candidate
    return Path(path)


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists; none does of a name that no file can have."""
    try:
        return path.exists()
    except OSError:  # longer than the file system allows, or below a folder that may not be read
        return False


def check_configfiles(files: Sequence[str]) -> None:
    """Check that the words after `--configfile` are configurations.

    A UserError names one that looks like a target.
    """
    for file in files[1:]:
        if Path(file).suffix not in (".yaml", ".yml", ".json"):
            hint = (
                f"write targets before `--configfile`, or after two dashes: --configfile {files[0]}"
                f" -- {file}"
            )
            message = f"`{file}` stands after `--configfile` but is not a configuration"
            raise UserError(message, hint=hint)


def from_here(path: Path | str) -> Path:
    """Return a path as messages name it: from the folder of work, if it is in there."""
    if Path(path).is_relative_to(Path.cwd()):
        return Path(path).relative_to(Path.cwd())
    return Path(path)


class Given(str):
    """Keys and values that were given elsewhere than in a file, as with `--config`.

    It stands in place of the file's name; `content` has the keys and values.
    """

    content: dict[str, Any]

    @classmethod
    def of(cls, name: str, content: dict[str, Any]) -> Given:
        """Make one of this name."""
        values = cls(name)
        values.content = content
        return values


def merged(base: Any, over: Any) -> Any:
    """Return a configuration with what another one sets in its place, section by section."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return base | {key: merged(base.get(key), value) for key, value in over.items()}


def retyped(value: Any) -> Any:
    """Return values of Snakemake's `--config` as YAML means them.

    Snakemake reads no numbers inside of `[1, 2]` and `{a: 1}`.
    """
    if isinstance(value, dict):
        return {key: retyped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [retyped(item) for item in value]

    if not isinstance(value, str):
        return value

    try:
        meant = parse_yaml(value, "--config")
    except UserError:
        return value
    return meant if isinstance(meant, bool | int | float | None) else value


def counted(number: int, noun: str) -> str:
    """Write a number of things, such as `1 task` or `2 tasks`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def shortened(text: str, width: int = 60) -> str:
    """Return the beginning of a text that is longer than `width` letters."""
    if len(text) > width:
        return f"{text[: width - 3]}..."
    return text


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())

    return lines


def unknown(noun: str, name: str, names: list[str], file: Path | str | None = None) -> UserError:
    """Return the error for a name that nothing has, with the closest one."""
    hint = f"known: {', '.join(names) or 'none'}"
    closest = difflib.get_close_matches(name, names, n=1)
    if closest:
        hint = f"did you mean `{closest[0]}`? {hint}"
    return UserError(f"unknown {noun} `{name}`", file=file, hint=hint)


def refused(error: UserError, *keys: str) -> PydanticCustomError:
    """Return what a validator raises so that `parse` raises `error`.

    `keys` lead from what is validated to the line that the message names.
    """
    return PydanticCustomError(
        "refused", "{message}", {"message": error.message, "hint": error.hint, "keys": keys}
    )


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`, whose file takes its place, or is removed on failure.

    It is flushed first, so that a crash leaves the old file or the new one. A UserError is as
    `storage_error` words it.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, path.name)
        with part_of(path) as temporary:
            yield temporary
            _flush(temporary)

            # mkstemp makes files private; others may read results as any other file.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(path)
    except OSError as error:
        raise storage_error(error, path) from error


# A file that is not whole yet is hidden, and locked by the process that writes it. The kernel gives
# the lock back when that process ends, however it ends, so a lock that is free says that the file
# is a leftover. Locks hold between hosts where the file system has them. Where it has none,
# leftovers stay; nothing reads them there either.


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """Yield the path of a new empty file beside `path`, and remove it if it is still there."""
    temporary, descriptor = _locked_part(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _locked_part(path: Path) -> tuple[Path, int]:
    """Make a file beside `path` and lock it; return its path and the locked descriptor."""
    while True:
        descriptor, name = tempfile.mkstemp(PART, f".{path.name}.", path.parent)
        # Until it is locked, another process may take it for a leftover and remove it.
        if _has_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return Path(name), descriptor
        os.close(descriptor)


def _has_lock(descriptor: int) -> bool:
    """Lock an open file; False if another process has the lock, True where locks are missing."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True

    return True


def remove_leftovers(folder: Path | str, name: str | None = None) -> None:
    """Remove what killed processes left half written, of one file of a folder or of all below it.

    What a living process writes stays, whatever its host, and so does what this process may not
    remove.
    """
    for parent, folders, files in os.walk(folder):
        if name is not None:
            folders.clear()
        for file in files:
            match = PARTS.fullmatch(file)
            if match is not None and name in (None, match["name"]):
                _remove_if_left(Path(parent, file))


def _remove_if_left(part: Path) -> None:
    """Remove a file that is not whole if no process has its lock."""
    try:
        # Network file systems lock only what is opened for writing.
        descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return  # its process has just removed it, or it is another user's

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink(missing_ok=True)
    except OSError:
        return  # it is locked, there are no locks here, or the folder may not be written to
    finally:
        os.close(descriptor)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder that is removed at the end.

    Those that killed processes left are removed first.
    """
    for leftover in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        with suppress(OSError):
            _remove_folder_if_left(leftover)

    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _has_lock(descriptor)
            yield Path(folder)
        finally:
            os.close(descriptor)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, which takes its place once it is whole.

    An error removes it. What killed processes left is removed first. `path` itself must not exist,
    or be an empty folder.

    Raises:
        UserError: the folder cannot be written; see `storage_error`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
            match = PARTS.fullmatch(left.name)
            if match is not None and match["name"] == path.name:
                with suppress(OSError):
                    _remove_folder_if_left(left, new_s=0.0)

        temporary, descriptor = _locked_folder(path)
        try:
            yield temporary
            for file in whole_files(temporary, below=True):
                _flush(file)
            # mkdtemp makes folders private; others may read results as any other folder.
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o777 & ~mask)
            temporary.replace(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            os.close(descriptor)
    except OSError as error:
        raise storage_error(error, path) from error


def _locked_folder(path: Path) -> tuple[Path, int]:
    """Make a folder beside `path` and lock it; return its path and the locked descriptor."""
    while True:
        name = tempfile.mkdtemp(PART, f".{path.name}.", path.parent)
        # Until it is locked, another process may take it for a leftover and remove it.
        try:
            descriptor = os.open(name, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if _has_lock(descriptor) and os.path.isdir(name):
            return Path(name), descriptor
        os.close(descriptor)


def _remove_folder_if_left(folder: Path, new_s: float | None = None) -> None:
    """Remove a temporary folder of this user if no process has its lock.

    One that is younger than `new_s` seconds may not be locked yet, and stays; None: `NEW_S`.
    """
    youngest = NEW_S if new_s is None else new_s
    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        age_s = time.time() - os.fstat(descriptor).st_ctime
        if os.fstat(descriptor).st_uid == os.geteuid() and age_s >= youngest:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(descriptor)


def whole_files(folder: Path, below: bool = False) -> list[Path]:
    """Return the files of a folder by name, with `below` those of its folders too.

    Hidden ones are left out: they are never results.
    """
    paths = sorted(folder.rglob("*") if below else folder.glob("*"))
    return [path for path in paths if path.is_file() and not _is_hidden(path.relative_to(folder))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def check_writable(folder: Path | str) -> None:
    """Check that a folder, and all below it, may be written to, where they exist.

    It is called before much is computed. A UserError names one that may not.
    """
    for parent, _, _ in os.walk(folder):
        if not os.access(parent, os.W_OK | os.X_OK):
            raise storage_error(PermissionError(errno.EACCES, ""), parent)


def storage_error(error: OSError, path: Path | str) -> UserError | OSError:
    """Word a full disk, a missing permission, a wrong place; return other errors as they are."""
    for codes, message, hint in STORAGE_ERRORS:
        if error.errno in codes:
            return UserError(message, file=path, hint=hint)
    return error


STORAGE_ERRORS = (
    ((errno.ENOSPC, errno.EDQUOT), "the disk is full", "free some space and run again"),
    (
        (errno.EFBIG,),
        "the file would be larger than is allowed here",
        "raise the limit (`ulimit -f`), or choose a folder on another disk",
    ),
    (
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "no permission to write here",
        "choose a folder you may write to, or change its permissions",
    ),
    (
        (errno.ENAMETOOLONG,),
        "this name is longer than the file system allows",
        "choose a shorter one",
    ),
    ((errno.ENOTEMPTY,), "the folder is not empty", "name a new folder"),
    (
        (errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
        "a file is where a folder is needed, or a folder where a file is",
        "choose another place, or move what is there",
    ),
)


def _flush(path: Path) -> None:
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())


def write_text(path: Path | str, text: str) -> None:
    """Write `text` as UTF-8 with LF line ends, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as indented JSON with a stable order of keys as given."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path | str) -> Any:
    """Read JSON, also packed (`.gz`); a UserError if the file is missing or is not JSON."""
    try:
        content = Path(path).read_bytes()
        if Path(path).suffix == ".gz":
            content = gzip.decompress(content)
        return json.loads(content.decode("utf-8"))
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint="make it first") from error
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise UserError(
            "this is not valid JSON",
            file=path,
            line=getattr(error, "lineno", None),
            hint="delete it and make it again",
        ) from error


def sha256_of(path: Path | str) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


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
Result = TypeVar("Result")


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


def placed(error: UserError, files: Sequence[Path | str], keys: Sequence[str]) -> UserError:
    """Return the same error with the file and the line where it is.

    That is the file that goes deepest into the nested `keys`, the last of several. Of a list, a key
    is an item or its index. Where no file has any of the keys: the first file and no line.
    """
    deepest_file = next(iter(files), None)
    deepest_line = None
    deepest = 0

    for file in files:
        depth, line = _depth(file, keys)
        if depth and depth >= deepest:
            deepest = depth
            deepest_file = file
            deepest_line = line

    hint = error.hint
    if isinstance(deepest_file, Given):
        # What was given elsewhere has no lines that a user could look at.
        deepest_line = None
        hint = f"{hint}; {HOW_TO_GIVE}"

    return UserError(error.message, file=deepest_file, line=deepest_line, hint=hint)


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


def _depth(file: Path | str, keys: Sequence[str]) -> tuple[int, int | None]:
    """Return how many of the nested `keys` a file has, and the line of the last of them."""
    if isinstance(file, Given):
        text = yaml.safe_dump(file.content)
    elif Path(file).is_file():
        text = _text_of(file)
    else:
        return 0, None

    node = _loaded(text, file, Loader.get_single_node)
    line = None
    depth = 0
    while depth < len(keys):
        entry = _entry_of(node, keys[depth])
        used = 1
        if entry is None:
            # Two keys may be written as one, with a dot, as the options of a sweep are.
            entry = _entry_of(node, ".".join(keys[depth : depth + 2]))
            used = 2
        if entry is None:
            return depth, line

        name, node = entry
        line = name.start_mark.line + 1
        depth += used

    return depth, line


def _entry_of(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the node of a key and the node of what is under it, or None without such a key."""
    entries: list[tuple[yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        # What `<<` merges into it comes first, and what stands in it last.
        SafeConstructor().flatten_mapping(node)
        entries = [(name, value) for name, value in reversed(node.value) if name.value == key]
    elif isinstance(node, yaml.SequenceNode):
        # The last of equal items, which is the one that is a repetition.
        items = list(reversed(list(enumerate(node.value))))
        entries = [(item, item) for index, item in items if key in (str(index), item.value)]
        # An item that is one name with something below it, as a variant among models, is found by
        # that name.
        for _, item in items:
            if isinstance(item, yaml.MappingNode) and len(item.value) == 1:
                name, value = item.value[0]
                if name.value == key:
                    entries.append((name, value))

    return entries[0] if entries else None


def read_yaml(path: Path | str) -> Any:
    """Read plain data from YAML.

    A UserError names the line if it is missing, not UTF-8, no YAML, or repeats a key.
    """
    return parse_yaml(_text_of(path), path)


def parse_yaml(text: str, path: Path | str) -> Any:
    """Read YAML that is written in `path`.

    A UserError as of `read_yaml`, or if it is larger or deeper than any configuration.
    """
    return _loaded(text, path, Loader.get_single_data)


def _text_of(path: Path | str) -> str:
    """Read the text of a file of YAML; a UserError says why it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError("this is not UTF-8 text", file=path, hint="save it as UTF-8") from error
    except PermissionError as error:
        raise UserError(
            "no permission to read this file", file=path, hint="change its permissions"
        ) from error
    except (OSError, ValueError) as error:  # a folder, or a name that no file can have
        hint = "check the name"
        for file in sorted((SHIPPED / "config").rglob("*.yaml")):
            if file.name == Path(path).name:
                hint = f"did you mean `{file.relative_to(SHIPPED)}`?"
                break

        raise UserError("no such file", file=path, hint=hint) from error


class Loader(yaml.SafeLoader):
    """The one reader of YAML: it finds the values, their lines, and the line of an error.

    It is the loader in Python, which Snakemake reads configurations with. libyaml is five times as
    fast, but takes some texts that this one refuses, such as a tab between two words. An error that
    PyYAML does not word is a UserError with the line.
    """

    def __init__(self, text: str, path: Path | str) -> None:
        self.path = path
        self.open_nodes = 0  # of which the node that is read is a part
        if "\t" in text and _is_json(text):
            # Snakemake reads JSON too, where a tab may stand between two words, and nowhere else.
            text = text.replace("\t", " ")
        super().__init__(text)

    def get_single_node(self) -> Any:
        """Return the one document, None if there is none, after all checks of its form."""
        node = super().get_single_node()
        if node is not None:
            self._check_size(node)
        return node

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Read a node if it is not nested too deeply."""
        self.open_nodes += 1
        if self.open_nodes > DEEPEST:
            raise self._too_deep(self.peek_event())

        node = super().compose_node(parent, index)
        self.open_nodes -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Read a text whose escapes `\\ud83d\\ude00` are one character, as in JSON."""
        node = super().compose_scalar_node(anchor)
        if HALF.search(node.value):
            try:
                node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError as error:
                hint = "write the character itself, or both of its halves"
                raise self._refused(node, "an escape is half a character", hint) from error
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Read keys and values; `no`, `on`, `yes` and `off` are names, and a key is given once."""
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _ in node.value:
            # Merges may be repeated. What is no scalar cannot be a key.
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE_TAG:
                continue

            if key.tag == BOOLEAN_TAG:
                key.tag = TEXT_TAG

            value = self.construct_object(key, deep=True)
            if value in keys:
                raise self._refused(key, f"`{key.value}` is given twice", "keep one of the two")
            keys.add(value)

        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return what a node means."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            # Numbers and dates that are written like some, but are none: 2001-99-99, !!int x.
            message = f"a value looks like a number or a date but is none: {error}"
            raise self._refused(node, message, "put it into quotes") from error

        is_number = isinstance(value, int | float) and isinstance(node, yaml.ScalarNode)
        if is_number and MISREAD.search(node.value):
            message = f"YAML reads `{node.value}` as {value}, a number in base 8 or 60"
            hint = f"write {value} if that is meant, the number without zeros before it, or quotes"
            raise self._refused(node, message, hint)

        return value

    def _check_size(self, root: yaml.Node) -> None:
        """Refuse aliases (`*name`) that repeat or nest more than files hold.

        An alias that stands for itself repeats without end.
        """
        # Of each node the number of keys and values in it, and how deep they are nested.
        sizes: dict[int, tuple[float, float]] = {}

        def size(node: yaml.Node) -> tuple[float, float]:
            if id(node) in sizes:
                return sizes[id(node)]

            # Until it is known; so it stays for a node in itself.
            sizes[id(node)] = (math.inf, 0)
            parts: Iterable[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                parts = chain(*node.value)
            elif isinstance(node, yaml.CollectionNode):
                parts = node.value

            inner = [size(part) for part in parts]
            number = 1 + sum(number for number, _ in inner)
            depth = 1 + max((depth for _, depth in inner), default=0)
            if depth > DEEPEST:
                raise self._too_deep(node)

            sizes[id(node)] = (number, depth)
            return sizes[id(node)]

        if size(root)[0] > LARGEST:
            hint = "repeat less by aliases (`*name`), or divide the file"
            raise self._refused(root, f"more than {LARGEST} keys and values", hint)

    def _too_deep(self, place: Any) -> UserError:
        """Return the error for a node, or its event, that is nested too deeply."""
        hint = "check the brackets and the indentation"
        return self._refused(place, f"nested deeper than {DEEPEST} levels", hint)

    def _refused(self, place: Any, message: str, hint: str) -> UserError:
        """Return an error with the line where a node or an event begins."""
        return UserError(message, file=self.path, line=place.start_mark.line + 1, hint=hint)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _loaded(text: str, path: Path | str, read: Callable[[Loader], Result]) -> Result:
    """Return what `read` takes from a loader of `text`; a UserError says what is no YAML in it."""
    try:
        return read(Loader(text, path))
    except yaml.reader.ReaderError as error:
        raise UserError(
            f"this is not valid YAML: it may not contain the character U+{error.character:04X}",
            file=path,
            line=text.count("\n", 0, error.position) + 1,
            hint="delete it, or write it as an escape in double quotes",
        ) from error
    except yaml.MarkedYAMLError as error:
        line = None
        if mark := error.problem_mark:
            line = mark.line + 1
        raise UserError(
            f"this is not valid YAML: {error.problem}",
            file=path,
            line=line,
            hint="correct the line (indentation, colon and quotes are the usual causes)",
        ) from error
