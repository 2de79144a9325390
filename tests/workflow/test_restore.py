"""An experiment goes on from runs that were stored under results/reference/."""

from __future__ import annotations

import shutil

from pam.experiment import load_plan
from pam.reporting.reference import restore, store
from tests.workflow.checkouts import Checkout
from tests.workflow.conftest import OWN


def test_restored_runs_are_shown_again_without_training(finished: Checkout) -> None:
    results, stored = finished.folder / "results/tiny", finished.folder / "stored"
    plan = load_plan(files=[finished.folder / OWN[1]])
    store(results, stored, "snakemake", "some commit")
    (results / "report.html").unlink()
    for name in ("tables", "figures"):
        shutil.rmtree(results / name)
    # Times alone say what is up to date, as where the runs were made by somebody else.
    shutil.rmtree(finished.folder / ".snakemake")
    shown = finished.plan(*OWN)
    assert shown.jobs["write_report"] == 1 and not shown.trained

    for model in plan.experiment.model_names:
        shutil.rmtree(results / "nouns" / model)
    assert len(finished.plan(*OWN).trained) == 2
    found = restore(stored, results, plan)
    assert found.restored == list(plan.experiment.runs())
    outcome = finished.plan(*OWN)
    assert outcome.code == 0, outcome.said
    assert outcome.jobs == shown.jobs


def test_only_the_model_that_is_not_stored_is_trained(finished: Checkout) -> None:
    results, stored = finished.folder / "results/tiny", finished.folder / "stored"
    store(results, stored, "snakemake", "some commit")
    finished.edit(OWN[1], "models: [soft,", "models: [soft, sparse,")
    shutil.rmtree(results / "nouns/soft")
    plan = load_plan(files=[finished.folder / OWN[1]])
    assert restore(stored, results, plan).missing == [("nouns", "sparse", 1)]
    outcome = finished.plan(*OWN)
    assert outcome.code == 0, outcome.said
    assert outcome.trained == {"sparse on nouns, seed 1"}
