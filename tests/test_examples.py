"""The scripts of examples/, run as their heads say, on a few nouns."""

from __future__ import annotations

import doctest
import importlib
import io
import json
import re
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
from pam.evaluation.records import load
from pam.evaluation.scores import Scores
from pam.models.checkpoint import load_model
from pam.models.interfaces import AttentionHistory, Memory, Sizes
from pam.models.options import COMPONENTS
from tests.training import runs

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let modules of examples/ be imported; forget what they register, as schemas would list it."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setitem(COMPONENTS, "score", dict(COMPONENTS["score"]))

    yield

    for name in ("own_model", "own_loop"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Train with own_model.py for a short time; return its folder and its output."""
    pytest.importorskip("german_nouns", reason="the package german-nouns is not installed")
    out = tmp_path_factory.mktemp("own model")
    words = [ROOT / "examples/own_model.py", "--out", out, "--lemmas", 16, "--epochs", 1]
    script = runs.start(words, out / "log", call=runs.as_script)

    assert script.end() == 0, script.said()

    return out, script.said()


def test_a_score_of_ones_own_is_trained_and_compared_with_soft(trained: tuple[Path, str]) -> None:
    out, output = trained
    accuracies = []

    for model, label in (("soft", "Soft"), ("soft-distance", "Soft, distance")):
        accuracy = load(Scores, out / "nouns" / model / "seed1/scores.json").metrics["accuracy"]
        assert accuracy.n == 4 * 8
        assert f"{label}: accuracy {accuracy.value:.2f} % [" in output

        accuracies.append(accuracy.value)

    assert f"Soft, distance: gain {accuracies[1] - accuracies[0]:+.2f} [" in output


def test_a_look_at_a_sentence_is_that_of_the_commands(
    trained: tuple[Path, str], examples: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look_at_attention: Any = importlib.import_module("look_at_attention")
    out, _ = trained
    run = out / "nouns/soft-distance/seed1"
    (row,) = heat_maps(load_model(run / "model"), out / "nouns/data", "test", 1, [3])["rows"]
    source = f"{row['lemma']}\t{row['features']}"

    attention = look_at_attention.look(str(run), source, row["form"])

    assert (attention.source, attention.target) == (row["source"], row["target"])
    np.testing.assert_allclose(attention.alignment, row["alignment"], atol=1e-5)

    options = ["--target", row["form"], "--out", str(tmp_path / "look.png")]
    code = look_at_attention.main([str(run), source, *options])

    assert code == 0

    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[1:]] == row["target"]
    assert all((tmp_path / f"look.{ending}").stat().st_size > 1000 for ending in ("png", "svg"))

    weights = pd.read_csv(tmp_path / "look.csv", index_col="target")
    assert (list(weights.index), weights.shape) == (row["target"], attention.alignment.shape)


def test_a_run_that_is_none_is_an_error(
    examples: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look_at_attention: Any = importlib.import_module("look_at_attention")
    code = look_at_attention.main([str(tmp_path), "Haus"])

    assert code == 2
    assert capsys.readouterr().err.startswith("error: ")


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


@pytest.mark.parametrize("name", ["library.md", "method.md", "start.md"])
def test_the_examples_of_a_page_print_what_it_shows(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    usage = page.split("## In a model of your own")[0]
    blocks = re.findall(r"^```(pycon|python)\n(.*?)^```", usage, flags=re.MULTILINE | re.DOTALL)
    assert blocks

    names: dict[str, Any] = {}
    runner = doctest.DocTestRunner(verbose=False)
    for kind, code in blocks:
        if kind == "python":
            exec(code, names)  # noqa: S102 -- the page's own lines
            continue
        example = doctest.DocTestParser().get_doctest(code, names, name, None, None)
        runner.run(example, clear_globs=False)
        names = example.globs

    assert runner.summarize(verbose=False).failed == 0
    plt.close("all")


def test_the_library_page_shows_the_lines_of_the_example() -> None:
    page = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    example = (ROOT / "examples/own_loop.py").read_text(encoding="utf-8")
    section = page.split("## In a model of your own")[1]
    code = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)[0]
    written = {line.strip() for line in example.splitlines()}

    assert [line for line in code.splitlines() if line.strip() not in written] == []


def test_the_notebook_runs_and_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((ROOT / "examples/library.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}

    for cell in cells:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec("".join(cell["source"]), names)  # noqa: S102 -- the notebook's own cells

        outputs = [output for output in cell["outputs"] if output["output_type"] == "stream"]
        if outputs:
            assert_same_text(printed.getvalue(), "".join(outputs[0]["text"]))

    plt.close("all")


def assert_same_text(printed: str, expected: str) -> None:
    """Check that texts agree but for the last digits of numbers, in which processors differ."""
    number = re.compile(r"-?\d+\.?\d*")

    assert number.sub("#", printed) == number.sub("#", expected)

    expected_numbers = [float(digits) for digits in number.findall(expected)]
    assert [float(digits) for digits in number.findall(printed)] == pytest.approx(
        expected_numbers, abs=1.01
    )
