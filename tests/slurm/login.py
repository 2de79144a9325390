"""A user of a throw-away cluster: what it runs, and what its jobs were seen to do."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import warm
from tests.slurm.cluster import Cluster
from tests.workflow.checkouts import ROOT, Checkout, Outcome

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
        """Sets the experiment's `training` and what its jobs ask for."""
        self.made.edit("own/experiment.yaml", "epochs: 1", training)
        self.made.edit("own/experiment.yaml", "device: cpu\n", resources)

    def hurry(self) -> None:
        """Makes Snakemake look at the queue every two seconds."""
        with (self.made.folder / "Snakefile").open("a", encoding="utf-8") as file:
            file.write(IMPATIENCE)

    def slow_down(self, step_s: float) -> None:
        """Makes each step of a training last so much longer, and trainings leave traces."""
        self.made.edit(
            "pam/training/trainer.py",
            STEP,
            f"        import time\n        time.sleep({step_s})\n{STEP}",
        )
        package = self.made.folder / "pam/training/__init__.py"
        package.write_text(package.read_text(encoding="utf-8") + WITNESS, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", *PROFILE, *CHANGED, *arguments]

    def run(self, *arguments: str) -> Outcome:
        """Runs Snakemake on the cluster to its end."""
        return self.made.command(self.command(*arguments), **self.cluster.environment)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts Snakemake in the background; its output goes to a file of its number."""
        with (self.made.folder / f"run{len(self._runs)}.log").open("w") as log:
            running = subprocess.Popen(
                self.command(*arguments),
                cwd=self.made.folder,
                env=os.environ | self.cluster.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._runs.append(running)
        return running

    def end(self) -> None:
        """Ends what still runs in the background."""
        for running in self._runs:
            running.kill()
            running.wait()

    def seen(self, event: str = "start") -> list[dict[str, Any]]:
        """What trainings noted when they started or ended, one after the other."""
        file = self.made.folder / "witness.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        notes = [json.loads(line) for line in lines]
        return [one for one in notes if one["event"] == event]

    def queue(self, state: str) -> list[str]:
        """Numbers of the jobs that Slurm has in this state."""
        return self.cluster.command("squeue", "-h", f"--states={state}", "--format=%i").split()

    def wait_for(self, what: Callable[[], Any], seconds: float = 300.0) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, self.state()
            time.sleep(0.2)

    def state(self) -> str:
        """What is to be read when a test fails."""
        logs = [*self.made.folder.glob("run*.log"), *self.results.parent.glob("logs/**/*.log")]
        texts = [f"--- {path}\n{path.read_text(encoding='utf-8')[-3000:]}" for path in logs]
        return "\n".join([self.cluster.command("squeue", "--states=all", "--long"), *texts])

    def record(self, model: str) -> dict[str, Any]:
        """How a training went."""
        file = self.results / model / "seed1/training.json"
        return dict(json.loads(file.read_text(encoding="utf-8")))

    def outcome(self, model: str, run: Path | None = None) -> dict[str, Any]:
        """All that a training decides: the files of its model, and its history without times."""
        folder = run or self.results / model / "seed1"
        files = {path.name: path.read_bytes() for path in (folder / "model").iterdir()}
        with (folder / "history.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return files | {
            "history": [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
        }

    def undisturbed(self, model: str) -> dict[str, Any]:
        """The same of the same training, run here from its first step to its last."""
        own, out = self.results / model / "seed1", self.made.folder / "undisturbed" / model
        out.mkdir(parents=True)
        shutil.copy2(own / "model/config.yaml", out / "run.yaml")
        data = str(self.results / "data")
        command = [
            str(warm.bin_folder() / "python"),
            "-m",
            "pam",
            "train",
            "--run",
            str(out),
            "--device",
            "cpu",
            "--data",
            data,
        ]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        return self.outcome(model, out)
