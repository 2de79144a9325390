"""Trains models by two versions of the package at the same time, and says how many steps a second
each does.

    python benchmarks/versions.py OLD NEW --data DIR --models soft postr-joint:0.99 --device cuda

OLD and NEW are folders that hold `pam` and `config`, such as checkouts; DIR is a folder of prepared
data. Each model of each version has a process of its own. All of them count steps in the same
seconds, so that what slows one slows all.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def compare(given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each model: steps per second by both versions, and the ratio, new over old."""
    begin, running = time.time() + given.lead, {}
    for model in given.models:
        for version in ("old", "new"):
            folder, settings = (
                str(getattr(given, version).resolve()),
                vars(given) | {"model": model, "begin": begin},
            )
            told = json.dumps(settings, default=lambda path: str(path.resolve()))
            command = [sys.executable, str(Path(__file__).resolve()), "--steps", told]
            environment = os.environ | {"PYTHONPATH": folder}
            running[model, version] = subprocess.Popen(
                command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
            )
    found = {}
    for key, process in running.items():
        said, _ = process.communicate()
        if process.returncode:
            sys.exit(f"error: {key[0]} by the {key[1]} version failed, as it says above")
        found[key] = json.loads(said)
    rows = []
    for model in given.models:
        old, new = found[model, "old"], found[model, "new"]
        if not (old["steps"] and new["steps"]):
            sys.exit(
                f"error: no step of {model} was done in {given.seconds} s: raise --lead or"
                " --seconds"
            )
        ratio = new["per_second"] / old["per_second"]
        rows.append({"model": model, "old": old, "new": new, "new_over_old": round(ratio, 3)})
    return rows


def steps(given: argparse.Namespace) -> dict[str, Any]:
    """Steps of one training from the moment `begin` on; what a version before this file offers is
    all it uses.
    """
    import torch

    from pam import benchmark
    from pam.config import Network
    from pam.data.dataset import Prepared

    if not Path(benchmark.__file__).is_relative_to(Path.cwd()):
        sys.exit(
            f"error: {Path.cwd()} has no pam/benchmark.py; that of {benchmark.__file__} was found"
            " in its place"
        )
    devices = devices_of_this_version()
    devices.keep_heap()
    torch.set_num_threads(1)
    devices.use_precision(given.precision)
    device = devices.choose_device(given.device)
    network = Network(
        embedding=given.units, encoder=given.units // 2, decoder=given.units, dropout=0.3
    )
    components, data = benchmark.named_model(given.model), Prepared(Path(given.data))
    plan = benchmark.Plan(network, given.batch_size, 1, 0, 0, [], given.precision, 1)
    model = benchmark.fresh(components, data, plan, device)
    batches, work = (
        benchmark.batches_of(data, components, plan, device),
        benchmark.training(model, plan),
    )
    for batch in batches[:6]:
        work(batch)
    benchmark.clock(device)
    time.sleep(max(0.0, given.begin - time.time()))
    began, count = time.time(), 0
    while time.time() < given.begin + given.seconds:
        work(batches[count % len(batches)])
        benchmark.clock(device)  # waits for the device
        count += 1
    rate = count / (time.time() - began) if count else 0.0
    memory = devices.peak_gpu_memory_mb(device)
    return {"steps": count, "per_second": round(rate, 2), "gpu_mb": memory and round(memory)}


def devices_of_this_version() -> Any:
    """The module `devices`, which was in `pam.training` before there was a `pam.runtime`."""
    try:
        return importlib.import_module("pam.runtime.devices")
    except ModuleNotFoundError:
        return importlib.import_module("pam.training.devices")


def usable_precision(given: argparse.Namespace) -> str:
    """The precision of both versions: the one asked for, or float32 where a CPU has no use for
    bfloat16.
    """
    if given.precision != "bf16":
        return str(given.precision)

    from pam.runtime import devices, processor

    device = devices.choose_device(given.device)
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
    parser.add_argument(
        "--lead", type=float, default=15.0, help="seconds that the processes have to get ready"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds in which steps count")
    given = parser.parse_args(words)
    given.precision = usable_precision(given)
    for row in compare(given):
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
