"""Train or search by two versions of the package at once, and count their batches a second.

    python benchmarks/versions.py OLD NEW --data DIR --models soft postr-joint:0.99 --device cuda
    python benchmarks/versions.py OLD NEW --data DIR --models soft --beam 4

OLD and NEW are folders that hold `pam` and `config`, such as checkouts; DIR is a folder of prepared
data. Each model of each version has a process of its own. All of them count batches in the same
seconds, which begin once all are ready, so that what slows one slows all. With `--beam` a model is
trained for `--trained` steps first, so that it has learned where outputs end, and then searches.
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
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

READY = "ready\n"
WARM_UP = 6  # batches before those that count
NOTICE_S = 0.2  # between the word to begin and the beginning
Job = tuple[str, str]  # a model, and `old` or `new`


def compare(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each model: batches per second by both versions, and their ratio."""
    processes = {}
    for model in args.models:
        for version in ("old", "new"):
            processes[model, version] = start(args, model, version)

    try:
        answers = together(processes)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()

    rows = []
    for model in args.models:
        old = answers[model, "old"]
        new = answers[model, "new"]
        if not (old["steps"] and new["steps"]):
            sys.exit(f"error: no batch of {model} was done in {args.seconds} s: raise --seconds")
        ratio = new["per_second"] / old["per_second"]
        rows.append({"model": model, "old": old, "new": new, "new_over_old": round(ratio, 3)})
    return rows


def start(args: argparse.Namespace, model: str, version: str) -> subprocess.Popen[str]:
    """Start a process that works with a model of one version once it hears from when on."""
    folder = str(getattr(args, version).resolve())
    settings = vars(args) | {"model": model}
    content = json.dumps(settings, default=lambda path: str(path.resolve()))
    command = [sys.executable, str(Path(__file__).resolve()), "--steps", content]

    return subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": folder},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def together(processes: dict[Job, subprocess.Popen[str]]) -> dict[Job, Any]:
    """Let all processes begin at the same moment, once each is ready, and return their answers."""
    for job, process in processes.items():
        assert process.stdout is not None
        if process.stdout.readline() != READY:
            end_with_error(job)

    begin = time.time() + NOTICE_S
    for job, process in processes.items():
        assert process.stdin is not None
        try:
            process.stdin.write(f"{begin!r}\n")
            process.stdin.flush()
        except BrokenPipeError:
            end_with_error(job)

    answers = {}
    for job, process in processes.items():
        output, _ = process.communicate()
        if process.returncode:
            end_with_error(job)
        answers[job] = json.loads(output)

    return answers


def end_with_error(job: Job) -> NoReturn:
    """End with the name of the version that failed."""
    model, version = job
    sys.exit(f"error: {model} by the {version} version failed, as it says above")


def steps(args: argparse.Namespace) -> dict[str, Any]:
    """Count the batches of one training, or of one search, from a moment on.

    Once it is ready it says so, and reads that moment. It uses only what a version before this file
    has.
    """
    import torch

    from pam import benchmark
    from pam.config import Decoding, Network, parse
    from pam.data.dataset import Prepared

    # Else another version that is installed would be measured.
    if not Path(benchmark.__file__).is_relative_to(Path.cwd()):
        sys.exit(
            f"error: {Path.cwd()} has no pam/benchmark.py; that of {benchmark.__file__} was found"
            " in its place"
        )

    devices = devices_of_this_version()
    devices.keep_heap()
    torch.set_num_threads(1)
    devices.use_precision(args.precision)
    device = devices.choose_device(args.device)

    network = Network(
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
        settings = parse(Decoding, {"beam": args.beam, "precision": args.precision})
        work = partial(benchmark.decode, model, components.targets == "actions", settings)
        for batch in batches[:WARM_UP]:
            work(batch)

    benchmark.clock(device)

    sys.stdout.write(READY)
    sys.stdout.flush()
    begin = float(sys.stdin.readline())

    time.sleep(max(0.0, begin - time.time()))
    began = time.time()
    count = 0
    while time.time() < begin + args.seconds:
        work(batches[count % len(batches)])
        benchmark.clock(device)  # waits for the device
        count += 1

    rate = count / (time.time() - began) if count else 0.0
    gpu_mb = devices.peak_gpu_memory_mb(device)
    return {
        "steps": count,
        "per_second": round(rate, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "gpu_mb": gpu_mb and round(gpu_mb),
    }


def devices_of_this_version() -> Any:
    """Import `devices`, which was in `pam.training` before there was a `pam.runtime`."""
    try:
        return importlib.import_module("pam.runtime.devices")
    except ModuleNotFoundError:
        return importlib.import_module("pam.training.devices")


def usable_precision(args: argparse.Namespace) -> str:
    """Return the precision of both versions.

    It is the one asked for, or float32 where a CPU has no use for bfloat16.
    """
    if args.precision != "bf16":
        return str(args.precision)

    from pam.runtime import devices, processor

    device = devices.choose_device(args.device)
    if device.type == "cuda" or processor.try_bfloat16().pays:
        return "bf16"
    sys.stderr.write(f"in float32: {processor.try_bfloat16().reason}\n")
    return "float32"


def main(words: list[str]) -> None:
    if words[:1] == ["--steps"]:
        sys.stdout.write(json.dumps(steps(argparse.Namespace(**json.loads(words[1])))))
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
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds in which batches count")
    parser.add_argument("--beam", type=int, default=0, help="search with this beam, after training")
    parser.add_argument("--trained", type=int, default=100, help="steps before a search")
    args = parser.parse_args(words)
    args.precision = usable_precision(args)

    for row in compare(args):
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
