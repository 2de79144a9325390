"""Whether a training is finished already, and how it is done once more.

A training whose results are there is not done again when a workflow calls it (`Results`): times of
files say nothing of them, and a workflow that was killed may ask for it. Whoever wants it once more
says so by a mark in the run's folder, `RunFolder.asked_again`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pam.data.dataset import Prepared
from pam.experiments.run_folder import RunFolder
from pam.training import run as training
from pam.training.checkpoint import CURRENT, PREVIOUS, REPLACED, Results, locked
from pam.training.more_epochs import LAST
from pam.training.start import load_starts


def is_finished(folder: RunFolder, data: Path, state: Path, code: str | None) -> bool:
    """Return whether the results of this very training are there. Errors are UserErrors."""
    return bool(_finished(folder, data, state, code))


def forget(folder: RunFolder, data: Path, state: Path, code: str | None) -> None:
    """Delete the results and the states of a training that is asked for again, and the mark.

    Results of other configurations stay.
    """
    with locked(state):
        for results in _finished(folder, data, state, code):
            shutil.rmtree(results.folder)
        for name in (CURRENT, PREVIOUS, LAST):
            (state / name).unlink(missing_ok=True)
        folder.asked_again.unlink(missing_ok=True)


def _finished(folder: RunFolder, data: Path, state: Path, code: str | None) -> list[Results]:
    """Return the whole results of this very training: published, or replaced by another one's."""
    run = folder.load()
    prepared = Prepared(data)
    # The key needs no rows.
    inputs = SimpleNamespace(run=run, data=prepared, starts=load_starts(folder, run, prepared))
    key = training._training_key(cast(Any, inputs), code)
    found = [Results(state / name, key) for name in ("finished", REPLACED)]
    return [results for results in found if results.whole()]
