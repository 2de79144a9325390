"""Measure speed beside published code: each system is a process, and they take turns on one core.

    PEERS=FOLDER python benchmarks/peers/run.py TABLE --core 0 --out FILE

TABLE is nouns, translation, copying or transformers. README.md says how to fill the folder,
tables.py says what is measured. Figures are per CPU second, medians of turns.
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
from pam.runtime import devices, processor
from pam.runtime.files import write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIRST = 5  # id of the first word
BATCHES = 120  # of these many, over and over
SOURCES = {  # by peer, the folder from which Python imports its packages
    "joeynmt": ".",
    "opennmt": ".",
    "opennmt-copy": ".",
    "var-attn": ".",
    "neural-transducer": "src",
    "yoyodyne": ".",
    "eole": ".",
}
LATE = "late.safetensors"  # weights of a longer training at the sizes of the second table
# by work, label and setting, one for each turn
Answers = dict[tuple[str, str, str], list[dict[str, Any]]]


class Server:
    """A process that does turns; None is the answer where a server could not do one."""

    def __init__(self, entry: Entry, peers: Path, task: Path) -> None:
        self.entry = entry
        server = HERE / f"server_{entry.system.replace('-', '_')}.py"
        command = [sys.executable, str(server), "--task", str(task), "--model", entry.model]
        if entry.encoder:
            command += ["--encoder", str(entry.encoder)]
        if entry.late:
            command += ["--weights", str(peers / LATE)]

        folder = ROOT
        if entry.system != "pam":
            folder = peers / entry.system.removesuffix("-copy")
        imports = folder / SOURCES.get(entry.system, ".")
        environment = os.environ | {
            "PYTHONPATH": str(imports),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }

        self.log = task.parent / f"{entry.label}, {entry.training[0]}.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=folder,
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
        line = ""
        if self.process.stdout is not None:
            line = self.process.stdout.readline()
        if not line:
            last = self.log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            say(f"left out: {self.entry.label}: {last}")
            return None

        answer: dict[str, Any] = json.loads(line)
        return answer


def say(message: str) -> None:
    sys.stderr.write(message + "\n")


def prepared(table: Table, folder: Path) -> Prepared:
    """Return the table's data; they are fetched and prepared where they are not there yet."""
    data = folder / table.dataset
    raw = folder / "raw" / table.dataset
    if not (data / SUMMARY).exists():
        dataset = find_dataset([ROOT / "config/datasets.yaml"], table.dataset)
        if table.format:
            dataset = dataset.with_format(table.format)
        fetch(table.dataset, dataset, raw)
        prepare(table.dataset, dataset, raw, data)
    return Prepared(data)


def batches_of(table: Table, split: Split, targets: Any) -> list[tuple[Rows, Rows]]:
    """Return the first batches of a training's first epoch, without padding."""
    examples = Examples(split, targets)
    batches = []
    for rows in examples.shuffled(table.batch_size, seed=1, epoch=0)[:BATCHES]:
        batch = examples.batch(rows)
        pairs = zip(batch.source, batch.lengths.tolist(), strict=True)
        batch_sources = [row[:length].tolist() for row, length in pairs]
        # No target contains the id of padding.
        batch_targets = [row[row != PAD].tolist() for row in batch.target]
        batches.append((batch_sources, batch_targets))

    return batches


def drawn_batches(table: Table) -> list[tuple[Rows, Rows]]:
    """Draw batches of the table's lengths, with words by Zipf's law.

    A third of the words of a target are those of its source.
    """
    assert table.drawn is not None
    source_length, target_length, words = table.drawn
    copied = target_length // 3
    # Zipf's law, from its tenth word on.
    shares = 1.0 / np.arange(10, words + 10)
    shares /= shares.sum()

    generator = np.random.default_rng(1)
    batches = []
    for _ in range(table.warm_up + table.turns * table.batches):
        sources = FIRST + generator.choice(words, (table.batch_size, source_length), p=shares)
        targets = FIRST + generator.choice(words, (table.batch_size, target_length), p=shares)
        targets[:, :copied] = sources[:, :copied]
        sources[:, -1] = targets[:, -1] = EOS
        batches.append((sources.tolist(), targets.tolist()))
    return batches


def write_task(table: Table, data: Prepared | None, path: Path) -> None:
    """Write sizes and batches as servers read them; see `serving.Task`."""
    actions: list[tuple[Rows, Rows]] = []
    if data is None:
        assert table.drawn is not None
        source = target = FIRST + table.drawn[2]
        symbols = drawn_batches(table)
    else:
        source = len(data.source)
        target = len(data.target)
        split = data.split("train")
        symbols = batches_of(table, split, "symbols")
        if split.alignments is not None:
            actions = batches_of(table, split, "actions")

    sizes = {"source": source, "target": target, "beam": table.beam, **table.sizes}
    write_json(path, {**sizes, "symbols": symbols, "actions": actions})


def take_turns(servers: list[Server], table: Table) -> Answers:
    """Let all train, then decode, as models have learned by then where outputs end."""
    # The untimed batches before are shared out among the settings.
    for server in servers:
        settings = server.entry.training
        share = (server.entry.warm_up or table.warm_up) // len(settings)
        for number, setting in enumerate(settings):
            server.turn(Turn("training", setting, number * share, share))

    answers: Answers = {}
    for work in ("training", "decoding", "greedy"):
        for number in range(table.turns):
            for server in servers:
                entry = server.entry
                if work == "training":
                    first = table.warm_up + number * table.batches
                    count = entry.batches or table.batches
                else:
                    first = number * table.decoded
                    count = entry.decoded or table.decoded

                for setting in getattr(entry, work):
                    answer = server.turn(Turn(work, setting, first, count))
                    if answer is not None:
                        answers.setdefault((work, entry.label, setting), []).append(answer)
    return answers


def rows_of(answers: Answers) -> list[dict[str, Any]]:
    """Return a row for each work, label and setting.

    `time_vs_first` is the median of turns' ratios to the first row.
    """
    rows: list[dict[str, Any]] = []
    first: dict[str, list[float]] = {}
    for (work, label, setting), turns in answers.items():
        speeds = [turn["examples"] / turn["cpu_s"] for turn in turns]
        token_speeds = [turn["symbols"] / turn["cpu_s"] for turn in turns]
        pairs = zip(first.setdefault(work, speeds), speeds, strict=False)
        ratios = [first_speed / speed for first_speed, speed in pairs]
        examples = sum(turn["examples"] for turn in turns)
        symbols = sum(turn["symbols"] for turn in turns)

        row = {
            "work": work,
            "model": label,
            "setting": setting,
            "per_second": round(median(speeds), 1),
            "lowest": round(min(speeds), 1),
            "highest": round(max(speeds), 1),
            "tokens_per_second": round(median(token_speeds), 1),
            "time_vs_first": round(median(ratios), 3),
            "mean_length": round(symbols / examples, 1),
            "turns": len(turns),
            "peak_memory_mb": round(turns[-1]["peak_memory_mb"]),
        }
        for name in ("positions", "of"):
            if name in turns[-1]:
                row[name] = round(turns[-1][name], 1)
        rows.append(row)

    return rows


def without_unusable_settings(entry: Entry) -> Entry | None:
    """Leave out turns in bfloat16 where this processor has no use for it.

    None if no other turn is left.
    """
    trial = processor.try_bfloat16()
    if trial.pays or "bf16" not in entry.training + entry.decoding + entry.greedy:
        return entry

    say(f"left out: {entry.label}: bf16: {trial.reason}")
    training = tuple(setting for setting in entry.training if setting != "bf16")
    decoding = tuple(setting for setting in entry.decoding if setting != "bf16")
    greedy = tuple(setting for setting in entry.greedy if setting != "bf16")
    if not training:
        return None
    return replace(entry, training=training, decoding=decoding, greedy=greedy)


def version_of(peer: Path) -> str | None:
    """Return the commit that COMMIT names, or the version of the package of the folder's name.

    None without the peer.
    """
    if (peer / "COMMIT").is_file():
        return (peer / "COMMIT").read_text(encoding="utf-8").strip()

    packages = distributions(path=[str(peer)])
    versions = {package.name.lower(): package.version for package in packages}
    return versions.get(peer.name, versions.get(f"{peer.name}-py"))


def measure(table: Table, peers: Path) -> dict[str, Any]:
    """Measure a table; return all of a record that depends on it."""
    data = None
    vocabulary = {}
    if table.drawn:
        size = FIRST + table.drawn[2]
        vocabulary = {"source": size, "target": size}
    else:
        data = prepared(table, peers / "data")
        vocabulary = {"source": len(data.source), "target": len(data.target)}

    versions = {name: version_of(peers / name.removesuffix("-copy")) for name in SOURCES}
    entries = usable_entries(table, peers, versions)
    task = peers / "work" / "task.json"
    task.parent.mkdir(exist_ok=True)
    write_task(table, data, task)
    products = {"accuracy": accuracy(), "gflop_per_s": rates(table.products)}

    servers = []
    try:
        servers += [Server(entry, peers, task) for entry in entries]
        rows = rows_of(take_turns([server for server in servers if server.ready], table))
    finally:
        # Also those that have started before one that could not.
        for server in servers:
            server.end()

    return {
        "data": table.dataset,
        "clock": "CPU seconds",
        "threads": 1,
        "batch_size": table.batch_size,
        "beam": table.beam,
        "sizes": table.sizes,
        "vocabulary": vocabulary,
        "hardware": devices.hardware(torch.device("cpu")),
        "versions": devices.versions(),
        "peers": versions,
        "products": products,
        "rows": rows,
    }


def usable_entries(table: Table, peers: Path, versions: dict[str, str | None]) -> list[Entry]:
    """Return the entries of a table that can be measured here; the others are reported."""
    entries = []
    for entry in table.entries:
        is_missing = entry.system != "pam" and not versions.get(entry.system)
        if is_missing or (entry.late and not (peers / LATE).is_file()):
            say(f"left out: {entry.label}: not in the folder of peers")
            continue

        usable = without_unusable_settings(entry)
        if usable is not None:
            entries.append(usable)
    return entries


def only(table: Table, names: list[str]) -> Table:
    """Keep the entries of a table that are named by system and model."""
    there = {f"{entry.system} {entry.model}" for entry in table.entries}
    unknown = sorted(set(names) - there)
    if unknown:
        raise SystemExit(f"--models: no {', '.join(unknown)}; there are {', '.join(sorted(there))}")
    kept = [entry for entry in table.entries if f"{entry.system} {entry.model}" in names]
    return replace(table, entries=kept)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="time models of ours and of others, in turns on one core"
    )
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--core", type=int, help="the processor core that all share (default: any)")
    parser.add_argument("--out", type=Path, required=True, help="JSON with all figures")
    parser.add_argument(
        "--models",
        nargs="+",
        metavar="NAME",
        help='only these rows, such as "pam soft" "eole soft" (default: all)',
    )
    args = parser.parse_args()
    table = TABLES[args.table]
    if args.models:
        table = only(table, args.models)

    torch.set_num_threads(1)
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})

    peers = Path(os.environ.get("PEERS", "data/peers")).resolve()
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": shlex.join(["python", "benchmarks/peers/run.py", *sys.argv[1:]]),
        **measure(table, peers),
    }

    sys.stdout.write(pd.DataFrame(record["rows"]).to_string(index=False) + "\n")
    sys.stdout.write(pd.DataFrame(record["products"]["gflop_per_s"]).to_string(index=False) + "\n")
    write_json(args.out, record)


if __name__ == "__main__":
    main()
