"""What a user can choose of, in a module that imports nothing: commands import it at once."""

from __future__ import annotations

from typing import Literal

ProgramName = Literal["eflomal", "fast_align"]
"""Aligners that are programs."""

Symmetrization = Literal[
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final",
    "grow-diag-final-and",
    "product",
    "none",
]
"""How links of two directions become one set; none: those of the first direction alone."""
