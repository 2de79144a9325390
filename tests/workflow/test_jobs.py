"""GPUs are shared out to jobs, and a job that ends gives its GPUs back, however it ends."""

from __future__ import annotations

import getpass
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from pam.experiments import jobs
from pam.runtime import gpus
from tests.warm import bin_folder

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
    monkeypatch.setattr(gpus, "LOCKS", tmp_path / "locks")
    return tmp_path / "locks"


def job(
    locks: Path, device: str = "cuda", code: str = WAIT, gpus: int = 1
) -> subprocess.Popen[str]:
    """Start a job under `pam.experiments.jobs`, with its locks in a folder of the test's."""
    main = (
        "import pathlib, sys; from pam.experiments import jobs; from pam.runtime import gpus; "
        f"gpus.LOCKS = pathlib.Path({str(locks)!r}); "
        f"jobs.main({device!r}, [sys.executable, '-c', {code!r}], {gpus})"
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


def waits(running: subprocess.Popen[str], said: str) -> None:
    """Check that a job says this, and then waits."""
    assert running.stderr is not None
    assert running.stderr.readline() == said

    time.sleep(1.5)
    assert running.poll() is None


def end(running: subprocess.Popen[str]) -> None:
    """Let a job end, or kill it."""
    try:
        running.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        running.kill()
        raise


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
    assert gpus.visible() == expected


def test_a_machine_without_the_tool_has_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.visible() == []


@pytest.mark.usefixtures("two_gpus")
def test_two_jobs_have_two_gpus_and_a_third_waits_for_one_that_is_killed(locks: Path) -> None:
    first = job(locks)
    second = job(locks)
    try:
        assert {shown(first), shown(second)} == {"GPU-aaa", "GPU-bbb"}
        third = job(locks)
        try:
            waits(third, "waiting for 1 of 2 GPUs, which are in use\n")
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
def test_a_job_of_several_processes_has_as_many_gpus_and_is_not_overtaken(locks: Path) -> None:
    first = job(locks)
    try:
        gpu_of_first = shown(first)
        both = job(locks, gpus=2)
        waits(both, "waiting for 2 of 2 GPUs, which are in use\n")
        # One GPU is free, and is kept for the job that came before this one.
        third = job(locks)
        waits(third, "waiting for 1 of 2 GPUs, which are in use\n")
    finally:
        end(first)

    try:
        assert sorted(shown(both).split(",")) == ["GPU-aaa", "GPU-bbb"]
        assert third.poll() is None
    finally:
        end(both)

    assert shown(third) == gpu_of_first

    end(third)


@pytest.mark.usefixtures("two_gpus")
def test_jobs_that_share_gpus_fill_their_places_and_one_that_does_not_waits_for_all(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpus.SHARING, "2")
    sharing = [job(locks) for _ in range(4)]
    try:
        assert sorted(map(shown, sharing)) == ["GPU-aaa", "GPU-aaa", "GPU-bbb", "GPU-bbb"]
        fifth = job(locks)
        waits(fifth, "waiting for 1 of 2 GPUs, which are in use\n")
        end(sharing.pop())
        freed = shown(fifth)
        sharing.append(fifth)
        monkeypatch.setenv(gpus.SHARING, "1")
        alone = job(locks)
        waits(alone, "waiting for 1 of 2 GPUs, which are in use\n")
        assert freed in ("GPU-aaa", "GPU-bbb")
    finally:
        for running in sharing:
            end(running)

    assert shown(alone) in ("GPU-aaa", "GPU-bbb")

    end(alone)


@pytest.mark.usefixtures("two_gpus")
def test_a_job_of_more_processes_than_gpus_is_told_so(locks: Path) -> None:
    running = job(locks, gpus=3)
    _, message = running.communicate(timeout=30)

    assert running.returncode == 1
    assert message.startswith("error: 3 GPUs are needed, but this job may use only 2\n  hint: ")


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 1), ("cuda", 0)])
@pytest.mark.usefixtures("two_gpus")
def test_a_job_that_wants_no_gpu_takes_and_sees_none(locks: Path, device: str, gpus: int) -> None:
    running = job(locks, device, SHOW, gpus)

    assert shown(running) == ""

    end(running)
    assert not locks.exists()


@pytest.mark.usefixtures("two_gpus")
def test_another_users_lock_file_can_be_used(locks: Path) -> None:
    locks.mkdir()
    (locks / "GPU-aaa").touch(mode=0o444)
    running = job(locks, code=SHOW)

    assert shown(running) == "GPU-aaa"

    end(running)


@pytest.mark.usefixtures("two_gpus")
def test_another_user_can_use_the_locks_whatever_the_first_ones_umask(locks: Path) -> None:
    before = os.umask(0o077)
    try:
        running = job(locks, code=SHOW)
    finally:
        os.umask(before)
    assert shown(running) == "GPU-aaa"
    end(running)

    assert stat.S_IMODE(locks.stat().st_mode) == 0o1777
    assert {stat.S_IMODE(file.stat().st_mode) for file in locks.iterdir()} == {0o644}


def test_a_user_without_a_name_is_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake asks for the name of a user whose number is in no table of the system."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")

    def unnamed(number: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", unnamed)
    jobs.name_user()
    assert getpass.getuser()


def test_the_exit_code_and_arguments_are_the_commands() -> None:
    command = [sys.executable, "-m", "pam.experiments.jobs", "--gpus", "1", "cpu"]
    code = "import sys; print(sys.argv[1:]); sys.exit(7)"
    done = subprocess.run(
        [*command, sys.executable, "-c", code, "a b; c", "--gpus"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (7, "['a b; c', '--gpus']\n")


def test_a_command_of_ours_runs_in_the_same_process_under_its_own_name(tmp_path: Path) -> None:
    """Records name the command, and a job has one process to be ended."""
    code = (
        "import os, sys; from pam import cli; from pam.experiments import jobs,"
        " run_folder; cli.main = lambda:"
        " print(os.getpid(), sys.argv[1:], "
    )
    code += "repr(os.environ[jobs.VISIBLE]), run_folder.command_line()); "
    code += (
        "print(os.getpid()); jobs.main('cpu', ['python', '-m', 'pam', 'predict', '--config', 'x',"
        " '--beam', '2'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    process, record = done.stdout.splitlines()
    arguments = ["predict", "--config", "x", "--beam", "2"]

    assert record == f"{process} {arguments} '' python -m pam predict --beam 2"


@pytest.mark.parametrize("command", [["predict", "--run", "nowhere"], ["predict", "--nonsense"]])
def test_its_exit_code_and_what_it_says_are_the_commands(command: list[str]) -> None:
    python = str(bin_folder() / "python")
    ours = ["-m", "pam", *command]
    under = ["-m", "pam.experiments.jobs", "--gpus", "0", "cpu", "python", *ours]

    bare = subprocess.run([python, *ours], capture_output=True, text=True, check=False)
    done = subprocess.run([python, *under], capture_output=True, text=True, check=False)

    assert done.returncode == bare.returncode == 2
    assert done.stderr.replace("pam.experiments.jobs", "pam") == bare.stderr
