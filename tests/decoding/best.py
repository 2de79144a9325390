"""The best outputs of a model, and what they should be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from pam.data.vocabulary import EOS, PAD, ended
from pam.decoding import generator
from pam.decoding.hypotheses import Output
from pam.experiments.settings import Decoding
from pam.models.model import Model


def outputs_of(
    model: Model,
    sources: list[list[int]],
    decoding: Decoding,
    actions: bool = False,
    source_eos: bool = True,
    **more: Any,
) -> list[list[Output]]:
    """Decode sources of ids, which end in an end symbol if `source_eos`."""
    read = [torch.tensor(ended(ids, source_eos), dtype=torch.long) for ids in sources]
    return generator.decode(model, read, decoding, actions, **more)


def decode(
    model: Model, sources: list[list[int]], decoding: Decoding, actions: bool = False
) -> list[Output]:
    """Return the best output of each source."""
    return [outputs[0] for outputs in outputs_of(model, sources, decoding, actions)]


def log_likelihoods(model: Model, source: list[int], targets: list[list[int]]) -> list[float]:
    """Return log p(target | source) of each target, as training computes it."""
    ended = torch.tensor([[*source, EOS]]).expand(len(targets), -1)
    lengths = torch.full((len(targets),), len(source) + 1)
    padded = pad_sequence([torch.tensor(target) for target in targets], True, PAD)
    with torch.no_grad():
        log_probs = model.log_likelihood(ended, lengths, padded)
    scores: list[float] = log_probs.masked_fill(padded == PAD, 0.0).sum(1).tolist()

    return scores


def assert_same(actual: Output, expected: Output) -> None:
    assert (actual.symbols, actual.complete) == (expected.symbols, expected.complete)
    assert actual.log_prob == pytest.approx(expected.log_prob, rel=1e-9)
    assert actual.score == pytest.approx(expected.score, rel=1e-9)
