"""Decoding with draws of latent vectors in place of their means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pam.models.ensemble import Ensemble
from pam.models.latents.none import NoLatent
from pam.models.model import Model
from pam.models.parts import Latent

SEED = 2019
"""Of the draws, so that the same sources in the same batches give the same outputs."""


@contextmanager
def drawn(model: Model, samples: int) -> Iterator[Model]:
    """A model as the mean distribution of so many draws of its latent vectors, each of which goes
    on with vectors of its own; the model itself where there are none, or for no draws."""
    parts = (part for part in model.modules() if isinstance(part, Latent))
    latents = [part for part in parts if not isinstance(part, NoLatent)]
    if samples == 0 or not latents:
        yield model
        return
    for latent in latents:
        latent.sampling = True
    try:
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            yield Ensemble([model] * samples).eval()
    finally:
        for latent in latents:
            latent.sampling = False
