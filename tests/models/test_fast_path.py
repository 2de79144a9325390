"""The fast path computes what the reference defines: values and gradients, for every model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pam.fast import joint, likelihood, toeplitz
from pam.fast.coverage import covers
from pam.fast.teacher import token_log_probs, token_objective
from pam.models.seq2seq import Seq2Seq
from tests.models import tiny

TOP_3 = {"kind": "output", "top_k": 3}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in tiny.NAMED),
    ("prior-joint", {"marginalization": TOP_3}),
    ("postr-joint", {"marginalization": TOP_3}),
    ("mono-postr-joint", {"marginalization": TOP_3}),
    ("postr-joint", {"input_feeding": {"kind": "posterior", "gradient": False}}),
    ("postr-joint", {"input_feeding": {"kind": "posterior", "mix": 0.3}}),
    ("mono-postr-joint", {"coupling": {"kind": "monotone", "first": "before"}}),
    ("prox-postr-joint", {"coupling": {"kind": "proximity", "first": "before", "width": 2}}),
    ("mono-postr-joint", {"input_feeding": "prior"}),
    ("mono-postr-joint", {"input_feeding": "prior", "marginalization": "input"}),
    ("soft", {"score": "mlp"}),
    ("postr-joint", {"score": {"kind": "general", "scale": True}}),
    ("postr-joint", {"score": {"kind": "mlp", "units": 3}}),
    ("sparse", {}),
    ("sparsemax", {}),
    ("prior-joint", {"distribution": "sparsemax"}),
    ("postr-joint", {"distribution": "sparsemax"}),
    ("variational", {}),
    ("variational", {"marginalization": {"kind": "bound", "q_top_k": 3}}),
    ("variational-kl0.1", {}),
    ("variational", {"inference": {"kind": "bilstm", "scale": True}}),
    ("variational-sample", {"marginalization": {"kind": "bound", "q_top_k": 3}}),
    ("variational-sample", {"marginalization": {"kind": "bound", "weight": 0.1}}),
    ("variational-sample", {"estimator": {"kind": "reinforce", "baseline": "none"}}),
    # A moving baseline that stands still, as the two paths call it at other times.
    ("hard", {"estimator": {"kind": "reinforce", "baseline": "moving", "decay": 1.0}}),
    ("hard", {"estimator": "exact"}),
    ("variational", {"input_feeding": "posterior"}),
    ("variational-gumbel", {"input_feeding": "posterior"}),
    ("hard", {"input_feeding": "prior", "estimator": "gumbel"}),
    ("acvi", {"latent": {"kind": "acvi", "samples": 3, "last": 1.0}}),
    ("acvi", {"input_feeding": "none", "score": "location"}),
    ("ved", {"latent": {"kind": "ved", "samples": 2}}),
    ("ved", {"marginalization": "output", "input_feeding": "posterior"}),
    ("structured", {"marginalization": "output", "coupling": {"kind": "chain", "reach": 1}}),
    ("local-m", {"window": {"kind": "monotonic", "width": 1}, "distribution": "sparsemax"}),
    ("local-p", {"window": {"kind": "predictive", "width": 2}, "marginalization": "output"}),
]


Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def both_paths(model: Seq2Seq, given: Given) -> list[tuple[torch.Tensor, dict[str, Any]]]:
    """Values and gradients by the reference and by the fast path, with the same dropout."""
    source, lengths, target = given
    found = []
    for path in ("reference", "fast"):
        torch.manual_seed(3)
        model.zero_grad()
        if path == "reference":
            values = model.objective(source, lengths, target)
        else:
            values = token_objective(model, source, lengths, target)
        weights = torch.linspace(0.5, 1.5, values.numel(), dtype=values.dtype).view_as(values)
        weights = weights * (torch.arange(values.numel()).view_as(values) % 4 > 0)
        weights, values = weights[target != 0], values[target != 0]
        (values * weights).sum().backward()
        found.append((values.detach(), {k: p.grad for k, p in model.named_parameters()}))
    return found


def assert_same(model: Seq2Seq, given: Given | None = None) -> None:
    (slow, slow_grads), (fast, fast_grads) = both_paths(model, given or tiny.batch())
    assert covers(model, draws=True)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    assert slow.abs().max() > 0.1
    for name, gradient in slow_grads.items():
        if gradient is None:
            assert fast_grads[name] is None, name
        else:
            torch.testing.assert_close(
                fast_grads[name], gradient, rtol=1e-9, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}"
            )


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("name", "changed"), VARIANTS)
def test_values_and_gradients_equal_the_reference(
    name: str, changed: dict[str, Any], layers: int
) -> None:
    model = tiny.model(tiny.components(name, **changed), layers=layers, dropout=0.3).train()
    assert_same(model)


@pytest.mark.parametrize("lengths", [[6, 4, 4, 1], [2, 6, 3, 6]], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("name", "changed"), VARIANTS)
def test_rows_that_end_early_give_the_same_values_and_gradients(
    name: str, changed: dict[str, Any], layers: int, lengths: list[int]
) -> None:
    model = tiny.model(tiny.components(name, **changed), layers=layers, dropout=0.3).train()
    _, _, target = given = tiny.batch(target=6)
    target[torch.arange(6) >= torch.tensor(lengths)[:, None]] = 0
    assert_same(model, given)


@pytest.mark.parametrize(("name", "changed"), VARIANTS)
def test_a_vocabulary_too_large_to_keep_gives_the_same_values_and_gradients(
    name: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood, "KEPT", 0)
    monkeypatch.setattr(joint, "CHUNK", 20)
    assert_same(tiny.model(tiny.components(name, **changed), dropout=0.3).train())


@pytest.mark.parametrize("name", ["soft", "prior-joint", "postr-joint"])
def test_rows_without_weight_are_left_out_and_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood, "KEPT", 0)
    model = tiny.model(tiny.components(name))
    with torch.no_grad():
        model.score.weight.weight.mul_(100)  # attention is all but one-hot
    assert_same(model)


@pytest.mark.parametrize("name", ["soft", "postr-joint"])
def test_a_plain_sum_of_tokens_has_the_gradient_of_the_reference(name: str) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, target = tiny.batch()
    model.teacher_forced(source, lengths, target).log_probs.sum().backward()
    expected = {key: value.grad for key, value in model.named_parameters()}
    model.zero_grad()
    token_log_probs(model, source, lengths, target).sum().backward()
    for key, value in model.named_parameters():
        torch.testing.assert_close(value.grad, expected[key], msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", ["prior-joint", "postr-joint"])
def test_narrow_products_stay_near_the_exact_ones(name: str) -> None:
    model = tiny.model(tiny.components(name)).float()
    source, lengths, target = tiny.batch()
    exact = token_log_probs(model, source, lengths, target)
    narrow = token_log_probs(model, source, lengths, target, narrow=True)
    assert not torch.equal(exact, narrow)
    torch.testing.assert_close(narrow, exact, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("name", ["prox-postr-joint", "mono-postr-joint"])
def test_long_sources_by_fourier_transform_equal_the_reference(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toeplitz, "DENSE", 1)
    assert_same(tiny.model(tiny.components(name)))


@pytest.mark.parametrize("name", tiny.NAMED)
def test_float32_stays_near_float64(name: str) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, target = tiny.batch()
    exact = token_log_probs(model, source, lengths, target)
    single = token_log_probs(model.float(), source, lengths, target)
    torch.testing.assert_close(single.double(), exact, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("acvi", {"marginalization": "output", "input_feeding": "posterior"}),
        ("hard-mono", {"latent": "acvi"}),
        ("hard-mono", {"latent": "ved"}),
        ("hard-mono", {"marginalization": "none"}),
        ("hard-mono", {"marginalization": "bound", "inference": "bilstm"}),
    ],
)
def test_unusual_combinations_equal_the_reference_whatever_computes_them(
    name: str, changed: dict[str, Any]
) -> None:
    model = tiny.model(tiny.components(name, **changed), dropout=0.3).train()
    (slow, slow_grads), (fast, fast_grads) = both_paths(model, tiny.batch())
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    for key, gradient in slow_grads.items():
        zero = torch.zeros_like(model.get_parameter(key))
        ours, theirs = (zero if part is None else part for part in (fast_grads[key], gradient))
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_a_score_that_is_not_covered_is_computed_by_the_reference() -> None:
    model = tiny.model(tiny.components("postr-joint", score="none"))
    source, lengths, target = tiny.batch()
    assert not covers(model, draws=True)
    torch.testing.assert_close(
        token_log_probs(model, source, lengths, target),
        model.teacher_forced(source, lengths, target).log_probs,
    )


def test_the_recurrence_frees_its_memory_without_the_garbage_collector() -> None:
    import gc
    import weakref

    from pam.fast import recurrence

    tapes: list[Any] = []
    made = recurrence._Tape.__init__

    def noted(self: Any, *args: Any) -> None:
        made(self, *args)
        tapes.append(weakref.ref(self))

    model = tiny.model(tiny.components("postr-joint")).train()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recurrence._Tape, "__init__", noted)
            token_log_probs(model, *tiny.batch()).sum().backward()
            token_log_probs(model, *tiny.batch())  # never differentiated
        assert len(tapes) == 2
        assert all(tape() is None for tape in tapes)
    finally:
        gc.enable()
