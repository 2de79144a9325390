"""Train or search by two versions of the package, and count their batches a second.

    python benchmarks/versions.py OLD NEW --data DIR --models soft postr-joint:0.99 --device cuda
    python benchmarks/versions.py OLD NEW --data DIR --models soft --beam 4

OLD and NEW are folders that hold `pam` and `config`, such as checkouts; DIR is a folder of prepared
data. Each model of each version has a process of its own.

On a CPU both versions of a model take turns on one core, and batches are counted by the CPU second.
`new_over_old` is the median of the turns' ratios. On a GPU all processes count batches in the same
seconds, which begin once all are ready, so that what slows one slows all.

With `--beam` a model is trained for `--trained` steps first, so that it has learned where outputs
end, and then searches.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

READY = "ready\n"
WARM_UP = 6  # batches before those that count
NOTICE_S = 0.2  # between the word to begin and the beginning
VERSIONS = ("old", "new")
Job = tuple[str, str]  # a model, and `old` or `new`


def compare(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each model: batches per second by both versions, and their ratio."""
    # On a GPU all models run at the same time; on a CPU one model after another.
    groups = [args.models] if args.on_gpu else [[model] for model in args.models]

    rows = []
    for models in groups:
        jobs: list[Job] = [(model, version) for model in models for version in VERSIONS]
        processes: dict[Job, subprocess.Popen[str]] = {}
        try:
            for job in jobs:
                processes[job] = start(args, *job)
            wait_until_ready(processes)
            if args.on_gpu:
                turns = [work_together(processes, args.seconds)]
            else:
                turns = work_in_turns(processes, args.turns, args.seconds)
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
        rows += [row_of(model, turns) for model in models]

    return rows


def row_of(model: str, turns: Sequence[Mapping[Job, Any]]) -> dict[str, Any]:
    """Return the row of one model: the medians of its turns."""
    row: dict[str, Any] = {"model": model}
    for version in VERSIONS:
        answers = [turn[model, version] for turn in turns]
        if not all(answer["batches"] for answer in answers):
            sys.exit(f"error: no batch of {model} was done in a turn: raise --seconds")
        row[version] = {
            "batches": sum(answer["batches"] for answer in answers),
            "per_second": round(median(answer["per_second"] for answer in answers), 2),
            "peak_mb": answers[-1]["peak_mb"],
            "gpu_mb": answers[-1]["gpu_mb"],
        }

    ratios = [turn[model, "new"]["per_second"] / turn[model, "old"]["per_second"] for turn in turns]
    return row | {
        "new_over_old": round(median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
    }


def start(args: argparse.Namespace, model: str, version: str) -> subprocess.Popen[str]:
    """Start a process that works with a model of one version whenever it is told to."""
    folder = str(getattr(args, version).resolve())
    settings = vars(args) | {"model": model}
    content = json.dumps(settings, default=lambda path: str(path.resolve()))
    command = [sys.executable, str(Path(__file__).resolve()), "--work", content]

    return subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": folder},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until_ready(processes: Mapping[Job, subprocess.Popen[str]]) -> None:
    """Wait until all processes have loaded and warmed up."""
    for job, process in processes.items():
        if read_line(job, process) != READY:
            end_with_error(job)


def work_together(processes: Mapping[Job, subprocess.Popen[str]], seconds: float) -> dict[Job, Any]:
    """Let all processes work in the same seconds; return their answers."""
    begin = time.time() + NOTICE_S
    for job, process in processes.items():
        send(job, process, begin, seconds)
    return {job: json.loads(read_line(job, process)) for job, process in processes.items()}


def work_in_turns(
    processes: Mapping[Job, subprocess.Popen[str]], turns: int, seconds: float
) -> list[dict[Job, Any]]:
    """Let one process work after another on one core, in turns; return the answers of each turn."""
    if hasattr(os, "sched_setaffinity"):
        core = min(os.sched_getaffinity(0))
        for process in processes.values():
            os.sched_setaffinity(process.pid, {core})

    answers = []
    for turn in range(turns):
        # The one that was last is first in the next turn.
        jobs = list(processes)
        if turn % 2:
            jobs.reverse()
        answers.append({job: work_together({job: processes[job]}, seconds)[job] for job in jobs})
    return answers


def send(job: Job, process: subprocess.Popen[str], begin: float, seconds: float) -> None:
    """Tell a process when to begin, and for how many seconds to work."""
    assert process.stdin is not None
    try:
        process.stdin.write(f"{begin!r} {seconds!r}\n")
        process.stdin.flush()
    except BrokenPipeError:
        end_with_error(job)


def read_line(job: Job, process: subprocess.Popen[str]) -> str:
    """Return the next line that a process writes."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        end_with_error(job)
    return line


def end_with_error(job: Job) -> NoReturn:
    """End with the name of the version that failed."""
    model, version = job
    sys.exit(f"error: {model} by the {version} version failed, as it says above")


def work_when_told(args: argparse.Namespace) -> None:
    """Train or search whenever a line says so, and answer each with the batches of that time.

    It uses only what a version before this file has.
    """
    import torch

    from pam.data.dataset import Prepared

    benchmark = first_there("pam.measuring.benchmark", "pam.benchmark")
    sections = first_there("pam.experiments.settings", "pam.experiments.config", "pam.config")

    # Else another version that is installed would be measured.
    if not Path(benchmark.__file__).is_relative_to(Path.cwd()):
        sys.exit(
            f"error: {Path.cwd()} has no benchmark.py of pam; {benchmark.__file__} was found in"
            " its place"
        )

    devices = first_there("pam.runtime.devices", "pam.training.devices")
    devices.keep_heap()
    torch.set_num_threads(1)
    devices.use_precision(args.precision)
    device = devices.choose_device(args.device)

    network = sections.Network(
        embedding=args.units, encoder=args.units // 2, decoder=args.units, dropout=0.3
    )
    components = benchmark.named_model(args.model)
    data = Prepared(Path(args.data))
    plan = benchmark.Plan(network, args.batch_size, 1, 0, 0, [], args.precision, 1)
    model = benchmark.fresh(components, data, plan, device)
    batches = benchmark.batches_of(data, components, plan, device)
    work = benchmark.training(model, plan)

    # Some steps before, which are not counted.
    for number in range(args.trained if args.beam else WARM_UP):
        work(batches[number % len(batches)])

    if args.beam:
        parsing = first_there("pam.experiments.parsing", "pam.experiments.config", "pam.config")
        search = {"beam": args.beam, "precision": args.precision}
        decoding = parsing.parse(sections.Decoding, search)
        work = partial(benchmark.decode, model, components.targets == "actions", decoding)
        for batch in batches[:WARM_UP]:
            work(batch)

    benchmark.clock(device)

    sys.stdout.write(READY)
    sys.stdout.flush()

    count = 0
    for line in sys.stdin:
        begin, seconds = map(float, line.split())
        time.sleep(max(0.0, begin - time.time()))

        first = count
        began = benchmark.clock(device)
        while time.time() < begin + seconds:
            work(batches[count % len(batches)])
            benchmark.clock(device)  # waits for the device
            count += 1
        spent = benchmark.clock(device) - began

        answer = {
            "batches": count - first,
            "per_second": (count - first) / spent,
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "gpu_mb": devices.peak_gpu_memory_mb(device),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def first_there(*names: str) -> Any:
    """Import a module by the first of its names, newest first, that this version has."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


def precision_and_device(args: argparse.Namespace) -> tuple[str, bool]:
    """Return the precision of both versions, and whether they work on a GPU.

    The precision is the one asked for, or float32 where a CPU has no use for bfloat16.
    """
    from pam.runtime import devices, processor

    on_gpu = devices.choose_device(args.device).type == "cuda"
    if args.precision != "bf16" or on_gpu or processor.try_bfloat16().pays:
        return args.precision, on_gpu

    sys.stderr.write(f"in float32: {processor.try_bfloat16().reason}\n")
    return "float32", on_gpu


def main(words: list[str]) -> None:
    if words[:1] == ["--work"]:
        work_when_told(argparse.Namespace(**json.loads(words[1])))
        return

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="a folder of prepared data")
    parser.add_argument("--models", nargs="+", default=["soft", "postr-joint:0.99"])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"), default="bf16")
    parser.add_argument(
        "--units", type=int, default=256, help="of embeddings, of both directions, of the decoder"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="wall seconds of a turn")
    parser.add_argument("--turns", type=int, default=10, help="turns of each version, on a CPU")
    parser.add_argument("--beam", type=int, default=0, help="search with this beam, after training")
    parser.add_argument("--trained", type=int, default=100, help="steps before a search")
    args = parser.parse_args(words)
    args.precision, args.on_gpu = precision_and_device(args)

    for row in compare(args):
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
