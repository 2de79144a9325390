"""YAML that knows its lines: values, and the places of errors in them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import yaml
from yaml.constructor import SafeConstructor

from pam.experiments.given import HOW_TO_GIVE, Given
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import SHIPPED

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

# how YAML calls the kinds of a key: `no` is a boolean, and a key is always a name, but for `<<`
BOOLEAN_TAG = "tag:yaml.org,2002:bool"
TEXT_TAG = "tag:yaml.org,2002:str"
MERGE_TAG = "tag:yaml.org,2002:merge"
# Numbers of YAML 1.1 that mean another one than they look like: 010 is 8, and 1:30 is 90.
MISREAD = re.compile(r"^[-+]?0+[1-7][0-7_]+$|:")
# Keys and values of a YAML file, each counted as often as it is repeated by an alias.
LARGEST = 100_000
# Sections and lists of a YAML file that are nested in each other.
DEEPEST = 50
HALF = re.compile("[\ud800-\udfff]")  # half of a character, as UTF-16 divides some

Result = TypeVar("Result")


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


def placed_once(error: UserError, files: Sequence[Path | str], keys: Sequence[str]) -> UserError:
    """Return an error with the file and line of these keys, unless it has a file already."""
    if error.file:
        return error
    return placed(error, files, keys)


def check_known(
    noun: str,
    name: str,
    names: list[str],
    files: Sequence[Path | str] = (),
    keys: Sequence[str] = (),
) -> None:
    """Raise a UserError for an unknown name, with the closest one and the line where it is."""
    if name not in names:
        raise placed(unknown(noun, name, names), files, keys)


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
