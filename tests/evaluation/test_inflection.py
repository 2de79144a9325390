"""Inflection: predictions are read, faulty ones refused, and lemmas counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pam.data.dataset import write_summary
from pam.evaluation.inputs import EvalInputs, check_against_split
from pam.runtime.errors import UserError
from pam.tasks.inflection import counts as inflection
from pam.tasks.inflection.counts import Prediction

HEADER = "lemma\tfeatures\tform\tpredicted\tlog_prob\n"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_rows_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", HEADER + "Zug\tn=pl\tZüge\tZüge\t-0.1\nAb\tn=sg\tAb\t\t-2\n")
    assert inflection.read(path) == [
        Prediction("Zug", "n=pl", "Züge", "Züge"),
        Prediction("Ab", "n=sg", "Ab", ""),
    ]


def test_finds_columns_by_name_and_ignores_others(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", "x\tpredicted\tform\tlemma\tfeatures\r\n1\tp\tf\tl\tg\r\n")
    assert inflection.read(path) == [Prediction("l", "g", "f", "p")]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"", None, "empty file"),
        (b"\n\n", None, "empty file"),
        (HEADER.encode(), None, "no predictions"),
        (b"lemma\tfeatures\tpredicted\na\tb\tc\n", 1, "missing column `form`"),
        ((HEADER + "a\tb\tc\td\t0\na\tb\tc\n").encode(), 3, "expected 5 columns, found 3"),
        ((HEADER + "a\tb\tc\td\t0\t0\n").encode(), 2, "expected 5 columns, found 6"),
        ((HEADER + "a\tb\tc\td\t0\n\na\tb\tc\td\t0\n").encode(), 3, "expected 5 columns, found 1"),
        ((HEADER + "\tb\tc\td\t0\n").encode(), 2, "empty lemma or form"),
        ((HEADER + "a\tb\t\td\t0\n").encode(), 2, "empty lemma or form"),
        (HEADER.encode() + b"a\tb\tc\t\xff\t0\n", 2, "not UTF-8"),
    ],
)
def test_bad_predictions_are_named_with_their_line(
    tmp_path: Path, content: bytes, line: int | None, words: str
) -> None:
    path = write(tmp_path / "p.tsv", content)
    with pytest.raises(UserError, match=words) as raised:
        inflection.read(path)
    assert (raised.value.file, raised.value.line) == (str(path), line)
    assert raised.value.hint


def test_missing_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        inflection.read(tmp_path / "none.tsv")


def test_counts_forms_and_whole_paradigms_per_lemma() -> None:
    units = inflection.count_lemmas(
        [
            Prediction("b", "1", "x", "x"),
            Prediction("a", "1", "x", "x"),
            Prediction("b", "2", "y", "z"),
            Prediction("a", "2", "y", "y"),
            Prediction("b", "3", "y", ""),
        ]
    )
    assert units.names == ("b", "a")
    assert units.columns == (
        "correct",
        "forms",
        "whole",
        "paradigms",
        "form_edits",
        "form_characters",
    )
    np.testing.assert_array_equal(units.counts, [[1, 3, 0, 1, 2, 3], [2, 2, 1, 1, 0, 2]])


def test_a_letter_written_as_two_code_points_is_the_same_letter() -> None:
    units = inflection.count_lemmas([Prediction("Zug", "pl", "Z\u00fcge", "Zu\u0308ge")])
    assert units.total(["correct"]) == 1


def test_references_depend_on_what_was_asked_and_not_on_the_answer() -> None:
    row = Prediction("a", "1", "x", "x")
    digest = inflection.count_lemmas([row]).references

    assert inflection.count_lemmas([row._replace(predicted="y")]).references == digest
    assert inflection.count_lemmas([row._replace(form="y")]).references != digest


def test_further_beams_have_counts_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "test.tsv", "a\tb\tc\n")
    wrong = write(tmp_path / "1.tsv", HEADER + "a\tb\tc\td\t0\n")
    right = write(tmp_path / "4.tsv", HEADER + "a\tb\tc\tc\t0\n")
    counted = inflection.count(EvalInputs((wrong, right), (1, 4), data=tmp_path))

    names = ("accuracy", "paradigm_accuracy", "form_cer")
    assert counted.metrics == (*names, *(f"{name}_b4" for name in names))
    assert counted.units.total(["correct", "correct_b4", "forms"]).tolist() == [0, 1, 1]


def test_several_files_are_held_to_the_data_that_they_are_for(tmp_path: Path) -> None:
    path = write(tmp_path / "1.tsv", HEADER + "a\tb\tc\td\t0\n")
    with pytest.raises(UserError, match="need the prepared data"):
        inflection.count(EvalInputs((path, path), (1, 4)))
    with pytest.raises(UserError, match="no predictions to score"):
        inflection.count(EvalInputs())


class TestAgainstThePreparedSplit:
    ROWS = (Prediction("a", "1", "x", "x"), Prediction("a", "2", "y", "z"))

    def test_the_same_rows_pass(self, tmp_path: Path) -> None:
        split = write(tmp_path / "test.tsv", "a\t1\tx\na\t2\ty\n")
        check_against_split(list(self.ROWS), "p.tsv", split)

    @pytest.mark.parametrize(
        ("content", "line", "words"),
        [
            ("a\t1\tx\na\t2\tw\n", 3, "not line 2"),
            ("a\t1\tx\n", 3, "2 predictions for 1 rows"),
            ("a\t1\tx\na\t2\ty\na\t3\tz\n", 4, "2 predictions for 3 rows"),
        ],
    )
    def test_the_first_difference_is_named(
        self, tmp_path: Path, content: str, line: int, words: str
    ) -> None:
        split = write(tmp_path / "test.tsv", content)
        with pytest.raises(UserError, match=words) as raised:
            check_against_split(list(self.ROWS), "p.tsv", split)
        assert (raised.value.file, raised.value.line) == ("p.tsv", line)

    def test_of_a_long_row_the_beginning_is_told(self, tmp_path: Path) -> None:
        split = write(tmp_path / "test.tsv", "a\t1\t" + "word " * 999 + "\n")
        with pytest.raises(UserError, match=r"not line 1 .*: a 1 word") as raised:
            check_against_split([("a", "1", "x")], "p.tsv", split)
        assert len(raised.value.message) < 200


def test_forms_in_subwords_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", HEADER + "Zug\tn=pl\tZü@@ ge\tZüge\t-0.1\n")
    (note,) = inflection.count(EvalInputs([path], [None])).details["notes"]
    assert "references" in note and "`@@`" in note


def test_groups_have_the_lemmas_of_their_rows(tmp_path: Path) -> None:
    rows = ["Zug\tn=sg\tZug", "Zug\tn=pl\tZüge", "Tag\tn=pl\tTage"]
    data = tmp_path / "data"
    data.mkdir()
    write(data / "test.tsv", "".join(f"{row}\n" for row in rows))
    write(data / "test.groups.txt", "seen\nunseen\nunseen\n")
    write_summary(data, {"task": "inflection"})

    outputs = ["Zug", "Zugs", "Tage"]
    lines = [f"{row}\t{output}\t0\n" for row, output in zip(rows, outputs, strict=True)]
    path = write(tmp_path / "p.tsv", HEADER + "".join(lines))
    groups = inflection.count(EvalInputs([path], [None], data=data)).groups

    counts = {
        name: group.units.total(["correct", "forms", "paradigms"]) for name, group in groups.items()
    }
    assert counts["seen"].tolist() == [1, 1, 1]
    assert counts["unseen"].tolist() == [1, 2, 2]
    assert groups["unseen"].units.names == ("Zug", "Tag")
