"""The rule of verdicts, case by case."""

from __future__ import annotations

import pytest

from pam.evaluation.bootstrap import LEVEL, Interval
from pam.reporting.comparison import LEAST_SEEDS, RULE, judge_gain, judge_level, margin_of


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (85.0, 86.0, "equivalent"),
        (85.6, 86.4, "equivalent"),
        (84.0, 87.0, "agrees with"),
        (85.6, 88.0, "cannot tell"),
        (83.0, 85.4, "cannot tell"),
        (86.6, 88.0, "differs"),
        (80.0, 84.4, "differs"),
    ],
)
def test_a_level_is_the_same_only_within_the_margin(low: float, high: float, word: str) -> None:
    assert judge_level(85.5, Interval(low, high), seeds=5, margin=1.0).direction == word


def test_a_wider_interval_is_no_better_verdict_of_a_level() -> None:
    directions = [
        judge_level(85.5, Interval(85.5 - half, 85.5 + half), 5, 1.0).direction
        for half in (0.5, 2.0, 20.0)
    ]

    assert directions == ["equivalent", "agrees with", "agrees with"]


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize(
    ("paper", "low", "high", "word"),
    [
        (1.4, 0.2, 2.0, "agrees"),
        (1.4, 2.0, 3.0, "agrees"),
        (1.4, 0.1, 0.9, "agrees"),
        (1.4, -0.5, 1.0, "cannot tell"),
        (1.4, -2.0, -0.5, "contradicts"),
        (1.4, 0.0, 2.0, "cannot tell"),
    ],
)
def test_gains_and_losses_are_judged_alike(
    paper: float, low: float, high: float, word: str, side: float
) -> None:
    low, high = sorted((side * low, side * high))
    assert judge_gain(side * paper, Interval(low, high), seeds=5).direction == word


def test_a_claim_without_a_figure_has_a_direction_alone() -> None:
    assert judge_gain(None, Interval(0.2, 2.0), 3, side=1.0).direction == "agrees"
    assert judge_gain(None, Interval(0.2, 2.0), 3, side=-1.0).direction == "contradicts"
    assert judge_gain(None, Interval(-0.2, 2.0), 3, side=1.0).direction == "cannot tell"


@pytest.mark.parametrize(
    ("paper", "interval", "seeds", "reason"),
    [
        (None, Interval(0.5, 1.5), 5, "the paper has no figure"),
        (0.0, Interval(0.5, 1.5), 5, "the paper's gain is 0"),
        (1.0, Interval(0.5, 1.5), LEAST_SEEDS - 1, "fewer than 3 seeds"),
        (1.0, None, 1, "fewer than 3 seeds"),
    ],
)
def test_without_evidence_no_gain_is_judged(
    paper: float | None, interval: Interval | None, seeds: int, reason: str
) -> None:
    assert judge_gain(paper, interval, seeds) == ("not judged", reason)


@pytest.mark.parametrize(
    ("paper", "same_data", "seeds", "reason"),
    [
        (None, True, 5, "the paper has no figure"),
        (1.0, False, 5, "other data than the paper's"),
        (1.0, True, 2, "fewer than 3 seeds"),
    ],
)
def test_without_evidence_no_level_is_judged(
    paper: float | None, same_data: bool, seeds: int, reason: str
) -> None:
    verdict = judge_level(paper, Interval(0.5, 1.5), seeds, 1.0, same_data)
    assert verdict == ("not judged", reason)


def test_each_metric_has_a_margin() -> None:
    assert margin_of("accuracy", 85.5) == 1.0
    assert margin_of("bleu_b10", 28.5) == 1.0
    assert margin_of("rouge1", 39.5) == 1.0
    assert margin_of("one_minus_aer", 0.449) == 0.02
    assert margin_of("cider", 0.421) == 0.02
    assert margin_of("ppl", 10.0) == pytest.approx(0.5)


def test_the_printed_rule_states_the_figures_in_use() -> None:
    assert f"{100 * LEVEL:g} %" in RULE
    assert f"fewer than {LEAST_SEEDS} seeds" in RULE

    for word in (
        "agrees",
        "contradicts",
        "cannot tell",
        "equivalent",
        "differs",
    ):
        assert f"`{word}`" in RULE
