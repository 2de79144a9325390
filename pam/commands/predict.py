"""`predict`: outputs of a trained model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pam.commands import Command
from pam.commands.train import add_config, add_device, add_run, run_folder

if TYPE_CHECKING:
    from pam.config import RunConfig
    from pam.decoding.search import Sampling

SEARCH = ("beam", "length_penalty", "length_prior", "replace_unknown")
"""Options that override the run's `decoding`."""


def add_predict(parser: argparse.ArgumentParser) -> None:
    add_run(parser, "a trained model", required=False)
    add_config(parser)
    parser.add_argument("--model", type=Path, metavar="DIR", help="instead of --run: a model folder by itself")
    parser.add_argument(
        "--split",
        choices=("train", "dev", "test"),
        help="of the prepared data; without this and --data, standard input is decoded",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="prepared data (default: those of the run's task)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="predictions.tsv (default: in the run's folder)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="decoding.json: cost and unseen symbols")
    parser.add_argument("--beam", type=int, help="hypotheses kept (default: the run's own)")
    parser.add_argument("--n-best", type=int, default=1, metavar="N", help="outputs a source")
    parser.add_argument("--sample", action="store_true", help="draw outputs instead of searching")
    parser.add_argument("--temperature", type=float, help="with --sample: below 1 less random")
    parser.add_argument("--seed", type=int, help="with --sample")
    parser.add_argument("--length-penalty", type=float, help="log p is divided by length^this")
    parser.add_argument("--length-prior", type=float, help="weight of log p(length)")
    parser.add_argument(
        "--replace-unknown",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="an unknown word becomes the source word most attended",
    )
    add_device(parser)


def run_predict(args: argparse.Namespace) -> int:
    from pam.decoding.generator import Generator, predict_lines, predict_split
    from pam.models.checkpoint import load_model
    from pam.training.devices import choose_device, keep_heap, limit_threads

    keep_heap()
    limit_threads()
    _check(args)
    folder = run_folder(args) if args.run else None
    model_folder = folder.model if folder else args.model
    model = load_model(model_folder, choose_device(args.device))
    # Of a run that was only trained there is no run.yaml.
    known = folder is not None and (args.config or folder.config_file.is_file())
    run = _with_options(folder.load() if folder and known else model.run, args)
    decoder = Generator(model, model_folder, run.decoding, args.n_best, _sampling(args, run))
    if args.split is None and args.data is None:
        predict_lines(decoder, args.n_best)
        return 0
    split, beam, record = args.split or "test", run.decoding.beam, args.record
    out, data = args.out, args.data
    if folder:
        record = record or (None if out else folder.decoding(split, beam))
        out, data = out or folder.predictions(split, beam), data or folder.data(split)
    predict_split(decoder, data, split, out, record, args.n_best)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Checks that options go together.

    Raises:
        UserError: they do not.
    """
    from pam.io import UserError

    if (args.run is None) == (args.model is None):
        raise UserError("which model is not said", hint="name its folder: --run, or --model")
    if args.split is None and args.data is None:
        if args.out is not None or args.record is not None:
            raise UserError(
                "--out and --record are for prepared data",
                hint="name a --split, or leave them out: typed lines go to standard output",
            )
    elif args.run is None and None in (args.data, args.out):
        missing = "--data" if args.data is None else "--out"
        raise UserError(f"a split and no {missing}", hint=f"name it with {missing}, or a run with --run")
    if args.beam is not None and args.beam < 1:
        raise UserError(f"beam {args.beam}", hint="use a whole number, at least 1")
    if args.n_best < 1:
        raise UserError(f"--n-best {args.n_best}", hint="use a whole number, at least 1")
    if args.temperature is not None and not args.temperature > 0:
        raise UserError(f"--temperature {args.temperature}", hint="use a number above 0")
    if args.seed is not None and args.seed < 0:
        raise UserError(f"--seed {args.seed}", hint="use a whole number, at least 0")
    if not args.sample and (args.temperature is not None or args.seed is not None):
        raise UserError("--temperature and --seed are for sampling", hint="add --sample, or leave them out")


def _with_options(run: RunConfig, args: argparse.Namespace) -> RunConfig:
    """The run, with how it is decoded as the options say.

    Raises:
        UserError: a value that is not possible.
    """
    from pam.io import parse

    given = {name: getattr(args, name) for name in SEARCH if getattr(args, name) is not None}
    decoding = parse(type(run.decoding), run.decoding.model_dump() | given)
    return run.model_copy(update={"decoding": decoding})


def _sampling(args: argparse.Namespace, run: RunConfig) -> Sampling | None:
    """How outputs are drawn, if they are: by the options, or else by the run and its seed."""
    from pam.decoding.generator import sampling_of
    from pam.decoding.search import Sampling

    if args.sample:
        return Sampling(args.temperature or 1.0, 1 if args.seed is None else args.seed)
    return sampling_of(run.decoding, run.seed)


PREDICT = Command("decode a split, or each line of standard input", add_predict, run_predict)
