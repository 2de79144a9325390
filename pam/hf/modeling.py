"""A model of `transformers` with an alignment head: its class, and how it is made and loaded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from pam.hf.cache import AlignedCache
from pam.hf.form import form_of
from pam.hf.head import IGNORED, Aligned, Head, OutputLayer, precise
from pam.hf.settings import OUTPUTS, chosen_components
from pam.hf.steps import Outcome, Sources, given_targets, searched
from pam.models.head import AttentionHead
from pam.runtime.errors import UserError, unknown

SUFFIX = "WithPosteriorAttention"
"""What the name of a class with an alignment head ends in."""

CACHE = "cache" if "cache" in {one.name for one in fields(Seq2SeqLMOutput)} else "past_key_values"
"""The name of the decoder's cache in this version of `transformers`."""


@dataclass
class PosteriorAttentionOutput(Seq2SeqLMOutput):
    """The output of a model with an alignment head.

    Attributes:
        loss: the mean of -log p(y_t | y_<t, x) over all labels.
        logits: (B, T, V) log p of every symbol; None in training with labels, unless asked for.
        alignment: (B, T, m) the prior over source positions, before y_t is seen.
        posterior: (B, T, m) the alignment given the label y_t, by Bayes' rule. Where a label is
            -100 it is zero, as is `alignment`. None without labels, and in training where no
            coupling needs it, unless logits are asked for.
    """

    alignment: Tensor | None = None
    posterior: Tensor | None = None


def with_posterior_attention(
    model: Any, *, output: str = "tied", source_attention: bool = True, **components: Any
) -> Any:
    """Give an encoder-decoder of `transformers` an alignment head.

    The model itself is changed, and returned: its class is one derived from its own, and it has the
    weights of the head besides.

    Args:
        model: such as a MarianMTModel, BartForConditionalGeneration, MBartForConditionalGeneration
            or T5ForConditionalGeneration.
        output: `tied`: W_o is that of the model; `own`: a copy of it that belongs to the head.
        source_attention: whether the decoder's layers attend to the source. If so, a new head
            changes no probability. If not, the head is the only way from the source to the output:
            the model has to learn more, and its posterior tells where it looks.
        components: kinds of components, by the names and options of a model's YAML: `coupling`
            (`none`, `proximity`, `monotone` or `chain`), `marginalization` (`output`, or `{"kind":
            "output", "mass": 0.99}` for a nucleus, with `top_k` for at most K positions),
            `input_feeding` (`posterior` or `prior`: what the next coupling starts from), `score`
            and `distribution`.

    Raises:
        UserError: the model has no encoder, no output layer or one that reads something else than
            its last state; or components do not fit together.

    Example:
        >>> from transformers import MarianConfig, MarianMTModel
        >>> sizes = dict(vocab_size=20, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32)
        >>> ids = dict(pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)
        >>> model = MarianMTModel(MarianConfig(**sizes, **ids, encoder_layers=1, decoder_layers=1))
        >>> model = with_posterior_attention(model, coupling="proximity")
        >>> out = model(input_ids=torch.tensor([[5, 6, 7, 2]]), labels=torch.tensor([[8, 9, 2]]))
        >>> out.posterior.shape
        torch.Size([1, 3, 4])
    """
    form = form_of(model)
    if output not in OUTPUTS:
        raise unknown("output", output, list(OUTPUTS))

    model.config.posterior_attention = {
        "components": chosen_components(components, form.values, form.queries),
        "values": form.values,
        "queries": form.queries,
        "symbols": form.symbols,
        "factor": form.factor,
        "output": output,
        "source_attention": source_attention,
    }
    base: Any = type(model)
    model.__class__ = class_of(base)
    model.add_head()
    return model


def from_pretrained(folder: str | Path, **options: Any) -> Any:
    """Load a model with an alignment head that `save_pretrained` wrote.

    Args:
        folder: the folder.
        options: those of the model's own `from_pretrained`, such as `dtype`.

    Raises:
        UserError: there is no such model, or it has no alignment head.
    """
    hint = "name a folder that `save_pretrained` of a model with posterior attention wrote"
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise UserError("no model of `transformers`", file=Path(folder), hint=hint) from error

    names = [name for name in config.architectures or () if name.endswith(SUFFIX)]
    if not names:
        raise UserError("a model without posterior attention", file=Path(folder), hint=hint)
    return _class_named(names[0]).from_pretrained(folder, **options)


@cache
def class_of(base: Any) -> type:
    """Return the class of models of the class `base` with an alignment head."""
    return type(base.__name__ + SUFFIX, (WithPosteriorAttention, base), {"__module__": __name__})


def _class_named(name: str) -> Any:
    """Return the class of this name, which is derived from one of `transformers`."""
    base_name = name.removesuffix(SUFFIX)
    base = getattr(transformers, base_name, None)
    if base is None:
        message = f"`transformers` {transformers.__version__} has no {base_name}"
        raise UserError(message, hint="install the version that the model was saved by")
    return class_of(base)


def __getattr__(name: str) -> Any:
    """Find a class with an alignment head by its name, as pickle does."""
    if name.endswith(SUFFIX) and hasattr(transformers, name.removesuffix(SUFFIX)):
        return _class_named(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class WithPosteriorAttention(nn.Module):
    """What a class with an alignment head has before the class that it is derived from."""

    # `Trainer` gives the number of labels of all batches that a step of the optimizer gathers.
    accepts_loss_kwargs = True
    # Steps wait for values: those of a nucleus, for instance.
    _can_compile_fullgraph = False

    config: Any
    posterior_attention: Head
    source_attention: bool

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self.add_head()

    def add_head(self) -> None:
        """Make the head that the configuration describes, with fresh weights."""
        settings = dict(self.config.posterior_attention)
        has_output = settings.pop("output") == "own"
        self.source_attention = settings.pop("source_attention")
        head = Head(**settings, has_output=has_output)

        weight = self.get_output_embeddings().weight  # type: ignore[operator]
        head.to(device=weight.device, dtype=precise(weight.dtype))
        if has_output and weight.device.type != "meta":
            head.start_from(self.output_layer())
        self.posterior_attention = head.train(self.training)

        # Their last dimension differs from batch to batch, and `Trainer` joins outputs of batches.
        ignored = [*getattr(self.config, "keys_to_ignore_at_inference", ())]
        self.config.keys_to_ignore_at_inference = list(
            dict.fromkeys([*ignored, "alignment", "posterior"])
        )

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Load a model; its head is in float32 at least, whatever the type of the rest."""
        loaded = super().from_pretrained(*args, **kwargs)  # type: ignore[misc]
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        head = model.posterior_attention
        head.to(precise(head.of_values.weight.dtype))
        return loaded

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> Any:
        """Change the number of symbols; arguments are those of `transformers`.

        Raises:
            UserError: the head has an output layer of its own.
        """
        symbols = args[0] if args else kwargs.get("new_num_tokens")
        if symbols is not None and self.posterior_attention.output is not None:
            message = "the head has an output layer of its own, of as many symbols as there were"
            raise UserError(message, hint="resize the model before `with_posterior_attention`")

        embeddings = super().resize_token_embeddings(*args, **kwargs)  # type: ignore[misc]
        layer = self.get_output_embeddings()  # type: ignore[operator]
        self.config.posterior_attention["symbols"] = layer.weight.shape[0]
        return embeddings

    def alignment_head(self) -> AttentionHead:
        """Return the head with its output layer, as this package's own models have one."""
        own = self.posterior_attention.output
        if own is not None:
            return self.posterior_attention.bound(OutputLayer(own.weight, own.bias))
        return self.posterior_attention.bound(self.output_layer())

    def output_layer(self) -> OutputLayer:
        """Return W_o and b_o of the model, in the type in which the head computes."""
        layer = self.get_output_embeddings()  # type: ignore[operator]
        dtype = precise(layer.weight.dtype)
        weight = layer.weight.to(dtype)

        bias = weight.new_zeros(len(weight))
        if getattr(layer, "bias", None) is not None:
            bias = bias + layer.bias
        final_bias = getattr(self, "final_logits_bias", None)
        if final_bias is not None:
            bias = bias + final_bias[0]
        return OutputLayer(weight, bias.to(dtype))

    def encoder_states(self, **given: Any) -> Any:
        """Run the encoder; the first part of its output are the states h_a, (B, m, D)."""
        return self.get_encoder()(**given, return_dict=True)  # type: ignore[operator]

    def decoder_states(self, values: Tensor, mask: Tensor | None, **given: Any) -> Any:
        """Run the decoder; the first part of its output are the states s_t, (B, T, H)."""
        if self.source_attention:
            given |= {"encoder_hidden_states": values, "encoder_attention_mask": mask}
        return self.get_decoder()(**given, return_dict=True)  # type: ignore[operator]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_logits: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Any,
    ) -> Any:
        """Compute the loss of labels, or log p of the symbols that follow.

        Arguments are those of the class without an alignment head, and:

        Args:
            output_logits: whether to compute log p of every symbol; None: always, but for labels in
                training.
            num_items_in_batch: number by which the loss is divided; None: that of labels.
        """
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if labels is None:
                raise ValueError("give `labels`, or `decoder_input_ids`")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)  # type: ignore[operator]
        if labels is None:
            _check_symbols(decoder_input_ids, decoder_attention_mask)

        recorded = {
            name: options.pop(name)
            for name in ("output_attentions", "output_hidden_states")
            if name in options
        }
        if encoder_outputs is None:
            encoder_outputs = self.encoder_states(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                **recorded,
            )
        elif isinstance(encoder_outputs, tuple | list):
            encoder_outputs = BaseModelOutput(*encoder_outputs)

        # A cache belongs to a search, whose steps have no gradients.
        known_cache = options.pop(CACHE, None)
        is_search = labels is None and (known_cache is not None or not torch.is_grad_enabled())
        if use_cache is None:
            use_cache = self.config.use_cache
        aligned_cache = None
        if is_search and use_cache:
            aligned_cache = AlignedCache.of(known_cache)
        decoder_outputs = self.decoder_states(
            encoder_outputs[0],
            attention_mask,
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=aligned_cache is not None,
            **{CACHE: aligned_cache},
            **recorded,
            **options,
        )

        values = encoder_outputs[0]
        # Products of probabilities over many steps need float32.
        with torch.autocast(values.device.type, enabled=False):
            aligned = Aligned(self)
            sources = Sources.of(values.to(aligned.dtype), attention_mask)
            queries = decoder_outputs[0].to(aligned.dtype)
            if is_search:
                outcome = _search(aligned, sources, queries, decoder_input_ids, aligned_cache)
            else:
                outcome = self._teach(
                    aligned, sources, queries, labels, decoder_input_ids, output_logits
                )

        result = PosteriorAttentionOutput(
            loss=_loss(outcome, labels, num_items_in_batch),
            logits=outcome.logits,
            **{CACHE: aligned_cache},
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=getattr(decoder_outputs, "cross_attentions", None),
            encoder_last_hidden_state=values,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            alignment=outcome.alignment,
            posterior=outcome.posterior,
        )
        if return_dict is False:
            return result.to_tuple()
        return result

    def _teach(
        self,
        aligned: Aligned,
        sources: Sources,
        queries: Tensor,
        labels: Tensor | None,
        symbols: Tensor | None,
        output_logits: bool | None,
    ) -> Outcome:
        """Run the head over labels (B, T), or where there are none over the decoder's symbols."""
        is_asked = output_logits
        if is_asked is None:
            is_asked = labels is None or not self.training
        if labels is not None:
            return given_targets(aligned, sources, queries, labels, is_asked, is_asked)

        # What follows the last symbol is not known, and makes no difference before.
        assert symbols is not None
        following = torch.cat([symbols[:, 1:], symbols[:, :1]], 1)
        outcome = given_targets(aligned, sources, queries, following, is_asked, False)
        return outcome._replace(posterior=None)

    def _reorder_cache(self, cache: AlignedCache, beam_idx: Tensor) -> AlignedCache:
        """Reorder hypotheses in a beam search."""
        cache.reorder_cache(beam_idx)
        return cache


def _loss(outcome: Outcome, labels: Tensor | None, divisor: Tensor | int | None) -> Tensor | None:
    """Return -log p of all labels over a divisor; None: it is the number of labels."""
    if labels is None:
        return None
    assert outcome.log_likelihood is not None
    if divisor is None:
        divisor = (labels != IGNORED).sum()
    return -outcome.log_likelihood.sum() / divisor


def _check_symbols(symbols: Tensor | None, mask: Tensor | None) -> None:
    """Check that symbols (B, T) without labels are known, and padded at the end alone.

    Every symbol is observed in its turn. A mask (B, T) has ones and zeros; masks of other forms
    belong to a search without padding.
    """
    if symbols is None:
        raise ValueError("`decoder_inputs_embeds` need `labels`: what is written must be known")
    if mask is not None and mask.dim() == 2 and bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise ValueError(
            "symbols of the decoder are padded on the left: pad them at the end, or give `labels`"
        )


def _search(
    aligned: Aligned,
    sources: Sources,
    queries: Tensor,
    symbols: Tensor | None,
    cache: AlignedCache | None,
) -> Outcome:
    """Take the steps of a search, and note in the cache how far they are."""
    assert symbols is not None
    progress = None
    if cache is not None:
        progress = cache.progress
    outcome, progress = searched(aligned, sources, queries, symbols, progress)
    if cache is not None:
        cache.progress = progress
    return outcome
