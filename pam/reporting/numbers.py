"""How numbers are written for people; an unknown number is an empty run."""

from __future__ import annotations

from pam.evaluation.bootstrap import Interval


def fixed(value: float | None, decimals: int) -> str:
    """`85.50`"""
    return "" if value is None else f"{value:.{decimals}f}"


def signed(value: float | None, decimals: int) -> str:
    """`+1.37`; a difference that rounds to nothing has no sign."""
    if value is None:
        return ""
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text


def between(interval: Interval, decimals: int) -> str:
    """`[84.90, 90.60]`"""
    return f"[{fixed(interval.low, decimals)}, {fixed(interval.high, decimals)}]"


def signed_between(interval: Interval, decimals: int) -> str:
    """`[+1.51, +5.30]`"""
    return f"[{signed(interval.low, decimals)}, {signed(interval.high, decimals)}]"


def probability(value: float) -> str:
    """`0.013`, and `< 0.001` below that."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def grouped(value: float | None) -> str:
    """`1,234`"""
    return "" if value is None else f"{value:,.0f}"


def rounded(value: float | None, decimals: int) -> float | None:
    """For machines: a number with enough digits and no noise behind them."""
    return None if value is None else round(value, decimals)
