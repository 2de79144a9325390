"""Rows of lemmas, features and forms: how files are read, what is counted and what refused."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import SPLITS, Prepared, write_summary
from pam.data.registry import load_task
from pam.runtime.errors import UserError
from pam.tasks.inflection.codec import InflectionCodec, order_of_features, split_features
from pam.tasks.inflection.stages import Index, InflectionFormat, Row, read_rows

GOOD = "Haus\tcase=dative,number=plural\tHäusern\n"


def written(tmp_path: Path, content: str | bytes) -> Path:
    """Write a file of rows, given as text or as bytes."""
    path = tmp_path / "rows.tsv"
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "the file is empty"),
        ("\n \n", None, "the file is empty"),
        (GOOD + "Maus\tcase=dative\n", 2, "2 columns instead of 3"),
        (GOOD + "Maus\tcase=dative\tMaus\tx\n", 2, "4 columns instead of 3"),
        (GOOD + "\n" + GOOD, 2, "the line is blank"),
        (GOOD + "\tcase=dative\tMaus\n", 2, "the lemma is empty"),
        (GOOD + GOOD + "Maus\tcase=dative\t \n", 3, "the form is empty"),
        (GOOD.encode() + "Mäuse\tx\ty\n".encode("latin-1"), 2, "not UTF-8 text: byte 0xe4"),
        (GOOD.encode("utf-16"), 1, "not UTF-8 text, but looks like UTF-16"),
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
    assert read_rows(path, layout) == [Row("Haus", "N;DAT;PL", "Häusern")]


def test_features_are_split_outside_of_brackets() -> None:
    assert split_features("N;NOM(PL;PSS(1,PL))", ";") == ["N", "NOM(PL;PSS(1,PL))"]
    assert split_features("N, NOM[a,b],{c,d}", ",") == ["N", "NOM[a,b]", "{c,d}"]
    assert split_features("N;:);SG", ";") == ["N", ":)", "SG"]
    assert split_features("N;(PL;SG", ";") == ["N", "(PL", "SG"]
    assert split_features(" ; ", ";") == []


def indexed(
    files: dict[str, Path], layout: InflectionFormat, out: Path, base: Path | None = None
) -> dict[str, Any]:
    """Prepare a folder, with its summary; return the counts."""
    counts = Index(files, layout, out, base).run()
    write_summary(out, {"task": "inflection", **counts})
    return counts


NESTED = (
    "bana\tN;NOM(PL;PSS(1,PL))\tbanaebi\nsaxli\tN;NOM(PL)\tsaxlebi\nkaci\tN;1,2;NOM(PL)\tkacebi\n"
)


def test_nested_features_survive_every_file_on_the_way(tmp_path: Path) -> None:
    layout = InflectionFormat(separator=";")
    files = {}
    for split in SPLITS:
        files[split] = tmp_path / split
        files[split].write_text(NESTED, encoding="utf-8")

    indexed(files, layout, tmp_path / "out")

    data = Prepared(tmp_path / "out")
    assert data.source.symbols[:4] == ("1,2", "NOM(PL)", "NOM(PL;PSS(1,PL))", "a")
    assert data.rows("test")[0] == ("bana", "N;NOM(PL;PSS(1,PL))", "banaebi")

    for text, row, ids in zip(
        NESTED.splitlines(), data.rows("dev"), data.split("dev").sources, strict=True
    ):
        # What `predict` makes of a line, with or without its form, is what was prepared.
        for typed in (text, text.rpartition("\t")[0]):
            symbols = data.codec.source_symbols(data.codec.typed_source(typed))
            assert data.source.encode(symbols) == ids.tolist()[:-1]
        assert data.codec.source_symbols(row[:2]) == symbols


def test_the_separator_is_that_of_the_data_and_commas_are_read_where_it_is_missing(
    tmp_path: Path,
) -> None:
    codec = InflectionFormat(separator=";", delimiter=",", quotes=True).codec()
    assert codec.typed_source("Haus\tADJ;DAT(PL)") == ("Haus", "ADJ;DAT(PL)")
    assert codec.typed_source("Haus\tADJ,DAT(PL)") == ("Haus", "ADJ;DAT(PL)")
    assert codec.typed_source('Haus,"ADJ;DAT(PL,SG)",Häusern') == ("Haus", "ADJ;DAT(PL,SG)")

    codec.save(tmp_path)
    assert InflectionCodec.load(tmp_path).settings == codec.settings

    InflectionFormat().codec().save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert InflectionCodec.load(tmp_path).typed_source("Haus\ta,b") == ("Haus", "a,b")


def test_a_prepared_codec_that_is_lost_is_missed(tmp_path: Path) -> None:
    files = dict.fromkeys(SPLITS, written(tmp_path, NESTED))
    indexed(files, InflectionFormat(separator=";"), tmp_path / "out")
    (tmp_path / "out/codec.json").unlink()

    with pytest.raises(UserError, match="no such file"):
        _ = Prepared(tmp_path / "out").codec


def test_a_test_split_alone_is_written_in_the_symbols_of_other_data(tmp_path: Path) -> None:
    base = tmp_path / "base"
    out = tmp_path / "out"
    files = dict.fromkeys(SPLITS, written(tmp_path, NESTED))
    indexed(files, InflectionFormat(separator=";"), base)

    # The test file has other columns, separators and quotes than the base.
    path = tmp_path / "far.csv"
    path.write_text(
        'form,lemma,features\nbanebi,bana,"N,NOM(PL)"\nx,saxli,"N,GEN"\n', encoding="utf-8"
    )
    layout = InflectionFormat(
        columns=["form", "lemma", "features"], delimiter=",", quotes=True, heading=True
    )
    counts = indexed({"test": path}, layout, out, base)

    data = Prepared(out)
    assert list(data.rows("test")) == [("bana", "N;NOM(PL)", "banebi"), ("saxli", "N;GEN", "x")]
    assert data.source.digest == Prepared(base).source.digest
    assert data.codec.source_symbols(("bana", "N;NOM(PL)"))[:2] == ["feature=N", "NOM(PL)"]
    assert counts["splits"]["test"]["unseen_source"] == {"GEN": 1}
    assert counts["splits"]["train"] == Prepared(base).summary["splits"]["train"]
    assert counts["lemmas_in_two_splits"]["train and test"]["examples"] == ["bana", "saxli"]
    assert not (out / "train.tsv").exists() and len(data.split("dev")) == 3


def test_all_faulty_lines_are_counted_and_the_first_ones_shown(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD + 3 * f"\n{GOOD}" + "Maus\tx\n" + "\t\t\n" + "a\0\tb\tc\n")
    with pytest.raises(UserError) as caught:
        read_rows(path, InflectionFormat())
    assert caught.value.line == 2 and "blank_lines: drop" in str(caught.value.hint)
    assert caught.value.message.startswith(
        "the line is blank; 6 lines are faulty: rows.tsv:2, rows.tsv:4, "
    )
    assert caught.value.message.endswith("rows.tsv:9, ...")


def test_blank_lines_are_left_out_and_counted_where_that_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, f"\n{GOOD}\n \n\x07\n{GOOD}")
    layout = InflectionFormat(blank_lines="drop")
    assert len(read_rows(path, layout)) == 2

    counts = Index(dict.fromkeys(SPLITS, path), layout, tmp_path / "out").run()["splits"]
    assert (counts["dev"]["rows"], counts["dev"]["blank_lines"]) == (2, 4)


def test_source_is_features_then_letters_and_a_one_letter_feature_is_no_letter() -> None:
    symbols = InflectionCodec().source_symbols(("Vau", "V,tense=past"))
    assert symbols == ["feature=V", "tense=past", "V", "a", "u"]
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
    assert counts["lemmas_in_two_splits"] == {
        "train and dev": {"count": 2, "of": 2, "examples": ["Haus", "Rat"]}
    }
    assert len(counts["warnings"]) == 1
    assert counts["warnings"][0].startswith("train and dev share lemmas: 2, all of dev")


def test_symbols_that_training_lacks_are_counted(tmp_path: Path) -> None:
    counts = prepared(
        tmp_path,
        train="Haus\tx=1\tHaus\n",
        dev="Haus\tx=1\tHaus\n",
        test="Café\tx=2\tCafés\nHé\tx=1\tHés\n",
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


def test_invisible_characters_are_left_out_and_counted(tmp_path: Path) -> None:
    hidden = "\u200eHa\u00adus\tcase=dative\u200b\tHause\ufeff\n"
    path = written(tmp_path, GOOD + hidden)
    rows = read_rows(path, InflectionFormat())
    assert rows[-1] == Row("Haus", "case=dative", "Hause")

    counts = Index(dict.fromkeys(SPLITS, path), InflectionFormat(), tmp_path / "out").run()
    assert counts["splits"]["train"]["invisible_characters"] == 1
    typed = InflectionFormat().codec().typed_source(hidden.rpartition("\t")[0])
    assert typed == ("Haus", "case=dative")


def test_features_are_a_set_which_is_read_in_the_order_of_training(tmp_path: Path) -> None:
    rows = "Haus\ta,b,d\tHaus\nMaus\ta,c\tMaus\nRat\tb,c\tRat\n"
    counts = prepared(tmp_path, train=rows, dev="Hut\td,a\tHut\n", test="Tag\tc,x,a\tTag\n")
    codec = InflectionCodec.load(tmp_path / "out")

    for features in ("a,b,d", "d,b,a", "b,a,d"):
        symbols = codec.source_symbols(("Tor", features))
        assert symbols == codec.source_symbols(codec.typed_source(f"Tor\t{features}"))
        assert symbols[:3] == ["feature=a", "feature=b", "feature=d"]

    reordered = {split: counts["splits"][split]["reordered"] for split in SPLITS}
    assert reordered == {"train": 0, "dev": 1, "test": 1}
    assert [warning.split()[0] for warning in counts["warnings"]] == ["dev", "test"]
    # The text stays as the user wrote it.
    assert (tmp_path / "out/test.tsv").read_text(encoding="utf-8") == "Tag\tc,x,a\tTag\n"


def test_without_one_order_in_training_nothing_is_reordered_and_that_is_said(
    tmp_path: Path,
) -> None:
    rows = "Haus\ta,b\tHaus\nMaus\tb,a\tMaus\n"
    counts = prepared(tmp_path, train=rows, dev="Hut\tb,a\tHut\n", test="Tag\ta,b\tTag\n")
    codec = InflectionCodec.load(tmp_path / "out")

    assert codec.source_symbols(("Tor", "b,a"))[:2] == ["feature=b", "feature=a"]
    assert "several orders" in counts["warnings"][0]


@pytest.mark.parametrize("order", ["abcd", "dcba", "bdac"])
def test_rows_of_one_order_are_read_as_they_are(order: str) -> None:
    bundles = [list(features) for size in (2, 3) for features in combinations(order, size)]
    learned = order_of_features(bundles)
    assert learned is not None

    codec = InflectionCodec().with_order(learned)
    for bundle in bundles:
        assert codec.ordered(bundle) == codec.ordered(bundle[::-1]) == bundle


def test_lemmas_and_forms_in_subwords_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, "Ku@@ h\tn=pl\tKü@@ he\nMaus\tn=pl\tMäu@@ se\n")
    warnings = indexed(dict.fromkeys(SPLITS, path), InflectionFormat(), tmp_path / "out")[
        "warnings"
    ]
    told = [text for text in warnings if "subwords" in text]
    assert len(told) == 2 * len(SPLITS)
    assert any("1 of 2" in text and "lemmas of dev" in text and "sed" in text for text in told)
    assert any("2 of 2" in text and "forms of test" in text for text in told)


def test_groups_of_rows_are_kept_and_no_part_of_them(tmp_path: Path) -> None:
    layout = InflectionFormat(
        scores_by="kind", columns=["lemma", "features", "form", "kind"], separator=";"
    )
    rows = NESTED.splitlines()
    files = {}
    for split in SPLITS:
        files[split] = tmp_path / split
        names = ["", "", ""] if split == "train" else ["seen", "unseen", "seen"]
        lines = [f"{row}\t{name}\n" for row, name in zip(rows, names, strict=True)]
        files[split].write_text("".join(lines), encoding="utf-8")

    indexed(files, layout, tmp_path / "out")
    data = Prepared(tmp_path / "out")
    assert data.file("test.groups.txt").read_text() == "seen\nunseen\nseen\n"
    assert data.file("dev.groups.txt").is_file()
    assert data.rows("test")[1] == ("saxli", "N;NOM(PL)", "saxlebi")
    assert data.codec.typed_source(f"{rows[1]}\tunseen") == ("saxli", "N;NOM(PL)")

    files["dev"].write_text(f"{rows[0]}\tseen\n{rows[1]}\t \n", encoding="utf-8")
    with pytest.raises(UserError, match="no group") as caught:
        indexed(files, layout, tmp_path / "out")
    assert (caught.value.file, caught.value.line) == (str(files["dev"]), 2)
    assert "scores_by" not in InflectionFormat().model_dump()
