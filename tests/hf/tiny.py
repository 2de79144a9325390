"""Tiny models of `transformers` with fresh weights; all is skipped without the package.

Encoders have as many layers as decoders: some versions give a cache the layers of the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

REASON = "the package transformers is not installed: make transformers runs these tests"
transformers = pytest.importorskip("transformers", reason=REASON)
pam_hf = pytest.importorskip("pam.hf")

SYMBOLS = 12
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
BART_LIKE = {
    "vocab_size": SYMBOLS,
    "d_model": 8,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "max_position_embeddings": 40,
    "forced_eos_token_id": None,
    "init_std": 0.5,
    **IDS,
}
T5_LIKE = {
    "vocab_size": SYMBOLS,
    "d_model": 8,
    "d_kv": 4,
    "d_ff": 16,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    **IDS,
}
MODELS = {
    "marian": (transformers.MarianMTModel, transformers.MarianConfig, BART_LIKE),
    "bart": (transformers.BartForConditionalGeneration, transformers.BartConfig, BART_LIKE),
    "mbart": (transformers.MBartForConditionalGeneration, transformers.MBartConfig, BART_LIKE),
    "t5": (transformers.T5ForConditionalGeneration, transformers.T5Config, T5_LIKE),
}

Plain = Callable[..., Any]


def plain(kind: str, seed: int = 1, **changed: Any) -> Any:
    """Make a model without a head, in float64, whose distributions are far from uniform."""
    model_class, config_class, sizes = MODELS[kind]
    torch.manual_seed(seed)
    model = model_class(config_class(**{**sizes, **changed})).double().eval()
    if getattr(model, "final_logits_bias", None) is not None:
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    return model


def aligned(kind: str, seed: int = 1, vocab_size: int = SYMBOLS, **components: Any) -> Any:
    """Make a model with a head, all of whose weights are drawn."""
    without = plain(kind, seed, vocab_size=vocab_size)
    model = pam_hf.with_posterior_attention(without, **components)
    torch.manual_seed(seed)
    for parameter in model.posterior_attention.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return model


def batch() -> dict[str, Tensor]:
    """Return two sources and targets of different lengths, padded at the end."""
    return {
        "input_ids": torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
        "labels": torch.tensor([[5, 6, 2, -100], [11, 3, 8, 2]]),
    }
