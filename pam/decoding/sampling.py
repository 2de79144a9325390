"""Ancestral sampling with a temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.vocabulary import BOS, EOS
from pam.decoding.hypotheses import Hypotheses, Output, forbidden_symbols, limits_of
from pam.models.model import Model


@dataclass(frozen=True)
class Sampling:
    """How outputs are drawn.

    Attributes:
        temperature: symbols are drawn with probability proportional to p^(1 / temperature).
        seed: outputs depend on it and on the sentence's number, not on the batch.
    """

    temperature: float = 1.0
    seed: int = 1


@torch.no_grad()
def sample(
    model: Model,
    source: Tensor,
    lengths: Tensor,
    decoding: Decoding,
    sampling: Sampling,
    numbers: Sequence[int],
    n_best: int = 1,
    actions: bool = False,
) -> list[list[Output]]:
    """Draws outputs for each sentence of a batch.

    Args:
        model: in evaluation mode.
        source: (B, m) padded at the end; lengths: (B,).
        decoding: length limits; its beam and its ranking do not matter.
        numbers: (B,) what tells the sentences apart, so that each has random numbers of its own.
        n_best: outputs per sentence, drawn independently.
        actions: whether the model writes pointer actions; steps stay in the output.

    Returns:
        For each sentence `n_best` outputs in the order drawn; `log_prob` is the model's own,
        whatever the temperature, and `score` is the same.
    """
    limits, device = limits_of(lengths, decoding), source.device
    forbidden = torch.tensor(forbidden_symbols(actions), device=device)
    hypotheses = Hypotheses(model, source, lengths, n_best)
    generators = [np.random.default_rng([sampling.seed, number]) for number in numbers]
    symbol = torch.full((len(source), n_best), BOS, device=device)
    total = torch.zeros(symbol.shape, dtype=torch.float64, device=device)
    is_open = torch.ones_like(symbol, dtype=torch.bool)
    written, attended = [], []
    while is_open.any():
        log_probs = hypotheses.step(symbol).index_fill_(2, forbidden, -torch.inf)
        uniform = np.stack([generator.random(n_best) for generator in generators])
        symbol = _draw(log_probs, sampling.temperature, torch.from_numpy(uniform).to(device))
        total += torch.where(is_open, log_probs.gather(2, symbol[:, :, None]).squeeze(2), 0.0)
        written.append(torch.where(is_open, symbol, EOS))
        hypotheses.update(None, symbol)
        if decoding.replace_unknown:
            attended.append(hypotheses.most_attended(lengths))
        is_open = is_open & (symbol != EOS) & (len(written) < limits)[:, None]
    symbols = torch.stack(written, 2)
    positions = torch.stack(attended, 2) if attended else symbols[:, :, :0]
    drawn = zip(*(part.tolist() for part in (symbols, total, positions, limits)), strict=True)
    return [
        [_output(*one, limit) for one in zip(texts, log_probs, attended, strict=True)]
        for texts, log_probs, attended, limit in drawn
    ]


def _draw(log_probs: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """Symbols (B, k) by inverting the distribution function at `uniform` (B, k) in [0, 1)."""
    weights = torch.softmax(log_probs.double() / temperature, dim=2).cumsum(2)
    symbol = torch.searchsorted(weights, (uniform * weights[:, :, -1])[:, :, None], right=True)
    # Rounding may reach the very end of the distribution.
    return symbol.squeeze(2).clamp_max(log_probs.shape[2] - 1)


def _output(written: list[int], log_prob: float, attended: list[int], limit: int) -> Output:
    complete = EOS in written[:limit]
    length = written.index(EOS) if complete else limit
    return Output(written[:length], log_prob, complete, log_prob, attended[:length])
