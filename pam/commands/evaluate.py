"""`analyze`, `attention`, `score` and `significance`: what a trained model does, and how well."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pam.commands import Command
from pam.commands.train import add_device, add_run
from pam.run_folder import RunFolder

if TYPE_CHECKING:
    from pam.evaluation.scores import Scores

SPLITS = ("train", "dev", "test", "gold")


def _add_data_and_out(parser: argparse.ArgumentParser, out: str) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help="prepared data (default: those of the run's task)")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"{out} (default: in the run's folder)")


def add_analyze(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "a trained model")
    parser.add_argument("--split", default="test", choices=SPLITS)
    _add_data_and_out(parser, "analysis.json")
    parser.add_argument("--batch-size", type=int, metavar="N", help="rows side by side (default: the run's own)")
    add_device(parser)


def run_analyze(args: argparse.Namespace) -> int:
    from pam.evaluation.analyze import analyze, load_writer_of_symbols
    from pam.evaluation.attention import save
    from pam.io import UserError
    from pam.training.devices import keep_heap, limit_threads

    keep_heap()
    limit_threads()
    if args.batch_size is not None and args.batch_size < 1:
        raise UserError(f"--batch-size {args.batch_size}", hint="use a whole number, at least 1")
    folder = RunFolder(args.run)
    model = load_writer_of_symbols(folder.model, args.device)
    batch_size = args.batch_size or model.run.decoding.batch_size
    found = analyze(model, args.data or folder.data(args.split), args.split, batch_size)
    save(found, args.out or folder.analysis(args.split))
    return 0


def add_attention(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "a trained model")
    parser.add_argument("--split", default="test", choices=SPLITS[:3])
    _add_data_and_out(parser, "attention.json")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--rows", help="row numbers from 0, separated by commas")
    chosen.add_argument("--count", type=int, default=4, help="so many telling rows, spread evenly")


def run_attention(args: argparse.Namespace) -> int:
    from pam.evaluation.analyze import heat_maps, load_writer_of_symbols
    from pam.io import UserError, write_json

    folder = RunFolder(args.run)
    model = load_writer_of_symbols(folder.model)
    if args.count < 1:
        raise UserError(f"--count {args.count}", hint="use a whole number, at least 1")
    try:
        rows = None if args.rows is None else [int(part) for part in args.rows.split(",")]
    except ValueError as error:
        raise UserError(f"--rows {args.rows}", hint="write numbers, such as 0,5,9") from error
    data = args.data or folder.data(args.split)
    maps = heat_maps(model, data, args.split, args.count, rows)
    write_json(args.out or folder.attention, maps)
    return 0


def add_score(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "all files that the options below would name", required=False)
    parser.add_argument("--split", default="test", help="that was predicted or aligned")
    parser.add_argument(
        "--predictions",
        type=Path,
        nargs="+",
        default=[],
        help="instead of a run: files of predictions, one a beam, the main beam's first",
    )
    parser.add_argument(
        "--decoding",
        type=Path,
        nargs="+",
        default=[],
        help="decoding.json of each file of predictions, for beam and cost",
    )
    parser.add_argument("--data", type=Path, help="prepared data that the rows must agree with")
    parser.add_argument("--analysis", type=Path, help="analysis.json, for perplexity or alignments")
    parser.add_argument("--training", type=Path, help="training.json, for the cost")
    parser.add_argument("--kind", help="kind of scoring (default: the kind of task of --data)")
    parser.add_argument("--out", type=Path, help="scores.json (default: in the run's folder; no run: print metrics)")


def run_score(args: argparse.Namespace) -> int:
    from pam.evaluation.scores import Scored, files_of, save, score
    from pam.io import UserError

    named = ("predictions", "decoding", "data", "analysis", "training", "kind")
    given = {name: getattr(args, name) for name in named if getattr(args, name)}
    if args.run is None:
        files = Scored(split=args.split, **given)
    elif given:
        raise UserError("--run and single files", hint="name a run, or its files, not both")
    else:
        files = files_of(RunFolder(args.run), args.split)
    found = score(files)
    out = args.out or (args.run and RunFolder(args.run).scores(args.split))
    if out:
        save(found, out)
    else:
        _print(found)
    return 0


def _print(scores: Scores) -> None:
    for name, value in scores.metrics.items():
        unit = f" {value.unit}" if value.unit else ""
        sys.stdout.write(
            f"{name}: {value.value:.2f}{unit} [{value.low:.2f}, {value.high:.2f}] "
            f"of {value.n}, {len(scores.units)} {scores.over}\n"
        )


def add_significance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--baseline", type=Path, required=True, metavar="DIR", help="run of the baseline")
    parser.add_argument(
        "--systems", type=Path, nargs="+", required=True, metavar="DIR", help="runs of other models on the same task"
    )
    parser.add_argument("--split", default="test", choices=SPLITS[:3])
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")


def run_significance(args: argparse.Namespace) -> int:
    from pam.evaluation.translation import compare_runs
    from pam.io import write_json

    systems = [RunFolder(path) for path in args.systems]
    write_json(args.out, compare_runs(RunFolder(args.baseline), systems, args.split).model_dump())
    return 0


ANALYZE = Command(
    "likelihood, entropy, coverage and word links of a split, under teacher forcing", add_analyze, run_analyze
)
ATTENTION = Command(
    "write the alignments of a model for rows of a split, under teacher forcing", add_attention, run_attention
)
SCORE = Command("score predictions or alignments, with intervals, and add up the cost", add_score, run_score)
SIGNIFICANCE = Command(
    "test translations against the baseline's: sacreBLEU's paired bootstrap", add_significance, run_significance
)
