"""An experiment goes on from runs that were stored under results/reference/."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from pam.experiments.check import check_experiment
from pam.experiments.loading import load_plan
from pam.experiments.yaml import read_yaml
from pam.reporting.reference import ARCHIVE, EXPERIMENT, Outcome, restore, store
from pam.runtime.errors import UserError
from pam.runtime.files import write_json, write_text
from pam.workflow import JobInputs, ReportFiles, WorkflowFiles
from tests.workflow.checkouts import ROOT, Checkout, checkout
from tests.workflow.conftest import OWN

STORED = [path.parent for path in sorted(ROOT.glob(f"results/reference/*/{ARCHIVE}"))]


def restored(
    stored: Path, results: Path, config: Path | None = None
) -> tuple[WorkflowFiles, Outcome]:
    """Restore the runs of an experiment beside files that stand for its prepared data."""
    files = files_of(config or stored / EXPERIMENT, results)
    for name, task in files.experiment.tasks.items():
        patterns = files.prepared("train", "dev", "test")
        if task.word_alignments:
            patterns += files.prepared_gold()
        for pattern in patterns:
            write_text(pattern.format(task=name), "")

    return files, restore(stored, results, files.plan)


def files_of(config: Path, results: Path) -> WorkflowFiles:
    plan, datasets = check_experiment(None, [str(config)])
    return WorkflowFiles(plan, datasets, results)


def files_of_the_page(flow: WorkflowFiles) -> list[str]:
    """List the files of runs that tables and figures of a page are made of."""
    report = ReportFiles(flow.plan, flow)
    inputs = JobInputs(flow.plan, {}, flow)
    files = flow.of_runs("scores.json")
    for target in [*report.tables(), *report.figures()]:
        path = Path(target)
        name = path.stem
        if name.startswith("attention_"):
            task, _, seed = name.removeprefix("attention_").rpartition("_seed")
            for models in (flow.baseline, flow.posterior, flow.more_attention):
                wildcards = SimpleNamespace(task=task, seed=seed)
                files += inputs.of_models(models, "attention.json")(wildcards)
        else:
            kind = path.parent.name.removesuffix("s")  # a table or a figure
            options = report.inputs()(SimpleNamespace(**{kind: name}))
            files += [file for option in options.values() for file in option]

    runs = [str(flow.run_of(*run).path) for run in flow.experiment.runs()]

    return [file for file in files if file.startswith(tuple(f"{run}/" for run in runs))]


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored.name)
def test_the_page_of_each_stored_experiment_is_made_of_what_is_stored(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    flow, outcome = restored(stored, tmp_path / "results")

    assert outcome.restored == list(flow.experiment.runs())

    flow.check_restored()
    files = files_of_the_page(flow)

    assert len(files) > len(outcome.restored)
    assert [file for file in files if not Path(file).exists()] == []


def test_restored_captions_have_a_page_and_a_figure_asked_for_by_name_trains_its_two_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkout(tmp_path / "checkout")
    monkeypatch.chdir(made.folder)
    results = Path("results/captions")
    config = Path("config/captions.yaml")
    flow, _ = restored(ROOT / "results/reference/captions", results, config)

    left_out = ReportFiles(flow.plan, flow).left_out()

    assert [(item.target, len(item.runs)) for item in left_out] == [
        ("results/captions/tables/caption_examples.csv", 40),
        ("results/captions/figures/attention_msrvtt-1000_seed1.svg", 2),
    ]

    page = made.plan("--configfile", str(config))
    assert page.code == 0, page.said
    assert (page.jobs["write_page"], page.trained) == (1, set())

    figure = made.plan(
        "results/captions/figures/attention_msrvtt-1000_seed1.svg", "--configfile", str(config)
    )

    assert figure.trained == {
        f"{model} on msrvtt-1000, seed 1" for model in ("soft", "postr-joint")
    }


def test_a_model_that_starts_from_a_restored_one_has_that_trained_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    stored = ROOT / "results/reference/nucleus"
    config = read_yaml(stored / EXPERIMENT)
    models = [*config["models"], "joined"]
    write_text(
        tmp_path / "config/models/joined.yaml",
        "label: Joined\nmembers: [postr-joint, postr-joint-top6]\n",
    )
    write_json(tmp_path / "more.yaml", config | {"models": models})
    monkeypatch.chdir(tmp_path)
    _, outcome = restored(stored, tmp_path / "results", tmp_path / "more.yaml")

    assert outcome.missing == [("multi30k-de-en", "joined", 1)]
    assert outcome.again == [
        ("multi30k-de-en", model, 1) for model in ("postr-joint", "postr-joint-top6")
    ]


def test_a_configuration_that_is_changed_after_restoring_is_not_shown_the_restored_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    stored = ROOT / "results/reference/nucleus"
    restored(stored, tmp_path / "results")
    config = read_yaml(stored / EXPERIMENT)
    write_json(tmp_path / "changed.yaml", config | {"training": config["training"] | {"epochs": 3}})
    flow = files_of(tmp_path / "changed.yaml", tmp_path / "results")

    with pytest.raises(
        UserError, match="was restored, and its configuration has changed since"
    ) as told:
        flow.check_restored()
    assert str(told.value.file).endswith("results/multi30k-de-en/postr-joint/seed1")


def test_restored_runs_are_shown_again_without_training(finished: Checkout) -> None:
    results = finished.folder / "results/tiny"
    stored = finished.folder / "stored"
    plan = load_plan(files=[finished.folder / OWN[1]])
    store(results, stored, "snakemake", "some commit")
    (results / "report.html").unlink()
    for name in ("tables", "figures"):
        shutil.rmtree(results / name)
    # Times alone say what is up to date, as where the runs were made by somebody else.
    shutil.rmtree(finished.folder / ".snakemake")

    as_trained = finished.plan(*OWN)

    assert as_trained.jobs["write_report"] == 1 and not as_trained.trained

    for model in plan.experiment.model_names:
        shutil.rmtree(results / "nouns" / model)
    assert len(finished.plan(*OWN).trained) == 2

    restored_runs = restore(stored, results, plan).restored
    outcome = finished.plan(*OWN)

    assert restored_runs == list(plan.experiment.runs())
    assert outcome.code == 0, outcome.said
    assert outcome.jobs == as_trained.jobs


def test_only_the_model_that_is_not_stored_is_trained(finished: Checkout) -> None:
    results = finished.folder / "results/tiny"
    stored = finished.folder / "stored"
    store(results, stored, "snakemake", "some commit")
    finished.edit(OWN[1], "models: [soft,", "models: [soft, sparse,")
    shutil.rmtree(results / "nouns/soft")
    plan = load_plan(files=[finished.folder / OWN[1]])

    assert restore(stored, results, plan).missing == [("nouns", "sparse", 1)]

    outcome = finished.plan(*OWN)
    assert outcome.code == 0, outcome.said
    assert outcome.trained == {"sparse on nouns, seed 1"}
