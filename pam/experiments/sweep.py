"""A sweep: one model with several values of an option, written as one item of `models:`.

    models:
      - soft
      - postr-joint: {sweep: {marginalization.mass: [0.9, 0.99, 1]}}

Each value makes a model of its own, a *point* of the sweep: `postr-joint-mass0.9`, ... Several
options make a point for each combination of their values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pam.experiments.parsing import refused
from pam.runtime.errors import UserError, unknown

SWEEP = "sweep"
HOW = "write `- MODEL: {sweep: {marginalization.mass: [0.9, 0.99, 1]}}`"
# The most models that one item may stand for: more are a slip of the pen.
MOST_POINTS = 1000


@dataclass(frozen=True)
class Sweep:
    """An item of an experiment's `models` with the key `sweep`."""

    index: int  # its place in `models`
    name: str  # under which it is listed
    written: dict[str, Any]  # what is below the name

    def changes(self) -> dict[str, Any]:
        """Return what the item changes in its model besides the options that are swept."""
        return {key: value for key, value in self.written.items() if key != SWEEP}

    def points(self) -> list[Point]:
        """Return a model for each combination of values, the last option varying fastest."""
        swept: dict[str, list[Any]] = self.written[SWEEP]
        names = short_names(list(swept))
        made = []
        for combination in product(*swept.values()):
            values = dict(zip(swept, combination, strict=True))
            parts = [_part(names[option], text(value)) for option, value in values.items()]
            made.append(Point("-".join([self.name, *parts]), self, values))

        return made


@dataclass(frozen=True)
class Point:
    """One model of a sweep."""

    name: str
    sweep: Sweep
    values: dict[str, Any]  # by option, such as `marginalization.mass`

    @property
    def words(self) -> str:
        """The values for people, such as `mass 0.9, dropout 0.1`."""
        names = short_names(list(self.values))
        return ", ".join(f"{names[option]} {text(value)}" for option, value in self.values.items())

    def changes(self) -> dict[str, dict[str, Any]]:
        """Return what the model changes in that of its sweep, by key of a model's file."""
        changes: dict[str, dict[str, Any]] = {}
        for option, value in self.values.items():
            section, _, key = option.partition(".")
            # A component by itself is swept over its kinds.
            changes.setdefault(section, {})[key or "kind"] = value

        return changes


def short_names(options: Sequence[str]) -> dict[str, str]:
    """Return the last part of each option, or all of it where two end alike."""
    last_parts = {option: option.rpartition(".")[2] for option in options}
    count = Counter(last_parts.values())
    return {option: last if count[last] == 1 else option for option, last in last_parts.items()}


def text(value: Any) -> str:
    """Return a value as it is written in names and tables."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "-".join(map(text, value))
    # The sign of an exponent, as in 1e+16, is none of a name's characters.
    return str(value).replace("+", "")


def _part(option: str, value: str) -> str:
    """Return option and value as a part of a name: `mass0.9`, `start-2`, `score-dot`."""
    if value[:1].isdigit() or value.startswith("-"):
        return f"{option}{value}"
    return f"{option}-{value}"


def check_sweep(
    item: str, swept: Any, options: Mapping[str, Sequence[str]], whole: Sequence[str], name: str
) -> None:
    """Check what is written below `sweep`; a PydanticCustomError has the keys of a fault.

    Args:
        item: the name under which the sweep is listed.
        swept: its options with their values.
        options: section -> the options that it may have.
        whole: the sections that may stand alone, as they have kinds.
        name: a regular expression for names of models.
    """
    if not isinstance(swept, dict) or not swept:
        error = UserError("`sweep` needs options with their values", hint=HOW)
        raise refused(error, item, SWEEP)

    names = [*whole, *(f"{section}.{key}" for section, keys in options.items() for key in keys)]
    for option, values in swept.items():
        option = str(option)
        if option not in names:
            raise refused(_unknown_option(option, options), item, SWEEP, option)
        if not isinstance(values, list) or not values:
            error = UserError(f"`{option}` needs a list of values", hint=HOW)
            raise refused(error, item, SWEEP, option)
        for value in values:
            _check_value(value, option, (item, SWEEP, option))

    count = 1
    for values in swept.values():
        count *= len(values)
    if count > MOST_POINTS:
        hint = f"at most {MOST_POINTS} are possible"
        error = UserError(f"a sweep over {count} models", hint=hint)
        raise refused(error, item, SWEEP)

    _check_names(item, swept, name)


def _unknown_option(option: str, options: Mapping[str, Sequence[str]]) -> UserError:
    """Return the error for an option that no model has, with the closest one."""
    section, dot, key = option.partition(".")
    if dot and section in options:
        return unknown(f"option of {section}", key, list(options[section]))

    message = f"unknown option `{option}`"
    same_key = [f"{name}.{option}" for name, keys in options.items() if option in keys]
    if same_key:
        return UserError(message, hint=f"did you mean `{same_key[0]}`?")
    if section in options:
        hint = f"write one of its keys, such as `{section}.{options[section][0]}`"
        return UserError(message, hint=hint)
    return UserError(message, hint=unknown("option", section, list(options)).hint)


def _check_value(value: Any, option: str, keys: Sequence[str]) -> None:
    """Check that a value can stand in a name."""
    parts = value if isinstance(value, list) else [value]
    if parts and all(isinstance(part, str | int | float | None) for part in parts):
        return

    hint = "sweep over numbers and words; write other models as variants, each with its name"
    raise refused(UserError(f"a value of `{option}` that has no short name", hint=hint), *keys)


def _check_names(item: str, swept: dict[str, list[Any]], name: str) -> None:
    """Check that the models of a sweep have names that make folders, each its own."""
    names = short_names(list(swept))
    for option, values in swept.items():
        parts = [_part(names[option], text(value)) for value in values]
        for part, times in Counter(parts).items():
            if times > 1:
                message = f"two values of `{option}` make the name `{part}`"
                error = UserError(message, hint="remove one")
                raise refused(error, item, SWEEP, option)
            if not re.fullmatch(name, part):
                hint = "write these models as variants, each with a name of its own"
                error = UserError(f"`{item}-{part}` cannot be the name of a model", hint=hint)
                raise refused(error, item, SWEEP, option)

    for point in Sweep(0, item, {SWEEP: swept}).points():
        if not re.fullmatch(name, point.name):
            error = UserError(f"`{point.name}` cannot be the name of a model", hint="shorten it")
            raise refused(error, item, SWEEP)
