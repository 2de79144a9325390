"""The record of a run names the commit of the code that made it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pam.runtime.checkout import commit


def git(folder: Path, *words: str) -> str:
    """Run Git in a folder, whatever the user has configured."""
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *author, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="no Git is installed")
def test_a_checkout_has_its_commit_and_says_where_files_differ(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("x = 1\n", encoding="utf-8")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-q", "-m", "A commit")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    assert commit(tmp_path) == head

    (tmp_path / "code.py").write_text("x = 2\n", encoding="utf-8")
    commit.cache_clear()
    assert commit(tmp_path) == f"{head}-dirty"

    # An installed package may lie in an environment inside of somebody's repository.
    (tmp_path / "site-packages").mkdir()
    assert commit(tmp_path / "site-packages") is None
