"""Decoding of any number of sources, in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pam.config import Decoding
from pam.data.vocabulary import EOS, PAD
from pam.decoding.latents import drawn
from pam.decoding.length_prior import LengthPrior
from pam.decoding.outputs import Output
from pam.decoding.sampling import Sampling, sample
from pam.decoding.search import n_best
from pam.models.model import Model


def decode(
    model: Model,
    sources: Sequence[Sequence[int]],
    decoding: Decoding,
    actions: bool = False,
    *,
    wanted: int = 1,
    prior: LengthPrior | None = None,
    sampling: Sampling | None = None,
    first: int = 0,
    told: Callable[[int], None] = lambda _: None,
) -> list[list[Output]]:
    """Decodes sources of any length, similar lengths side by side.

    Args:
        model: in evaluation mode.
        sources: ids without the end symbol, which is added here.
        decoding: beam, ranking, limits, and how many are decoded side by side.
        actions: whether the model writes pointer actions.
        wanted: outputs per source.
        prior: of target lengths, for `decoding.length_prior`.
        sampling: draws outputs instead of searching for the best.
        first: number of the first source; sampling depends on a source's number.
        told: called after each batch with the number of sources that are done.

    Returns:
        For each source, in the order given, its outputs: the best first, or as drawn.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    outputs: dict[int, list[Output]] = {}
    for start in range(0, len(order), decoding.batch_size):
        rows = order[start : start + decoding.batch_size]
        batch = _padded([sources[row] for row in rows], device)
        with drawn(model, decoding.latent_samples) as one:
            if sampling is None:
                found = n_best(one, *batch, decoding, wanted, actions, prior)
            else:
                numbers = [first + row for row in rows]
                found = sample(one, *batch, decoding, sampling, numbers, wanted, actions)
        outputs |= dict(zip(rows, found, strict=True))
        told(len(outputs))
    return [outputs[row] for row in range(len(sources))]


def _padded(sources: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids with end symbols, (B, m), and lengths, (B,)."""
    ended = [torch.tensor([*source, EOS]) for source in sources]
    lengths = torch.tensor([len(source) for source in ended], device=device)
    return pad_sequence(ended, batch_first=True, padding_value=PAD).to(device), lengths
