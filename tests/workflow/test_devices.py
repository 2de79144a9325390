"""GPUs are shared out one a job, and a job that ends gives its GPU back, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pam import devices

SHOW = "import os, sys; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); "
WAIT = SHOW + "sys.stdin.read()"


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs: `nvidia-smi` says so."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho '0, GPU-aaa'\necho '1, GPU-bbb'\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(devices, "LOCKS", tmp_path / "locks")
    return tmp_path / "locks"


def job(locks: Path, device: str = "cuda", code: str = WAIT) -> subprocess.Popen[str]:
    """A job under `pam.devices`, with its locks in a folder of the test's."""
    main = (
        "import pathlib, sys; from pam import devices; "
        f"devices.LOCKS = pathlib.Path({str(locks)!r}); "
        f"devices.main({device!r}, [sys.executable, '-c', {code!r}])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", main],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shown(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def end(running: subprocess.Popen[str]) -> None:
    running.communicate(timeout=30)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, ["GPU-aaa", "GPU-bbb"]),
        ("", []),
        ("-1", []),
        ("1", ["GPU-bbb"]),
        ("1,0", ["GPU-bbb", "GPU-aaa"]),
        ("GPU-b", ["GPU-bbb"]),
        ("7", []),
    ],
)
@pytest.mark.usefixtures("two_gpus")
def test_only_allowed_gpus_are_seen(
    allowed: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if allowed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    assert devices.visible() == expected


def test_a_machine_without_the_tool_has_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.visible() == []


@pytest.mark.usefixtures("two_gpus")
def test_two_jobs_have_two_gpus_and_a_third_waits_for_one_that_is_killed(locks: Path) -> None:
    first, second = job(locks), job(locks)
    try:
        assert {shown(first), shown(second)} == {"GPU-aaa", "GPU-bbb"}
        third = job(locks)
        try:
            assert third.stderr is not None
            assert "waiting for one of 2 GPUs" in third.stderr.readline()
            assert third.poll() is None
            first.send_signal(signal.SIGKILL)
            start = time.monotonic()
            assert shown(third) in ("GPU-aaa", "GPU-bbb")
            assert time.monotonic() - start < 20
        finally:
            end(third)
    finally:
        end(first)
        end(second)


@pytest.mark.usefixtures("two_gpus")
def test_a_job_for_the_processor_takes_no_gpu(locks: Path) -> None:
    running = job(locks, device="cpu", code=SHOW)
    assert shown(running) == "None"
    end(running)
    assert not locks.exists()


@pytest.mark.usefixtures("two_gpus")
def test_another_users_lock_file_can_be_used(locks: Path) -> None:
    locks.mkdir()
    (locks / "GPU-aaa").touch(mode=0o444)
    running = job(locks, code=SHOW)
    assert shown(running) == "GPU-aaa"
    end(running)


def test_the_exit_code_and_arguments_are_the_commands() -> None:
    command = [sys.executable, "-m", "pam.devices", "cpu", sys.executable, "-c"]
    code = "import sys; print(sys.argv[1]); sys.exit(7)"
    done = subprocess.run([*command, code, "a b; c"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "a b; c\n")
