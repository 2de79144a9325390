"""Lengths and repetitions that outputs are held to."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from pam.config import Decoding
from pam.data.vocabulary import EOS
from pam.decoding.hypotheses import Output, forbid, forbidden_symbols, longest
from pam.decoding.search import Sampling
from pam.io import UserError, parse
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
