"""Sizes that components are made with, and the check of those that a user writes."""

from __future__ import annotations

from dataclasses import dataclass

from pam.config import LARGEST
from pam.io import UserError


@dataclass(frozen=True)
class Sizes:
    """What a component needs to know to make its parameters.

    Attributes:
        query: units H of the decoder state s_t.
        values: units D of an encoder state h_a (of both directions, where there are two).
        embedding: units E of an embedding, of a source or a target symbol.
        direction: units of an encoder state of one direction.
        layers: layers of the encoder.
        rate: dropout rate.
    """

    query: int
    values: int
    embedding: int
    direction: int
    layers: int
    rate: float


def check_size(option: str, value: object, null: str | None = None, most: int = LARGEST) -> None:
    """Checks the option of a component that says how many units, layers or places it has.

    Args:
        option: which, for the message.
        null: what None stands for, where it is allowed.

    Raises:
        UserError: not a whole number from 1 to `most`.
    """
    if value is None and null is not None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        either = "" if null is None else f", or null for {null}"
        raise UserError(
            f"{option} is {value!r}", hint=f"use a whole number from 1 to {most}{either}"
        )


def check_number(option: str, value: object, least: float = 0.0, most: float = 1e6) -> float:
    """Checks the option of a component that is a number.

    Args:
        option: which, for the message.

    Raises:
        UserError: no number from `least` to `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise UserError(f"{option} is {value!r}", hint=f"use a number from {least:g} to {most:g}")
    return float(value)


def check_flag(option: str, value: object) -> bool:
    """Checks the option of a component that is true or false.

    Raises:
        UserError: it is neither.
    """
    if not isinstance(value, bool):
        raise UserError(f"{option} is {value!r}", hint="use true or false")
    return value


def check_scale(option: str, scale: object, units: int) -> float:
    """The factor of a product over `units` numbers: the inverse of their root if `scale`, else 1.

    Raises:
        UserError: `scale` is neither true nor false.
    """
    return units**-0.5 if check_flag(option, scale) else 1.0
