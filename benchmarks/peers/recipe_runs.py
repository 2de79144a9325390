"""A training of a peer by a recipe: its folder, its commands, and the seconds that they take."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from pam.data.dataset import Prepared
from pam.runtime import devices
from pam.runtime.errors import UserError
from pam.runtime.files import write_text

RECIPES = Path(__file__).resolve().parent / "recipes"


@dataclass(frozen=True)
class Run:
    """One training of a recipe with one seed."""

    recipe: str
    peer: Path  # the folder in which the peer is installed
    data: Prepared
    seed: int
    folder: Path

    @property
    def log(self) -> Path:
        """The file with the peer's messages."""
        return self.folder / "log.txt"

    @property
    def options(self) -> dict[str, Any]:
        """What the recipe says."""
        text = (RECIPES / f"{self.recipe}.yaml").read_text(encoding="utf-8")
        return dict(yaml.safe_load(text))

    def learn_edits(self, edits: Path) -> dict[str, float]:
        """Learn an edit distance by maxwell, by ten steps of EM; return seconds and memory."""
        pairs = self.data.folder / "train.tsv"
        files = ("--train", pairs, "--output", edits)
        return self.call("-m", "maxwell.train", "--target_col", "3", *files)

    def call(self, *command: str | Path) -> dict[str, float]:
        """Run Python with these arguments in the run's folder; return seconds and memory.

        Raises:
            UserError: it failed; the message has the last line of its log.
        """
        environment = os.environ | {
            "PYTHONPATH": str(self.peer),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }
        arguments = list(map(str, command))
        began = time.perf_counter()
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(shlex.join(["python", *arguments]) + "\n")
            log.flush()
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
            )
            # Usage is of this process and of all that it has waited for, such as those that load
            # data.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)

        if process.returncode:
            last = self.log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            hint = "is the peer installed as benchmarks/peers/README.md says?"
            raise UserError(f"{self.recipe} failed: {last}", file=self.log, hint=hint)
        return {
            "wall_s": time.perf_counter() - began,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_memory_mb": usage.ru_maxrss / 2**10,
        }

    def write_predictions(self, outputs: Path, path: Path) -> None:
        """Write a line of outputs for each row of the test split, as our own predictions.

        Raises:
            UserError: there are more or fewer outputs than rows.
        """
        rows = self.data.rows("test")[:]
        predicted = outputs.read_text(encoding="utf-8").split("\n")[:-1]
        if len(predicted) != len(rows):
            raise UserError(f"{len(predicted)} outputs for {len(rows)} rows", file=outputs)

        codec = self.data.codec
        lines = ["\t".join([*codec.columns, "predicted", "text"])]
        for row, output in zip(rows, predicted, strict=True):
            lines.append("\t".join([*row, output, codec.readable(output)]))
        write_text(path, "\n".join(lines) + "\n")

    def training_record(self, *costs: dict[str, float], **notes: Any) -> dict[str, Any]:
        """Return what `training.json` records of our own trainings, for all commands together."""
        return {
            "wall_s": sum(cost["wall_s"] for cost in costs),
            "cpu_s": sum(cost["cpu_s"] for cost in costs),
            "peak_memory_mb": max(cost["peak_memory_mb"] for cost in costs),
            "seed": self.seed,
            **notes,
            "hardware": devices.hardware(torch.device("cpu")),
            "versions": devices.versions(),
        }
