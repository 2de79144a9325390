"""Figures show the signs of any script, or say which ones they cannot draw."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure

import pam
from pam.library.results import InputWarning
from pam.reporting import fonts, style
from pam.reporting.fonts import find_fonts
from pam.reporting.layout import problems

OF_STIX = "\u210a"  # script small g: of Matplotlib's fonts, STIX has it, DejaVu Sans has not
JAPANESE = "猫が鳴く"


def labelled(text: str) -> Figure:
    """Make a figure with a text in the font of all figures."""
    figure, panels = style.panels(1, 1, 2.0)
    panels[0].set_title(text)
    return figure


@pytest.fixture
def without_japanese(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have no font for Japanese."""
    own = {
        name: path
        for name, path in fonts._regular_fonts().items()
        if not set(map(ord, JAPANESE)) & fonts._signs_of(path)
    }
    monkeypatch.setattr(fonts, "_regular_fonts", lambda: own)


def test_texts_whose_signs_the_font_has_are_left_alone() -> None:
    figure = labelled("Übergröße, Ελληνικά, кошка, قطة")
    title = figure.axes[0].title
    families = title.get_fontfamily()

    assert find_fonts(figure) == ""
    assert title.get_fontfamily() == families
    plt.close(figure)


def test_a_sign_that_the_font_lacks_is_drawn_by_another_font() -> None:
    figure = labelled(f"a {OF_STIX} b")
    title = figure.axes[0].title
    families = title.get_fontfamily()
    assert not _has_sign("DejaVu Sans", OF_STIX)

    assert find_fonts(figure) == ""
    assert title.get_fontfamily()[: len(families)] == families
    (added,) = title.get_fontfamily()[len(families) :]
    assert _has_sign(added, OF_STIX)
    plt.close(figure)


def _has_sign(family: str, sign: str) -> bool:
    return ord(sign) in fonts._signs_of(fonts._regular_fonts()[family])


@pytest.fixture
def font_of_boxes(tmp_path: Path) -> Path:
    """Write a font that draws one box for all characters, as Matplotlib's Last Resort does."""
    pen = TTGlyphPen(None)
    for move, point in ((pen.moveTo, (0, 0)), (pen.lineTo, (0, 500)), (pen.lineTo, (500, 0))):
        move(point)
    pen.closePath()

    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "box"])
    builder.setupCharacterMap(dict.fromkeys([*range(0x3040, 0x3100), *map(ord, JAPANESE)], "box"))
    builder.setupGlyf(dict.fromkeys([".notdef", "box"], pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys([".notdef", "box"], (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Boxes", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "boxes.ttf")
    return tmp_path / "boxes.ttf"


def test_a_font_that_has_only_boxes_has_no_sign(
    font_of_boxes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = fonts._regular_fonts()
    chosen = {"Boxes": str(font_of_boxes), "DejaVu Sans": own["DejaVu Sans"]}
    monkeypatch.setattr(fonts, "_regular_fonts", lambda: chosen)

    figure = labelled(JAPANESE)
    families = figure.axes[0].title.get_fontfamily()
    assert set(find_fonts(figure)) == set(JAPANESE)
    assert figure.axes[0].title.get_fontfamily() == families
    plt.close(figure)


@pytest.mark.usefixtures("without_japanese")
def test_signs_without_a_font_are_texts_of_the_svg_and_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        style.save(style.Drawing(labelled(JAPANESE), pd.DataFrame()), tmp_path / "cat.svg")

    assert JAPANESE in (tmp_path / "cat.svg").read_text(encoding="utf-8")
    assert (tmp_path / "cat.png").stat().st_size > 0
    (message,) = caplog.messages
    assert message.startswith("cat.png: no font here has ")
    assert all(sign in message for sign in JAPANESE)


def test_other_texts_stay_outlines(tmp_path: Path) -> None:
    style.save(style.Drawing(labelled("cat"), pd.DataFrame()), tmp_path / "cat.svg")

    assert "<text" not in (tmp_path / "cat.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_japanese")
def test_signs_without_a_font_are_told_once_when_the_figure_is_saved() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with style.styled():
            figure = labelled(JAPANESE)
            problems(figure)

    assert told == []
    plt.close(figure)


@pytest.mark.usefixtures("without_japanese")
def test_a_picture_with_boxes_says_which_scripts_they_stand_for(tmp_path: Path) -> None:
    notes = {}
    for text in (JAPANESE, "cat"):
        figure = labelled(text)
        style.save(style.Drawing(figure, pd.DataFrame()), tmp_path / "drawn.svg")
        notes[text] = " ".join(note.get_text() for note in figure.texts)
        assert "Boxes" not in (tmp_path / "drawn.svg").read_text(encoding="utf-8")

    assert "CJK" in notes[JAPANESE] and "HIRAGANA" in notes[JAPANESE]
    assert notes["cat"] == ""


def test_maps_of_the_library_find_fonts_too() -> None:
    with pytest.warns(InputWarning, match="not seen in training"):
        attention = pam.load("pretrained:phrases/postr-joint").attention(OF_STIX)
    label = attention.plot().figure.axes[0].get_yticklabels()[0]
    found = set(label.get_fontfamily()) & set(fonts._regular_fonts())

    assert label.get_text() == OF_STIX
    assert any(_has_sign(family, OF_STIX) for family in found)
    plt.close("all")
