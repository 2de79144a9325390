"""A fresh copy of the repository for each test, and one that ran a whole experiment for all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from filelock import FileLock

from tests.workflow.checkouts import Checkout, Outcome, checkout, with_own_data

OWN = ("--configfile", "own/experiment.yaml")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """The repository with a small data set of one's own, nothing run."""
    return with_own_data(checkout(tmp_path / "checkout"))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The same after a run of the whole experiment: not to be changed.

    Of several test processes the first one runs it, for all.
    """
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    made, record = Checkout(place / "whole"), place / "whole.json"
    with FileLock(place / "whole.lock"):
        if not record.is_file():
            outcome = with_own_data(checkout(made.folder)).run(*OWN)
            record.write_text(json.dumps([outcome.code, outcome.said]), encoding="utf-8")
    return made, Outcome(*json.loads(record.read_text(encoding="utf-8")))


@pytest.fixture
def finished(ran: tuple[Checkout, Outcome], tmp_path: Path) -> Checkout:
    """A copy of that run, to be changed."""
    made, outcome = ran
    assert outcome.code == 0, outcome.said
    return made.copy(tmp_path / "finished")
