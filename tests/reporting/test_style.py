"""The look of figures: models told apart, panels as large as they are meant to be."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from made_runs import LABELS
from made_translations import LABELS as TRANSLATORS
from matplotlib.artist import Artist
from matplotlib.text import Text
from PIL import Image

from pam.experiments.model import model_files
from pam.reporting import style
from tests.variants import MODELS, variant_names


def test_named_models_are_told_apart_by_color_and_mark() -> None:
    looks = [style.look(model) for model in {**LABELS, **TRANSLATORS}]
    assert len({look.color for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)


def test_no_two_models_of_the_family_look_the_same() -> None:
    looks = [style.look(name) for name in [*model_files(MODELS), *variant_names()]]
    assert len({(look.color, look.marker) for look in looks}) == len(looks)
    assert len({(look.color, look.dashes) for look in looks}) == len(looks)


def test_of_too_many_lines_the_baseline_and_posterior_attention_are_highlighted() -> None:
    models = ["none", "soft", "sparse", "prior-joint", "postr-joint", "mono-postr-joint"]
    looks = style.looks_of_lines(models, "soft")

    assert looks == {model: style.look(model) for model in models}

    models += ["acvi", "ved", "structured"]
    looks = style.looks_of_lines(models, "soft")
    highlighted = [model for model in models if looks[model] == style.look(model)]

    assert highlighted == ["soft", "postr-joint"]
    assert style.depth(looks["acvi"]) < style.depth(looks["soft"])

    with style.styled():
        figure, _ = style.panels(1, 1, height=3.0)
        style.legend_models(figure, {model: model.upper() for model in models}, looks=looks)
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        plt.close(figure)

    assert texts == ["SOFT", "POSTR-JOINT", "the 7 other models"]


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


def test_a_legend_of_long_names_stays_within_the_figure() -> None:
    with style.styled():
        figure, _ = style.panels(1, 1, height=3.0)
        style.legend_models(figure, {f"m{number}": 30 * f"{number}" for number in range(10, 19)})
        figure.canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        plt.close(figure)

    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


def _is_heading(artist: Artist) -> bool:
    """Check that an artist is the heading of the test below."""
    return isinstance(artist, Text) and artist.get_text().startswith("Phrases of")


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_long_heading_stays_above_its_panel(columns: int) -> None:
    with style.styled():
        figure, axes = style.panels(1, columns, height=3.0)
        for panel in axes:
            panel.set_ylabel("BLEU, beam 4")
            style.head(panel, "Phrases of dates, numbers and names, de-en (demonstration)")
        figure.canvas.draw()
        headings = [heading for panel in axes for heading in panel.findobj(_is_heading)]
        ends = [heading.get_window_extent().x1 for heading in headings]
        starts = [panel.get_window_extent().x0 for panel in axes[1:]]
        starts.append(figure.bbox.x1)
        plt.close(figure)

    assert all(end <= start for end, start in zip(ends, starts, strict=True))


def test_an_unlisted_model_always_looks_the_same() -> None:
    assert style.look("my-own") == style.look("my-own")


def test_files_are_small_and_show_the_figure_as_it_is(tmp_path: Path) -> None:
    with style.styled():
        figure, (axes,) = style.panels(1, 1, height=3.0)
        axes.plot([0, 1.23456789, 2], [0.123456789, 0.5, 0.25], alpha=0.4)
        axes.set_title("a <title> & more -- 1.23456")
        figure.savefig(tmp_path / "plain.png", dpi=180)
        figure.savefig(tmp_path / "plain.svg", metadata={"Date": None})
        style.save(style.Drawing(figure, pd.DataFrame()), tmp_path / "saved.svg")

    plain, saved = (
        np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB"), dtype=float)
        for name in ("plain", "saved")
    )
    assert np.abs(plain - saved).max() < 16
    assert (tmp_path / "saved.png").stat().st_size < (tmp_path / "plain.png").stat().st_size

    plain_svg, saved_svg = (
        (tmp_path / f"{name}.svg").read_text(encoding="utf-8") for name in ("plain", "saved")
    )
    assert len(saved_svg) < len(plain_svg)
    assert places(saved_svg) == pytest.approx(places(plain_svg), abs=0.0051)


def places(svg: str) -> list[float]:
    """Return all numbers of the paths of an SVG."""
    paths = " ".join(re.findall(r' d="([^"]*)"', svg))
    return [float(number) for number in re.findall(r"-?[\d.]+", paths)]
