"""Several processes for one training, as the workflow starts them."""

from __future__ import annotations

import json

import pytest

from tests.workflow.checkouts import Checkout
from tests.workflow.conftest import OWN

pytestmark = pytest.mark.slow


def test_a_training_of_two_processes_is_launched_and_not_done_again_by_one(fresh: Checkout) -> None:
    target = "results/tiny/nouns/soft/seed1/training.json"
    fresh.edit("own/experiment.yaml", "device: cpu", "resources: {processes: 2}\ndevice: cpu")
    outcome = fresh.run(target, *OWN)
    assert outcome.code == 0, outcome.said
    assert "2 thread(s)" in outcome.said
    record = json.loads((fresh.folder / target).read_text(encoding="utf-8"))
    assert record["processes"] == 2
    fresh.edit("own/experiment.yaml", "{processes: 2}", "{processes: 1}")
    assert "Nothing to be done" in fresh.plan(target, *OWN).said
