"""Teacher forcing through the steppers gives what the definition gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pam.decoding.forced import Forced, force
from torch import Tensor

from pam.data.dataset import Batch
from pam.data.vocabulary import EOS, PAD
from pam.models.seq2seq import Seq2Seq
from tests.models import tiny

TOP_2 = {"marginalization": {"kind": "output", "top_k": 2}}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tiny.NAMED),
    *((name, TOP_2) for name in ("prior-joint", "postr-joint", "mono-postr-joint")),
]


def batch() -> Batch:
    """Targets of several lengths, the longest first, each with its end symbol."""
    source, lengths, target = tiny.batch(rows=5)
    target = target.clamp_min(5)
    for row, length in enumerate((5, 4, 4, 2, 1)):
        target[row, length - 1] = EOS
        target[row, length:] = PAD
    return Batch(np.arange(5), source, lengths, target)


def real(values: Tensor, given: Batch) -> Tensor:
    """Entries at real target positions."""
    return values[given.mask]


@pytest.mark.parametrize(("name", "changed"), VARIANTS)
def test_it_is_the_references_teacher_forcing(name: str, changed: dict[str, Any]) -> None:
    model, given = tiny.model(tiny.components(name, **changed)), batch()
    found = force(model, given)
    with torch.no_grad():
        wanted = model.teacher_forced(given.source, given.lengths, given.target)
    pairs = [(found.log_probs, wanted.log_probs), (found.prior, wanted.prior)]
    if name != "structured":  # whose alignment looks at the whole target, see test_attentions
        pairs.append((found.alignment, wanted.alignment))
    for ours, theirs in pairs:
        torch.testing.assert_close(real(ours, given), real(theirs, given), rtol=1e-8, atol=1e-9)


def exactly(model: Seq2Seq, given: Batch) -> Tensor:
    """log p(y_t) over all positions, step by step, with the states of the top-K model."""
    with torch.no_grad():
        memory = model.encode(given.source, given.lengths)
        state, last, found = model.start(memory), torch.ones(5).long(), []
        for gold in given.target.unbind(1):
            step = model.step(memory, state, model.recurrence.embed(last))
            assert step.marginal.positions is not None
            log_probs = torch.logsumexp(step.log_prior[:, :, None] + step.marginal.positions, 1)
            found.append(log_probs.gather(1, gold[:, None]))
            state, last = model.advance(memory, step, gold), gold
    return torch.cat(found, 1)


@pytest.mark.parametrize("name", ["prior-joint", "postr-joint", "mono-postr-joint"])
def test_the_exact_sum_of_a_top_k_model_is_over_all_positions(name: str) -> None:
    model, given = tiny.model(tiny.components(name, **TOP_2)), batch()
    found = force(model, given)
    exact, cut = real(found.exact, given), real(found.log_probs, given)
    torch.testing.assert_close(exact, real(exactly(model, given), given), rtol=1e-8, atol=1e-9)
    assert (exact >= cut - 1e-12).all() and (exact > cut + 1e-3).any()


def test_without_top_k_the_exact_sum_is_the_sum() -> None:
    for name in ("soft", "postr-joint", "variational"):
        found: Forced = force(tiny.model(tiny.components(name)), batch())
        assert torch.equal(found.exact, found.log_probs)


def test_a_symbol_is_right_if_it_is_the_most_probable() -> None:
    model, given = tiny.model(tiny.components("postr-joint")), batch()
    model.readout.output.bias.data[EOS] += 50.0
    found = force(model, given)
    assert torch.equal(found.correct & given.mask, given.target == EOS)
