"""Sums over a nucleus: the fewest positions whose prior is at least `mass`."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import PAD
from pam.decoding.search import beam_search
from pam.experiments.settings import Decoding
from pam.models.copying import pointers_of
from pam.models.logspace import is_nucleus
from pam.models.outputs import Cut
from pam.models.seq2seq import Seq2Seq
from tests.models import tiny

JOINT = ("prior-joint", "postr-joint", "prox-postr-joint", "mono-postr-joint")


def summed(name: str, mass: float | None, top_k: int | None = None, **changed: Any) -> Seq2Seq:
    """Make a model with uneven priors and always the same weights, which sums over this much."""
    kind = "bound" if name == "variational" else "output"
    cut = {"kind": kind, "mass": mass, "top_k": top_k}
    model = tiny.model(tiny.components(name, marginalization=cut, **changed))
    # Larger scores make priors uneven.
    for parameter in model.score.parameters():
        parameter.data.mul_(8.0)
    return model


def gradients(model: Seq2Seq, batch: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
    model.zero_grad()
    model.log_likelihood(*batch).sum().backward()
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]


@pytest.mark.parametrize("mass", [0.1, 0.5, 0.8, 0.99])
def test_no_smaller_set_has_as_much_of_the_prior(mass: float) -> None:
    prior = torch.softmax(
        3 * torch.randn(20, 5, generator=torch.Generator().manual_seed(1)).double(), 1
    )
    for probs, kept in zip(prior, is_nucleus(prior, mass), strict=True):
        assert probs[kept].sum() >= mass
        # No set with one position less has enough.
        fewer = combinations(probs.tolist(), int(kept.sum()) - 1)
        assert all(sum(some) < mass for some in fewer)


def test_every_row_keeps_its_likeliest_position() -> None:
    prior = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert is_nucleus(prior, 1e-6).tolist() == [
        [False, True, False],
        [True, False, False],
        [True, False, False],
    ]


@pytest.mark.parametrize("mass", [None, 0.9])
def test_what_is_no_number_is_not_left_out(mass: float | None) -> None:
    model = summed("postr-joint", mass)
    for parameter in model.score.parameters():
        parameter.data.fill_(torch.nan)
    assert model.log_likelihood(*tiny.batch()).isnan().any()


@pytest.mark.parametrize("name", [*JOINT, "variational"])
def test_all_of_the_mass_is_the_exact_sum(name: str) -> None:
    exact = summed(name, None)
    whole = summed(name, 1.0)
    batch = tiny.batch()

    assert torch.equal(whole.log_likelihood(*batch), exact.log_likelihood(*batch))
    for actual, expected in zip(gradients(whole, batch), gradients(exact, batch), strict=True):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("mass", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", [*JOINT, "variational"])
def test_a_nucleus_takes_at_most_the_rest_of_the_mass_from_the_likelihood(
    name: str, mass: float
) -> None:
    """It does so at every step, with the states of the cut sum."""
    forced = summed(name, mass).teacher_force(*tiny.batch())
    lost = forced.exact.exp() - forced.log_probs.exp()
    assert lost.min() >= -1e-12 and lost.max() <= 1 - mass + 1e-12
    assert lost.max() > 1e-6


@pytest.mark.parametrize("name", ["prior-joint", "variational"])
def test_the_likelihood_grows_with_the_mass(name: str) -> None:
    values = [summed(name, mass).log_likelihood(*tiny.batch()) for mass in (0.01, 0.4, 0.7, 1.0)]
    for lower, higher in pairwise(values):
        assert (lower <= higher + 1e-12).all() and (lower < higher - 1e-6).any()


def test_training_pays_for_no_concentration_of_attention() -> None:
    """All positions explain a symbol alike here.

    The bound then rewards concentrated priors; the trained objective does not.
    """
    model = summed("prior-joint", 0.6, input_feeding="none")
    pulls = []
    # Without its view of the source, the output does not depend on the position.
    model.readout.of_values.weight.data.zero_()
    for training in (False, True):
        model.train(training).zero_grad()
        model.objective(*tiny.batch()).sum().backward()
        pulls.append(
            max(float(p.grad.abs().max()) for p in model.score.parameters() if p.grad is not None)
        )

    assert pulls[0] > 1e-2 and pulls[1] < 1e-12


def test_what_is_trained_is_above_the_bound_by_the_rest_of_the_mass_at_most() -> None:
    model = summed("prior-joint", 0.6)
    batch = tiny.batch()
    bound = model.eval().log_likelihood(*batch)
    trained = model.train().objective(*batch)

    assert (
        (trained >= bound).all()
        and (trained <= bound - math.log(0.6)).all()
        and (trained > bound + 0.1).any()
    )


def test_what_is_trained_is_no_lower_bound_and_near_the_exact_sum_by_enumeration() -> None:
    """Feeding nothing back, both sums have the same states, priors and likelihoods.

    The likelihood of each position comes from the exact model's posterior, by Bayes' rule.
    """
    mass = 0.6
    batch = tiny.batch()
    exact = summed("prior-joint", None, input_feeding="none").eval()
    forced = exact.teacher_force(*batch)
    likelihoods = forced.posterior * forced.log_probs.exp()[..., None] / forced.prior
    model = summed("prior-joint", mass, input_feeding="none").train()
    trained = model.objective(*batch).detach()

    gains = []
    for sentence, step in (batch[2] != PAD).nonzero().tolist():
        prior = forced.prior[sentence, step].tolist()
        likelihood = likelihoods[sentence, step].tolist()
        positions = sorted(range(len(prior)), key=lambda a: -prior[a])
        sizes = range(1, len(prior) + 1)
        size = next(size for size in sizes if sum(prior[a] for a in positions[:size]) >= mass)
        nucleus = positions[:size]
        kept = sum(prior[a] for a in nucleus)
        expected = math.log(sum(prior[a] * likelihood[a] for a in nucleus) / kept)
        log_prob = float(forced.log_probs[sentence, step])

        assert float(trained[sentence, step]) == pytest.approx(expected, abs=1e-12)
        assert expected <= log_prob - math.log(kept) + 1e-12
        gains.append(expected - log_prob)

    # Some steps gain and others lose by the cut.
    assert max(gains) > 1e-3 and min(gains) < -1e-3


def test_the_whole_posterior_over_the_nucleus_is_fed_back() -> None:
    forced = summed("postr-joint", 0.6).teacher_force(*tiny.batch())
    left_out = ~is_nucleus(forced.prior.flatten(0, 1), 0.6).view_as(forced.prior)
    assert (forced.alignment[left_out] == 0).all() and left_out.any()
    assert torch.equal(forced.positions, (~left_out).sum(2))
    torch.testing.assert_close(forced.alignment.sum(2), torch.ones(4, 5).double())


@pytest.mark.parametrize("top_k", [None, 1, 2])
@pytest.mark.parametrize("copying", ["none", "pointer"])
@pytest.mark.parametrize("name", ["prior-joint", "postr-joint"])
def test_what_is_trained_is_a_distribution(name: str, copying: str, top_k: int | None) -> None:
    """It sums to one over all first symbols, including a copied one that is out of vocabulary."""
    model = summed(name, 0.8, top_k, copying=copying).train()
    model.readout.output.bias.data[PAD] = -1e3  # padding is never a target
    for pointer in pointers_of(model):
        pointer.targets[8] = -1
    symbols = list(range(1, tiny.VOCABULARY))
    if copying == "pointer":
        symbols.append(tiny.VOCABULARY + 2)
    source = torch.tensor([[5, 6, 8, 7]]).expand(len(symbols), -1)
    log_probs = model.objective(
        source, torch.full((len(symbols),), 4), torch.tensor(symbols)[:, None]
    )

    torch.testing.assert_close(log_probs.exp().sum(), torch.ones(()).double())


@pytest.mark.parametrize("name", [*JOINT, "variational"])
def test_of_a_nucleus_the_likeliest_are_summed_and_no_more_than_asked_for(name: str) -> None:
    whole, capped = (summed(name, 0.9, top_k).teacher_force(*tiny.batch()) for top_k in (None, 2))
    assert torch.equal(capped.positions[:, 0], whole.positions[:, 0].clamp_max(2))
    assert (
        capped.positions.max() == 2
        and whole.positions[:, 0].min() < 2 < whole.positions[:, 0].max()
    )


def test_equals_are_cut_to_some_of_them() -> None:
    kept = Cut(top_k=2, mass=0.1).positions(torch.full((3, 9), 1 / 9).double().log())
    assert kept.mask.sum(1).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", JOINT)
def test_search_scores_its_outputs_as_the_likelihood_does(name: str) -> None:
    model = summed(name, 0.7)
    source, lengths, _ = tiny.batch()
    outputs = [best[0] for best in beam_search(model, source, lengths, Decoding(beam=3))]

    for row, output in enumerate(outputs):
        target = torch.tensor([[*output.symbols, 2]] if output.complete else [output.symbols])
        length = lengths[row : row + 1]
        log_likelihood = model.log_likelihood(
            source[row : row + 1, : int(length)], length, target
        ).sum()
        assert abs(log_likelihood.item() - output.log_prob) < 1e-9
