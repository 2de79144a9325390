"""Special cases of the models that must coincide, and their formulas by hand (float64)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_struct import LinearChainCRF

from pam.data.vocabulary import PAD
from pam.experiments.settings import Network
from pam.models import options
from pam.models.build import build
from pam.models.couplings import Chain, smoothed
from pam.models.distributions import Softmax
from pam.models.interfaces import AttentionHistory, Noise, Sizes
from pam.models.logspace import draw
from pam.models.scores import Dot, position_features
from pam.models.seq2seq import Seq2Seq
from tests.models import plain, tiny
from tests.models.plain import one_sentence

DOUBLE = torch.float64


def both(name: str, other: str = "soft", **changed: Any) -> tuple[Seq2Seq, Seq2Seq]:
    """Make two models, the second with all weights of the first that it has too."""
    first = tiny.model(tiny.components(name, **changed))
    second = tiny.model(tiny.components(other))
    # Weights that the first model lacks stay as they are.
    mine = first.state_dict()
    second.load_state_dict(
        {key: mine.get(key, value) for key, value in second.state_dict().items()}
    )
    return first, second


def assert_same(first: Seq2Seq, second: Seq2Seq) -> None:
    """Check likelihoods, in training and in search, priors, and gradients of shared weights."""
    batch = tiny.batch()
    results = []
    for model in (first, second):
        forced = model.teacher_force(*batch)
        model.zero_grad()
        model.log_likelihood(*batch).sum().backward()
        results.append((forced.log_probs, forced.prior, model.log_likelihood(*batch)))

    torch.testing.assert_close(*results)

    # Gradients of weights that both models have.
    theirs = dict(second.named_parameters())
    for name, part in first.named_parameters():
        other = theirs.get(name)
        if other is not None and other.grad is not None and torch.equal(part, other):
            torch.testing.assert_close(part.grad, other.grad, msg=lambda m, n=name: f"{n}: {m}")


def test_a_chain_without_transitions_is_soft_attention() -> None:
    chain, soft = both("structured")
    with pytest.raises(AssertionError):
        assert_same(chain, soft)
    torch.nn.init.zeros_(chain.coupling.energy)
    assert_same(chain, soft)


def test_acvi_at_its_mean_is_soft_attention() -> None:
    assert_same(*both("acvi"))


def test_acvi_without_variance_is_soft_attention_in_training_too() -> None:
    """The divergence, which is infinite there, has no weight."""
    acvi, soft = both("acvi", latent={"kind": "acvi", "weight": 0.0})
    batch = tiny.batch()
    assert ((acvi.objective(*batch) - soft.objective(*batch)).abs() > 1e-3).any()

    of_sentence = acvi.latent.of_sentence

    def without_variance(*arguments: Any) -> Any:
        latent = of_sentence(*arguments)
        return replace(latent, variance=torch.zeros_like(latent.variance))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acvi.latent, "of_sentence", without_variance)
        patch.setattr(acvi.latent, "divergence", lambda *arguments: torch.zeros(4, dtype=DOUBLE))
        torch.testing.assert_close(acvi.objective(*batch), soft.objective(*batch))


def test_ved_with_its_latent_off_is_soft_attention() -> None:
    ved, soft = both("ved")
    with pytest.raises(AssertionError):
        assert_same(ved, soft)
    torch.nn.init.zeros_(ved.latent.of_latent.weight)
    assert_same(ved, soft)


@pytest.mark.parametrize("kind", ["monotonic", "predictive"])
@pytest.mark.parametrize("width", [None, 65_536])
def test_a_window_without_bound_is_global_attention(kind: str, width: int | None) -> None:
    assert_same(*both("soft", window={"kind": kind, "width": width}))


@pytest.mark.parametrize("changed", [{}, {"estimator": "exact"}, {"marginalization": "bound"}])
def test_hard_attention_with_one_hot_scores_is_soft_attention(changed: dict[str, Any]) -> None:
    hard, soft = both("hard", **changed)
    for model in (hard, soft):
        model.score.weight.weight.data.mul_(1e6)
    assert_same(hard, soft)
    batch = tiny.batch()

    torch.testing.assert_close(hard.objective(*batch), soft.objective(*batch))


def test_concat_is_the_perceptron() -> None:
    first, second = (tiny.model(tiny.components("soft", score=kind)) for kind in ("concat", "mlp"))
    second.load_state_dict(first.state_dict())
    assert_same(first, second)


def test_the_dot_product_is_the_bilinear_score_of_the_identity() -> None:
    general = tiny.model(tiny.components("soft"))
    torch.nn.init.zeros_(general.score.weight.weight)
    general.score.weight.weight.data[:, :5] = torch.eye(5, dtype=DOUBLE)
    source, lengths, _ = tiny.batch()
    memory = general.encode(source, lengths)
    query = torch.randn(4, 5, dtype=DOUBLE)
    expected = torch.einsum("bh,bmh->bm", query, memory.values[..., :5]) / 5**0.5

    torch.testing.assert_close(general.score(query, memory, AttentionHistory()), expected)


def test_a_scaled_product_is_the_product_over_the_root_of_its_units() -> None:
    plain, scaled = both("postr-joint", "postr-joint", score={"kind": "general", "scale": False})
    scaled.score.weight.weight.data.mul_(5**0.5)
    assert_same(scaled, plain)

    # The inference network scales its scores likewise.
    plain, scaled = both("variational", "variational", inference={"kind": "bilstm", "scale": False})
    scaled.inference.weight.weight.data.mul_(6**0.5)
    torch.testing.assert_close(scaled.objective(*tiny.batch()), plain.objective(*tiny.batch()))

    values = torch.randn(2, 3, 6, dtype=DOUBLE)
    dot = Dot(options.Dot(), Sizes(6, 6, embedding=4, direction=3, layers=1, rate=0.0))
    torch.testing.assert_close(dot.keys(values).matrix, values / 6**0.5)


def test_a_learned_scale_multiplies_the_product() -> None:
    score = {"kind": "general", "learned_scale": True}
    learned, plain = both("postr-joint", "postr-joint", score=score)
    plain.score.factor *= learned.score.learned_factor.item()
    assert_same(learned, plain)

    learned.log_likelihood(*tiny.batch()).sum().backward()
    assert learned.score.learned_factor.grad.abs() > 0


def test_a_learned_scale_is_one_at_first_whatever_the_initial_range() -> None:
    components = tiny.components("soft", score={"kind": "general", "learned_scale": True})
    network = Network(embedding=4, encoder=3, decoder=5, initial_range=0.01)

    assert build(components, network, source=7, target=8).score.learned_factor == 1


def test_a_location_score_ignores_what_lies_beyond_its_longest_sentence() -> None:
    model = tiny.model(tiny.components("soft", score={"kind": "location", "longest": 3}))
    aligned = model.teacher_force(*tiny.batch())
    assert (aligned.prior[0, :, 3:] == 0).all() and (aligned.prior[0, :, :3] > 0).all()


def test_structural_features_are_those_of_cohn_et_al() -> None:
    model = tiny.model(tiny.components("structural"))
    source, lengths, _ = one_sentence()
    memory = model.encode(source, lengths)
    score = model.score
    previous = torch.tensor([[0.1, 0.6, 0.3, 0.0]], dtype=DOUBLE)
    summed = torch.tensor([[0.9, 0.7, 0.3, 0.1]], dtype=DOUBLE)
    query = torch.randn(1, 5, dtype=DOUBLE)
    scores = score(query, memory, AttentionHistory(2, previous, summed))

    # The formula of each position, written out.
    for a in range(4):
        psi = torch.tensor([3.0, a + 1.0, 4.0], dtype=DOUBLE).log1p()
        inner = score.of_query.weight @ query[0] + score.of_values.weight @ memory.values[0, a]
        inner = inner + score.of_place.weight @ psi

        for window, seen in ((score.of_previous, previous), (score.of_sum, summed)):
            for offset in (-1, 0, 1):
                if 0 <= a + offset < 4:
                    inner = inner + window.weight[:, 0, offset + 1] * seen[0, a + offset]

        torch.testing.assert_close(scores[0, a], score.weight.weight[0] @ torch.tanh(inner))

    torch.testing.assert_close(
        position_features(memory, AttentionHistory(2))[0, 1].exp(),
        torch.tensor([4, 3, 5.0]).double(),
    )


@pytest.mark.parametrize(("name", "least"), [("fertility", 0), ("fertility-bounded", 1)])
def test_global_fertility_is_the_log_density_of_what_each_position_got(
    name: str, least: float
) -> None:
    model = tiny.model(tiny.components(name))
    source, lengths, target = tiny.batch()
    target[1, 3:] = PAD
    aligned = model.teacher_force(source, lengths, target)
    # The objective pays at the last symbol of each sentence.
    paid = model.objective(source, lengths, target) - model.log_likelihood(source, lengths, target)
    memory = model.encode(source, lengths)

    for row, length in enumerate(lengths.tolist()):
        real = int((target[row] != PAD).sum())
        received = aligned.alignment[row, :real].sum(0)
        log_density = torch.zeros((), dtype=DOUBLE)

        for a in range(length):
            mean, log_variance = model.score.gaussian(memory.values[row, a])
            normal = torch.distributions.Normal(
                torch.nn.functional.softplus(mean), (log_variance.exp() + least).sqrt()
            )
            log_density = log_density + 0.1 * normal.log_prob(received[a])

        torch.testing.assert_close(paid[row, real - 1], log_density)
        assert (paid[row, : real - 1] == 0).all()


def test_local_windows_stand_where_luong_et_al_put_them() -> None:
    source, lengths, _ = one_sentence()
    local = tiny.model(tiny.components("local-m", window={"kind": "monotonic", "width": 1}))
    prior = local.teacher_force(source, lengths, torch.tensor([[6, 8, 7, 5, 6, 2]])).prior[0]
    seen = [(row > 0).nonzero().flatten().tolist() for row in prior]

    assert seen == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3], [2, 3], [2, 3]]

    # Equations 9 and 10, with sigma = 1.
    predictive = tiny.model(tiny.components("local-p", window={"kind": "predictive", "width": 2}))
    memory = predictive.encode(source, lengths)
    query = torch.randn(1, 5, dtype=DOUBLE)
    window = predictive.window
    centre = 3 * torch.sigmoid(window.weight.weight @ torch.tanh(window.hidden.weight @ query[0]))
    scores = torch.randn(1, 4, dtype=DOUBLE)
    weighed, mask = window(scores, query, memory.mask, AttentionHistory())
    for a in range(4):
        torch.testing.assert_close(weighed[0, a], scores[0, a] - (a - centre[0]) ** 2 / 2)
        assert bool(mask[0, a]) == bool((a - centre).abs() <= 2)


def filtered(chain: Chain, scores: Tensor, mask: Tensor) -> Tensor:
    """Compute marginals given the scores so far, by the coupling, step by step."""
    # The coupling reads nothing else of the memory.
    memory: Any = SimpleNamespace(transitions=chain.transitions(scores.shape[2]))
    marginals: list[Tensor] = []
    for score in scores.unbind(1):
        history = AttentionHistory(len(marginals), marginals[-1] if marginals else None)
        softmax = Softmax(options.Softmax(), tiny.SIZES)
        marginals.append(chain(score, mask, softmax, memory, history).exp())

    return torch.stack(marginals, 1)


def a_chain() -> tuple[Chain, Tensor, Tensor]:
    """Make a chain with energies, scores (B, n, m) of rows of different width, and their mask."""
    chain = Chain(options.Chain(reach=1), tiny.SIZES).double()
    torch.manual_seed(4)
    torch.nn.init.normal_(chain.energy)
    mask = torch.tensor([[True] * 3, [True, True, False]])
    return chain, torch.randn(2, 4, 3, dtype=DOUBLE), mask


def test_marginals_of_a_chain_equal_the_enumeration() -> None:
    chain, scores, mask = a_chain()
    given_past = filtered(chain, scores, mask)
    transitions = chain.transitions(3)
    # The second row is a step shorter.
    given_all = smoothed(given_past, transitions, torch.tensor([4, 3]))

    for row, states, whole in ((0, 3, 4), (1, 2, 3)):
        for steps in range(1, whole + 1):
            # Every path through the states, with its weight.
            totals = torch.zeros(steps, 3, dtype=DOUBLE)
            for path in product(range(states), repeat=steps):
                weight = torch.stack([scores[row, t, a] for t, a in enumerate(path)]).sum().exp()
                for before, after in pairwise(path):
                    weight = weight * transitions[before, after]
                for t, a in enumerate(path):
                    totals[t, a] += weight.detach()

            marginals = totals / totals.sum(1, keepdim=True)
            torch.testing.assert_close(given_past[row, steps - 1], marginals[-1])

            if steps == whole:
                torch.testing.assert_close(given_all[row, :whole], marginals)


def test_marginals_of_a_chain_equal_those_of_torch_struct() -> None:
    chain, _, _ = a_chain()
    scores = torch.randn(3, 6, 5, dtype=DOUBLE)
    mask = torch.ones(3, 5, dtype=torch.bool)
    transitions = chain.transitions(5)
    # Edge potentials (B, n - 1, to, from), with the first step's scores in the first edge.
    edges = scores[:, 1:, :, None] + transitions.log().t()
    edges[:, 0] = edges[:, 0] + scores[:, 0, None, :]
    with warnings.catch_warnings():  # it misses a declaration that torch asks for
        warnings.simplefilter("ignore")
        theirs = LinearChainCRF(edges).marginals

    expected = torch.cat([theirs[:, :1].sum(2), theirs.sum(3)], dim=1)
    given_all = smoothed(filtered(chain, scores, mask), transitions, torch.full((3,), 6))
    torch.testing.assert_close(given_all, expected)


def test_alignments_of_a_chain_are_its_marginals_given_the_whole_target() -> None:
    model = tiny.model(tiny.components("structured"))
    source, lengths, target = tiny.batch()
    target[1, 3:] = PAD
    forced = model.teacher_force(source, lengths, target)
    prior = plain.force(model, source, lengths, target).prior
    transitions = model.coupling.transitions(source.shape[1])
    marginals = smoothed(prior, transitions, (target != PAD).sum(1))
    real = target != PAD

    torch.testing.assert_close(forced.prior[real], prior[real])
    torch.testing.assert_close(forced.alignment[real], marginals[real])
    torch.testing.assert_close(forced.alignment[0, -1], prior[0, -1])  # nothing comes after
    assert (forced.alignment[0, 0] - prior[0, 0]).abs().max() > 1e-3


def test_acvi_draws_contexts_of_the_mixture_s_mean_and_variance() -> None:
    model = tiny.model(tiny.components("acvi-literal"))
    source, lengths, _ = one_sentence()
    memory = model.encode(source, lengths)
    log_prior = torch.log_softmax(torch.randn(1, 4, dtype=DOUBLE), 1)
    weights = log_prior.exp()[0]
    variance = memory.latent.variance[0]

    assert (variance >= 1).all()  # log sigma^2 is a ReLU's output

    torch.manual_seed(0)
    noise = Noise.draw(20_000, memory.values)
    drawn_shifts = torch.cat(
        [model.latent.of_step(log_prior, memory, noise.at(t, 1)).shift for t in range(20_000)]
    )
    expected = (weights[:, None] ** 2 * variance).sum(0)

    torch.testing.assert_close(drawn_shifts.var(0), expected, rtol=0.05, atol=0)
    assert drawn_shifts.mean(0).abs().max() < 0.05


def test_acvi_pays_the_mixture_s_divergence_without_bias() -> None:
    """Value and gradient over 40,000 draws, compared with a quadrature of six nodes a dimension."""
    model = tiny.model(tiny.components("acvi-literal")).train()
    source, lengths, _ = one_sentence()
    memory = model.encode(source, lengths)
    scores = torch.randn(1, 4, dtype=DOUBLE, requires_grad=True)
    inputs = scores, model.latent.of_values.weight
    log_prior = torch.log_softmax(scores, 1)
    exact = mixture_divergence(log_prior[0], memory.values[0], memory.latent.variance[0].sqrt())
    gradients = torch.autograd.grad(exact, inputs, retain_graph=True)
    # One draw a row.
    many = model.encode(source.expand(40_000, -1), lengths.expand(40_000))
    estimate = model.latent.divergence(log_prior.expand(40_000, -1), many.latent).mean()

    torch.testing.assert_close(estimate, exact, rtol=0, atol=0.01)

    for mine, other in zip(torch.autograd.grad(estimate, inputs), gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0.02)
    assert max(float(other.abs().max()) for other in gradients) > 0.1
    assert model.eval().encode(source, lengths).latent.log_ratios is None


def mixture_divergence(log_prior: Tensor, values: Tensor, deviations: Tensor) -> Tensor:
    """Compute the KL divergence of a mixture of Gaussians, (m, D) each, from N(0, I).

    It integrates by the Gauss-Hermite rule.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    size = values.shape[1]
    grid = torch.tensor(list(product(nodes, repeat=size)), dtype=DOUBLE)
    masses = torch.tensor(list(product(weights / weights.sum(), repeat=size)), dtype=DOUBLE).prod(1)
    drawn_at = values[:, None] + deviations[:, None] * grid  # (m, nodes, D)
    normal = torch.distributions.Normal(values, deviations)
    densities = normal.log_prob(drawn_at[:, :, None]).sum(3)  # (m, nodes, m)
    standard = torch.distributions.Normal(0.0, 1.0).log_prob(drawn_at).sum(2)
    ratios = torch.logsumexp(log_prior + densities, dim=2) - standard

    return (log_prior.exp()[:, None] * masses * ratios).sum()


def test_acvi_chooses_one_component_at_the_end_of_training() -> None:
    model = tiny.model(tiny.components("acvi", latent={"kind": "acvi", "temperature": 1e-3}))
    source, lengths, _ = one_sentence()
    memory = model.encode(source, lengths)
    log_prior = torch.log_softmax(torch.randn(1, 4, dtype=DOUBLE), 1)
    noise = Noise.draw(1, memory.values).at(0, 1)

    for step, chooses in ((0, False), (89, False), (90, True), (99, True)):
        model.progress(step, 100)
        weights = model.latent.of_step(log_prior, memory, noise).log_weights.exp()
        assert bool((weights.max() > 0.999) == chooses)

    torch.testing.assert_close(weights, draw(log_prior, noise.gumbel))


def test_ved_pays_the_divergence_of_its_gaussian_once_a_sentence() -> None:
    model = tiny.model(tiny.components("ved")).train()
    source, lengths, target = tiny.batch()
    target[1, 2:] = PAD
    torch.manual_seed(1)
    values = model.objective(source, lengths, target)
    # The same draws.
    torch.manual_seed(1)
    likelihood = model.log_likelihood(source, lengths, target)
    _, final = model.encoder(source, lengths)
    mean, log_variance = model.latent.of_final(final).chunk(2, 1)
    divergence = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, (log_variance / 2).exp()),
        torch.distributions.Normal(0.0, 1.0),
    ).sum(1)
    paid = likelihood - values
    ends = (target != PAD).sum(1) - 1

    torch.testing.assert_close(paid.gather(1, ends[:, None]).squeeze(1), divergence)
    assert (paid[1, :1] == 0).all()


def test_positions_are_drawn_as_often_as_they_are_probable() -> None:
    torch.manual_seed(3)
    log_probs = torch.tensor([0.1, 0.2, 0.7], dtype=DOUBLE).log()
    uniform = torch.rand(100_000, 3, dtype=DOUBLE)
    counts = draw(log_probs.expand(100_000, 3), -(-uniform.log()).log()).mean(0)
    torch.testing.assert_close(counts, log_probs.exp(), atol=0.01, rtol=0)


def test_an_encoder_that_reads_backward_reads_the_reversed_source() -> None:
    backward = tiny.model(tiny.components("soft"), layers=2, encoder_reads="backward").encoder
    forward = tiny.model(tiny.components("soft"), layers=2, encoder_reads="forward").encoder
    weights = {
        name.replace("backwards", "forwards"): weight
        for name, weight in backward.state_dict().items()
    }
    forward.load_state_dict(weights)
    source, lengths, _ = tiny.batch()
    turned = source.clone()
    for row, length in enumerate(lengths.tolist()):
        turned[row, :length] = source[row, :length].flip(0)
    backward_states, final = backward(source, lengths)
    forward_states, last = forward(turned, lengths)

    torch.testing.assert_close(final, last)

    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(
            backward_states[row, :length], forward_states[row, :length].flip(0)
        )
