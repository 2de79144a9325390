"""The Transformer with an alignment head (float64): all steps at once are the steps of a search,
and both are the formulas.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, EOS
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Decoding, Network
from pam.models import options
from pam.models.aligned_transformer import AlignedTransformer
from pam.models.build import build
from pam.models.fitting import FitError, check_fit
from pam.models.packing import PackedTargets
from pam.models.readout import ResidualReadout
from tests.decoding.best import assert_same, decode, log_likelihoods
from tests.models import plain, tiny

COUPLED = {"kind": "posterior", "context": False}
POSTR: dict[str, Any] = {"marginalization": "output", "input_feeding": COUPLED}
LOG_LINEAR = {
    "architecture": {
        "kind": "aligned-transformer",
        "heads": 2,
        "source_attention": False,
        "readout": "log-linear",
    }
}
MODELS: dict[str, dict[str, Any]] = {
    "soft": {"marginalization": "input", "input_feeding": "none"},
    "prior-joint": {"marginalization": "output", "input_feeding": "none"},
    "prox-postr-joint": POSTR | {"coupling": "proximity"},
    "mono-postr-joint": POSTR | {"coupling": {"kind": "monotone", "first": "before"}},
    "pointer": {"input_feeding": "none", "copying": "pointer"},
    "prox-postr-joint, pointer": POSTR | {"coupling": "proximity", "copying": "pointer"},
    "prox-postr-joint, a nucleus": POSTR
    | {"coupling": "proximity", "marginalization": {"kind": "output", "mass": 0.8}},
    "structured": {"coupling": "chain", "input_feeding": "none"},
    "local-m, mlp": POSTR | {"window": {"kind": "monotonic", "width": 2}, "score": "mlp"},
    "sparsemax": POSTR | {"distribution": "sparsemax", "coupling": "proximity"},
    "postr-joint, fed": {"marginalization": "output", "input_feeding": "posterior"},
    "prox-postr-joint, the head alone": POSTR
    | {
        "coupling": "proximity",
        "architecture": {"kind": "aligned-transformer", "heads": 2, "source_attention": False},
    },
    "mixture": {"marginalization": "mixture", "input_feeding": "none"},
    "prior-joint, log-linear": LOG_LINEAR | {"marginalization": "output", "input_feeding": "none"},
    "prox-postr-joint, log-linear": POSTR | LOG_LINEAR | {"coupling": "proximity"},
    "prox-postr-joint, log-linear, pointer": POSTR
    | LOG_LINEAR
    | {"coupling": "proximity", "copying": "pointer"},
    "prox-postr-joint, log-linear, a nucleus": POSTR
    | LOG_LINEAR
    | {"coupling": "proximity", "marginalization": {"kind": "output", "mass": 0.8}},
    "soft, log-linear": LOG_LINEAR | {"marginalization": "input", "input_feeding": "none"},
    "soft, fed": {"marginalization": "input", "input_feeding": "prior"},
}
PARALLEL = [name for name in MODELS if "fed" not in name]


def components(**parts: Any) -> ModelConfig:
    architecture = {"kind": "aligned-transformer", "heads": 2}
    return ModelConfig(label="Mine", **{"architecture": architecture, **parts})


def made(name: str, dropout: float = 0.0) -> AlignedTransformer:
    torch.manual_seed(1)
    network = Network(embedding=8, encoder_layers=2, decoder_layers=2, dropout=dropout)
    chosen = components(**MODELS[name])
    check_fit(chosen, network)
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    assert isinstance(model, AlignedTransformer)
    for parameter in model.parameters():
        if parameter.dim() > 1 or parameter.numel() < 9:
            nn.init.uniform_(parameter, -0.8, 0.8)
    return model


def gradients(model: AlignedTransformer, values: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1.0, 2.0, values.numel(), dtype=values.dtype)
    parameters = list(model.parameters())
    weighted_sum = (values.flatten() * weights).sum()
    computed = torch.autograd.grad(weighted_sum, parameters, allow_unused=True)

    return [
        torch.zeros_like(parameter) if gradient is None else gradient
        for parameter, gradient in zip(parameters, computed, strict=True)
    ]


@pytest.mark.parametrize("name", PARALLEL)
def test_all_steps_at_once_are_the_steps_of_a_search_with_the_same_gradients(name: str) -> None:
    model = made(name)
    source, lengths, target = tiny.batch()
    at_once = model(source, lengths, target)

    packed = PackedTargets.of(target)
    memory = model.encoded(source[packed.order], lengths[packed.order])
    embedded = model._embedded(packed.previous)
    unrolled = model.unroll(memory, packed, model._one_by_one(packed), embedded)
    step_by_step = unrolled.log_prob()

    torch.testing.assert_close(at_once.log_prob(), step_by_step, rtol=0, atol=1e-12)
    for handed_on, other in zip(at_once.alignments, unrolled.alignments, strict=True):
        torch.testing.assert_close(handed_on, other, rtol=0, atol=1e-12)

    actual = gradients(model, at_once.log_prob())
    expected = gradients(model, step_by_step)
    for gradient, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_search_gives_the_likelihood_of_training(name: str) -> None:
    model = made(name)
    source, lengths, target = tiny.batch()
    forced = model.teacher_force(source, lengths, target)
    likelihood = model.log_likelihood(source, lengths, target)
    torch.testing.assert_close(forced.log_probs, likelihood)
    for alignment in (forced.prior, forced.posterior):
        torch.testing.assert_close(alignment.sum(2), torch.ones_like(alignment[:, :, 0]))


def enumerated(model: AlignedTransformer, source: Tensor, target: Tensor) -> Tensor:
    """log p(y_t | y_<t, x) of one sentence, (T,), position by position, by the formulas alone."""
    lengths = torch.tensor([source.shape[1]])
    packed = PackedTargets.of(target)
    memory = model.encoded(source, lengths)
    queries = model._queries(memory, packed)[0]
    previous: Tensor | None = None
    log_probs = []

    for query, symbol in zip(queries, target[0].tolist(), strict=True):
        scores = plain.scores(model, memory, query[None])  # type: ignore[arg-type]
        if previous is None:
            prior = plain.distribution(model, scores)  # type: ignore[arg-type]
        else:
            prior = torch.stack(
                [
                    share * plain.transition(model, scores, place)  # type: ignore[arg-type]
                    for place, share in enumerate(previous)
                ]
            ).sum(0)

        of_position = plain.position_log_probs(model, memory, query[None])  # type: ignore[arg-type]
        joint = prior * of_position[:, symbol].exp()
        log_probs.append(joint.sum().log())
        previous = joint / joint.sum()

    return torch.stack(log_probs)


@pytest.mark.parametrize(
    ("name", "coupling"),
    [("prox-postr-joint", "proximity"), ("mono-postr-joint", "monotone")],
)
def test_the_posterior_s_coupling_is_that_of_the_formulas(name: str, coupling: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, name, POSTR | {"coupling": coupling})
        model = made(name)
    source, lengths, target = plain.one_sentence()

    expected = enumerated(model, source, target)
    actual = model.log_likelihood(source, lengths, target)[0]
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)

    for gradient, other in zip(gradients(model, actual), gradients(model, expected), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_what_a_position_adds_joins_the_residual_state_before_a_norm() -> None:
    model = made("prior-joint")
    source, lengths, target = plain.one_sentence()
    memory = model.encoded(source, lengths)
    query = model._queries(memory, PackedTargets.of(target))[0, :1]
    readout = model.readout

    total = query + memory.values[0] @ readout.of_values.weight.t()
    centred = total - total.mean(1, keepdim=True)
    z = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    assert isinstance(readout, ResidualReadout)
    z = readout.norm.weight * z + readout.norm.bias
    expected = torch.log_softmax(z @ readout.output.weight.t() + readout.output.bias, 1)
    actual = plain.position_log_probs(model, memory, query)  # type: ignore[arg-type]
    torch.testing.assert_close(actual, expected)

    # The state passes as it is: no matrix of its own is between it and the norm.
    assert [name for name, _ in readout.named_parameters()] == [
        "of_values.weight",
        "output.weight",
        "output.bias",
        "norm.weight",
        "norm.bias",
    ]


@torch.no_grad()
def test_queries_depend_on_earlier_symbols_alone_and_not_on_the_head() -> None:
    model = made("prox-postr-joint")
    source, lengths, target = tiny.batch()
    memory = model.encoded(source, lengths)
    queries = model._queries(memory, PackedTargets.of(target))

    changed = target.clone()
    changed[:, 3] = 8 - changed[:, 3] % 3
    others = model._queries(memory, PackedTargets.of(changed))
    torch.testing.assert_close(others[:, :4], queries[:, :4])
    assert not torch.allclose(others[:, 4], queries[:, 4])

    nn.init.uniform_(model.coupling.raw, -3.0, 3.0)
    nn.init.uniform_(model.score.weight.weight, -3.0, 3.0)
    again = model._queries(model.encoded(source, lengths), PackedTargets.of(target))
    torch.testing.assert_close(again, queries)


@torch.no_grad()
def test_where_the_head_alone_attends_queries_know_nothing_of_the_source() -> None:
    model = made("prox-postr-joint, the head alone")
    source, lengths, target = tiny.batch()
    packed = PackedTargets.of(target)
    queries = model._queries(model.encoded(source, lengths), packed)
    others = model._queries(model.encoded(source.flip(0), lengths.flip(0)), packed)
    torch.testing.assert_close(others, queries)


@torch.no_grad()
def test_input_feeding_brings_the_alignment_to_the_next_query() -> None:
    model = made("postr-joint, fed")
    source, lengths, target = tiny.batch()
    before = model.teacher_force(source, lengths, target)
    nn.init.uniform_(model.score.weight.weight, -3.0, 3.0)
    memory = model.encode(source, lengths)
    state = model.start(memory)
    symbol = torch.full_like(target[:, 0], BOS)
    first = model.step(memory, state, symbol)
    second = model.step(memory, model.update(memory, first, target[:, 0]), target[:, 0])
    nn.init.uniform_(model.score.weight.weight, -3.0, 3.0)
    other_memory = model.encode(source, lengths)
    other_first = model.step(other_memory, model.start(other_memory), symbol)
    updated = model.update(other_memory, other_first, target[:, 0])
    torch.testing.assert_close(other_first.query, first.query)
    assert not torch.allclose(model.step(other_memory, updated, target[:, 0]).query, second.query)
    assert before.log_probs.shape == target.shape


def test_padding_changes_nothing() -> None:
    model = made("prox-postr-joint")
    source, lengths, target = tiny.batch()
    together = model.teacher_force(nn.functional.pad(source, (0, 3)), lengths, target)
    for row, length in enumerate(lengths.tolist()):
        alone = model.teacher_force(
            source[row, None, :length], lengths[row, None], target[row, None]
        )
        torch.testing.assert_close(together.log_probs[row], alone.log_probs[0])
        torch.testing.assert_close(together.posterior[row, :, :length], alone.posterior[0])


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", ["soft", "prox-postr-joint", "pointer", "postr-joint, fed"])
def test_the_log_prob_of_an_output_is_its_likelihood(name: str, beam: int) -> None:
    model = made(name)
    sources = [[5], [6, 7], [8, 5, 6], [7, 7, 8, 5]]
    decoding = Decoding(beam=beam, max_ratio=1.0, max_extra=4)
    outputs = decode(model, sources, decoding)
    alone = [decode(model, [source], decoding)[0] for source in sources]
    for source, output, other in zip(sources, outputs, alone, strict=True):
        assert_same(output, other)
        target = [*output.symbols, EOS] if output.complete else output.symbols
        assert output.log_prob == pytest.approx(log_likelihoods(model, source, [target])[0])


@pytest.mark.parametrize("name", ["prox-postr-joint", "pointer", "postr-joint, fed"])
def test_every_weight_learns(name: str) -> None:
    model = made(name, dropout=0.1).train()
    model.objective(*tiny.batch()).sum().backward()
    idle = [
        key
        for key, part in model.named_parameters()
        if part.grad is None or not (part.grad != 0).any()
    ]
    # What shifts all keys alike changes no softmax.
    assert all(key.endswith("in_proj_bias") for key in idle)


def test_a_plain_posterior_without_context_couples_a_recurrent_model() -> None:
    chosen = tiny.components("prox-postr-joint", input_feeding=COUPLED)
    model = tiny.model(chosen)
    source, lengths, target = tiny.batch()
    with torch.no_grad():
        forced = model.teacher_force(source, lengths, target)
        torch.testing.assert_close(forced.log_probs, model.log_likelihood(source, lengths, target))
        fed = tiny.model(tiny.components("prox-postr-joint"))
        fed.load_state_dict(model.state_dict())
        other = fed.log_likelihood(source, lengths, target)
    torch.testing.assert_close(forced.log_probs[:, 0], other[:, 0])
    assert not torch.allclose(forced.log_probs[:, 1:], other[:, 1:])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"latent": "acvi"}, "no latent vectors"),
        ({"marginalization": "bound", "inference": "bilstm"}, "trained by the likelihood itself"),
        ({"input_feeding": "sample"}, "draws no position"),
        ({"score": "coverage"}, "score `coverage` depends on where earlier steps looked"),
        ({"score": "structural"}, "score `structural` depends on where earlier steps looked"),
        ({"targets": "actions"}, "writes no actions"),
        ({"input_feeding": "posterior"}, "the posterior needs p(y | s, h_a)"),
    ],
)
def test_what_cannot_be_combined_is_refused_before_work_begins(
    changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(FitError) as refused:
        check_fit(components(**{"input_feeding": "none", **changed}), Network())
    assert message in str(refused.value)
    assert refused.value.hint


def test_a_dot_product_needs_no_equal_sizes_of_lstms() -> None:
    check_fit(components(score="dot", input_feeding="none"), Network(embedding=8, decoder=5))
    assert options.COMPONENTS["architecture"]["aligned-transformer"]().reads_vectors is False
