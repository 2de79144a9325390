"""Sampling draws from the model's own distribution, the same for a seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from pam.data.vocabulary import BOS, EOS, PAD, STEP
from pam.decoding.hypotheses import Output, forbidden_symbols
from pam.decoding.search import Sampling
from pam.experiments.settings import Decoding
from pam.models.seq2seq import Seq2Seq
from tests.decoding import varied
from tests.decoding.best import outputs_of as decode
from tests.decoding.varied import ACTIONS, SOURCES
from tests.models import tiny

LIMITS = Decoding(max_ratio=1.0, max_extra=4)


def draw(
    model: Seq2Seq,
    sources: list[list[int]],
    sampling: Sampling,
    n_best: int = 1,
    decoding: Decoding = LIMITS,
    actions: bool = False,
) -> list[list[Output]]:
    return decode(model, sources, decoding, actions, n_best=n_best, sampling=sampling)


def cut(probs: list[float], top_k: int | None, top_p: float | None) -> list[float]:
    """Cut a distribution by its definition, symbol by symbol in order of probability."""
    kept = [0.0] * len(probs)
    total = sum(sorted(probs, reverse=True)[:top_k])
    for symbol in sorted(range(len(probs)), key=lambda symbol: -probs[symbol])[:top_k]:
        if top_p is None or sum(kept) < top_p * total:
            kept[symbol] = probs[symbol]
    return [prob / sum(kept) for prob in kept]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(0.5),
        Sampling(1.0),
        Sampling(2.0),
        Sampling(2.0, top_k=1),
        Sampling(2.0, top_k=3),
        Sampling(2.0, top_k=100),
        Sampling(2.0, top_p=0.5),
        Sampling(2.0, top_p=0.8),
        Sampling(2.0, top_p=1.0),
        Sampling(0.7, top_p=1e-9),
        Sampling(3.0, top_k=4, top_p=0.7),
    ],
    ids=lambda sampling: f"{sampling.temperature},{sampling.top_k},{sampling.top_p}",
)
def test_first_symbols_follow_the_models_distribution(sampling: Sampling) -> None:
    model = varied.model("postr-joint")
    source = [6, 7]
    draws = 4000

    with torch.no_grad():
        memory = model.encode(torch.tensor([[*source, EOS]]), torch.tensor([3]))
        log_probs = model.step(memory, model.start(memory), torch.tensor([BOS])).output.log_probs()[
            0
        ]

    log_probs[forbidden_symbols(False)] = -torch.inf
    tempered = torch.softmax(log_probs / sampling.temperature, 0).tolist()
    probs = np.array(cut(tempered, sampling.top_k, sampling.top_p))
    (outputs,) = draw(model, [source], sampling, draws)
    counts = Counter(output.symbols[0] if output.symbols else EOS for output in outputs)
    frequencies = np.array([counts[symbol] / draws for symbol in range(tiny.VOCABULARY)])
    # Standard deviation of a frequency; four of them are exceeded once in 16,000 times.
    noise = np.sqrt(probs * (1 - probs) / draws)
    if sampling.top_k is None and sampling.top_p is None:
        assert (probs > 0).sum() > 4

    assert (np.abs(frequencies - probs) <= 4 * noise + 1e-12).all()
    assert frequencies[[PAD, BOS, STEP]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", tiny.NAMED)
def test_log_probs_are_the_models_whatever_the_temperature(name: str) -> None:
    model = varied.model(name)
    drawn = draw(model, SOURCES, Sampling(1.7), 3, actions=ACTIONS[name])
    for source, outputs in zip(SOURCES, drawn, strict=True):
        for output in outputs:
            target = torch.tensor([[*output.symbols, *([EOS] if output.complete else [])]])
            with torch.no_grad():
                likelihood = model.log_likelihood(
                    torch.tensor([[*source, EOS]]), torch.tensor([len(source) + 1]), target
                )
            assert output.log_prob == pytest.approx(float(likelihood.sum()), rel=1e-9)
            assert output.score == output.log_prob
            assert len(output.symbols) <= len(source) + 5


def symbols(outputs_of_sources: list[list[Output]]) -> list[list[list[int]]]:
    return [[output.symbols for output in outputs] for outputs in outputs_of_sources]


def test_outputs_depend_on_seed_and_number_and_not_on_the_batch() -> None:
    model = varied.model("soft")
    together = symbols(draw(model, SOURCES, Sampling(seed=3), 2))
    # Another batch size puts other sentences side by side.
    for size in (1, 3):
        limits = LIMITS.model_copy(update={"batch_size": size})
        assert symbols(draw(model, SOURCES, Sampling(seed=3), 2, limits)) == together

    assert symbols(draw(model, SOURCES, Sampling(seed=4), 2)) != together
    assert symbols(draw(model, SOURCES[:1], Sampling(seed=3), 2)) == together[:1]

    # The same sources under other numbers are drawn anew.
    renumbered = decode(model, SOURCES, LIMITS, n_best=2, sampling=Sampling(seed=3), first=100)
    assert symbols(renumbered) != together


def test_a_low_temperature_is_greedy_search() -> None:
    model = varied.model("mono-postr-joint")
    cold = draw(model, SOURCES, Sampling(1e-4), 2)
    best = decode(model, SOURCES, LIMITS)
    for drawn, (greedy,) in zip(cold, best, strict=True):
        assert [output.symbols for output in drawn] == [greedy.symbols] * 2


def test_outputs_at_the_length_limit_are_cut_short() -> None:
    model = varied.model("soft")
    model.readout.output.bias.data[EOS] -= 1e4  # so that no output ends by itself
    for source, (output,) in zip(SOURCES, draw(model, SOURCES, Sampling()), strict=True):
        assert not output.complete and len(output.symbols) == len(source) + 5


def test_what_samples_attended_is_known_where_it_is_asked_for() -> None:
    model = varied.model("postr-joint")
    asked = LIMITS.model_copy(update={"replace_unknown": True})
    for outputs in draw(model, SOURCES, Sampling(), 2, asked):
        assert all(len(output.attended) == len(output.symbols) for output in outputs)

    assert draw(model, SOURCES, Sampling())[0][0].attended == []
