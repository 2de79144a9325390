"""A search by Transformers keeps what it has computed, whatever becomes of its beams (float64)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, PAD
from pam.decoding.hypotheses import Hypotheses
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Decoding, Network
from pam.models.build import build
from pam.models.ensemble import Ensemble
from pam.models.model import Model
from pam.models.transformer_layers import Attention
from tests.decoding.best import decode
from tests.models import tiny

BEAM = 3
LAYERS = 2
HEAD = {"kind": "aligned-transformer", "heads": 2}
POSTERIOR = {"marginalization": "output", "input_feeding": "posterior"}
COUPLED = POSTERIOR | {
    "input_feeding": {"kind": "posterior", "context": False},
    "coupling": "proximity",
}
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"architecture": {"kind": "transformer", "heads": 2}},
    "soft": {"architecture": HEAD, "input_feeding": "none"},
    "posterior": COUPLED | {"architecture": HEAD},
    "posterior, fed": POSTERIOR | {"architecture": HEAD},
    "posterior, the head alone": COUPLED | {"architecture": HEAD | {"source_attention": False}},
}


def made(name: str) -> Model:
    """Make a model whose attention is sharp, or an ensemble of two kinds."""
    if name == "ensemble":
        return Ensemble([made("plain"), made("posterior")]).eval()

    torch.manual_seed(1)
    network = Network(embedding=8, encoder_layers=1, decoder_layers=LAYERS, dropout=0.1)
    chosen = ModelConfig(label="Mine", **MODELS[name])
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -1.0, 1.0)
    return model


def log_probs_of_prefix(
    model: Model, source: Tensor, lengths: Tensor, written: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute log p of all symbols but padding after prefixes `written` (n, t), and the prior.

    They are (n, V - 1) and (n, m). Targets are the prefixes, each with every symbol as its last.
    """
    columns = []
    for symbol in range(PAD + 1, tiny.VOCABULARY):
        target = nn.functional.pad(written, (0, 1), value=symbol)
        columns.append(model.log_likelihood(source, lengths, target)[:, -1])

    prior = model.teacher_force(source, lengths, target).prior[:, -1]
    return torch.stack(columns, 1), prior


@pytest.mark.parametrize("name", [*MODELS, "ensemble"])
@torch.no_grad()
def test_steps_equal_whole_prefixes_when_beams_are_reordered_and_sentences_dropped(
    name: str,
) -> None:
    model = made(name)
    source, lengths, _ = tiny.batch()
    generator = torch.Generator().manual_seed(3)
    hypotheses = Hypotheses(model, source, lengths, BEAM)
    written = torch.empty(len(source), BEAM, 0, dtype=torch.long)
    symbol = torch.full((len(source), BEAM), BOS)
    kept = {2: torch.tensor([3, 0, 1]), 4: torch.tensor([1, 2])}

    for step in range(6):
        log_probs = hypotheses.step(symbol)
        rows = torch.arange(len(source)).repeat_interleave(BEAM)
        expected, prior = log_probs_of_prefix(
            model, source[rows], lengths[rows], written.flatten(0, 1)
        )
        actual = log_probs.flatten(0, 1)[:, PAD + 1 :]
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(hypotheses.last_step.log_prior.exp(), prior)

        # Hypotheses go on from any of their sentence, some of them from the same one.
        shape = (len(source), BEAM)
        parents = torch.randint(BEAM, shape, generator=generator)
        symbol = torch.randint(5, tiny.VOCABULARY, shape, generator=generator)
        written = written.gather(1, parents[:, :, None].expand_as(written))
        written = torch.cat([written, symbol[:, :, None]], 2)
        hypotheses.update(parents, symbol)

        if step in kept:
            sentences = kept[step]
            hypotheses.keep(sentences)
            source, lengths = source[sentences], lengths[sentences]
            written, symbol = written[sentences], symbol[sentences]


@pytest.mark.parametrize("name", ["plain", "soft", "posterior, fed"])
def test_a_search_projects_each_source_and_each_new_symbol_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(name)
    projected: list[tuple[int, ...]] = []
    project = Attention.project

    def counted(attention: Attention, states: Tensor) -> Tensor:
        projected.append(tuple(states.shape[:2]))
        return project(attention, states)

    monkeypatch.setattr(Attention, "project", counted)
    decode(model, [[5, 6, 7], [8, 5, 6]], Decoding(beam=BEAM, max_length=5, min_length=4))

    # The sources have an end symbol.
    sources, steps = projected[:LAYERS], projected[LAYERS:]
    assert sources == [(2, 4)] * LAYERS
    assert set(steps) == {(2 * BEAM, 1)} and len(steps) == 5 * LAYERS
