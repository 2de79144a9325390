"""Posterior attention by itself, in a loop that is not ours, against the whole model (float64)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS
from pam.models.lstm import replace_unknown
from pam.models.posterior_attention import AttentionState, PosteriorAttention
from pam.models.seq2seq import Seq2Seq
from pam.runtime.errors import UserError
from tests.models import tiny

MODELS: dict[str, dict[str, Any]] = {
    "postr-joint": {},
    "prox-postr-joint": {"coupling": "proximity"},
    "mono-postr-joint": {"coupling": "monotone"},
    "prior-joint": {"input_feeding": "prior"},
    "soft": {"marginalization": "input", "input_feeding": "prior"},
    "postr-joint-pointer": {"copying": "pointer", "embedding": 4},
    "soft-pointer": {
        "score": "mlp",
        "marginalization": "input",
        "input_feeding": "prior",
        "copying": "pointer",
        "embedding": 4,
    },
}
"""Named models, and the components with which the layer is the same one."""


def layer_of(model: Seq2Seq, **components: Any) -> PosteriorAttention:
    """Make the layer with the weights of a model."""
    layer = PosteriorAttention(
        tiny.SIZES.query, tiny.SIZES.values, tiny.VOCABULARY, **components
    ).double()
    weights = model.state_dict()
    layer.load_state_dict({name: weights[name] for name in layer.state_dict()})

    return layer


class Loop(nn.Module):
    """An encoder and an `nn.LSTM` that somebody else steps through given targets."""

    def __init__(self, model: Seq2Seq, layer: PosteriorAttention) -> None:
        super().__init__()
        self.encoder = model.encoder
        self.bridge = model.decoder
        self.layer = layer

        cell = model.decoder.stack[0]
        self.lstm = nn.LSTM(cell.input_size, cell.hidden_size).double()
        weights = {f"{name}_l0": value for name, value in cell.state_dict().items()}
        self.lstm.load_state_dict(weights)

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> list[AttentionState]:
        """Return the states after each symbol."""
        values, final = self.encoder(source, lengths)
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        copies = self.layer.head.copying.copies
        memory = self.layer.memory(values, mask, source=source if copies else None)
        state = self.layer.start(memory)

        ((h, c),) = self.bridge.start(final)
        hidden = (h[None], c[None])
        previous = torch.full_like(target[:, 0], BOS)
        states = []
        for symbol in target.t():
            embedded = self.bridge.embedding(replace_unknown(previous, self.bridge.embedding))
            inputs = torch.cat([embedded, state.context], dim=1)
            outputs, hidden = self.lstm(inputs[None], hidden)
            step = self.layer.step(
                memory, state, query=outputs[0], embedded=embedded if copies else None
            )
            state = self.layer.update(memory, step, symbol)
            states.append(state)
            previous = symbol
        return states


@pytest.mark.parametrize("name", MODELS)
def test_the_layer_gives_the_values_and_gradients_of_the_whole_model(name: str) -> None:
    model = tiny.model(tiny.components(name))
    layer = layer_of(model, **MODELS[name])
    loop = Loop(model, layer)
    batch = with_copies(tiny.batch()) if "pointer" in name else tiny.batch()

    expected = model.log_likelihood(*batch)
    weights = dict(model.named_parameters())
    gradients = torch.autograd.grad(expected.sum(), list(weights.values()))
    expected_gradients = dict(zip(weights, gradients, strict=True))

    states = loop(*batch)
    log_prob = torch.stack([state.log_prob for state in states], dim=1)
    torch.testing.assert_close(log_prob, expected, rtol=0, atol=1e-12)

    log_prob.sum().backward()
    for parameter_name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, expected_gradients[parameter_name])
    for parameter_name, parameter in loop.encoder.named_parameters():
        torch.testing.assert_close(parameter.grad, expected_gradients[f"encoder.{parameter_name}"])
    for part in ("weight_ih", "weight_hh"):
        gradient = getattr(loop.lstm, f"{part}_l0").grad
        torch.testing.assert_close(gradient, expected_gradients[f"decoder.cells.0.{part}"])

    alignment = torch.stack([state.alignment for state in states], dim=1)
    torch.testing.assert_close(alignment, model.teacher_force(*batch).alignment)


def with_copies(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Put a word that the vocabulary lacks into each source, and write it in the targets."""
    source, lengths, target = batch
    source = source.clone()
    target = target.clone()
    # Any id that is no symbol's stands for the word; it is written as the place that has it.
    source[:, 0] = tiny.VOCABULARY + 30
    target[:, 1] = tiny.VOCABULARY
    return source, lengths, target


def test_copies_are_told_as_in_the_whole_model() -> None:
    model = tiny.model(tiny.components("postr-joint-pointer"))
    layer = layer_of(model, **MODELS["postr-joint-pointer"])
    torch.manual_seed(1)
    values = torch.randn(2, 3, 6, dtype=torch.float64)
    source = torch.tensor([[5, 40, 5], [6, 41, 0]])
    mask = source > 0
    query = torch.randn(2, 5, dtype=torch.float64)
    embedded = torch.randn(2, 4, dtype=torch.float64)
    memory = layer.memory(values, mask, source)
    step = layer.step(memory, layer.start(memory), query, embedded)

    probs = step.log_probs().exp()
    assert probs.shape == (2, tiny.VOCABULARY + 3)
    torch.testing.assert_close(probs.sum(1), torch.ones(2, dtype=torch.float64))
    # A word that no vocabulary has is copied, and a symbol that the source has not is generated.
    word = torch.tensor([tiny.VOCABULARY + 1] * 2)
    torch.testing.assert_close(step.copied(word), torch.ones(2, dtype=torch.float64))
    assert step.copied(torch.tensor([8, 8])).tolist() == [0, 0]
    copied = step.copied(torch.tensor([5, 6]))
    assert bool(((copied > 0) & (copied < 1)).all())
    # The posterior moves to the only position that has the word.
    torch.testing.assert_close(step.posterior(word)[:, 1], torch.ones(2, dtype=torch.float64))

    with pytest.raises(NotImplementedError):
        a_step()[2].copied(torch.tensor([5, 6]))


@pytest.mark.parametrize("name", MODELS)
def test_hypotheses_of_a_beam_share_the_memory_of_their_source(name: str) -> None:
    model = tiny.model(tiny.components(name))
    layer = layer_of(model, **MODELS[name])
    copies = layer.head.copying.copies
    torch.manual_seed(1)
    beam = 3
    values = torch.randn(2, 4, 6, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    source = torch.tensor([[5, 6, 7, 8], [30, 5, 0, 0]]) if copies else None

    shared = layer.memory(values, mask, source, beam=beam)
    assert shared.values.shape[0] == 2
    # As if each hypothesis had a source of its own.
    repeated = layer.memory(
        values.repeat_interleave(beam, 0),
        mask.repeat_interleave(beam, 0),
        None if source is None else source.repeat_interleave(beam, 0),
    )
    with torch.no_grad():
        states = [layer.start(shared), layer.start(repeated)]
        for _ in range(4):
            query = torch.randn(6, 5, dtype=torch.float64)
            embedded = torch.randn(6, 4, dtype=torch.float64) if copies else None
            parents = torch.cat([torch.randint(3, (3,)), 3 + torch.randint(3, (3,))])
            symbol = torch.randint(5, 9, (6,))
            steps = [
                layer.step(memory, state, query, embedded)
                for memory, state in zip((shared, repeated), states, strict=True)
            ]
            torch.testing.assert_close(steps[0].prior, steps[1].prior)
            torch.testing.assert_close(steps[0].log_probs(), steps[1].log_probs())

            chosen = steps[1].log_probs()[parents, symbol]
            states = [
                layer.update(shared, steps[0].select(parents), symbol),
                layer.update(
                    repeated,
                    layer.step(
                        repeated,
                        states[1].select(parents),
                        query[parents],
                        None if embedded is None else embedded[parents],
                    ),
                    symbol,
                ),
            ]
            torch.testing.assert_close(states[0].log_prob, chosen)
            torch.testing.assert_close(states[0].context, states[1].context)
            torch.testing.assert_close(states[0].alignment, states[1].alignment)


@pytest.mark.parametrize("sentences", [[1], [1, 0]])
def test_sources_that_are_finished_leave_the_memory_of_a_beam(sentences: list[int]) -> None:
    torch.manual_seed(1)
    layer = PosteriorAttention(query=5, values=6, symbols=9).double()
    values = torch.randn(2, 4, 6, dtype=torch.float64)
    mask = torch.ones(2, 4, dtype=torch.bool)
    query = torch.randn(4, 5, dtype=torch.float64)
    memory = layer.memory(values, mask, beam=2)
    log_probs = layer.step(memory, layer.start(memory), query).log_probs()

    kept = memory.select(torch.tensor(sentences))
    rows = torch.tensor([row for sentence in sentences for row in (2 * sentence, 2 * sentence + 1)])
    step = layer.step(kept, layer.start(memory).select(rows), query[rows])
    torch.testing.assert_close(step.log_probs(), log_probs[rows])


def test_what_is_wrong_with_copying_or_a_beam_is_said() -> None:
    for options in ({"copying": "pointer"}, {"embedding": 3}, {"embedding": -1}):
        with pytest.raises(UserError) as error:
            PosteriorAttention(query=5, values=6, symbols=9, **options)
        assert error.value.hint

    plain = PosteriorAttention(query=5, values=6, symbols=9)
    copying = PosteriorAttention(query=5, values=6, symbols=9, embedding=4, copying="pointer")
    values = torch.zeros(2, 3, 6)
    mask = torch.ones(2, 3, dtype=torch.bool)
    source = torch.full((2, 3), 5)
    calls: list[tuple[PosteriorAttention, dict[str, Any], str]] = [
        (plain, {"source": source}, "copying"),
        (copying, {}, "copying"),
        (copying, {"source": source[:, :2]}, "symbols"),
        (copying, {"source": source.float()}, "symbols"),
        (plain, {"beam": 0}, "beam"),
        (plain, {"beam": 1.5}, "beam"),
    ]
    for layer, options, message in calls:
        with pytest.raises(ValueError, match=message):
            layer.memory(values, mask, **options)

    memory = copying.memory(values, mask, source)
    with pytest.raises(ValueError, match="copying"):
        copying.step(memory, copying.start(memory), torch.zeros(2, 5))
    with pytest.raises(ValueError, match="embeddings"):
        copying.step(memory, copying.start(memory), torch.zeros(2, 5), torch.zeros(2, 5))


def test_only_the_most_probable_positions_are_summed_as_in_the_whole_model() -> None:
    marginalization = {"kind": "output", "top_k": 2}
    model = tiny.model(tiny.components("postr-joint", marginalization=marginalization))
    loop = Loop(model, layer_of(model, marginalization=marginalization))
    batch = tiny.batch()

    log_prob = torch.stack([state.log_prob for state in loop(*batch)], dim=1)
    torch.testing.assert_close(log_prob, model.log_likelihood(*batch), rtol=0, atol=1e-12)


def test_gradients_add_up_over_several_backward_passes() -> None:
    model = tiny.model(tiny.components("postr-joint"))
    loop = Loop(model, layer_of(model))
    weights = list(loop.layer.parameters())
    log_probs = torch.stack([state.log_prob for state in loop(*tiny.batch())])

    whole = torch.autograd.grad(log_probs.sum(), weights, retain_graph=True)
    for log_prob in log_probs:
        log_prob.sum().backward(retain_graph=True)

    torch.testing.assert_close([weight.grad for weight in weights], list(whole))


def a_step() -> tuple[PosteriorAttention, Any, Any]:
    """Return a layer, the memory of two sources and a step."""
    torch.manual_seed(1)
    layer = PosteriorAttention(query=5, values=6, symbols=9).double()
    values = torch.randn(2, 4, 6, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    memory = layer.memory(values, mask)
    query = torch.randn(2, 5, dtype=torch.float64)

    return layer, memory, layer.step(memory, layer.start(memory), query)


def test_a_step_says_the_same_of_one_symbol_and_of_all() -> None:
    _, _, step = a_step()
    symbols = torch.tensor([3, 8])

    # Before any symbol is written, after it, and as a search asks.
    before = step.log_prob(symbols)
    log_probs = step.log_probs()
    posterior = step.posterior(symbols)
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(log_probs[[0, 1], symbols], before.detach())
    torch.testing.assert_close(step.log_prob(symbols), before)

    torch.testing.assert_close(posterior.sum(1), torch.ones(2, dtype=torch.float64))
    assert bool((posterior - step.prior).abs().max() > 1e-3)
    assert not bool(posterior[1, 2:].any())

    # What a step has answered stays when another one is asked.
    kept = log_probs.clone()
    a_step()[2].log_probs()
    step.log_probs()
    assert torch.equal(log_probs, kept)


def test_states_are_reordered_as_a_beam_is() -> None:
    layer, memory, step = a_step()
    state = layer.update(memory, step, torch.tensor([3, 8]))
    swapped = state.select(torch.tensor([1, 0]))

    assert torch.equal(swapped.context, state.context.flip(0))
    assert torch.equal(swapped.log_prob, state.log_prob.flip(0))
    assert torch.equal(swapped.alignment, state.alignment.flip(0))
    assert torch.equal(
        layer.start(memory).select(torch.tensor([0])).context, memory.values[:1, 0] * 0
    )


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ({"scores": "mlp"}, "unknown component `scores`"),
        ({"latent": "acvi"}, "unknown component `latent`"),
        ({"score": "additive"}, "additive"),
        ({"marginalization": "input"}, "the posterior needs p"),
        ({"score": "dot"}, "a decoder state of 5 units with an encoder state of 6"),
        ({"score": "coverage"}, "score `coverage` adds a loss to the objective"),
        ({"input_feeding": "sample"}, "input feeding `sample` samples positions"),
    ],
)
def test_what_the_layer_cannot_be_made_of_is_said(components: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        PosteriorAttention(query=5, values=6, symbols=9, **components)
    assert error.value.hint


@pytest.mark.parametrize(
    ("values", "mask", "message"),
    [
        ((2, 4, 7), (2, 4), r"encoder states \(2, 4, 7\)"),
        ((2, 6), (2, 4), r"encoder states \(2, 6\)"),
        ((2, 4, 6), (2, 3), r"a mask \(2, 3\)"),
    ],
)
def test_a_source_of_another_shape_is_refused(
    values: tuple[int, ...], mask: tuple[int, ...], message: str
) -> None:
    layer = PosteriorAttention(query=5, values=6, symbols=9)
    with pytest.raises(ValueError, match=message):
        layer.memory(torch.zeros(values), torch.ones(mask, dtype=torch.bool))


@pytest.mark.parametrize("name", ["query", "values", "symbols"])
@pytest.mark.parametrize("size", [0, -1, 2.0])
def test_a_size_that_is_none_is_refused_by_its_name(name: str, size: Any) -> None:
    sizes: dict[str, Any] = {"query": 5, "values": 6, "symbols": 9}
    with pytest.raises(UserError, match=f"`{name}=") as error:
        PosteriorAttention(**sizes | {name: size})
    assert error.value.hint


@pytest.mark.parametrize("padding", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize(
    "components", [{}, {"marginalization": "input", "input_feeding": "prior"}, {"score": "mlp"}]
)
def test_encoder_states_of_padding_change_nothing(
    components: dict[str, Any], padding: float
) -> None:
    torch.manual_seed(1)
    layer = PosteriorAttention(query=5, values=6, symbols=9, **components)
    query = torch.randn(2, 5)
    real = torch.randn(2, 4, 6)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])

    results = []
    for value in (0.0, padding):
        values = real.masked_fill(~mask[:, :, None], value).requires_grad_()
        memory = layer.memory(values, mask)
        step = layer.step(memory, layer.start(memory), query)
        state = layer.update(memory, step, torch.tensor([3, 8]))
        assert state.log_prob is not None
        loss = state.log_prob.sum() + state.context.sum()
        gradients = torch.autograd.grad(loss, [values, *layer.parameters()], allow_unused=True)
        results.append([state.log_prob, state.context, step.log_probs(), *gradients])

    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_padding_before_a_real_position_is_refused() -> None:
    layer = PosteriorAttention(query=5, values=6, symbols=9)
    mask = torch.tensor([[True, True, True], [True, False, True]])
    with pytest.raises(ValueError, match="row 1 of the mask has padding before"):
        layer.memory(torch.zeros(2, 3, 6), mask)


def test_symbols_may_be_written_into_the_tensor_of_the_last_ones() -> None:
    layer, memory, step = a_step()
    expected = step.log_prob(torch.tensor([4, 5])).detach()

    symbols = torch.tensor([3, 8])
    step.posterior(symbols)
    state = layer.update(memory, step, symbols)
    assert state.log_prob is not None
    symbols.copy_(torch.tensor([4, 5]))
    torch.testing.assert_close(step.log_prob(symbols), expected, check_stride=False)
    state.log_prob.sum().backward()


@pytest.mark.parametrize("shape", [(3, 5), (2, 6)])
def test_queries_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    layer, memory, _ = a_step()
    state = layer.start(memory)
    with pytest.raises(ValueError, match="queries"):
        layer.step(memory, state, torch.zeros(shape, dtype=torch.float64))


def test_a_source_without_a_real_position_is_refused() -> None:
    layer = PosteriorAttention(query=5, values=6, symbols=9)
    mask = torch.tensor([[True, False], [False, False]])
    with pytest.raises(ValueError, match="row 1 of the mask has no real position"):
        layer.memory(torch.zeros(2, 2, 6), mask)


@pytest.mark.parametrize("marginalization", ["input", "output"])
def test_some_rows_of_a_step_are_updated_alone(marginalization: str) -> None:
    torch.manual_seed(1)
    layer = PosteriorAttention(
        8, 6, 30, marginalization=marginalization, input_feeding="prior"
    ).double()
    values = torch.randn(4, 5, 6).double()
    mask = torch.ones(4, 5, dtype=torch.bool)
    memory = layer.memory(values, mask)
    step = layer.step(memory, layer.start(memory), torch.randn(4, 8).double())
    symbol = torch.tensor([3, 4, 5, 6])
    rows = torch.arange(3)
    some = layer.update(layer.memory(values[:3], mask[:3]), step.select(rows), symbol[:3])

    torch.testing.assert_close(some.context, layer.update(memory, step, symbol).context[:3])
