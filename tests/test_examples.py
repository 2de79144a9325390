"""The scripts of examples/, run as their heads say, on a few nouns."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib import pyplot as plt

from pam.evaluation.analyze import heat_maps
from pam.evaluation.inputs import load
from pam.evaluation.scores import Scores
from pam.models.checkpoint import load_model
from pam.models.interfaces import AttentionHistory, Memory, Sizes
from pam.models.options import COMPONENTS

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of examples/ can be imported; what they register is forgotten, as schemas would list
    it.
    """
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setitem(COMPONENTS, "score", dict(COMPONENTS["score"]))
    yield
    for name in ("own_model", "own_loop"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What own_model.py left of a short training, and what it said."""
    pytest.importorskip("german_nouns", reason="the package german-nouns is not installed")
    out = tmp_path_factory.mktemp("own model")
    return out, called("own_model.py", "--out", str(out), "--lemmas", "16", "--epochs", "1")


def called(script: str, *arguments: str, code: int = 0) -> str:
    """Standard output of a script that ends with this code."""
    command = [sys.executable, str(ROOT / "examples" / script), *arguments]
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_score_of_ones_own_is_trained_and_compared_with_soft(ran: tuple[Path, str]) -> None:
    out, said = ran
    accuracies = []
    for model, label in (("soft", "Soft"), ("soft-distance", "Soft, distance")):
        accuracy = load(Scores, out / "nouns" / model / "seed1/scores.json").metrics["accuracy"]
        assert accuracy.n == 4 * 8
        assert f"{label}: accuracy {accuracy.value:.2f} % [" in said
        accuracies.append(accuracy.value)
    assert f"Soft, distance: gain {accuracies[1] - accuracies[0]:+.2f} [" in said


def test_a_look_at_a_sentence_is_that_of_the_commands(
    ran: tuple[Path, str], examples: None, tmp_path: Path
) -> None:
    look_at_attention: Any = importlib.import_module("look_at_attention")
    run = ran[0] / "nouns/soft-distance/seed1"
    model = load_model(run / "model")
    (row,) = heat_maps(model, ran[0] / "nouns/data", "test", 1, [3])["rows"]
    found = look_at_attention.look(str(run), f"{row['lemma']}\t{row['features']}", row["form"])
    assert (found.source, found.target) == (row["source"], row["target"])
    np.testing.assert_allclose(found.alignment, row["alignment"], atol=1e-5)
    said = called(
        "look_at_attention.py",
        str(run),
        f"{row['lemma']}\t{row['features']}",
        "--target",
        row["form"],
        "--out",
        str(tmp_path / "look.png"),
    )
    assert [line.split()[0] for line in said.splitlines()[1:]] == row["target"]
    assert all((tmp_path / f"look.{ending}").stat().st_size > 1000 for ending in ("png", "svg"))
    weights = pd.read_csv(tmp_path / "look.csv", index_col="target")
    assert (list(weights.index), weights.shape) == (row["target"], found.alignment.shape)


def test_a_run_that_is_none_is_an_error(tmp_path: Path) -> None:
    said = called("look_at_attention.py", str(tmp_path), "Haus", code=2)
    assert said.startswith("error: ") and "Traceback" not in said


def test_the_score_is_a_distance(examples: None) -> None:
    own_model: Any = importlib.import_module("own_model")
    torch.manual_seed(1)
    score = own_model.DistanceScore(own_model.Distance(sharpness=0.5), Sizes(3, 4, 2, 2, 1, 0.0))
    values, query = torch.randn(2, 5, 4), torch.randn(2, 3)
    # Of a memory, a score that is no kernel reads its keys alone.
    others: Any = dict.fromkeys(("values", "mask", "fed", "start", "cells", "readout"))
    memory = Memory(**others, keys=score.keys(values))
    expected = -0.5 * torch.cdist(query[:, None], score.weight(values))[:, 0] ** 2
    torch.testing.assert_close(score(query, memory, AttentionHistory()), expected)


def test_posterior_attention_learns_in_a_loop_of_ones_own(
    examples: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("german_nouns", reason="the package german-nouns is not installed")
    own_loop: Any = importlib.import_module("own_loop")
    own_loop.main(["--lemmas", "24", "--epochs", "3", "--coupling", "proximity"])

    *epochs, result = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[2]) for line in epochs]
    assert len(losses) == 3
    assert losses[2] < losses[0]
    assert re.match(r"\d+ of 400 forms of unseen nouns are right; written: \['", result)


def test_the_library_page_shows_the_lines_of_the_example() -> None:
    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    example = (ROOT / "examples/own_loop.py").read_text(encoding="utf-8")
    section = page.split("## In a model of your own")[1]
    shown = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)[0]

    written = {line.strip() for line in example.splitlines()}
    assert [line for line in shown.splitlines() if line.strip() not in written] == []


def test_the_notebook_runs_and_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((ROOT / "examples/library.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for cell in cells:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec("".join(cell["source"]), names)  # noqa: S102 -- the notebook's own cells
        shown = [
            "".join(output["text"])
            for output in cell["outputs"]
            if output["output_type"] == "stream"
        ]
        if shown:
            # Processors differ in the last digits.
            number = re.compile(r"-?\d+\.?\d*")
            assert number.sub("#", printed.getvalue()) == number.sub("#", shown[0])
            numbers = [float(found) for found in number.findall(printed.getvalue())]
            assert numbers == pytest.approx(
                [float(found) for found in number.findall(shown[0])], abs=1.01
            )
    plt.close("all")
