"""Real processes that train, quick to start: forked from a server that has imported torch once."""

from __future__ import annotations

import errno
import importlib
import itertools
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pam.cli import main
from pam.config import Cell
from tests.training.small import write_cell


class Fault(NamedTuple):
    """What befalls a process at the begin of the `number`-th call of a function.

    Attributes:
        module, name: where the function is; `number` counts from 1.
        effect: `killed`: SIGKILL; `interrupted`: SIGINT, as from a keyboard; `full`: this call
            and all later ones find the disk full.
    """

    module: str
    name: str
    number: int
    effect: str = "killed"


CONTEXT = multiprocessing.get_context("forkserver")
# `torch._dynamo` is what the first optimiser imports, for a second or two.
CONTEXT.set_forkserver_preload(
    ["pytest", "pam.training.loop", "pam.models.build", "torch._dynamo", "tests.training.runs"]
)


@dataclass(frozen=True)
class Run:
    """One call of the command line in its own process."""

    process: BaseProcess
    log: Path

    def end(self) -> int:
        """Waits; the exit code, negative after a signal."""
        self.process.join(120)
        assert self.process.exitcode is not None, self.said()
        return self.process.exitcode

    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return self.log.read_text(encoding="utf-8")


def start(arguments: Sequence[object], log: Path, fault: Fault | None = None) -> Run:
    """Starts `python -m pam ARGUMENTS` as a process, perhaps one that will meet a fault."""
    words = [str(argument) for argument in arguments]
    process = CONTEXT.Process(target=_work, args=(words, str(log), fault))
    process.start()
    return Run(process, log)


def _work(arguments: list[str], log: str, fault: Fault | None) -> None:
    # A shell starts what it sends to the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.argv = ["pam", *arguments]
    if fault is not None:
        _arm(fault)
    sys.exit(main(arguments))


def _arm(fault: Fault) -> None:
    *path, last = fault.name.split(".")
    owner: Any = importlib.import_module(fault.module)
    for part in path:
        owner = getattr(owner, part)
    original, calls = getattr(owner, last), itertools.count(1)

    def faulty(*args: Any, **named: Any) -> Any:
        number = next(calls)
        if fault.effect == "killed" and number == fault.number:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.effect == "interrupted" and number == fault.number:
            os.kill(os.getpid(), signal.SIGINT)
        if fault.effect == "full" and number >= fault.number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args, **named)

    setattr(owner, last, faulty)


def train(
    cell: Cell, data: Path, out: Path, fault: Fault | None = None, code: str = "this code"
) -> Run:
    """Starts a training; its results are in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["train", "--cell", write_cell(out, cell), "--data", data, "--out", out]
    # A GPU does not promise the same bits twice.
    return start([*arguments, "--code", code, "--device", "cpu"], out / "log", fault)


def result(out: Path) -> tuple[bytes, list[Any], int]:
    """What must be the same in two trainings: weights, history without times, best epoch."""
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    history = pd.read_csv(out / "history.csv").drop(columns=["wall_s", "cpu_s"])
    weights = (out / "model" / "weights.safetensors").read_bytes()
    return weights, history.to_dict("records"), int(record["best_epoch"])


def record_of(out: Path) -> dict[str, Any]:
    """training.json."""
    record: dict[str, Any] = json.loads((out / "training.json").read_text(encoding="utf-8"))
    return record
