"""What is kept of a finished experiment can be made into tables again."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from made_cells import MadeExperiment
from made_translations import make_translations

from pam.files import write_text
from pam.reporting import cells

SCRIPT = Path(__file__).parents[2] / "workflow/scripts/keep_reference.py"


@pytest.fixture
def keeping() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keep_reference", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def finished(tmp_path: Path) -> MadeExperiment:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=6)
    shutil.copyfile(made.config, made.folder / "experiment.yaml")
    for file in ("tables/table1.csv", "tables/table1.html", "figures/bleu.svg"):
        write_text(made.folder / file, "x\n")
    return made


@pytest.mark.parametrize(("large", "ending"), [(10**9, ".json"), (10, ".json.gz")])
def test_kept_scores_can_be_compared_again(
    keeping: ModuleType,
    finished: MadeExperiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large: int,
    ending: str,
) -> None:
    monkeypatch.setattr(keeping, "LARGE", large)
    out = tmp_path / "kept"
    keeping.keep(finished.folder, out, "a command", "a commit")
    kept = out / "cells/de-en/postr-joint"
    assert {path.name for path in kept.iterdir()} == {f"seed1{ending}", f"seed1.gold{ending}"}
    experiment = cells.load_experiment(out / "experiment.yaml")
    (task,) = cells.load_cells(sorted(out.glob(f"cells/*/*/seed1{ending}")), experiment)
    (before,) = cells.load_cells(finished.scores, experiment)
    assert [one.scores for one in task.cells] == [one.scores for one in before.cells]


def test_values_of_outputs_and_of_alignments_stand_in_one_row(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    with open(tmp_path / "kept/scores.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["soft", "postr-joint"]
    assert all(float(row[name]) > 0 for row in rows for name in ("ppl", "bleu_b4", "aer", "cpu_s"))
    assert {path.name for path in (tmp_path / "kept/tables").iterdir()} == {"table1.csv"}
