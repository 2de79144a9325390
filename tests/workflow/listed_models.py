"""Experiments of `soft` and a few more models, for tests of how models are written in them."""

from __future__ import annotations

from pathlib import Path

from pam.experiments.loading import load_plan
from pam.experiments.plan import Plan

HEAD = "experiment: mine\ntasks:\n  nouns: {dataset: de-noun}\nmodels:\n  - soft\n"


def load(models: str) -> Plan:
    """Return the plan of an experiment with `soft` and these models."""
    Path("mine.yaml").write_text(HEAD + models, encoding="utf-8")
    return load_plan(files=["mine.yaml"])


def load_all(models: str) -> None:
    """Load an experiment with `soft` and these models, and the configuration of every run."""
    plan = load(models)
    for name in plan.experiment.model_names:
        plan.run("nouns", name, 1)
