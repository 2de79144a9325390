"""The learning rate rises, stays and falls as the configuration says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from pam.experiments.settings import Training
from pam.training.learning_rate import learning_rate


def rates(steps: int = 100, **training: Any) -> list[float]:
    chosen = Training.model_validate({"learning_rate": 0.002, "warmup_steps": 10, **training})
    return [learning_rate(chosen, step, steps) for step in range(steps)]


def test_it_rises_linearly_over_the_warm_up_to_its_highest_value() -> None:
    rates_of_run = rates()
    assert rates_of_run[:10] == pytest.approx([0.0002 * step for step in range(1, 11)])
    assert max(rates_of_run) == 0.002


def test_it_stays_until_the_share_of_the_run_that_is_flat() -> None:
    assert set(rates(flat=0.4)[9:41]) == {0.002}
    assert rates(flat=0.4)[41] < 0.002


def test_it_falls_linearly_to_zero_at_the_end_of_the_run() -> None:
    rates_of_run = rates(flat=0.4)
    assert rates_of_run[40:] == pytest.approx(
        [0.002 * (100 - step) / 60 for step in range(40, 100)]
    )
    training = Training.model_validate({"flat": 0.4})
    assert learning_rate(training, 100, 100) == 0.0


def test_a_run_that_is_all_flat_never_falls() -> None:
    assert set(rates(flat=1.0)[9:]) == {0.002}


def test_without_warm_up_the_first_step_is_at_full_rate() -> None:
    assert rates(warmup_steps=0)[0] == 0.002


def test_a_warm_up_longer_than_the_run_still_gives_positive_rates() -> None:
    rates_of_run = rates(steps=5, warmup_steps=100)
    assert all(0 < rate < 0.002 for rate in rates_of_run)


def test_an_inverse_root_rises_to_its_highest_rate_and_falls_with_the_root_of_the_step() -> None:
    rates_of_run = rates(schedule="inverse_sqrt", flat=0.0)
    assert rates_of_run[:10] == pytest.approx([0.0002 * step for step in range(1, 11)])
    assert rates_of_run[10:] == pytest.approx(
        [0.002 * math.sqrt(10 / step) for step in range(11, 101)]
    )

    without_warm_up = rates(schedule="inverse_sqrt", warmup_steps=0)
    assert without_warm_up == pytest.approx([0.002 / math.sqrt(step) for step in range(1, 101)])


BOUNDS = [3.0, 3.5, 2.0, 2.0, 2.5, 2.2, 1.0]  # worse than the best before: epochs 2, 5 and 6


@pytest.mark.parametrize(
    ("first", "halvings"),
    [
        (1, [0, 0, 1, 1, 1, 2, 3, 3]),
        (2, [0, 0, 1, 1, 1, 2, 3, 3]),
        (3, [0, 0, 0, 0, 0, 1, 2, 2]),
        (6, [0] * 6 + [1, 1]),
    ],
)
def test_on_a_plateau_the_rate_is_halved_after_epochs_that_are_not_the_best_so_far(
    first: int, halvings: list[int]
) -> None:
    training = Training.model_validate(
        {"schedule": "plateau", "halve_from": first, "learning_rate": 0.002, "warmup_steps": 0}
    )
    rates_of_epochs = [
        learning_rate(training, 10 * epoch, 80, BOUNDS[:epoch]) for epoch in range(8)
    ]

    assert rates_of_epochs == pytest.approx([0.002 * 0.5**times for times in halvings])


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "noam"},
        {"halve_from": 0},
        {"normalize": "words"},
        {"adam_betas": [0.9]},
        {"adam_betas": [0.9, 1.0]},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Training.model_validate(wrong)


def test_a_halving_rate_is_halved_from_a_step_on_and_then_at_every_so_many() -> None:
    rates_of_run = rates(schedule="halving", halve_after=50, halve_every=20, warmup_steps=0)
    assert set(rates_of_run[:50]) == {0.002}
    assert set(rates_of_run[50:70]) == {0.001}
    assert set(rates_of_run[70:90]) == {0.0005}
    assert set(rates_of_run[90:]) == {0.00025}
