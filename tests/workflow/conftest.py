"""A fresh copy of the repository for each test, and some in which a whole experiment was run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from pam.experiments.check import check_experiment
from pam.runtime.errors import UserError
from tests.workflow.checkouts import (
    Checkout,
    Outcome,
    checkout,
    with_learned_pairs,
    with_own_data,
)

OWN = ("--configfile", "own/experiment.yaml")
PAIRS = ("--configfile", "own/translation.yaml")


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """The repository with a small data set of one's own, nothing run."""
    return with_own_data(checkout(tmp_path / "checkout"))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The working folder of this process: an experiment on made-up nouns and nothing else."""
    folder = tmp_path / "own-experiment"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = with_own_data(Checkout(folder))
    made.edit("own/experiment.yaml", "config/datasets.yaml, ", "")
    return made


def refusal(*files: str) -> str:
    """Return the message, with its hint, with which the workflow refuses an experiment.

    The Snakefile calls this check whenever it is read, before any job is planned. That a user sees
    its message and nothing else is tested in test_messages.py. No files: `own/experiment.yaml`.
    """
    with pytest.raises(UserError) as caught:
        check_experiment(None, files or ["own/experiment.yaml"])

    assert caught.value.hint
    return str(caught.value)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The repository after `make run` of the whole experiment on nouns: not to be changed."""

    def run(made: Checkout) -> Outcome:
        return front_door(with_own_data(made), "--cores", "2", "--nocolor")

    return once(tmp_path_factory, "whole", run)


def front_door(made: Checkout, *arguments: str) -> Outcome:
    """Call what `make run` calls."""
    return made.command([sys.executable, "-m", "pam", "run", *OWN, *arguments])


@pytest.fixture(scope="session")
def translated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    """The repository after a run on one's own sentence pairs: not to be changed.

    It has every step of translation: word alignments, two directions, a development split that is
    scored, length penalties to choose from, an ensemble, and a task that trains no model.
    """
    return once(tmp_path_factory, "translated", lambda made: with_learned_pairs(made).run(*PAIRS))


def once(
    folders: pytest.TempPathFactory, name: str, run: Callable[[Checkout], Outcome]
) -> tuple[Checkout, Outcome]:
    """A checkout in which something was run: of several test processes the first runs it."""
    shared = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    made = Checkout(shared / name)
    record = shared / f"{name}.json"
    with FileLock(shared / f"{name}.lock"):
        if not record.is_file():
            outcome = run(checkout(made.folder))
            record.write_text(json.dumps([outcome.code, outcome.said]), encoding="utf-8")

    return made, Outcome(*json.loads(record.read_text(encoding="utf-8")))


@pytest.fixture
def finished(ran: tuple[Checkout, Outcome], tmp_path: Path) -> Checkout:
    """A copy of the run on nouns, to be changed."""
    made, outcome = ran
    assert outcome.code == 0, outcome.said
    return made.copy(tmp_path / "finished")
