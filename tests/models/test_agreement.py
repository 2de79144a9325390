"""Both directions together: the objective by hand, and decoding by one of them (float64)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import EOS, PAD
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Decoding, Network
from pam.models.agreement import Agreement
from pam.models.build import build
from pam.models.fitting import check_fit
from tests.decoding.best import decode
from tests.models import tiny


def made(**changed: object) -> Agreement:
    model = tiny.model(tiny.components("agreement", **changed))
    assert isinstance(model, Agreement)
    return model


def batch(source_eos: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source, lengths, target = tiny.batch()
    sizes = torch.tensor([5, 3, 2, 4])
    target[torch.arange(5) >= sizes[:, None]] = PAD
    target.scatter_(1, sizes[:, None] - 1, EOS)
    if source_eos:
        source.scatter_(1, lengths[:, None] - 1, EOS)

    return source, lengths, target


def test_the_objective_is_both_likelihoods_and_the_trace() -> None:
    assert_objective_by_hand(made(), of="prior", weight=1.0)


def assert_objective_by_hand(model: Agreement, of: str, weight: float) -> None:
    """Check the objective of each sentence, whose last symbol pays for the other direction."""
    source, lengths, target = batch()
    objective = model.objective(source, lengths, target)
    ahead = model.teacher_force(source, lengths, target)

    for row, (m, n) in enumerate(zip(lengths.tolist(), [5, 3, 2, 4], strict=True)):
        back = model.back.teacher_force(
            target[row : row + 1, :n], torch.tensor([n]), source[row : row + 1, :m]
        )
        trace = torch.trace(getattr(ahead, of)[row, :n, :m] @ getattr(back, of)[0])
        expected = ahead.log_probs[row, :n].sum() + back.log_probs.sum() + weight * trace

        torch.testing.assert_close(objective[row, :n].sum(), expected)
        torch.testing.assert_close(objective[row, : n - 1], ahead.log_probs[row, : n - 1])


POSTERIOR = {"marginalization": "output", "coupling": "proximity"}
HEAD = {"kind": "posterior", "context": False}
BY_POSTERIORS = {
    "recurrent": {
        "architecture": {"kind": "agreement", "of": "posterior", "weight": 0.5},
        "input_feeding": "posterior",
    },
    "Transformer": {
        "architecture": {
            "kind": "aligned-transformer-agreement",
            "heads": 2,
            "of": "posterior",
            "weight": 0.5,
        },
        "input_feeding": HEAD,
    },
}


@pytest.mark.parametrize("of", ["prior", "posterior"])
@pytest.mark.parametrize("name", BY_POSTERIORS)
def test_coupled_models_agree_by_priors_or_posteriors(name: str, of: str) -> None:
    changed = {**BY_POSTERIORS[name], **POSTERIOR}
    changed["architecture"] = {**BY_POSTERIORS[name]["architecture"], "of": of}
    torch.manual_seed(1)
    network = Network(embedding=8, encoder=4, decoder=8)
    chosen = ModelConfig(label="both", **changed)
    check_fit(chosen, network)
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    assert isinstance(model, Agreement)

    assert_objective_by_hand(model, of, weight=0.5)

    # The trace trains both directions, also through Bayes' rule.
    source, lengths, target = batch()
    model.objective(source, lengths, target).sum().backward()
    numeric = directional_derivative(model, lambda: model.objective(source, lengths, target).sum())
    analytic = sum(
        (parameter.grad * torch.sin(torch.arange(parameter.numel())).view_as(parameter)).sum()
        for parameter in model.parameters()
        if parameter.grad is not None
    )
    torch.testing.assert_close(analytic, numeric, rtol=1e-6, atol=1e-8)


def directional_derivative(model: Agreement, value: Callable[[], Tensor]) -> Tensor:
    """Differentiate a value by central differences, along sines in the space of the weights."""
    step = 1e-5
    values = []
    with torch.no_grad():
        for moved in (step, -2 * step):
            for parameter in model.parameters():
                direction = torch.sin(torch.arange(parameter.numel())).view_as(parameter)
                parameter += moved * direction
            values.append(value())

    return (values[0] - values[1]) / (2 * step)


def test_without_end_symbols_of_sources_both_directions_read_none_and_write_one() -> None:
    model = made()
    source, lengths, target = batch(source_eos=False)
    objective = model.objective(source, lengths, target)
    ahead = model.teacher_force(source, lengths, target)

    for row, (m, n) in enumerate(zip(lengths.tolist(), [5, 3, 2, 4], strict=True)):
        written = torch.cat([source[row : row + 1, :m], torch.tensor([[EOS]])], 1)
        back = model.back.teacher_force(
            target[row : row + 1, : n - 1], torch.tensor([n - 1]), written
        )
        # End symbols, which neither direction reads, take no part.
        trace = torch.trace(ahead.prior[row, : n - 1, :m] @ back.prior[0, :m])
        expected = ahead.log_probs[row, :n].sum() + back.log_probs.sum() + trace

        torch.testing.assert_close(objective[row, :n].sum(), expected)


def test_a_latent_s_samples_are_averaged_over_both_directions() -> None:
    model = made(latent={"kind": "acvi", "samples": 2})
    pairs = batch()
    torch.manual_seed(1)
    objective = model.objective(*pairs)
    for direction in (model, model.back):
        direction.latent.samples = 1
    # The same draws, as one sample of each of two copies of a sentence.
    torch.manual_seed(1)
    twice = model.objective(*(part.repeat_interleave(2, 0) for part in pairs))

    torch.testing.assert_close(objective, twice.unflatten(0, (-1, 2)).mean(1))
    assert (twice[::2] - twice[1::2]).abs().max() > 1e-3


def test_it_decodes_as_the_model_of_its_own_direction() -> None:
    model = made()
    alone = tiny.model(tiny.components("soft"))
    weights = {
        key: value for key, value in model.state_dict().items() if not key.startswith("back.")
    }
    alone.load_state_dict(weights)
    sources = [[5], [6, 7], [8, 5, 6]]
    decoding = Decoding(beam=3, max_extra=4)

    for output, expected in zip(
        decode(model, sources, decoding, False),
        decode(alone, sources, decoding, False),
        strict=True,
    ):
        assert output.symbols == expected.symbols and EOS not in output.symbols


def test_both_directions_are_told_how_far_the_training_is() -> None:
    model = made(latent="acvi")
    model.progress(95, 100)
    assert (model.latent.single, model.back.latent.single) == (1.0, 1.0)


def test_both_directions_take_their_products_in_bfloat16() -> None:
    model = made()
    model.use_bf16(True)
    assert model.compute.bf16 and model.back.compute.bf16
