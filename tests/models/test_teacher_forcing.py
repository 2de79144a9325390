"""Teacher forcing computes what plain autograd does: values and gradients, for every model."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.models.kernels import output_layer
from pam.models.packing import PackedTargets
from pam.models.seq2seq import Seq2Seq
from pam.runtime import processor
from tests.long_forms import in_turn, long_form
from tests.models import plain, tiny
from tests.models.gradients import tapes_made

TOP_3 = {"kind": "output", "top_k": 3}
NUCLEUS = {"kind": "output", "mass": 0.8}
CAPPED = {"kind": "output", "mass": 0.8, "top_k": 2}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tiny.NAMED),
    ("prior-joint", {"marginalization": TOP_3}),
    ("postr-joint", {"marginalization": TOP_3}),
    ("mono-postr-joint", {"marginalization": TOP_3}),
    *(
        (name, {"marginalization": NUCLEUS})
        for name in ("prior-joint", "postr-joint", "prox-postr-joint")
    ),
    *(
        (name, {"marginalization": CAPPED})
        for name in ("prior-joint", "postr-joint", "mono-postr-joint")
    ),
    ("acvi", {"marginalization": NUCLEUS, "input_feeding": "posterior"}),
    ("postr-joint", {"input_feeding": {"kind": "posterior", "gradient": False}}),
    ("postr-joint", {"input_feeding": {"kind": "posterior", "mix": 0.3}}),
    ("postr-joint", {"input_feeding": "none"}),
    ("mono-postr-joint", {"coupling": {"kind": "monotone", "first": "before"}}),
    ("prox-postr-joint", {"coupling": {"kind": "proximity", "first": "before", "width": 2}}),
    ("mono-postr-joint", {"input_feeding": "prior"}),
    ("mono-postr-joint", {"input_feeding": "prior", "marginalization": "input"}),
    ("mono-postr-joint", {"distribution": "sparsemax"}),
    ("soft", {"score": "mlp"}),
    ("mixture", {"marginalization": {"kind": "mixture", "experts": 3, "rank": None}}),
    ("ved", {"marginalization": {"kind": "mixture", "experts": 2}}),
    ("postr-joint", {"score": "none"}),
    ("postr-joint", {"score": {"kind": "general", "scale": False}}),
    ("postr-joint", {"score": {"kind": "mlp", "units": 3}}),
    ("prior-joint", {"distribution": "sparsemax"}),
    ("postr-joint", {"distribution": "sparsemax"}),
    ("variational", {"marginalization": {"kind": "bound", "q_top_k": 3}}),
    ("variational-kl0.1", {}),
    ("variational", {"inference": {"kind": "bilstm", "scale": False}}),
    ("variational-sample", {"marginalization": {"kind": "bound", "q_top_k": 3}}),
    ("variational-sample", {"marginalization": {"kind": "bound", "weight": 0.1}}),
    ("variational-sample", {"estimator": {"kind": "reinforce", "baseline": "none"}}),
    # A moving baseline that does not move, as it is called step by step or once for all steps.
    ("hard", {"estimator": {"kind": "reinforce", "baseline": "moving", "decay": 1.0}}),
    ("hard", {"estimator": "exact"}),
    ("variational", {"input_feeding": "posterior"}),
    ("variational-gumbel", {"input_feeding": "posterior"}),
    ("hard", {"input_feeding": "prior", "estimator": "gumbel"}),
    ("acvi", {"latent": {"kind": "acvi", "samples": 3, "last": 1.0}}),
    ("acvi", {"input_feeding": "none", "score": "location"}),
    ("acvi", {"marginalization": "output", "input_feeding": "posterior"}),
    ("ved", {"latent": {"kind": "ved", "samples": 2}}),
    ("ved", {"marginalization": "output", "input_feeding": "posterior"}),
    ("structured", {"marginalization": "output", "coupling": {"kind": "chain", "reach": 1}}),
    ("local-m", {"window": {"kind": "monotonic", "width": 1}, "distribution": "sparsemax"}),
    ("local-p", {"window": {"kind": "predictive", "width": 2}, "marginalization": "output"}),
    ("hard-mono", {"latent": "acvi"}),
    ("hard-mono", {"latent": "ved"}),
    ("hard-mono", {"marginalization": "none"}),
    ("hard-mono", {"marginalization": "bound", "inference": "bilstm"}),
    ("agreement", {}),
    ("agreement", {"marginalization": "output", "input_feeding": "posterior"}),
    ("agreement", {"latent": {"kind": "acvi", "samples": 2}}),
]
"""Every kind of every component, and combinations in which one may look at another."""

SUMS_IN_CHUNKS = [
    (name, changed) for name, changed in VARIANTS if not changed or "marginalization" in changed
]
"""Variants whose sums over positions and symbols differ."""

SHAPES = {
    "unsorted lengths": ([2, 6, 3, 6], 1),
    "sorted lengths and two layers": ([6, 4, 4, 1], 2),
    "equal lengths": ([5, 5, 5, 5], 1),
}
"""Lengths of targets, and layers of a model."""

Batch = tuple[Tensor, Tensor, Tensor]
Values = Callable[..., Tensor]


def shortened(lengths: list[int]) -> Batch:
    """Return a batch whose targets have these lengths."""
    source, sizes, target = tiny.batch(rows=len(lengths), target=max(lengths))
    target[torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]] = PAD
    return source, sizes, target


def values_and_gradients(
    values: Values, model: Seq2Seq, batch: Batch, uneven: bool = True
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return a function's values at real symbols, and the gradients of a weighted sum of them."""
    torch.manual_seed(3)
    model.zero_grad()
    real = batch[2] != PAD
    result = values(model, *batch)[real]
    weights = torch.ones_like(result)
    if uneven:
        # Some of them are zero.
        weights = torch.linspace(0.5, 1.5, len(result)).to(result)
        weights = weights * (torch.arange(len(result)) % 4 > 0)

    (result * weights).sum().backward()
    gradients = {
        name: torch.zeros_like(part) if part.grad is None else part.grad.clone()
        for name, part in model.named_parameters()
    }
    return result.detach(), gradients


def objective(model: Seq2Seq, *batch: Tensor) -> Tensor:
    return model.objective(*batch)


def log_likelihood(model: Seq2Seq, *batch: Tensor) -> Tensor:
    return model.log_likelihood(*batch)


def assert_same(
    model: Seq2Seq,
    batch: Batch | None = None,
    pair: tuple[Values, Values] = (objective, plain.objective),
    uneven: bool = True,
) -> None:
    """Check that both functions have the same values and gradients, with the same draws."""
    batch = batch or tiny.batch()
    function, twin = pair
    values, gradients = values_and_gradients(function, model, batch, uneven)
    twin_values, twin_gradients = values_and_gradients(twin, model, batch, uneven)

    assert twin_values.abs().max() > 0.1
    torch.testing.assert_close(values, twin_values, rtol=1e-10, atol=1e-10)
    assert any(gradient.abs().max() > 1e-3 for gradient in twin_gradients.values())

    for name, twin_gradient in twin_gradients.items():
        torch.testing.assert_close(
            gradients[name],
            twin_gradient,
            rtol=1e-9,
            atol=1e-10,
            msg=lambda message, name=name: f"{name}: {message}",
        )


def made(name: str, changed: dict[str, Any], layers: int = 1) -> Seq2Seq:
    """Make a model in training, with dropout."""
    return tiny.model(tiny.components(name, **changed), layers=layers, dropout=0.3).train()


@pytest.mark.parametrize(("variant", "shape"), in_turn(VARIANTS, list(SHAPES)), ids=str)
def test_objectives_and_gradients_are_those_of_plain_autograd(
    variant: tuple[str, dict[str, Any]], shape: str
) -> None:
    lengths, layers = SHAPES[shape]
    assert_same(made(*variant, layers), shortened(lengths))


@pytest.mark.parametrize(
    ("name", "changed"),
    [*SUMS_IN_CHUNKS, *long_form(case for case in VARIANTS if case not in SUMS_IN_CHUNKS)],
)
def test_a_vocabulary_too_large_to_store_gives_the_same_values_and_gradients(
    name: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "CHUNK", 160)
    assert_same(made(name, changed), shortened([2, 5, 3, 5]))


@pytest.mark.parametrize(("name", "changed"), VARIANTS)
def test_likelihoods_and_gradients_are_those_of_plain_autograd(
    name: str, changed: dict[str, Any]
) -> None:
    model = tiny.model(tiny.components(name, **changed))
    assert_same(model, shortened([2, 6, 3, 6]), (log_likelihood, plain.log_likelihood))


@pytest.mark.parametrize("chunk", [160, output_layer.CHUNK])
@pytest.mark.parametrize("name", ["soft", "prior-joint", "postr-joint", "variational"])
def test_rows_without_weight_are_left_out_and_change_nothing(
    name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    model = tiny.model(tiny.components(name))
    with torch.no_grad():
        model.score.weight.weight.mul_(100)  # attention is all but one-hot
    left_out = []
    original = output_layer.significant_rows

    def noted(scale: Tensor, width: int) -> Tensor | None:
        left_out.append(original(scale, 1000 * width))
        return left_out[-1]

    monkeypatch.setattr(output_layer, "significant_rows", noted)

    assert_same(model)

    if name == "prior-joint" or (name == "postr-joint" and chunk == 160):
        assert any(rows is not None for rows in left_out)


@pytest.mark.parametrize("name", ["soft", "prior-joint", "postr-joint", "variational", "ved"])
def test_a_plain_sum_of_symbols_has_the_gradient_of_plain_autograd(name: str) -> None:
    assert_same(made(name, {}), uneven=False)


@pytest.mark.parametrize("reads", ["forward", "backward"])
def test_an_encoder_of_one_direction_gives_the_same_values_and_gradients(reads: str) -> None:
    model = tiny.model(tiny.components("postr-joint"), layers=2, encoder_reads=reads)
    assert_same(model, shortened([2, 6, 3, 6]))


@pytest.mark.parametrize("name", tiny.NAMED)
def test_neither_the_order_of_rows_nor_padding_of_targets_changes_a_value(name: str) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, target = shortened([2, 6, 3, 5])
    turned = torch.tensor([2, 0, 3, 1])
    expected = model.log_likelihood(source, lengths, target)
    actual = model.log_likelihood(source[turned], lengths[turned], target[turned])

    torch.testing.assert_close(actual, expected[turned])

    wide = model.log_likelihood(source, lengths, torch.nn.functional.pad(target, (0, 3)))
    assert wide.shape == (4, 9) and (wide[:, 6:] == 0).all()
    torch.testing.assert_close(wide[:, :6], expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", [*tiny.NAMED, "agreement"])
def test_steps_of_all_rows_have_the_values_and_gradients_of_steps_that_drop_ended_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PackedTargets` alone decides the rows of a step."""
    model = tiny.model(tiny.components(name)).train()
    batch = shortened([6, 4, 4, 1])
    expected = values_and_gradients(objective, model, batch)
    monkeypatch.setattr(PackedTargets, "of", partial(PackedTargets.of, drop_ended=False))
    actual = values_and_gradients(objective, model, batch)

    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.processor
@pytest.mark.skipif(not processor.try_bfloat16().pays, reason=processor.try_bfloat16().reason)
@pytest.mark.parametrize("name", [*tiny.NAMED, "agreement"])
def test_products_in_bfloat16_stay_near_the_exact_ones(name: str) -> None:
    model = tiny.model(tiny.components(name)).float()
    model.train()
    exact_values, exact_gradients = values_and_gradients(objective, model, tiny.batch())
    model.use_bf16(True)
    values, gradients = values_and_gradients(objective, model, tiny.batch())
    assert values.dtype == torch.float32 and not torch.equal(values, exact_values)
    torch.testing.assert_close(values, exact_values, rtol=0.03, atol=0.06)

    rough = torch.cat([gradient.flatten() for gradient in gradients.values()])
    exact = torch.cat([gradient.flatten() for gradient in exact_gradients.values()])
    assert (rough - exact).norm() < 0.05 * exact.norm()

    # Development losses have the precision of training.
    model.eval()
    rough = model.log_likelihood(*tiny.batch())
    model.use_bf16(False)
    exact = model.log_likelihood(*tiny.batch())

    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0.03, atol=0.06)


@pytest.mark.processor
@pytest.mark.parametrize("name", tiny.NAMED)
def test_float32_stays_near_float64(name: str) -> None:
    model = tiny.model(tiny.components(name))
    expected = model.log_likelihood(*tiny.batch())
    actual = model.float().log_likelihood(*tiny.batch())
    torch.testing.assert_close(actual.double(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["soft", "postr-joint", "mono-postr-joint", "variational"])
def test_a_batch_frees_its_memory_without_the_garbage_collector(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tapes = tapes_made(monkeypatch)
    model = tiny.model(tiny.components(name)).train()
    gc.disable()

    try:
        model.objective(*tiny.batch()).sum().backward()
        model.objective(*tiny.batch())  # never differentiated
        assert len(tapes) > 4
        assert [tape() for tape in tapes if tape() is not None] == []
    finally:
        gc.enable()
