"""Processes that start quickly: forked from a server that has imported the large packages once.

`bin_folder()` has a `python` that is put first on PATH. Its `python -m pam ...`, `python -m
pam.experiments.jobs ...`, `python -m snakemake ...` and calls of some scripts are forked by the
server. Where they run in a copy of the repository whose package is that of `preload`, file by file,
they are forked by a second server, which has imported that package too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from filelock import FileLock

from tests.warm.client import files_of, request_of

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


def preload(folder: Path) -> None:
    """Start the second server, for commands in copies of this folder's package.

    A copy has the same files of the same sizes and times. Any other package, such as a changed
    copy, is imported by its own commands.
    """
    path = bin_folder() / "socket"
    listed = bin_folder() / "preloaded.json"
    content = {"folder": str(folder), "files": files_of(str(folder / "pam"))}
    listed.write_text(json.dumps(content), encoding="utf-8")
    with open(bin_folder() / "log", "ab") as log:
        streams = [log.fileno()] * 3
        request_of(str(path), {"preload": str(folder)}, streams).close()

    wait_for(path.with_name("socket-preloaded"), bin_folder() / "log")


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
    wait_for(path, log, server)


def wait_for(path: Path, log: Path, server: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a server answers at `path`; an AssertionError has the log of one that does not."""
    end = time.monotonic() + STARTED_WITHIN_S
    while not path.exists():
        has_ended = server is not None and server.poll() is not None
        assert not has_ended and time.monotonic() < end, log.read_text(encoding="utf-8")
        time.sleep(0.05)
