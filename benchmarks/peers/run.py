"""Speed beside that of published code: each system is a process, and they take turns on one core.

    PEERS=FOLDER python benchmarks/peers/run.py {nouns,translation,copying} --core 0 --out FILE

README.md says how to fill the folder, tables.py what is measured. Figures are per CPU second,
medians of turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch
from products import accuracy, rates
from serving import EOS, PAD, Rows, Turn
from tables import TABLES, Entry, Table

from pam.data.dataset import SUMMARY, Examples, Prepared, Split
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import find_dataset
from pam.io import write_json
from pam.runtime import devices, processor

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
FIRST = 5  # id of the first word
BATCHES = 120  # of these many, over and over
SOURCES = {  # what Python imports, by peer
    "joeynmt": ".",
    "opennmt": ".",
    "opennmt-copy": ".",
    "var-attn": ".",
    "neural-transducer": "src",
}
LATE = "late.safetensors"  # weights of a longer training at the sizes of the second table
# by work, label and setting, one for each turn
Answers = dict[tuple[str, str, str], list[dict[str, Any]]]


class Server:
    """A process that does turns; None answers for what a server could not do."""

    def __init__(self, entry: Entry, peers: Path, task: Path) -> None:
        self.entry = entry
        command = [sys.executable, str(HERE / f"server_{entry.system.replace('-', '_')}.py")]
        command += ["--task", str(task), "--model", entry.model]
        command += ["--encoder", str(entry.encoder)] if entry.encoder else []
        command += ["--weights", str(peers / LATE)] if entry.late else []
        folder = ROOT if entry.system == "pam" else peers / entry.system.removesuffix("-copy")
        imports = folder / SOURCES.get(entry.system, ".")
        environment = os.environ | {
            "PYTHONPATH": str(imports),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }
        self.log = task.parent / f"{entry.label}, {entry.training[0]}.log"
        pipe = subprocess.PIPE
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=environment, cwd=folder
            )
        self.ready = self._answer()

    def turn(self, turn: Turn) -> dict[str, Any] | None:
        if self.process.stdin is None or self.process.poll() is not None:
            return None
        self.process.stdin.write(json.dumps(asdict(turn)) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> dict[str, Any] | None:
        line = self.process.stdout.readline() if self.process.stdout is not None else ""
        if not line:
            last = self.log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            say(f"left out: {self.entry.label}: {last}")
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer


def say(message: str) -> None:
    sys.stderr.write(message + "\n")


def prepared(table: Table, folder: Path) -> Prepared:
    """The table's data; they are fetched and prepared where they are not there yet."""
    data = folder / table.dataset
    if not (data / SUMMARY).exists():
        dataset = find_dataset([ROOT / "config/datasets.yaml"], table.dataset)
        dataset = dataset.with_format(table.format) if table.format else dataset
        fetch(table.dataset, dataset, folder / "raw" / table.dataset)
        prepare(table.dataset, dataset, folder / "raw" / table.dataset, data)
    return Prepared(data)


def batches_of(table: Table, split: Split, targets: Any) -> list[tuple[Rows, Rows]]:
    """The first batches of a training's first epoch, without padding."""
    examples, found = Examples(split, targets), []
    for rows in examples.shuffled(table.batch_size, seed=1, epoch=0)[:BATCHES]:
        batch = examples.batch(rows)
        sources = [
            row[:length].tolist()
            for row, length in zip(batch.source, batch.lengths.tolist(), strict=True)
        ]
        found.append((sources, [row[row != PAD].tolist() for row in batch.target]))
    return found


def drawn_batches(table: Table) -> list[tuple[Rows, Rows]]:
    """Batches of the table's lengths: words by Zipf's law, a third of a target's being of its
    source.
    """
    assert table.drawn is not None
    longest, last, words = table.drawn
    generator, shares = np.random.default_rng(1), 1.0 / np.arange(10, words + 10)
    shares /= shares.sum()
    batches = []
    for _ in range(table.warm_up + table.turns * table.batches):
        sources = FIRST + generator.choice(words, (table.batch_size, longest), p=shares)
        targets = FIRST + generator.choice(words, (table.batch_size, last), p=shares)
        targets[:, : last // 3] = sources[:, : last // 3]
        sources[:, -1] = targets[:, -1] = EOS
        batches.append((sources.tolist(), targets.tolist()))
    return batches


def write_task(table: Table, data: Prepared | None, path: Path) -> None:
    if data is None:
        assert table.drawn is not None
        source = target = FIRST + table.drawn[2]
        symbols, actions = drawn_batches(table), []
    else:
        source, target, split = len(data.source), len(data.target), data.split("train")
        symbols = batches_of(table, split, "symbols")
        actions = [] if split.alignments is None else batches_of(table, split, "actions")
    sizes = {"source": source, "target": target, "beam": table.beam, **table.sizes}
    write_json(path, {**sizes, "symbols": symbols, "actions": actions})


def take_turns(servers: list[Server], table: Table) -> Answers:
    """Training of all, then decoding, as models have learned where outputs end."""
    answers: Answers = {}
    for server in servers:
        settings, count = server.entry.training, server.entry.warm_up or table.warm_up
        for number, setting in enumerate(settings):
            share = count // len(settings)
            server.turn(Turn("training", setting, number * share, share))
    for work in ("training", "decoding"):
        for number in range(table.turns):
            for server in servers:
                entry = server.entry
                if work == "training":
                    count, settings = entry.batches or table.batches, entry.training
                    first = table.warm_up + number * table.batches
                else:
                    count, settings = entry.decoded or table.decoded, entry.decoding
                    first = number * table.decoded
                for setting in settings:
                    answer = server.turn(Turn(work, setting, first, count))
                    if answer is not None:
                        answers.setdefault((work, entry.label, setting), []).append(answer)
    return answers


def rows_of(answers: Answers) -> list[dict[str, Any]]:
    """A row for each work, label and setting; `time_vs_first` is the median of turns' ratios to the
    first row.
    """
    rows: list[dict[str, Any]] = []
    first: dict[str, list[float]] = {}
    for (work, label, setting), turns in answers.items():
        speeds = [turn["examples"] / turn["cpu_s"] for turn in turns]
        ratios = [a / b for a, b in zip(first.setdefault(work, speeds), speeds, strict=False)]
        examples, symbols = (sum(turn[name] for turn in turns) for name in ("examples", "symbols"))
        row = {
            "work": work,
            "model": label,
            "setting": setting,
            "per_second": round(median(speeds), 1),
        }
        row |= {"lowest": round(min(speeds), 1), "highest": round(max(speeds), 1)}
        row["tokens_per_second"] = round(
            median(turn["symbols"] / turn["cpu_s"] for turn in turns), 1
        )
        row |= {
            "time_vs_first": round(median(ratios), 3),
            "mean_length": round(symbols / examples, 1),
        }
        row |= {"turns": len(turns), "peak_memory_mb": round(turns[-1]["peak_memory_mb"])}
        rows.append(
            row
            | {name: round(turns[-1][name], 1) for name in ("positions", "of") if name in turns[-1]}
        )
    return rows


def without_unusable_settings(entry: Entry) -> Entry | None:
    """The entry without turns in bfloat16 where this processor has no use for it; None if no other
    turn is left.
    """
    trial = processor.try_bfloat16()
    if trial.pays or "bf16" not in entry.training + entry.decoding:
        return entry
    say(f"left out: {entry.label}: bf16: {trial.reason}")
    training = tuple(setting for setting in entry.training if setting != "bf16")
    decoding = tuple(setting for setting in entry.decoding if setting != "bf16")
    return replace(entry, training=training, decoding=decoding) if training else None


def version_of(peer: Path) -> str | None:
    """The commit that COMMIT names, or the version of the package of the folder's name; None
    without the peer.
    """
    if (peer / "COMMIT").is_file():
        return (peer / "COMMIT").read_text(encoding="utf-8").strip()
    names = {found.name.lower(): found.version for found in distributions(path=[str(peer)])}
    return names.get(peer.name, names.get(f"{peer.name}-py"))


def measure(table: Table, peers: Path) -> dict[str, Any]:
    """All of a record that depends on the table."""
    data = None if table.drawn else prepared(table, peers / "data")
    versions = {name: version_of(peers / name.removesuffix("-copy")) for name in SOURCES}
    wanted = []
    for entry in table.entries:
        lacking = not (versions.get(entry.system) or entry.system == "pam")
        if lacking or (entry.late and not (peers / LATE).is_file()):
            say(f"left out: {entry.label}: not in the folder of peers")
        elif (usable := without_unusable_settings(entry)) is not None:
            wanted.append(usable)
    work = peers / "work"
    work.mkdir(exist_ok=True)
    write_task(table, data, work / "task.json")
    core = {"accuracy": accuracy(), "gflop_per_s": rates(table.products)}
    servers = []
    try:
        servers += [Server(entry, peers, work / "task.json") for entry in wanted]
        rows = rows_of(take_turns([server for server in servers if server.ready], table))
    finally:
        for server in servers:
            server.end()
    vocabulary = (
        [FIRST + table.drawn[2]] * 2
        if table.drawn
        else [len(data.source), len(data.target)]
        if data
        else []
    )
    return {
        "data": table.dataset,
        "clock": "CPU seconds",
        "threads": 1,
        "batch_size": table.batch_size,
        "beam": table.beam,
        "sizes": table.sizes,
        "vocabulary": dict(zip(("source", "target"), vocabulary, strict=True)),
        "hardware": devices.hardware(torch.device("cpu")),
        "versions": devices.versions(),
        "peers": versions,
        "products": core,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="time models of ours and of others, in turns on one core"
    )
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--core", type=int, help="the processor core that all share (default: any)")
    parser.add_argument("--out", type=Path, required=True, help="JSON with all figures")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": shlex.join(["python", "benchmarks/peers/run.py", *sys.argv[1:]]),
        **measure(TABLES[args.table], Path(os.environ.get("PEERS", "data/peers")).resolve()),
    }
    sys.stdout.write(pd.DataFrame(record["rows"]).to_string(index=False) + "\n")
    sys.stdout.write(pd.DataFrame(record["products"]["gflop_per_s"]).to_string(index=False) + "\n")
    write_json(args.out, record)


if __name__ == "__main__":
    main()
