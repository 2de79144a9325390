"""A user of a throw-away cluster, who runs Snakemake and reads the notes of its jobs."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import warm
from tests.slurm.cluster import Cluster
from tests.workflow.checkouts import PYTHON_KEYS, ROOT, Checkout, Outcome

PROFILE = ("--profile", "cluster", "--configfile", "own/experiment.yaml")
# What a user of a cluster without accounting changes; `auto`, as torch cannot use these GPUs; and
# for impatient tests, shorter waits.
CHANGED = (
    *("--config", "device=auto", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5", "--nocolor"),
)
RESOURCES = "resources: {gpu: true, mem_mb: 300, runtime: 10}\n"

WITNESS = '''

def _witness():
    """Notes when and where this training ran, and what it had."""
    import atexit, json, os, sys, time
    if "train" in sys.argv and "SLURM_JOB_ID" in os.environ:
        names = ("SLURM_JOB_ID", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS")
        seen = {name: os.environ.get(name) for name in names}
        out = sys.argv[sys.argv.index("--run") + 1]
        def note(event):
            line = {"at": time.time(), "event": event, "out": out, **seen}
            with open("witness.jsonl", "a") as file:
                file.write(json.dumps(line) + "\\n")
        note("start")
        atexit.register(note, "end")

_witness()
'''
IMPATIENCE = """

# The plugin waits ever longer between two looks at the queue; tests do not.
from snakemake_executor_plugin_slurm import Executor

Executor.next_seconds_between_status_checks = property(lambda self: 2, lambda self, value: None)
"""
STEP = "        self.optimizer.step()"
TIMES = ("wall_s", "cpu_s")
HOLDER = re.compile(r"process (\d+) on ")
"""The words that a run writes into its lock."""


@dataclass
class Login:
    """A checkout from which jobs are sent to a cluster."""

    cluster: Cluster
    made: Checkout
    _runs: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def results(self) -> Path:
        return self.made.folder / "results/tiny/nouns"

    def experiment(self, training: str, resources: str = RESOURCES) -> None:
        """Set the experiment's `training`, and the resources that its jobs ask for."""
        self.made.edit("own/experiment.yaml", "epochs: 1", training)
        self.made.edit("own/experiment.yaml", "device: cpu\n", resources)

    def hurry(self) -> None:
        """Make Snakemake look at the queue every two seconds."""
        with (self.made.folder / "Snakefile").open("a", encoding="utf-8") as file:
            file.write(IMPATIENCE)

    def slow_down(self, step_s: float) -> None:
        """Make each step of a training last so much longer, and trainings leave traces."""
        self.made.edit(
            "pam/training/trainer.py",
            STEP,
            f"        import time\n        time.sleep({step_s})\n{STEP}",
        )

        package = self.made.folder / "pam/training/__init__.py"
        package.write_text(package.read_text(encoding="utf-8") + WITNESS, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a Snakemake that sends its jobs to the cluster."""
        return [sys.executable, "-m", "snakemake", *PROFILE, *CHANGED, *arguments]

    def run(self, *arguments: str) -> Outcome:
        """Run Snakemake on the cluster to its end."""
        return self.made.command(self.command(*arguments), **self.cluster.environment)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Snakemake in the background; its output goes to a file of its number.

        It is forked by the server of `tests.warm`, as `run` is, and so are its jobs.
        """
        python = str(warm.bin_folder() / "python")
        environment = {name: value for name, value in os.environ.items() if name not in PYTHON_KEYS}
        path = [self.cluster.environment["PATH"], os.path.dirname(sys.executable)]
        environment["PATH"] = os.pathsep.join(path)

        with (self.made.folder / f"run{len(self._runs)}.log").open("w") as log:
            running = subprocess.Popen(
                [python, *self.command(*arguments)[1:]],
                cwd=self.made.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

        self._runs.append(running)
        return running

    def kill(self, running: subprocess.Popen[str]) -> None:
        """Kill a Snakemake that holds the lock of its run, and wait until it is gone."""
        lock = self.made.folder / ".snakemake/runs/tiny.lock"
        holder = HOLDER.search(lock.read_text(encoding="utf-8"))
        assert holder is not None
        # Its client ends as it does, and not before.
        os.kill(int(holder[1]), signal.SIGKILL)

        assert running.wait(60) == -signal.SIGKILL

    def end(self) -> None:
        """End all that still runs in the background."""
        for running in self._runs:
            running.kill()
            running.wait()

    def seen(self, event: str = "start") -> list[dict[str, Any]]:
        """Read the notes that trainings wrote when they started or ended, in their order."""
        file = self.made.folder / "witness.jsonl"
        if not file.is_file():
            return []

        notes = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [note for note in notes if note["event"] == event]

    def queue(self, state: str) -> list[str]:
        """List the numbers of the jobs that Slurm has in this state."""
        return self.cluster.command("squeue", "-h", f"--states={state}", "--format=%i").split()

    def wait_for(self, what: Callable[[], Any], seconds: float = 300.0) -> None:
        """Wait until a condition holds; an AssertionError shows the state of all jobs."""
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, self.state()
            time.sleep(0.2)

    def state(self) -> str:
        """Return the queue and all logs, to be read when a test fails."""
        logs = [*self.made.folder.glob("run*.log"), *self.results.parent.glob("logs/**/*.log")]
        texts = [f"--- {path}\n{path.read_text(encoding='utf-8')[-3000:]}" for path in logs]

        return "\n".join([self.cluster.command("squeue", "--states=all", "--long"), *texts])

    def record(self, model: str) -> dict[str, Any]:
        """Read the record of a training."""
        file = self.results / model / "seed1/training.json"
        return dict(json.loads(file.read_text(encoding="utf-8")))

    def outcome(self, model: str, run: Path | None = None) -> dict[str, Any]:
        """Return all that a training decides: its model's files, and its history without times."""
        folder = run or self.results / model / "seed1"
        files = {path.name: path.read_bytes() for path in (folder / "model").iterdir()}

        with (folder / "history.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        history = [
            {name: value for name, value in row.items() if name not in TIMES} for row in rows
        ]

        return files | {"history": history}

    def undisturbed(self, model: str) -> dict[str, Any]:
        """Train the same model here, from its first step to its last; return the same of it."""
        out = self.made.folder / "undisturbed" / model
        out.mkdir(parents=True)
        shutil.copy2(self.results / model / "seed1/model/config.yaml", out / "run.yaml")

        python = str(warm.bin_folder() / "python")
        paths = ["--run", str(out), "--data", str(self.results / "data")]
        command = [python, "-m", "pam", "train", *paths, "--device", "cpu"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

        return self.outcome(model, out)
