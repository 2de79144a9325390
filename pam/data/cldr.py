"""German and English phrases around dates, numbers and names, as CLDR writes them (Babel).

They are a demonstration that needs no download, and no sample of a language. The frames are few,
and their slots are filled with one value formatted for both languages, so that every word's partner
is known.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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

from pam.experiments.parsing import Strict
from pam.experiments.yaml import read_yaml
from pam.runtime.errors import UserError

# phrases that may be drawn in vain, because they were drawn before, for each new one
TRIES = 100

Item = TypeVar("Item")


class Cldr(Strict):
    """Draws phrases; its fields are what one can choose."""

    seed: int = Field(1, description="another seed draws other phrases")
    train: int = Field(5000, ge=1, description="pairs for training")
    dev: int = Field(300, ge=1, description="pairs for development")
    test: int = Field(400, ge=1, description="pairs for testing")

    def draw(self, package: Distribution) -> dict[str, str]:
        """Return the texts of `{train,dev,test}.{de,en}`, a line of words each, and `test.links`.

        No sentence of either language occurs twice, so that no split holds one of another. A
        UserError says that all are drawn.
        """
        draw = Draw(self.seed)
        seen: set[str] = set()
        texts: dict[str, str] = {}
        # The test split comes first, so that it does not depend on the size of train.
        for split, size in (("test", self.test), ("dev", self.dev), ("train", self.train)):
            phrases = _new_phrases(size, draw, seen)
            texts[f"{split}.de"] = "".join(f"{text_of(german)}\n" for german, _ in phrases)
            texts[f"{split}.en"] = "".join(f"{text_of(english)}\n" for _, english in phrases)
            if split == "test":
                texts["test.links"] = "".join(f"{linked(*phrase)}\n" for phrase in phrases)
        return texts


def _new_phrases(size: int, draw: Draw, seen: set[str]) -> list[Both]:
    """Draw phrases of which neither side was `seen` before; they are added to it."""
    phrases: list[Both] = []
    tries = 0

    while len(phrases) < size:
        phrase = draw.one_of(FRAMES).filled(draw)
        sides = {text_of(side) for side in phrase}
        tries += 1

        # A side that was drawn before may be in another split.
        if not sides & seen:
            seen |= sides
            phrases.append(phrase)
            tries = 0
        elif tries == TRIES:
            message = f"there are not many more phrases than {len(seen) // 2}"
            raise UserError(message, hint="ask for fewer in `package: options:`")
    return phrases


@dataclass
class Draw:
    """Choices by hashes of a seed and a count: no version of a random generator changes them."""

    seed: int
    count: int = 0

    def one_of(self, items: Sequence[Item]) -> Item:
        """Choose one of `items`."""
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
    """Split the text that spans make; a word's origin is that of its first span that has one."""
    text = ""
    origins: list[str | None] = []  # of each character
    for span, origin in spans:
        text += span
        origins += [origin] * len(span)

    words = []
    for match in _WORD.finditer(text):
        origin = next(filter(None, origins[match.start() : match.end()]), None)
        words.append(Word(match[0], origin))
    return tuple(words)


def under(name: str, words: Words) -> Words:
    """Put a name before the origins of words, so that only these words have them.

    No other words may bear the name.
    """
    named = []
    for word in words:
        if word.origin is not None:
            word = word._replace(origin=f"{name} {word.origin}")
        named.append(word)
    return tuple(named)


def linked(source: Words, target: Words) -> str:
    """Write links as `i-j` (sure) and `ipj` (possible) between words of the same origin.

    Words are numbered from 1. Words of an origin are linked in their order where both sides have as
    many, else each with all: sure where one side has a single one.
    """
    links = []
    for origin in {word.origin for word in source} - {None}:
        source_indices = [index for index, word in enumerate(source) if word.origin == origin]
        target_indices = [index for index, word in enumerate(target) if word.origin == origin]

        pairs: Iterable[tuple[int, int]]
        # Several words of one origin are those of a name or of a unit.
        if len(source_indices) == len(target_indices):
            pairs = zip(source_indices, target_indices, strict=True)
            are_sure = True
        else:
            pairs = product(source_indices, target_indices)
            are_sure = 1 in (len(source_indices), len(target_indices))

        for i, j in pairs:
            is_sure = are_sure and source[i].sure and target[j].sure
            links.append((i, j, "-" if is_sure else "p"))

    return " ".join(f"{i + 1}{kind}{j + 1}" for i, j, kind in sorted(links))


# Fields: one value formatted for both languages, each word with its origin in the value.

Slot = Callable[[Draw], Both]  # draws a value and gives its words in both languages
GERMAN = Locale("de")
ENGLISH = Locale("en")
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
    """Draw a day of 1985 to 2024, as a CLDR pattern for each language writes it."""
    day = datetime.date(1985, 1, 1) + datetime.timedelta(days=draw.one_of(range(40 * 365)))

    def write(locale: Locale) -> Words:
        fields = DateTimeFormat(day, locale)
        spans: list[tuple[str, str | None]] = []
        for kind, piece in tokenize_pattern(pattern(locale)):
            if kind == "chars":
                spans.append((str(piece), None))
            else:
                # The origin of a field is its letter in the pattern.
                letter = piece[0]
                spans.append((fields[letter * int(piece[1])], letter))
        return words_of(spans)

    return _both(write)


def time(draw: Draw) -> Both:
    """Draw a quarter of an hour: `14:30` and `2:30 PM`."""
    hour = draw.one_of(range(24))
    minute = draw.one_of(range(0, 60, 15))
    value = datetime.time(hour, minute)
    return _both(lambda locale: words_of([(format_time(value, "short", locale=locale), "time")]))


def relative(sign: int, draw: Draw) -> Both:
    """Draw a time before or after now: `vor 3 Tagen` and `3 days ago`."""
    day = 24 * 3600
    seconds: dict[TimeUnit, int] = {"day": day, "hour": 3600, "week": 7 * day, "month": 30 * day}
    unit = draw.one_of(sorted(seconds))
    count = draw.one_of(SMALL)

    past = datetime.timedelta(seconds=sign * count * seconds[unit])

    def write(locale: Locale) -> Words:
        text = format_timedelta(past, unit, threshold=1000, add_direction=True, locale=locale)

        words = []
        for word in _counted(text, str(count)):
            if word.text in DIRECTIONS:
                word = word._replace(origin="direction")
            words.append(word)
        return tuple(words)

    return _both(write)


def _counted(text: str, number: str) -> Words:
    """Split a text that holds a number: the number, and the unit that is counted."""
    before, _, after = text.partition(number)
    return words_of([(before, "unit"), (number, "number"), (after, "unit")])


def _both_counted(number: float, write: Callable[[Locale], str]) -> Both:
    """Split a text as `_counted` in both languages, each of which writes numbers in its way."""
    return _both(lambda locale: _counted(write(locale), format_decimal(number, locale=locale)))


def quantity(numbers: Sequence[int], units: Sequence[str], draw: Draw) -> Both:
    """Draw a number of units: `80 Kilometer pro Stunde` and `80 kilometers per hour`."""
    unit = draw.one_of(units)
    number = draw.one_of(numbers)
    return _both_counted(number, lambda locale: format_unit(number, unit, "long", locale=locale))


def duration(draw: Draw) -> Both:
    """Draw two units of time: `2 Stunden und 15 Minuten` and `2 hours and 15 minutes`."""
    longer, shorter = draw.one_of((("hour", "minute"), ("week", "day"), ("year", "month")))
    first = quantity(range(2, 13), [f"duration-{longer}"], draw)
    second = quantity(range(2, 7), [f"duration-{shorter}"], draw)

    sides = []
    for first_words, conjunction, second_words in zip(first, ("und", "and"), second, strict=True):
        sides.append(
            (*under("first", first_words), Word(conjunction, "and"), *under("second", second_words))
        )
    german, english = sides
    return german, english


def price(draw: Draw) -> Both:
    """Draw an amount and a currency's name: `1.500 Schweizer Franken`, `1,500 Swiss francs`."""
    number = draw.one_of(LARGE)
    currency = draw.one_of(TABLE["currencies"].split())
    options: dict[str, Any] = {"format_type": "name", "currency_digits": False}
    return _both_counted(
        number, lambda locale: format_currency(number, currency, locale=locale, **options)
    )


def amount(draw: Draw) -> Both:
    """Draw an amount and a currency's sign: `1.500 €` and `€ 1,500`."""
    number = draw.one_of(LARGE)
    currency = draw.one_of(("EUR", "USD", "GBP", "JPY"))

    def write(locale: Locale) -> str:
        pattern = locale.currency_formats["standard"].pattern.replace(".00", "")
        return format_currency(number, currency, pattern, locale=locale, currency_digits=False)

    return _both_counted(number, write)


def millions(draw: Draw) -> Both:
    """Draw a large round number: `1,5 Millionen` and `1.5 million`."""
    number = draw.one_of(range(12, 100)) / 10
    options: dict[str, Any] = {"format_type": "long", "fraction_digits": 1}
    return _both_counted(
        number, lambda locale: format_compact_decimal(number * 10**6, locale=locale, **options)
    )


def percent(draw: Draw) -> Both:
    """Draw a share: `12 %` and `12 %`."""
    number = draw.one_of(range(2, 61))
    return _both_counted(number, lambda locale: format_percent(number / 100, locale=locale))


def _names(pairs: Sequence[tuple[str, str]], draw: Draw) -> Both:
    """Draw names that translate each other, word for word if they have the same number of words."""
    german, english = draw.one_of(pairs)
    return words_of([(german, "name")]), words_of([(english, "name")])


# fields that a frame may name as `{name}`
FIELDS: dict[str, Slot] = {
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
        """Read two lines; a ValueError if they are not written as the table says."""
        german, english = ([_PART.fullmatch(part) for part in line.split()] for line in lines)
        if None in german or None in english:
            raise ValueError(f"not a frame: {lines}")

        frame = cls(tuple(filter(None, german)), tuple(filter(None, english)))
        german_slots, english_slots = (
            sorted(part["slot"] for part in parts if part["slot"])
            for parts in (frame.german, frame.english)
        )
        if german_slots != english_slots:
            raise ValueError(f"not a frame: {lines}")
        return frame

    def filled(self, draw: Draw) -> Both:
        """Fill the slots with drawn values, and make both sides sentences."""
        values = {part["slot"]: FIELDS[part["field"]](draw) for part in self.german if part["slot"]}
        german_values = {slot: german for slot, (german, _) in values.items()}
        english_values = {slot: english for slot, (_, english) in values.items()}
        return _sentence(self.german, german_values), _sentence(self.english, english_values)


def _sentence(parts: Iterable[re.Match[str]], values: Mapping[str, Words]) -> Words:
    """Write the parts of a frame in one language, with the words of its slots."""
    words: list[Word] = []
    for part in parts:
        if part["slot"]:
            words += under(part["slot"], values[part["slot"]])
        else:
            words.append(Word(part["text"], part["origin"], sure=not part["unsure"]))

    first = words[0].text
    words[0] = words[0]._replace(text=first[0].upper() + first[1:])
    return (*words, Word(".", "end"))


_LINES = TABLE["frames"].splitlines()
FRAMES = tuple(map(Frame.of, _LINES[::2], _LINES[1::2]))
