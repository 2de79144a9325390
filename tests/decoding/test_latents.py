"""Draws of latent vectors at test time, or their means."""

from __future__ import annotations

import pytest
import torch

from pam.decoding.generator import sampling_latents
from pam.decoding.hypotheses import Hypotheses
from pam.experiments.settings import Decoding
from pam.models.ensemble import Ensemble
from tests.decoding.best import decode
from tests.models import tiny

SOURCES = [[5], [6, 7], [8, 5, 6], [7, 7, 8, 5]]


@pytest.mark.parametrize("name", ["acvi", "ved"])
@torch.no_grad()
def test_draws_differ_from_the_mean_and_come_to_it_without_noise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, _ = tiny.batch()
    symbol = torch.full((4, 1), 5)
    mean = Hypotheses(model, source, lengths, 1).step(symbol).clone()

    with sampling_latents(model, 3) as network:
        assert isinstance(network, Ensemble) and model.latent.sampling
        assert len(network.models) == 3
        hypotheses = Hypotheses(network, source, lengths, 1)
        assert (hypotheses.step(symbol) - mean).abs().max() > 1e-3
        by_draw = torch.stack([part.output.log_probs() for part in hypotheses.last_step.parts])
        assert (by_draw[0] - by_draw[1]).abs().max() > 1e-3  # vectors of its own

    with sampling_latents(model, 3) as network:
        monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
        monkeypatch.setattr(torch, "randn", torch.zeros)
        torch.testing.assert_close(Hypotheses(network, source, lengths, 1).step(symbol), mean)

    assert not model.latent.sampling


def test_the_same_sources_give_the_same_outputs() -> None:
    model = tiny.model(tiny.components("acvi"))
    decoding = Decoding(beam=2, max_ratio=1.0, max_extra=4, latent_samples=2)
    log_probs = [[o.log_prob for o in decode(model, SOURCES, decoding, False)] for _ in range(2)]

    assert log_probs[0] == log_probs[1]

    mean = decode(model, SOURCES, decoding.model_copy(update={"latent_samples": 0}), False)
    assert [output.log_prob for output in mean] != log_probs[0]


def test_a_joined_model_of_one_member_is_drawn_as_that_member_is() -> None:
    model = tiny.model(tiny.components("acvi"))
    decoding = Decoding(beam=2, max_ratio=1.0, max_extra=4, latent_samples=2)
    outputs = [
        decode(network, SOURCES, decoding, False) for network in (model, Ensemble([model]).eval())
    ]
    assert [o.log_prob for o in outputs[0]] == [o.log_prob for o in outputs[1]]


def test_a_model_without_latent_vectors_is_itself() -> None:
    model = tiny.model(tiny.components("soft"))
    with sampling_latents(model, 5) as network:
        assert network is model
