"""The Transformer against torch's own layers, and what every model must keep (float64)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pam.data.vocabulary import BOS, EOS, PAD, Vocabulary
from pam.decoding.hypotheses import Hypotheses
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Decoding, Network
from pam.models.build import build
from pam.models.model import match
from pam.models.transformer import Transformer
from pam.models.transformer_layers import DecoderLayer, Shape, causal_mask
from tests.decoding.best import assert_same, decode, log_likelihoods
from tests.models import tiny

NETWORK = Network(embedding=8, encoder_layers=2, decoder_layers=2, dropout=0.0)


def made(seed: int = 1, network: Network = NETWORK, **changed: Any) -> Transformer:
    torch.manual_seed(seed)
    architecture = {"kind": "transformer", "heads": 2, **changed}
    chosen = tiny.components("transformer", architecture=architecture)
    model = build(chosen, network, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()

    assert isinstance(model, Transformer)
    nn.init.uniform_(model.output.weight, -3.0, 3.0)
    return model


def test_a_layer_is_that_of_torch() -> None:
    torch.manual_seed(2)
    mine = DecoderLayer(Shape(8, 2, 16, 1, 1, 0.0)).double().eval()
    theirs = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True).double()
    # torch's names of the same weights.
    names = {"self_attn": "own", "multihead_attn": "cross", "linear1": "between.0"}
    names |= {"linear2": "between.3", "norm1": "norms.0", "norm2": "norms.1", "norm3": "norms.2"}
    weights = mine.state_dict()
    theirs.load_state_dict(
        {
            key: weights[key.replace(name, names[name], 1)]
            for key in theirs.state_dict()
            for name in [key.split(".")[0]]
        }
    )
    states = torch.randn(4, 5, 8, dtype=torch.float64)
    values = torch.randn(4, 7, 8, dtype=torch.float64)
    mask = torch.arange(7) < torch.tensor([7, 2, 5, 1])[:, None]
    causal = causal_mask(5, states.device)
    actual, _, alignments = mine(states, None, mine.source_keys(values), mask, causal)
    expected = theirs.eval()(states, values, tgt_mask=~causal, memory_key_padding_mask=~mask)

    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(alignments.sum(3), torch.ones(4, 2, 5, dtype=torch.float64))
    assert not alignments.movedim(3, 1)[~mask].any()


@pytest.mark.processor
def test_products_in_bfloat16_stay_near_the_exact_ones() -> None:
    model = made().float()

    def measured() -> tuple[Tensor, Tensor]:
        model.zero_grad()
        values = model.objective(*tiny.batch())
        (values * torch.linspace(-1.0, 2.0, values.numel()).view_as(values)).sum().backward()
        gradients = [
            parameter.grad.flatten()
            for parameter in model.parameters()
            if parameter.grad is not None
        ]

        return values.detach(), torch.cat(gradients)

    exact_values, exact_gradient = measured()
    model.use_bf16(True)
    rough_values, rough_gradient = measured()

    assert rough_values.dtype == torch.float32 and not torch.equal(rough_values, exact_values)
    torch.testing.assert_close(rough_values, exact_values, rtol=0.03, atol=0.06)
    assert (rough_gradient - exact_gradient).norm() < 0.05 * exact_gradient.norm()


@torch.no_grad()
def test_steps_equal_the_likelihood_of_all_symbols_at_once() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    likelihood = model.log_likelihood(source, lengths, target)
    forced = model.teacher_force(source, lengths, target)

    torch.testing.assert_close(forced.log_probs, likelihood)

    hypotheses = Hypotheses(model, source, lengths, 1)
    symbol = torch.full_like(target[:, :1], BOS)
    for t, gold in enumerate(target.split(1, dim=1)):
        log_probs = hypotheses.step(symbol)[:, 0]
        torch.testing.assert_close(log_probs.gather(1, gold).squeeze(1), likelihood[:, t])
        torch.testing.assert_close(hypotheses.last_step.log_prior.exp(), forced.prior[:, t])
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(4, dtype=torch.float64))
        hypotheses.update(torch.zeros_like(gold), gold)
        symbol = gold


@torch.no_grad()
def test_the_alignment_is_the_mean_of_the_last_layers_heads() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    heads = model.head_alignments(source, lengths, target)
    mean = (heads["layer 2, head 1"] + heads["layer 2, head 2"]) / 2

    assert list(heads)[:2] == ["layer 1, head 1", "layer 1, head 2"] and len(heads) == 4
    torch.testing.assert_close(mean, model.teacher_force(source, lengths, target).prior)
    assert not torch.allclose(heads["layer 1, head 1"], heads["layer 1, head 2"])


def test_the_likelihood_is_the_softmax_of_all_logits_and_has_its_gradient() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    is_real = target != PAD

    def gradient_of(log_likelihood: Tensor) -> Tensor:
        model.zero_grad()
        log_likelihood[is_real].sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    log_likelihood = model.log_likelihood(source, lengths, target)
    gradient = gradient_of(log_likelihood)
    states, _ = model._run(source, lengths, target)
    log_probs = torch.log_softmax(model.output(states), 2)
    expected = log_probs.gather(2, target[:, :, None]).squeeze(2)

    torch.testing.assert_close(log_likelihood[is_real], expected[is_real])
    assert not log_likelihood[~is_real].any()
    torch.testing.assert_close(gradient, gradient_of(expected))


@pytest.mark.parametrize("kind", ["transformer", "aligned-transformer"])
@torch.no_grad()
def test_features_are_a_set_and_characters_are_counted_after_them(kind: str) -> None:
    torch.manual_seed(1)
    feeding = {"input_feeding": "none"} if kind == "aligned-transformer" else {}
    architecture = {"kind": kind, "heads": 2, "feature_kinds": True}
    chosen = ModelConfig(label="Mine", architecture=architecture, **feeding)
    model = build(chosen, NETWORK, tiny.VOCABULARY, tiny.VOCABULARY).double().eval()
    match(model, Vocabulary(["N", "NOM", "PL", "b"]), Vocabulary("abcd"))
    noun, nominative, plural, letter = range(5, 9)
    assert not any("is_feature" in name for name in model.state_dict())

    def log_prob(*source: int) -> Tensor:
        ids = torch.tensor([source])
        return model.log_likelihood(ids, torch.tensor([len(source)]), torch.tensor([[7, 8, EOS]]))

    expected = log_prob(nominative, plural, noun, letter, EOS)
    torch.testing.assert_close(log_prob(plural, nominative, noun, letter, EOS), expected)
    assert not torch.allclose(log_prob(nominative, plural, letter, noun, EOS), expected)

    # The first character is at position 0, whatever stands before it.
    embedded = embedding_of(model)(torch.tensor([[nominative, plural, noun, letter, EOS]]))
    fewer = embedding_of(model)(torch.tensor([[plural, noun, letter, EOS]]))
    torch.testing.assert_close(embedded[:, 1:], fewer)


def embedding_of(model: nn.Module) -> Any:
    """Return the function that embeds sources."""
    if isinstance(model, Transformer):
        return model.embedded_source
    return model.encoder.embed


def test_padding_changes_nothing() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    together = model.teacher_force(nn.functional.pad(source, (0, 3)), lengths, target)

    for row, length in enumerate(lengths.tolist()):
        rows = slice(row, row + 1)
        alone = model.teacher_force(source[rows, :length], lengths[rows], target[rows])
        torch.testing.assert_close(together.log_probs[row], alone.log_probs[0])
        torch.testing.assert_close(together.alignment[row, :, :length], alone.alignment[0])
        assert (together.alignment[row, :, length:] == 0).all()


@pytest.mark.parametrize("beam", [1, 4])
def test_the_log_prob_of_an_output_is_its_likelihood(beam: int) -> None:
    model = made()
    sources = [[5], [6, 7], [8, 5, 6], [7, 7, 8, 5]]
    decoding = Decoding(beam=beam, max_ratio=1.0, max_extra=4)
    outputs = decode(model, sources, decoding, False)
    alone = [decode(model, [source], decoding, False)[0] for source in sources]

    for source, output, other in zip(sources, outputs, alone, strict=True):
        assert_same(output, other)
        target = [*output.symbols, EOS] if output.complete else output.symbols
        assert output.log_prob == pytest.approx(log_likelihoods(model, source, [target])[0])

    assert len({tuple(output.symbols) for output in outputs}) > 1


def test_every_weight_learns() -> None:
    model = made(network=NETWORK.model_copy(update={"dropout": 0.1})).train()
    model.objective(*tiny.batch()).sum().backward()
    idle = [name for name, part in model.named_parameters() if not (part.grad != 0).any()]
    # What shifts all keys alike changes no softmax.
    assert all(name.endswith("in_proj_bias") for name in idle)
