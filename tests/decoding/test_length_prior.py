"""p(target length | source length): counted, smoothed, saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pam.data.dataset import Split
from pam.decoding.hypotheses import LengthPrior
from pam.runtime.errors import UserError


@pytest.fixture
def prior() -> LengthPrior:
    source = [4] * 60 + [5] * 40 + [6]
    target = [5] * 40 + [6] * 20 + [7] * 40 + [2]
    return LengthPrior.fit(source, target)


@pytest.mark.parametrize("source", [0, 1, 4, 5, 6, 50])
def test_it_is_a_distribution_over_lengths(prior: LengthPrior, source: int) -> None:
    log_probs = prior.log_probs(source, 300)
    assert log_probs.shape == (301,)
    assert np.exp(log_probs).sum() == pytest.approx(1)
    assert np.isfinite(log_probs).all()


def test_what_was_seen_often_is_as_probable_as_it_was_frequent(prior: LengthPrior) -> None:
    probs = np.exp(prior.log_probs(4, 50))
    # Smoothing takes a little from what was seen.
    assert probs[5] == pytest.approx(40 / 60, abs=0.03)
    assert probs[6] == pytest.approx(20 / 60, abs=0.03)
    assert 0 < probs[4] < 0.02


def test_a_length_never_seen_gets_one_in_proportion(prior: LengthPrior) -> None:
    assert abs(int(prior.log_probs(40, 300).argmax()) - round(prior.ratio * 41)) <= 1


def test_a_length_seen_once_is_trusted_less_than_one_seen_often(prior: LengthPrior) -> None:
    assert np.exp(prior.log_probs(6, 50))[2] < 0.6


def test_it_is_counted_without_end_symbols() -> None:
    split = Split.from_rows([[5, 6], [7]], [[5, 6, 7], [8]], None, {})
    assert LengthPrior.of(split) == LengthPrior.fit([2, 1], [3, 1])


def test_it_can_be_saved_and_read_back(prior: LengthPrior, tmp_path: Path) -> None:
    prior.save(tmp_path / "lengths.json")
    loaded = LengthPrior.load(tmp_path / "lengths.json")
    assert loaded == prior
    np.testing.assert_array_equal(loaded.log_probs(5, 20), prior.log_probs(5, 20))


@pytest.mark.parametrize("content", ["", "[]", '{"ratio": 1.0, "counts": [[1, 2]]}'])
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "lengths.json"
    path.write_text(content)
    with pytest.raises(UserError) as raised:
        LengthPrior.load(path)

    assert raised.value.file == str(path)
