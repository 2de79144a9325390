"""Word alignments that people made: links as text, prepared for a task in either direction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import Dataset, find_dataset
from pam.data.text_files import Line
from pam.runtime.errors import UserError
from pam.tasks.alignment.links import Links, parse_links, prepare_word_alignments

from .conftest import ROOT
from .pairs import dataset as pair_dataset
from .pairs import prepared, ready

OURS = [ROOT / "config" / "datasets.yaml"]
PLACE = Path("links.txt")


def test_sure_links_are_possible_too_and_all_count_from_0() -> None:
    line = Line("2p3 1-1 3-2 1p1", PLACE, 1)
    assert parse_links(line, (3, 3), 1)[0] == Links(((0, 0), (2, 1)), ((0, 0), (1, 2), (2, 1)))
    assert parse_links(Line("", PLACE, 1), (3, 3), 1) == (Links((), ()), 0)
    assert parse_links(Line("0-1", PLACE, 1), (1, 2), 0)[0].sure == ((0, 1),)


def test_flipped_links_are_those_of_the_other_direction() -> None:
    links = Links(((0, 2), (1, 0)), ((0, 2), (1, 0), (1, 1)))
    assert links.flipped() == Links(((0, 1), (2, 0)), ((0, 1), (1, 1), (2, 0)))
    assert links.flipped().flipped() == links


@pytest.mark.parametrize("written", ["1", "1-", "-1", "a-b", "1:2", "1-2-3", "1.0-2", "1q2"])
def test_a_malformed_link_is_named_with_its_line(written: str) -> None:
    with pytest.raises(UserError, match="is not a link") as caught:
        parse_links(Line(f"1-1 {written}", PLACE, 7), (3, 3), 1)
    assert f"`{written}`" in caught.value.message
    assert (caught.value.file, caught.value.line) == ("links.txt", 7)


@pytest.mark.parametrize(
    ("written", "first", "message"),
    [
        ("4-1", 1, "the source sentence has no word 4"),
        ("1p3", 1, "the target sentence has no word 3"),
        ("0-1", 1, "the source sentence has no word 0"),
        ("1-2", 0, "the target sentence has no word 2"),
    ],
)
def test_a_link_to_a_word_that_is_not_there_is_named(
    written: str, first: int, message: str
) -> None:
    with pytest.raises(UserError, match=f"link `{written}`: {message}") as caught:
        parse_links(Line(written, PLACE, 3), (3, 2), first)
    assert (caught.value.file, caught.value.line) == ("links.txt", 3)


def test_links_beyond_a_sentence_can_be_left_out_and_are_counted() -> None:
    links, left_out = parse_links(Line("1-1 4-1 2p9 2-2", PLACE, 1), (3, 2), 1, "drop")
    assert (links.sure, left_out) == (((0, 0), (1, 1)), 2)


GERMAN = "Das ist ein Hund .\nHeute schläft die Maus\n"
ENGLISH = "This is a dog .\nThe mouse sleeps today\n"
LINKS = "1-1 2-2 3-3 4-4 5p5\n1-4 2-3 3-1 4-2 3p2\n"


def alignments(folder: Path, **texts: str) -> Dataset:
    """Make a data set of word alignments."""
    files = {"de": GERMAN, "en": ENGLISH, "links": LINKS} | texts
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")

    return Dataset.model_validate(
        {
            "task": "alignment",
            "files": {name: {"path": str(folder / name)} for name in files},
            "splits": {"gold": {name: name for name in files}},
            "format": {"source": "de", "target": "en", "first": 1},
        }
    )


def gold(folder: Path, data: Path, **texts: str) -> Path:
    """Prepare word alignments for a task's data; return the folder."""
    dataset = alignments(folder / "gold files", **texts)
    fetch("links", dataset, folder / "gold raw")
    prepare_word_alignments("links", dataset, folder / "gold raw", data, folder / "gold")
    return folder / "gold"


def test_links_of_words_are_refused_where_words_are_characters(tmp_path: Path) -> None:
    data = ready(tmp_path, tokenize={"de": "characters", "en": "none"})
    with pytest.raises(UserError, match="the words of the task are characters"):
        gold(tmp_path, data)


def links(folder: Path) -> Any:
    return json.loads((folder / "links.json").read_text())


def test_alignments_take_the_vocabularies_and_the_case_of_the_task(tmp_path: Path) -> None:
    data = ready(tmp_path, lowercase=True)
    made = Prepared(gold(tmp_path, data))
    assert made.rows("gold")[1] == ("heute schläft die maus", "the mouse sleeps today")
    assert made.source.digest == Prepared(data).source.digest

    split = made.split("gold")
    assert made.target.spell(split.targets[0]) == ["this", "is", "a", "dog", ".", "<eos>"]
    assert links(made.folder)["sure"][1] == [[0, 3], [1, 2], [2, 0], [3, 1]]
    assert links(made.folder)["possible"][1] == [[0, 3], [1, 2], [2, 0], [2, 1], [3, 1]]
    assert made.summary["task"] == "alignment"
    assert made.summary["links"] == {"sure": 8, "possible": 10}
    assert made.codec.columns == ("source", "target")


def test_words_are_cut_into_the_subwords_of_the_task(tmp_path: Path) -> None:
    data = ready(tmp_path, subwords={"merges": 5})
    made = Prepared(gold(tmp_path, data))
    row = made.split("gold").sources[0]
    symbols = made.codec.source_symbols(["Das ist ein Hund ."])

    assert made.source.encode(symbols) == row.tolist()
    assert len(symbols) > 5 and made.codec.words(symbols, "source")[-1] == 4


def test_the_other_direction_turns_sentences_and_links_round(tmp_path: Path) -> None:
    data = ready(tmp_path, source="en", target="de")
    folder = gold(tmp_path, data)
    assert Prepared(folder).rows("gold")[1] == ("The mouse sleeps today", "Heute schläft die Maus")
    assert links(folder)["sure"][1] == [[0, 2], [1, 3], [2, 1], [3, 0]]


@pytest.mark.parametrize(
    ("texts", "file", "line", "message"),
    [
        ({"links": "1-1\n1-1\n1-1\n"}, "de", None, r"2 lines, but .*links has 3"),
        ({"en": "This is a dog .\n"}, "de", None, r"2 lines, but .*en has 1"),
        ({"en": "This is a dog .\n \n"}, "en", 2, "the line is blank"),
        ({"links": "1-1\n1-5\n"}, "links", 2, "link `1-5`: the target sentence has no word 5"),
        ({"links": "1-1\n1+5\n"}, "links", 2, r"`1\+5` is not a link"),
    ],
)
def test_faults_are_named_with_file_and_line(
    tmp_path: Path, texts: dict[str, str], file: str, line: int | None, message: str
) -> None:
    data = ready(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        gold(tmp_path, data, **texts)
    assert Path(str(caught.value.file)).name == file and caught.value.line == line
    assert not (tmp_path / "gold").exists()


def test_check_reads_all_links_before_anything_is_trained(tmp_path: Path) -> None:
    dataset = alignments(tmp_path, links="1-1\n1-5\n")
    files = {"gold": {name: tmp_path / name for name in dataset.files}}
    with pytest.raises(UserError, match="link `1-5`: the target sentence has no word 5") as caught:
        dataset.kind.first_rows(files, dataset.layout, 1)
    assert caught.value.line == 2 and "unmatched: drop" in str(caught.value.hint)

    dropping = dataset.with_format({"unmatched": "drop"})
    assert dataset.kind.first_rows(files, dropping.layout, 1) == {
        "gold": [("Das ist ein Hund .", "This is a dog .")]
    }


def test_sentences_in_the_tags_of_word_alignments_are_no_words(tmp_path: Path) -> None:
    tagged = "".join(f"<s snum={n}> {line} </s>\n" for n, line in enumerate(GERMAN.splitlines(), 1))
    with pytest.raises(UserError, match="markup in a file that is read as lines: `<s snum=`"):
        gold(tmp_path, ready(tmp_path), de=tagged)


def test_alignments_of_other_languages_are_refused(tmp_path: Path) -> None:
    english = pair_dataset(tmp_path / "own").with_format({"source": "en"})
    splits = {}
    for split, names in english.splits.items():
        assert isinstance(names, dict)
        splits[split] = {"en": names["de"], "fr": names["en"]}

    french = english.model_copy(update={"splits": splits}).with_format({"target": "fr"})
    with pytest.raises(UserError, match="aligns de and en, but the task translates en into fr"):
        gold(tmp_path, prepared(french, tmp_path))


def test_sentence_pairs_are_no_alignments(tmp_path: Path) -> None:
    data = ready(tmp_path)
    with pytest.raises(UserError, match="are not word alignments and a task of translation"):
        prepare_word_alignments(
            "pairs", pair_dataset(tmp_path / "own"), tmp_path / "raw", data, tmp_path
        )


def test_alignments_alone_are_no_task(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="belong to a task's data"):
        prepare("links", alignments(tmp_path), tmp_path, tmp_path / "out")


def test_the_german_english_alignments_of_aachen(tmp_path: Path, corpora: Path) -> None:
    rwth = find_dataset(OURS, "rwth-de-en")
    fetch("rwth-de-en", rwth, tmp_path / "rwth", str(corpora))
    data = ready(tmp_path, lowercase=True)
    summary = prepare_word_alignments(
        "rwth-de-en", rwth, tmp_path / "rwth", data, tmp_path / "gold"
    )

    assert summary["rows"] == 508
    assert summary["links"] == {"sure": 9613, "possible": 10534}
    # `wir glauben nicht , daß wir nur rosinen herauspicken sollten .`: the verb moves.
    assert [9, 6] in links(tmp_path / "gold")["sure"][0]
