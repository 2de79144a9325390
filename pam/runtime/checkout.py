"""The commit of the code that runs, where the package is in a checkout of its repository."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

ROOT = Path(__file__).parents[2]  # the folder of the package `pam`
LONGEST_S = 30.0  # for Git on a slow disk


@cache
def commit(root: Path = ROOT) -> str | None:
    """Return the short hash of a checkout's commit, with `-dirty` where files differ from it.

    None where `root` is no checkout, as for an installed package, and where Git is missing or
    refuses to read it.
    """
    # Git would go up to a repository that merely contains the environment of an installed package.
    if not (root / ".git").exists():
        return None

    command = ["git", "--no-optional-locks", "-C", str(root)]
    command += ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=LONGEST_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
