"""`score`: one run's record, whole or not at all."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.commands import evaluate
from pam.data.dataset import write_summary
from pam.evaluation.records import load, save
from pam.evaluation.scores import Scores
from pam.runtime.errors import UserError

ROWS = [("a", "1", "x", "x"), ("a", "2", "y", "z"), ("b", "1", "u", "u"), ("b", "2", "w", "w")]
RUN: dict[str, Any] = {
    "experiment": "tiny",
    "task": "nouns",
    "model": "soft",
    "label": "Soft",
    "seed": 3,
    "components": {"label": "Soft"},
    "network": {},
    "training": {},
    "decoding": {"beam": 3},
}


SUMMARY = {"dataset": "tiny", "task": "inflection"}


def run(*arguments: object) -> int:
    parser = ArgumentParser()
    evaluate.score.add_to(parser)
    return evaluate.score.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder, with the prepared data of its task where a run expects them."""
    folder = tmp_path / "soft" / "seed3"
    data = tmp_path / "data"
    (folder / "beam3").mkdir(parents=True)
    data.mkdir()
    lines = ["lemma\tfeatures\tform\tpredicted\tlog_prob", *("\t".join([*r, "-1"]) for r in ROWS)]
    (folder / "beam3/predictions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (data / "test.tsv").write_text(
        "".join("\t".join(row[:3]) + "\n" for row in ROWS), encoding="utf-8"
    )
    write_summary(data, SUMMARY)
    (folder / "run.yaml").write_text(yaml.safe_dump(RUN), encoding="utf-8")
    training = {"wall_s": 10.0, "cpu_s": 9.5, "gpu_s": None, "device": "cpu"}
    (folder / "training.json").write_text(json.dumps(training), encoding="utf-8")
    decoding = {"beam": 3, "wall_s": 1.0, "cpu_s": 0.5, "gpu_s": 0.0, "unseen": {"ß": 2}}
    (folder / "beam3/decoding.json").write_text(json.dumps(decoding), encoding="utf-8")

    return folder


def test_the_record_holds_result_cost_and_origin(folder: Path) -> None:
    assert run("--run", folder) == 0

    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert [scores[key] for key in ("experiment", "task", "model", "label", "seed")] == [
        "tiny",
        "nouns",
        "soft",
        "Soft",
        3,
    ]

    accuracy = scores["metrics"]["accuracy"]
    whole = scores["metrics"]["paradigm_accuracy"]

    assert (accuracy["value"], accuracy["n"], accuracy["unit"]) == (75.0, 4, "%")
    assert (whole["value"], whole["n"]) == (50.0, 2)
    assert accuracy["low"] == 50.0
    assert accuracy["high"] == 100.0
    assert (scores["kind"], scores["over"], len(scores["units"])) == ("inflection", "lemmas", 2)
    assert scores["decoding"]["3"]["wall_s"] == 1.0
    assert scores["cost"] == {"wall_s": 11.0, "cpu_s": 10.0, "gpu_s": None}
    assert scores["unseen"] == {"ß": 2}
    assert scores["units"] == {"a": [1, 2, 0, 1, 1, 2], "b": [2, 2, 1, 1, 0, 2]}
    assert scores["training"]["device"] == "cpu"


def test_what_is_written_can_be_read_back(folder: Path) -> None:
    run("--run", folder)
    scores = load(Scores, folder / "scores.json")

    save(scores, folder / "again.json")
    assert (folder / "again.json").read_bytes() == (folder / "scores.json").read_bytes()
    assert scores.counts().counts.tolist() == [[1, 2, 0, 1, 1, 2], [2, 2, 1, 1, 0, 2]]


def test_the_same_input_gives_the_same_bytes(folder: Path) -> None:
    run("--run", folder)
    first = (folder / "scores.json").read_bytes()

    run("--run", folder)
    assert (folder / "scores.json").read_bytes() == first


def test_predictions_alone_are_scored_to_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--predictions", folder / "beam3/predictions.tsv", "--kind", "inflection") == 0
    assert "accuracy: 75.00 % [50.00, 100.00] of 4, 2 lemmas" in capsys.readouterr().out


def test_predictions_for_other_data_are_refused_and_nothing_is_written(folder: Path) -> None:
    split = folder.parents[1] / "data/test.tsv"
    split.write_text(split.read_text(encoding="utf-8").replace("w", "v"), encoding="utf-8")

    with pytest.raises(UserError) as raised:
        run("--run", folder)
    assert raised.value.line == 5
    assert not (folder / "scores.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the kind of these predictions"),
        (["--kind", "inflexion"], "unknown kind of task"),
        (["--kind", "inflection", "--decoding", "decoding.json", "decoding.json"], "1 files of"),
    ],
)
def test_what_cannot_be_scored_is_said(folder: Path, arguments: list[str], words: str) -> None:
    placed = [folder / "beam3" / word if word.endswith(".json") else word for word in arguments]
    with pytest.raises(UserError, match=words) as raised:
        run("--predictions", folder / "beam3/predictions.tsv", *placed)
    assert raised.value.hint


def test_several_files_of_one_beam_are_refused(folder: Path) -> None:
    twice = [folder / "beam3/predictions.tsv"] * 2
    with pytest.raises(UserError, match="several files of predictions"):
        run("--predictions", *twice, "--data", folder.parents[1] / "data")


def test_a_record_from_before_other_kinds_were_scored_can_be_read(folder: Path) -> None:
    run("--run", folder)
    content = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    old = {key: content[key] for key in content if key not in ("kind", "over", "details")}
    old |= {"lemmas": 2, "decoding": content["decoding"]["3"]}
    (folder / "old.json").write_text(json.dumps(old), encoding="utf-8")

    scores = load(Scores, folder / "old.json")
    assert (scores.kind, scores.over) == ("inflection", "lemmas")
    assert scores.metrics == load(Scores, folder / "scores.json").metrics


def test_a_damaged_training_record_is_named(folder: Path) -> None:
    (folder / "training.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        run("--run", folder)
    assert raised.value.file == str(folder / "training.json")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"metrics": 3}'])
def test_a_damaged_scores_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(UserError) as raised:
        load(Scores, path)
    assert raised.value.file == str(path)
    assert "make it again" in (raised.value.hint or "")
