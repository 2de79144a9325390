"""Real processes that train, quick to start: forked from a server that has imported torch once."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pandas as pd

from pam.cli import main
from pam.config import Cell
from tests.training.small import write_cell

Moment = tuple[str, str, int]
"""Module, name in it and number of the call at whose begin a process kills itself."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["pytest", "pam.training.loop", "pam.models.build", "pam.verbs.train", "tests.training.runs"]
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


def start(arguments: Sequence[object], log: Path, killed: Moment | None = None) -> Run:
    """Starts `python -m pam ARGUMENTS` as a process that may kill itself at a given moment."""
    words = [str(argument) for argument in arguments]
    process = CONTEXT.Process(target=_work, args=(words, str(log), killed))
    process.start()
    return Run(process, log)


def _work(arguments: list[str], log: str, killed: Moment | None) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
    sys.argv = ["pam", *arguments]
    if killed is not None:
        _arm(*killed)
    sys.exit(main(arguments))


def _arm(module: str, name: str, number: int) -> None:
    """Makes the `number`-th call of a function the end of this process."""
    *path, last = name.split(".")
    owner: Any = importlib.import_module(module)
    for part in path:
        owner = getattr(owner, part)
    original, calls = getattr(owner, last), [0]

    def counted(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **named)

    setattr(owner, last, counted)


def train(
    cell: Cell, data: Path, out: Path, killed: Moment | None = None, code: str = "this code"
) -> Run:
    """Starts a training; its results are in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["train", "--cell", write_cell(out, cell), "--data", data, "--out", out]
    return start([*arguments, "--code", code], out / "log", killed)


def result(out: Path) -> tuple[bytes, list[dict[str, Any]], int]:
    """What must be the same in two trainings: weights, history without times, best epoch."""
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    history = pd.read_csv(out / "history.csv").drop(columns=["wall_s", "cpu_s"])
    weights = (out / "model" / "weights.safetensors").read_bytes()
    return weights, history.to_dict("records"), record["best_epoch"]


def record_of(out: Path) -> dict[str, Any]:
    """training.json."""
    record: dict[str, Any] = json.loads((out / "training.json").read_text(encoding="utf-8"))
    return record
