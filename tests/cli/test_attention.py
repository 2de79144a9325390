"""`attention`: alignments of telling rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pam.evaluation.analyze import telling_rows
from tests.cli.conftest import Call
from tests.training import small

FORMS = [
    (f"{case} {number}", ending)
    for number, endings in (("sg", ["", "es", "e", ""]), ("pl", ["er", "er", "ern", "er"]))
    for case, ending in zip(("nom", "gen", "dat", "acc"), endings, strict=True)
]
PARADIGMS = [
    (lemma, features, lemma + ending)
    for lemma in ("Kind", "Bild", "Land", "Feld", "Lied", "Kleid", "Nest", "Brett")
    for features, ending in FORMS
]
"""Eight forms a lemma in fixed order: rows spread evenly would all be nominative singulars."""


def test_rows_to_look_at_are_spread_differ_from_their_lemma_and_vary_in_features() -> None:
    rows = [PARADIGMS[number] for number in telling_rows(PARADIGMS, 4)]
    assert [row[0] for row in rows] == ["Bild", "Feld", "Kleid", "Brett"]
    assert [row[1] for row in rows] == ["gen sg", "dat sg", "nom pl", "gen pl"]
    assert all(row[2] != row[0] for row in rows)


def test_rows_that_are_wanted_in_excess_are_each_given_once() -> None:
    assert telling_rows(PARADIGMS, 64) == telling_rows(PARADIGMS, 100) == list(range(64))
    assert telling_rows(PARADIGMS[:1], 4) == [0]


def test_the_same_rows_are_chosen_each_time() -> None:
    assert telling_rows(PARADIGMS, 7) == telling_rows(list(PARADIGMS), 7)


def test_rows_of_two_columns_are_chosen_too() -> None:
    pairs = [("a", "a"), ("b", "c"), ("d", "d"), ("e", "f"), ("g", "g"), ("h", "h")]
    assert telling_rows(pairs, 2) == [1, 3]
    assert len(telling_rows(pairs, 3)) == 3


def test_alignments_are_distributions_over_the_source(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "attention.json"
    result = called("attention", "--run", trained, "--data", data, "--out", out)

    assert result.code == 0

    maps = json.loads(out.read_text(encoding="utf-8"))
    assert (maps["model"], maps["label"], len(maps["rows"])) == ("postr-joint", "postr-joint", 4)

    for row in maps["rows"]:
        assert (row["lemma"], row["features"], row["form"]) == small.ROWS["test"][row["row"]]
        assert row["source"] == [*row["features"].split(","), *row["lemma"], "</s>"]
        assert row["target"] == [*row["form"], "</s>"]
        for kind in ("prior", "alignment"):
            matrix = np.array(row[kind])
            assert matrix.shape == (len(row["target"]), len(row["source"]))
            assert matrix.sum(1) == pytest.approx(1, abs=1e-4)
        assert row["prior"] != row["alignment"]


def test_rows_can_be_named(called: Call, trained: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "attention.json"
    arguments = ["attention", "--run", trained, "--data", data, "--out", out]

    assert called(*arguments, "--rows", "5,0").code == 0
    assert [row["row"] for row in json.loads(out.read_text(encoding="utf-8"))["rows"]] == [5, 0]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--rows", "0,12"], "there is no row 12"),
        (["--rows", "-1"], "there is no row -1"),
        (["--rows", "all"], "--rows all"),
        (["--count", "0"], "--count 0"),
    ],
)
def test_rows_that_are_not_there_are_named(
    option: list[str], message: str, called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "attention.json"
    arguments = ["attention", "--run", trained, "--data", data, "--out", out]

    option = [f"{option[0]}={option[1]}"]
    assert called(*arguments, *option).message()[0] == message
    assert not out.exists()


def test_a_model_of_actions_has_no_alignments_to_show(
    called: Call, data: Path, tmp_path: Path
) -> None:
    trained = small.write_run(tmp_path / "run", small.run("hard-mono", epochs=1)).parent
    assert called("train", "--run", trained, "--data", data).code == 0

    out = tmp_path / "attention.json"
    result = called("attention", "--run", trained, "--data", data, "--out", out)
    assert result.message()[0].startswith("hard-mono writes pointer actions")
