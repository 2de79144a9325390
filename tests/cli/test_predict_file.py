"""`predict --input`: a file of sources, answered in batches, as text, JSON or a picture."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pam.cli import main
from pam.decoding.generator import Generator
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
    model = ["predict", "--model", trained / "model"]
    typed = called(*model, typed=MANY)

    result = called(*model, "--input", sources, "--batch-size", batch_size)
    assert (result.code, result.out) == (0, typed.out)
    assert result.out.splitlines()[2] == ""

    packed = sources.with_suffix(".gz")
    packed.write_bytes(gzip.compress(MANY.encode()))

    out = sources.with_name("out.txt")
    assert called(*model, "--input", packed, "--out", out).code == 0
    assert out.read_text(encoding="utf-8") == typed.out


def test_several_outputs_are_json_one_object_a_line(
    called: Call, trained: Path, sources: Path
) -> None:
    model = ["predict", "--model", trained / "model"]
    result = called(*model, "--input", sources, "--n-best", 3, "--beam", 4)

    answers = [json.loads(line) for line in result.out.splitlines()]
    assert [answer["line"] for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert answers[2] == {"line": 3, "source": "", "outputs": []}

    first = answers[0]
    assert first["source"] == TYPED.splitlines()[0]
    assert [output["rank"] for output in first["outputs"]] == [1, 2, 3]
    scores = [output["score"] for output in first["outputs"]]
    assert scores == sorted(scores, reverse=True)

    best = called(*model, "--input", sources, "--beam", 4).out.splitlines()
    assert [answer["outputs"][0]["text"] for answer in answers if answer["outputs"]] == [
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
    """Return the answers of `--weights`, which hold all that is answered without it."""
    predict = ["predict", "--model", model, "--input", sources, "--n-best", 3, "--beam", 4]
    plain = [json.loads(line) for line in called(*predict).out.splitlines()]

    weighted = [json.loads(line) for line in called(*predict, "--weights").out.splitlines()]
    for with_weights_answer, plain_answer in zip(weighted, plain, strict=True):
        assert with_weights_answer["line"] == plain_answer["line"]
        for weighted_output, plain_output in zip(
            with_weights_answer["outputs"], plain_answer["outputs"], strict=True
        ):
            assert plain_output.items() <= weighted_output.items()

    return weighted


def test_weights_are_of_each_token_over_those_of_the_source(
    called: Call, trained: Path, sources: Path
) -> None:
    answers = with_weights(called, trained / "model", sources)
    assert answers[2] == {"line": 3, "source": "", "source_tokens": [], "outputs": []}
    assert answers[0]["source_tokens"][-1] == "</s>"

    for answer in answers:
        for output in answer["outputs"]:
            assert len(output["attention"]) == len(output["tokens"]) > 0
            assert output["complete"] == (output["tokens"][-1] == "</s>")
            assert "".join(output["tokens"]).removesuffix("</s>") == output["text"]
            for row in output["attention"]:
                assert len(row) == len(answer["source_tokens"])
                assert sum(row) == pytest.approx(1, abs=1e-3)
            assert "p_gen" not in output and "copied" not in output


def test_of_a_model_that_copies_weights_say_what_was_copied(
    called: Call, copying: Path, sources: Path, tmp_path: Path
) -> None:
    answers = with_weights(called, copying, sources)
    assert answers[0]["outputs"]

    for output in (output for answer in answers for output in answer["outputs"]):
        assert len(output["p_gen"]) == len(output["copied"]) == len(output["tokens"])
        assert all(0 < value < 1 for value in output["p_gen"])
        assert all(isinstance(copied, bool) for copied in output["copied"])
        assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in output["attention"])

    # Letters that no vocabulary has can only be copied.
    lemma = tmp_path / "lemma.tsv"
    lemma.write_text("Яяяя\tcase=dative,number=plural\n", encoding="utf-8")
    (answer,) = with_weights(called, copying, lemma)

    pairs = [
        pair
        for output in answer["outputs"]
        for pair in zip(output["tokens"], output["copied"], strict=True)
    ]
    assert all(copied for letter, copied in pairs if letter in "Яя")


def test_attention_is_drawn(called: Call, trained: Path, sources: Path, tmp_path: Path) -> None:
    picture = tmp_path / "attention.svg"
    result = called(
        "predict", "--model", trained / "model", "--input", sources, "--attention", picture
    )

    assert result.code == 0
    assert "attention of 5 lines" in result.err
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_faulty_line_is_named_and_no_half_written_file_stays(
    called: Call, trained: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sources.tsv"
    out = tmp_path / "out.txt"
    path.write_text(TYPED + "Haus\n", encoding="utf-8")

    result = called("predict", "--model", trained / "model", "--input", path, "--out", out)
    assert result.message()[0] == f"{path}:3: expected a lemma, a tab and features"
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "x", "--data", "d"), "--input and prepared data exclude each other"),
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


def test_a_fault_in_the_last_line_is_told_before_any_line_is_answered(
    called: Call, trained: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(sources, "ab") as file:
        file.write(b"\xff\n")
    monkeypatch.setattr(Generator, "__call__", lambda *_: pytest.fail("a line is answered"))
    result = called("predict", "--model", trained / "model", "--input", sources)

    assert result.message()[0].startswith(f"{sources}:{MANY.count(chr(10)) + 1}: ")


def test_blank_lines_alone_are_answered_by_blank_lines(
    called: Call, trained: Path, sources: Path
) -> None:
    sources.write_text("\n\n")
    result = called("predict", "--model", trained / "model", "--input", sources)
    assert (result.code, result.out) == (0, "\n\n")
