"""Lengths and repetitions that outputs are held to."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from pam.data.dataset import Examples, Split
from pam.data.lengths import PairLengths, following, longest_outputs
from pam.data.vocabulary import EOS
from pam.decoding.hypotheses import LengthPrior, Output, forbid, forbidden_symbols, longest
from pam.decoding.search import Sampling
from pam.experiments.parsing import parse
from pam.experiments.settings import Decoding
from pam.runtime.errors import UserError
from tests.decoding import varied
from tests.decoding.best import assert_same, decode, log_likelihoods, outputs_of
from tests.decoding.varied import SOURCES
from tests.models import tiny


@pytest.mark.parametrize(
    "held", [{"min_length": 1}, {"no_repeat_ngram_size": 1}, {"max_length": 2}]
)
def test_a_wide_beam_finds_the_best_output_that_is_allowed(held: dict[str, Any]) -> None:
    model = varied.short("ved")
    decoding = Decoding(beam=300, max_ratio=1e-9, max_extra=3, **held)
    allowed = [s for s in range(tiny.VOCABULARY) if s not in {*forbidden_symbols(False), EOS}]
    lengths = range(decoding.min_length, (decoding.max_length or 3))
    strings = [list(text) for length in lengths for text in product(allowed, repeat=length)]
    # With n-grams of one symbol, no symbol comes twice.
    if decoding.no_repeat_ngram_size:
        strings = [text for text in strings if len(set(text)) == len(text)]
    free = decode(model, SOURCES, Decoding(beam=300, max_ratio=1e-9, max_extra=3))
    outputs = decode(model, SOURCES, decoding)
    for source, output in zip(SOURCES, outputs, strict=True):
        scores = log_likelihoods(model, source, [[*text, EOS] for text in strings])
        best = max(range(len(strings)), key=scores.__getitem__)
        assert_same(output, Output(strings[best], scores[best], True, scores[best]))

    assert [output.symbols for output in outputs] != [output.symbols for output in free]


@pytest.mark.parametrize("sampled", [False, True])
def test_outputs_are_as_long_as_asked_and_repeat_no_trigram(sampled: bool) -> None:
    model = varied.model("postr-joint")
    decoding = Decoding(beam=3, min_length=14, max_length=20, no_repeat_ngram_size=3)
    # A low temperature makes repetitions likely, unless they are forbidden.
    sampling = Sampling(temperature=0.1) if sampled else None
    held = outputs_of(model, SOURCES, decoding, sampling=sampling)
    freely = decoding.model_copy(update={"no_repeat_ngram_size": None})
    free = outputs_of(model, SOURCES, freely, sampling=sampling)

    def repeats(symbols: list[int]) -> bool:
        grams = list(zip(symbols, symbols[1:], symbols[2:], strict=False))
        return len(set(grams)) < len(grams)

    assert all(
        14 <= len(output.symbols) <= 20 and not repeats(output.symbols) for (output, *_) in held
    )
    assert any(repeats(output.symbols) for (output, *_) in free)


def test_only_what_would_complete_a_repetition_is_forbidden() -> None:
    written = torch.tensor([[[5, 6, 7, 5, 6], [5, 6, 5, 7, 7]]])
    log_probs = torch.zeros(1, 2, 9)
    forbid(log_probs, written, Decoding(no_repeat_ngram_size=3, min_length=5))

    # padding is forbidden anyway
    assert (log_probs[0] < 0).nonzero().tolist() == [[0, 0], [0, 7], [1, 0]]

    forbid(log_probs, written, Decoding(min_length=6))
    assert (log_probs[0, :, EOS] == -torch.inf).all()


def test_limits_hold_whatever_the_source_s_length() -> None:
    lengths = torch.tensor([1, 10, 100])
    assert longest(lengths, Decoding()).tolist() == [13, 40, 310]
    assert longest(lengths, Decoding(min_length=35, max_length=100)).tolist() == [36, 40, 100]


def test_a_source_is_read_as_far_as_asked() -> None:
    model = varied.model("soft")
    sources = [[*source, 8, 8] for source in SOURCES if len(source) == 2]
    cut = outputs_of(model, sources, Decoding(max_source=2), source_eos=False)
    of_cut_sources = outputs_of(
        model, [source[:2] for source in sources], Decoding(), source_eos=False
    )

    assert cut == of_cut_sources != outputs_of(model, sources, Decoding(), source_eos=False)


def test_lengths_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(UserError, match="`min_length` is not below `max_length`"):
        parse(Decoding, {"min_length": 5, "max_length": 5})


@pytest.mark.parametrize("ratio", [None, 0.1, 0.7, 1.1, 2.5, 333.3])
def test_pairs_are_measured_by_the_limit_that_a_search_has(ratio: float | None) -> None:
    lengths = np.arange(1, 2000)
    for held in ({}, {"max_length": 60, "min_length": 20}):
        decoding = Decoding(max_ratio=ratio, **held)
        limits = longest(torch.from_numpy(lengths), decoding)
        assert longest_outputs(lengths, decoding).tolist() == limits.tolist()


def followed(*pairs: tuple[int, int], **settings: Any) -> Decoding:
    """Return the settings of a search by a model that was trained on pairs of these lengths."""
    source, target = np.array(pairs).T
    return following(Decoding(**settings), PairLengths(source, target))


def test_the_limit_is_three_times_the_source_and_ten_where_that_cuts_no_target_of_training() -> (
    None
):
    decoding = followed((1, 13), (20, 70), (50, 40))
    assert (decoding.max_ratio, decoding.max_extra) == (3.0, 10)


def test_long_targets_of_training_raise_the_limit_above_all_of_them() -> None:
    # Targets of seven symbols for each of the source, as in logical forms.
    pairs = [(length, 7 * length) for length in range(3, 21)]
    decoding = followed(*pairs)
    source, target = np.array(pairs).T

    assert (longest_outputs(source, decoding) >= 1.4 * target).all()
    # Longer sources than training has too may have as long targets.
    assert longest_outputs(np.array([60]), decoding)[0] >= 7 * 60


def test_one_odd_pair_raises_the_limit_of_long_sources_little() -> None:
    pairs = [(length, length) for length in range(1, 51)]
    decoding = followed(*pairs, (1, 300))
    assert longest_outputs(np.array([1]), decoding)[0] > 300
    assert longest_outputs(np.array([50]), decoding)[0] < 800


def test_a_limit_that_is_given_stays() -> None:
    decoding = followed((4, 90), max_ratio=2.0, max_extra=5)
    assert (decoding.max_ratio, decoding.max_extra) == (2.0, 5)
    assert longest_outputs(np.array([4]), followed((4, 90), max_length=30)).tolist() == [30]


@pytest.mark.parametrize("source_eos", [False, True])
@pytest.mark.parametrize("targets", ["symbols", "actions"])
def test_a_trained_model_has_the_limit_that_its_training_had(
    source_eos: bool, targets: Any
) -> None:
    sources = [[5], [5, 6, 7], [6, 6]]
    forms = [[5] * 40, [6] * 9, [7] * 30]
    split = Split.from_rows(sources, forms, [[0] * len(form) for form in forms], {}, source_eos)
    examples = Examples(split, targets)
    trained = following(Decoding(), PairLengths(examples.source_lengths, examples.target_lengths))

    is_pointer = targets == "actions"
    stored = LengthPrior.of(split).pairs(source_eos, is_pointer)
    assert following(Decoding(), stored) == trained
    assert following(Decoding(), PairLengths.of(split, is_pointer)) == trained
    assert (trained.max_ratio, trained.max_extra) != (3.0, 10)
