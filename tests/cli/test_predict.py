"""`predict` answers typed lines and decodes prepared splits."""

from __future__ import annotations

import json
import os
import selectors
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pam.data.dataset import Prepared
from pam.models.checkpoint import load_model
from pam.tasks.inflection.codec import InflectionCodec
from tests.cli.conftest import Call
from tests.training import small

TYPED = "Hand\tcase=nominative,number=plural\nTod\tcase=genitive,number=singular\n"


def predictions(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_typed_lemmas_are_inflected_line_by_line(called: Call, trained: Path) -> None:
    result = called("predict", "--model", trained / "model", typed=TYPED)
    assert result.code == 0 and result.err == ""
    assert len(result.out.splitlines()) == 2
    assert all(form and "\t" not in form for form in result.out.splitlines())


def test_a_typed_line_gives_what_the_prepared_row_gives(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "predictions.tsv"
    model = ["--model", trained / "model"]

    assert called("predict", *model, "--data", data, "--out", out).code == 0

    rows = predictions(out)[1:]
    typed = "".join(f"{row[0]}\t{row[1]}\n" for row in rows)

    answers = called("predict", *model, typed=typed).out.splitlines()
    assert answers == [row[3] for row in rows] == [row[5] for row in rows]
    assert len({row[3] for row in rows}) > 2


def test_where_a_text_has_lines_all_of_them_are_one_source(
    called: Call, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InflectionCodec, "by_line", False)
    model = ["--model", trained / "model"]
    lines = "Hand\t\n\ncase=nominative,number=plural\n"

    whole = called("predict", *model, typed=lines)
    joined = called("predict", *model, "--each-line", typed=lines.replace("\n", "") + "\n")
    assert whole.code == 0
    assert whole.out == joined.out

    # Line by line the first would have no features.
    assert called("predict", *model, "--each-line", typed="Hand\n").code == 2


def test_blank_lines_are_answered_by_blank_ones_and_other_line_ends_are_taken(
    called: Call, trained: Path
) -> None:
    plain = called("predict", "--model", trained / "model", typed=TYPED)
    odd = b"\xef\xbb\xbf" + TYPED.replace("\n", "\r\n\r\n").encode().removesuffix(b"\r\n\r\n")

    result = called("predict", "--model", trained / "model", typed=odd)
    assert (result.code, result.out, result.err) == (0, plain.out.replace("\n", "\n\n", 1), "")


def test_composed_and_decomposed_letters_are_the_same(called: Call, trained: Path) -> None:
    composed, decomposed = (
        called("predict", "--model", trained / "model", typed=f"{lemma}\tcase=x\n")
        for lemma in ("T\u00fcr", "Tu\u0308r")
    )
    assert composed.out.split("\t")[-1] == decomposed.out.split("\t")[-1]
    assert "ü" not in composed.err and "\u0308" not in decomposed.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"Haus", "expected a lemma, a tab and features"),
        (b"Haus\tcase=dative\tHaus\tx", "expected a lemma, a tab and features"),
        (b'<seg id="1">Haus</seg>', 'markup in a file that is read as lines: `<seg id="1">`'),
        (b" \tcase=dative", "expected a lemma, a tab and features"),
        (b"H\xe4user\tcase=dative", "not UTF-8 text"),
    ],
)
def test_a_faulty_line_is_named_after_the_good_ones_were_answered(
    line: bytes, message: str, called: Call, trained: Path
) -> None:
    typed = b"\n" + TYPED.encode() + line + b"\nTod\tcase=dative\n"
    result = called("predict", "--model", trained / "model", typed=typed)

    assert result.message()[0] == f"standard input:4: {message}"
    assert len(result.out.splitlines()) == 3


@pytest.mark.parametrize(
    "blank", ["\a", " \x85\u2028", "\ufeff", "\u200b", "\u00ad \u200e\t\u2060", "\u200d"]
)
def test_a_line_that_shows_nothing_has_a_blank_answer(
    called: Call, trained: Path, tmp_path: Path, blank: str
) -> None:
    first, second = TYPED.splitlines()
    typed = f"{first}\n{blank}\n{second}\n"

    result = called("predict", "--model", trained / "model", typed=typed)
    assert (result.code, result.out.split("\n")[1]) == (0, "")
    assert result.out.count("\n") == 3

    (tmp_path / "a").write_text(typed, encoding="utf-8")
    from_file = called("predict", "--model", trained / "model", "--input", tmp_path / "a")
    assert from_file.out == result.out


def test_lines_that_end_with_cr_are_lines(called: Call, trained: Path) -> None:
    with_lf = called("predict", "--model", trained / "model", typed=TYPED)
    with_cr = called("predict", "--model", trained / "model", typed=TYPED.replace("\n", "\r"))
    assert with_cr.out == with_lf.out


def test_unseen_characters_are_reported_and_no_crash(called: Call, trained: Path) -> None:
    result = called("predict", "--model", trained / "model", typed="Çø漢\tcase=nominative,mood=x\n")
    assert result.code == 0
    assert result.err.splitlines()[0] == "line 1: not seen in training: mood=x Ç ø 漢"
    assert len(result.out.splitlines()) == 1


def test_an_output_that_is_cut_short_is_told(called: Call, model: Path, tmp_path: Path) -> None:
    config = (model / "config.yaml").read_text(encoding="utf-8")
    limits = config.replace("max_ratio: 1.0", "max_ratio: 0.01")
    run = tmp_path / "run.yaml"
    run.write_text(limits.replace("max_extra: 3", "max_extra: 1"))

    result = called("predict", "--run", model.parent, typed="Blatt\tcase=x\n")
    assert result.code == 0 and "line 1: cut short at 1 symbols\n" in result.err


def test_what_is_not_read_of_a_typed_source_is_told(
    called: Call, model: Path, tmp_path: Path
) -> None:
    config = (model / "config.yaml").read_text(encoding="utf-8")
    run = tmp_path / "run.yaml"
    run.write_text(config.replace("max_source: null", "max_source: 3"), encoding="utf-8")

    result = called("predict", "--run", model.parent, typed="Blatt\tcase=nominative\n")
    assert result.code == 0 and "line 1: only the first 3 of 7 symbols are read" in result.err

    file = tmp_path / "sources.tsv"
    file.write_text("Blatt\tcase=nominative\n", encoding="utf-8")
    result = called("predict", "--run", model.parent, "--input", file)
    assert result.code == 0 and "sources.tsv:1: only the first 3 of 7 symbols" in result.err


def test_a_split_is_decoded_with_counts_of_what_the_limit_of_length_cuts(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    config = (trained / "model/config.yaml").read_text(encoding="utf-8")
    limited = config.replace("max_length: null", "max_length: 3")
    out = tmp_path / "predictions.tsv"
    record = tmp_path / "decoding.json"
    arguments = ("--config", limited, "--data", data, "--out", out, "--record", record)
    assert called("predict", "--run", trained, *arguments).code == 0

    counts = json.loads(record.read_text(encoding="utf-8"))
    forms = [row[2] for row in predictions(out)[1:]]
    assert counts["max_length"] == 3
    assert counts["references_beyond_limit"] == sum(len(form) + 1 > 3 for form in forms) > 0
    assert counts["cut_short"] > 0


@pytest.mark.slow
def test_each_line_is_answered_before_the_next_is_typed(trained: Path) -> None:
    command = [sys.executable, "-m", "pam", "predict", "--model", str(trained / "model")]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    with (
        subprocess.Popen(
            command,
            cwd=small.ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
        selectors.DefaultSelector() as waiting,
    ):
        assert process.stdin and process.stdout and process.stderr
        waiting.register(process.stdout, selectors.EVENT_READ)
        for lemma in ("Tür", "Haus"):
            process.stdin.write(f"{lemma}\tcase=nominative,number=plural\n".encode())
            process.stdin.flush()
            assert waiting.select(timeout=60), "no answer"
            assert process.stdout.readline().strip()
        # Whoever reads our output may leave, as `head` does.
        process.stdout.close()
        process.stdin.write(TYPED.encode() * 3)
        process.stdin.close()
        messages = process.stderr.read().decode()
    assert "Traceback" not in messages and "BrokenPipe" not in messages
    assert process.returncode == 141


def test_a_split_is_decoded_in_its_order_with_costs(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "predictions.tsv"
    record = tmp_path / "decoding.json"

    arguments = ["--model", trained / "model", "--data", data, "--out", out, "--record", record]
    arguments += ["--split", "dev", "--beam", "2", "--device", "cpu"]
    assert called("predict", *arguments).code == 0

    header, *rows = predictions(out)
    assert header == ["lemma", "features", "form", "predicted", "log_prob", "text"]
    assert [tuple(row[:3]) for row in rows] == small.ROWS["dev"]
    assert all(float(row[4]) < 0 for row in rows)

    costs = json.loads(record.read_text(encoding="utf-8"))
    assert costs["beam"] == 2 and costs["device"] == "cpu"
    assert set(costs) == {
        "wall_s",
        "cpu_s",
        "gpu_s",
        "sentences_per_second",
        "symbols_per_second",
        "sentences",
        "source_symbols",
        "symbols",
        "beam",
        "length_penalty",
        "length_penalties",
        "length_penalty_form",
        "length_prior",
        "precision",
        "replace_unknown",
        "max_ratio",
        "max_extra",
        "max_length",
        "cut_short",
        "references_beyond_limit",
        "sources_cut",
        "empty",
        "unknown",
        "replaced",
        "unseen",
        "unseen_total",
        "device",
        "hardware",
    }
    assert costs["sentences_per_second"] == pytest.approx(12 / costs["wall_s"])


def test_unseen_symbols_of_a_split_are_counted(called: Call, trained: Path, tmp_path: Path) -> None:
    rows = {**small.ROWS, "test": [("Çøç", "case=nominative,number=singular", "Çøç")]}
    other = small.prepare(tmp_path / "other", rows)
    out = tmp_path / "predictions.tsv"
    record = tmp_path / "decoding.json"

    arguments = ["--model", trained / "model", "--data", other, "--out", out, "--record", record]
    assert called("predict", *arguments).code == 0
    assert json.loads(record.read_text(encoding="utf-8"))["unseen"] == {"Ç": 1, "ç": 1, "ø": 1}


def test_a_run_is_decoded_where_the_next_step_looks_for_it(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "nouns/postr-joint/seed1"))
    shutil.copytree(data, tmp_path / "nouns/data")

    assert called("predict", "--run", run, "--split", "test", "--beam", 1).code == 0
    assert called("predict", "--run", run, "--split", "dev").code == 0
    for split in ("beam1", "dev"):
        assert len(predictions(run / split / "predictions.tsv")) == 13
        assert (run / split / "decoding.json").is_file()

    assert called("analyze", "--run", run).code == called("attention", "--run", run).code == 0
    assert (run / "analysis.json").is_file() and (run / "attention.json").is_file()
    assert called("score", "--run", run).code == 0

    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert (scores["model"], scores["seed"], list(scores["decoding"])) == ("postr-joint", 1, ["1"])
    message, _ = called("score", "--run", run, "--kind", "inflection").message()
    assert message.startswith("--run and")

    typed = called("predict", "--run", run, typed=TYPED)
    assert (typed.code, len(typed.out.splitlines())) == (0, 2)


def test_a_run_that_was_only_trained_is_decoded_as_it_was_trained(
    called: Call, trained: Path, model: Path
) -> None:
    here = called("predict", "--run", trained, typed=TYPED)
    assert called("predict", "--run", model.parent, typed=TYPED).out == here.out


def test_a_configuration_takes_the_place_of_that_of_the_run(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    text = (trained / "run.yaml").read_text(encoding="utf-8")
    options = ["--config", text.replace("beam: 1", "beam: 3"), "--data", data, "--split", "dev"]
    record = tmp_path / "decoding.json"

    files = ["--out", tmp_path / "p.tsv", "--record", record]
    assert called("predict", "--run", trained, *options, *files).code == 0
    assert json.loads(record.read_text(encoding="utf-8"))["beam"] == 3

    result = called("predict", "--run", trained, "--config", "label: [")
    assert result.message()[0].startswith("--config:1: this is not valid YAML")


def test_a_model_is_named_by_its_run_or_by_its_folder(called: Call, trained: Path) -> None:
    assert called("predict").message()[0] == "exactly one model is needed"
    both = called("predict", "--run", trained, "--model", trained / "model")
    assert both.message()[0] == "exactly one model is needed"


def test_a_model_folder_may_be_moved_and_its_data_deleted(
    called: Call, trained: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(trained / "model", tmp_path / "elsewhere and renamed")
    here = called("predict", "--model", trained / "model", typed=TYPED)
    assert called("predict", "--model", moved, typed=TYPED).out == here.out


def test_the_beam_is_the_models_own_unless_another_is_given(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    record = tmp_path / "decoding.json"
    for options, used in (((), 1), (("--beam", "3"), 3)):
        files = ["--data", data, "--out", tmp_path / "p.tsv", "--record", record]
        assert called("predict", "--model", trained / "model", *files, *options).code == 0
        assert json.loads(record.read_text(encoding="utf-8"))["beam"] == used


def test_a_trained_model_and_its_folder_hold_the_same_vocabularies(
    trained: Path, data: Path
) -> None:
    model = load_model(trained / "model")
    prepared = Prepared(data)

    assert model.source.symbols == prepared.source.symbols
    assert model.target.symbols == prepared.target.symbols


@pytest.mark.parametrize("command", [["predict", "--pretrained", "nouns/soft"], ["data", "--help"]])
@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_streams_end_a_command_in_one_sentence(command: list[str], closed: str) -> None:
    call = shlex.join([sys.executable, "-m", "pam", *command])
    result = subprocess.run(
        ["/bin/sh", "-c", f"{call} {closed}"], capture_output=True, text=True, timeout=60
    )
    if command[0] == "data" and closed == "<&-":
        assert (result.returncode, result.stderr) == (0, "")
        return
    stream = {"<&-": "input", ">&-": "output"}[closed]
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: standard {stream} is closed")
    assert result.stderr.count("\n") == 1
