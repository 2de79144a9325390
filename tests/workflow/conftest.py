"""A fresh copy of the repository for each test, and one that ran a whole experiment for all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.workflow.checkouts import Checkout, Outcome, checkout, with_own_data, with_own_pairs

OWN = ("--configfile", "own/experiment.yaml")
PAIRS = ("--configfile", "own/translation.yaml")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """The repository with a small data set of one's own, nothing run."""
    return with_own_data(checkout(tmp_path / "checkout"))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The same after a run of the whole experiment: not to be changed."""
    return once(tmp_path_factory, "whole", lambda made: with_own_data(made).run(*OWN))


@pytest.fixture(scope="session")
def translated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The repository after a run on one's own sentence pairs: not to be changed."""
    return once(tmp_path_factory, "translated", lambda made: with_own_pairs(made).run(*PAIRS))


def once(
    places: pytest.TempPathFactory, name: str, run: Callable[[Checkout], Outcome]
) -> tuple[Checkout, Outcome]:
    """A checkout in which something was run: of several test processes the first runs it."""
    place = places.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    made, record = Checkout(place / name), place / f"{name}.json"
    with FileLock(place / f"{name}.lock"):
        if not record.is_file():
            outcome = run(checkout(made.folder))
            record.write_text(json.dumps([outcome.code, outcome.said]), encoding="utf-8")
    return made, Outcome(*json.loads(record.read_text(encoding="utf-8")))


@pytest.fixture
def finished(ran: tuple[Checkout, Outcome], tmp_path: Path) -> Checkout:
    """A copy of that run, to be changed."""
    made, outcome = ran
    assert outcome.code == 0, outcome.said
    return made.copy(tmp_path / "finished")
