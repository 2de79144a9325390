"""A search that looks only every few steps what has ended finds the same, and waits less."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pam.decoding import search as searching
from pam.decoding.hypotheses import LengthPrior, Output
from pam.decoding.search import LOOK_EVERY, Sampling, sample, steps_between_looks
from pam.experiments.settings import Decoding
from tests.decoding import varied
from tests.decoding.best import assert_same, outputs_of
from tests.decoding.varied import ACTIONS, SOURCES
from tests.long_forms import in_turn
from tests.models import tiny

WAITING = ("aten._local_scalar_dense", "aten.nonzero")
"""Operators for whose result the processor waits."""
SETTINGS: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 4, "length_penalty": 1.5},
    {"beam": 3, "length_prior": 0.7, "length_penalty_form": "wu", "length_penalty": 0.6},
    {"beam": 5, "replace_unknown": True, "min_length": 2},
]
PRIOR = LengthPrior.fit([1, 2, 2, 3, 4, 4, 5], [2, 2, 1, 2, 2, 1, 3])


class Waits(TorchDispatchMode):
    """Counts how often the processor would wait for a device."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += str(func).startswith(WAITING)
        return func(*args, **(kwargs or {}))


def found(name: str, look_every: int, n_best: int = 1, **settings: Any) -> list[list[Output]]:
    """Decode all sources together, looking every so many steps."""
    decoding = Decoding(max_ratio=2.0, max_extra=5, **settings)
    prior = PRIOR if decoding.length_prior else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "steps_between_looks", lambda device: look_every)
        return outputs_of(
            varied.model(name), SOURCES, decoding, ACTIONS[name], n_best=n_best, prior=prior
        )


@pytest.mark.parametrize(("name", "settings"), in_turn(tiny.NAMED, SETTINGS))
def test_outputs_do_not_depend_on_how_often_a_search_looks(
    name: str, settings: dict[str, Any]
) -> None:
    expected = found(name, look_every=1, n_best=2, **settings)

    for look_every in (3, 8, 100):
        seldom = found(name, look_every, n_best=2, **settings)
        for outputs, same in zip(seldom, expected, strict=True):
            assert len(outputs) == len(same)
            for output, other in zip(outputs, same, strict=True):
                assert_same(output, other)
                assert output.attended == other.attended


def test_penalties_that_share_a_search_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = varied.model("postr-joint")
    source, lengths, _ = tiny.batch(rows=6)
    search = partial(
        searching.beam_search, model, source, lengths, Decoding(beam=4), penalties=[0.0, 0.6, 2.0]
    )
    expected = search()
    monkeypatch.setattr(searching, "steps_between_looks", lambda device: 8)

    for outputs, same in zip(search(), expected, strict=True):
        for output, other in zip(outputs, same, strict=True):
            assert_same(output, other)


def test_drawn_outputs_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = varied.model("soft")
    source, lengths, _ = tiny.batch(rows=6)
    draw = partial(
        sample, model, source, lengths, Decoding(), Sampling(), numbers=range(6), n_best=3
    )
    expected = draw()
    monkeypatch.setattr(searching, "steps_between_looks", lambda device: 8)

    assert draw() == expected


def test_a_search_that_looks_seldom_waits_less(monkeypatch: pytest.MonkeyPatch) -> None:
    model = varied.model("soft")
    source, lengths, _ = tiny.batch(rows=6)
    counts = []
    for look_every in (1, 8):
        monkeypatch.setattr(searching, "steps_between_looks", lambda device, n=look_every: n)
        with Waits() as waits:
            searching.beam_search(
                model, source, lengths, Decoding(beam=4, max_extra=39, min_length=30)
            )
        counts.append(waits.count)

    often, seldom = counts
    assert seldom < often / 4


def test_only_a_device_that_works_on_is_looked_at_seldom() -> None:
    assert steps_between_looks(torch.device("cpu")) == 1
    assert steps_between_looks(torch.device("cuda")) == LOOK_EVERY > 1
