"""Models and components that cannot be combined are refused, with a hint."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pam.runtime.errors import UserError
from tests.hf.tiny import aligned, batch, pam_hf, plain, transformers


def decoder_only() -> Any:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=12, n_embd=8, n_layer=1, n_head=2)
    )


def of_sound() -> Any:
    return transformers.Speech2TextForConditionalGeneration(
        transformers.Speech2TextConfig(
            vocab_size=12,
            d_model=8,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=8,
            decoder_ffn_dim=8,
            conv_channels=8,
            input_feat_per_channel=4,
        )
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (decoder_only, "has no encoder"),
        (lambda: plain("bart").model, "has no output layer"),
        (lambda: plain("bart").get_encoder(), "has no output layer|no symbols"),
        (of_sound, "reads `input_features`"),
        (lambda: aligned("bart"), "already"),
        (lambda: torch.nn.Linear(2, 2), "is no model of `transformers`"),
    ],
)
def test_models_that_cannot_have_a_head(make: Any, message: str) -> None:
    model = make()
    with pytest.raises(UserError, match=message) as refused:
        pam_hf.with_posterior_attention(model)
    assert refused.value.hint


@pytest.mark.parametrize(
    "components",
    [
        {"marginalization": "input"},
        {"marginalization": "bound"},
        {"marginalization": "none"},
        {"input_feeding": {"kind": "posterior", "context": True}},
        {"input_feeding": "sample"},
        {"input_feeding": "pointer"},
        {"coupling": "pointer"},
        {"coupling": "nearness"},
        {"score": "coverage"},
        {"latent": "acvi"},
        {"output": "shared"},
        {"marginalization": {"kind": "output", "mass": 2}},
    ],
)
def test_components_that_do_not_fit(components: dict[str, Any]) -> None:
    model = plain("marian")
    with pytest.raises(UserError) as refused:
        pam_hf.with_posterior_attention(model, **components)
    assert refused.value.hint

    # A model that was refused is as it was.
    assert type(model) is transformers.MarianMTModel
    pam_hf.with_posterior_attention(model)


def test_calls_that_say_too_little() -> None:
    model = aligned("marian", coupling="proximity")
    given = batch()
    labels = given.pop("labels")
    with pytest.raises(ValueError, match="labels"):
        model(**given)
    with pytest.raises(ValueError, match="must be known"):
        model(**given, decoder_inputs_embeds=torch.zeros(2, 3, 8).double())

    # A prompt of the decoder that is padded before its first symbol.
    symbols = model.prepare_decoder_input_ids_from_labels(labels)
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
    with torch.no_grad(), pytest.raises(ValueError, match="left"):
        model(**given, decoder_input_ids=symbols, decoder_attention_mask=mask)
