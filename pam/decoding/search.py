"""Greedy and beam search over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from pam.config import Decoding
from pam.data.vocabulary import BOS, EOS, PAD, STEP
from pam.decoding.stepper import stepper
from pam.models.seq2seq import Seq2Seq

KEEP_SHARE = 0.75
"""Finished sentences leave the batch once so many of it, at most, are still open."""


@dataclass(frozen=True)
class Output:
    """The best output found for one sentence.

    Attributes:
        symbols: ids, without the end symbol.
        log_prob: log p(symbols, end | source), in nats.
        complete: false where the length limit cut it short.
    """

    symbols: list[int]
    log_prob: float
    complete: bool


def forbidden_symbols(actions: bool) -> list[int]:
    """Ids that no output contains: padding, begin, and steps unless the model writes actions."""
    return [PAD, BOS] if actions else [PAD, BOS, STEP]


def limits_of(lengths: Tensor, decoding: Decoding) -> Tensor:
    """The longest output of each sentence, from its own length alone: (B,)."""
    return (lengths * decoding.max_ratio).long() + decoding.max_extra


@torch.no_grad()
def search(
    model: Seq2Seq, source: Tensor, lengths: Tensor, decoding: Decoding, actions: bool = False
) -> list[Output]:
    """Decodes a batch by beam search; a beam of 1 is greedy search.

    A hypothesis that ends leaves its place empty. A sentence is finished when its best ended
    hypothesis is at least as probable as its best open one, which can only lose from there.

    Args:
        model: in evaluation mode.
        source: (B, m) padded at the end; lengths: (B,).
        decoding: beam and length limits.
        actions: whether the model writes pointer actions; steps stay in the output.

    Returns:
        One output per sentence, in the order of the batch.
    """
    beam, device = decoding.beam, source.device
    limits = limits_of(lengths, decoding)
    forbidden = torch.tensor(forbidden_symbols(actions), device=device)
    outputs = [Output([], -torch.inf, False)] * len(source)
    steps = stepper(model, model.encode(source, lengths), beam)
    rows = torch.arange(len(source), device=device)  # the sentences that are still open
    symbol = torch.full((len(source), beam), BOS, device=device)
    # All places of a sentence begin alike, so only the first may go on.
    total = torch.full((len(source), beam), -torch.inf, device=device)
    total[:, 0] = 0.0
    written = torch.empty((len(source), beam, 0), dtype=torch.long, device=device)
    for length in range(1, int(limits.max()) + 1):
        log_probs = steps.step(symbol).index_fill(2, forbidden, -torch.inf)
        total, parents, symbol = _best(total[:, :, None] + log_probs, beam)
        written = torch.cat([written.gather(1, _wide(parents, written)), symbol[:, :, None]], 2)
        alive = total > -torch.inf
        ended = (symbol == EOS) & alive
        cut = (length >= limits[rows])[:, None] & alive & ~ended
        if (ended | cut).any():
            _collect(outputs, rows, total, written, ended, cut)
            total = total.masked_fill(ended | cut, -torch.inf)
            best = total.new_tensor([outputs[row].log_prob for row in rows.tolist()])
            total = total.masked_fill(total <= best[:, None], -torch.inf)
        is_open = (total > -torch.inf).any(1)
        if not is_open.any():
            break
        steps.advance(parents, symbol)
        # Dropping finished sentences copies the others, so it waits for a few of them.
        if int(is_open.sum()) <= KEEP_SHARE * len(rows):
            left = is_open.nonzero().squeeze(1)
            steps.keep(left)
            rows, symbol, total, written = rows[left], symbol[left], total[left], written[left]
    return outputs


def _best(scores: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `beam` best of scores (B, k, V): totals, parents and symbols, each (B, beam)."""
    vocabulary = scores.shape[2]
    total, chosen = scores.flatten(1).topk(min(beam, scores.shape[1] * vocabulary), dim=1)
    missing = (0, beam - total.shape[1])
    total, chosen = F.pad(total, missing, value=-torch.inf), F.pad(chosen, missing)
    return total, chosen // vocabulary, chosen % vocabulary


def _wide(parents: Tensor, written: Tensor) -> Tensor:
    """Indices (B, k, n) that gather whole prefixes."""
    return parents[:, :, None].expand(-1, -1, written.shape[2])


def _collect(
    outputs: list[Output],
    rows: Tensor,
    total: Tensor,
    written: Tensor,
    ended: Tensor,
    cut: Tensor,
) -> None:
    """Keeps the best ended hypothesis of each sentence; one cut short only if none ended."""
    for place, slot in (ended | cut).nonzero().tolist():
        complete, score = bool(ended[place, slot]), float(total[place, slot])
        row = int(rows[place])
        old = outputs[row]
        if (complete, score) > (old.complete, old.log_prob):
            symbols = written[place, slot].tolist()
            outputs[row] = Output(symbols[:-1] if complete else symbols, score, complete)


def decode(
    model: Seq2Seq, sources: Sequence[Sequence[int]], decoding: Decoding, actions: bool = False
) -> list[Output]:
    """Decodes any number of sources, similar lengths side by side.

    Args:
        sources: ids without the end symbol, which is added here.

    Returns:
        One output per source, in the order given.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    outputs: dict[int, Output] = {}
    for first in range(0, len(order), decoding.batch_size):
        rows = order[first : first + decoding.batch_size]
        ended = [torch.tensor([*sources[row], EOS]) for row in rows]
        lengths = torch.tensor([len(source) for source in ended], device=device)
        batch = pad_sequence(ended, batch_first=True, padding_value=PAD).to(device)
        found = search(model, batch, lengths, decoding, actions)
        outputs |= dict(zip(rows, found, strict=True))
    return [outputs[row] for row in range(len(sources))]
