"""`python` and `snakemake` for tests: the server forks our commands and some scripts.

All else is run by the real Python.

`tests.warm` writes this file once more with a last line that calls `main`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

MODULES = ("pam", "pam.experiments.jobs", "snakemake")
SCRIPTS = (
    "benchmarks/gpu.py",
    "benchmarks/versions.py",
    "benchmarks/peers/server_pam.py",
    "tests/models/peak_memory.py",
)


def main(path: str, real: str) -> None:
    arguments = sys.argv[1:]
    flags = []
    if arguments[:1] == ["-u"]:
        flags = [arguments.pop(0)]
    if os.path.basename(sys.argv[0]) == "snakemake":
        arguments = ["-m", "snakemake", *arguments]

    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # Code that Python itself runs at its start is for the real one.
    starts_otherwise = any(os.path.exists(os.path.join(path, "sitecustomize.py")) for path in paths)
    is_module = len(arguments) > 1 and arguments[0] == "-m" and arguments[1] in MODULES
    is_script = bool(arguments) and arguments[0].endswith(SCRIPTS)
    if not (is_module or is_script) or starts_otherwise:
        os.execv(real, [real, *flags, *arguments])  # noqa: S606 -- a list of arguments, no shell

    words = arguments
    package = None
    if is_module:
        words = arguments[1:]
        package = preloaded_package(path, [os.getcwd(), *filter(None, paths)])

    request = {
        # What the forked process takes for Python, and so what its own commands are started by.
        "python": os.path.join(os.path.dirname(path), "python"),
        "words": words,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "is_unbuffered": bool(flags),
        "package": package,
    }
    if package is not None:
        path = f"{path}-preloaded"
    server = request_of(path, request, [0, 1, 2])
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCONT,
    ):
        signal.signal(number, lambda got, _: server.sendall(bytes([got])))

    answer = server.makefile().readline()
    code = int(answer) if answer else 1
    if code < 0:  # it was ended by a signal, and so is this one
        if -code != signal.SIGKILL:  # which has no other effect
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def request_of(path: str, request: dict[str, object], streams: list[int]) -> socket.socket:
    """Send a request and its streams to the server at `path`; return the connection."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    content = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(server, [content], streams)
    # A server that has the whole request may have closed the connection.
    if sent < len(content):
        server.sendall(content[sent:])
    return server


def preloaded_package(path: str, folders: list[str]) -> str | None:
    """Return the folder that Python would import `pam` from, if that is the preloaded package."""
    if not os.path.exists(f"{path}-preloaded"):
        return None

    with open(os.path.join(os.path.dirname(path), "preloaded.json"), encoding="utf-8") as file:
        files = json.load(file)["files"]
    for folder in folders:
        package = os.path.join(folder, "pam")
        if os.path.exists(package):
            return folder if has_files(package, files) else None

    return None


def has_files(package: str, files: dict[str, list[int]]) -> bool:
    """Return whether a package has these files; one that cannot be read has not."""
    try:
        return files_of(package) == files
    except OSError:
        return False


def files_of(package: str) -> dict[str, list[int]]:
    """Return the size and the time of each file of a package, but for its bytecode."""
    files: dict[str, list[int]] = {}
    waiting = [package]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    waiting.append(entry.path)
                continue
            status = entry.stat()
            files[os.path.relpath(entry.path, package)] = [status.st_size, status.st_mtime_ns]

    return files
