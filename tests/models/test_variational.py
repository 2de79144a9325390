"""The variational bound by enumeration, and the inference network behind it (float64)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, PAD
from pam.experiments.settings import Network
from pam.models.build import build
from pam.models.marginalization import Bound
from pam.models.outputs import TokenDistribution
from pam.models.seq2seq import Seq2Seq
from pam.models.variational import BiLSTM
from tests.models import plain, tiny
from tests.models.plain import first_state, next_state, one_sentence, position_log_probs

Batch = tuple[Tensor, Tensor, Tensor]


def variational(layers: int = 1, dropout: float = 0.0, seed: int = 1, **changed: Any) -> Seq2Seq:
    return tiny.model(tiny.components("variational", **changed), layers, dropout, seed)


def padded_batch() -> Batch:
    """Return a batch with targets of 5, 3, 1 and 4 symbols, padded."""
    source, lengths, target = tiny.batch()
    target[torch.arange(5) >= torch.tensor([5, 3, 1, 4])[:, None]] = PAD
    return source, lengths, target


class Known(nn.Module):
    """An inference network that knows its answer."""

    infers = True

    def __init__(self, log_q: Tensor) -> None:
        super().__init__()
        self.log_q = log_q

    def forward(self, *batch: Any) -> Tensor:
        return self.log_q


def terms(model: Seq2Seq, sentence: Batch) -> tuple[Tensor, Tensor]:
    """Compute log prior_t(a) and log p(y_t | s_t, h_a) of one sentence, (n, m) each."""
    source, lengths, target = sentence
    memory = model.encode(source, lengths)
    score = model.score
    hidden, context = first_state(memory)
    previous = BOS
    priors = []
    likelihoods = []

    for symbol in target[0].tolist():
        query, hidden = next_state(model, previous, context, hidden)
        inner = memory.values[0] @ score.of_values.weight.t() + query @ score.of_query.weight.t()
        priors.append(torch.log_softmax(torch.tanh(inner) @ score.weight.weight[0], dim=0))
        likelihoods.append(position_log_probs(model, memory, query)[:, symbol])
        context = (priors[-1].exp() @ memory.values[0])[None]
        previous = symbol

    return torch.stack(priors), torch.stack(likelihoods)


@pytest.mark.parametrize("weight", [1.0, 0.1])
@pytest.mark.parametrize("q_top_k", [None, 1, 2, 4, 9])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_objective_is_the_enumerated_bound(
    layers: int, q_top_k: int | None, weight: float
) -> None:
    marginal = {"kind": "bound", "q_top_k": q_top_k, "weight": weight}
    model = variational(layers, marginalization=marginal)
    sentence = one_sentence()
    prior, likelihood = terms(model, sentence)
    log_q = tiny.infer(model, *sentence)

    assert log_q is not None

    expected = []
    for q, p, y in zip(log_q[0].exp(), prior, likelihood, strict=True):
        # q over its best positions, normalized.
        kept = q.sort(descending=True).indices[:q_top_k]
        q = q[kept] / q[kept].sum()
        divergence = sum(a * (a.log() - b) for a, b in zip(q, p[kept], strict=True))
        expected.append((q * y[kept]).sum() - weight * divergence)

    torch.testing.assert_close(model.objective(*sentence)[0], torch.stack(expected))

    exact = torch.logsumexp(prior + likelihood, dim=1)
    torch.testing.assert_close(model.log_likelihood(*sentence)[0], exact)


@pytest.mark.parametrize("q_top_k", [None, 1, 2, 4])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_bound_is_below_the_likelihood(layers: int, q_top_k: int | None) -> None:
    for seed in range(5):
        marginal = {"kind": "bound", "q_top_k": q_top_k}
        model = variational(layers, seed=seed, marginalization=marginal)
        batch = tiny.batch(seed=seed)
        bound = model.objective(*batch)
        exact = model.log_likelihood(*batch)

        assert (bound <= exact + 1e-12).all()
        assert (bound < exact - 1e-6)[batch[1] > 1].all()  # equal where there is one position


@pytest.mark.parametrize("name", ["variational", "prior-joint"])
@pytest.mark.parametrize("layers", [1, 2])
def test_with_the_true_posterior_the_bound_is_the_likelihood(name: str, layers: int) -> None:
    """It holds for other scores and distributions too."""
    model = variational(layers, score=tiny.components(name).score)
    batch = tiny.batch()
    posteriors = []
    for table, symbol in plain.steps(model, *batch):
        joint = table.attention.prior * table.of_each(symbol).exp()
        posteriors.append((joint / joint.sum(1, keepdim=True)).clamp_min(1e-300).log())

    # With q in place of the network's, the bound is tight.
    model.head.inference = Known(torch.stack(posteriors, 1))
    torch.testing.assert_close(model.objective(*batch), model.log_likelihood(*batch))


def test_q_over_its_best_positions_sums_to_one() -> None:
    model = variational(marginalization={"kind": "bound", "q_top_k": 2})
    log_q = tiny.infer(model, *tiny.batch())
    assert log_q is not None

    q = model.marginalization.restrict(log_q[:, 0]).exp()
    torch.testing.assert_close(q.sum(1), torch.ones(len(q), dtype=torch.float64))
    assert ((q > 0).sum(1) <= 2).all() and (q > 0).sum() > len(q)

    best = log_q[:, 0].topk(2).indices
    torch.testing.assert_close(q.gather(1, best).sum(1), torch.ones(len(q), dtype=torch.float64))


PAID = {
    "variational",
    "variational-sample",
    "variational-gumbel",
    "hard",
    "fertility",
    "acvi",
    "ved",
    "soft-pointer-coverage",
}
"""Models whose objective is a bound, or has costs besides the likelihood."""


@pytest.mark.parametrize("name", [name for name in tiny.NAMED if name not in PAID])
def test_the_objective_of_every_other_model_is_its_likelihood(name: str) -> None:
    model = tiny.model(tiny.components(name), dropout=0.3).train()
    results = []
    for method in (model.objective, model.log_likelihood):
        torch.manual_seed(3)
        results.append(method(*padded_batch()))

    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("layers", [1, 2])
def test_padding_changes_no_objective(layers: int) -> None:
    for q_top_k in (None, 2):
        model = variational(layers, marginalization={"kind": "bound", "q_top_k": q_top_k})
        source, lengths, target = padded_batch()
        pad = nn.functional.pad
        together = model.objective(pad(source, (0, 3)), lengths, pad(target, (0, 2)))

        for row, length in enumerate(lengths.tolist()):
            size = int((target[row] != PAD).sum())
            alone = model.objective(
                source[row : row + 1, :length], lengths[row : row + 1], target[row : row + 1, :size]
            )
            torch.testing.assert_close(together[row, :size], alone[0])


@pytest.mark.parametrize("layers", [1, 2])
def test_the_inference_network_is_two_bidirectional_lstms_and_a_bilinear_score(layers: int) -> None:
    model = variational(layers)
    source, lengths, target = one_sentence()
    states = []

    for reader, embedded in (
        (model.inference.source, model.encoder.embedding(source)),
        (model.inference.target, model.decoder.embedding(target)),
    ):
        # torch's bidirectional LSTM with the same weights.
        lstm = nn.LSTM(4, 3, layers, bidirectional=True, batch_first=True).double()
        for side, suffix in ((reader.forwards, ""), (reader.backwards, "_reverse")):
            for layer, one_direction in enumerate(side):
                for name, value in one_direction.named_parameters():
                    getattr(lstm, name.replace("l0", f"l{layer}{suffix}")).data.copy_(value)

        states.append(lstm(embedded)[0][0])

    scores = states[1] @ model.inference.weight.weight.t() @ states[0].t() / 6**0.5
    log_q = tiny.infer(model, source, lengths, target)
    assert log_q is not None
    torch.testing.assert_close(log_q[0], torch.log_softmax(scores, dim=1))


def test_q_knows_the_whole_target_and_the_prior_does_not() -> None:
    model = variational()
    source, lengths, target = tiny.batch()
    changed = target.clone()
    # Another last symbol.
    changed[:, -1] = target[:, -1] % 4 + 5
    before, after = (tiny.infer(model, source, lengths, symbols) for symbols in (target, changed))

    assert before is not None and after is not None
    assert (before[0, 0] - after[0, 0]).abs().max() > 1e-6

    priors = [model.teacher_force(source, lengths, symbols).prior for symbols in (target, changed)]
    torch.testing.assert_close(priors[0], priors[1], rtol=0, atol=0)


def test_the_bound_trains_every_weight() -> None:
    model = variational(layers=2, dropout=0.3).train()
    batch = padded_batch()
    model.objective(*batch)[batch[2] != PAD].sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_dropout_of_the_inference_network_leaves_the_likelihood_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The draws for q come last, so that all other draws stay the same."""
    model = variational(layers=2, dropout=0.3).train()

    def likelihood_of(
        self: Bound, output: TokenDistribution, symbols: Tensor, *arguments: Any
    ) -> Tensor:
        return output.log_prob(symbols)

    monkeypatch.setattr(Bound, "bound", likelihood_of)
    torch.manual_seed(3)
    likelihood = model.log_likelihood(*padded_batch())
    torch.manual_seed(3)

    torch.testing.assert_close(model.objective(*padded_batch()), likelihood)

    # The inference network itself has dropout.
    first, second = (tiny.infer(model, *padded_batch()) for _ in range(2))
    assert first is not None and second is not None and (first != second).any()


@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_extreme_weights_give_a_finite_bound_and_gradients(scale: float) -> None:
    model = variational(marginalization={"kind": "bound", "q_top_k": 2}).float()
    for parameter in model.parameters():
        parameter.data.mul_(scale)
    objective = model.objective(*padded_batch())

    assert torch.isfinite(objective).all()

    objective.sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_inference_network_has_the_encoder_s_size_unless_told_otherwise() -> None:
    network = Network(embedding=4, encoder=3, decoder=5, encoder_layers=2)
    sizes = []
    for inference in ("bilstm", {"kind": "bilstm", "units": 7, "layers": 1}):
        made = build(tiny.components("variational", inference=inference), network, 9, 9).inference
        assert isinstance(made, BiLSTM)
        sizes.append((len(made.source.forwards), made.source.forwards[0].hidden_size))

    assert sizes == [(2, 3), (1, 7)]
