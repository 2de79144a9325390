"""An experiment's results can be stored, shown again, and restored instead of trained again."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from made_runs import MadeExperiment
from made_translations import make_translations

from pam.evaluation.attention import Analysis
from pam.evaluation.records import load
from pam.experiments.loading import load_plan
from pam.experiments.parsing import dump_yaml
from pam.experiments.plan import Plan
from pam.experiments.run_config import load_run
from pam.experiments.yaml import read_yaml
from pam.reporting import reference, render, runs, tables
from pam.reporting.comparison import Inputs
from pam.runtime.errors import UserError
from pam.runtime.files import read_json, write_json, write_text

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow/scripts"
STORED = sorted(path for path in (ROOT / "results/reference").iterdir() if path.is_dir())
LARGEST = 5_000_000  # the most bytes of a file that is tracked

FORM = {"experiment.yaml", "record.json", "scores.csv", "tables", "figures"}
OF_RUNS = {"runs.tar.xz", "data.json"}  # which folders of earlier code lack
SOFT = ("de-en", "soft", 1)
JOINT = ("de-en", "postr-joint", 1)

Store = Callable[..., Path]


def script(name: str) -> ModuleType:
    """Import a script of the workflow."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def finished(tmp_path: Path) -> MadeExperiment:
    """An experiment that has run: two models, one seed, tables, figures and weights."""
    made = make_translations(tmp_path, models=["soft", "postr-joint"], seeds=[1], count=6)
    shutil.copyfile(made.config, made.folder / "experiment.yaml")
    for file in ("tables/table1.csv", "tables/table1.html", "figures/bleu.svg"):
        write_text(made.folder / file, "x\n")
    for path in made.folder.glob("*/*/seed1/run.yaml"):
        write_text(path, dump_yaml(plan_of(made).run("de-en", path.parts[-3], 1)))
        write_json(path.parent / "training.json", {"cpu_s": 1.0})
        write_text(path.parent / "model/weights.safetensors", "large")
        # the workflow's own copy
        write_json(path.parent / "state/finished/training.json", {"cpu_s": 1.0})

    return made


@pytest.fixture
def store(finished: MadeExperiment, tmp_path: Path) -> Store:
    """A function that stores the experiment and returns the folder."""

    def stored(command: str = "a command", commit: str = "a commit") -> Path:
        reference.store(finished.folder, tmp_path / "stored", command, commit)
        return tmp_path / "stored"

    return stored


@pytest.fixture
def half_closed(tmp_path: Path) -> MadeExperiment:
    """An experiment of two tasks that has run; the text of `en-de` may not be passed on."""
    made = make_translations(
        tmp_path, tasks=["de-en", "en-de"], models=["soft"], seeds=[1], count=6
    )
    shutil.copyfile(made.config, made.folder / "experiment.yaml")
    summary = made.folder / "en-de/data/summary.json"
    write_json(summary, read_json(summary) | {"redistributable": False})
    return made


def plan_of(made: MadeExperiment) -> Plan:
    """Load the plan of an experiment."""
    return load_plan(files=[made.config])


def later_run(made: MadeExperiment, tmp_path: Path) -> Path:
    """Make the folder of the same experiment on a later day, with its data alone prepared."""
    results = tmp_path / "later"
    shutil.copytree(made.folder / "de-en/data", results / "de-en/data")
    return results


def write_examples(made: MadeExperiment, task: str = "") -> None:
    """Write the table of examples of a task, or of all, into an experiment's results."""
    experiment = runs.load_experiment(made.config)
    predictions = [path for path in made.predictions if not task or task in path.parts]
    table = tables.build("examples", Inputs(experiment, {}, predictions=predictions))
    render.write(table, made.folder / "tables", "examples")


def registry_of(text: str, links: str) -> dict[str, object]:
    """Return a registry of sentence pairs and of word alignments, whose files are nowhere."""
    files = {
        name: {"urls": [f"https://example.org/{name}"]} for name in ("a.de", "a.en", "a.links")
    }
    sides = {"de": "a.de", "en": "a.en"}
    entry = {
        "title": "Made up",
        "licence": "none",
        "files": files,
        "format": {"source": "de", "target": "en"},
    }
    return {
        text: entry
        | {"task": "translation", "splits": dict.fromkeys(("train", "dev", "test"), sides)},
        links: entry | {"task": "alignment", "splits": {"gold": sides | {"links": "a.links"}}},
    }


def archived(stored: Path) -> list[str]:
    """Return the names of the stored files of runs."""
    with tarfile.open(stored / "runs.tar.xz") as archive:
        return archive.getnames()


def write_tar(path: Path, *members: tarfile.TarInfo) -> None:
    """Write an archive of members that are filled with zeros."""
    with tarfile.open(path, "w:xz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))


def member(name: str, size: int = 1, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """Return a member of an archive; a link leads to a file outside."""
    made = tarfile.TarInfo(name)
    made.size = size
    made.type = kind
    made.linkname = "/etc/passwd"
    return made


# Storing.


def test_each_run_is_stored_with_all_that_it_measured_and_no_weights(store: Store) -> None:
    stored = store()
    assert {path.name for path in stored.iterdir()} == FORM | OF_RUNS
    assert {path.name for path in (stored / "tables").iterdir()} == {"table1.csv"}

    names = archived(stored)
    assert {name for name in names if "soft" in name} == {
        f"de-en/soft/seed1/{file}"
        for file in ("run.yaml", "training.json", "history.csv", "scores.json", "gold_scores.json")
        + ("analysis.json", "gold_analysis.json")
        + ("beam4/predictions.tsv", "beam10/predictions.tsv")
    }
    assert {name.split("/")[1] for name in names} == {"soft", "postr-joint"}


def test_the_summaries_of_the_data_are_stored_and_stand_for_the_data_again(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    stored = store()
    results = tmp_path / "later"
    reference.restore_summaries(stored, results)
    summaries = list(results.rglob("*.json"))

    assert results / "de-en/data/summary.json" in summaries
    for path in summaries:
        assert read_json(path) == read_json(finished.folder / path.relative_to(results))
    assert reference.restore(stored, results, plan_of(finished)).restored == [SOFT, JOINT]


def test_word_links_are_stored_of_hand_aligned_sentences_alone(
    store: Store, tmp_path: Path
) -> None:
    with reference.unpacked(store()) as folder:
        run = folder / reference.run_path(SOFT)
        test_split = load(Analysis, run / "analysis.json").sentences
        gold = load(Analysis, run / "gold_analysis.json").sentences

    assert (test_split.links, test_split.links_prior) == (None, None) and test_split.nll
    assert gold.links


def test_the_same_content_gives_the_same_bytes(finished: MadeExperiment, store: Store) -> None:
    before = (store() / "runs.tar.xz").read_bytes()
    for path in finished.folder.rglob("*"):
        path.touch()
        os.chmod(path, 0o700)
    assert (store() / "runs.tar.xz").read_bytes() == before


@pytest.mark.parametrize(
    "permission", [{"redistributable": False}, {}], ids=["forbidden", "prepared by earlier code"]
)
def test_text_that_may_not_be_passed_on_is_not_stored(
    finished: MadeExperiment, store: Store, permission: dict[str, bool]
) -> None:
    summary = finished.folder / "de-en/data/summary.json"
    content = read_json(summary)
    del content["redistributable"]
    warning = "dev and test share pairs: 2, for example a quote / ein Zitat; scores are too good"
    write_json(summary, content | permission | {"warnings": [warning]})
    write_examples(finished)
    write_text(finished.folder / "figures/attention_de-en_seed1.svg", "x\n")
    write_json(finished.run("de-en", "soft") / "attention.json", {})

    stored = store()
    names = {path.name for path in stored.rglob("*.*")}
    names |= {Path(name).name for name in archived(stored)}

    (kept,) = read_json(stored / "data.json")["data"]["de-en"]["warnings"]
    assert kept == "dev and test share pairs: 2; scores are too good"
    assert {"scores.json", "analysis.json", "bleu.svg"} < names
    assert not names & {"predictions.tsv", "attention.json"}
    assert not names & {"examples.csv", "examples.md", "attention_de-en_seed1.svg"}


def test_examples_of_an_open_task_are_stored_beside_a_closed_one(
    half_closed: MadeExperiment, tmp_path: Path
) -> None:
    write_examples(half_closed)
    reference.store(half_closed.folder, tmp_path / "stored", "a command", "a commit")
    rows = pd.read_csv(tmp_path / "stored/tables/examples.csv")
    text = (tmp_path / "stored/tables/examples.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if line.startswith("|")][2:]

    assert set(rows["task"]) == {"de-en"}
    assert shown and all(line.startswith("| de-en |") for line in shown)
    assert "let the text be passed on: en-de." in text


def test_examples_of_open_tasks_alone_are_stored_as_they_are(
    half_closed: MadeExperiment, tmp_path: Path
) -> None:
    write_examples(half_closed, task="de-en")
    reference.store(half_closed.folder, tmp_path / "stored", "a command", "a commit")
    for file in ("examples.csv", "examples.md"):
        before = (half_closed.folder / "tables" / file).read_bytes()
        assert (tmp_path / "stored/tables" / file).read_bytes() == before


def test_values_of_outputs_and_of_alignments_are_in_one_row(store: Store) -> None:
    rows = pd.read_csv(store() / "scores.csv")
    assert rows["model"].tolist() == ["soft", "postr-joint"]
    assert (rows[["ppl", "bleu_b4", "aer", "cpu_s"]] > 0).all(axis=None)


def test_nothing_is_stored_of_an_experiment_without_scores(
    finished: MadeExperiment, store: Store
) -> None:
    for path in finished.scores:
        path.unlink()
    with pytest.raises(UserError, match="no run has scores"):
        store()


def test_a_run_is_attributed_to_the_command_that_made_it(
    finished: MadeExperiment, store: Store
) -> None:
    store("one", "1")
    changed = finished.run("de-en", "soft") / "scores.json"
    write_json(changed, read_json(changed) | {"cost": {"cpu_s": 7.0, "wall_s": 7.0, "gpu_s": 0}})
    commands = read_json(store("two", "2") / "record.json")["commands"]

    assert [(command["commit"], command["runs"]) for command in commands] == [
        ("1", ["de-en/postr-joint/seed1"]),
        ("2", ["de-en/soft/seed1"]),
    ]


def test_a_command_that_went_on_is_one(finished: MadeExperiment, store: Store) -> None:
    scores = finished.run("de-en", "soft") / "scores.json"
    content = scores.read_bytes()
    scores.unlink()
    store("one", "1")
    scores.write_bytes(content)
    (command,) = read_json(store("one", "1") / "record.json")["commands"]

    assert command["runs"] == ["de-en/soft/seed1", "de-en/postr-joint/seed1"]


# Restoring.


def test_runs_are_restored_to_the_byte_and_later_than_their_data(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    results = later_run(finished, tmp_path)
    stored = store()
    outcome = reference.restore(stored, results, plan_of(finished))

    assert outcome.restored == [SOFT, JOINT]

    files = [path for path in (results / "de-en").glob("*/seed1/**/*") if path.is_file()]
    records = [path for path in files if path.name == "restored.json"]
    assert len(records) == len(outcome.restored)
    assert all(read_json(path)["commit"] == "a commit" for path in records)

    files = [path for path in files if path not in records]
    assert sorted(path.relative_to(results).as_posix() for path in files) == archived(stored)

    data = (results / "de-en/data/summary.json").stat().st_mtime_ns
    for path in files:
        if path.name != "analysis.json":  # which lacks its links
            assert path.read_bytes() == (finished.folder / path.relative_to(results)).read_bytes()
        assert path.stat().st_mtime_ns > data

    assert reference.restore(stored, results, plan_of(finished)).present == outcome.restored


@pytest.mark.parametrize("text", ["", "a", "[1]", "tasks: 1", "tasks: {de-en: }"])
def test_a_stored_experiment_that_is_none_is_an_error(
    text: str, finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    results = later_run(finished, tmp_path)
    stored = store()
    write_text(stored / "experiment.yaml", text)
    with pytest.raises(UserError) as caught:
        reference.restore(stored, results, plan_of(finished))
    assert caught.value.file == str(stored / "experiment.yaml")


def test_restored_scores_can_be_compared_again(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    results = later_run(finished, tmp_path)
    stored = store()
    reference.restore(stored, results, plan_of(finished))

    experiment = runs.load_experiment(stored / "experiment.yaml")
    (task,) = runs.load_runs(sorted(results.glob("*/*/*/scores.json")), experiment)
    (before,) = runs.load_runs(finished.scores, experiment)

    assert [run.scores for run in task.runs] == [run.scores for run in before.runs]


def test_a_run_of_another_training_config_or_of_none_is_not_restored(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    shutil.rmtree(finished.run("de-en", "soft"))
    stored = store()
    results = later_run(finished, tmp_path)
    changed = finished.config.read_text(encoding="utf-8") + "training: {epochs: 3}\n"
    write_text(finished.config, changed)

    outcome = reference.restore(stored, results, plan_of(finished))

    assert (outcome.missing, outcome.differing) == ([SOFT], [JOINT])
    assert not outcome.restored and not (results / "de-en/postr-joint").exists()


def test_a_run_of_an_earlier_form_of_the_configuration_is_not_restored(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    config = finished.run("de-en", "soft") / "run.yaml"
    write_text(config, config.read_text(encoding="utf-8") + "of_old: 1\n")
    outcome = reference.restore(store(), later_run(finished, tmp_path), plan_of(finished))
    assert (outcome.restored, outcome.differing) == ([JOINT], [SOFT])


def test_the_scripts_store_and_say_what_is_restored_and_what_is_to_be_trained(
    finished: MadeExperiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored = str(tmp_path / "stored")
    results = str(finished.folder)
    words = ["store", results, stored, "--command", "make", "--commit", "1"]
    monkeypatch.setattr(sys, "argv", words)

    assert script("store_reference").main() == 0

    # The same experiment, and one with another length of training, both with one run less.
    shutil.rmtree(finished.run("de-en", "soft"))
    config = read_yaml(finished.config)
    config["registries"] = [str(tmp_path / "registry.yaml")]
    write_json(tmp_path / "registry.yaml", registry_of("de-en", "some-gold"))
    write_json(tmp_path / "same.yaml", config)
    config["tasks"]["de-en"]["training"] = {"epochs": 3}
    write_json(tmp_path / "other.yaml", config)

    words = ["restore", stored, results, "--configfile"]
    monkeypatch.setattr(sys, "argv", [*words, str(tmp_path / "other.yaml")])

    assert script("restore_reference").main() == 0
    assert capsys.readouterr().out == (
        "0 runs restored, 1 already there\n0 to be trained, as they are not stored\n"
        "1 to be trained, as their configuration differs\n  de-en/soft/seed1\n"
    )

    monkeypatch.setattr(sys, "argv", [*words, str(tmp_path / "same.yaml")])
    assert script("restore_reference").main() == 0

    printed = capsys.readouterr().out
    assert "1 runs restored, 1 already there" in printed
    assert (
        "Alignments on de-en: left out, as it needs 1 restored run to be trained again" in printed
    )
    assert "Ask Snakemake for such a file by name" in printed

    shutil.rmtree(finished.folder / "de-en/data")
    assert script("restore_reference").main() == 2
    assert "is not prepared" in capsys.readouterr().err


def test_nothing_is_restored_before_the_data_is_prepared(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="is not prepared"):
        reference.restore(store(), tmp_path / "later", plan_of(finished))


def test_runs_of_another_experiment_are_restored_if_data_and_configuration_are_the_same(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    stored = store()
    results = later_run(finished, tmp_path)
    config = read_yaml(finished.config) | {"experiment": "another"}
    task = config["tasks"]["de-en"]
    config["tasks"] = {"de-en": task | {"format": {"train_pairs": 3}}}
    write_json(tmp_path / "other.yaml", config)
    plan = load_plan(files=[tmp_path / "other.yaml"])

    assert reference.restore(stored, results, plan).differing == [SOFT, JOINT]

    write_json(tmp_path / "same.yaml", config | {"tasks": {"de-en": task}})
    plan = load_plan(files=[tmp_path / "same.yaml"])
    assert reference.restore(stored, results, plan).restored == [SOFT, JOINT]

    # They are the other experiment's from now on, whose tables take no run of a third.
    (restored_task,) = runs.load_runs(sorted(results.glob("*/*/*/scores.json")), plan.experiment)
    assert len(restored_task.runs) == 2
    assert load_run(results / "de-en/soft/seed1/run.yaml").experiment == "another"


def test_nothing_is_restored_of_an_experiment_with_other_tasks(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    stored = store()
    config = read_yaml(finished.config)
    write_json(tmp_path / "other.yaml", config | {"tasks": {"en-de": config["tasks"]["de-en"]}})
    with pytest.raises(UserError, match=r"no task of `made-up` is in it\n.*its tasks are de-en"):
        reference.restore(stored, tmp_path, load_plan(files=[tmp_path / "other.yaml"]))


def test_nothing_is_restored_where_tables_and_figures_alone_are_stored(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    stored = store()
    (stored / "runs.tar.xz").unlink()
    with pytest.raises(UserError, match="no runs are stored"):
        reference.restore(stored, later_run(finished, tmp_path), plan_of(finished))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (member("../../outside"), "leads out of the folder"),
        (member("/outside"), "leads out of the folder"),
        (member("de-en/soft/seed1/run.yaml", 0, tarfile.SYMTYPE), "is not a plain file"),
        (member("de-en/soft/seed1/run.yaml", 0, tarfile.LNKTYPE), "is not a plain file"),
        (member("de-en/soft/seed1/device", 0, tarfile.FIFOTYPE), "is not a plain file"),
        (member("de-en/soft/seed1/large.tsv", 2000), "more than 1999 bytes"),
    ],
)
def test_an_archive_is_not_trusted(
    finished: MadeExperiment,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: tarfile.TarInfo,
    message: str,
) -> None:
    stored = store()
    results = later_run(finished, tmp_path)
    write_tar(stored / "runs.tar.xz", member("de-en/soft/seed1/scores.json"), bad)
    monkeypatch.setattr(reference, "UNPACKED", 1999)

    with pytest.raises(UserError, match=message):
        reference.restore(stored, results, plan_of(finished))
    assert [path.name for path in (results / "de-en").iterdir()] == ["data"]


def test_an_archive_that_is_cut_short_is_refused(
    finished: MadeExperiment, store: Store, tmp_path: Path
) -> None:
    stored = store()
    results = later_run(finished, tmp_path)
    archive = stored / "runs.tar.xz"
    archive.write_bytes(archive.read_bytes()[:-100])

    with pytest.raises(UserError, match="damaged or cut short"):
        reference.restore(stored, results, plan_of(finished))
    assert [path.name for path in (results / "de-en").iterdir()] == ["data"]


# The folders in results/reference/.


@pytest.mark.parametrize("folder", STORED, ids=lambda folder: folder.name)
def test_a_stored_folder_holds_valid_files_of_its_form_and_no_large_one(folder: Path) -> None:
    for path in (path for path in folder.rglob("*") if path.is_file()):
        assert path.stat().st_size <= LARGEST, path
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".csv":
            assert len(pd.read_csv(path)) > 0, path

    if folder.name == "bench":
        assert {path.suffix for path in folder.iterdir()} == {".json"}
        return

    assert {path.name for path in folder.iterdir()} - OF_RUNS == FORM

    for part, endings in reference.SHOWN.items():
        names = [path.stem for path in (folder / part).iterdir()]
        assert {path.suffix for path in (folder / part).iterdir()} == set(endings)
        assert all(names.count(name) == len(endings) for name in names)


@pytest.mark.parametrize(
    "folder", [path for path in STORED if path.name != "bench"], ids=lambda folder: folder.name
)
def test_a_stored_record_counts_the_runs_of_the_scores(folder: Path) -> None:
    record = read_json(folder / "record.json")
    experiment = read_yaml(folder / "experiment.yaml")
    scores = pd.read_csv(folder / "scores.csv")
    names = [f"{row.task}/{row.model}/seed{row.seed}" for row in scores.itertuples()]

    assert set(record) == {"runs", "cost", "machines", "commands"}
    assert record["runs"] == len(names) == sum(machine["runs"] for machine in record["machines"])

    commands = record["commands"]
    assert sorted(run for command in commands for run in command["runs"]) == sorted(names)
    assert all(set(command) == {"date", "command", "commit", "runs"} for command in commands)

    # A variant is written as its name with what it changes.
    models: set[str] = set()
    for item in experiment["models"]:
        models |= {item} if isinstance(item, str) else set(item)

    assert set(scores["model"]) <= models
    assert set(scores["task"]) <= set(experiment["tasks"])

    if (folder / "runs.tar.xz").exists():
        assert {str(Path(*Path(name).parts[:3])) for name in archived(folder)} == set(names)
