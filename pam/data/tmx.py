"""Readers of translation units: translation memories (TMX) and XLIFF."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from xml.parsers import expat

from pydantic import Field

from pam.data.reading import DividingReader
from pam.data.sampling import Languages, Pair
from pam.data.text_files import Line, cleaned, lines_of
from pam.runtime.errors import UserError

AGAIN = "write or fetch the file again"
# Elements of a segment that hold codes of a text processor, not words.
CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
# Elements that hold a unit, its texts, and in XLIFF translations from elsewhere.
UNITS = frozenset({"tu", "trans-unit", "segment"})
TEXTS = frozenset({"seg", "source", "target"})
ALTERNATIVES = frozenset({"alt-trans", "mtc:match", "ignorable"})
# attributes of XLIFF that name the languages of its units
LANGUAGES = {"source": ("source-language", "srcLang"), "target": ("target-language", "trgLang")}


class Tmx(DividingReader):
    """One file of translation units, which may have more languages than the two that are read."""

    kind: Literal["tmx"] = "tmx"
    unmatched: Literal["refuse", "drop"] = Field(
        "refuse", description="units without one of the languages: an error, or left out"
    )

    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        if not isinstance(files, Path):
            raise UserError(f"split {split} has several files", hint="name one translation memory")

        for unit in tmx_units(files):
            texts = [_of_language(unit.texts, language) for language in languages]
            source, target = (Line(text or "", files, unit.number) for text in texts)
            if None not in texts:
                yield source, target
            elif self.unmatched == "refuse":
                missing = languages[texts.index(None)]
                hint = (
                    f"languages of this unit: {', '.join(unit.texts) or 'none'}; or leave such"
                    " units out: `read: {kind: tmx, unmatched: drop}`"
                )
                raise source.error(f"a unit has no text of the language `{missing}`", hint)


class Xliff(Tmx):
    """One file of XLIFF, 1.2 or 2, whose translated units are read."""

    kind: Literal["xliff"] = "xliff"  # type: ignore[assignment]
    unmatched: Literal["refuse", "drop"] = Field(
        "drop", description="units that are not translated: an error, or left out"
    )


def _of_language(texts: dict[str, str], language: str) -> str | None:
    """Return the text of a language, also of one of its regions: `en-US` is `en`."""
    lowered = {name.lower(): text for name, text in texts.items()}
    wanted = language.lower()
    if wanted in lowered:
        return lowered[wanted]
    of_region = (text for name, text in lowered.items() if name.split("-")[0] == wanted)
    return next(of_region, None)


class Unit:
    """A translation unit: its texts by language, and the line at which it begins."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.texts: dict[str, str] = {}


class _Parser:
    """Collects units while expat reads; entities are refused, as they can fill the memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.units: list[Unit] = []
        self._language = ""  # of the text that follows
        self._sides = {"source": "", "target": ""}  # languages of XLIFF
        self._alternatives = 0  # how many open elements hold other translations
        self._text: list[str] | None = None  # of the segment that is open
        self._codes = 0  # how many open elements hold codes

        self.expat = expat.ParserCreate()
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self._start
        self.expat.EndElementHandler = self._end
        self.expat.CharacterDataHandler = self._characters
        self.expat.EntityDeclHandler = self._refuse_entity

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        for side, languages in LANGUAGES.items():
            for key in languages:
                self._sides[side] = attributes.get(key, self._sides[side])

        if name in UNITS:
            self.units.append(Unit(self.expat.CurrentLineNumber))
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self._text = []
        elif name in self._sides and not self._alternatives:
            self._language = self._sides[name]
            self._text = []
        elif name in CODES:
            self._codes += 1
        elif name in ALTERNATIVES:
            self._alternatives += 1

    def _end(self, name: str) -> None:
        if name in TEXTS and self._text is not None and self.units:
            text = cleaned("".join(self._text))
            # A unit that is not translated yet may have an empty target.
            if text or name == "seg":
                self._add(text)
            self._text = None
        elif name in CODES:
            self._codes -= 1
        elif name in ALTERNATIVES:
            self._alternatives -= 1

    def _add(self, text: str) -> None:
        """Add a text to the last unit; a UserError says that it has another of this language."""
        unit = self.units[-1]
        if unit.texts.get(self._language, text) != text:
            line = Line("", self.path, unit.number)
            hint = "make a unit of each translation"
            raise line.error(f"a unit has several texts of `{self._language}`", hint)
        unit.texts[self._language] = text

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)

    def _refuse_entity(self, *declaration: Any) -> None:
        line = Line("", self.path, self.expat.CurrentLineNumber)
        raise line.error("the file declares entities of XML", "write the characters themselves")


def tmx_units(path: Path) -> Iterator[Unit]:
    """Yield the units of a translation memory, read line by line; a UserError names a fault."""
    parser = _Parser(path)
    for line in lines_of(path):
        # The text is characters already, whatever encoding its first line declares.
        text = line.text
        if line.number == 1:
            text = _without_declaration(text)
        try:
            parser.expat.Parse(f"{text}\n", False)
        except expat.ExpatError as error:
            raise line.error(
                f"this is not XML: {error}", "write or fetch the file again"
            ) from error

        # The last unit may still be open.
        yield from parser.units[:-1]
        del parser.units[:-1]

    try:
        parser.expat.Parse("", True)
    except expat.ExpatError as error:
        raise UserError(f"this is not XML: {error}", file=path, hint=AGAIN) from error
    if not parser.units:
        raise UserError("no translation units", file=path, hint="name TMX or XLIFF")
    yield from parser.units


def _without_declaration(text: str) -> str:
    begin, end, rest = text.partition("?>")
    if end and begin.lstrip().startswith("<?xml"):
        return rest
    return text
