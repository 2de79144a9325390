"""Alignments of given targets: all at once, and given the whole target, by enumeration."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from pam.data.vocabulary import BOS
from pam.evaluation.attention import Gatherer, Sentence
from pam.experiments.settings import Network
from pam.models.attention_model import AttentionModel
from pam.models.build import build
from pam.models.ensemble import Ensemble
from pam.models.interfaces import AttentionHistory, Smoothing
from pam.models.model import Model
from pam.models.outputs import PositionDistribution
from pam.models.transformer import Transformer
from tests.models import test_aligned_transformer, test_transformer, tiny

TRANSFORMERS = [f"transformer {name}" for name in test_aligned_transformer.MODELS]
WITH_SYMBOLS = [name for name in tiny.NAMED if name != "hard-mono"]
PROXIMITY = {"kind": "proximity", "width": 2}


def made(name: str, **changed: object) -> AttentionModel:
    if name.startswith("transformer"):
        return test_aligned_transformer.made(name.removeprefix("transformer "))
    return tiny.model(tiny.components(name, **changed))


@pytest.mark.parametrize("name", [*WITH_SYMBOLS, "agreement", *TRANSFORMERS])
def test_alignments_of_all_steps_at_once_are_those_of_teacher_forcing(name: str) -> None:
    model = made(name)
    source, lengths, target = tiny.batch()
    target[1, 3:] = 0
    real = (target != 0)[:, :, None]

    expected = model.teacher_force(source, lengths, target).posterior
    torch.testing.assert_close(model.align(source, lengths, target) * real, expected * real)


def test_a_transformer_aligns_by_its_last_layer_and_an_ensemble_by_the_mean() -> None:
    source, lengths, target = tiny.batch()
    models: list[Model] = [test_transformer.made(seed=1), test_transformer.made(seed=2)]
    expected = [model.teacher_force(source, lengths, target).posterior for model in models]

    for model, posterior in zip(models, expected, strict=True):
        torch.testing.assert_close(model.align(source, lengths, target), posterior)
        assert model.smoothing is Smoothing.NONE
    torch.testing.assert_close(
        Ensemble(models).align(source, lengths, target, smooth=True), sum(expected) / 2
    )


def chain_of(
    model: AttentionModel, source: Tensor, target: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Return p(a_t | a_{t-1}) (m, m) and p(y_t | a_t) (m,) of each step, by steps of a search.

    The first step has no position before it: all rows of its matrix are the same.
    """
    length = source.shape[1]
    memory = model.encode(source, torch.tensor([length]))
    state = model.start(memory)
    previous = torch.tensor([BOS])
    moves = []
    likelihoods = []
    for symbol in target[0]:
        step = model.step(memory, state, previous)
        rows = []
        for position in range(length):
            history = state.attention.history
            if history.alignment is not None:
                one_hot = torch.eye(length, dtype=torch.float64)[position : position + 1]
                history = AttentionHistory(history.steps, one_hot, history.summed)
            rows.append(model.head.attend(memory, history, step.query).prior[0])
        moves.append(torch.stack(rows).detach())

        assert isinstance(step.output, PositionDistribution)
        joint = step.output.log_joint(symbol[None])
        likelihoods.append((joint - step.log_prior)[0].exp().detach())
        state = model.update(memory, step, symbol[None])
        previous = symbol[None]

    return moves, likelihoods


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("prox-postr-joint", {}),
        ("mono-postr-joint", {}),
        ("prox-postr-joint", {"distribution": "sparsemax"}),
        ("prox-postr-joint", {"input_feeding": {"kind": "posterior", "context": False}}),
        ("transformer prox-postr-joint", {}),
        ("transformer mono-postr-joint", {}),
        ("transformer prox-postr-joint, pointer", {}),
    ],
)
def test_smoothed_alignments_are_the_marginals_over_all_paths(
    name: str, changed: dict[str, object]
) -> None:
    model = made(name, **changed)
    assert model.smoothing is Smoothing.EXACT
    source = torch.tensor([[6, 8, 5]])
    target = torch.tensor([[7, 5, 6, 2]])
    moves, likelihoods = chain_of(model, source, target)

    total = torch.zeros((), dtype=torch.float64)
    marginals = torch.zeros(4, 3, dtype=torch.float64)
    for path in product(range(3), repeat=4):
        weight = torch.ones((), dtype=torch.float64)
        before = 0
        for move, likelihood, position in zip(moves, likelihoods, path, strict=True):
            weight = weight * move[before, position] * likelihood[position]
            before = position
        total += weight
        for t, position in enumerate(path):
            marginals[t, position] += weight

    # The paths' total is the model's own likelihood: the chain is the model.
    lengths = torch.tensor([3])
    log_likelihood = model.log_likelihood(source, lengths, target).sum()
    torch.testing.assert_close(total.log(), log_likelihood.detach())

    smoothed = model.align(source, lengths, target, smooth=True)[0]
    torch.testing.assert_close(smoothed, marginals / total)
    filtered = model.align(source, lengths, target)[0]
    torch.testing.assert_close(smoothed[-1], filtered[-1])
    assert (smoothed - filtered).abs().max() > 1e-3


def test_where_steps_are_independent_smoothing_changes_nothing() -> None:
    source, lengths, target = tiny.batch()
    model = made("postr-joint")

    assert model.smoothing is Smoothing.INDEPENDENT
    alignment = model.align(source, lengths, target)
    assert torch.equal(model.align(source, lengths, target, smooth=True), alignment)


@pytest.mark.parametrize(
    "changed",
    [
        {"input_feeding": "prior"},
        {"marginalization": {"kind": "output", "top_k": 2}},
        {"input_feeding": {"kind": "posterior", "mix": 0.5}},
    ],
)
def test_an_approximation_is_called_one_and_stays_a_distribution(
    changed: dict[str, object],
) -> None:
    model = made("prox-postr-joint", **changed)
    source, lengths, target = tiny.batch()
    target[1, 3:] = 0

    assert model.smoothing is Smoothing.APPROXIMATE
    smoothed = model.align(source, lengths, target, smooth=True)
    real = target != 0
    torch.testing.assert_close(smoothed.sum(2)[real], torch.ones(int(real.sum())).double())


def test_padding_changes_no_smoothed_alignment() -> None:
    model = made("prox-postr-joint")
    source, lengths, target = tiny.batch()
    target[1, 3:] = 0
    together = model.align(source, lengths, target, smooth=True)

    target_lengths = (target != 0).sum(1).tolist()
    for row, (m, n) in enumerate(zip(lengths.tolist(), target_lengths, strict=True)):
        alone = model.align(
            source[row : row + 1, :m], lengths[row : row + 1], target[row : row + 1, :n], True
        )
        torch.testing.assert_close(together[row, :n, :m], alone[0])


def test_the_late_reading_is_the_step_whose_input_is_the_word() -> None:
    """A Transformer that attends to the source symbol equal to its input symbol.

    So it looks at what was written last, as Chen et al. (2020) found of trained ones: at the step
    that writes y_t the links are those of y_{t-1}, and one step later those of y_t.
    """
    model = looking_for_its_input()
    source = torch.tensor([[7, 5, 8, 6, 2]])
    target = torch.tensor([[5, 6, 7, 8, 2]])
    lengths = torch.tensor([5])
    forced = model.teacher_force(source, lengths, target)
    (head,) = model.head_alignments(source, lengths, target).values()

    gathered = Gatherer()
    gathered.add(
        0,
        Sentence(
            log_probs=forced.log_probs[0].numpy(),
            exact=forced.exact[0].numpy(),
            correct=forced.correct[0].numpy(),
            prior=forced.prior[0].numpy(),
            alignment=forced.alignment[0].numpy(),
            posterior=forced.posterior[0].numpy(),
            heads={"the head": head[0].numpy()},
            source_words=[0, 1, 2, 3],
            target_words=[0, 1, 2, 2],  # the last word has two symbols
        ),
    )
    row = gathered.rows[0]

    # 8 and 7 are one word, whose symbols look at words 0 and 2.
    assert row["links_late"][:2] == [(1, 0), (3, 1)]
    assert row["links_late"][2] in [(0, 2), (2, 2)]
    assert row["links_heads"]["the head, late"] == row["links_late"]
    assert row["links_prior"][1] == (1, 1)
    assert row["links_heads"]["the head"] == row["links_prior"]


def looking_for_its_input() -> Transformer:
    """Make a Transformer of one layer and head whose attention to the source finds its input."""
    network = Network(embedding=16, encoder_layers=1, decoder_layers=1, dropout=0.0)
    architecture = {"kind": "transformer", "heads": 1}
    chosen = tiny.components("transformer", architecture=architecture)
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    assert isinstance(model, Transformer)

    with torch.no_grad():
        # Symbols are so far apart that positions do not count.
        one_hot = 50 * torch.eye(tiny.VOCABULARY, 16)
        model.source.weight.copy_(one_hot)
        model.target.weight.copy_(one_hot)

        # States stay what they are: nothing is added to them.
        encoder_layer = model.encoder.layers[0]
        layer = model.layers[0]
        for part in (
            encoder_layer.self_attn.out_proj,
            encoder_layer.linear2,
            layer.own.out_proj,
            layer.cross.out_proj,
            layer.between[-1],
        ):
            part.weight.zero_()
            part.bias.zero_()

        layer.cross.in_proj_weight.copy_(8 * torch.eye(16).repeat(3, 1))
        layer.cross.in_proj_bias.zero_()
    return model
