"""Options that follow a schedule: their values, and that each reaches the objective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from pam.experiments.loading import load_plan
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import parse
from pam.models.schedules import Delayed, Linear, Scheduled
from pam.runtime.errors import UserError
from tests.models import tiny

RISING = {"kind": "linear", "first": 0.1, "last": 1, "begin": 0.5, "end": 0.75}
LATE = {"kind": "delayed", "value": 0.5, "after": 0.5}


def components(**parts: Any) -> ModelConfig:
    return parse(ModelConfig, {"label": "Own", **parts}, "own.yaml")


def test_a_linear_schedule_holds_then_rises_then_holds() -> None:
    values = [Linear(first=0.1, last=1.0, begin=0.5, end=0.75).at(step, 8) for step in range(8)]
    assert values == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1, 0.55, 1.0, 1.0])


def test_a_delayed_schedule_changes_at_its_time_in_shares_or_in_steps() -> None:
    assert [Delayed(value=1.0, after=0.5).at(step, 4) for step in range(4)] == [0, 0, 1, 1]
    late = Delayed(value=1.0, before=0.25, after=3, unit="steps")
    assert [late.at(step, 1000) for step in range(4)] == [0.25, 0.25, 0.25, 1]


def test_a_number_stays_a_number_when_it_is_written() -> None:
    assert components(latent={"kind": "acvi", "weight": 1}).model_dump()["latent"]["weight"] == 1.0
    made = components(latent={"kind": "acvi", "weight": RISING})
    assert parse(ModelConfig, made.model_dump(), "again.yaml") == made


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("high", "`latent.weight`: input should be a number, or a schedule"),
        (True, "input should be a number"),
        (-1, "input should be from 0 to 1e+06"),
        ({"kind": "cosine"}, "unknown schedule `cosine`"),
        ({**RISING, "first": -0.1}, "input should be from 0"),
        ({**RISING, "end": 0.5}, "`end` is not after `begin`"),
        ({**RISING, "end": 700}, "a share above 1"),
        ({**LATE, "after": 20}, "a share above 1"),
        ({"kind": "linear", "first": 0}, "last"),
        ({**RISING, "until": 1}, "until"),
    ],
)
def test_a_schedule_that_cannot_be_followed_is_refused(weight: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        components(latent={"kind": "acvi", "weight": weight})
    assert message in str(caught.value)


def test_a_share_and_a_temperature_have_their_own_bounds() -> None:
    with pytest.raises(Exception, match="from 0 to 1"):
        Scheduled(0, 1).read({**LATE, "value": 1.5})
    assert Scheduled(0, 1).read(LATE) == Delayed(value=0.5, after=0.5)


@pytest.mark.parametrize("kind", ["sudden", 0.0, [1], {"a": 1}, None])
def test_a_schedule_that_nobody_knows_is_refused_at_its_line(kind: Any, tmp_path: Path) -> None:
    options = {"score": {"coverage": {"active": {"kind": kind, "value": 1, "after": 0.9}}}}
    file = tmp_path / "experiment.yaml"
    tasks = {"nouns": {"dataset": "small", "options": options}}
    file.write_text(
        yaml.safe_dump({"experiment": "tiny", "models": ["soft"], "tasks": tasks}), encoding="utf-8"
    )
    with pytest.raises(UserError, match="unknown schedule") as caught:
        load_plan(files=[file])

    assert caught.value.line is not None and caught.value.hint


PARTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("acvi", "latent", "weight", {"kind": "acvi"}),
    ("acvi", "latent", "temperature", {"kind": "acvi", "last": 1}),
    ("ved", "latent", "weight", {"kind": "ved"}),
    ("variational", "marginalization", "weight", {"kind": "bound"}),
    ("variational-gumbel", "estimator", "temperature", {"kind": "gumbel"}),
    ("hard", "estimator", "entropy", {"kind": "reinforce"}),
    ("hard", "estimator", "expected", {"kind": "reinforce"}),
    ("fertility", "score", "global_fertility", {"kind": "structural"}),
]


@pytest.mark.parametrize(("name", "component", "option", "fixed"), PARTS)
def test_the_objective_follows_the_schedule_of_every_option(
    name: str, component: str, option: str, fixed: dict[str, Any]
) -> None:
    """At each time the objective is that of a model with the present value as a constant."""
    schedule = {"kind": "delayed", "value": 0.9, "before": 0.3, "after": 0.5}
    batch = tiny.batch()

    def objective(value: Any, step: int | None) -> float:
        model = tiny.model(tiny.components(name, **{component: {**fixed, option: value}})).train()
        if step is not None:
            model.progress(step, 100)
        torch.manual_seed(3)
        return float(model.objective(*batch).sum().detach())

    early, late, done = (objective(schedule, step) for step in (20, 60, None))

    assert early != late
    assert (early, late) == (objective(0.3, 20), objective(0.9, 60))
    assert done == objective(0.9, None)
