"""What is kept of a run can be made into tables again, and a run goes on from it."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from made_runs import MadeExperiment
from made_translations import make_translations

from pam.experiment import Plan, load_plan
from pam.io import UserError, dump_yaml, read_json, write_json, write_text
from pam.reporting import reference, runs

SCRIPTS = Path(__file__).parents[2] / "workflow/scripts"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def keeping() -> ModuleType:
    return script("keep_reference")


@pytest.fixture
def finished(tmp_path: Path) -> MadeExperiment:
    made = make_translations(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=6)
    shutil.copyfile(made.config, made.folder / "experiment.yaml")
    for file in ("tables/table1.csv", "tables/table1.html", "figures/bleu.svg"):
        write_text(made.folder / file, "x\n")
    for path in made.folder.glob("*/*/seed1/run.yaml"):
        model = path.parts[-3]
        write_text(path, dump_yaml(plan_of(made).run("de-en", model, 1)))
        write_text(path.parent / "model/weights.safetensors", "large")
    return made


def plan_of(made: MadeExperiment) -> Plan:
    return load_plan(files=[made.config])


def later_run(made: MadeExperiment, tmp_path: Path) -> Path:
    """The folder of a run of the same experiment whose data alone is prepared."""
    results = tmp_path / "later"
    shutil.copytree(made.folder / "de-en/data", results / "de-en/data")
    return results


@pytest.mark.parametrize(("large", "ending"), [(10**9, ""), (10, ".gz")])
def test_kept_scores_can_be_compared_again(
    keeping: ModuleType,
    finished: MadeExperiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    large: int,
    ending: str,
) -> None:
    monkeypatch.setattr(reference, "LARGE", large)
    out = tmp_path / "kept"
    keeping.keep(finished.folder, out, "a command", "a commit")
    experiment = runs.load_experiment(out / "experiment.yaml")
    (task,) = runs.load_runs(sorted(out.glob(f"*/*/*/scores.json{ending}")), experiment)
    (before,) = runs.load_runs(finished.scores, experiment)
    assert [one.scores for one in task.runs] == [one.scores for one in before.runs]


def test_what_tables_and_figures_are_made_of_is_kept_and_no_weights(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    run = tmp_path / "kept/de-en/soft/seed1"
    kept = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert {name.removesuffix(".gz") for name in kept} == {
        *("run.yaml", "scores.json", "gold_scores.json", "analysis.json", "history.csv"),
        "beam4/predictions.tsv",
    }


def test_text_that_no_licence_lets_hand_on_stays_behind(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    summary = finished.folder / "de-en/data/summary.json"
    write_json(summary, read_json(summary) | {"licence": "CC BY-NC-ND 4.0 (talks)"})
    for file in ("tables/examples.csv", "figures/attention_de-en_seed1.svg"):
        write_text(finished.folder / file, "x\n")
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    names = {path.name.removesuffix(".gz") for path in (tmp_path / "kept").rglob("*.*")}
    assert "scores.json" in names
    assert not names & {"predictions.tsv", "examples.csv", "attention_de-en_seed1.svg"}


def test_values_of_outputs_and_of_alignments_stand_in_one_row(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    with open(tmp_path / "kept/scores.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["soft", "postr-joint"]
    assert all(float(row[name]) > 0 for row in rows for name in ("ppl", "bleu_b4", "aer", "cpu_s"))
    assert {path.name for path in (tmp_path / "kept/tables").iterdir()} == {"table1.csv"}


def test_a_run_is_counted_to_the_run_that_made_it(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    out = tmp_path / "kept"
    keeping.keep(finished.folder, out, "one", "1")
    changed = finished.run("de-en", "soft") / "scores.json"
    write_json(changed, read_json(changed) | {"cost": {"cpu_s": 7.0, "wall_s": 7.0, "gpu_s": 0}})
    keeping.keep(finished.folder, out, "two", "2")
    runs = json.loads((out / "record.json").read_text())["runs"]
    assert [(run["commit"], run["runs"]) for run in runs] == [
        ("1", ["de-en/postr-joint/seed1"]),
        ("2", ["de-en/soft/seed1"]),
    ]


def test_a_run_that_went_on_is_one(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    out = tmp_path / "kept"
    scores = finished.run("de-en", "soft") / "scores.json"
    content = scores.read_bytes()
    scores.unlink()
    keeping.keep(finished.folder, out, "one", "1")
    scores.write_bytes(content)
    keeping.keep(finished.folder, out, "one", "1")
    (run,) = json.loads((out / "record.json").read_text())["runs"]
    assert run["runs"] == ["de-en/soft/seed1", "de-en/postr-joint/seed1"]


def test_a_run_takes_what_is_kept_to_the_byte_and_later_than_its_data(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "LARGE", 3000)  # more than a run.yaml has
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    results = later_run(finished, tmp_path)
    found = reference.take(tmp_path / "kept", results, plan_of(finished))
    assert found.taken == [("de-en", "soft", 1), ("de-en", "postr-joint", 1)]
    files = [path for path in (results / "de-en").glob("*/seed1/**/*") if path.is_file()]
    assert len(files) == 12
    data = (results / "de-en/data/summary.json").stat().st_mtime_ns
    for path in files:
        assert path.read_bytes() == (finished.folder / path.relative_to(results)).read_bytes()
        assert path.stat().st_mtime_ns > data
    assert reference.take(tmp_path / "kept", results, plan_of(finished)).there == found.taken


def test_a_run_of_another_recipe_or_of_none_is_not_taken(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    keeping.keep(finished.folder, kept, "a command", "a commit")
    changed = finished.config.read_text(encoding="utf-8") + "training: {epochs: 3}\n"
    write_text(finished.config, changed)
    results = later_run(finished, tmp_path)
    shutil.rmtree(kept / "de-en/soft")
    found = reference.take(kept, results, plan_of(finished))
    assert (found.missing, found.other) == (
        [("de-en", "soft", 1)],
        [("de-en", "postr-joint", 1)],
    )
    assert not found.taken and not (results / "de-en/postr-joint").exists()


def test_the_script_says_what_is_taken_and_what_is_to_be_trained(
    keeping: ModuleType,
    finished: MadeExperiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept, results = tmp_path / "kept", finished.folder
    keeping.keep(results, kept, "a command", "a commit")
    shutil.rmtree(finished.run("de-en", "soft"))
    words = ["take", kept, results, "--configfile", finished.config]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    assert script("take_reference").main() == 0
    assert "1 runs taken, 1 there already" in capsys.readouterr().out


def test_nothing_is_taken_before_the_data_is_prepared(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    with pytest.raises(UserError, match="is not prepared"):
        reference.take(tmp_path / "kept", tmp_path / "later", plan_of(finished))


def test_what_is_kept_of_another_experiment_is_not_taken(
    keeping: ModuleType, finished: MadeExperiment, tmp_path: Path
) -> None:
    keeping.keep(finished.folder, tmp_path / "kept", "a command", "a commit")
    other = finished.config.read_text(encoding="utf-8").replace("made-up\n", "another\n", 1)
    write_text(finished.config, other)
    with pytest.raises(UserError, match="not of the experiment `another`"):
        reference.take(tmp_path / "kept", later_run(finished, tmp_path), plan_of(finished))
