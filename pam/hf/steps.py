"""The steps of an alignment head: of given targets with gradients, or of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pam.hf.cache import Progress
from pam.hf.head import IGNORED, Aligned, States
from pam.models.attention_model import Unrolled
from pam.models.interfaces import AttentionHistory
from pam.models.kernels.log_linear import PositionLogits, log_linear_mixture
from pam.models.kernels.mixture import mixture_plain
from pam.models.outputs import AttentionMixture, OutputRows, SourceReadout
from pam.models.packing import PackedTargets

PIECE = 1 << 24
"""Numbers of distributions at a time, where log p of every symbol is computed."""


class Outcome(NamedTuple):
    """What the head gives for B sentences and T steps; None: it was not computed."""

    alignment: Tensor  # (B, T, m) priors
    posterior: Tensor | None = None  # (B, T, m) given the symbols
    log_likelihood: Tensor | None = None  # (B, T) log p of the symbols, zeros without one
    logits: Tensor | None = None  # (B, T, V) log p of every symbol


@dataclass(frozen=True)
class Sources:
    """Encoder states whose real positions precede padding, as distances between them need it."""

    values: Tensor  # (B, m, D)
    mask: Tensor  # (B, m) true at real positions
    places: Tensor | None = None  # (B, m) where each position was; None: where it is

    @classmethod
    def of(cls, values: Tensor, mask: Tensor | None) -> Sources:
        """Arrange states (B, m, D), padded on either side by a mask (B, m) of ones and zeros."""
        if mask is None:
            return cls(values, torch.ones(values.shape[:2], dtype=torch.bool, device=values.device))

        is_real = mask.bool()
        # A row without any, as of padding, attends to all: what it gives is finite, and not read.
        is_real = is_real | ~is_real.any(dim=1, keepdim=True)
        places = torch.argsort(~is_real, dim=1, stable=True)
        is_real = is_real.gather(1, places)
        arranged = values.gather(1, places[:, :, None].expand_as(values))
        # Weights of 0 do not make up for states that are not finite.
        arranged = arranged.masked_fill(~is_real[:, :, None], 0.0)
        return cls(arranged, is_real, places)

    def repeats(self) -> int:
        """Return how often each source is repeated, one after another, as `generate` does it."""
        same_values = (self.values[1:] == self.values[:-1]).flatten(1).all(1)
        same_mask = (self.mask[1:] == self.mask[:-1]).all(1)
        is_new = ~(same_values & same_mask)
        first_rows = is_new.nonzero().squeeze(1) + 1
        return math.gcd(len(self.values), *first_rows.tolist())

    def restored(self, alignment: Tensor) -> Tensor:
        """Put alignments (B, T, m) to the places where positions were."""
        if self.places is None:
            return alignment
        places = self.places[:, None].expand_as(alignment)
        return torch.zeros_like(alignment).scatter(2, places, alignment)


def given_targets(
    aligned: Aligned,
    sources: Sources,
    queries: Tensor,
    labels: Tensor,
    wants_logits: bool,
    wants_posterior: bool,
) -> Outcome:
    """Run all steps of given labels (B, T), with queries (B, T, H).

    Steps whose label is `IGNORED` are left out: what comes after them is coupled to what came
    before.
    """
    is_known = labels != IGNORED
    if not bool(is_known.any()):
        raise ValueError("no label is given: all are -100")
    places = torch.argsort(~is_known, dim=1, stable=True)
    ordered_queries = queries.gather(1, places[:, :, None].expand_as(queries))
    states = States(sources.values, sources.mask, ordered_queries)
    unrolled = aligned.given(states, labels.gather(1, places))
    packed = unrolled.packed

    def by_step(values: Tensor) -> Tensor:
        """Put values (N, ...) of tokens to their places, (B, T, ...), zeros without a label."""
        unpacked = packed.unpack(values)
        index = places.view(*places.shape, *[1] * (unpacked.dim() - 2)).expand_as(unpacked)
        return torch.zeros_like(unpacked).scatter(1, index, unpacked)

    posterior = None
    if wants_posterior or aligned.head.input_feeding.is_posterior:
        posterior = sources.restored(by_step(aligned.posterior(unrolled)))
    logits = None
    if wants_logits:
        logits = by_step(_log_probs(unrolled))
    return Outcome(
        alignment=sources.restored(by_step(unrolled.output.attention.prior)),
        posterior=posterior,
        log_likelihood=by_step(unrolled.log_prob()),
        logits=logits,
    )


def _log_probs(unrolled: Unrolled) -> Tensor:
    """Compute log p of every symbol for all tokens, (N, V), with a gradient if one is asked for.

    What has V columns besides is computed again in the backward pass, a few sentences at a time.
    """
    output = unrolled.output
    assert isinstance(output, AttentionMixture)
    log_weights = output.log_weights()
    by_products = _by_products(unrolled.packed, output.rows, log_weights)
    if by_products is not None:
        return by_products
    if not torch.is_grad_enabled():
        return output.log_probs()

    # Take a softmax for each position.
    rows = output.rows
    per_token = log_weights.shape[1] * len(rows.readout.weight)
    size = max(1, PIECE // per_token)
    pieces = [
        checkpoint(
            partial(_piece_by_softmaxes, rows),
            rows.projected[first : first + size],
            log_weights[first : first + size],
            rows.sentences[first : first + size],
            use_reentrant=False,
        )
        for first in range(0, len(log_weights), size)
    ]
    return torch.cat(pieces)


def _by_products(packed: PackedTargets, rows: OutputRows, log_weights: Tensor) -> Tensor | None:
    """Compute log p of every symbol, (N, V), by products of matrices; None: they are not precise.

    `log_weights` (N, m) are those of positions.
    """
    readout = rows.readout
    views = readout.views
    assert views is not None
    queries = packed.pad(rows.projected).transpose(0, 1)
    weights = packed.pad(log_weights.exp()).transpose(0, 1)

    per_sentence = (views.shape[1] + queries.shape[1]) * len(readout.weight)
    size = max(1, PIECE // per_sentence)
    pieces = []
    for first in range(0, len(views), size):
        sentences = slice(first, first + size)
        piece = checkpoint(
            partial(_piece_by_products, readout),
            views[sentences],
            queries[sentences],
            weights[sentences],
            use_reentrant=False,
        )
        if piece is None:
            return None
        pieces.append(piece)
    return packed.pack(torch.cat(pieces).transpose(0, 1))


def _piece_by_products(
    readout: SourceReadout, views: Tensor, queries: Tensor, weights: Tensor
) -> Tensor | None:
    """Compute log sum_a w(a) p(y | s_t, h_a) of every symbol y for some sentences, (B, T, V)."""
    added = PositionLogits.of(views, readout.weight)
    mixture = log_linear_mixture(added, queries, weights, readout.weight, readout.bias)
    if mixture is None:
        return None
    return mixture.log_probs()


def _piece_by_softmaxes(
    rows: OutputRows, projected: Tensor, log_weights: Tensor, sentences: Tensor
) -> Tensor:
    """Compute log sum_a exp(log_weights(a)) p(y | s, h_a) of every symbol y, (n, V)."""
    readout = rows.readout
    assert readout.views is not None
    hidden = readout.hidden_layer.plain(readout.views[sentences] + projected[:, None])
    log_probs = torch.log_softmax(hidden @ readout.weight.t() + readout.bias, 2)
    return mixture_plain(log_weights[:, :, None], log_probs, summed=True)


def searched(
    aligned: Aligned,
    sources: Sources,
    queries: Tensor,
    symbols: Tensor,
    progress: Progress | None,
) -> tuple[Outcome, Progress]:
    """Take the steps after symbols (n, T), with queries (n, T, H), as a search does.

    `progress` is how far the hypotheses were before these symbols; None: they begin. How far they
    are then is returned too.
    """
    if progress is None:
        beam = sources.repeats()
        memory = aligned.head.memory(sources.values[::beam], sources.mask[::beam])
        memory = aligned.head.for_search(memory, beam)
        progress = Progress(aligned.head, memory, AttentionHistory())

    priors = []
    logits = []
    for t, symbol in enumerate(symbols.unbind(1)):
        progress = progress.observe(symbol).step(queries[:, t])
        assert progress.pending is not None
        logits.append(progress.pending.log_probs())
        priors.append(progress.pending.attention.prior)

    outcome = Outcome(sources.restored(torch.stack(priors, 1)), logits=torch.stack(logits, 1))
    return outcome, progress
