"""Dropout: which shares are dropped, what is left, and that every Transformer has this one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pam.experiments.settings import Network
from pam.models.build import build
from pam.models.dropout import Dropout, dropout, dropout_mask
from tests.models import tiny

NETWORK = Network(embedding=8, encoder_layers=2, decoder_layers=2, dropout=0.3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.75])
def test_a_mask_drops_the_given_share_and_scales_the_rest(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    like = torch.empty((), dtype=dtype)
    mask = dropout_mask((101, 999), rate, like)

    assert mask.dtype == dtype
    kept = mask != 0
    # Four standard deviations of a share of 100,899 draws.
    deviation = (rate * (1 - rate) / mask.numel()) ** 0.5
    assert kept.float().mean().item() == pytest.approx(1 - rate, abs=4 * deviation)
    torch.testing.assert_close(mask[kept], torch.full_like(mask[kept], 1 / (1 - rate)))


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(1)
    kept = (dropout_mask((4, 50_000), 0.3, torch.empty(())) != 0).double().flatten()

    # Four neighbours come from one random number.
    for distance in range(1, 6):
        both = (kept[:-distance] * kept[distance:]).mean().item()
        assert both == pytest.approx(0.7**2, abs=0.005), distance


@pytest.mark.parametrize("count", range(1, 10))
def test_any_number_of_entries_can_be_drawn(count: int) -> None:
    assert dropout_mask((count,), 0.5, torch.empty(())).shape == (count,)


def test_a_gradient_passes_where_a_value_did() -> None:
    torch.manual_seed(1)
    values = torch.randn(50, 30, dtype=torch.float64, requires_grad=True)
    dropped = Dropout(0.4)(values)
    dropped.sum().backward()

    torch.testing.assert_close(dropped, values * values.grad)
    assert set(values.grad.unique().tolist()) == {0.0, 1 / 0.6}


def test_nothing_is_dropped_or_drawn_outside_training_and_at_rate_0() -> None:
    values = torch.randn(5, 3)
    before = torch.get_rng_state()

    assert Dropout(0.4).eval()(values) is values
    assert Dropout(0.0)(values) is values
    assert dropout(values, 0.4, training=False) is values
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "name", ["transformer", "transformer-soft", "transformer-prox-postr-joint"]
)
def test_every_dropout_of_a_transformer_is_the_fast_one(name: str) -> None:
    model = build(tiny.components(name), NETWORK, tiny.VOCABULARY, tiny.VOCABULARY)
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}

    assert kinds == {Dropout}
