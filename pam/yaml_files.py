"""YAML files: read safely, and the line on which a key stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from pam.errors import UserError

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
        raise UserError("this is not UTF-8 text", file=path, remedy="save it as UTF-8") from error
    except PermissionError as error:
        raise UserError(
            "no permission to read this file", file=path, remedy="change its permissions"
        ) from error
    except (OSError, ValueError) as error:  # a folder, or a name that no file can have
        raise UserError("no such file", file=path, remedy="check the name") from error
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path | str) -> Any:
    """Reads YAML as `read_yaml` does; `path` is where it stands.

    Raises:
        UserError: not YAML, or larger than any configuration; names the line.
    """
    remedy = "correct the line (indentation, colon and quotes are the usual causes)"
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
            remedy=remedy,
        ) from error
    except RecursionError as error:
        raise UserError("lists in lists without end", file=path, remedy=remedy) from error
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        # Numbers and dates that are spelt like some, but are none: 2001-99-99, !!int x.
        raise UserError(
            f"a value is not what it seems to be: {error}", file=path, remedy="put it into quotes"
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
