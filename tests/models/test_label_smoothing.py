"""Label smoothing (float64): a share of the objective is the mean of log p over all symbols."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import BOS, PAD
from pam.experiments.settings import Network
from pam.models.build import build
from pam.models.model import Model
from tests.models import tiny

MODELS = ("soft", "hard-mono", "none", "transformer-soft", "transformer")


def made(name: str, label_smoothing: float) -> Model:
    """Make a tiny model; its weights do not depend on the smoothing."""
    torch.manual_seed(3)
    components = tiny.components(name)
    smoothed = components.architecture.model_copy(update={"label_smoothing": label_smoothing})
    network = Network(embedding=8, encoder=3, decoder=5, dropout=0.0)
    model = build(
        components=components.model_copy(update={"architecture": smoothed}),
        network=network,
        source=tiny.VOCABULARY,
        target=tiny.VOCABULARY,
    )
    return model.double().eval()


def all_log_probs(model: Any, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """Compute log p(y | y_<t, x) of every symbol y, (B, T, V), step by step as a search does."""
    memory = model.encode(source, lengths)
    state = model.start(memory)
    symbol = torch.full_like(target[:, 0], BOS)

    log_probs = []
    for gold in target.unbind(1):
        step = model.step(memory, state, symbol)
        log_probs.append(step.output.log_probs().clone())
        state = model.update(memory, step, gold)
        symbol = gold

    return torch.stack(log_probs, 1)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_label_smoothing_adds_the_mean_over_all_symbols_to_the_objective_alone(name: str) -> None:
    plain = made(name, label_smoothing=0.0)
    smoothed = made(name, label_smoothing=0.1)
    source, lengths, target = tiny.batch()
    target[1, 3:] = PAD

    likelihood = plain.log_likelihood(source, lengths, target)
    mean = all_log_probs(plain, source, lengths, target).mean(2)
    expected = 0.9 * likelihood + 0.1 * mean

    is_real = target != PAD
    objective = smoothed.objective(source, lengths, target)
    torch.testing.assert_close(objective[is_real], expected[is_real])
    torch.testing.assert_close(smoothed.log_likelihood(source, lengths, target), likelihood)
    torch.testing.assert_close(plain.objective(source, lengths, target), likelihood)
