"""Lines of text files; sentence pairs in columns, lines and segments; texts divided into splits."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam.data.dataset import SPLITS, Prepared
from pam.data.readers import Columns, Lines, Segments
from pam.data.records import JsonLines
from pam.data.registry import Dataset
from pam.data.sampling import Divide, Pair, divided
from pam.data.text_files import Line, lines_of, read_lines
from pam.runtime.errors import UserError
from pam.runtime.files import write_text

from .pairs import columns, prepared, ready

LANGUAGES = ("de", "en")


def pairs(texts: list[tuple[str, str]]) -> list[Pair]:
    """Make pairs of lines of one file."""
    path = Path("made up")
    return [(Line(a, path, n), Line(b, path, n)) for n, (a, b) in enumerate(texts, 1)]


def texts_of(read_pairs: list[Pair]) -> list[tuple[str, str]]:
    """Return the texts of pairs of lines."""
    return [(source.text, target.text) for source, target in read_pairs]


SHORT = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("stuvwxyz"))


@given(st.lists(SHORT, max_size=12), st.integers(0, 5))
def test_no_sentence_is_in_two_splits_and_no_pair_is_lost(
    linked: list[tuple[str, str]], seed: int
) -> None:
    alone = [(f"German {number}", f"English {number}") for number in range(12)]
    splits = divided(pairs(linked + alone), LANGUAGES, Divide(dev=3, test=4, seed=seed))
    assert (len(splits["dev"]), len(splits["test"])) == (3, 4)

    texts = [texts_of(split) for split in splits.values()]
    assert sorted(pair for split in texts for pair in split) == sorted(linked + alone)

    for side in (0, 1):
        sentences = [{pair[side] for pair in split} for split in texts]
        assert sum(map(len, sentences)) == len(set().union(*sentences))


def test_pairs_linked_through_others_stay_together_whatever_their_case() -> None:
    linked = [("a", "x"), ("A ", "y"), ("b", "Y"), ("b", "z")]
    alone = [(str(number), f"no {number}") for number in range(30)]
    for seed in range(20):
        splits = divided(pairs(linked + alone), LANGUAGES, Divide(dev=8, test=8, seed=seed))
        in_split = [set(linked) & set(texts_of(split)) for split in splits.values()]
        assert sorted(map(len, in_split)) == [0, 0, 4]


def test_the_draw_depends_on_the_seed_and_not_on_direction_or_order() -> None:
    texts = [(f"German {number}", f"English {number}") for number in range(40)]
    divide = Divide(dev=5, test=5)
    splits = divided(pairs(texts), LANGUAGES, divide)
    reversed_order = divided(pairs(texts[::-1]), LANGUAGES, divide)
    turned = divided(pairs([(b, a) for a, b in texts]), LANGUAGES[::-1], divide)
    for split in splits:
        drawn = texts_of(splits[split])
        assert texts_of(reversed_order[split]) == drawn[::-1]
        assert [(a, b) for b, a in texts_of(turned[split])] == drawn

    other_seed = divided(pairs(texts), LANGUAGES, Divide(dev=5, test=5, seed=2))
    assert texts_of(other_seed["test"]) != texts_of(splits["test"])


def test_too_few_pairs_are_an_error() -> None:
    few = pairs([("a", "x"), ("b", "y"), ("a", "z")])
    with pytest.raises(UserError, match="3 pairs are too few for 1 of dev and 1 of test"):
        divided(few, LANGUAGES, Divide(dev=1, test=1))


def one_file(folder: Path, text: str, **read: Any) -> Dataset:
    """Make a data set of one file of columns, which is divided."""
    (folder / "all.txt").write_text(text, encoding="utf-8")
    reader = {"kind": "columns", "columns": {"en": 0, "de": 1}, "divide": {"dev": 1, "test": 2}}
    return Dataset.model_validate(
        {
            "task": "translation",
            "files": {"all.txt": {"path": str(folder / "all.txt")}},
            "splits": {"all": "all.txt"},
            "format": {"source": "de", "target": "en", "read": reader | read},
        }
    )


def test_columns_are_found_by_language(tmp_path: Path) -> None:
    text = "".join(f"Line {number}\tZeile {number}\tby someone\n" for number in range(9))
    folder = prepared(one_file(tmp_path, text), tmp_path)
    assert [len(columns(folder, split)) for split in ("train", "dev", "test")] == [6, 1, 2]
    for source, target in columns(folder, "train"):
        assert source.replace("Zeile", "Line") == target


def test_columns_counted_from_the_end_serve_lines_of_different_width(tmp_path: Path) -> None:
    text = "0.9 ||| id ||| a ||| x\nid ||| b ||| y\n" + "c ||| z\nd ||| w\n"
    read = {"separator": " ||| ", "columns": {"de": -2, "en": -1}}
    folder = prepared(one_file(tmp_path, text, **read), tmp_path)
    rows = {pair for split in ("train", "dev", "test") for pair in columns(folder, split)}

    assert rows == {("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")}


def test_a_line_with_too_few_columns_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 columns are too few") as caught:
        prepared(one_file(tmp_path, "one\teins\ntwo\n"), tmp_path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "all.txt"), 2)


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a\tb\nx y\tz\textra text\n", "\t"), ("a,b\ngood day, my friend,guten Tag\n", ",")],
)
def test_a_text_that_holds_the_separator_is_named_and_not_cut(
    tmp_path: Path, text: str, separator: str
) -> None:
    path = tmp_path / "pairs"
    path.write_text(text)
    reader: dict[str, Any] = {"columns": {"en": 0, "de": 1}, "separator": separator}
    with pytest.raises(UserError, match="3 columns, but line 1 has 2") as raised:
        list(Columns(**reader).pairs("train", path, ("en", "de")))
    assert raised.value.line == 2

    kept = Columns(**reader, further_columns="drop").pairs("train", path, ("en", "de"))
    assert len(list(kept)) == 2


def test_a_language_without_a_column_is_named(tmp_path: Path) -> None:
    turned = one_file(tmp_path, "one\teins\n").with_format({"source": "fr"})
    with pytest.raises(UserError, match="no column is given for the language `fr`"):
        prepared(turned, tmp_path)


def test_two_files_and_six_lines_make_a_task_of_ones_own(tmp_path: Path) -> None:
    for language in ("de", "en"):
        text = "".join(f"{language} {number}\n" for number in range(9))
        (tmp_path / f"letters.{language}").write_text(text)

    dataset = Dataset.model_validate(
        {
            "task": "translation",
            "files": {
                name: {"path": str(tmp_path / name)} for name in ("letters.de", "letters.en")
            },
            "splits": {"all": {"de": "letters.de", "en": "letters.en"}},
            "format": {
                "source": "de",
                "target": "en",
                "read": {"kind": "lines", "divide": {"dev": 2, "test": 3}},
            },
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


def test_a_text_whose_name_says_that_it_is_compressed_is_read_as_the_text_that_it_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.de.gz"
    path.write_text("no gzip at all\n")
    assert read_lines(path) == ["no gzip at all"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_damaged_compressed_file_is_an_error(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(pack(b"line\n" * 900)[:-9])
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


# All that Unicode or Python's `str.splitlines` takes for the end of a line, but for LF.
SEPARATORS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("content", [b"\xdf\n", b"\xff\n"])
def test_nothing_is_guessed_of_an_encoding_by_a_letter_alone(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(UserError, match="not UTF-8") as caught:
        list(lines_of(path))
    assert "looks like" not in str(caught.value.hint)


@pytest.mark.parametrize("separator", SEPARATORS)
def test_separators_inside_a_line_shift_no_pair(tmp_path: Path, separator: str) -> None:
    texts = {
        split: [(f"ein{separator}Haus {n}", f"a {n} house") for n in range(3)] for split in SPLITS
    }
    folder = ready(tmp_path, texts, tokenize="none")

    for split in SPLITS:
        assert columns(folder, split) == [(f"ein Haus {n}", f"a {n} house") for n in range(3)]
        assert list(Prepared(folder).rows(split)) == columns(folder, split)

    reading = {"kind": "columns", "columns": {"de": 0, "en": 1}}
    path = tmp_path / "pairs.tsv"
    path.write_bytes(f"a{separator}b\tx\nc\ty\n".encode())
    rows = list(Columns.model_validate(reading).pairs("train", path, LANGUAGES))

    assert texts_of(rows) == [(f"a{separator}b", "x"), ("c", "y")]

    if separator >= " ":  # JSON has no control characters as they are
        record = json.dumps({"de": f"a{separator}b", "en": "x"}, ensure_ascii=False)
        path.write_bytes(f"{record}\n".encode())
        rows = list(JsonLines().pairs("train", path, LANGUAGES))
        assert texts_of(rows) == [(f"a{separator}b", "x")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_ends_of_lines_are_told_by_the_content(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a"
    lines = [f"line {number}" for number in range(9000)]
    path.write_bytes(end.join(lines).encode())

    assert read_lines(path) == lines

    path.write_bytes(gzip.compress((end.join(lines) + end).encode()))
    assert read_lines(path) == lines


def test_mixed_ends_of_lines_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"line\r" * 20_000 + b"one\ntwo\r")
    with pytest.raises(UserError, match="some lines end with CR and others with LF") as caught:
        list(lines_of(path))
    assert caught.value.line == 20_001


def test_byte_order_marks_of_joined_files_are_no_letters(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert read_lines(tmp_path / "a") == ["one", "two"]

    (tmp_path / "a").write_bytes("\ufeff\n".encode())
    with pytest.raises(UserError, match="the file is empty"):
        read_lines(tmp_path / "a")


def test_a_pipe_is_read_from_its_beginning(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)

    assert read_lines(f"/dev/fd/{reading}") == ["one", "two"]

    os.close(reading)


@pytest.mark.parametrize(
    ("encoding", "text", "message", "hint"),
    [
        ("utf-16", "Größe\n", "looks like UTF-16", ""),
        ("utf-16-le", "Ein Haus\n", "looks like UTF-16", ""),
        ("utf-16-be", "Мэр открыл школу\n", "looks like UTF-16", ""),
        ("utf-32", "Größe\n", "looks like UTF-32", ""),
        (
            "latin-1",
            "ein Wort\nGröße\n",
            "byte 0xf6",
            "ISO-8859-1, in which the line reads `Größe`",
        ),
        (
            "cp1252",
            "ein „Wort“\n",
            "byte 0x84",
            "Windows-1252, in which the line reads `ein „Wort“`",
        ),
        (
            "gb18030",
            "狗看见一只猫在房子里\n",
            "byte 0xb9",
            "gb18030, in which the line reads `狗看见",
        ),
    ],
)
def test_other_encodings_are_refused_with_what_they_seem_to_be(
    tmp_path: Path, encoding: str, text: str, message: str, hint: str
) -> None:
    (tmp_path / "a").write_bytes(text.encode(encoding))
    with pytest.raises(UserError, match=message) as caught:
        read_lines(tmp_path / "a")
    assert caught.value.line == text.count("\n")
    assert hint in str(caught.value.hint) and "iconv -f" in str(caught.value.hint)


SGM = """<refset setid="newsdev2016" srclang="any" trglang="en">
<doc docid="one">
<p>
<seg id="1">Smith &amp; Sons </seg>
<seg id="2"> &lt;b&gt; is bold.</seg>
</p>
</doc>
</refset>
"""


def read(folder: Path, english: str | bytes, name: str = "dev.en.sgm") -> list[tuple[str, str]]:
    """Read a file of English segments beside Romanian lines."""
    source = folder / "dev.ro"
    source.write_text("Smith și fiii\n<b> este aldin.\n", encoding="utf-8")
    target = folder / name
    if isinstance(english, str):
        english = english.encode()
    target.write_bytes(english)

    files = {"dev": {"ro": source, "en": target}}
    ((split, pairs),) = Segments().read(files, ("ro", "en"))

    assert split == "dev"

    return texts_of(list(pairs))


def test_segments_are_paired_with_lines_and_unescaped(tmp_path: Path) -> None:
    assert read(tmp_path, SGM) == [
        ("Smith și fiii", "Smith & Sons"),
        ("<b> este aldin.", "<b> is bold."),
    ]


@pytest.mark.parametrize("name", ["dev.en.xml", "dev.en.sgm.gz", "dev.en", "dev.sgml.xz"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_whether_a_file_has_segments_is_told_by_its_content(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    expected = [("Smith și fiii", "Smith & Sons"), ("<b> este aldin.", "<b> is bold.")]
    assert read(tmp_path, pack(SGM.encode()), name) == expected

    joined = '<?xml version="1.0"?>\n' + "".join(SGM.splitlines())
    assert read(tmp_path, pack(joined.encode()), name) == expected


@pytest.mark.parametrize("name", ["test.de.xml", "test.de.sgm.gz", "test.de"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_markup_in_a_file_of_lines_is_an_error_with_its_line(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(pack(SGM.encode()))
    with pytest.raises(
        UserError, match="markup in a file that is read as lines: `<refset"
    ) as caught:
        list(Lines().lines(tmp_path / name))
    assert caught.value.line == 1 and "read: segments" in str(caught.value.hint)

    (tmp_path / name).write_bytes(pack(b"a <b> word\n<s> a </s>\n<unk>\n  <seg id='3'>x</seg>\n"))
    with pytest.raises(UserError, match="markup") as caught:
        list(Lines().lines(tmp_path / name))
    assert caught.value.line == 4
    assert len(list(Lines(markup="keep").lines(tmp_path / name))) == 4


@pytest.mark.parametrize(
    ("english", "message", "line"),
    [
        ("one\ntwo\n", "no segments", None),
        (SGM.replace("<p>", "a line"), "text outside of segments", 3),
        (SGM.replace("<p>", "a <b>line</b>"), "text outside of segments", 3),
        (SGM.replace("<doc ", '<ref lang="en" '), "segments of several languages", 2),
        (SGM.replace("</seg>\n<seg", "<seg"), "does not end in its line", 4),
        (SGM.replace(" </seg>", ""), "does not end in its line", 4),
        (SGM.replace("seg", "s"), "no segments", None),
        (SGM.replace('<seg id="2"> &lt;b&gt; is bold.</seg>\n', ""), "2 lines, but", None),
    ],
)
def test_a_faulty_file_is_named(
    tmp_path: Path, english: str, message: str, line: int | None
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        read(tmp_path, english)
    assert raised.value.line == line


def json_lines(folder: Path, *records: dict[str, Any], **options: Any) -> list[Pair]:
    """Read records with the keys `src` and `ref`."""
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return list(JsonLines(**options).pairs("train", path, ("src", "ref")))


def test_a_list_has_several_references_or_one_text_in_pieces(tmp_path: Path) -> None:
    ((source, target),) = json_lines(tmp_path, {"src": "x", "ref": ["a b", "c d"]})
    assert (source.text, target.text, target.more) == ("x", "a b", ("c d",))

    ((source, target),) = json_lines(
        tmp_path, {"src": ["x", "y"], "ref": ["a", "b"]}, joined=["src", "ref"]
    )

    assert (source.text, target.text, target.more) == ("x y", "a b", ())

    ((_, target),) = json_lines(tmp_path, {"src": "x", "ref": [["a", "b"], ["c"]]}, joined=["ref"])
    assert (target.text, target.more) == ("a b", ("c",))


@pytest.mark.parametrize(
    ("record", "options", "message", "hint"),
    [
        (
            {"src": ["x", "y"], "ref": "a"},
            {},
            "`src` is a list, and a source is one text",
            "joined: [src]",
        ),
        (
            {"src": [["x"], ["y"]], "ref": "a"},
            {"joined": ["src"]},
            "`src` is a list, and a source is one text",
            "",
        ),
        ({"src": "x", "ref": [["a"], ["b"]]}, {}, "`ref` is not text", "a list of strings"),
        (
            {"src": "x", "ref": [["a"], "b"]},
            {"joined": ["ref"]},
            "`ref` is not a list of pieces",
            "",
        ),
        ({"src": "x", "ref": 3}, {}, "`ref` is not text", ""),
    ],
)
def test_lists_that_mean_nothing_are_refused_with_their_line(
    tmp_path: Path, record: dict[str, Any], options: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        json_lines(tmp_path, {"src": "x", "ref": "a"}, record, **options)
    assert caught.value.line == 2 and hint in str(caught.value.hint)


def test_of_several_references_the_first_is_learned_and_all_are_kept(tmp_path: Path) -> None:
    for split in SPLITS:
        records = [
            {"de": "ein Haus", "en": "A house."},
            {"de": "Ja <ref> ja", "en": ["Yes!", "Indeed.", "Yes."]},
        ]
        text = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{split}.jsonl").write_text(text, encoding="utf-8")

    files = {f"{split}.jsonl": {"path": str(tmp_path / f"{split}.jsonl")} for split in SPLITS}
    layout = {"source": "de", "target": "en", "read": "jsonl", "lowercase": True}
    splits = {split: f"{split}.jsonl" for split in SPLITS}
    dataset = Dataset.model_validate(
        {"task": "translation", "files": files, "splits": splits, "format": layout}
    )
    folder = prepared(dataset, tmp_path)

    assert columns(folder, "train") == [("ein haus", "a house ."), ("ja < ref > ja", "yes !")]
    assert read_lines(folder / "test.target.txt") == ["a house.", "yes!"]

    further = [{"text": "indeed.", "words": "indeed ."}, {"text": "yes.", "words": "yes ."}]
    lines = read_lines(folder / "test.references.jsonl")
    assert [json.loads(line) for line in lines] == [[], further]
    assert not (folder / "train.references.jsonl").exists()

    # Several texts can be references of a target, but no source.
    turned = dataset.with_format({"source": "en", "target": "de"})
    with pytest.raises(UserError, match="`en` is a list, and a source is one text"):
        prepared(turned, tmp_path)


def test_all_blank_lines_of_a_file_are_counted_and_the_first_ones_shown(tmp_path: Path) -> None:
    texts = {split: [("a", "x"), ("\x07", "y"), ("b", " "), ("c", "z")] for split in SPLITS}
    with pytest.raises(
        UserError, match=r"the line is blank; 2 lines are faulty: train\.de:2, train\.en:3"
    ) as caught:
        ready(tmp_path, texts)
    assert caught.value.line == 2


def test_groups_make_the_nearest_size_and_that_is_said(tmp_path: Path) -> None:
    rows = [f"source {number // 3}\ttarget {number}\n" for number in range(600)]
    read = {"columns": {"de": 0, "en": 1}, "divide": {"dev": 50, "test": 50}}
    folder = prepared(one_file(tmp_path, "".join(rows), **read), tmp_path)

    assert [len(columns(folder, split)) for split in SPLITS] == [498, 51, 51]

    warnings = Prepared(folder).summary["warnings"]
    assert "dev has 51 pairs and not 50, as pairs that belong together stay together" in warnings


def test_a_column_that_is_missing_is_not_another_one_counted_from_the_end(tmp_path: Path) -> None:
    text = "one;eins\n"
    with pytest.raises(UserError, match="1 columns are too few") as caught:
        prepared(one_file(tmp_path, text, columns={"en": 0, "de": -1}), tmp_path)
    assert "separated by ';'" in str(caught.value.hint)


def test_the_reader_that_a_file_of_both_texts_needs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"article": "a", "summary": "b"}\n')
    with pytest.raises(UserError, match="has no file for the language `article`") as caught:
        Lines().pairs("train", path, ("article", "summary"))
    assert "read: jsonl" in str(caught.value.hint)


def test_pairs_of_an_article_stay_together(tmp_path: Path) -> None:
    rows = [f"article {number % 20}\tJa {number}\tYes {number}" for number in range(100)]
    write_text(tmp_path / "pairs.tsv", "".join(f"{row}\n" for row in rows))
    reader = Columns(columns={"ja": 1, "en": 2}, group=0, divide=Divide(dev=10, test=15))
    files = {"all": tmp_path / "pairs.tsv"}
    splits = {split: list(drawn) for split, drawn in reader.read(files, ("ja", "en"))}

    assert {split: len(drawn) for split, drawn in splits.items()} == {
        "train": 75,
        "dev": 10,
        "test": 15,
    }

    # No article is in two splits.
    articles = {}
    for split, drawn in splits.items():
        articles[split] = {int(line.text.split()[1]) % 20 for line, _ in drawn}

    assert {split: len(names) for split, names in articles.items()} == {
        "train": 15,
        "dev": 2,
        "test": 3,
    }


@pytest.mark.parametrize("key", ["src", "ref"])
def test_half_a_character_in_json_is_named_with_its_line(tmp_path: Path, key: str) -> None:
    whole = '{"src": "a \\\\ud83d \\ud83d\\ude00", "ref": "b"}'
    half = '{"src": "a", "ref": "b"}'.replace(f'"{key}": "', f'"{key}": "\\ud83d ')
    path = tmp_path / "a.jsonl"
    path.write_text(f"{whole}\n{half}\n", encoding="utf-8")

    pairs = JsonLines().pairs("train", path, ("src", "ref"))
    assert next(pairs)[0].text == "a \\ud83d \U0001f600"
    with pytest.raises(UserError, match=r"U\+D83D") as caught:
        next(pairs)
    assert (caught.value.file, caught.value.line) == (str(path), 2)


@pytest.mark.parametrize("reference", ["", ["", " "], ["a", ""]])
def test_a_blank_text_is_named_by_its_row_and_key(tmp_path: Path, reference: Any) -> None:
    rows = [{"src": f"s {number}", "ref": [f"t {number}"]} for number in range(3)]
    rows[1]["ref"] = reference
    path = tmp_path / "all.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    entry = {
        "task": "translation",
        "files": {"all.jsonl": {"path": str(path)}},
        "splits": dict.fromkeys(SPLITS, "all.jsonl"),
        "format": {"source": "src", "target": "ref", "read": "jsonl"},
    }

    with pytest.raises(UserError, match="`ref`") as caught:
        prepared(Dataset.model_validate(entry), tmp_path / "made")
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    assert "language" not in str(caught.value)
