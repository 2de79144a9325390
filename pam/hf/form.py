"""What a model has to be, to be given an alignment head, and what its output layer reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from pam.runtime.errors import UserError

HINT = "take an encoder-decoder of text, such as Marian, BART, mBART or T5"


@dataclass(frozen=True)
class Form:
    """The sizes of a model, and the factor of its output layer."""

    values: int  # units D of an encoder state
    queries: int  # units H of a decoder state
    symbols: int  # target symbols V
    factor: float  # f: logits are W_o (f s_t) + b_o


def form_of(model: Any) -> Form:
    """Return the form of a model; a UserError says why it cannot have an alignment head."""
    _check_kind(model)
    seen = _states_of_a_step(model)
    states = seen.get("states")
    read = seen.get("read")
    if states is None or read is None or "values" not in seen or states.shape != read.shape:
        raise _no_last_state(model)

    # The output layer reads f s_t, with f = 1 but for T5.
    factor = float((states * read).sum() / states.square().sum())
    if abs(factor - 1) < 1e-3:
        factor = 1.0
    is_scaled = torch.allclose(factor * states, read, rtol=0.02, atol=1e-3)

    # Its product is all of the logits, but for a bias that is known.
    added = seen["logits"] - seen["product"]
    bias = getattr(model, "final_logits_bias", None)
    if bias is not None:
        added = added - bias.double()
    if not is_scaled or added.abs().max() > 1e-2:
        raise _no_last_state(model)

    return Form(
        values=seen["values"].shape[-1],
        queries=states.shape[-1],
        symbols=added.shape[-1],
        factor=factor,
    )


def _check_kind(model: Any) -> None:
    """Check that this is an encoder-decoder of `transformers` that reads and writes symbols."""
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise UserError(
            f"{name} is no model of `transformers`",
            hint="give a MarianMTModel, for instance, before anything else wraps it",
        )
    if getattr(model.config, "posterior_attention", None) is not None:
        raise UserError(
            f"{name} has posterior attention already",
            hint="load it by `pam.hf.from_pretrained`, or start from a model without",
        )
    if not model.config.is_encoder_decoder:
        raise UserError(f"{name} has no encoder, whose positions are aligned", hint=HINT)
    if model.main_input_name != "input_ids":
        raise UserError(f"{name} reads `{model.main_input_name}`, and no symbols", hint=HINT)
    if model.get_output_embeddings() is None or not model.can_generate():
        raise UserError(
            f"{name} has no output layer",
            hint="take the model that generates, such as MarianMTModel for a MarianModel",
        )


@torch.no_grad()
def _states_of_a_step(model: Any) -> dict[str, Tensor]:
    """Run a model on two symbols, and return what passes through it.

    These are the states of encoder and decoder, what the output layer reads, its product, and the
    logits. One that is not there did not pass.
    """
    seen: dict[str, Tensor] = {}

    def keep(name: str, tensor: Any) -> None:
        if isinstance(tensor, Tensor):
            seen[name] = tensor.double()

    layer = model.get_output_embeddings()
    hooks = [
        model.get_encoder().register_forward_hook(lambda _, __, out: keep("values", out[0])),
        model.get_decoder().register_forward_hook(lambda _, __, out: keep("states", out[0])),
        layer.register_forward_hook(lambda _, given, __: keep("read", given[0])),
        layer.register_forward_hook(lambda _, __, out: keep("product", out)),
    ]
    # Some may be frozen, and not train where the model does.
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        ids = torch.tensor([[0, 1]], device=model.device)
        mask = torch.ones_like(ids)
        out = model(input_ids=ids, attention_mask=mask, decoder_input_ids=ids, use_cache=False)
        keep("logits", out.logits)
    finally:
        for module, is_training in training.items():
            module.training = is_training
        for hook in hooks:
            hook.remove()
    return seen


def _no_last_state(model: Any) -> UserError:
    message = f"the output layer of {type(model).__name__} does not read the decoder's last state"
    return UserError(message, hint=HINT)
