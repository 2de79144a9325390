"""Mixtures of softmaxes (float64): a distribution, by its formula, beside a single softmax."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import BOS
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models.aligned_transformer import AlignedTransformer
from pam.models.build import build, parameters_of
from pam.models.fitting import FitError, check_parts
from pam.models.outputs import TokenDistribution
from pam.models.seq2seq import Seq2Seq
from tests.models import plain, tiny

HEAD = {"architecture": {"kind": "aligned-transformer", "heads": 2}, "input_feeding": "none"}
ARCHITECTURES: dict[str, dict[str, Any]] = {"recurrent": {}, "aligned-transformer": HEAD}
ROWS = 40  # more than there are symbols


def made(architecture: str, experts: int = 3, rank: int | None = 2) -> Any:
    """Make a model with a mixture; its weights depend on the architecture and the sizes alone."""
    torch.manual_seed(5)
    mixture = {"kind": "mixture", "experts": experts, "rank": rank}
    chosen = ModelConfig(label="Mine", marginalization=mixture, **ARCHITECTURES[architecture])
    network = Network(embedding=6, encoder=3, decoder=5, dropout=0.0)
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    return model


def soft(architecture: str, mixture: Seq2Seq | AlignedTransformer) -> Any:
    """Make the soft model with the weights of a model with a mixture."""
    chosen = ModelConfig(label="Mine", **ARCHITECTURES[architecture])
    network = Network(embedding=6, encoder=3, decoder=5, dropout=0.0)
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    shared = model.state_dict().keys()
    model.load_state_dict({key: mixture.state_dict()[key] for key in shared})
    return model


def first_output(model: Any) -> TokenDistribution:
    """Return the distribution of the first symbol of `ROWS` sources."""
    source, lengths, _ = tiny.batch(rows=ROWS)
    memory = model.encode(source, lengths)
    symbols = torch.full((ROWS,), BOS)
    output: TokenDistribution = model.step(memory, model.start(memory), symbols).output
    return output


def all_log_probs(output: TokenDistribution) -> Tensor:
    """Compute log p of every symbol, (n, V), one symbol after another and with a gradient."""
    symbols = torch.arange(tiny.VOCABULARY)[:, None].expand(-1, ROWS)
    return torch.stack([output.log_prob(symbol) for symbol in symbols], dim=1)


@pytest.mark.parametrize("rank", [2, None])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_the_distribution_of_its_formula(architecture: str, rank: int | None) -> None:
    model = made(architecture, rank=rank)
    output = first_output(model)
    one_by_one = all_log_probs(output)
    in_search = output.log_probs().clone()

    attention = output.attention
    source, lengths, _ = tiny.batch(rows=ROWS)
    values = model.encode(source, lengths).values
    context = (attention.prior[:, :, None] * values).sum(1)
    x = model.readout.of_query(attention.query) + model.readout.of_values(context)
    expected = plain.expert_log_probs(model, x)

    torch.testing.assert_close(one_by_one, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(in_search, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(expected.exp().sum(1), torch.ones_like(expected[:, 0]))

    parameters = list(model.marginalization.parameters())
    weights = torch.linspace(-1.0, 2.0, expected.numel(), dtype=expected.dtype).view_as(expected)
    actual = torch.autograd.grad((one_by_one * weights).sum(), parameters, retain_graph=True)
    wanted = torch.autograd.grad((expected * weights).sum(), parameters)
    for gradient, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_experts_that_add_nothing_are_the_soft_model(architecture: str, experts: int) -> None:
    mixture = made(architecture, experts=experts)
    batch = tiny.batch()
    single = soft(architecture, mixture).log_likelihood(*batch)
    assert not torch.allclose(mixture.log_likelihood(*batch), single)

    for parameter in mixture.marginalization.expand.parameters():
        torch.nn.init.zeros_(parameter)
    torch.testing.assert_close(mixture.log_likelihood(*batch), single, rtol=0, atol=1e-12)


@torch.no_grad()
def test_its_rank_is_not_that_of_the_output_layer() -> None:
    mixture = made("recurrent")
    units = mixture.readout.output.in_features
    single = first_output(soft("recurrent", mixture)).log_probs()

    # log p = W z + b - log Z: at most as many dimensions as z has, and two more.
    assert torch.linalg.matrix_rank(single) == units + 2 < tiny.VOCABULARY
    assert torch.linalg.matrix_rank(first_output(mixture).log_probs()) == tiny.VOCABULARY


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_selected_hypotheses_keep_their_distribution(architecture: str) -> None:
    output = first_output(made(architecture))
    before = all_log_probs(output)
    rows = torch.arange(ROWS).flip(0)
    torch.testing.assert_close(all_log_probs(output.select(rows)), before[rows])


@pytest.mark.parametrize("rank", [2, None])
def test_its_parameters_are_those_that_the_formula_has(rank: int | None) -> None:
    mixture = made("recurrent", experts=4, rank=rank)
    units = mixture.readout.output.in_features
    more = parameters_of(mixture) - parameters_of(soft("recurrent", mixture))
    if rank is None:
        assert more == 4 * units * (units + 2)
    else:
        assert more == rank * units + 4 * units * (rank + 2)


def test_it_has_no_posterior_to_be_fed_back() -> None:
    with pytest.raises(FitError, match="posterior needs p"):
        check_parts(tiny.components("mixture", input_feeding="posterior"))

    assert not made("recurrent").gives_positions
