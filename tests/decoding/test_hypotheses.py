"""Hypotheses side by side are what each of them would be alone, by plain autograd's definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import BOS
from pam.decoding.hypotheses import Hypotheses
from pam.models.attention_model import State, Step
from pam.models.head import AttentionState
from pam.models.interfaces import AttentionHistory, Memory
from pam.models.seq2seq import Previous, Seq2Seq
from tests.models import plain, tiny

BEAM = 3
TOP_2 = {"kind": "output", "top_k": 2}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tiny.NAMED),
    ("prior-joint", {"marginalization": TOP_2}),
    ("postr-joint", {"marginalization": TOP_2}),
    ("mono-postr-joint", {"marginalization": TOP_2}),
    ("variational", {"input_feeding": "posterior"}),
    ("ved", {"marginalization": "output", "input_feeding": "posterior"}),
    ("mono-postr-joint", {"coupling": {"kind": "monotone", "first": "before"}}),
    ("prox-postr-joint", {"input_feeding": "prior"}),
    ("mono-postr-joint", {"marginalization": "input", "input_feeding": "prior"}),
    ("postr-joint", {"input_feeding": "none"}),
]


class Alone:
    """Hypotheses as rows of a batch, each with a copy of its source."""

    def __init__(self, model: Seq2Seq, source: Tensor, lengths: Tensor) -> None:
        self.model = model
        self.sources = source.repeat_interleave(BEAM, 0), lengths.repeat_interleave(BEAM, 0)
        self.memory = self.encoded()
        self.state = model.start(self.memory)

    def encoded(self) -> Memory:
        with plain.plain_kernels():
            return self.model.encoded(*self.sources)

    def step(self, symbol: Tensor) -> Step:
        previous = Previous(self.model.decoder.gates(symbol.flatten()))
        with plain.plain_kernels():
            self.last_step = plain.step(
                self.model, self.memory, self.state, previous, symbol.flatten()
            )
        return self.last_step

    def update(self, parents: Tensor, symbol: Tensor) -> None:
        """Set each parent's state after its child's symbol, a child at a time."""
        states = []
        parents = BEAM * torch.arange(len(parents))[:, None] + parents
        for parent, written in zip(parents.flatten(), symbol.flatten(), strict=True):
            chosen = torch.full_like(symbol.flatten(), int(written))
            after = self.model.update(self.memory, self.last_step, chosen)
            states.append(after.select(parent[None]))

        hidden = tuple(
            tuple(torch.cat([state.hidden[layer][part] for state in states]) for part in (0, 1))
            for layer in range(len(states[0].hidden))
        )
        attention = [state.attention for state in states]
        history = AttentionHistory(
            attention[0].history.steps,
            torch.cat([part.history.alignment for part in attention]),
            torch.cat([part.history.summed for part in attention]),
        )
        context = torch.cat([part.context for part in attention])
        self.state = State(hidden, AttentionState(context, history))

    def keep(self, left: Tensor) -> None:
        rows = (BEAM * left[:, None] + torch.arange(BEAM)).flatten()
        self.sources = self.sources[0][rows], self.sources[1][rows]
        self.memory = self.encoded()
        self.state = self.state.select(rows)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("name", "changed"), VARIANTS)
@torch.no_grad()
def test_a_beam_is_its_hypotheses_alone(name: str, changed: dict[str, Any], layers: int) -> None:
    model = tiny.model(tiny.components(name, **changed), layers=layers)
    source, lengths, _ = tiny.batch(rows=5)
    together = Hypotheses(model, source, lengths, BEAM)
    alone = Alone(model, source, lengths)
    generator = torch.Generator().manual_seed(7)
    symbol = torch.full((5, BEAM), BOS)

    for time in range(4):
        log_probs = together.step(symbol)
        step_alone = alone.step(symbol)
        expected = step_alone.output.log_probs()
        impossible = expected < -600  # no word of the source
        close(log_probs.flatten(0, 1), expected.masked_fill(impossible, -torch.inf))
        close(together.last_step.query, step_alone.query)
        close(together.last_step.log_prior.exp(), step_alone.log_prior.exp())
        parents = torch.randint(0, BEAM, symbol.shape, generator=generator)
        symbol = torch.randint(4, tiny.VOCABULARY, symbol.shape, generator=generator)
        together.update(parents, symbol)
        alone.update(parents, symbol)
        close(together.state.alignment, alone.state.alignment)
        if time == 1:  # two sentences leave, the others change places
            left = torch.tensor([3, 0, 4])
            together.keep(left)
            alone.keep(left)
            symbol = symbol[left]


def close(actual: Tensor, expected: Tensor | None) -> None:
    assert expected is not None
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", tiny.NAMED)
@torch.no_grad()
def test_hypotheses_that_go_on_from_themselves_need_no_parents(name: str) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, _ = tiny.batch()
    symbol = torch.full((4, BEAM), BOS)
    results = []

    for parents in (None, torch.arange(BEAM).expand(4, -1)):
        hypotheses = Hypotheses(model, source, lengths, BEAM)
        hypotheses.step(symbol)
        hypotheses.update(parents, symbol + 5)
        results.append(hypotheses.step(symbol + 5).clone())

    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


def test_the_most_attended_position_is_never_the_end_or_padding() -> None:
    model = tiny.model(tiny.components("soft"))
    source, lengths, _ = tiny.batch(rows=3)
    hypotheses = Hypotheses(model, source, lengths, 2)
    alignment = torch.tensor(
        [
            *([0.1, 0.2, 0.3, 0.4], [0.5, 0.2, 0.2, 0.1]),  # three words and the end
            *([0.4, 0.6, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0]),  # one word, the end, padding
            *([1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),  # nothing but the end
        ]
    )
    state = hypotheses.state
    history = AttentionHistory(alignment=alignment)
    hypotheses.state = State(state.hidden, AttentionState(state.attention.context, history))
    positions = hypotheses.most_attended(torch.tensor([3, 1, 0]))

    assert positions.tolist() == [[2, 0], [0, 0], [0, 0]]
