"""The first losses of every model and variant are those of the code that made the stored results.

`first_losses.json` was written by an earlier version, a hand-made recurrence, whose results are
stored. Losses of sums over a nucleus and of schedules were written by the code that added them.
After a deliberate change of a model, write its losses anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from pam.data.vocabulary import EOS, PAD, STEP
from pam.experiments.plan import with_options
from pam.experiments.settings import Network
from pam.models.build import build
from tests.long_forms import long_form
from tests.variants import MODELS, model_named, variant_names

LOSSES = json.loads(Path(__file__).with_name("first_losses.json").read_text(encoding="utf-8"))
OPTIONS = {
    # Narrow, as the sentences are short.
    "window": {"monotonic": {"width": 3}, "predictive": {"width": 3}},
    "score": {"general": {"scale": False}, "dot": {"scale": False}},  # as they were
    "inference": {"bilstm": {"scale": False}},
}
# Models that have each part of the others, for what depends on the processor.
EVERY_PART = (
    "soft",
    "hard-mono",
    "mono-postr-joint",
    "variational",
    "structured",
    "transformer",
    "postr-joint-pointer",
)
SYMBOLS = 24
ROWS = 8
STEPS = 20
FIRST_STEPS = 3  # by `make test`, of models whose parts others have too
Batch = tuple[Tensor, Tensor, Tensor]


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


@cache
def batches(actions: bool) -> list[Batch]:
    """Draw batches of sentences of up to nine symbols, with or without pointer steps."""
    return list(_batches(np.random.default_rng(7), actions))


def _batches(rng: np.random.Generator, actions: bool) -> Iterator[Batch]:
    for _ in range(STEPS):
        lengths: NDArray[np.int64] = rng.integers(1, 10, ROWS)
        sizes = np.sort(rng.integers(1, 10, ROWS))[::-1]
        sources = []
        targets = []

        for length, size in zip(lengths, sizes, strict=True):
            sources.append([*map(int, rng.integers(5, SYMBOLS, length)), EOS])
            target = [*map(int, rng.integers(5, SYMBOLS, size))]
            if actions:
                for _ in range(int(rng.integers(0, length + 1))):
                    target.insert(int(rng.integers(0, len(target) + 1)), STEP)

            targets.append([*target, EOS])

        # Longest targets first.
        order = sorted(range(ROWS), key=lambda row: -len(targets[row]))
        yield (
            padded([sources[row] for row in order]),
            torch.tensor([len(sources[row]) for row in order]),
            padded([targets[row] for row in order]),
        )


def losses(name: str, steps: int) -> list[float]:
    """Compute the first losses of 20 steps of Adam, in float32 and without dropout."""
    chosen = with_options(model_named(name), OPTIONS)
    reads = chosen.network.get("encoder_reads", "both")
    network = Network(embedding=16, encoder=16, decoder=32, dropout=0.0, encoder_reads=reads)
    torch.manual_seed(1)
    model = build(chosen, network, SYMBOLS, SYMBOLS).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    values = []

    for step, (source, lengths, target) in enumerate(batches(chosen.targets == "actions")[:steps]):
        torch.manual_seed(100 + step)
        model.progress(step, STEPS)
        optimizer.zero_grad()
        loss = -model.objective(source, lengths, target)[target != PAD].mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        values.append(float(loss.detach()))

    return values


def test_every_model_has_its_losses() -> None:
    assert sorted(LOSSES) == sorted(
        [*(file.stem for file in MODELS.glob("*.yaml")), *variant_names()]
    )


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in EVERY_PART])
def test_the_very_first_losses_are_those_of_the_stored_results(name: str) -> None:
    assert losses(name, FIRST_STEPS) == pytest.approx(LOSSES[name][:FIRST_STEPS], abs=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.processor) for name in EVERY_PART),
        *long_form(name for name in LOSSES if name not in EVERY_PART),
    ],
)
def test_the_first_losses_are_those_of_the_stored_results(name: str) -> None:
    assert losses(name, STEPS) == pytest.approx(LOSSES[name], abs=1e-4)
