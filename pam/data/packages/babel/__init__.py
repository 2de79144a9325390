"""German and English phrases around dates, numbers and names, as CLDR writes them (Babel).

A demonstration that needs no download, and no sample of a language: the frames are few, what
fills them is formatted for both languages from the same value, so that every word's partner is
known.
"""

from __future__ import annotations

from importlib.metadata import Distribution

from pydantic import Field

from pam.data.packages.babel.draw import Draw
from pam.data.packages.babel.frames import FRAMES, Phrase
from pam.data.packages.babel.words import linked
from pam.io import Strict, UserError

TRIES = 100
"""Phrases that may be drawn in vain, because they were drawn before, for each that is wanted."""


class Options(Strict):
    """What is drawn."""

    seed: int = Field(1, description="another seed draws other phrases")
    train: int = Field(5000, ge=1, description="pairs for training")
    dev: int = Field(300, ge=1, description="pairs for development")
    test: int = Field(400, ge=1, description="pairs for testing")


def draw(package: Distribution, options: Options) -> dict[str, str]:
    """Texts of `{train,dev,test}.{de,en}`, a line of words each, and of `test.links`.

    No sentence of either language occurs twice, so that no split holds one of another.

    Raises:
        UserError: more pairs are wanted than there are.
    """
    choices = Draw(options.seed)
    seen: set[str] = set()
    texts: dict[str, str] = {}
    # What is tested does not depend on how much is trained on.
    for split, size in (("test", options.test), ("dev", options.dev), ("train", options.train)):
        phrases = [_new(choices, seen) for _ in range(size)]
        texts[f"{split}.de"] = "".join(f"{phrase.german.text}\n" for phrase in phrases)
        texts[f"{split}.en"] = "".join(f"{phrase.english.text}\n" for phrase in phrases)
        if split == "test":
            texts["test.links"] = "".join(f"{linked(*phrase)}\n" for phrase in phrases)
    return texts


def _new(choices: Draw, seen: set[str]) -> Phrase:
    """A phrase of which neither side has been drawn before."""
    for _ in range(TRIES):
        phrase = choices.one_of(FRAMES).filled(choices)
        sides = {phrase.german.text, phrase.english.text}
        if not sides & seen:
            seen |= sides
            return phrase
    raise UserError(
        f"there are not many more phrases than {len(seen) // 2}",
        hint="ask for fewer in `package: options:`",
    )
