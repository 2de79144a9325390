"""The demonstration that is drawn from CLDR: reordering, and links that are known."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import version

import pytest

from pam.data.cldr import FIELDS, FRAMES, Cldr, Draw, Frame, Word, Words, linked, text_of, words_of
from pam.data.generated import installed
from pam.data.registry import find_dataset
from pam.runtime.errors import UserError

from .conftest import ROOT

SMALL = Cldr(train=150, dev=40, test=50)
PACKAGE = installed("babel", "2.18.0")


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return SMALL.draw(PACKAGE)


class Fixed(Draw):
    """Draws the item at the next of `places`, the last one where there are fewer."""

    def __init__(self, *places: int) -> None:
        super().__init__(1)
        self.places = list(places)

    def one_of(self, items):  # type: ignore[no-untyped-def]
        return items[min(self.places.pop(0), len(items) - 1)]


def pair(field: str, *places: int) -> tuple[str, str, str]:
    """Draw a field: its German and English text, and the links."""
    german, english = FIELDS[field](Fixed(*places))
    return text_of(german), text_of(english), linked(german, english)


def test_parts_of_a_date_are_linked_across_their_order() -> None:
    day = 30 * 365 + 8 + 126 - 1  # from 1985-01-01 to 2015-05-07
    assert pair("date", day) == ("7. Mai 2015", "May 7 , 2015", "1-2 2-1 3-4")

    german, english, links = pair("full", day)
    assert (german, english) == ("Donnerstag , 7. Mai 2015", "Thursday , May 7 , 2015")
    assert links == "1-1 3-4 4-3 5-6"


@pytest.mark.parametrize(
    ("field", "places", "expected"),
    [
        ("time", (14, 2), ("14:30", "2:30 PM", "1-1 1-2")),
        ("past", (0, 1), ("vor 3 Tagen", "3 days ago", "1-3 2-1 3-2")),
        ("future", (2, 1), ("in 3 Monaten", "in 3 months", "1-1 2-2 3-3")),
        ("amount", (20, 0), ("800 €", "€ 800", "1-2 2-1")),
        ("price", (30, 2), ("4.000 Schweizer Franken", "4,000 Swiss francs", "1-1 2-2 3-3")),
        ("area", (0, 0), ("40 Quadratmeter", "40 square meters", "1-1 2-2 2-3")),
        ("country", (26,), ("Neuseeland", "New Zealand", "1-1 1-2")),
        ("millions", (3,), ("1,5 Millionen", "1.5 million", "1-1 2-2")),
        ("percent", (0,), ("2 %", "2 %", "1-1 2-2")),
        (
            "duration",
            (0, 0, 0, 0, 3),
            ("2 Stunden und 5 Minuten", "2 hours and 5 minutes", "1-1 2-2 3-3 4-4 5-5"),
        ),
    ],
)
def test_fields_are_written_as_each_language_does(
    field: str, places: tuple[int, ...], expected: tuple[str, str, str]
) -> None:
    assert pair(field, *places) == expected


def test_links_are_sure_where_one_stands_for_all_and_possible_where_order_is_unknown() -> None:
    def side(*words: tuple[str, str | None]) -> Words:
        return tuple(Word(*word) for word in words)

    assert linked(side(("a", "1")), side(("x", "1"), ("y", "1"))) == "1-1 1-2"
    assert linked(side(("a", "1"), ("b", "1")), side(("x", "1"), ("y", "1"))) == "1-1 2-2"

    three = side(("x", "1"), ("y", "1"), ("z", None))
    assert linked(side(("a", "1"), ("b", "1"), ("c", "1")), three).count("p") == 6

    unsure = (Word("a", "1", sure=False),)
    assert linked(unsure, side(("x", "1"))) == "1p1"


def test_signs_stand_by_themselves_and_numbers_stay_whole() -> None:
    words = words_of([("€", "sign"), ("1,500.5", "number"), (", 12%", None)])
    assert [word.text for word in words] == ["€", "1,500.5", ",", "12", "%"]
    assert [word.origin for word in words][:3] == ["sign", "number", None]


def test_no_sentence_occurs_twice_in_either_language(drawn: dict[str, str]) -> None:
    for language in ("de", "en"):
        lines = []
        for split in ("train", "dev", "test"):
            lines += drawn[f"{split}.{language}"].splitlines()
        assert len(lines) == len(set(lines)) == 240


def test_sentences_are_short_and_every_link_has_its_words(drawn: dict[str, str]) -> None:
    columns = (drawn[f"test.{kind}"].splitlines() for kind in ("de", "en", "links"))
    for german, english, links in zip(*columns, strict=True):
        german_length = len(german.split())
        english_length = len(english.split())
        assert min(german_length, english_length) >= 4
        assert max(german_length, english_length) <= 14

        numbers = [tuple(map(int, re.split("[-p]", link))) for link in links.split()]
        assert numbers and len(numbers) == len(set(numbers))
        assert all(1 <= i <= german_length and 1 <= j <= english_length for i, j in numbers)
        # The full stop, and a word for most words of the shorter sentence.
        assert (german_length, english_length) in numbers
        assert len({i for i, _ in numbers}) >= 0.6 * german_length


def test_words_do_move(drawn: dict[str, str]) -> None:
    crossing = 0
    for links in drawn["test.links"].splitlines():
        sure = sorted(tuple(map(int, link.split("-"))) for link in links.split() if "-" in link)
        targets = [j for _, j in sure]
        crossing += targets != sorted(targets)

    assert crossing > 25


def test_more_training_pairs_leave_the_test_as_it_is(drawn: dict[str, str]) -> None:
    more = SMALL.model_copy(update={"train": 160}).draw(PACKAGE)
    assert more["test.de"] == drawn["test.de"] and more["dev.en"] == drawn["dev.en"]
    assert more["train.de"].startswith(drawn["train.de"])

    other_seed = SMALL.model_copy(update={"seed": 2}).draw(PACKAGE)
    assert other_seed["test.de"] != drawn["test.de"]


def test_every_frame_has_the_same_slots_in_both_languages() -> None:
    assert len(FRAMES) > 20
    with pytest.raises(ValueError, match="not a frame"):
        Frame.of("am/1 {date}", "on/1 {time}")
    with pytest.raises(ValueError, match="not a frame"):
        Frame.of("am/x {date}", "on/1 {date}")


def test_more_phrases_than_there_are_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few = (Frame.of("{person} spricht/1", "{person} speaks/1"),)
    monkeypatch.setattr("pam.data.cldr.FRAMES", few)
    with pytest.raises(UserError, match="not many more phrases than"):
        SMALL.draw(PACKAGE)


@pytest.mark.skipif(version("babel") != "2.18.0", reason="the pins belong to Babel 2.18.0")
def test_our_own_draw_is_the_pinned_one() -> None:
    registry = [ROOT / "config" / "datasets.yaml"]
    dataset = find_dataset(registry, "cldr-de-en")
    assert dataset.package is not None

    texts = Cldr.model_validate(dataset.package.options).draw(PACKAGE)
    files = dataset.files | find_dataset(registry, "cldr-de-en-gold").files
    assert files.keys() == texts.keys()
    for name, file in files.items():
        assert hashlib.sha256(texts[name].encode()).hexdigest() == file.sha256
