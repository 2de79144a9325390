"""A model that is joined from others, through the workflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workflow.checkouts import Checkout, checkout, with_own_data

pytestmark = pytest.mark.slow

RUNS = "results/tiny/nouns"
TABLE = "results/tiny/tables/table2.csv"


@pytest.fixture
def joined(tmp_path: Path) -> Checkout:
    made = with_own_data(checkout(tmp_path / "joined"))
    made.write("config/models/both.yaml", "label: Both\nmembers: [soft, mono-postr-joint]\n")
    made.edit("own/experiment.yaml", "mono-postr-joint]", "mono-postr-joint, both]")
    return made


def test_an_ensemble_is_joined_decoded_and_scored_beside_its_members(joined: Checkout) -> None:
    outcome = joined.run(TABLE, "--configfile", "own/experiment.yaml")
    assert outcome.code == 0, outcome.said
    assert (outcome.jobs["train_run"], outcome.jobs["join_ensemble"]) == (2, 1)

    def content(model: str, file: str) -> dict[str, float]:
        path = joined.folder / RUNS / model / "seed1" / file
        found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        return found

    members = [content(model, "training.json") for model in ("soft", "mono-postr-joint")]
    both = content("both", "training.json")
    assert both["parameters"] == sum(member["parameters"] for member in members)
    assert "accuracy" in content("both", "scores.json")["metrics"]
    assert joined.plan(TABLE, "--configfile", "own/experiment.yaml").jobs.total() == 0
    # A member that is trained anew is joined anew.
    joined.edit("own/experiment.yaml", "epochs: 1", "epochs: 2")
    again = joined.plan(TABLE, "--configfile", "own/experiment.yaml")
    assert again.jobs["join_ensemble"] == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("[soft, both]", "`both` cannot be joined"),
        ("[soft, hard-mono]", "`hard-mono` cannot be joined"),
        ("[soft, sofd]", "unknown model `sofd`"),
    ],
)
def test_members_that_do_not_fit_end_the_run_before_it_starts(
    joined: Checkout, members: str, message: str
) -> None:
    name = "both" if "both" not in members else "three"
    joined.write(f"config/models/{name}.yaml", f"label: Wrong\nmembers: {members}\n")
    joined.edit("own/experiment.yaml", "both]", f"{name}]")
    outcome = joined.plan("all", "--configfile", "own/experiment.yaml")
    assert outcome.code != 0
    assert message in outcome.said and f"config/models/{name}.yaml:2" in outcome.said
