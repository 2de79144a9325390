"""`bench`: training and decoding speed of the models, side by side."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from pam.benchmark import Plan
    from pam.config import ModelConfig
    from pam.data.dataset import Prepared

HELP = "measure training and decoding speed of models, side by side, on one core"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, help="prepared data (default: prepares the German nouns)"
    )
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
    parser.add_argument(
        "--beams", type=int, nargs="*", default=[1, 4], help="searches to time; none: only training"
    )
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"), default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--beside",
        type=int,
        metavar="N",
        help="instead, whether N trainings at once take less time than one after another",
    )
    parser.add_argument(
        "--reference", action="store_true", help="time the plain reference computation too"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--out", type=Path, default=Path("results/bench.json"), help="JSON with the same figures"
    )


def run(args: argparse.Namespace) -> int:
    import torch

    from pam.benchmark import measure
    from pam.benchmark_beside import beside
    from pam.data.dataset import Prepared
    from pam.io import write_json
    from pam.training.devices import choose_device, keep_heap, use_precision

    keep_heap()
    torch.set_num_threads(args.threads)
    device = choose_device(args.device)
    use_precision(args.precision)
    plan = _plan(args)
    models = {name: _components(name) for name in args.models}
    with tempfile.TemporaryDirectory() as folder:
        data = Prepared(args.data or _german_nouns(Path(folder)))
        if args.beside:
            rows = [
                {"model": name, **beside(components, data, plan, args.beside, args.threads)}
                for name, components in models.items()
            ]
        else:
            rows = measure(models, data, plan, device, args.reference)
        record = _record(args, plan, data, device, rows)
    _print_beside(rows) if args.beside else _print(record)
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
        network,
        args.batch_size,
        args.rounds,
        args.batches,
        args.warm_up,
        tuple(args.beams),
        args.precision == "bf16",
    )


def _record(
    args: argparse.Namespace,
    plan: Plan,
    data: Prepared,
    device: torch.device,
    rows: list[dict[str, Any]],
) -> dict[str, Any]:
    """The figures, with all that they depend on."""
    from pam.training.logging import hardware, peak_memory_mb, versions

    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": shlex.join(["python", "-m", "pam", *sys.argv[1:]]),
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


def _components(name: str) -> ModelConfig:
    """A model by its name; `NAME:K` cuts its sum over positions to the top K."""
    from pam.config import kind_of, load_model
    from pam.io import UserError

    stem, _, top_k = name.partition(":")
    components = load_model(stem)
    if not top_k:
        return components
    if not top_k.isdigit():
        raise UserError(f"model `{name}`", hint="write NAME or NAME:K, K a whole number")
    kind, options = kind_of(components.marginalization)
    cut = {"top_k": int(top_k)} | ({"q_top_k": int(top_k)} if kind == "bound" else {})
    return components.model_copy(update={"marginalization": {"kind": kind, **options, **cut}})


def _german_nouns(folder: Path) -> Path:
    """Prepares the German nouns that the default experiment is trained on."""
    from pam.commands.fetch import REGISTRY
    from pam.data.download import fetch
    from pam.data.prepare import prepare
    from pam.data.registry import find_dataset

    dataset = find_dataset([REGISTRY], "de-noun")
    fetch("de-noun", dataset, folder / "raw")
    prepare("de-noun", dataset, folder / "raw", folder / "prepared")
    return folder / "prepared"


def _print_beside(rows: list[dict[str, Any]]) -> None:
    line = "{:<28} {:>9} {:>19} {:>9} {:>19}\n"
    heads = ("model", "at once", "lowest - highest", "in turn", "time at once / turn")
    sys.stdout.write("examples per wall second, all trainings together\n" + line.format(*heads))
    for row in rows:
        spread = f"{row['lowest']:.0f} - {row['highest']:.0f}"
        rates = f"{row['at_once']:.0f}", spread, f"{row['in_turn']:.0f}"
        sys.stdout.write(line.format(row["model"], *rates, f"{row['time_ratio']:.2f}"))


def _print(record: dict[str, Any]) -> None:
    machine = record["hardware"]
    sys.stdout.write(
        f"{machine['gpu'] or machine['cpu']}, {record['threads']} thread(s), "
        f"torch {record['versions']['torch']}, {record['date']}; {record['data']}, batch "
        f"{record['batch_size']}; rates per {record['clock'].removesuffix('s')}\n"
    )
    line = "{:<34} {:<28} {:>9} {:>19} {:>9} {:>8}\n"
    heads = ("what", "model", "rate", "lowest - highest", "tokens", "time")
    sys.stdout.write(line.format(*heads))
    for row in record["rows"]:
        spread = f"{row['lowest']:.0f} - {row['highest']:.0f}"
        rates = f"{row['per_second']:.0f}", spread, f"{row['tokens_per_second']:.0f}"
        ratio = f"{row['time_vs_first']:.2f}"
        sys.stdout.write(line.format(row["what"], row["model"], *rates, ratio))
