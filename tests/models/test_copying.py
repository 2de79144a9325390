"""Models that copy symbols, against enumeration and plain autograd (float64)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from pam.experiments.settings import Network
from pam.models.build import build
from pam.models.copying import pointers_of
from pam.models.fitting import FitError, check_parts
from pam.models.interfaces import Memory
from pam.models.kernels import output_layer
from pam.models.seq2seq import Seq2Seq
from tests.long_forms import in_turn
from tests.models import plain, tiny
from tests.models.plain import (
    coupled_prior,
    first_state,
    next_state,
    position_log_probs,
    readout,
    scores,
)
from tests.models.test_teacher_forcing import assert_same, log_likelihood

V = tiny.VOCABULARY
POSTERIOR = ("postr-joint", "prox-postr-joint", "mono-postr-joint")
MODELS: list[tuple[str, dict[str, Any]]] = [
    *(
        (name, {})
        for name in ("soft", "soft-mlp", "structured", "acvi", "ved", "prior-joint", *POSTERIOR)
    ),
    *((name, {}) for name in ("variational", "variational-sample", "variational-gumbel", "hard")),
    ("mixture-3", {}),
    ("soft", {"score": {"kind": "coverage", "weight": 0.5}}),
    ("acvi", {"latent": {"kind": "acvi", "samples": 2, "last": 1.0}}),
    ("acvi", {"marginalization": "output", "input_feeding": "posterior"}),
    ("postr-joint", {"score": {"kind": "coverage", "weight": 0.5}}),
    ("variational", {"input_feeding": "posterior"}),
    *(
        (name, {"marginalization": {"kind": "output", **cut}})
        for cut in ({"top_k": 3}, {"mass": 0.8}, {"mass": 0.8, "top_k": 2})
        for name in ("prior-joint", *POSTERIOR)
    ),
]
UNCUT = [
    (name, changed)
    for name, changed in MODELS
    if changed.get("marginalization", "output") == "output"
]
"""Sums that are cut short are lower bounds, not distributions."""


def model(name: str, changed: dict[str, Any] | None = None, **made: Any) -> Seq2Seq:
    """Make a model that copies, where source symbol 8 is not in the target's vocabulary."""
    copying_model = tiny.model(tiny.components(name, copying="pointer", **(changed or {})), **made)
    (pointer,) = pointers_of(copying_model)
    pointer.targets[8] = -1
    return copying_model


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Return sources with unknown words, all of which are in the targets.

    Word 8 is not in the target's vocabulary.
    """
    source = [[5, V + 1, 6, V + 1, 8, 7], [8, 8, V + 2, 5, PAD, PAD], [6, 5, 7, PAD, PAD, PAD]]
    target = [[V + 1, 6, V + 4, UNK, 7, EOS], [V + 2, V, 4, EOS, PAD, PAD], [6, 8, 5, 7, EOS, PAD]]
    return torch.tensor(source), torch.tensor([6, 4, 3]), torch.tensor(target)


def first_sentence() -> tuple[Tensor, Tensor, Tensor]:
    """Return the first sentence of the batch."""
    source, lengths, target = batch()
    return source[:1], lengths[:1], target[:1]


WRITTEN = [5, V + 1, 6, V + 1, V + 4, 7]
"""The symbols as which the positions of the first sentence are copied."""


def embedded(symbol: int) -> int:
    """Return the symbol whose embedding stands for a symbol: the unknown one for copied words."""
    if symbol < V:
        return symbol
    return UNK


def p_gen(made: Seq2Seq, context: Tensor, query: Tensor, before: int) -> Tensor:
    """Compute sigmoid(w_h . c + w_s . s + w_x . x + b) of a context (D,)."""
    copying = made.copying
    fed = made.decoder.embedding.weight[embedded(before)]
    logit = (
        copying.of_values.weight[0] @ context
        + copying.of_query.weight[0] @ query[0]
        + copying.of_query.bias[0]
    )
    return torch.sigmoid(logit + copying.of_symbol.weight[0] @ fed)


def ways_to_write(
    made: Seq2Seq, memory: Memory, query: Tensor, previous: int, symbol: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute for each position p_gen, and the probabilities to generate and to copy a symbol."""
    gates = torch.stack([p_gen(made, value, query, previous) for value in memory.values[0]])
    generating = torch.zeros_like(gates)
    if symbol < V:
        generating = gates * position_log_probs(made, memory, query)[:, symbol].exp()
    copying = (1 - gates) * (torch.tensor(WRITTEN) == symbol)
    return gates, generating, copying


def test_soft_attention_mixes_generating_and_copying() -> None:
    """p_gen p_vocab(y) + (1 - p_gen) sum of a(i) over positions with y, written out."""
    made = model("soft")
    source, lengths, target = first_sentence()
    memory = made.encode(source, lengths)
    hidden, context = first_state(memory)
    previous = BOS
    expected = []
    gates = []
    shares = []

    for symbol in target[0].tolist():
        query, hidden = next_state(made, embedded(previous), context, hidden)
        prior = torch.softmax(scores(made, memory, query), 0)
        context = (prior @ memory.values[0])[None]

        gate = p_gen(made, context[0], query, previous)
        copied = sum(
            (prior[a] for a, copied_symbol in enumerate(WRITTEN) if copied_symbol == symbol),
            torch.zeros(()).double(),
        )
        generated = readout(made, context, query)[0, symbol].exp() if symbol < V else 0.0
        expected.append((gate * generated + (1 - gate) * copied).log())
        gates.append(gate)
        shares.append((1 - gate) * copied / expected[-1].exp())
        previous = symbol

    forced = made.teacher_force(*first_sentence())
    for log_probs in (made.log_likelihood(*first_sentence()), forced.log_probs):
        torch.testing.assert_close(log_probs[0], torch.stack(expected))
    assert forced.p_gen is not None and forced.copied is not None
    torch.testing.assert_close(forced.p_gen[0], torch.stack(gates))
    torch.testing.assert_close(forced.copied[0], torch.stack(shares))


@pytest.mark.parametrize("name", ["prior-joint", *POSTERIOR])
def test_joint_models_sum_over_positions_and_over_generating_and_copying(name: str) -> None:
    """Every pair of a position and of a way to write the symbol, and Bayes' rule over them."""
    made = model(name)
    source, lengths, target = first_sentence()
    memory = made.encode(source, lengths)
    hidden, context = first_state(memory)
    posterior = None
    previous = BOS
    expected = []
    gates = []
    shares = []

    for symbol in target[0].tolist():
        # The prior, coupled to the last posterior in models with a coupling.
        query, hidden = next_state(made, embedded(previous), context, hidden)
        position_scores = scores(made, memory, query)
        prior = torch.softmax(position_scores, 0)
        if posterior is not None and "-" in name.removesuffix("-joint"):
            prior = coupled_prior(made, position_scores, posterior)

        # Each position generates the symbol, copies it, or both.
        position_gates, generating, copying = ways_to_write(made, memory, query, previous, symbol)
        joint = prior * (generating + copying)
        evidence = joint.sum()
        expected.append(evidence.log())
        gates.append((prior * position_gates).sum())
        shares.append((prior * copying).sum() / evidence)

        posterior = joint / evidence
        handed_on = prior if name == "prior-joint" else posterior
        context = (handed_on @ memory.values[0])[None]
        previous = symbol

    forced = made.teacher_force(*first_sentence())
    for log_probs in (made.log_likelihood(*first_sentence()), forced.log_probs):
        torch.testing.assert_close(log_probs[0], torch.stack(expected))
    assert forced.p_gen is not None and forced.copied is not None
    torch.testing.assert_close(forced.p_gen[0], torch.stack(gates))
    torch.testing.assert_close(forced.copied[0], torch.stack(shares))

    if name != "prior-joint":
        assert posterior is not None
        torch.testing.assert_close(forced.alignment[0, -1], posterior)


@pytest.mark.parametrize(("name", "changed"), UNCUT)
def test_probabilities_of_all_symbols_those_of_the_source_too_sum_to_one(
    name: str, changed: dict[str, Any]
) -> None:
    made = model(name, changed)
    source, lengths, _ = batch()
    memory = made.encode(source, lengths)
    state = made.start(memory)

    for symbols in ([BOS, BOS, BOS], [V + 1, 6, 7]):
        written = torch.tensor(symbols)
        step = made.step(memory, state, written)
        log_probs = step.output.log_probs()

        assert log_probs.shape == (3, V + 6)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(3, dtype=torch.float64))
        assert (log_probs[2, V:] < -600).all()  # its words are all known

        state = made.update(memory, step, written)


@pytest.mark.parametrize(("name", "changed"), MODELS)
def test_whether_a_symbol_was_copied_is_a_probability_and_certain_of_one_that_no_vocabulary_has(
    name: str, changed: dict[str, Any]
) -> None:
    target = batch()[2]
    forced = model(name, changed).teacher_force(*batch())
    assert forced.p_gen is not None and forced.copied is not None

    real = target != PAD
    assert ((forced.p_gen > 0) & (forced.p_gen < 1))[real].all()
    assert ((forced.copied >= 0) & (forced.copied <= 1))[real].all()
    torch.testing.assert_close(forced.copied[target >= V], torch.ones(4).double())
    assert forced.copied[2, 3] > 0 and forced.copied[1, 2] == 0  # 7 is in its source, 4 is not


def test_where_nothing_is_copied_nothing_is_said_of_it() -> None:
    forced = tiny.model(tiny.components("postr-joint")).teacher_force(*tiny.batch())
    assert forced.p_gen is None and forced.copied is None


@pytest.mark.parametrize(("variant", "chunk"), in_turn(MODELS, [160, output_layer.CHUNK]), ids=str)
def test_objectives_and_gradients_are_those_of_plain_autograd(
    variant: tuple[str, dict[str, Any]], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, changed = variant
    monkeypatch.setattr(output_layer, "CHUNK", chunk)
    assert_same(model(name, changed, dropout=0.3).train(), batch())
    assert_same(model(name, changed, layers=2), batch(), uneven=False)


def test_earlier_symbols_are_looked_up_for_all_steps_at_once() -> None:
    """Once for the decoder and once for the switch.

    Each look-up has a gradient of the size of the vocabulary.
    """
    made = model("postr-joint")
    embedding = made.decoder.embedding
    looked_up = []
    embedding.register_forward_hook(lambda layer, inputs, output: looked_up.append(output.shape))
    made.objective(*batch())

    tokens = int((batch()[2] != PAD).sum())
    assert looked_up == 2 * [(tokens, embedding.embedding_dim)]


@pytest.mark.parametrize(("name", "changed"), MODELS)
def test_likelihoods_are_those_of_plain_autograd_and_of_the_steps_of_search(
    name: str, changed: dict[str, Any]
) -> None:
    made = model(name, changed)
    assert_same(made, batch(), (log_likelihood, plain.log_likelihood))
    real = batch()[2] != PAD
    forced = made.teacher_force(*batch()).log_probs
    torch.testing.assert_close(forced[real], made.log_likelihood(*batch())[real])


@pytest.mark.parametrize("name", ["prior-joint", "postr-joint"])
def test_a_cut_sum_is_a_lower_bound_that_keeps_what_is_copied(name: str) -> None:
    """Some gold symbols are copied from positions that are not kept."""
    whole = model(name)
    values = []
    for cut in ({"top_k": 1}, {"top_k": 2}, {"top_k": 6}):
        made = model(name, {"marginalization": {"kind": "output", **cut}, "input_feeding": "prior"})
        made.load_state_dict(whole.state_dict())
        values.append(made.log_likelihood(*first_sentence()))

    # Each larger set of positions has a higher likelihood; all six are the exact sum.
    for lower, higher in pairwise(values):
        assert (lower <= higher + 1e-12).all()
    assert values[0].min() > -30 and not torch.allclose(values[0], values[1])

    exact = model(name, {"input_feeding": "prior"})
    exact.load_state_dict(whole.state_dict())
    torch.testing.assert_close(values[-1], exact.log_likelihood(*first_sentence()))

    # `exact` sums over all positions, whatever the model itself sums over.
    cut = model(
        name, {"marginalization": {"kind": "output", "mass": 0.6}, "input_feeding": "prior"}
    )
    cut.load_state_dict(whole.state_dict())
    torch.testing.assert_close(
        cut.teacher_force(*first_sentence()).exact, exact.log_likelihood(*first_sentence())
    )


def test_a_bound_stays_one_and_is_tight_at_the_true_posterior() -> None:
    """Latent positions decide contexts; copied symbols follow the attention."""
    made = model("variational")
    source, lengths, target = first_sentence()
    likelihood = made.log_likelihood(source, lengths, target)
    assert (made.objective(source, lengths, target) <= likelihood + 1e-9).all()

    steps = plain.steps(made, source, lengths, target)
    joint = [table.log_joint(symbol)[0] for table, symbol in steps]
    tight = torch.stack([torch.log_softmax(log_joint, 0) for log_joint in joint])[None]

    class Known(torch.nn.Module):
        def forward(self, *inputs: Any) -> Tensor:
            return tight

    made.head.inference = Known()  # type: ignore[assignment]

    torch.testing.assert_close(made.objective(source, lengths, target), likelihood)


def test_one_word_of_the_source_is_one_symbol_wherever_it_stands() -> None:
    made = model("soft")
    (pointer,) = pointers_of(made)
    assert pointer.symbols(batch()[0])[0].tolist() == WRITTEN
    assert pointer.symbols(batch()[0])[1].tolist() == [V, V, V + 2, 5, PAD, PAD]


def test_symbols_of_the_source_are_those_of_the_target_that_are_spelt_alike() -> None:
    made = build(tiny.components("soft-pointer"), Network(embedding=4, encoder=3, decoder=5), 8, 7)
    (pointer,) = pointers_of(made)
    pointer.match(Vocabulary(["a", "b", "c"]), Vocabulary(["c", "a"]))

    assert pointer.targets.tolist() == [0, 1, 2, 3, 4, 6, -1, 5]
    assert pointer.symbols(torch.tensor([[6, 5, 6, 7, 8 + 4]])).tolist() == [[7, 6, 7, 5, 7 + 4]]
    assert not any("targets" in name for name in made.state_dict())


@pytest.mark.parametrize("name", ["soft", "postr-joint"])
def test_padding_and_the_length_of_other_sources_change_nothing(name: str) -> None:
    made = model(name)
    source, lengths, target = batch()
    together = made.log_likelihood(torch.nn.functional.pad(source, (0, 3)), lengths, target)

    for row, (m, n) in enumerate(
        zip(lengths.tolist(), (target != PAD).sum(1).tolist(), strict=True)
    ):
        alone = made.log_likelihood(
            source[row : row + 1, :m], lengths[row : row + 1], target[row : row + 1, :n]
        )
        torch.testing.assert_close(together[row, :n], alone[0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"distribution": "sparsemax"}, "no probability"),
        ({"window": "monotonic"}, "no probability"),
        ({"marginalization": "none"}, "nothing to copy from"),
        ({"architecture": "agreement"}, "only a model from source to target"),
        ({"architecture": "transformer"}, "has no `copying`"),
    ],
)
def test_parts_that_cannot_copy_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        check_parts(tiny.components("soft", copying="pointer", **changed))


def test_coverage_is_the_sum_of_past_attention_and_its_loss_what_is_attended_again() -> None:
    """Equations 7 to 9: min(a_t, k_t) of each position and step, beside a model without it."""
    paying = model("soft", {"score": {"kind": "coverage", "weight": 2.0}})
    free = model("soft", {"score": {"kind": "coverage", "weight": 0.0}})
    free.load_state_dict(paying.state_dict())
    prior = paying.teacher_force(*first_sentence()).prior[0]
    covered = torch.zeros_like(prior[0])
    loss = torch.zeros(()).double()
    for step in prior:
        loss = loss + sum(min(a, k) for a, k in zip(step, covered, strict=True))
        covered = covered + step

    difference = free.objective(*first_sentence()).sum() - paying.objective(*first_sentence()).sum()
    torch.testing.assert_close(difference, 2 * loss)


def test_coverage_that_is_not_active_yet_changes_nothing() -> None:
    delayed = {"kind": "coverage", "active": {"kind": "delayed", "value": 1, "after": 0.5}}
    made = model("soft", {"score": delayed})
    active = made.objective(*first_sentence())
    made.progress(0, 10)
    before = made.objective(*first_sentence())

    torch.testing.assert_close(before, made.log_likelihood(*first_sentence()))

    # The factor of the coverage feature is 0, and so is its gradient.
    before.sum().backward()
    assert not made.score.of_sum.weight.grad.any() and made.score.of_sum.bias.grad.any()

    made.progress(5, 10)
    torch.testing.assert_close(made.objective(*first_sentence()), active)
    assert not torch.allclose(before, active)
