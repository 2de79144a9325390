from __future__ import annotations

from pathlib import Path

import pytest

from pam.data.inflection import Index, InflectionFormat, Row, read_rows
from pam.data.registry import load_task
from pam.data.tokenizers import InflectionCodec
from pam.io import UserError

GOOD = "Haus\tcase=dative,number=plural\tHäusern\n"


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "rows.tsv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "the file is empty"),
        ("\n \n", 1, "the line is blank"),
        (GOOD + "Maus\tcase=dative\n", 2, "2 columns instead of 3"),
        (GOOD + "Maus\tcase=dative\tMaus\tx\n", 2, "4 columns instead of 3"),
        (GOOD + "\n" + GOOD, 2, "the line is blank"),
        (GOOD + "\tcase=dative\tMaus\n", 2, "the lemma is empty"),
        (GOOD + GOOD + "Maus\tcase=dative\t \n", 3, "the form is empty"),
        (GOOD.encode() + "Mäuse\tx\ty\n".encode("latin-1"), 2, "not UTF-8 text: byte 0xe4"),
        (GOOD.encode("utf-16"), 1, "not UTF-8 text"),
        (GOOD + "Ma\rus\tx=y\tz\n", 2, "control character U\\+000D"),
        (GOOD + "Ma\0us\tx=y\tz\n", 2, "control character U\\+0000"),
    ],
)
def test_a_fault_is_named_with_file_line_and_hint(
    tmp_path: Path, content: str | bytes, line: int | None, message: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UserError, match=message) as caught:
        read_rows(path, InflectionFormat())
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert caught.value.hint


def test_windows_files_and_decomposed_letters_are_read_as_any_other(tmp_path: Path) -> None:
    decomposed = "\ufeff" + GOOD.replace("ä", "a\u0308").replace("\n", "\r\n")
    assert read_rows(written(tmp_path, decomposed), InflectionFormat()) == [
        Row("Haus", "case=dative,number=plural", "Häusern")
    ]


def test_other_orders_of_columns_and_separators_can_be_named(tmp_path: Path) -> None:
    layout = InflectionFormat(columns=["lemma", "form", "features"], separator=";")
    path = written(tmp_path, "Haus\tHäusern\tN;DAT;PL\n")
    assert read_rows(path, layout) == [Row("Haus", "N,DAT,PL", "Häusern")]


def test_source_is_features_then_letters_and_a_one_letter_feature_is_no_letter() -> None:
    assert InflectionCodec().source_symbols(("Vau", "V,tense=past")) == ["feature=V", "tense=past", "V", "a", "u"]
    assert InflectionCodec().source_symbols(("Vau", "")) == ["V", "a", "u"]


@pytest.mark.parametrize("columns", [(), ("Haus",), ("", "x=y"), ("a", "b", "c")])
def test_what_is_no_source_is_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="a lemma, a tab and features"):
        InflectionCodec().source_symbols(columns)


def prepared(tmp_path: Path, **splits: str) -> dict:
    files = {}
    for name, content in splits.items():
        files[name] = tmp_path / f"{name}.txt"
        files[name].write_text(content, encoding="utf-8")
    return Index(files, InflectionFormat(), tmp_path / "out").run()


def test_lemmas_in_two_splits_are_counted_and_warned_of(tmp_path: Path) -> None:
    rows = ["Haus\tx=1\tHaus\n", "Maus\tx=1\tMaus\n", "Rat\tx=1\tRat\n"]
    counts = prepared(tmp_path, train="".join(rows), dev=rows[0] + rows[2], test="Hut\tx=1\tHut\n")
    assert counts["lemmas_in_two_splits"] == {"train and dev": {"count": 2, "examples": ["Haus", "Rat"]}}
    assert len(counts["warnings"]) == 1
    assert "train and dev share lemmas: 2, for example Haus, Rat" in counts["warnings"][0]


def test_symbols_that_training_lacks_are_counted(tmp_path: Path) -> None:
    counts = prepared(
        tmp_path, train="Haus\tx=1\tHaus\n", dev="Haus\tx=1\tHaus\n", test="Café\tx=2\tCafés\nHé\tx=1\tHés\n"
    )
    test = counts["splits"]["test"]
    assert test["unseen_source"] == {"C": 1, "f": 1, "x=2": 1, "é": 2}
    assert test["unseen_target"] == {"C": 1, "f": 1, "é": 2}
    assert counts["splits"]["dev"]["unseen_source"] == {}


def test_duplicates_and_competing_forms_are_counted_and_kept(tmp_path: Path) -> None:
    train = "Wort\tx=1\tWorte\nWort\tx=1\tWörter\nWort\tx=1\tWorte\n"
    counts = prepared(tmp_path, train=train, dev="a\tx=1\ta\n", test="b\tx=1\tb\n")
    train_counts = counts["splits"]["train"]
    assert (train_counts["rows"], train_counts["lemmas"]) == (3, 1)
    assert (train_counts["duplicate_rows"], train_counts["cells_with_several_forms"]) == (1, 1)
    assert len((tmp_path / "out" / "train.tsv").read_text().splitlines()) == 3


def test_a_fault_in_any_split_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        prepared(tmp_path, train=GOOD, dev=GOOD, test="Haus\n")
    assert not (tmp_path / "out").exists()


def test_an_unknown_kind_of_task_names_the_closest() -> None:
    with pytest.raises(UserError, match="did you mean `inflection`"):
        load_task("inflexion")
