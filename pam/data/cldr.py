"""German and English phrases around dates, numbers and names, as CLDR writes them (Babel).

A demonstration that needs no download, and no sample of a language: the frames are few, and their
slots are filled with one value formatted for both languages, so that every word's partner is
known.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import Distribution
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from babel import Locale
from babel.dates import (
    DateTimeFormat,
    format_time,
    format_timedelta,
    get_date_format,
    tokenize_pattern,
)
from babel.numbers import format_compact_decimal, format_currency, format_decimal, format_percent
from babel.units import format_unit
from pydantic import Field

from pam.io import Strict, UserError, read_yaml

TRIES = 100  # phrases that may be drawn in vain, because they were drawn before, for each new one

Item = TypeVar("Item")


class Cldr(Strict):
    """Draws phrases; its fields are what one can choose."""

    seed: int = Field(1, description="another seed draws other phrases")
    train: int = Field(5000, ge=1, description="pairs for training")
    dev: int = Field(300, ge=1, description="pairs for development")
    test: int = Field(400, ge=1, description="pairs for testing")

    def draw(self, package: Distribution) -> dict[str, str]:
        """Texts of `{train,dev,test}.{de,en}`, a line of words each, and of `test.links`; a
        UserError if all are drawn.

        No sentence of either language occurs twice, so that no split holds one of another.
        """
        draw = Draw(self.seed)
        seen: set[str] = set()
        texts: dict[str, str] = {}
        # The test does not depend on the number of pairs for training.
        for split, size in (("test", self.test), ("dev", self.dev), ("train", self.train)):
            phrases: list[Both] = []
            tries = 0
            while len(phrases) < size:
                phrase = draw.one_of(FRAMES).filled(draw)
                sides = {text_of(side) for side in phrase}
                tries += 1
                if not sides & seen:
                    seen |= sides
                    phrases.append(phrase)
                    tries = 0
                elif tries == TRIES:
                    message = f"there are not many more phrases than {len(seen) // 2}"
                    raise UserError(message, hint="ask for fewer in `package: options:`")
            for language, side in (("de", 0), ("en", 1)):
                texts[f"{split}.{language}"] = "".join(
                    f"{text_of(phrase[side])}\n" for phrase in phrases
                )
            if split == "test":
                texts["test.links"] = "".join(f"{linked(*phrase)}\n" for phrase in phrases)
        return texts


@dataclass
class Draw:
    """Choices by hashes of a seed and a count: no version of a random generator changes them."""

    seed: int
    count: int = 0

    def one_of(self, items: Sequence[Item]) -> Item:
        self.count += 1
        digest = hashlib.sha256(f"{self.seed} {self.count}".encode()).digest()
        return items[int.from_bytes(digest[:8]) % len(items)]


# Signs are words of their own, and so are commas that are not within a number.
_WORD = re.compile(r"[€$£¥%]|,(?!\d)|(?:[^\s€$£¥%,]|,(?=\d))+")


class Word(NamedTuple):
    """A word and its origin; words of the same origin in the other language are its partners."""

    text: str
    origin: str | None = None
    sure: bool = True  # whether links to it are beyond doubt


Words = tuple[Word, ...]
Both = tuple[Words, Words]  # German and English


def text_of(words: Words) -> str:
    return " ".join(word.text for word in words)


def words_of(spans: Iterable[tuple[str, str | None]]) -> Words:
    """Splits the text that spans make; a word's origin is that of its first span that has one."""
    text, origins = "", list[str | None]()
    for span, origin in spans:
        text += span
        origins += [origin] * len(span)
    return tuple(
        Word(match[0], next(filter(None, origins[match.start() : match.end()]), None))
        for match in _WORD.finditer(text)
    )


def under(name: str, words: Words) -> Words:
    """The same words with origins that only they have, as long as only they bear the name."""
    return tuple(
        word if word.origin is None else word._replace(origin=f"{name} {word.origin}")
        for word in words
    )


def linked(source: Words, target: Words) -> str:
    """Links as `i-j` (sure) and `ipj` (possible), words numbered from 1, between words of the same
    origin.

    They are in their order where both sides have as many, else each with all: sure where one side
    has a single one.
    """
    links = []
    for origin in {word.origin for word in source} - {None}:
        first, second = (
            [n for n, word in enumerate(words) if word.origin == origin]
            for words in (source, target)
        )
        in_order = len(first) == len(second)
        known = in_order or 1 in (len(first), len(second))
        for i, j in zip(first, second, strict=True) if in_order else product(first, second):
            sure = known and source[i].sure and target[j].sure
            links.append((i, j, "-" if sure else "p"))
    return " ".join(f"{i + 1}{kind}{j + 1}" for i, j, kind in sorted(links))


# Fields: one value formatted for both languages, each word with its origin in the value.

Slot = Callable[[Draw], Both]  # draws a value and gives its words in both languages
GERMAN, ENGLISH = Locale("de"), Locale("en")
SMALL = range(2, 31)
LARGE = (*range(40, 100, 10), *range(100, 1000, 50), *range(1000, 10000, 500))
# words of times before and after now; the other words name a unit
DIRECTIONS = frozenset({"vor", "in", "ago"})

# names, and frames to put them into
TABLE: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
TimeUnit = Literal["day", "hour", "week", "month"]


def _both(write: Callable[[Locale], Words]) -> Both:
    return write(GERMAN), write(ENGLISH)


def _date(pattern: Callable[[Locale], str], draw: Draw) -> Both:
    """A day of 1985 to 2024, as a CLDR pattern for each language writes it."""
    day = datetime.date(1985, 1, 1) + datetime.timedelta(days=draw.one_of(range(40 * 365)))

    def write(locale: Locale) -> Words:
        # Piece by piece; the origin of a piece is its letter in the pattern.
        written = DateTimeFormat(day, locale)
        return words_of(
            (str(piece), None) if kind == "chars" else (written[piece[0] * int(piece[1])], piece[0])
            for kind, piece in tokenize_pattern(pattern(locale))
        )

    return _both(write)


def time(draw: Draw) -> Both:
    """A quarter of an hour: `14:30` and `2:30 PM`."""
    value = datetime.time(draw.one_of(range(24)), draw.one_of(range(0, 60, 15)))
    return _both(lambda locale: words_of([(format_time(value, "short", locale=locale), "time")]))


def relative(sign: int, draw: Draw) -> Both:
    """So long ago, or in so long: `vor 3 Tagen` and `3 days ago`."""
    day = 24 * 3600
    seconds: dict[TimeUnit, int] = {"day": day, "hour": 3600, "week": 7 * day, "month": 30 * day}
    unit, count = draw.one_of(sorted(seconds)), draw.one_of(SMALL)
    past = datetime.timedelta(seconds=sign * count * seconds[unit])

    def write(locale: Locale) -> Words:
        words = _counted(
            format_timedelta(past, unit, threshold=1000, add_direction=True, locale=locale),
            str(count),
        )
        return tuple(
            word._replace(origin="direction") if word.text in DIRECTIONS else word for word in words
        )

    return _both(write)


def _counted(text: str, number: str) -> Words:
    """Words of a text that holds a number: the number, and what is counted."""
    before, _, after = text.partition(number)
    return words_of([(before, "unit"), (number, "number"), (after, "unit")])


def _both_counted(number: float, write: Callable[[Locale], str]) -> Both:
    """As `_counted` for both languages, each of which writes the number in its own way."""
    return _both(lambda locale: _counted(write(locale), format_decimal(number, locale=locale)))


def quantity(numbers: Sequence[int], units: Sequence[str], draw: Draw) -> Both:
    """A number of units: `80 Kilometer pro Stunde` and `80 kilometers per hour`."""
    unit, number = draw.one_of(units), draw.one_of(numbers)
    return _both_counted(number, lambda locale: format_unit(number, unit, "long", locale=locale))


def duration(draw: Draw) -> Both:
    """Two units of time: `2 Stunden und 15 Minuten` and `2 hours and 15 minutes`."""
    longer, shorter = draw.one_of((("hour", "minute"), ("week", "day"), ("year", "month")))
    first = quantity(range(2, 13), [f"duration-{longer}"], draw)
    second = quantity(range(2, 7), [f"duration-{shorter}"], draw)
    german, english = (
        (*under("first", one), Word(conjunction, "and"), *under("second", other))
        for one, conjunction, other in zip(first, ("und", "and"), second, strict=True)
    )
    return german, english


def price(draw: Draw) -> Both:
    """An amount and a currency's name: `1.500 Schweizer Franken` and `1,500 Swiss francs`."""
    number, currency = draw.one_of(LARGE), draw.one_of(TABLE["currencies"].split())
    options: dict[str, Any] = {"format_type": "name", "currency_digits": False}
    return _both_counted(
        number, lambda locale: format_currency(number, currency, locale=locale, **options)
    )


def amount(draw: Draw) -> Both:
    """An amount and a currency's sign: `1.500 €` and `€ 1,500`."""
    number, currency = draw.one_of(LARGE), draw.one_of(("EUR", "USD", "GBP", "JPY"))

    def write(locale: Locale) -> str:
        pattern = locale.currency_formats["standard"].pattern.replace(".00", "")
        return format_currency(number, currency, pattern, locale=locale, currency_digits=False)

    return _both_counted(number, write)


def millions(draw: Draw) -> Both:
    """A large round number: `1,5 Millionen` and `1.5 million`."""
    number = draw.one_of(range(12, 100)) / 10
    options: dict[str, Any] = {"format_type": "long", "fraction_digits": 1}
    return _both_counted(
        number, lambda locale: format_compact_decimal(number * 10**6, locale=locale, **options)
    )


def percent(draw: Draw) -> Both:
    """A share: `12 %` and `12 %`."""
    number = draw.one_of(range(2, 61))
    return _both_counted(number, lambda locale: format_percent(number / 100, locale=locale))


def _names(pairs: Sequence[tuple[str, str]], draw: Draw) -> Both:
    """Names that translate each other, word for word if they have the same number of words."""
    german, english = draw.one_of(pairs)
    return words_of([(german, "name")]), words_of([(english, "name")])


FIELDS: dict[str, Slot] = {  # what a frame may name as `{name}`
    "amount": amount,
    "area": partial(
        quantity, LARGE, ("area-square-meter", "area-hectare", "area-square-kilometer")
    ),
    "country": partial(
        _names,
        [(GERMAN.territories[c], ENGLISH.territories[c]) for c in TABLE["territories"].split()],
    ),
    "date": partial(_date, lambda locale: get_date_format("long", locale).pattern),
    "day": partial(_date, lambda locale: "EEEE"),
    "duration": duration,
    "event": partial(_names, [tuple(event.split(" | ")) for event in TABLE["events"]]),
    "full": partial(_date, lambda locale: get_date_format("full", locale).pattern),
    "future": partial(relative, 1),
    "language": partial(
        _names, [(GERMAN.languages[c], ENGLISH.languages[c]) for c in TABLE["languages"].split()]
    ),
    "length": partial(quantity, LARGE, ("length-kilometer", "length-meter", "length-mile")),
    "mass": partial(quantity, (*SMALL, *LARGE), ("mass-kilogram", "mass-gram", "mass-tonne")),
    "millions": millions,
    "month": partial(_date, lambda locale: locale.datetime_skeletons["yMMMM"].pattern),
    "monthday": partial(_date, lambda locale: locale.datetime_skeletons["MMMMd"].pattern),
    "past": partial(relative, -1),
    "percent": percent,
    "person": partial(_names, [(name, name) for name in TABLE["people"].split()]),
    "price": price,
    "speed": partial(
        quantity, range(20, 200, 10), ("speed-kilometer-per-hour", "speed-meter-per-second")
    ),
    "temperature": partial(quantity, SMALL, ("temperature-celsius", "temperature-fahrenheit")),
    "time": time,
}

# Frames: sentences in both languages with slots for fields.

_PART = re.compile(
    r"(?P<text>[^/{}]+)(/(?P<origin>\d+)(?P<unsure>\??))?|\{(?P<slot>(?P<field>[a-z]+)(\.\d+)?)\}"
)


@dataclass(frozen=True)
class Frame:
    """A sentence in both languages, with slots."""

    german: tuple[re.Match[str], ...]
    english: tuple[re.Match[str], ...]

    @classmethod
    def of(cls, *lines: str) -> Frame:
        """Reads two lines; a ValueError if they are not written as the table says."""
        parts = [[_PART.fullmatch(part) for part in line.split()] for line in lines]
        german, english = (tuple(filter(None, own)) for own in parts)
        slots = [sorted(part["slot"] for part in own if part["slot"]) for own in (german, english)]
        if slots[0] != slots[1] or None in parts[0] + parts[1]:
            raise ValueError(f"not a frame: {lines}")
        return cls(german, english)

    def filled(self, draw: Draw) -> Both:
        values = {part["slot"]: FIELDS[part["field"]](draw) for part in self.german if part["slot"]}
        sides = []
        for side, parts in enumerate((self.german, self.english)):
            words: list[Word] = []
            for part in parts:
                slot, alone = part["slot"], Word(part["text"], part["origin"], not part["unsure"])
                words += under(slot, values[slot][side]) if slot else [alone]
            first = words[0].text
            words[0] = words[0]._replace(text=first[0].upper() + first[1:])
            sides.append((*words, Word(".", "end")))
        return sides[0], sides[1]


_LINES = TABLE["frames"].splitlines()
FRAMES = tuple(map(Frame.of, _LINES[::2], _LINES[1::2]))
