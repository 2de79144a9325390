"""Greedy and beam search over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pam.config import Decoding
from pam.data.vocabulary import BOS, EOS, PAD, STEP
from pam.models.parts import Memory
from pam.models.seq2seq import Seq2Seq


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
    """Decodes a batch.

    Args:
        model: in evaluation mode.
        source: (B, m) padded at the end; lengths: (B,).
        decoding: beam and length limits.
        actions: whether the model writes pointer actions; steps stay in the output.

    Returns:
        One output per sentence, in the order of the batch.
    """
    limits = limits_of(lengths, decoding)
    forbidden = torch.tensor(forbidden_symbols(actions), device=source.device)
    memory = model.encode(source, lengths)
    if decoding.beam == 1:
        return _greedy(model, memory, limits, forbidden)
    return _beam(model, memory, limits, forbidden, decoding.beam)


def _greedy(model: Seq2Seq, memory: Memory, limits: Tensor, forbidden: Tensor) -> list[Output]:
    batch = limits.shape[0]
    outputs: list[Output | None] = [None] * batch
    rows = torch.arange(batch, device=limits.device)  # sentences that are still open
    state = model.start(memory)
    symbol = torch.full((batch,), BOS, device=limits.device)
    total = torch.zeros(batch, device=limits.device, dtype=torch.float64)
    written = torch.empty((batch, 0), dtype=torch.long, device=limits.device)
    for length in range(1, int(limits.max()) + 1):
        step = model.step(memory, state, model.recurrence.embed(symbol))
        log_probs = step.marginal.log_probs.index_fill(1, forbidden, -torch.inf)
        best, symbol = log_probs.max(dim=1)
        total = total + best
        ended = symbol == EOS
        done = ended | (length >= limits[rows])
        written = torch.cat([written, symbol[:, None]], dim=1)
        if done.any():
            for place in done.nonzero().squeeze(1).tolist():
                complete = bool(ended[place])
                symbols = written[place].tolist()
                outputs[int(rows[place])] = Output(
                    symbols[:-1] if complete else symbols, float(total[place]), complete
                )
            left = (~done).nonzero().squeeze(1)
            if len(left) == 0:
                break
            state = model.advance(memory, step, symbol).select(left)
            memory, rows = memory.select(left), rows[left]
            symbol, total, written = symbol[left], total[left], written[left]
        else:
            state = model.advance(memory, step, symbol)
    return [output for output in outputs if output is not None]


def _beam(
    model: Seq2Seq, memory: Memory, limits: Tensor, forbidden: Tensor, beam: int
) -> list[Output]:
    """Keeps the `beam` best prefixes of each sentence.

    A hypothesis that ends leaves its place empty. A sentence is finished when its best ended
    hypothesis is at least as probable as its best open one, which can only lose from there.
    """
    batch, device = limits.shape[0], limits.device
    outputs = [Output([], -torch.inf, False)] * batch
    rows = torch.arange(batch, device=device)
    memory = memory.select(rows.repeat_interleave(beam))
    state = model.start(memory)
    symbol = torch.full((batch * beam,), BOS, device=device)
    # All places of a sentence begin alike, so only the first may go on.
    total = torch.full((batch, beam), -torch.inf, device=device, dtype=memory.values.dtype)
    total[:, 0] = 0.0
    written = torch.empty((batch * beam, 0), dtype=torch.long, device=device)
    for length in range(1, int(limits.max()) + 1):
        step = model.step(memory, state, model.recurrence.embed(symbol))
        log_probs = step.marginal.log_probs.index_fill(1, forbidden, -torch.inf)
        vocabulary = log_probs.shape[1]
        candidates = (total.view(-1, 1) + log_probs).view(len(rows), -1)
        total, chosen = candidates.topk(min(beam, candidates.shape[1]), dim=1)
        if total.shape[1] < beam:
            total = torch.nn.functional.pad(total, (0, beam - total.shape[1]), value=-torch.inf)
            chosen = torch.nn.functional.pad(chosen, (0, beam - chosen.shape[1]))
        first = torch.arange(len(rows), device=device)[:, None] * beam
        parents = (first + chosen // vocabulary).flatten()
        symbol = (chosen % vocabulary).flatten()
        written = torch.cat([written[parents], symbol[:, None]], dim=1)
        ended = (symbol.view(len(rows), beam) == EOS) & (total > -torch.inf)
        cut = (length >= limits[rows])[:, None] & (total > -torch.inf) & ~ended
        _collect(outputs, rows, total, written, ended, cut)
        total = total.masked_fill(ended | cut, -torch.inf)
        best = torch.tensor([outputs[row].log_prob for row in rows.tolist()], device=device)
        open_rows = (total.max(dim=1).values > best).nonzero().squeeze(1)
        if len(open_rows) == 0:
            break
        # Places of a sentence share its memory, so only the step follows the parents.
        state = model.advance(memory, step.select(parents), symbol)
        if len(open_rows) < len(rows):
            places = (open_rows[:, None] * beam + torch.arange(beam, device=device)).flatten()
            memory, state = memory.select(places), state.select(places)
            symbol, written = symbol[places], written[places]
            rows, total = rows[open_rows], total[open_rows]
    return outputs


def _collect(
    outputs: list[Output],
    rows: Tensor,
    total: Tensor,
    written: Tensor,
    ended: Tensor,
    cut: Tensor,
) -> None:
    """Keeps the best ended hypothesis of each sentence; one cut short only if none ended."""
    beam = total.shape[1]
    for place, slot in (ended | cut).nonzero().tolist():
        complete, score = bool(ended[place, slot]), float(total[place, slot])
        row = int(rows[place])
        old = outputs[row]
        if (complete, score) > (old.complete, old.log_prob):
            symbols = written[place * beam + slot].tolist()
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
