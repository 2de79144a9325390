"""Models that take more than one training of one process, all in one run: trained by several
processes, started from others, joined from others, with components of one's own.
"""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.checkouts import Checkout, Outcome, checkout, with_own_data
from tests.workflow.conftest import OWN
from tests.workflow.test_own_model import PAGE, SHARP, write_lab
from tests.workflow.test_starts import STARTED, trained

pytestmark = pytest.mark.slow

RESULTS = Path("results/tiny")
TABLES = tuple(str(RESULTS / f"tables/{name}.csv") for name in ("table2", "costs"))
MODELS = f"[soft, {STARTED}, sharp, cosine-postr-joint, both]"


@dataclass(frozen=True)
class Whole:
    """A checkout in which these models were trained, decoded and scored."""

    made: Checkout
    python_path: str
    outcome: Outcome

    def plan(self, made: Checkout) -> Outcome:
        """Return what a second run would do in a checkout, which may be a changed copy."""
        return made.plan(*TABLES, *OWN, PYTHONPATH=self.python_path)

    def content(self, model: str, file: str) -> dict[str, Any]:
        path = self.made.folder / RESULTS / "nouns" / model / "seed1" / file
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def rows(self, table: str) -> list[str]:
        """Return the model of each row of a table."""
        with open(self.made.folder / RESULTS / f"tables/{table}.csv", encoding="utf-8") as file:
            return [row["model"] for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The run of all, with one package beside the repository and one inside; not to be changed."""
    folder = tmp_path_factory.mktemp("special")
    lab = write_lab(folder / "lab")
    made = with_own_data(checkout(folder / "checkout"))
    for name, text in PAGE.items():
        made.write(name, text)

    made.write("config/models/sharp.yaml", SHARP)
    made.write("config/models/both.yaml", "label: Both\nmembers: [soft, sharp]\n")
    plugins = "plugins: [ourlab.attention, mylab.attention]"
    made.edit("own/experiment.yaml", "[soft, mono-postr-joint]", f"{MODELS}\n{plugins}")
    resources = "resources: {models: {soft: {processes: 2}}}"
    made.edit("own/experiment.yaml", "device: cpu", f"{resources}\ndevice: cpu")

    python_path = f"{lab}:{made.folder}"
    return Whole(made, python_path, made.run(*TABLES, *OWN, PYTHONPATH=python_path))


def test_all_are_trained_and_what_a_model_starts_from_is_trained_before_it(whole: Whole) -> None:
    outcome = whole.outcome

    assert outcome.code == 0, outcome.said

    models = ["soft", "fertility-init", "agreement-init", "sharp", "cosine-postr-joint"]
    assert outcome.trained == trained("structural", "soft-reversed", *models)
    assert outcome.jobs["train_run"] == len(models) + 2
    assert outcome.jobs["join_ensemble"] == 1
    assert outcome.jobs["predict_run"] == outcome.jobs["score_run"] == len(models) + 1


def test_a_training_of_two_processes_is_launched(whole: Whole) -> None:
    assert "Training soft on nouns, seed 1: 2 thread(s)" in whole.outcome.said
    assert whole.content("soft", "training.json")["processes"] == 2
    assert whole.content("sharp", "training.json")["processes"] == 1


def test_a_training_starts_from_another(whole: Whole) -> None:
    started = [str(RESULTS / f"nouns/{name}/seed1/model") for name in ("soft", "soft-reversed")]
    assert whole.content("agreement-init", "training.json")["init_from"] == started

    log = whole.made.folder / RESULTS / "logs/nouns/fertility-init/seed1/train.log"
    text = log.read_text(encoding="utf-8")
    assert "starting from" in text and "initialized: " in text


def test_what_a_model_starts_from_is_no_row(whole: Whole) -> None:
    models = set(whole.rows("table2"))

    assert models == {
        *("soft", "fertility-init", "agreement-init"),
        *("sharp", "cosine-postr-joint", "both"),
    }


def test_an_ensemble_is_joined_decoded_and_scored_beside_its_members(whole: Whole) -> None:
    members = [whole.content(model, "training.json") for model in ("soft", "sharp")]
    both = whole.content("both", "training.json")

    assert both["parameters"] == sum(member["parameters"] for member in members)
    assert "accuracy" in whole.content("both", "scores.json")["metrics"]


def test_models_of_the_page_and_of_a_package_elsewhere_have_their_costs(whole: Whole) -> None:
    assert {"soft", "sharp", "cosine-postr-joint"} <= set(whole.rows("costs"))


def test_a_second_run_does_nothing(whole: Whole) -> None:
    assert "Nothing to be done" in whole.plan(whole.made).said


def test_each_follows_the_changes_of_what_it_was_made_from(whole: Whole, tmp_path: Path) -> None:
    made = whole.made.copy(tmp_path / "checkout")
    lab = shutil.copytree(whole.python_path.split(":")[0], tmp_path / "lab")
    # One process or two: the result is the same.
    made.edit("own/experiment.yaml", "{processes: 2}", "{processes: 1}")
    made.edit("config/models/structural.yaml", "label:", "training: {clip: 1.0}\nlabel:")
    for module in (lab / "ourlab/sharp.py", made.folder / "mylab/cosine.py"):
        with open(module, "a", encoding="utf-8") as file:
            file.write("\nNEW = 1\n")

    outcome = made.plan(*TABLES, *OWN, PYTHONPATH=f"{lab}:{made.folder}")

    assert outcome.code == 0, outcome.said
    again = ["structural", "fertility-init", "sharp", "cosine-postr-joint"]
    assert outcome.trained == trained(*again)
    # A member is trained anew.
    assert outcome.jobs["join_ensemble"] == 1
