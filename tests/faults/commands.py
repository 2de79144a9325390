"""Commands that write files, each with a folder to work in, whose process can be killed at any
write.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from pam.cli import main
from pam.data.prepare import prepare
from pam.experiments.fingerprint import fingerprint, model_modules
from pam.experiments.loading import load_plan
from pam.experiments.run_folder import RunFolder
from pam.reporting.reference import restore
from pam.runtime.files import read_json
from pam.training.run import train
from tests.data import test_captioning, test_summarization
from tests.faults import trained
from tests.training import runs, small
from tests.training.runs import Fault

COSTS = ("wall_s", "cpu_s", "gpu_s")
RATES = tuple(f"{unit}_per_second" for unit in ("examples", "tokens", "sentences", "symbols"))
TIMES = ("command", "cost", "training", "resumed", "peak_memory_mb", *RATES, *COSTS)
"""Entries in which a run that was resumed may differ."""

Words = list[object]


@dataclass(frozen=True)
class Command:
    """A command line in a folder that was made ready for it.

    Attributes:
        make: makes the folder ready.
        words: the arguments of `python -m pam` in that folder.
        out: the folders below it that the command writes into.
        call: another program that takes these arguments.
    """

    make: Callable[[Path], None]
    words: Callable[[Path], Words]
    out: tuple[str, ...]
    call: Callable[[list[str]], int] = main

    def start(self, folder: Path, fault: Fault | None = None) -> runs.Command:
        return runs.start(self.words(folder), folder / "log", fault, self.call)

    def results(self, folder: Path) -> dict[str, Any]:
        """Return the files that the command wrote, without times and costs."""
        files = [
            file
            for name in self.out
            for file in sorted((folder / name).rglob("*"))
            if file.is_file()
        ]
        kept = [
            file
            for file in files
            if not {"events", "state"} & set(file.parts) and file.name != ".lock"
        ]

        return {str(file.relative_to(folder)): content_of(file) for file in kept}


def content_of(file: Path) -> Any:
    if file.suffix == ".json" and file.name in ("training.json", "decoding.json", "scores.json"):
        return {key: value for key, value in read_json(file).items() if key not in TIMES}

    if file.name == "history.csv":
        return pd.read_csv(file).drop(columns=["wall_s", "cpu_s"], errors="ignore").to_csv()

    return file.read_bytes()


def registry(folder: Path, entry: dict[str, Any]) -> None:
    """Write a registry with a data set `mine`, whose files are in `raw`."""
    files = {name: {"path": str(folder / "own" / name)} for name in entry["files"]}
    content = {"mine": {**entry, "files": files}}
    (folder / "datasets.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def clips(folder: Path) -> None:
    """Fetch a folder of arrays and captions of its clips."""
    dataset, _ = test_captioning.fetched(folder)
    (folder / "own/features").rename(folder / "own/features.tar")
    registry(folder, dataset.model_dump(exclude_defaults=True))


def unfetched_clips(folder: Path) -> None:
    clips(folder)
    shutil.rmtree(folder / "raw")


def summaries(folder: Path) -> None:
    """Write records of texts and summaries."""
    lines = [json.dumps(record) for record in test_summarization.RECORDS]
    dataset, raw = test_summarization.written(folder, lines, truncate={"source": 6, "target": 5})
    registry(folder, dataset.model_dump(exclude_defaults=True))
    (folder / "own").mkdir()
    shutil.copy(raw / "all.jsonl", folder / "own")


def prepared_summaries(folder: Path) -> None:
    """Prepare summaries, and configure a model with phases, copying and coverage."""
    lines = [json.dumps(record) for record in test_summarization.RECORDS]
    # Without METEOR, which English alone has: each scoring would load its program for 9 seconds.
    dataset, raw = test_summarization.written(folder, lines, language="de")
    prepare("mine", dataset, raw, folder / "data")
    phases = [{"until": 2, "source": 4, "target": 3}, {"source": 9}]
    # States at the ends of epochs alone: how many are saved in between depends on the machine.
    run = small.run(
        "soft-pointer-coverage",
        epochs=2,
        batch_size=1,
        phases=phases,
        select="loss",
        state_every_s=3600.0,
    )
    small.write_run(folder / "soft" / trained.SEED, run)
    # Else the first training in a fresh checkout would write this file beside its own.
    fingerprint("pam.training.run:train", *model_modules(run))


def trained_summaries(folder: Path) -> None:
    prepared_summaries(folder)
    run = RunFolder(folder / "soft" / trained.SEED)

    assert train(run, folder / "data", run.path / "state", "cpu") == 0


def decoded_summaries(folder: Path) -> None:
    trained_summaries(folder)
    assert main(list(map(str, of_run("predict")(folder)))) == 0


def a_start(folder: Path) -> None:
    """Train a model, and configure one that starts from it."""
    trained.trained(folder, "structural")
    run = small.run("fertility-init", epochs=2, state_every_s=3600.0)
    small.write_run(folder / "fertility-init" / trained.SEED, run)


def a_trained_run(folder: Path) -> None:
    """Train a run, and configure a task that tests it."""
    trained.trained(folder, "soft")
    small.write_run(folder / "tested", small.run("soft", epochs=1))


def stored(folder: Path) -> None:
    """Store runs, and leave the data of their task."""
    subject = trained.stored_runs(folder / "made")
    shutil.copytree(subject.folder, folder / "stored")
    shutil.copytree(folder / "made/results/nouns/data", folder / "results/nouns/data")
    shutil.copyfile(folder / "made/results/experiment.yaml", folder / "experiment.yaml")


def restored(words: list[str]) -> int:
    """Restore stored runs, as the script of the workflow does."""
    restore(Path(words[0]), Path(words[1]), load_plan(files=[words[2]]))
    return 0


def restores(folder: Path) -> Words:
    return [folder / name for name in ("stored", "results", "experiment.yaml")]


def of_data(*words: object) -> Callable[[Path], Words]:
    return lambda folder: [*words, "--dataset", "mine", "--registry", folder / "datasets.yaml"]


def of_run(
    command: str, run: str = f"soft/{trained.SEED}", *words: object
) -> Callable[[Path], Words]:
    return lambda folder: [command, "--run", folder / run, "--data", folder / "data", *words]


def prepares(folder: Path) -> Words:
    return [*of_data("prepare")(folder), "--raw", folder / "raw", "--out", folder / "out"]


def fetches(folder: Path) -> Words:
    return [*of_data("fetch")(folder), "--out", folder / "raw"]


def reuses(folder: Path) -> Words:
    return [*of_run("reuse", "tested")(folder), "--trained", folder / "soft" / trained.SEED]


def scores(folder: Path) -> Words:
    return ["score", "--run", folder / "soft" / trained.SEED]


RUN = ("soft",)
COMMANDS: dict[str, Command] = {
    "fetching a folder of clips": Command(unfetched_clips, fetches, ("raw",)),
    "preparing captions": Command(clips, prepares, ("out",)),
    "preparing summaries": Command(summaries, prepares, ("out",)),
    "training in phases with coverage": Command(prepared_summaries, of_run("train"), RUN),
    "training from another model": Command(
        a_start, of_run("train", f"fertility-init/{trained.SEED}"), ("fertility-init",)
    ),
    "taking over a trained model": Command(a_trained_run, reuses, ("tested",)),
    "decoding summaries": Command(trained_summaries, of_run("predict"), RUN),
    "scoring summaries": Command(decoded_summaries, scores, RUN),
    "restoring stored runs": Command(stored, restores, ("results",), restored),
}
