"""Real processes that train, quick to start: forked from a server that has imported torch once."""

from __future__ import annotations

import errno
import importlib
import itertools
import json
import multiprocessing
import os
import resource
import runpy
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import psutil
import pytest

from pam.cli import main
from pam.experiments.run_config import RunConfig
from pam.models.checkpoint import digest, load_tensors
from tests import warm
from tests.training.small import write_run


class Fault(NamedTuple):
    """A fault in a process that calls a function for the `number`-th time.

    Attributes:
        module, name: where the function is; `number` counts from 1.
        effect: `killed`: SIGKILL; `interrupted`: SIGINT, as from a keyboard; `ended`: SIGTERM, as
            from a scheduler; `halted`: SIGSTOP; `full`: this call and all later ones find the disk
            full; `confined`: from now on there is memory for `room_mb` more; `noted`: each call
            writes a line, `call NUMBER`.
    """

    module: str
    name: str
    number: int
    effect: str = "killed"
    room_mb: int = 150


SIGNALS = {
    "killed": signal.SIGKILL,
    "interrupted": signal.SIGINT,
    "ended": signal.SIGTERM,
    "halted": signal.SIGSTOP,
}
CONTEXT = multiprocessing.get_context("forkserver")
# `torch._dynamo` is what the first optimizer imports, for a second or two.
CONTEXT.set_forkserver_preload(
    ["pytest", "pam.training.trainer", "pam.models.build", "torch._dynamo", "tests.training.runs"]
)


COLUMNS = [
    *("epoch", "step", "examples", "tokens", "learning_rate", "train_loss", "dev_loss"),
    *("dev_accuracy", "dev_token_accuracy", "dev_objective", "dev_positions", "wall_s", "cpu_s"),
]
"""The columns of history.csv."""


@dataclass(frozen=True)
class Command:
    """One call of the command line in its own process."""

    process: BaseProcess
    log: Path

    def end(self) -> int:
        """Wait for the end; return the exit code, negative after a signal."""
        self.process.join(120)
        assert self.process.exitcode is not None, self.said()
        return self.process.exitcode

    def says(self, text: str) -> None:
        """Wait until it, or what it has started, has written a text."""
        self.waits(lambda: text in self.said())

    def halts(self) -> None:
        """Wait until it is halted, as after SIGSTOP: a SIGCONT before that would be lost."""
        process = psutil.Process(self.process.pid)
        self.waits(lambda: process.status() == psutil.STATUS_STOPPED)

    def waits(self, until: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + 60
        while not until():
            assert time.monotonic() < end, self.said()
            time.sleep(0.01)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def said(self) -> str:
        """Return what it wrote to stdout and stderr."""
        if not self.log.exists():
            return ""
        return self.log.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Ended:
    """One call of the command line in this process, which has ended."""

    code: int
    output: str

    def end(self) -> int:
        """Return the exit code."""
        return self.code

    def said(self) -> str:
        """Return what it wrote to stdout and stderr."""
        return self.output


def start(
    arguments: Sequence[object],
    log: Path,
    fault: Fault | None = None,
    call: Callable[[list[str]], int] = main,
) -> Command:
    """Start `python -m pam ARGUMENTS`, or another program, perhaps with a fault to come."""
    words = [str(argument) for argument in arguments]
    process = CONTEXT.Process(target=_work, args=(words, str(log), fault, call))
    process.start()
    return Command(process, log)


def as_script(words: list[str]) -> int:
    """Run a Python file with its arguments as `python` does; a `call` of `start`."""
    script = words[0]
    sys.argv = words
    sys.path.insert(0, os.path.dirname(script))
    runpy.run_path(script, run_name="__main__")

    return 0


def result_of(function: Callable[..., Any], *values: Any) -> Any:
    """Call a function in a process that has imported torch and computed nothing; return its result.

    The function stands at the top of a module, and its result can be pickled.
    """
    receiving, sending = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_send_result, args=(sending, function, values))
    process.start()
    sending.close()
    # An EOFError: the process has failed, and its traceback is on stderr.
    result = receiving.recv()
    process.join()

    return result


def _send_result(
    sending: Connection, function: Callable[..., Any], values: tuple[object, ...]
) -> None:
    sending.send(function(*values))


def _work(
    arguments: list[str], log: str, fault: Fault | None, call: Callable[[list[str]], int]
) -> None:
    # A shell starts what it sends to the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.argv = ["pam", *arguments]
    if fault is not None:
        _arm(fault)
    sys.exit(call(arguments))


def _arm(fault: Fault) -> None:
    *path, last = fault.name.split(".")
    owner: Any = importlib.import_module(fault.module)
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, last)
    calls = itertools.count(1)

    def faulty(*args: Any, **named: Any) -> Any:
        number = next(calls)
        if fault.effect == "noted":
            sys.stdout.write(f"call {number}\n")
            sys.stdout.flush()
        if fault.effect in SIGNALS and number == fault.number:
            os.kill(os.getpid(), SIGNALS[fault.effect])
        if fault.effect == "confined" and number == fault.number:
            _confine(fault.room_mb)
        if fault.effect == "full" and number >= fault.number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return original(*args, **named)

    setattr(owner, last, faulty)


def _confine(room_mb: int) -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    room = used * resource.getpagesize() + (room_mb << 20)
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))


def train(
    run: RunConfig,
    data: Path,
    out: Path,
    fault: Fault | None = None,
    code: str = "this code",
    processes: int = 1,
    log: str = "log",
    is_real: bool = False,
) -> Command:
    """Start a training; its results are in `out`, and its output in the file `log` there.

    Several processes are forked by the server of `tests.warm`, or `is_real`: started by Python.
    """
    words = [*arguments(run, data, out, code), "--processes", processes]
    call = main
    if processes > 1 and not is_real:
        call = partial(_call_by, str(warm.bin_folder() / "python"))

    return start(words, out / log, fault, call)


def train_here(run: RunConfig, data: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> Ended:
    """Train by the command line in this process, which is quicker where no process is needed."""
    words = arguments(run, data, out)
    capsys.readouterr()
    code = main(words)
    captured = capsys.readouterr()

    return Ended(code, captured.out + captured.err)


def _call_by(python: str, words: list[str]) -> int:
    """Call the command line; it starts its own processes by this program."""
    sys.executable = python
    return main(words)


def arguments(run: RunConfig, data: Path, out: Path, code: str = "this code") -> list[str]:
    """Write the configuration of a training into `out`; return its command line."""
    out.mkdir(parents=True, exist_ok=True)
    write_run(out, run)
    paths = ["--run", str(out), "--data", str(data)]

    # A GPU does not promise the same bits twice.
    return ["train", *paths, "--code", code, "--device", "cpu"]


def result(out: Path) -> tuple[str, list[Any], int]:
    """Return what must be the same in two trainings: weights, history without times, best epoch."""
    history = pd.read_csv(out / "history.csv").drop(columns=["wall_s", "cpu_s"])
    # What was not measured would not be equal to itself.
    history = history.dropna(axis="columns", how="all")
    weights, _ = load_tensors(out / "model" / "weights.safetensors")

    return digest(weights, {}), history.to_dict("records"), int(record_of(out)["best_epoch"])


def record_of(out: Path) -> dict[str, Any]:
    """Read training.json."""
    record: dict[str, Any] = json.loads((out / "training.json").read_text(encoding="utf-8"))
    return record
