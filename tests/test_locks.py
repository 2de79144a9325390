"""Locks that end with their process: taken once, waited for, or refused where there are none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread

import pytest

from pam.runtime import locks
from pam.runtime.errors import UserError


def test_a_lock_is_taken_once_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    lock = locks.take(path)

    assert lock is not None
    assert locks.take(path) is None
    assert locks.holder(path).startswith(f"process {os.getpid()} on ")

    lock.release()
    again = locks.take(path)

    assert again is not None

    again.release()


def test_a_lock_is_waited_for_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "POLL_S", 0.01)
    path = tmp_path / "lock"
    messages: list[str] = []
    entered: list[bool] = []
    first = locks.take(path)

    assert first is not None

    def second() -> None:
        with locks.waited_for(path, messages.append):
            entered.append(True)

    waiting = Thread(target=second)
    waiting.start()
    waiting.join(0.2)

    assert waiting.is_alive() and not entered

    first.release()
    waiting.join(10)

    assert entered and len(messages) == 1
    assert f"another process is at work here (process {os.getpid()} on " in messages[0]


def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(UserError, match="this file system has no locks"):
        locks.take(tmp_path / "lock")
