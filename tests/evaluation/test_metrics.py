"""Metrics as functions of sums, and found by name."""

from __future__ import annotations

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from pam.evaluation import metrics
from pam.evaluation.metrics import METRICS, Floats, metric_of
from pam.runtime.errors import UserError
from pam.tasks.translation.metrics import chrf


def ngram_counts(rows: int, seed: int) -> Floats:
    """Counts as BLEU has them: matches and totals that fall with the order, two lengths."""
    generator = np.random.default_rng(seed)
    length = generator.integers(0, 30, size=rows)
    totals = np.maximum(length[:, None] - np.arange(4), 0)
    match = np.minimum.accumulate(generator.integers(0, totals + 1), axis=1)
    reference = generator.integers(1, 30, size=rows)

    return np.column_stack([match, totals, length, reference]).astype(float)


@pytest.mark.parametrize(("smooth", "method"), [(True, "exp"), (False, "none")])
def test_bleu_is_sacrebleus_for_any_counts(smooth: bool, method: str) -> None:
    counts = ngram_counts(500, seed=1)
    values = metrics.bleu(counts, smooth)
    for row, value in zip(counts, values, strict=True):
        ours = [int(number) for number in row]
        theirs = BLEU.compute_bleu(ours[:4], ours[4:8], ours[8], ours[9], smooth_method=method)
        assert value == pytest.approx(theirs.score, abs=1e-9)
    assert (values == 0).any() and (values > 20).any()


def test_chrf_is_sacrebleus_for_any_counts() -> None:
    generator = np.random.default_rng(2)
    hyp, ref = (generator.integers(0, 9, size=(500, 6)) for _ in range(2))
    match = generator.integers(0, np.minimum(hyp, ref) + 1)

    values = chrf(np.concatenate([hyp, match, ref], axis=1).astype(float))
    for row, value in enumerate(values):
        triples = np.stack([hyp[row], ref[row], match[row]], axis=1).flatten().tolist()
        assert value == pytest.approx(CHRF()._compute_f_score(triples), abs=1e-9)


def test_metrics_take_sums_of_any_shape() -> None:
    counts = ngram_counts(6, seed=3)
    whole = metrics.bleu(counts, smooth=True)
    np.testing.assert_array_equal(metrics.bleu(counts.reshape(2, 3, 10), True).flatten(), whole)


def test_perplexity_is_per_token() -> None:
    assert METRICS["ppl"].value(np.array([3 * np.log(7.0), 3.0])) == pytest.approx(7.0)


def test_alignment_error_and_agreement_add_up_to_one() -> None:
    sums = np.array([6.0, 8.0, 10.0, 8.0])  # sure links found, possible ones, found, sure
    assert METRICS["aer"].value(sums) == pytest.approx(1 - 14 / 18)
    assert METRICS["one_minus_aer"].value(sums) == pytest.approx(14 / 18)


def test_a_beams_metric_takes_the_beams_counts_and_those_of_the_reference() -> None:
    metric = metric_of("bleu_b10")
    assert (metric.name, metric.label) == ("bleu_b10", "BLEU, beam 10")
    assert metric.columns[0] == "bleu_match1_b10"
    assert metric.columns[-2:] == ("bleu_length_b10", "words_b10")
    assert metric_of("bleu").columns[0] == "bleu_match1"


@pytest.mark.parametrize("name", ["blue", "bleu_b0", "bleu_b", "ppl_b4", "aer_b4", "_b4", ""])
def test_unknown_metrics_are_named(name: str) -> None:
    with pytest.raises(UserError, match="unknown metric"):
        metric_of(name)


def test_every_metric_says_which_way_is_better() -> None:
    lower = {name for name, metric in METRICS.items() if metric.lower_is_better}
    errors = {"aer", "aer_prior", "aer_late", "aer_posterior", "aer_head", "aer_shift_att"}
    errors |= {"wer", "per", "cer", "ser", "form_cer"}
    assert lower == errors | {"ppl", "ppl_exact", "repeated_trigrams"}
