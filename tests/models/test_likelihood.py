"""Likelihoods against enumeration, and the identities that the models must satisfy (float64)."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
import torch

from pam.data.vocabulary import BOS, STEP
from pam.models import options
from pam.models.couplings import BOUND, Monotone, Proximity
from tests.long_forms import in_turn
from tests.models import plain, tiny
from tests.models.plain import (
    coupled_prior,
    distribution,
    first_state,
    next_state,
    one_sentence,
    position_log_probs,
    readout,
    scores,
    transition,
)

POSTERIOR = ("postr-joint", "prox-postr-joint", "mono-postr-joint")
TOP_2: dict[str, Any] = {"marginalization": {"kind": "output", "top_k": 2}}
SPARSE = ({"kind": "fusedmax", "weight": 0.2}, "sparsemax")
BEFORE = tuple(
    (f"{kind[:4]}-postr-joint", {"coupling": {"kind": kind, "first": "before"}})
    for kind in ("monotone", "proximity")
)
"""Models whose first step is coupled to a position just before the source."""
BY_BAYES_RULE = [
    *((name, {}) for name in POSTERIOR),
    *((name, {"distribution": kind}) for name in POSTERIOR for kind in SPARSE),
    *BEFORE,
]


def test_prior_joint_sums_over_every_alignment_sequence() -> None:
    """The likelihood is sum over a_1..a_n of prod_t prior_t(a_t) p(y_t | s_t, h_{a_t}).

    Nothing but the prior is fed back, so the queries are the same in every term.
    """
    model = tiny.model(tiny.components("prior-joint"))
    source, lengths, target = one_sentence()
    memory = model.encode(source, lengths)
    hidden, context = first_state(memory)
    terms = []
    previous = BOS

    for symbol in target[0].tolist():
        query, hidden = next_state(model, previous, context, hidden)
        prior = distribution(model, scores(model, memory, query))
        terms.append(prior * position_log_probs(model, memory, query)[:, symbol].exp())
        context = (prior @ memory.values[0])[None]
        previous = symbol

    # Every sequence of positions.
    total = sum(
        torch.stack([terms[t][a] for t, a in enumerate(path)]).prod()
        for path in product(range(source.shape[1]), repeat=len(terms))
    )
    log_likelihood = model.log_likelihood(source, lengths, target).sum()
    torch.testing.assert_close(log_likelihood.exp(), torch.as_tensor(total))


@pytest.mark.parametrize(("variant", "layers"), in_turn(BY_BAYES_RULE, [1, 2]), ids=str)
def test_posterior_models_follow_bayes_rule_step_by_step(
    variant: tuple[str, dict[str, Any]], layers: int
) -> None:
    name, changed = variant
    model = tiny.model(tiny.components(name, **changed), layers=layers)
    source, lengths, target = one_sentence()
    memory = model.encode(source, lengths)
    hidden, context = first_state(memory)
    posterior = None
    previous = BOS
    expected = []

    for symbol in target[0].tolist():
        query, hidden = next_state(model, previous, context, hidden)
        position_scores = scores(model, memory, query)
        prior = distribution(model, position_scores)

        if posterior is None and (name, changed) in BEFORE:
            prior = transition(model, position_scores, -1)
        elif posterior is not None:
            prior = coupled_prior(model, position_scores, posterior)

        joint = prior * position_log_probs(model, memory, query)[:, symbol].exp()
        expected.append(joint.sum().log())
        posterior = joint / joint.sum()
        context = (posterior @ memory.values[0])[None]
        previous = symbol

    aligned = model.teacher_force(source, lengths, target)
    likelihood = model.log_likelihood(source, lengths, target)
    for log_probs in (aligned.log_probs, likelihood):
        torch.testing.assert_close(log_probs[0], torch.stack(expected))

    assert posterior is not None
    torch.testing.assert_close(aligned.alignment[0, -1], posterior)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["soft", "sparse", "sparsemax"])
def test_models_marginalized_at_the_input_read_the_mean_of_the_states(
    name: str, layers: int
) -> None:
    model = tiny.model(tiny.components(name), layers=layers)
    source, lengths, target = one_sentence()
    memory = model.encode(source, lengths)
    hidden, context = first_state(memory)
    previous = BOS
    expected = []
    priors = []

    for symbol in target[0].tolist():
        query, hidden = next_state(model, previous, context, hidden)
        priors.append(distribution(model, scores(model, memory, query)))
        context = (priors[-1] @ memory.values[0])[None]
        expected.append(readout(model, context, query)[0, symbol])
        previous = symbol

    aligned = model.teacher_force(source, lengths, target)
    likelihood = model.log_likelihood(source, lengths, target)
    for log_probs in (aligned.log_probs, likelihood):
        torch.testing.assert_close(log_probs[0], torch.stack(expected))

    torch.testing.assert_close(aligned.prior[0], torch.stack(priors))
    assert (aligned.prior == 0).any() == (name != "soft")


def test_hard_monotone_attention_reads_the_position_that_its_steps_reached() -> None:
    model = tiny.model(tiny.components("hard-mono"))
    source, lengths, _ = one_sentence(3)
    target = torch.tensor([[STEP, 6, STEP, STEP, STEP, 7]])
    aligned = model.teacher_force(source, lengths, target)
    positions = aligned.prior[0].argmax(dim=1).tolist()

    # The pointer cannot move past the last position.
    assert positions == [0, 1, 1, 2, 2, 2]
    assert aligned.prior[0].max(dim=1).values.tolist() == [1.0] * 6


@pytest.mark.parametrize("name", tiny.NAMED)
def test_next_symbol_probabilities_sum_to_one(name: str) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, _ = tiny.batch()
    memory = model.encode(source, lengths)
    state = model.start(memory)

    for symbol in (BOS, 6):
        symbols = torch.full((len(source),), symbol)
        step = model.step(memory, state, symbols)
        torch.testing.assert_close(
            step.output.log_probs().exp().sum(1), torch.ones(len(source), dtype=torch.float64)
        )
        state = model.update(memory, step, symbols)


def test_output_marginalization_of_a_one_hot_prior_equals_input_marginalization() -> None:
    joint, soft = (tiny.model(tiny.components(name)) for name in ("prior-joint", "soft"))
    soft.load_state_dict(joint.state_dict())
    for model in (joint, soft):
        # Scores so far apart that one position has all of the probability.
        model.score.weight.weight.data.mul_(1e4)
    batch = tiny.batch()

    torch.testing.assert_close(joint.log_likelihood(*batch), soft.log_likelihood(*batch))


@pytest.mark.parametrize("name", ["prior-joint", "postr-joint", "mono-postr-joint"])
@pytest.mark.parametrize("top_k", [6, 50])
def test_top_k_of_all_positions_is_exact(name: str, top_k: int) -> None:
    exact = tiny.model(tiny.components(name))
    cut = tiny.model(tiny.components(name, marginalization={"kind": "output", "top_k": top_k}))
    cut.load_state_dict(exact.state_dict())
    batch = tiny.batch()
    torch.testing.assert_close(cut.log_likelihood(*batch), exact.log_likelihood(*batch))


@pytest.mark.parametrize("mix", [None, 0.3])
@torch.no_grad()
def test_half_of_the_posterior_is_fed_back_where_the_sum_leaves_positions_out(
    mix: float | None,
) -> None:
    """With `mix`, it is that share everywhere; the rest is the prior."""
    cut = {"kind": "output", "top_k": 3}
    feeding = {"kind": "posterior", "mix": mix}
    model = tiny.model(tiny.components("postr-joint", marginalization=cut, input_feeding=feeding))
    source, _, target = tiny.batch()
    source = source[:1].expand(4, -1)
    lengths = torch.tensor([6, 4, 3, 2])
    alignment = model.teacher_force(source, lengths, target).alignment

    for t, (table, symbol) in enumerate(plain.steps(model, source, lengths, target)):
        prior = table.attention.prior
        # The posterior over the three likeliest positions.
        kept = torch.zeros_like(prior).scatter(1, prior.topk(3).indices, 1.0)
        joint = kept * prior * table.of_each(symbol).exp()

        for row, length in enumerate(lengths.tolist()):
            # Sums over at most three positions are exact.
            share = mix or (0.5 if length > 3 else 1.0)
            expected = share * joint[row] / joint[row].sum() + (1 - share) * prior[row]
            torch.testing.assert_close(alignment[row, t], expected)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    ("name", "changed"),
    [("prior-joint", {}), ("variational", {}), ("prior-joint", {"distribution": SPARSE[0]})],
)
def test_top_k_never_gives_a_higher_likelihood_than_the_exact_sum(
    name: str, changed: dict[str, Any], layers: int
) -> None:
    exact = tiny.model(tiny.components(name, **changed), layers=layers)
    kind = "bound" if name == "variational" else "output"
    batch = tiny.batch()
    values = []

    # A sparse distribution has fewer positions to leave out.
    for top_k in (1, 2) if "distribution" in changed else (1, 2, 4):
        marginal = {"kind": kind, "top_k": top_k}
        cut = tiny.model(tiny.components(name, **changed, marginalization=marginal), layers=layers)
        cut.load_state_dict(exact.state_dict())
        values.append(cut.log_likelihood(*batch))

    values.append(exact.log_likelihood(*batch))
    for lower, higher in pairwise(values):
        assert (lower <= higher + 1e-12).all()
        assert (lower < higher - 1e-6).any()

    assert values[0].min() > -torch.inf


@pytest.mark.parametrize("name", ["prox-postr-joint", "mono-postr-joint"])
def test_a_coupling_of_zero_energy_equals_no_coupling(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coupled = tiny.model(tiny.components(name))
    free = tiny.model(tiny.components("postr-joint"))
    weights = {
        name: weight
        for name, weight in coupled.state_dict().items()
        if not name.startswith("coupling")
    }
    free.load_state_dict(weights)
    monkeypatch.setattr(
        type(coupled.coupling), "energies", lambda self, d: torch.zeros(d.shape).double()
    )
    batch = tiny.batch()

    torch.testing.assert_close(coupled.log_likelihood(*batch), free.log_likelihood(*batch))


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        *((name, {}) for name in tiny.NAMED),
        *((name, TOP_2) for name in tiny.NAMED if "joint" in name),
    ],
)
def test_padding_changes_no_likelihood_and_no_alignment(name: str, changed: dict[str, Any]) -> None:
    model = tiny.model(tiny.components(name, **changed), layers=2)
    source, lengths, target = tiny.batch(rows=5, source=6)
    padded = torch.nn.functional.pad(source, (0, 3))
    likelihoods = model.log_likelihood(padded, lengths, target)
    together = model.teacher_force(padded, lengths, target)

    for row, length in enumerate(lengths.tolist()):
        alone = model.teacher_force(
            source[row : row + 1, :length], lengths[row : row + 1], target[row : row + 1]
        )
        torch.testing.assert_close(together.log_probs[row], alone.log_probs[0])
        torch.testing.assert_close(likelihoods[row], alone.log_probs[0])
        torch.testing.assert_close(together.alignment[row, :, :length], alone.alignment[0])
        assert (together.alignment[row, :, length:] == 0).all()


@pytest.mark.parametrize("name", tiny.NAMED)
def test_extreme_scores_give_finite_likelihoods_and_gradients(name: str) -> None:
    model = tiny.model(tiny.components(name)).float()
    for parameter in model.parameters():
        parameter.data.mul_(30)
    log_probs = model.log_likelihood(*tiny.batch())

    assert torch.isfinite(log_probs).all()

    log_probs.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert torch.isfinite(model.teacher_force(*tiny.batch()).log_probs).all()


def test_a_proximity_energy_is_bounded_and_a_monotone_one_decays() -> None:
    proximity = Proximity(options.Proximity(), tiny.SIZES)
    monotone = Monotone(options.Monotone(), tiny.SIZES)
    proximity.raw.data.fill_(1e6)
    distances = torch.arange(-4, 5)

    assert proximity.energies(distances).tolist() == [0, 0, *[BOUND] * 5, 0, 0]

    # delta is 1/2.
    monotone.raw.data.fill_(0.0)
    assert monotone.energies(distances).tolist() == [0] * 5 + [1, 0.5, 0.25, 0.125]
