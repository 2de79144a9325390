"""`python` and `snakemake` for tests: `python -m pam ...` is forked by the server, all else is the
real Python.

`tests.warm` writes this file once more with a last line that calls `main`.
"""

import json
import os
import signal
import socket
import sys

MODULES = ("pam", "pam.jobs", "snakemake")
SCRIPT = "workflow/scripts/run.py"


def main(path: str, real: str) -> None:
    arguments = sys.argv[1:]
    if os.path.basename(sys.argv[0]) == "snakemake":
        arguments = ["-m", "snakemake", *arguments]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # Code that Python itself runs at its start is for the real one.
    starts_otherwise = any(os.path.exists(os.path.join(path, "sitecustomize.py")) for path in paths)
    # torchrun starts its processes with this option.
    is_unbuffered = arguments[:1] == ["-u"]
    command = arguments[int(is_unbuffered) :]
    is_module = len(command) > 1 and command[0] == "-m" and command[1] in MODULES
    if not (is_module or command[:1] == [SCRIPT]) or starts_otherwise:
        os.execv(real, [real, *arguments])  # noqa: S606 -- a list of arguments, no shell
    # What the forked process takes for Python, and so what its own commands are started by.
    python = os.path.join(os.path.dirname(path), "python")
    words = command[1:] if is_module else command
    request = {
        "python": python,
        "words": words,
        "unbuffered": is_unbuffered,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCONT,
    ):
        signal.signal(number, lambda got, _: server.sendall(bytes([got])))
    content = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(server, [content], [0, 1, 2])
    server.sendall(content[sent:])
    answer = server.makefile().readline()
    code = int(answer) if answer else 1
    if code < 0:  # it was ended by a signal, and so is this one
        if -code != signal.SIGKILL:  # which has no other effect
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
