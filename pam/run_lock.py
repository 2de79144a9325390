"""One run of an experiment at a time in a folder, by a lock that no killed run leaves behind.

Snakemake's own lock is a set of files. They stay when it is killed, and the first of several runs
to end removes those of all. So `profiles/default` turns it off, and each run holds this one.

The jobs of a run that is killed may live on, or still wait in the queue of a cluster. Each has the
name of its run in its environment, so that one that starts too late can tell.
"""

from __future__ import annotations

import os
from pathlib import Path

from pam.errors import UserError
from pam.locks import holder, take

FOLDER = Path(".snakemake/runs")
RUN = "PAM_RUN"


def hold(experiment: str, folder: Path = FOLDER) -> None:
    """Marks this process as the run of an experiment in this folder, until it ends.

    Raises:
        UserError: another process is running it, or the folder may not be written to.
    """
    path = _lock_of(experiment, folder)
    # The descriptor is never closed: the process's end closes it.
    if take(path) is None:
        raise UserError(
            f"another run of `{experiment}` is at work in this folder ({holder(path)})",
            remedy="wait for it to end, or end it; nothing was changed by this call",
        )
    os.environ[RUN] = holder(path)


def replaced(experiment: str, folder: Path = FOLDER) -> bool:
    """Whether this process is a job of a run that is over and that another one has followed."""
    path, own = _lock_of(experiment, folder), os.environ.get(RUN)
    return own is not None and path.is_file() and holder(path) != own


def _lock_of(experiment: str, folder: Path) -> Path:
    return folder / f"{experiment}.lock"
