"""Intervals over seeds and units, by hand, by simulation and beside the bootstrap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pam.evaluation import bootstrap, student, two_levels
from pam.evaluation.metrics import Floats, metric_of, percentage
from pam.evaluation.two_levels import Estimate, Measured, Scatter


def measured(*seeds: list[float]) -> Measured:
    """Measure the mean over units whose values are given seed by seed."""
    units = np.array(seeds)
    return Measured.of(np.stack([units / 100, np.ones_like(units)], axis=-1), percentage)


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [
        (0.95, 4, 2.776445),
        (0.99, 10, 3.169273),
        (0.95, 2, 4.302653),
        (0.95, 66.15, 1.996480),
        (0.95, 1e9, 1.959964),
    ],
)
def test_students_quantiles_are_those_of_tables(level: float, freedom: float, t: float) -> None:
    assert student.quantile(level, freedom) == pytest.approx(t, abs=3e-6)
    assert student.two_sided(t, freedom) == pytest.approx(1 - level, abs=1e-6)
    assert student.two_sided(-t, freedom) == pytest.approx(1 - level, abs=1e-6)


def test_students_tails_are_right_far_out() -> None:
    # With 2 degrees of freedom the tail has a closed form: 1 - t / sqrt(2 + t^2).
    t = 1e4
    exact = 2 / (t * t) / (1 + 2 / (t * t)) / (1 + np.sqrt(1 / (1 + 2 / (t * t))))
    assert student.two_sided(t, 2) == pytest.approx(exact, rel=1e-9)
    assert student.two_sided(0.0, 5) == 1.0
    assert student.two_sided(np.inf, 5) == 0.0


def test_a_gain_is_that_by_hand() -> None:
    # Two seeds of each model on three units.
    base = measured([10, 20, 30], [20, 30, 70])  # means 20 and 40
    model = measured([30, 20, 40], [30, 40, 50])  # means 30 and 40
    scatter = Scatter.of([base, model])

    # Variances over seeds: 200 and 50.
    assert scatter.variance == pytest.approx(125.0)
    assert scatter.freedom == 2
    # Residuals of the first: seed 1 less seed 2 is -10, -10, -40, less their mean -20; halved
    # +5, +5, -10, twice: 2 x 150 / (1 x 2) / 3 = 50. Of the second: 0, -20, -10, less -10; halved
    # +5, -5, 0, twice: 2 x 50 / 2 / 3 = 50 / 3.
    assert scatter.residual == pytest.approx((50 + 50 / 3) / 2)

    # Means over seeds by unit are 15, 25, 50 and 30, 30, 45; they differ by 15, 5, -5.
    gain = two_levels.gain(model, base, scatter)
    assert gain.value == pytest.approx(5.0)
    variance = 100 / 3 + (125 - 100 / 3) * (1 / 2 + 1 / 2)
    assert gain.error == pytest.approx(np.sqrt(variance))
    assert variance == pytest.approx(125.0)
    assert gain.freedom == pytest.approx(2.0)
    assert gain.interval().high == pytest.approx(5 + 4.302653 * np.sqrt(125), abs=1e-4)


def test_scatter_of_seeds_that_units_explain_is_not_counted_twice() -> None:
    # The seeds' means differ by no more than the scatter of seeds by units explains.
    generator = np.random.default_rng(0)
    models = [measured(*generator.normal(50, 10, size=(5, 100)).tolist()) for _ in range(4)]
    scatter = Scatter.of(models)._replace(variance=0.5)
    assert scatter.residual > 0.5

    gain = two_levels.gain(models[0], models[1], scatter)
    influences = models[0].influences.mean(axis=0) - models[1].influences.mean(axis=0)
    assert gain.error**2 == pytest.approx(influences.var(ddof=1) / 100)


def test_interval_and_p_are_one_test() -> None:
    for value in np.linspace(-3, 3, 25).tolist():
        estimate = Estimate(value, error=1.0, freedom=7.0)
        assert (0.0 in estimate.interval()) is (estimate.p > 0.05)


def test_what_never_differs_is_no_difference() -> None:
    same = measured([10, 20], [10, 20])
    assert two_levels.gain(same, same, Scatter.of([same])).p == 1.0


def test_a_single_seed_has_an_interval_over_its_units_alone() -> None:
    one = measured([10, 20, 60])
    several = measured([10, 20, 60], [90, 80, 70])
    level = two_levels.level(one, Scatter.of([one, several]))
    assert level.error == pytest.approx(np.std([10, 20, 60], ddof=1) / np.sqrt(3))


def test_an_output_that_no_training_made_adds_no_scatter_of_seeds() -> None:
    lead = Measured(np.array([50.0]), np.zeros((1, 0)), repeatable=True)
    model = Measured.of_seeds([50.0, 52.0, 54.0])
    gain = two_levels.gain(lead, model, Scatter.of([lead, model]))
    assert gain.error == pytest.approx(np.sqrt(4.0 / 3))


def test_on_the_same_units_a_level_has_students_interval_over_its_seeds() -> None:
    values = [84.625, 85.6875, 85.0, 85.9375, 85.5]
    interval = two_levels.level_on_these_units(Measured.of_seeds(values)).interval()
    assert (interval.low, interval.high) == pytest.approx((84.690, 86.010), abs=1e-3)


def test_the_influence_of_a_unit_on_a_mean_is_its_distance_from_the_mean() -> None:
    values = [10.0, 20.0, 60.0, 90.0]
    influences = measured(values).influences[0]
    np.testing.assert_allclose(influences, np.array(values) - np.mean(values))


def bleu_counts(seed: int, units: int) -> Floats:
    """Draw counts of BLEU, (units, 10): matches and totals of four orders, both lengths."""
    generator = np.random.default_rng(seed)
    length = generator.integers(6, 30, size=units)
    rate = generator.beta(6, 4, size=units)
    totals = np.stack([length - order for order in range(4)], axis=1)
    shares = np.stack([rate**order for order in range(1, 5)], axis=1)
    matches = generator.binomial(totals, shares)
    reference = length + generator.integers(-2, 4, size=units)
    return np.column_stack([matches, totals, length, reference]).astype(np.float64)


def test_a_sentences_influence_on_bleu_is_what_leaving_it_out_changes() -> None:
    value = metric_of("bleu").value
    counts = bleu_counts(seed=1, units=40)
    influences = Measured.of(counts[None], value).influences[0]
    for unit in (0, 17, 39):
        without = value(np.delete(counts, unit, axis=0).sum(axis=0))
        assert influences[unit] == pytest.approx(39 * (value(counts.sum(axis=0)) - without))


@pytest.mark.parametrize("name", ["bleu", "accuracy"])
def test_the_interval_over_units_is_that_of_the_bootstrap(name: str) -> None:
    value = metric_of(name).value
    counts = bleu_counts(seed=2, units=400)
    if name == "accuracy":
        counts = counts[:, [0, 4]]
    ours = two_levels.level(Measured.of(counts[None], value), Scatter()).interval()
    drawn = bootstrap.interval(value(bootstrap.resampled_sums(counts[None], resamples=4000)[0]))

    width = drawn.high - drawn.low
    assert ours.low == pytest.approx(drawn.low, abs=0.06 * width)
    assert ours.high == pytest.approx(drawn.high, abs=0.06 * width)


# Coverage with the variances of stored runs.


class Scenario(NamedTuple):
    """Variances as stored runs have them, of accuracies and of influences on BLEU."""

    models: int
    units: int
    of_seeds: float  # of the seeds of a model, in all that could be tested
    of_models: float  # of models by units
    residual: float  # of seeds by units


NOUNS = Scenario(models=6, units=200, of_seeds=0.0, of_models=6.0, residual=90.9)
VERBS = Scenario(models=6, units=200, of_seeds=0.0, of_models=45.0, residual=33.2)
MULTI30K = Scenario(models=7, units=1000, of_seeds=0.013, of_models=9.0, residual=93.3)
TRANSFORMERS = Scenario(models=5, units=1000, of_seeds=0.080, of_models=4.0, residual=116.7)
IWSLT14 = Scenario(models=3, units=6750, of_seeds=0.060, of_models=56.0, residual=99.7)


def coverage(scenario: Scenario, seeds: int, repeats: int) -> tuple[float, float]:
    """Return how often intervals of a gain hold the truth, 0: by our rule and by the earlier one.

    The earlier rule adds the variance over the seeds of both models to that over units, which has a
    part of it, and takes Student's distribution for its degrees of freedom.
    """
    generator = np.random.default_rng([seeds, scenario.units])
    shape = (scenario.models, seeds, scenario.units)
    held = 0
    held_by_earlier = 0
    for _ in range(repeats):
        influences = generator.standard_normal(shape, dtype=np.float32).astype(np.float64)
        influences *= np.sqrt(scenario.residual)
        by_model = generator.standard_normal((scenario.models, 1, scenario.units))
        influences += np.sqrt(scenario.of_models) * by_model
        of_seeds = generator.standard_normal((scenario.models, seeds))
        values = influences.mean(axis=2) + np.sqrt(scenario.of_seeds) * of_seeds
        models = [Measured(*pair) for pair in zip(values, influences, strict=True)]
        gain = two_levels.gain(models[0], models[1], Scatter.of(models))
        held += gain.p > 0.05

        units = (models[0].influences - models[1].influences).mean(axis=0)
        over_seeds = [model.values.var(ddof=1) / seeds for model in models[:2]]
        variance = units.var(ddof=1) / len(units) + sum(over_seeds)
        freedom = variance**2 / sum(part**2 / (seeds - 1) for part in over_seeds)
        held_by_earlier += Estimate(gain.value, np.sqrt(variance), freedom).p > 0.05

    return 100 * held / repeats, 100 * held_by_earlier / repeats


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # Fewer units with as much variance of their mean take a fraction of the time.
    fewer = VERBS._replace(units=50, of_models=45.0 / 4, residual=33.2 / 4)
    ours, earlier = coverage(fewer, seeds=5, repeats=2000)
    assert ours == pytest.approx(95, abs=1)
    assert ours < earlier


@pytest.mark.faults
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("scenario", [NOUNS, VERBS, MULTI30K, TRANSFORMERS, IWSLT14])
def test_intervals_hold_the_truth_in_all_experiments(scenario: Scenario, seeds: int) -> None:
    ours, earlier = coverage(scenario, seeds, repeats=3000)
    # Cutting v - e off at 0 errs on the safe side where seeds scatter little besides their noise
    # over units.
    above = 1.5 if seeds == 5 else 2.5
    assert 93.8 <= ours <= 95 + above
    assert ours <= earlier


def test_holms_correction_is_that_by_hand() -> None:
    # Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.2 x 1; none below the one before it.
    assert two_levels.holm([0.2, 0.01, 0.03, 0.02]) == pytest.approx([0.2, 0.04, 0.06, 0.06])
    assert two_levels.holm([0.04, 0.03]) == pytest.approx([0.06, 0.06])
    assert two_levels.holm([0.9, 0.8]) == [1.0, 1.0]
    assert two_levels.holm([]) == []
