"""The rule of verdicts, case by case."""

from __future__ import annotations

import pytest

from pam.evaluation.bootstrap import LEVEL, RESAMPLES, Interval
from pam.reporting.comparison import RULE, judge


@pytest.mark.parametrize(
    ("paper", "low", "high", "word"),
    [
        (85.5, 84.0, 87.0, "reproduced"),
        (85.5, 85.5, 87.0, "reproduced"),
        (85.5, 86.0, 88.0, "not reproduced"),
        (85.5, 80.0, 85.0, "not reproduced"),
    ],
)
def test_the_baseline_is_judged_by_its_level(paper: float, low: float, high: float, word: str) -> None:
    assert judge(paper, Interval(low, high), same_data=True, seeds=5, gain=False).word == word


@pytest.mark.parametrize(
    ("paper", "low", "high", "word"),
    [
        (1.4, 0.2, 2.0, "reproduced"),
        (1.4, 2.0, 3.0, "reproduced"),
        (1.4, 0.1, 0.9, "reproduced"),
        (1.4, -0.5, 1.0, "not reproduced"),
        (1.4, -2.0, -0.5, "not reproduced"),
        (1.4, -0.5, 2.0, "cannot tell"),
        (1.4, 0.0, 2.0, "cannot tell"),
        (-1.4, -2.0, -0.2, "reproduced"),
        (-1.4, -1.0, 0.5, "not reproduced"),
        (-1.4, 0.3, 0.5, "not reproduced"),
        (-1.4, -2.0, 0.5, "cannot tell"),
        (0.0, -0.5, 0.5, "cannot tell"),
        (0.0, 0.1, 0.5, "not reproduced"),
    ],
)
def test_other_models_are_judged_by_their_gain(paper: float, low: float, high: float, word: str) -> None:
    assert judge(paper, Interval(low, high), same_data=True, seeds=5, gain=True).word == word


@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize(
    ("paper", "same_data", "seeds", "reason"),
    [
        (None, True, 5, "the paper has no figure"),
        (1.0, False, 5, "other data than the paper's"),
        (1.0, True, 1, "fewer than 2 seeds"),
    ],
)
def test_without_evidence_nothing_is_judged(
    gain: bool, paper: float | None, same_data: bool, seeds: int, reason: str
) -> None:
    assert judge(paper, Interval(0.5, 1.5), same_data, seeds, gain) == ("not judged", reason)


def test_the_printed_rule_states_the_figures_in_use() -> None:
    assert f"{100 * LEVEL:g} %" in RULE
    assert f"{RESAMPLES:,} draws" in RULE
    for word in ("reproduced", "not reproduced", "cannot tell", "not judged"):
        assert f"`{word}`" in RULE
