"""A small experiment, from download to report, whose run can be killed at any moment."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.data.conftest import Behaviour, Server
from tests.workflow.checkouts import Checkout, with_own_data

OWN = ("--configfile", "own/experiment.yaml")
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor")
RESULTS = Path("results/tiny")
RUN = RESULTS / "nouns/postr-joint/seed1"
COST = ("cost", "training", "decoding")
SPLITS = ("train", "dev", "test")

STAGES = {
    "download": "-m pam fetch",
    "preparation": "-m pam prepare",
    "training": "-m pam train",
    "decoding": "-m pam predict",
    "table": "-m pam tables",
    "figure": "-m pam figures",
    "report": "-m snakemake --snakefile",
}
"""The stages of a run, by the command that their jobs call."""

REGISTRY = """\
small:
  task: inflection
  title: Made-up nouns
  licence: none
  obtain: from the mirror
  files:
"""

EXPERIMENT = """\
experiment: tiny
title: Made-up nouns
models: [postr-joint]
tasks:
  nouns: {dataset: small}
registries: [config/datasets.yaml, own/datasets.yaml]
device: cpu
network: {embedding: 8, encoder: 8, decoder: 16}
training:
  epochs: 20
  batch_size: 16
  learning_rate: 0.02
  state_every_s: 0.1
  phases: [{until: 30, source: 8, target: 5}, {source: 20}]
"""


def with_download(made: Checkout) -> Checkout:
    """Add made-up nouns that are known by their hashes and come from a mirror."""
    with_own_data(made)
    files = ""
    for split in SPLITS:
        path = made.folder / f"own/{split}.tsv"
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        files += f"    {split}.tsv: {{sha256: {sha256}, bytes: {path.stat().st_size}}}\n"

    made.write("own/datasets.yaml", REGISTRY + files)
    made.write("own/experiment.yaml", EXPERIMENT)

    return made


def serve(server: Server, made: Checkout) -> dict[str, str]:
    """Offer the files of `with_download`, in pieces; return the variables that name the mirror."""
    for split in SPLITS:
        content = (made.folder / f"own/{split}.tsv").read_bytes()
        server.answers[f"/small/{split}.tsv"] = in_pieces(content, server)
    return {"PAM_MIRROR": server.address}


def in_pieces(content: bytes, server: Server, pieces: int = 4, wait_s: float = 0.1) -> Behaviour:
    """Answer in pieces, so that a moment within the transfer can be met."""

    def behave(request: Any, times: int) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        size = -(-len(content) // pieces)

        for start in range(0, len(content), size):
            request.wfile.write(content[start : start + size])
            request.wfile.flush()
            server.released.wait(wait_s)

    return behave


@dataclass(frozen=True)
class Running:
    """A Snakemake in a session of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def descendants(self) -> list[psutil.Process]:
        """List every process below it that lives."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill_alone(self) -> None:
        """Kill Snakemake; its jobs live on."""
        self.process.kill()
        self.process.wait(30)

    def kill_one_job(self, draw: Random) -> None:
        """Kill one process of its jobs, as soon as there is one, and let Snakemake end."""
        while self.process.poll() is None:
            # One that ends before it is struck is no victim: another one is.
            with suppress(IndexError, psutil.NoSuchProcess):
                draw.choice(self.descendants()).kill()
                break
            time.sleep(0.01)
        self.process.wait(120)

    def kill_all(self) -> None:
        """Kill it with all that it started, those included that lost their parent."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def at_work(self) -> list[str]:
        """List the stages whose commands run right now."""
        commands = "\n".join(map(_command, self.descendants()))
        return [stage for stage, command in STAGES.items() if command in commands]

    def jobs_of(self, stage: str) -> list[psutil.Process]:
        """List the processes of a stage's command that run right now."""
        return [process for process in self.descendants() if STAGES[stage] in _command(process)]

    def wait_for(self, stage: str) -> None:
        """Wait until this stage's command runs, or the whole run has ended."""
        while self.process.poll() is None and stage not in self.at_work():
            time.sleep(0.02)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def started(
    made: Checkout, *arguments: str, log: str = "said.log", **environment: str
) -> Iterator[Running]:
    """Start Snakemake; at the end nothing of it lives."""
    path = made.folder / log
    with open(path, "wb") as output:
        process = subprocess.Popen(
            [*SNAKEMAKE, *arguments, *OWN],
            cwd=made.folder,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    running = Running(process, path)
    try:
        yield running
    finally:
        try:
            running.kill_all()
        except ProcessLookupError:
            process.wait(30)


def results(made: Checkout) -> dict[str, Any]:
    """Read all that a run measured, but for its cost: equal for equal runs, bit by bit."""
    measured: dict[str, Any] = {}
    for folder in (RESULTS / "nouns/data", RUN / "model", RUN / "beam1"):
        for path in sorted((made.folder / folder).iterdir()):
            if not path.name.startswith(".") and path.name != "decoding.json":
                measured[f"{folder}/{path.name}"] = path.read_bytes()

    scores = json.loads((made.folder / RUN / "scores.json").read_text("utf-8"))
    measured["scores"] = {name: scores[name] for name in scores if name not in COST}
    with open(made.folder / RESULTS / "tables/table2.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    measured["table"] = [{**row, "cpu_s": "", "gpu_s": ""} for row in rows]
    with open(made.folder / RUN / "history.csv", encoding="utf-8") as file:
        measured["losses"] = [(row["epoch"], row["train_loss"]) for row in csv.DictReader(file)]

    report = (made.folder / RESULTS / "report.html").read_text("utf-8")
    assert report.rstrip().endswith("</html>")

    return measured
