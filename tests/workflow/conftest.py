"""A fresh copy of the repository for each test, and one that ran a whole experiment for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.checkouts import Checkout, Outcome, checkout, with_own_data

OWN = ("--configfile", "own/experiment.yaml")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """The repository with a small data set of one's own, nothing run."""
    return with_own_data(checkout(tmp_path / "checkout"))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The same after a run of the whole experiment: not to be changed."""
    made = with_own_data(checkout(tmp_path_factory.mktemp("whole") / "checkout"))
    return made, made.run(*OWN)


@pytest.fixture
def finished(ran: tuple[Checkout, Outcome], tmp_path: Path) -> Checkout:
    """A copy of that run, to be changed."""
    made, outcome = ran
    assert outcome.code == 0, outcome.said
    return made.copy(tmp_path / "finished")
