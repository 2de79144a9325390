"""Teacher forcing in analysis gives, step by step, what training and the definition give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import EOS, PAD
from pam.models.seq2seq import Seq2Seq
from tests.models import plain, tiny

TOP_2 = {"marginalization": {"kind": "output", "top_k": 2}}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tiny.NAMED),
    *((name, TOP_2) for name in ("prior-joint", "postr-joint", "mono-postr-joint")),
]
Given = tuple[Tensor, Tensor, Tensor]


def batch() -> Given:
    """Make a batch with targets of several lengths, each with its end symbol."""
    source, lengths, target = tiny.batch(rows=5)
    target = target.clamp_min(5)
    for row, length in enumerate((4, 5, 2, 4, 1)):
        target[row, length - 1] = EOS
        target[row, length:] = PAD

    return source, lengths, target


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("name", "changed"), VARIANTS)
@torch.no_grad()
def test_it_is_the_definition_s_and_training_s_teacher_forcing(
    name: str, changed: dict[str, Any], layers: int
) -> None:
    model = tiny.model(tiny.components(name, **changed), layers=layers)
    inputs = batch()
    forced = model.teacher_force(*inputs)
    expected = plain.force(model, *inputs)
    real = inputs[2] != PAD
    pairs = [
        (forced.log_probs, expected.log_probs),
        (forced.prior, expected.prior),
        (model.log_likelihood(*inputs), expected.log_probs),
    ]
    if name != "structured":  # whose alignment looks at the whole target, see test_attentions
        pairs.append((forced.alignment, expected.alignment))
    for ours, theirs in pairs:
        torch.testing.assert_close(ours[real], theirs[real], rtol=1e-8, atol=1e-9)

    assert torch.equal(forced.correct[real], expected.correct[real])


def exactly(model: Seq2Seq, inputs: Given) -> Tensor:
    """Compute log p(y_t) over all positions, step by step, with the states of the top-K model."""
    log_probs_of_steps = []
    for table, symbol in plain.steps(model, *inputs):
        log_probs_of_steps.append(
            torch.logsumexp(table.attention.log_prior + table.of_each(symbol), 1)
        )
    return torch.stack(log_probs_of_steps, 1)


@pytest.mark.parametrize(
    "name", ["prior-joint", "postr-joint", "mono-postr-joint", "variational", "acvi", "soft"]
)
@torch.no_grad()
def test_the_posterior_is_by_bayes_rule_where_positions_have_likelihoods(name: str) -> None:
    model = tiny.model(tiny.components(name))
    inputs = batch()
    forced = model.teacher_force(*inputs)
    real = inputs[2] != PAD
    if not model.marginalization.gives_positions:
        assert torch.equal(forced.posterior, forced.alignment)
        return
    expected = torch.stack(
        [
            torch.softmax(table.attention.log_prior + table.of_each(symbol), 1)
            for table, symbol in plain.steps(model, *inputs)
        ],
        1,
    )

    torch.testing.assert_close(forced.posterior[real], expected[real], rtol=1e-8, atol=1e-9)
    # What is handed on is the posterior in these models alone.
    assert torch.allclose(forced.posterior[real], forced.alignment[real]) == ("postr" in name)


@pytest.mark.parametrize("name", ["prior-joint", "postr-joint", "mono-postr-joint"])
@torch.no_grad()
def test_the_exact_sum_of_a_top_k_model_is_over_all_positions(name: str) -> None:
    model = tiny.model(tiny.components(name, **TOP_2))
    source, lengths, target = tiny.batch(rows=5)
    forced = model.teacher_force(source, lengths, target)
    exact = forced.exact
    cut = forced.log_probs
    expected = exactly(model, (source, lengths, target))

    torch.testing.assert_close(exact, expected, rtol=1e-8, atol=1e-9)
    assert (exact >= cut - 1e-12).all() and (exact > cut + 1e-3).any()


def test_without_top_k_the_exact_sum_is_the_sum() -> None:
    for name in ("soft", "postr-joint", "variational"):
        forced = tiny.model(tiny.components(name)).teacher_force(*batch())
        assert torch.equal(forced.exact, forced.log_probs)


def test_a_symbol_is_right_if_it_is_the_most_probable() -> None:
    model = tiny.model(tiny.components("postr-joint"))
    inputs = batch()
    model.readout.output.bias.data[EOS] += 50.0  # the end is always the most probable symbol
    forced = model.teacher_force(*inputs)

    assert torch.equal(forced.correct & (inputs[2] != PAD), inputs[2] == EOS)
