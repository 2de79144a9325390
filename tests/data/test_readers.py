"""Lines of text files; sentence pairs in columns, lines and segments; texts divided into splits."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam.data.readers import Columns, Line, Pair, Segments, lines_of, read_lines
from pam.data.registry import Dataset
from pam.data.sampling import Divide, divided
from pam.io import UserError, write_text

from .pairs import columns, prepared

LANGUAGES = ("de", "en")


def pairs(texts: list[tuple[str, str]]) -> list[Pair]:
    path = Path("made up")
    return [(Line(a, path, n), Line(b, path, n)) for n, (a, b) in enumerate(texts, 1)]


def texts_of(made: list[Pair]) -> list[tuple[str, str]]:
    return [(source.text, target.text) for source, target in made]


SHORT = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("stuvwxyz"))


@given(st.lists(SHORT, max_size=12), st.integers(0, 5))
def test_no_sentence_is_in_two_splits_and_no_pair_is_lost(linked: list[tuple[str, str]], seed: int) -> None:
    alone = [(f"German {number}", f"English {number}") for number in range(12)]
    made = divided(pairs(linked + alone), LANGUAGES, Divide(dev=3, test=4, seed=seed))
    assert (len(made["dev"]), len(made["test"])) == (3, 4)
    assert sorted(pair for split in made.values() for pair in texts_of(split)) == sorted(linked + alone)
    for side in (0, 1):
        sentences = [{pair[side] for pair in texts_of(split)} for split in made.values()]
        assert sum(map(len, sentences)) == len(set().union(*sentences))


def test_pairs_linked_through_others_stay_together_whatever_their_case() -> None:
    linked = [("a", "x"), ("A ", "y"), ("b", "Y"), ("b", "z")]
    alone = [(str(number), f"no {number}") for number in range(30)]
    for seed in range(20):
        made = divided(pairs(linked + alone), LANGUAGES, Divide(dev=8, test=8, seed=seed))
        whole = [set(linked) & set(texts_of(split)) for split in made.values()]
        assert sorted(map(len, whole)) == [0, 0, 4]


def test_the_draw_depends_on_the_seed_and_not_on_direction_or_order() -> None:
    texts = [(f"German {number}", f"English {number}") for number in range(40)]
    made = divided(pairs(texts), LANGUAGES, Divide(dev=5, test=5))
    again = divided(pairs(texts[::-1]), LANGUAGES, Divide(dev=5, test=5))
    turned = [(b, a) for a, b in texts]
    back = divided(pairs(turned), LANGUAGES[::-1], Divide(dev=5, test=5))
    for split, own in made.items():
        assert texts_of(again[split]) == texts_of(own)[::-1]
        assert [(a, b) for b, a in texts_of(back[split])] == texts_of(own)
    other = divided(pairs(texts), LANGUAGES, Divide(dev=5, test=5, seed=2))
    assert texts_of(other["test"]) != texts_of(made["test"])


def test_too_few_pairs_are_an_error() -> None:
    few = pairs([("a", "x"), ("b", "y"), ("a", "z")])
    with pytest.raises(UserError, match="3 pairs are too few for 1 of dev and 1 of test"):
        divided(few, LANGUAGES, Divide(dev=1, test=1))


def own(folder: Path, text: str, **read: Any) -> Dataset:
    (folder / "all.txt").write_text(text, encoding="utf-8")
    return Dataset.model_validate(
        {
            "task": "translation",
            "files": {"all.txt": {"path": str(folder / "all.txt")}},
            "splits": {"all": "all.txt"},
            "format": {
                "source": "de",
                "target": "en",
                "read": {"kind": "columns", "columns": {"en": 0, "de": 1}, "divide": {"dev": 1, "test": 2}} | read,
            },
        }
    )


def test_columns_are_found_by_language(tmp_path: Path) -> None:
    text = "".join(f"Line {number}\tZeile {number}\tby someone\n" for number in range(9))
    folder = prepared(own(tmp_path, text), tmp_path)
    assert [len(columns(folder, split)) for split in ("train", "dev", "test")] == [6, 1, 2]
    for source, target in columns(folder, "train"):
        assert source.replace("Zeile", "Line") == target


def test_columns_counted_from_the_end_serve_lines_of_different_width(tmp_path: Path) -> None:
    text = "0.9 ||| id ||| a ||| x\nid ||| b ||| y\n" + "c ||| z\nd ||| w\n"
    read = {"separator": " ||| ", "columns": {"de": -2, "en": -1}}
    folder = prepared(own(tmp_path, text, **read), tmp_path)
    found = {pair for split in ("train", "dev", "test") for pair in columns(folder, split)}
    assert found == {("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")}


def test_a_line_with_too_few_columns_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 columns are too few") as caught:
        prepared(own(tmp_path, "one\teins\ntwo\n"), tmp_path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "all.txt"), 2)


def test_a_language_without_a_column_is_named(tmp_path: Path) -> None:
    turned = own(tmp_path, "one\teins\n").with_format({"source": "fr"})
    with pytest.raises(UserError, match="no column is known for the language `fr`"):
        prepared(turned, tmp_path)


def test_two_files_and_six_lines_make_a_task_of_ones_own(tmp_path: Path) -> None:
    for language in ("de", "en"):
        text = "".join(f"{language} {number}\n" for number in range(9))
        (tmp_path / f"letters.{language}").write_text(text)
    dataset = Dataset.model_validate(
        {
            "task": "translation",
            "files": {name: {"path": str(tmp_path / name)} for name in ("letters.de", "letters.en")},
            "splits": {"all": {"de": "letters.de", "en": "letters.en"}},
            "format": {"source": "de", "target": "en", "read": {"kind": "lines", "divide": {"dev": 2, "test": 3}}},
        }
    )
    folder = prepared(dataset, tmp_path)
    assert [len(columns(folder, split)) for split in ("train", "dev", "test")] == [4, 2, 3]


def test_only_line_feeds_end_lines_and_each_knows_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028still two\n\nfour".encode())
    lines = list(lines_of(path))
    assert [line.text for line in lines] == ["one", "two\u2028still two", "", "four"]
    assert [(line.file, line.number) for line in lines][3] == (path, 4)
    assert read_lines(path) == ["one", "two\u2028still two", "", "four"]


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(gzip.compress("Größe\nzwei\n".encode()))
    assert [line.text for line in lines_of(path)] == ["Größe", "zwei"]


@pytest.mark.parametrize(
    "content", [gzip.compress(b"line\n" * 900)[:-9], b"no gzip at all"], ids=["cut short", "no gzip at all"]
)
def test_a_damaged_compressed_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged or cut short") as caught:
        list(lines_of(path))
    assert caught.value.file == str(path)


@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_a_file_without_text_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError, match="the file is empty"):
        list(lines_of(tmp_path / "a"))


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\nGr\xf6\xdfe\n")
    with pytest.raises(UserError, match="byte 0xf6") as caught:
        list(lines_of(tmp_path / "a"))
    assert caught.value.line == 3


SGM = """<refset setid="newsdev2016" srclang="any" trglang="en">
<doc docid="one">
<p>
<seg id="1">Smith &amp; Sons </seg>
<seg id="2"> &lt;b&gt; is bold.</seg>
</p>
</doc>
</refset>
"""


def read(folder: Path, english: str) -> list[tuple[str, str]]:
    source, target = folder / "dev.ro", folder / "dev.en.sgm"
    source.write_text("Smith și fiii\n<b> este aldin.\n", encoding="utf-8")
    target.write_text(english, encoding="utf-8")
    files = {"dev": {"ro": source, "en": target}}
    ((split, pairs),) = Segments().read(files, ("ro", "en"))
    assert split == "dev"
    return [(one.text, other.text) for one, other in pairs]


def test_segments_are_paired_with_lines_and_unescaped(tmp_path: Path) -> None:
    assert read(tmp_path, SGM) == [("Smith și fiii", "Smith & Sons"), ("<b> este aldin.", "<b> is bold.")]


@pytest.mark.parametrize(
    ("english", "message", "line"),
    [
        (SGM.replace(" </seg>", ""), "does not end in its line", 4),
        (SGM.replace("seg", "s"), "no segments", None),
        (SGM.replace('<seg id="2"> &lt;b&gt; is bold.</seg>\n', ""), "2 lines, but", None),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, english: str, message: str, line: int | None) -> None:
    with pytest.raises(UserError, match=message) as raised:
        read(tmp_path, english)
    assert raised.value.line == line


def test_pairs_of_an_article_stay_together(tmp_path: Path) -> None:
    rows = [f"article {number % 20}\tJa {number}\tYes {number}" for number in range(100)]
    write_text(tmp_path / "pairs.tsv", "".join(f"{row}\n" for row in rows))
    reader = Columns(columns={"ja": 1, "en": 2}, group=0, divide=Divide(dev=10, test=15))
    made = {name: list(own) for name, own in reader.read({"all": tmp_path / "pairs.tsv"}, ("ja", "en"))}
    articles = {name: {int(line.text.split()[1]) % 20 for line, _ in own} for name, own in made.items()}
    assert {name: len(own) for name, own in made.items()} == {"train": 75, "dev": 10, "test": 15}
    assert {name: len(own) for name, own in articles.items()} == {"train": 15, "dev": 2, "test": 3}
