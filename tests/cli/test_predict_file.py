"""`predict --input`: a file of sources, answered in batches, as text or as JSON, with a picture of
attention.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pam.cli import main
from tests.cli.conftest import Call
from tests.cli.test_predict import TYPED
from tests.training import small

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


def test_several_outputs_are_json_one_object_a_line(
    called: Call, trained: Path, sources: Path
) -> None:
    model = ("predict", "--model", trained / "model")
    said = called(*model, "--input", sources, "--n-best", 3, "--beam", 4)
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [one["line"] for one in found] == [1, 2, 3, 4, 5, 6]
    assert found[2] == {"line": 3, "source": "", "outputs": []}
    first = found[0]
    assert first["source"] == TYPED.splitlines()[0]
    assert [own["rank"] for own in first["outputs"]] == [1, 2, 3]
    assert (
        first["outputs"][0]["score"] >= first["outputs"][1]["score"] >= first["outputs"][2]["score"]
    )
    best = called(*model, "--input", sources, "--beam", 4).out.splitlines()
    assert [one["outputs"][0]["text"] for one in found if one["outputs"]] == [
        line for line in best if line
    ]


@pytest.fixture(scope="module")
def copying(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that copies, after one epoch."""
    out = tmp_path_factory.mktemp("copying")
    small.write_run(out, small.run("postr-joint-pointer", epochs=1))
    assert main(["train", "--run", str(out), "--data", str(data), "--device", "cpu"]) == 0
    return out / "model"


def with_weights(called: Call, model: Path, sources: Path) -> list[dict[str, Any]]:
    """The answers of `--weights`, and that they are what is answered without it, with more."""
    predict = ("predict", "--model", model, "--input", sources, "--n-best", 3, "--beam", 4)
    plain = [json.loads(line) for line in called(*predict).out.splitlines()]
    found = [json.loads(line) for line in called(*predict, "--weights").out.splitlines()]
    for ours, theirs in zip(found, plain, strict=True):
        assert ours["line"] == theirs["line"]
        for own, other in zip(ours["outputs"], theirs["outputs"], strict=True):
            assert other.items() <= own.items()
    return found


def test_weights_are_of_each_token_over_those_of_the_source(
    called: Call, trained: Path, sources: Path
) -> None:
    found = with_weights(called, trained / "model", sources)
    assert found[2] == {"line": 3, "source": "", "source_tokens": [], "outputs": []}
    assert found[0]["source_tokens"][-1] == "</s>"
    for answer in found:
        for own in answer["outputs"]:
            assert len(own["attention"]) == len(own["tokens"]) > 0
            assert own["complete"] == (own["tokens"][-1] == "</s>")
            assert "".join(own["tokens"]).removesuffix("</s>") == own["text"]
            for row in own["attention"]:
                assert len(row) == len(answer["source_tokens"])
                assert sum(row) == pytest.approx(1, abs=1e-3)
            assert "p_gen" not in own and "copied" not in own


def test_of_a_model_that_copies_weights_say_what_was_copied(
    called: Call, copying: Path, sources: Path, tmp_path: Path
) -> None:
    found = with_weights(called, copying, sources)
    assert found[0]["outputs"]
    for own in (own for answer in found for own in answer["outputs"]):
        assert len(own["p_gen"]) == len(own["copied"]) == len(own["tokens"])
        assert all(0 < value < 1 for value in own["p_gen"]) and all(
            isinstance(one, bool) for one in own["copied"]
        )
        assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in own["attention"])
    lemma = tmp_path / "lemma.tsv"
    # letters that no vocabulary has
    lemma.write_text("Яяяя\tcase=dative,number=plural\n", encoding="utf-8")
    (answer,) = with_weights(called, copying, lemma)
    pairs = [
        pair for own in answer["outputs"] for pair in zip(own["tokens"], own["copied"], strict=True)
    ]
    assert all(copied for letter, copied in pairs if letter in "Яя")


def test_attention_is_drawn(called: Call, trained: Path, sources: Path, tmp_path: Path) -> None:
    picture = tmp_path / "attention.svg"
    said = called(
        "predict", "--model", trained / "model", "--input", sources, "--attention", picture
    )
    assert said.code == 0
    assert "attention of 5 lines" in said.err
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_faulty_line_is_named_and_no_half_written_file_stays(
    called: Call, trained: Path, tmp_path: Path
) -> None:
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
        (("--input", "x", "--weights"), "--weights is for JSON"),
        (("--weights", "--n-best", "3"), "--weights is for JSON"),
    ],
)
def test_options_that_do_not_go_together(
    called: Call, trained: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert called("predict", "--model", trained / "model", *arguments).message()[0] == message
