"""`predict --input`: a file of sources, answered in batches, as text or as JSON, with a picture of attention."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.test_predict import TYPED

MANY = TYPED + "\n" + TYPED.replace("Hand", "Wand") + "Hund\tcase=dative,number=plural\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    path = tmp_path / "sources.tsv"
    path.write_text(MANY, encoding="utf-8")
    return path


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_a_file_is_answered_as_typed_lines_are_whatever_the_batch(
    called: Call, trained: Path, sources: Path, batch_size: int
) -> None:
    model = ("predict", "--model", trained / "model")
    typed = called(*model, typed=MANY)
    said = called(*model, "--input", sources, "--batch-size", batch_size)
    assert (said.code, said.out) == (0, typed.out)
    assert said.out.splitlines()[2] == ""
    packed = sources.with_suffix(".gz")
    packed.write_bytes(gzip.compress(MANY.encode()))
    out = sources.with_name("out.txt")
    assert called(*model, "--input", packed, "--out", out).code == 0
    assert out.read_text(encoding="utf-8") == typed.out


def test_several_outputs_are_json_one_object_a_line(called: Call, trained: Path, sources: Path) -> None:
    model = ("predict", "--model", trained / "model")
    said = called(*model, "--input", sources, "--n-best", 3, "--beam", 4)
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [one["line"] for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[2] == {"line": 3, "source": "", "outputs": []}
    first = found[0]
    assert first["source"] == TYPED.splitlines()[0]
    assert [own["rank"] for own in first["outputs"]] == [1, 2, 3]
    assert first["outputs"][0]["score"] >= first["outputs"][1]["score"] >= first["outputs"][2]["score"]
    best = called(*model, "--input", sources, "--beam", 4).out.splitlines()
    assert [one["outputs"][0]["text"] for one in found if one["outputs"]] == [line for line in best if line]


def test_attention_is_drawn(called: Call, trained: Path, sources: Path, tmp_path: Path) -> None:
    picture = tmp_path / "attention.svg"
    said = called("predict", "--model", trained / "model", "--input", sources, "--attention", picture)
    assert said.code == 0
    assert "attention of 5 lines" in said.err
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_faulty_line_is_named_and_no_half_written_file_stays(called: Call, trained: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "sources.tsv", tmp_path / "out.txt"
    path.write_text(TYPED + "Haus\n", encoding="utf-8")
    said = called("predict", "--model", trained / "model", "--input", path, "--out", out)
    assert said.message()[0] == f"{path}:3: expected a lemma, a tab and features"
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "x", "--data", "d"), "--input and prepared data"),
        (("--attention", "x.svg"), "--attention is for --input"),
        (("--input", "x", "--record", "r"), "--record is for prepared data"),
        (("--input", "x", "--batch-size", "0"), "--batch-size 0"),
        (("--input", "none.tsv"), "none.tsv: no such file"),
        (("--input", "x", "--attention", "a.pdf"), "--attention a.pdf"),
    ],
)
def test_options_that_do_not_go_together(called: Call, trained: Path, arguments: tuple[str, ...], message: str) -> None:
    assert called("predict", "--model", trained / "model", *arguments).message()[0] == message
