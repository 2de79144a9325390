"""Models that start from trained ones, as edges of the workflow.

What a run makes of them is tested in test_special_models.py.
"""

from __future__ import annotations

import json

import pytest

from tests.variants import UNLISTED
from tests.workflow.checkouts import Checkout
from tests.workflow.conftest import OWN, refusal

MODELS = "models: [soft, mono-postr-joint]"
STARTED = ", ".join(
    f"{{{name}: {json.dumps(UNLISTED[name])}}}" for name in ("fertility-init", "agreement-init")
)


def trained(*models: str) -> set[str]:
    return {f"{model} on nouns, seed 1" for model in models}


def test_a_run_outside_the_experiments_lists_has_what_it_starts_from_trained(
    fresh: Checkout,
) -> None:
    fresh.edit("own/experiment.yaml", MODELS, f"models: [soft, {STARTED}]")

    outcome = fresh.plan("results/tiny/nouns/fertility-init/seed3/training.json", *OWN)

    assert outcome.code == 0, outcome.said
    models = ("structural", "fertility-init")
    assert outcome.trained == {f"{model} on nouns, seed 3" for model in models}


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
    own: Checkout, start: str, message: str
) -> None:
    own.edit("own/experiment.yaml", MODELS, "models: [soft, mine]")
    own.write("config/models/mine.yaml", f"label: Mine\ninit_from: {start}\n")
    own.write("config/models/yours.yaml", "label: Yours\ninit_from: mine\n")
    own.write("config/models/theirs.yaml", "label: Theirs\ninit_from: theirs\n")
    own.write("config/models/wide.yaml", "label: Wide\nnetwork: {decoder: 32}\n")

    error = refusal()

    assert message in error
    owner = {"yours": "yours", "theirs": "theirs"}.get(start, "mine")
    assert f"config/models/{owner}.yaml:2" in error


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
    own: Checkout, models: str, message: str
) -> None:
    own.edit("own/experiment.yaml", MODELS, f"models: {models}")
    own.write("config/models/both.yaml", "label: Both\nmembers: [soft, soft-reversed]\n")
    wrong = "label: Wrong\narchitecture: agreement\ninit_from: {backward: soft}\n"
    own.write("config/models/turned.yaml", wrong)

    assert message in refusal()
