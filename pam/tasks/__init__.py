"""Kinds of task: each is a folder with its data, codec, counts, metrics and tables.

A folder names its parts in one `TaskKind`, `KIND` of its `__init__.py`. All other code asks this
value; none of it names a kind. A plugin adds a kind with `register`. Nothing here imports the parts
before they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from pam.runtime.errors import UserError, unknown
from pam.tasks.kind import TaskKind, imported

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

__all__ = ["KINDS", "OfKinds", "TaskKind", "find_kind", "imported", "register"]

Value = TypeVar("Value")

SHIPPED = ("translation", "summarization", "captioning", "inflection", "alignment")
KINDS: dict[str, TaskKind] = {name: import_module(f"{__name__}.{name}").KIND for name in SHIPPED}
"""Every kind of task by its name, in the order of reports; `register` adds to it."""


def find_kind(name: str) -> TaskKind:
    """Return a kind of task by its name; a UserError names the closest if there is none."""
    if name not in KINDS:
        raise unknown("kind of task", name, sorted(KINDS))
    return KINDS[name]


def register(kind: TaskKind) -> None:
    """Add a kind of task from a plugin.

    Raises a UserError if one of its parts has no module, or if there is another kind of the name.
    Registering the same kind again changes nothing.
    """
    for entry in kind.all_entries():
        module, _, name = entry.partition(":")
        if not name.isidentifier() or not _exists(module):
            raise UserError(
                f"the kind of task `{kind.name}` names `{entry}`, which does not exist",
                hint="name each part as `package.module:name`",
            )

    if KINDS.setdefault(kind.name, kind) != kind:
        raise UserError(
            f"there is a kind of task `{kind.name}` already", hint="choose another name"
        )


def _exists(module: str) -> bool:
    """Return whether Python finds a module."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class OfKinds(Mapping[str, Value]):
    """What all kinds of task have of one part, by name; those of plugins too.

    Args:
        part: field of `TaskKind` whose entries name dictionaries, or tuples of what has a `name`.
        common: what belongs to no kind; it comes last.
        place: sorts the values; those of the same place stay in order.
    """

    def __init__(
        self,
        part: str,
        common: Mapping[str, Value] | None = None,
        place: Callable[[Value], Any] | None = None,
    ) -> None:
        self._part = part
        self._common = common or {}
        self._place = place
        self._kinds: tuple[TaskKind, ...] | None = None
        self._values: dict[str, Value] = {}

    def _read(self) -> dict[str, Value]:
        """Return all values; they are collected again where a kind was added."""
        kinds = tuple(KINDS.values())
        if self._kinds != kinds:
            values: dict[str, Value] = {}
            for kind in kinds:
                for entry in kind.entries(self._part):
                    part = imported(entry)
                    if not isinstance(part, Mapping):
                        part = {value.name: value for value in part}
                    values |= part
            values |= self._common

            if self._place is not None:
                place = self._place
                values = dict(sorted(values.items(), key=lambda item: place(item[1])))
            self._kinds = kinds
            self._values = values
        return self._values

    def __getitem__(self, name: str) -> Value:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())
