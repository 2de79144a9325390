"""Static steps, whose shapes depend on no value, compute what ragged ones do, without waiting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from pam.data.vocabulary import EOS, PAD
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models.build import build
from pam.models.kernels import output_layer
from pam.models.model import Model
from tests.long_forms import long_form
from tests.models import tiny

Batch = tuple[Tensor, Tensor, Tensor]

MOVING = {"kind": "linear", "first": 0.5, "last": 1.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "postr-joint, a nucleus": {"marginalization": {"kind": "output", "mass": 0.9}},
    "postr-joint, three positions of it": {
        "marginalization": {"kind": "output", "mass": 0.9, "top_k": 3}
    },
    "postr-joint-pointer, two positions": {"marginalization": {"kind": "output", "top_k": 2}},
    "hard, a moving average": {
        "estimator": {"kind": "reinforce", "baseline": "moving", "entropy": MOVING}
    },
    "variational, a rising weight": {"marginalization": {"kind": "bound", "weight": MOVING}},
    "acvi, several draws": {"latent": {"kind": "acvi", "samples": 2, "weight": MOVING}},
}
NAMES = [*tiny.NAMED, *VARIANTS]
OWN_OBJECTIVES = [
    "soft",
    "acvi",
    "ved",
    "variational",
    "variational-sample",
    "variational-gumbel",
    "hard",
    *VARIANTS,
]
"""Models whose objective is not their likelihood, `soft`, and all variants."""
HEAD = {"architecture": {"kind": "aligned-transformer", "heads": 2}}
COUPLED = {"kind": "posterior", "context": False}
POSTERIOR = {"marginalization": "output", "coupling": "proximity", "input_feeding": COUPLED}
OTHERS: dict[str, dict[str, Any]] = {
    "agreement": {"architecture": "agreement"},
    "transformer": {"architecture": {"kind": "transformer", "heads": 2}},
    "aligned-transformer": HEAD | {"input_feeding": "none", "copying": "pointer"},
    "aligned-transformer, posterior": HEAD | POSTERIOR,
    "aligned-transformer, log-linear": POSTERIOR
    | {"architecture": HEAD["architecture"] | {"readout": "log-linear"}},
    "aligned-transformer, agreement": POSTERIOR
    | {
        "architecture": {"kind": "aligned-transformer-agreement", "heads": 2, "of": "posterior"},
    },
}


def components(name: str) -> ModelConfig:
    """Return the components of a named model, or of a variant of one."""
    return tiny.components(name.partition(",")[0], **VARIANTS.get(name, {}))


def other(changed: dict[str, Any], dropout: float = 0.0) -> Model:
    """Make a model of another architecture, in float64."""
    torch.manual_seed(1)
    network = Network(embedding=4, encoder=3, decoder=5, dropout=dropout)
    chosen = ModelConfig(label="other", **changed)
    return build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double()


def made(name: str, dropout: float = 0.0) -> Model:
    if name in OTHERS:
        return other(OTHERS[name], dropout)
    return tiny.model(components(name), dropout=dropout)


def ragged_batch(source_eos: bool = True) -> Batch:
    """Return a batch of several lengths, the longest target first."""
    source, lengths, target = tiny.batch(rows=4, source=6, target=5)
    target[:, -1] = EOS
    for row, size in enumerate((5, 4, 2, 2)):
        target[row, size - 1] = EOS
        target[row, size:] = PAD

    if source_eos:
        source = source.scatter(1, lengths[:, None] - 1, EOS)
    return source, lengths, target


def padded(batch: Batch) -> Batch:
    """Add two rows of padding, and positions and steps far beyond the end of all rows."""
    source, lengths, target = batch
    return (
        F.pad(source, (0, 13, 0, 2)),
        F.pad(lengths, (0, 2), value=1),
        F.pad(target, (0, 7, 0, 2)),
    )


class SameDraws(TorchDispatchMode):
    """Replaces random draws by entries of one large table, whatever their shape.

    A row, a step and a position then have the same draw in batches with and without padding.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawn = func(*args, **(kwargs or {}))
        if func.overloadpacket not in (
            torch.ops.aten.rand,
            torch.ops.aten.randn,
            torch.ops.aten.randn_like,
        ):
            return drawn

        shape = drawn.shape
        index = torch.zeros(shape, dtype=torch.float64)
        for dimension, size in enumerate(shape):
            steps = torch.arange(size, dtype=torch.float64) * (0.37 + 0.71 * dimension)
            index = index + steps.view(-1, *[1] * (len(shape) - dimension - 1))

        uniform = 0.5 + 0.45 * torch.sin(17.0 * index + 1.0)
        return drawn.copy_(
            uniform if func.overloadpacket is torch.ops.aten.rand else 3 * uniform - 1.5
        )


def gradients(model: Model, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: part.grad for name, part in model.named_parameters() if part.grad is not None}


def assert_static_is_ragged(model: Model, method: str, batch: Batch) -> None:
    """Check values and gradients of a method, such as `objective`, in both ways."""
    rows, steps = batch[2].shape
    is_real = batch[2] != PAD
    buffers = {name: part.clone() for name, part in model.named_buffers()}
    with SameDraws():
        ragged = getattr(model, method)(*batch)
    expected = torch.where(is_real, ragged, 0.0)
    expected_gradients = gradients(model, expected.sum() / 7)
    # Undo what the first pass did to moving averages.
    for name, part in model.named_buffers():
        part.copy_(buffers[name])

    larger = padded(batch)

    with SameDraws(), model.computing(static=True):
        static = getattr(model, method)(*larger)
        assert static.shape == larger[2].shape
        values = torch.where(larger[2] != PAD, static, 0.0)
        static_gradients = gradients(model, values.sum() / 7)

    torch.testing.assert_close(values[:rows, :steps], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(static_gradients, expected_gradients, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [*OWN_OBJECTIVES, "transformer", *long_form(n for n in NAMES if n not in OWN_OBJECTIVES)],
)
def test_static_likelihoods_are_the_ragged_ones(name: str) -> None:
    assert_static_is_ragged(made(name).eval(), "log_likelihood", ragged_batch())


@pytest.mark.parametrize("name", [*NAMES, "agreement", "aligned-transformer, agreement"])
def test_static_objectives_are_the_ragged_ones(name: str) -> None:
    assert_static_is_ragged(made(name).train(), "objective", ragged_batch())


@pytest.mark.parametrize(
    "name", ["agreement", "aligned-transformer, agreement", "postr-joint-pointer"]
)
def test_static_objectives_are_the_ragged_ones_without_end_symbols_of_sources(name: str) -> None:
    assert_static_is_ragged(made(name).train(), "objective", ragged_batch(source_eos=False))


@pytest.mark.parametrize("chunk", [output_layer.CHUNK, 1])
@pytest.mark.parametrize(
    "name", ["postr-joint", "postr-joint, three positions of it", "variational"]
)
def test_static_objectives_are_the_ragged_ones_in_small_pieces(
    name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    monkeypatch.setattr(output_layer, "PICKING", 0)
    assert_static_is_ragged(made(name).train(), "objective", ragged_batch())


def test_a_static_gradient_of_tokens_that_weigh_differently_is_no_number() -> None:
    batch = ragged_batch()
    model = made("soft")
    with model.computing(static=True):
        values = model.log_likelihood(*batch)
        static_gradients = gradients(model, (values * torch.arange(5)).sum())

    assert any(part.isnan().any() for part in static_gradients.values())


class NoCopies(TorchDispatchMode):
    """Refuses tensors that are made of numbers on the host: a GPU would wait for the copy."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket not in (torch.ops.aten.lift_fresh, torch.ops.aten.lift), func
        return func(*args, **(kwargs or {}))


def forget_values(model: Model, mode: FakeTensorMode) -> None:
    """Give a model weights and buffers without values."""
    for part in model.modules():
        for name, weight in list(part._parameters.items()):
            if weight is not None:
                setattr(part, name, torch.nn.Parameter(mode.from_tensor(weight.data)))

        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                setattr(part, name, mode.from_tensor(buffer))


@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_a_static_step_waits_for_no_value(name: str) -> None:
    """Tensors have no values here, so that code which asks for one fails."""
    batch = tuple(
        part[-3:, :2] if part.dim() == 2 else part[-3:] for part in padded(ragged_batch())
    )
    model = made(name, dropout=0.3).train()
    mode = FakeTensorMode()
    forget_values(model, mode)

    with mode:
        fake = tuple(mode.from_tensor(part) for part in batch)
        model.hold_schedules(torch.device("cpu"))
        model.progress(3, 10)

        # Some parts have to wait, and say so.
        with model.computing(static=True), NoCopies():
            if model.waiting_parts():
                with pytest.raises(DataDependentOutputException):
                    model.objective(*fake)
                return

            values = model.objective(*fake)
            torch.where(fake[2] != PAD, values, 0.0).sum().backward()
            gradients = [part.grad for part in model.parameters() if part.grad is not None]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    assert len(gradients) > 5


def test_a_model_that_has_to_wait_says_which_part_does() -> None:
    model = tiny.model(tiny.components("soft", distribution={"kind": "fusedmax"}))
    assert model.waiting_parts() == [
        "fusedmax asks after each round of its denoising whether a level has changed"
    ]
    assert (
        tiny.model(
            tiny.components("soft", distribution={"kind": "fusedmax", "weight": 0})
        ).waiting_parts()
        == []
    )


def test_gradual_schedules_are_held_as_tensors_and_others_are_settings_of_a_step() -> None:
    model = tiny.model(components("acvi, several draws"))
    # `single` jumps once, at the end of training; the weight changes at each step.
    before = model.latent.single
    model.hold_schedules(torch.device("cpu"))
    held = model.latent.weight
    model.progress(5, 10)

    assert held is model.latent.weight
    assert float(held) == 0.75
    assert before in model.settings

    settings = model.settings
    model.progress(10, 10)
    assert model.settings != settings
