"""A run goes on from what is kept in results/reference/."""

from __future__ import annotations

from pathlib import Path

from pam.experiment import Plan, load_plan
from pam.io import write_text
from pam.reporting.reference import take
from tests.workflow.checkouts import ROOT, Checkout, checkout

CONFIG = "config/attentions.yaml"
VOCABULARIES = ("source.vocab", "target.vocab", "summary.json")
SPLITS = [f"{name}.{kind}" for name in ("train", "dev", "test") for kind in ("tsv", "safetensors")]
LINKS = ("gold.tsv", "gold.safetensors", "links.json", "codec.json")
MAKING = [f"{verb}_run" for verb in ("train", "join", "predict", "analyze", "score", "attend")]


def prepare(made: Checkout, plan: Plan) -> None:
    """Puts empty files there for all that is made of the attentions's data, which nobody reads here."""
    for name, task in plan.experiment.tasks.items():
        files = [f"data/{file}" for file in (*VOCABULARIES, *SPLITS)]
        files += [f"gold/{file}" for file in (*VOCABULARIES, *LINKS) if task.word_alignments]
        for file in files:
            write_text(made.folder / "results/attentions" / name / file, "")


def test_the_kept_attentions_is_that_of_the_configuration_and_shown_again_without_training(
    tmp_path: Path,
) -> None:
    made = checkout(tmp_path / "checkout")
    plan = load_plan(files=[ROOT / CONFIG])
    prepare(made, plan)
    found = take(ROOT / "results/reference/attentions", made.folder / "results/attentions", plan)
    assert (found.missing, found.other) == ([], [])
    outcome = made.plan("--configfile", CONFIG)
    assert outcome.code == 0, outcome.said
    assert outcome.jobs["write_report"] == 1
    assert [rule for rule in MAKING if rule in outcome.jobs] == []
