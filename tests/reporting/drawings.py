"""Figures of made-up runs, written in half the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import pytest
from made_runs import MadeExperiment
from matplotlib.figure import Figure

from pam.reporting import style
from pam.reporting.catalogue import FIGURES


def options_of_made(name: str, made: MadeExperiment, tasks: str = "*") -> list[str]:
    """Return the options of a figure of the catalogue, of all runs of some tasks.

    Args:
        tasks: pattern of their folders.
    """
    options = ["--experiment", str(made.config)]
    for option, pattern in FIGURES[name].files.items():
        file = pattern.replace("{run}", "*/seed*")
        options += [f"--{option}", *map(str, sorted(made.folder.glob(f"{tasks}/{file}")))]

    return [*options, *FIGURES[name].options]


@contextmanager
def without_png() -> Iterator[None]:
    """Let figures be written as SVG and CSV alone, which takes half the time; PNGs are empty."""
    save = Figure.savefig

    def save_svg(figure: Figure, file: BytesIO, **options: Any) -> None:
        if options["format"] != "png":
            save(figure, file, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", save_svg)
        patch.setitem(style.SMALLER, "png", lambda empty: empty)
        yield
