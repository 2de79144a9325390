"""`generate` of models with a head: greedy, beams and sampling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pam.decoding.hypotheses import forbidden_symbols
from pam.decoding.search import beam_search
from pam.experiments.settings import Decoding
from tests.hf.tiny import MODELS, aligned, batch

HEADS: dict[str, dict[str, Any]] = {
    "proximity": {"coupling": "proximity"},
    "monotone": {"coupling": {"kind": "monotone", "first": "before"}, "input_feeding": "prior"},
    "none": {},
    "top 2": {"coupling": "proximity", "marginalization": {"kind": "output", "top_k": 2}},
    "no source attention": {"coupling": "proximity", "source_attention": False},
    "nucleus": {"coupling": "proximity", "marginalization": {"kind": "output", "mass": 0.8}},
}


def sources() -> dict[str, Tensor]:
    return {name: tensor for name, tensor in batch().items() if name != "labels"}


def next_log_probs(model: Any, given: dict[str, Tensor], prefix: Tensor) -> Tensor:
    """Return log p of the symbol after prefixes, by steps from the first one on."""
    with torch.no_grad():
        logits = model(**given, decoder_input_ids=prefix, use_cache=False).logits
    last: Tensor = logits[:, -1]
    return last


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("kind", MODELS)
def test_greedy_search_writes_the_most_probable_symbols(kind: str, name: str) -> None:
    model = aligned(kind, **HEADS[name])
    out = model.generate(
        **sources(), max_new_tokens=7, output_scores=True, return_dict_in_generate=True
    )
    prefix = torch.ones(2, 1, dtype=torch.long)
    has_ended = torch.zeros(2, dtype=torch.bool)
    for t, scores in enumerate(out.scores):
        expected = next_log_probs(model, sources(), prefix)
        torch.testing.assert_close(
            scores[~has_ended].double(), expected[~has_ended], rtol=1e-5, atol=1e-5
        )
        symbol = expected.argmax(1).masked_fill(has_ended, 0)
        assert torch.equal(out.sequences[:, t + 1], symbol)
        has_ended |= symbol == 2
        prefix = torch.cat([prefix, symbol[:, None]], 1)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["proximity", "monotone", "none", "no source attention"])
def test_beams_are_those_of_our_own_search(kind: str, name: str) -> None:
    from pam.hf.head import Aligned

    ended = 0
    for seed, beam in ((1, 2), (2, 5)):
        model = aligned(kind, seed, output="own", **HEADS[name])
        # Let outputs end: those that are cut short are ranked in other ways.
        model.posterior_attention.output.weight.data *= 0.3
        model.posterior_attention.output.bias.data[2] += 4
        out = model.generate(
            **sources(),
            num_beams=beam,
            max_new_tokens=8,
            length_penalty=0.0,
            early_stopping="never",
            suppress_tokens=forbidden_symbols(actions=False),
            output_scores=True,
            return_dict_in_generate=True,
        )
        decoding = Decoding(beam=beam, max_length=8, max_extra=8)
        lengths = sources()["attention_mask"].sum(1)
        network = Aligned(model).eval()
        outputs = beam_search(network, sources()["input_ids"], lengths, decoding)
        for row, (best, *_) in enumerate(outputs):
            written = out.sequences[row, 1:].tolist()
            if 2 in written:
                # What follows fills the row.
                written = written[: written.index(2) + 1]
                assert written == [*best.symbols, 2]
                assert out.sequences_scores[row].item() == pytest.approx(best.log_prob, abs=1e-4)
                ended += 1
    assert ended >= 2


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "options", [{"num_beams": 3}, {"do_sample": True}, {"num_beams": 2, "do_sample": True}]
)
def test_a_cache_changes_no_output(kind: str, options: dict[str, Any]) -> None:
    model = aligned(kind, coupling="proximity")
    outputs = []
    for use_cache in (True, False):
        torch.manual_seed(5)
        outputs.append(
            model.generate(
                **sources(),
                **options,
                use_cache=use_cache,
                num_return_sequences=2,
                max_new_tokens=6,
            )
        )
    assert torch.equal(*outputs)


def test_hypotheses_share_what_is_computed_of_their_source() -> None:
    from pam.hf.steps import Sources

    model = aligned("bart", coupling="proximity")
    values = model.get_encoder()(**sources())[0]
    for repeats in (1, 2, 3):
        repeated = Sources.of(
            values.repeat_interleave(repeats, 0),
            sources()["attention_mask"].repeat_interleave(repeats, 0),
        )
        assert repeated.repeats() == repeats
    # Rows that are not repeated as often as others, and a single source.
    assert Sources.of(values[[0, 0, 1]], None).repeats() == 1
    assert Sources.of(values[[0, 0, 0]], None).repeats() == 3


@pytest.mark.parametrize("kind", MODELS)
def test_a_prompt_of_the_decoder_is_observed(kind: str) -> None:
    model = aligned(kind, coupling="proximity")
    prompt = torch.tensor([[1, 7, 4], [1, 3, 9]])
    out = model.generate(**sources(), decoder_input_ids=prompt, max_new_tokens=1, do_sample=False)
    expected = next_log_probs(model, sources(), prompt).argmax(1)
    assert torch.equal(out, torch.cat([prompt, expected[:, None]], 1))

    # As the label of each step observes it.
    labels = torch.cat([prompt[:, 1:], expected[:, None]], 1)
    logits = model(**sources(), labels=labels, decoder_input_ids=prompt).logits
    torch.testing.assert_close(logits[:, -1], next_log_probs(model, sources(), prompt))


def test_padding_of_sources_on_the_left_changes_no_output() -> None:
    model = aligned("t5", coupling={"kind": "monotone", "first": "before"})
    padded = {
        "input_ids": torch.tensor([[5, 6, 7, 8, 2], [0, 0, 9, 10, 2]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]),
    }
    expected = model.generate(**sources(), num_beams=3, max_new_tokens=6)
    assert torch.equal(model.generate(**padded, num_beams=3, max_new_tokens=6), expected)


def test_what_takes_symbols_back_is_refused() -> None:
    model = aligned("bart", coupling="proximity")
    with torch.no_grad():
        out = model(**sources(), decoder_input_ids=torch.ones(2, 1, dtype=torch.long))
    cache = getattr(out, "cache", None) or out.past_key_values
    with pytest.raises(NotImplementedError, match="beam search"):
        cache.crop(1)
    with pytest.raises(NotImplementedError, match="contrastive"):
        cache.batch_select_indices(torch.tensor([0]))
