"""`predict`: outputs of a trained model, for a prepared split or for what a person types."""

from __future__ import annotations

import argparse
import io
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pam.config import Decoding
    from pam.data.tasks import Task
    from pam.decoding.search import Output
    from pam.models.saved import Model

HELP = "decode: a prepared split with --data, else lines of standard input (LEMMA<tab>FEATURES)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="model folder of a training")
    parser.add_argument("--data", type=Path, help="prepared data; its sources are decoded")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--out", type=Path, help="predictions.tsv, with --data")
    parser.add_argument("--record", type=Path, help="decoding.json: cost and unseen symbols")
    parser.add_argument("--beam", type=int, help="hypotheses kept (default: the model's own)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def run(args: argparse.Namespace) -> int:
    from pam.data.tasks import load_task
    from pam.errors import UserError
    from pam.models.saved import load_model
    from pam.training.devices import choose_device, limit_threads
    from pam.training.memory import keep_heap

    keep_heap()
    limit_threads()
    if args.beam is not None and args.beam < 1:
        raise UserError(f"beam {args.beam}", remedy="use a whole number, at least 1")
    if args.data is not None and args.out is None:
        raise UserError("--data without --out", remedy="name the file to write with --out")
    if args.data is None and (args.out is not None or args.record is not None):
        raise UserError(
            "--out and --record are for prepared data",
            remedy="name it with --data, or leave them out: typed lines go to standard output",
        )
    model = load_model(args.model, choose_device(args.device))
    decoding = model.cell.decoding
    if args.beam is not None:
        decoding = decoding.model_copy(update={"beam": args.beam})
    task = load_task(model.task)
    if args.data is None:
        return _typed(model, task, decoding)
    return _split(args, model, task, decoding)


def _typed(model: Model, task: Task, decoding: Decoding) -> int:
    """Decodes each line of standard input as it comes; a faulty line ends the run by name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        columns, source = _typed_source(line, number, task)
        unseen = [symbol for symbol in source if symbol not in model.source]
        if unseen:
            sys.stderr.write(f"line {number}: not seen in training: {' '.join(unseen)}\n")
        (output,) = _decode(model, [source], decoding)
        if not output.complete:
            sys.stderr.write(f"line {number}: cut short at {len(output.symbols)} symbols\n")
        sys.stdout.write("\t".join([*columns, _text(model, task, output)]) + "\n")
        sys.stdout.flush()
    return 0


def _typed_source(line: bytes, number: int, task: Task) -> tuple[list[str], list[str]]:
    """Columns of a line and the symbols of the source that they are.

    Raises:
        UserError: they are none; names the line.
    """
    from pam.errors import UserError

    place: dict[str, Any] = {"file": "standard input", "line": number}
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError("not UTF-8 text", **place, remedy="type or save it as UTF-8") from error
    columns = text.rstrip("\r\n").split("\t")
    try:
        return columns, task.source_symbols(columns)
    except UserError as error:
        raise UserError(error.message, **place, remedy=error.remedy) from error


def _split(args: argparse.Namespace, model: Model, task: Task, decoding: Decoding) -> int:
    from pam.data.prepared import Prepared
    from pam.files import write_json, write_text
    from pam.training.record import Stopwatch, hardware

    rows = Prepared(args.data).rows(args.split)
    sources = [task.source_symbols(row[:-1]) for row in rows]
    device = next(model.network.parameters()).device
    watch = Stopwatch(device)
    outputs = _decode(model, sources, decoding)
    wall, cpu, gpu = watch.lap()
    unseen = Counter(symbol for row in sources for symbol in row if symbol not in model.source)
    lines = ["\t".join([*task.COLUMNS, "predicted", "log_prob"])]
    for row, output in zip(rows, outputs, strict=True):
        lines.append("\t".join([*row, _text(model, task, output), f"{output.log_prob:.6f}"]))
    write_text(args.out, "\n".join(lines) + "\n")
    if args.record is not None:
        record: dict[str, Any] = {
            "wall_s": wall,
            "cpu_s": cpu,
            "gpu_s": gpu,
            "sentences_per_second": len(rows) / wall,
            "beam": decoding.beam,
            "cut_short": sum(not output.complete for output in outputs),
            "unseen": dict(sorted(unseen.items())),
            "device": str(device),
            "hardware": hardware(device),
        }
        write_json(args.record, record)
    return 0


def _text(model: Model, task: Task, output: Output) -> str:
    return task.target_text(model.target.decode(output.symbols))


def _decode(model: Model, sources: Sequence[list[str]], decoding: Decoding) -> list[Output]:
    """Decodes sources in batches of similar length; the outputs are in the order given."""
    from pam.decoding.search import decode

    encoded = [model.source.encode(source) for source in sources]
    return decode(model.network, encoded, decoding, model.cell.choices.targets == "actions")
