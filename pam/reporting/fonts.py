"""Fonts for the signs of any script in figures.

Matplotlib draws a box where a font lacks a sign. Its own font has the scripts of Europe and Arabic.
For others there may be a font on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from unicodedata import name

from matplotlib.artist import Artist
from matplotlib.font_manager import findfont, fontManager, weight_dict
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

REGULAR = 400  # the weight of a font that is neither bold nor light
# Characters for each glyph from which a font shows none of them: such a font of last resort draws a
# box for all of a script. Other fonts have about one.
CHARACTERS_OF_A_BOX = 10


def find_fonts(artist: Artist) -> str:
    """Give texts with signs that their font lacks further fonts of this machine.

    Args:
        artist: a figure, or a part of it.

    Returns:
        The signs that no font here has, in their order.
    """
    texts = [text for text in artist.findobj(Text) if text.get_text()]
    lacking: dict[str, None] = {}
    for text in texts:
        drawn = _signs_of(findfont(text.get_fontproperties()))
        signs = [sign for sign in text.get_text() if sign.isprintable() and ord(sign) not in drawn]
        if signs:
            families, missing = _families_with(frozenset(signs))
            text.set_fontfamily([*text.get_fontfamily(), *families])
            lacking |= dict.fromkeys(missing)

    return "".join(lacking)


def scripts_of(signs: str) -> list[str]:
    """Return the first words of the names of signs, such as `CJK` or `HIRAGANA`, each once."""
    return list(dict.fromkeys(name(sign, "UNNAMED").split()[0] for sign in signs))


def _families_with(signs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return families of fonts that have these signs, as few as possible, and what none has."""
    missing = sorted(signs)
    families = []
    while missing:
        counts = {
            family: sum(ord(sign) in _signs_of(path) for sign in missing)
            for family, path in _regular_fonts().items()
        }
        best = max(counts, key=counts.__getitem__)
        if not counts[best]:
            break

        families.append(best)
        path = _regular_fonts()[best]
        missing = [sign for sign in missing if ord(sign) not in _signs_of(path)]

    return families, missing


@cache
def _regular_fonts() -> dict[str, str]:
    """Return the file of each family of fonts on this machine, by name."""
    upright = [font for font in fontManager.ttflist if font.style == "normal"]
    # The last of a name stays: the one whose weight is nearest to that of a text.
    upright.sort(key=lambda font: (font.name, -abs(_weight(font.weight) - REGULAR)))
    return {font.name: font.fname for font in upright}


def _weight(weight: int | str) -> int:
    """Return a font's weight as a number."""
    if isinstance(weight, int):
        return weight
    return weight_dict.get(weight, REGULAR)


@cache
def _signs_of(path: str) -> frozenset[int]:
    """Return the code points of the signs that a font has; of a font of last resort none."""
    font = FT2Font(path)
    charmap = font.get_charmap()
    if len(charmap) > CHARACTERS_OF_A_BOX * font.num_glyphs:
        return frozenset()
    return frozenset(charmap)
