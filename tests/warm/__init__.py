"""Processes that start quickly: forked from a server that has imported the large packages once.

`bin_folder()` has a `python` that is put first on PATH. Its `python -m pam ...`, `python -m
pam.jobs ...`, `python -m snakemake ...` and calls of some scripts are forked by the server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).parent
STARTED_WITHIN_S = 120.0


def owner() -> int:
    """The process that all tests end with: of several test processes the one that started them."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


@cache
def bin_folder() -> Path:
    """The folder with `python` and `snakemake`; starts the server unless another test process has
    done it.

    An AssertionError says that the server does not start.
    """
    folder = Path(tempfile.gettempdir(), f"pam-tests-{owner()}")
    path = folder / "socket"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if not path.exists():
            for name in ("python", "snakemake"):
                write_client(folder / name, path)
            start_server(path, folder / "log")
    return folder


def write_client(program: Path, path: Path) -> None:
    """Write a program that asks the server at `path`."""
    client = (HERE / "client.py").read_text(encoding="utf-8")
    call = f"main({str(path)!r}, {sys.executable!r})"
    program.write_text(f"#!{sys.executable} -IS\n{client}\n\n{call}\n", encoding="utf-8")
    program.chmod(0o755)


def start_server(path: Path, log: Path) -> None:
    """Start the server and wait until it answers at `path`."""
    command = [sys.executable, str(HERE / "server.py"), str(path), str(owner())]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with open(log, "wb") as said:
        server = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    end = time.monotonic() + STARTED_WITHIN_S
    while not path.exists():
        assert server.poll() is None and time.monotonic() < end, log.read_text(encoding="utf-8")
        time.sleep(0.05)
