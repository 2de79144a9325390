"""The look of figures: models told apart, panels as large as they are meant to be."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from made_cells import LABELS
from made_translations import LABELS as TRANSLATORS

from pam.reporting import style


def test_named_models_are_told_apart_by_colour_and_mark() -> None:
    looks = [style.look(model) for model in {**LABELS, **TRANSLATORS}]
    assert len({look.colour for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)


def test_no_two_models_of_the_family_look_the_same() -> None:
    folder = Path(__file__).resolve().parents[2] / "config" / "models"
    looks = [style.look(file.stem) for file in folder.glob("*.yaml")]
    assert len({(look.colour, look.marker) for look in looks}) == len(looks)
    assert len({(look.colour, look.dashes) for look in looks}) == len(looks)


def test_a_legend_of_many_models_takes_nothing_from_the_panels() -> None:
    def panel_height(models: int) -> float:
        with style.styled():
            figure, axes = style.panels(1, 1, height=3.0)
            style.legend_models(figure, {f"m{number}": "x" for number in range(models)})
            figure.canvas.draw()
            height = axes[0].get_window_extent().height / figure.dpi
            plt.close(figure)
        return height

    assert panel_height(32) == pytest.approx(panel_height(8), rel=0.02)


def test_an_unlisted_model_always_looks_the_same() -> None:
    assert style.look("my-own") == style.look("my-own")
