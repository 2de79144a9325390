"""The bootstrap: right sums, right widths, pairs that stay pairs."""

from __future__ import annotations

import numpy as np
import pytest

from pam.evaluation import bootstrap
from pam.evaluation.metrics import METRICS, Floats, percentage


def lemmas(skill: float, units: int, seed: int) -> Floats:
    """Draw counts (units, 2): right forms, of eight."""
    generator = np.random.default_rng(seed)
    right = generator.binomial(8, generator.beta(skill, 1 - skill, size=units))
    return np.stack([right, np.full(units, 8)], axis=1).astype(np.float64)


def test_sums_are_those_of_units_drawn_with_replacement() -> None:
    counts = lemmas(0.8, units=30, seed=1)
    sums = bootstrap.resampled_sums(counts[None], resamples=50, seed=5)[0]

    frequencies = np.random.default_rng(5).multinomial(30, np.full(30, 1 / 30), size=50)
    for drawn, expected in zip(frequencies, sums, strict=True):
        np.testing.assert_allclose(np.repeat(counts, drawn, axis=0).sum(axis=0), expected)


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = lemmas(0.8, units=30, seed=1)[None]
    whole = bootstrap.resampled_sums(counts, resamples=100)

    monkeypatch.setattr(bootstrap, "_WEIGHTS_AT_ONCE", 30 * 7)
    monkeypatch.setattr(bootstrap, "_MOST_KEPT", 0)
    np.testing.assert_array_equal(bootstrap.resampled_sums(counts, resamples=100), whole)


def test_draws_of_a_test_set_are_made_once_for_all_models_and_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = np.stack([lemmas(0.8, units=30, seed=seed) for seed in (1, 2)])
    whole = bootstrap.resampled_sums(counts, resamples=100)

    monkeypatch.delattr(bootstrap, "_frequencies")
    np.testing.assert_array_equal(bootstrap.resampled_sums(counts[:1], resamples=100), whole[:1])


def test_a_system_keeps_its_draws_when_others_join() -> None:
    first = lemmas(0.8, 30, seed=1)
    second = lemmas(0.9, 30, seed=2)
    alone = bootstrap.resampled_sums(first[None], resamples=100)[0]

    together = bootstrap.resampled_sums(np.stack([second, first]), resamples=100)[1]
    np.testing.assert_array_equal(alone, together)


def test_interval_agrees_with_the_normal_one_where_lemmas_are_many() -> None:
    counts = lemmas(0.85, units=2000, seed=3)
    values = percentage(bootstrap.resampled_sums(counts[None])[0])
    share = 100 * counts[:, 0] / counts[:, 1]
    half = 1.96 * share.std() / np.sqrt(len(share))

    interval = bootstrap.interval(values)
    assert interval.low == pytest.approx(share.mean() - half, abs=0.1)
    assert interval.high == pytest.approx(share.mean() + half, abs=0.1)


def test_interval_over_lemmas_is_wider_than_over_independent_forms() -> None:
    counts = lemmas(0.85, units=200, seed=3)
    interval = bootstrap.interval(percentage(bootstrap.resampled_sums(counts[None])[0]))
    share = counts[:, 0].sum() / counts[:, 1].sum()

    independent = 2 * 1.96 * 100 * np.sqrt(share * (1 - share) / counts[:, 1].sum())
    assert interval.high - interval.low > 1.5 * independent


def test_p_of_a_system_against_itself_is_one() -> None:
    assert bootstrap.p_value(np.zeros(999), 0.0) == 1.0


def test_p_is_never_zero() -> None:
    differences = np.random.default_rng(0).normal(5, 0.1, size=9999)
    assert bootstrap.p_value(differences, 5.0) == pytest.approx(1 / 10_000)


@pytest.mark.parametrize("sign", [1, -1])
def test_p_is_two_sided(sign: int) -> None:
    differences = sign * np.random.default_rng(0).normal(1.96, 1, size=100_000)
    assert bootstrap.p_value(differences, sign * 1.96) == pytest.approx(0.05, abs=0.005)


def test_p_of_a_clear_gain_is_twice_sacrebleus_one_sided_p() -> None:
    significance = pytest.importorskip("sacrebleu.significance", reason="sacrebleu is optional")
    base = lemmas(0.80, 200, seed=4)
    better = lemmas(0.86, 200, seed=4)
    draws = percentage(bootstrap.resampled_sums(np.stack([base, better])))
    observed = float(percentage(better.sum(axis=0)) - percentage(base.sum(axis=0)))
    size = np.abs(draws[1] - draws[0])
    theirs = significance._compute_p_value(size - size.mean(), abs(observed))

    ours = bootstrap.p_value(draws[1] - draws[0], observed)
    assert 0.0005 < ours < 0.2
    assert ours == pytest.approx(2 * theirs, rel=0.25)


def test_tests_of_true_nulls_reject_as_often_as_their_level_says() -> None:
    rejected = 0
    for seed in range(200):
        pair = np.stack([lemmas(0.8, 60, seed=2 * seed), lemmas(0.8, 60, seed=2 * seed + 1)])
        draws = percentage(bootstrap.resampled_sums(pair, resamples=400, seed=seed))
        observed = float(np.diff(percentage(pair.sum(axis=1)))[0])
        rejected += bootstrap.p_value(draws[1] - draws[0], observed) < 0.05
    assert 1 <= rejected <= 22


def test_metrics_are_functions_of_sums() -> None:
    assert METRICS["accuracy"].value(np.array([3.0, 4.0])) == 75.0
    np.testing.assert_array_equal(
        METRICS["paradigm_accuracy"].value(np.array([[1.0, 2.0], [2.0, 2.0]])), [50.0, 100.0]
    )
