"""`bench`: training and decoding speed of the models, side by side."""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam.commands import Command
from pam.run_folder import command_line

if TYPE_CHECKING:
    import torch

    from pam.benchmark import Plan
    from pam.data.dataset import Prepared


def add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="prepared data (default: prepares the German nouns)")
    parser.add_argument(
        "--models",
        nargs="+",
        default=[
            "soft", "hard-mono", "prior-joint", "postr-joint", "postr-joint:6",
            "prox-postr-joint", "mono-postr-joint",
        ],
        help="names in config/models; NAME:K sums over the K most probable positions",
    )  # fmt: skip
    parser.add_argument("--embedding", type=int, default=64, help="units of an embedding")
    parser.add_argument("--encoder", type=int, default=128, help="LSTM units a direction")
    parser.add_argument("--decoder", type=int, default=128, help="LSTM units")
    parser.add_argument("--layers", type=int, default=1, help="of encoder and decoder")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each model")
    parser.add_argument("--batches", type=int, default=10, help="batches in a turn")
    parser.add_argument("--warm-up", type=int, default=10, help="batches before any is timed")
    parser.add_argument("--beams", type=int, nargs="*", default=[1, 4], help="searches to time; none: only training")
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"), default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--beside",
        type=int,
        metavar="N",
        help="instead, whether N trainings at once take less time than one after another",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=Path("results/bench.json"), help="JSON with the same figures")


def run_bench(args: argparse.Namespace) -> int:
    import torch

    from pam.benchmark import beside, german_nouns, measure, named_model, print_beside, print_record
    from pam.data.dataset import Prepared
    from pam.io import write_json
    from pam.training.devices import choose_device, keep_heap, use_precision

    keep_heap()
    torch.set_num_threads(args.threads)
    device = choose_device(args.device)
    use_precision(args.precision)
    plan = _plan(args)
    models = {name: named_model(name) for name in args.models}
    with tempfile.TemporaryDirectory() as folder:
        data = Prepared(args.data or german_nouns(Path(folder)))
        if args.beside:
            rows = [
                {"model": name, **beside(components, data, plan, args.beside, args.threads)}
                for name, components in models.items()
            ]
        else:
            rows = measure(models, data, plan, device)
        record = _record(args, plan, data, device, rows)
    print_beside(rows) if args.beside else print_record(record)
    write_json(args.out, record)
    sys.stdout.write(f"written to {args.out}\n")
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    from pam.benchmark import Plan
    from pam.config import Network

    network = Network(
        embedding=args.embedding,
        encoder=args.encoder,
        decoder=args.decoder,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
    )
    return Plan(
        network, args.batch_size, args.rounds, args.batches, args.warm_up, tuple(args.beams), args.precision == "bf16"
    )


def _record(
    args: argparse.Namespace, plan: Plan, data: Prepared, device: torch.device, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """The figures, with all that they depend on."""
    from pam.training.devices import hardware, peak_memory_mb, versions

    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command_line(),
        "data": data.summary["dataset"],
        "clock": "wall seconds" if device.type == "cuda" or args.beside else "CPU seconds",
        "threads": args.threads,
        "network": plan.network.model_dump(),
        "batch_size": args.batch_size,
        "precision": args.precision,
        "vocabulary": {"source": len(data.source), "target": len(data.target)},
        "hardware": hardware(device),
        "versions": versions(),
        "peak_memory_mb": round(peak_memory_mb()),
        "rows": rows,
    }


BENCH = Command("measure training and decoding speed of models, side by side, on one core", add_bench, run_bench)
