"""Fast decoding steps equal the reference's, for every model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pam.decoding.stepper import ReferenceStepper, most_attended, stepper
from pam.fast.stepper import FastStepper
from pam.models.memory import Past

from pam.data.vocabulary import BOS
from pam.models.seq2seq import State
from tests.models import tiny

BEAM = 3
TOP_2 = {"kind": "output", "top_k": 2}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tiny.STEPPED),
    ("prior-joint", {"marginalization": TOP_2}),
    ("postr-joint", {"marginalization": TOP_2}),
    ("mono-postr-joint", {"marginalization": TOP_2}),
    ("mono-postr-joint", {"coupling": {"kind": "monotone", "first": "before"}}),
    ("prox-postr-joint", {"input_feeding": "prior"}),
    ("mono-postr-joint", {"marginalization": "input", "input_feeding": "prior"}),
]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("name", "changed"), VARIANTS)
@torch.no_grad()
def test_fast_steps_equal_the_reference(name: str, changed: dict[str, Any], layers: int) -> None:
    model = tiny.model(tiny.components(name, **changed), layers=layers)
    source, lengths, _ = tiny.batch(rows=5)
    fast = stepper(model, model.encode(source, lengths), BEAM)
    slow = ReferenceStepper(model, model.encode(source, lengths), BEAM)
    assert isinstance(fast, FastStepper)
    generator = torch.Generator().manual_seed(7)
    symbol = torch.full((5, BEAM), BOS)
    for time in range(4):
        found, wanted = fast.step(symbol), slow.step(symbol)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(fast.query, slow.query, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(fast.prior, slow.prior, rtol=1e-9, atol=1e-9)
        parents = torch.randint(0, BEAM, symbol.shape, generator=generator)
        symbol = torch.randint(4, tiny.VOCABULARY, symbol.shape, generator=generator)
        fast.advance(parents, symbol)
        slow.advance(parents, symbol)
        assert fast.alignment is not None and slow.alignment is not None
        torch.testing.assert_close(fast.alignment, slow.alignment, rtol=1e-9, atol=1e-9)
        if time == 1:  # two sentences leave, the others change places
            left = torch.tensor([3, 0, 4])
            fast.keep(left)
            slow.keep(left)
            symbol = symbol[left]


def test_the_most_attended_position_is_never_the_end_or_padding() -> None:
    model = tiny.model(tiny.components("soft"))
    source, lengths, _ = tiny.batch(rows=3)
    steps = ReferenceStepper(model, model.encode(source, lengths), 2)
    steps.state = State(
        steps.state.hidden,
        steps.state.context,
        Past(
            alignment=torch.tensor(
                [
                    *([0.1, 0.2, 0.3, 0.4], [0.5, 0.2, 0.2, 0.1]),  # three words and the end
                    *([0.4, 0.6, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0]),  # one word, the end, padding
                    *([1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),  # nothing but the end
                ]
            )
        ),
    )
    found = most_attended(steps, torch.tensor([4, 2, 1]))
    assert found.tolist() == [[2, 0], [0, 0], [0, 0]]
