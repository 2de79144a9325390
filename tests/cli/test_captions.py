"""From clips to captions by the commands: prepare, train, predict, attention, score."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pam.evaluation import meteor
from tests.cli.conftest import Call
from tests.data.test_captioning import UNITS, frames, ready

pytestmark = pytest.mark.slow
RUN = """
experiment: mine
task: clips
model: soft
label: Soft
seed: 1
components: {label: Soft, score: general}
network: {embedding: 4, encoder: 4, decoder: 8, dropout: 0}
training: {epochs: 2, batch_size: 2}
decoding: {beam: 2, max_length: 6}
"""


@pytest.fixture
def run(tmp_path: Path, called: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained run with its data."""
    monkeypatch.setattr(meteor, "unavailable", lambda: "METEOR needs Java: install it")
    ready(tmp_path)
    folder = tmp_path / "clips/soft/seed1"
    folder.mkdir(parents=True)
    (tmp_path / "out").rename(tmp_path / "clips/data")

    (folder / "run.yaml").write_text(RUN, encoding="utf-8")
    assert called("train", "--run", folder).code == 0

    return folder


def test_a_run_is_trained_decoded_analyzed_and_scored(run: Path, called: Call) -> None:
    assert called("predict", "--run", run, "--split", "test").code == 0
    assert called("analyze", "--run", run).code == 0
    assert called("attention", "--run", run, "--count", 1).code == 0
    assert called("score", "--run", run).code == 0

    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert set(scores["metrics"]) == {"cider", "rouge_coco", "bleu_coco"}
    assert scores["over"] == "clips"

    (row,) = json.loads((run / "attention.json").read_text(encoding="utf-8"))["rows"]
    assert row["source"] == list(map(str, range(1, len(row["alignment"][0]) + 1)))


def test_a_clip_of_ones_own_is_captioned_as_that_of_the_test_split(
    run: Path, called: Call, tmp_path: Path
) -> None:
    assert called("predict", "--run", run, "--split", "test").code == 0

    lines = (run / "beam2/predictions.tsv").read_text(encoding="utf-8").splitlines()
    by_clip = {line.split("\t")[0]: line.split("\t")[4] for line in lines[1:]}
    np.save(tmp_path / "new.npy", frames(4))

    result = called("predict", "--run", run, typed=f"{tmp_path}/new.npy\n")
    assert (result.code, result.out) == (0, by_clip["clip4"] + "\n")
    # Nothing is said of it but that a model this small may write nothing.
    assert result.err in ("", "line 1: the output is blank\n")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, UNITS + 1)), f"frames of {UNITS + 1} units, where others have {UNITS}"),
        (np.full((2, UNITS), np.inf), "frame 1 has numbers that are not finite"),
    ],
)
def test_a_clip_that_the_model_cannot_read_is_an_error(
    run: Path, called: Call, tmp_path: Path, array: np.ndarray, message: str
) -> None:
    np.save(tmp_path / "new.npy", array)
    result = called("predict", "--run", run, typed=f"{tmp_path}/new.npy\n")

    assert result.code == 2
    assert f"{tmp_path}/new.npy: {message}" in result.err
    assert "no such file" in called("predict", "--run", run, typed=f"{tmp_path}/none.npy\n").err


def test_unknown_words_cannot_become_frames(run: Path, called: Call) -> None:
    result = called("predict", "--run", run, "--replace-unknown")
    assert result.code == 2
    assert "frames cannot replace unknown words" in result.err
