"""Values drawn once and formatted for German and English, each word with its origin in the value.

A field is a function of `Draw` to the words of both languages.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from babel import Locale
from babel.dates import (
    DateTimeFormat,
    format_time,
    format_timedelta,
    get_date_format,
    tokenize_pattern,
)
from babel.numbers import (
    format_compact_decimal,
    format_currency,
    format_decimal,
    format_percent,
)
from babel.units import format_unit

from pam.data.packages.babel.draw import Draw
from pam.data.packages.babel.words import Word, Words, words_of

Both = tuple[Words, Words]
"""German and English."""

Field = Callable[[Draw], Both]

GERMAN, ENGLISH = LOCALES = (Locale("de"), Locale("en"))

SMALL = range(2, 31)
LARGE = (*range(40, 100, 10), *range(100, 1000, 50), *range(1000, 10000, 500))

DIRECTIONS = frozenset({"vor", "in", "ago"})
"""Words of times before and after now; the other words name a unit."""

# Names that German uses without an article.
TERRITORIES = (
    "DE", "FR", "IT", "ES", "PT", "PL", "DK", "SE", "NO", "FI", "AT", "HU", "GR", "RO", "BG", "IE",
    "BE", "JP", "CN", "IN", "BR", "CA", "MX", "AU", "EG", "KE", "NZ", "ZA", "KR", "SA", "CZ", "HR",
    "IS", "LU", "MT", "VN", "TH", "CL", "PE", "CU",
)  # fmt: skip
LANGUAGES = (
    "de", "en", "fr", "it", "es", "pt", "pl", "da", "sv", "fi", "hu", "el", "ro", "bg", "ga", "nl",
    "ja", "zh", "hi", "ar", "ko", "tr", "ru", "uk", "cs", "hr", "is", "vi", "th", "he",
)  # fmt: skip
CURRENCIES = (
    "EUR", "USD", "CHF", "GBP", "JPY", "SEK", "DKK", "NOK", "PLN", "CZK", "CAD", "AUD", "INR",
    "MXN", "NZD", "HUF",
)  # fmt: skip
SYMBOLS = ("EUR", "USD", "GBP", "JPY")
PEOPLE = ("Anna", "David", "Julia", "Lena", "Martin", "Paul", "Robert", "Sarah")
EVENTS = (
    ("der Kurs", "the course"), ("der Markt", "the market"), ("der Vortrag", "the lecture"),
    ("die Ausstellung", "the exhibition"), ("die Messe", "the fair"), ("die Prüfung", "the exam"),
    ("die Sitzung", "the meeting"), ("das Fest", "the festival"), ("das Konzert", "the concert"),
    ("das Spiel", "the game"),
)  # fmt: skip


def _patterned(*patterns: str) -> Field:
    """A day of 1985 to 2024, as a CLDR pattern for each language writes it."""
    first = datetime.date(1985, 1, 1)

    def field(draw: Draw) -> Both:
        day = first + datetime.timedelta(days=draw.one_of(range(40 * 365)))
        german, english = (
            words_of(_spans(day, pattern, locale))
            for pattern, locale in zip(patterns, LOCALES, strict=True)
        )
        return german, english

    return field


def _spans(day: datetime.date, pattern: str, locale: Locale) -> list[tuple[str, str | None]]:
    """What a pattern writes, piece by piece; the origin of a piece is its letter."""
    written = DateTimeFormat(day, locale)
    return [
        (str(piece), None) if kind == "chars" else (written[piece[0] * int(piece[1])], piece[0])
        for kind, piece in tokenize_pattern(pattern)
    ]


def _named(length: str) -> Field:
    return _patterned(*(get_date_format(length, locale).pattern for locale in LOCALES))  # type: ignore[arg-type]


def _skeleton(name: str) -> Field:
    return _patterned(*(locale.datetime_skeletons[name].pattern for locale in LOCALES))


def time(draw: Draw) -> Both:
    """A quarter of an hour: `14:30` and `2:30 PM`."""
    value = datetime.time(draw.one_of(range(24)), draw.one_of(range(0, 60, 15)))
    german, english = (
        words_of([(format_time(value, "short", locale=locale), "time")]) for locale in LOCALES
    )
    return german, english


def relative(sign: int) -> Field:
    """So long ago, or in so long: `vor 3 Tagen` and `3 days ago`."""
    seconds = {"day": 86400, "hour": 3600, "week": 7 * 86400, "month": 30 * 86400}

    def field(draw: Draw) -> Both:
        unit, count = draw.one_of(sorted(seconds)), draw.one_of(SMALL)
        past = datetime.timedelta(seconds=sign * count * seconds[unit])
        texts = (
            format_timedelta(past, unit, threshold=1000, add_direction=True, locale=locale)  # type: ignore[arg-type]
            for locale in LOCALES
        )
        german, english = (
            tuple(
                word._replace(origin="direction") if word.text in DIRECTIONS else word
                for word in _counted(text, str(count))
            )
            for text in texts
        )
        return german, english

    return field


def _counted(text: str, number: str) -> Words:
    """Words of a text that holds a number: the number, and what is counted."""
    before, _, after = text.partition(number)
    return words_of([(before, "unit"), (number, "number"), (after, "unit")])


def quantity(numbers: range | tuple[int, ...], *units: str) -> Field:
    """A number of units: `80 Kilometer pro Stunde` and `80 kilometers per hour`."""

    def field(draw: Draw) -> Both:
        unit, number = draw.one_of(units), draw.one_of(numbers)
        german, english = (
            _counted(
                format_unit(number, unit, "long", locale=locale),
                format_decimal(number, locale=locale),
            )
            for locale in LOCALES
        )
        return german, english

    return field


def duration(draw: Draw) -> Both:
    """Two units of time: `2 Stunden und 15 Minuten` and `2 hours and 15 minutes`."""
    longer, shorter = draw.one_of((("hour", "minute"), ("week", "day"), ("year", "month")))
    parts = [
        quantity(range(2, limit), f"duration-{unit}")(draw)
        for unit, limit in ((longer, 13), (shorter, 7))
    ]
    german, english = (
        (
            *(word._replace(origin=f"first {word.origin}") for word in parts[0][side]),
            Word(together, "and"),
            *(word._replace(origin=f"second {word.origin}") for word in parts[1][side]),
        )
        for side, together in enumerate(("und", "and"))
    )
    return german, english


def price(draw: Draw) -> Both:
    """An amount and a currency's name: `1.500 Schweizer Franken` and `1,500 Swiss francs`."""
    number, currency = draw.one_of(LARGE), draw.one_of(CURRENCIES)
    german, english = (
        _counted(
            format_currency(
                number, currency, locale=locale, format_type="name", currency_digits=False
            ),
            format_decimal(number, locale=locale),
        )
        for locale in LOCALES
    )
    return german, english


def amount(draw: Draw) -> Both:
    """An amount and a currency's sign: `1.500 €` and `€ 1,500`."""
    number, currency = draw.one_of(LARGE), draw.one_of(SYMBOLS)
    german, english = (
        _counted(
            format_currency(
                number,
                currency,
                locale.currency_formats["standard"].pattern.replace(".00", ""),
                locale=locale,
                currency_digits=False,
            ),
            format_decimal(number, locale=locale),
        )
        for locale in LOCALES
    )
    return german, english


def millions(draw: Draw) -> Both:
    """A large round number: `1,5 Millionen` and `1.5 million`."""
    number = draw.one_of(range(12, 100)) / 10
    german, english = (
        _counted(
            format_compact_decimal(
                number * 10**6, format_type="long", locale=locale, fraction_digits=1
            ),
            format_decimal(number, locale=locale),
        )
        for locale in LOCALES
    )
    return german, english


def percent(draw: Draw) -> Both:
    """A share: `12 %` and `12 %`."""
    number = draw.one_of(range(2, 61))
    german, english = (
        _counted(format_percent(number / 100, locale=locale), str(number)) for locale in LOCALES
    )
    return german, english


def _names(pairs: list[tuple[str, str]]) -> Field:
    """Names that stand for each other, word for word where they have as many."""

    def field(draw: Draw) -> Both:
        german, english = (words_of([(name, "name")]) for name in draw.one_of(pairs))
        return german, english

    return field


FIELDS: dict[str, Field] = {
    "amount": amount,
    "area": quantity(LARGE, "area-square-meter", "area-hectare", "area-square-kilometer"),
    "country": _names([(GERMAN.territories[c], ENGLISH.territories[c]) for c in TERRITORIES]),
    "date": _named("long"),
    "day": _patterned("EEEE", "EEEE"),
    "duration": duration,
    "event": _names(list(EVENTS)),
    "full": _named("full"),
    "future": relative(1),
    "language": _names([(GERMAN.languages[c], ENGLISH.languages[c]) for c in LANGUAGES]),
    "length": quantity(LARGE, "length-kilometer", "length-meter", "length-mile"),
    "mass": quantity((*SMALL, *LARGE), "mass-kilogram", "mass-gram", "mass-tonne"),
    "millions": millions,
    "month": _skeleton("yMMMM"),
    "monthday": _skeleton("MMMMd"),
    "past": relative(-1),
    "percent": percent,
    "person": _names([(name, name) for name in PEOPLE]),
    "price": price,
    "speed": quantity(range(20, 200, 10), "speed-kilometer-per-hour", "speed-meter-per-second"),
    "temperature": quantity(SMALL, "temperature-celsius", "temperature-fahrenheit"),
    "time": time,
}
"""What may stand in a frame as `{name}`."""
