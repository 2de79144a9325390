"""Models that start from trained ones, as edges of the workflow."""

from __future__ import annotations

import json

import pytest

from tests.variants import UNLISTED
from tests.workflow.checkouts import Checkout
from tests.workflow.conftest import OWN

TABLE = "results/tiny/tables/table2.csv"
MODELS = "models: [soft, mono-postr-joint]"
STARTED = ", ".join(
    f"{{{name}: {json.dumps(UNLISTED[name])}}}" for name in ("fertility-init", "agreement-init")
)


def trained(*models: str) -> set[str]:
    return {f"{model} on nouns, seed 1" for model in models}


def test_what_a_model_starts_from_is_trained_before_it_and_is_no_row(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", MODELS, f"models: [soft, {STARTED}]")
    outcome = fresh.plan("tables", *OWN)
    assert outcome.code == 0, outcome.said
    assert outcome.trained == trained(
        "soft", "structural", "fertility-init", "soft-reversed", "agreement-init"
    )
    assert outcome.jobs["predict_run"] == outcome.jobs["score_run"] == 3
    alone = fresh.plan("results/tiny/nouns/fertility-init/seed3/training.json", *OWN)
    assert alone.trained == {
        f"{model} on nouns, seed 3" for model in ("structural", "fertility-init")
    }


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("strutural", "unknown model `strutural`"),
        ("mine", "`mine` cannot start from `mine`, which starts from it in turn"),
        ("yours", "`yours` cannot start from `mine`, which starts from it in turn"),
        ("theirs", "`theirs` cannot start from `theirs`, which starts from it in turn"),
        ("ensemble", "`mine` cannot start from `ensemble`, which is an ensemble"),
        ("hard-mono", "`mine` cannot start from `hard-mono`, which writes actions"),
        (
            "soft-reversed",
            "`mine` cannot start from `soft-reversed`, which learns from target to source",
        ),
        ("wide", "`mine` has `network.decoder` 16 on `nouns`, `wide` has 32"),
    ],
)
def test_what_cannot_be_started_from_ends_the_run_before_it_starts(
    fresh: Checkout, start: str, message: str
) -> None:
    fresh.edit("own/experiment.yaml", MODELS, "models: [soft, mine]")
    fresh.write("config/models/mine.yaml", f"label: Mine\ninit_from: {start}\n")
    fresh.write("config/models/yours.yaml", "label: Yours\ninit_from: mine\n")
    fresh.write("config/models/theirs.yaml", "label: Theirs\ninit_from: theirs\n")
    fresh.write("config/models/wide.yaml", "label: Wide\nnetwork: {decoder: 32}\n")
    outcome = fresh.plan("all", *OWN)
    assert outcome.code != 0
    assert message in outcome.said and "Traceback" not in outcome.said
    owner = {"yours": "yours", "theirs": "theirs"}.get(start, "mine")
    assert f"config/models/{owner}.yaml:2" in outcome.said and "hint: " in outcome.said


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (
            "[soft, soft-reversed]",
            "`soft-reversed` learns from target to source and has no outputs",
        ),
        ("[soft, both]", "`soft-reversed` cannot be in one ensemble with the other members"),
        ("[soft, turned]", "`turned` cannot start from `soft`, which learns from source to target"),
    ],
)
def test_a_reversed_model_is_good_for_starting_others_alone(
    fresh: Checkout, models: str, message: str
) -> None:
    fresh.edit("own/experiment.yaml", MODELS, f"models: {models}")
    fresh.write("config/models/both.yaml", "label: Both\nmembers: [soft, soft-reversed]\n")
    wrong = "label: Wrong\narchitecture: agreement\ninit_from: {backward: soft}\n"
    fresh.write("config/models/turned.yaml", wrong)
    outcome = fresh.plan("all", *OWN)
    assert outcome.code != 0
    assert message in outcome.said and "Traceback" not in outcome.said


@pytest.mark.slow
def test_a_training_starts_from_another_and_follows_its_changes(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", MODELS, f"models: [soft, {STARTED}]")
    outcome = fresh.run(TABLE, *OWN)
    assert outcome.code == 0, outcome.said
    results = fresh.folder / "results/tiny"
    record = json.loads(
        (results / "nouns/agreement-init/seed1/training.json").read_text(encoding="utf-8")
    )
    started = [f"results/tiny/nouns/{model}/seed1/model" for model in ("soft", "soft-reversed")]
    assert record["init_from"] == started
    rows = (results / "tables/table2.csv").read_text(encoding="utf-8")
    assert "fertility-init" in rows and ",structural," not in rows and "soft-reversed" not in rows
    log = (results / "logs/nouns/fertility-init/seed1/train.log").read_text(encoding="utf-8")
    assert "starting from" in log and "initialized: " in log
    assert fresh.plan(TABLE, *OWN).jobs.total() == 0
    # What is trained otherwise is started from anew; the others stay.
    fresh.edit("config/models/structural.yaml", "label:", "training: {clip: 1.0}\nlabel:")
    assert fresh.plan(TABLE, *OWN).trained == trained("structural", "fertility-init")
