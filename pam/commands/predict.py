"""`predict`: outputs of a trained model, for a prepared split or for what a person types."""

from __future__ import annotations

import argparse
import io
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pam.config import Decoding, RunConfig
    from pam.data.tokenizers import Codec
    from pam.decoding.decoder import Decoder, Hypothesis
    from pam.decoding.sampling import Sampling

HELP = "decode: a prepared split with --data, else each line of standard input"
HINT = "lower `decoding.batch_size`, or the beam"
MOST_UNSEEN = 100
"""Symbols that the record of a decoding counts one by one."""
TELL_EVERY_S = 20.0
log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="model folder of a training")
    parser.add_argument("--data", type=Path, help="prepared data; its sources are decoded")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--out", type=Path, help="predictions.tsv, with --data")
    parser.add_argument("--record", type=Path, help="decoding.json: cost and unseen symbols")
    parser.add_argument(
        "--run", type=Path, help="run.yaml whose `decoding` counts, not the model's own"
    )
    parser.add_argument("--beam", type=int, help="hypotheses kept (default: the model's own)")
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
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def run(args: argparse.Namespace) -> int:
    from pam.decoding.decoder import Decoder
    from pam.models.saved import load_model
    from pam.training.devices import choose_device, keep_heap, limit_threads

    keep_heap()
    limit_threads()
    _check(args)
    model = load_model(args.model, choose_device(args.device))
    run = _run(args, model.run)
    sampling = _sampling(args, run)
    decoder = Decoder(model, args.model, run.decoding, args.n_best, sampling)
    return _typed(decoder) if args.data is None else _split(args, decoder)


def _check(args: argparse.Namespace) -> None:
    """Checks that options go together.

    Raises:
        UserError: they do not.
    """
    from pam.io import UserError

    if args.data is not None and args.out is None:
        raise UserError("--data without --out", hint="name the file to write with --out")
    if args.data is None and (args.out is not None or args.record is not None):
        raise UserError(
            "--out and --record are for prepared data",
            hint="name it with --data, or leave them out: typed lines go to standard output",
        )
    if args.beam is not None and args.beam < 1:
        raise UserError(f"beam {args.beam}", hint="use a whole number, at least 1")
    if args.n_best < 1:
        raise UserError(f"--n-best {args.n_best}", hint="use a whole number, at least 1")
    if args.temperature is not None and not args.temperature > 0:
        raise UserError(f"--temperature {args.temperature}", hint="use a number above 0")
    if args.seed is not None and args.seed < 0:
        raise UserError(f"--seed {args.seed}", hint="use a whole number, at least 0")
    if not args.sample and (args.temperature is not None or args.seed is not None):
        raise UserError(
            "--temperature and --seed are for sampling", hint="add --sample, or leave them out"
        )


def _run(args: argparse.Namespace, own: RunConfig) -> RunConfig:
    """How outputs are searched: the options, over the run, over what the model was trained with.

    Raises:
        UserError: a value that is not possible.
    """
    from pam.config import load_run
    from pam.io import parse

    if args.run is not None:
        own = load_run(args.run)
    names = ("beam", "length_penalty", "length_prior", "replace_unknown")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    decoding = parse(type(own.decoding), own.decoding.model_dump() | given)
    return own.model_copy(update={"decoding": decoding})


def _sampling(args: argparse.Namespace, run: RunConfig) -> Sampling | None:
    """How outputs are drawn, if they are: by the options, or else by the run and its seed."""
    from pam.decoding.sampling import Sampling

    if args.sample:
        return Sampling(args.temperature or 1.0, 1 if args.seed is None else args.seed)
    temperature = run.decoding.temperature
    return None if temperature is None else Sampling(temperature, run.seed)


def _typed(decoder: Decoder) -> int:
    """Decodes each line of standard input as it comes; a faulty line ends the run by name.

    One line gives one line, and a blank one a blank one; several outputs of a line stand on lines
    of their own, after the line's number, the rank and the score.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            _answer_line(decoder, number, _typed_source(line, number, decoder.model.codec))
        elif decoder.wanted == 1:
            sys.stdout.write("\n")
        sys.stdout.flush()
    return 0


def _answer_line(decoder: Decoder, number: int, source: list[str]) -> None:
    unseen = decoder.unseen(source)
    if unseen:
        sys.stderr.write(f"line {number}: not seen in training: {' '.join(unseen)}\n")
    (answers,) = decoder([source], first=number)
    for rank, answer in enumerate(answers, 1):
        if not answer.complete:
            sys.stderr.write(f"line {number}: cut short at {answer.symbols} symbols\n")
        place = f"{number}\t{rank}\t{answer.score:.4f}\t" if decoder.wanted > 1 else ""
        sys.stdout.write(f"{place}{answer.text}\n")


def _typed_source(line: bytes, number: int, codec: Codec) -> list[str]:
    """Symbols of the source that a line is.

    Raises:
        UserError: it is none; names the line.
    """
    from pam.io import UserError

    place: dict[str, Any] = {"file": "standard input", "line": number}
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError("not UTF-8 text", **place, hint="type or save it as UTF-8") from error
    try:
        return codec.source_symbols(codec.typed_source(text.rstrip("\r\n")))
    except UserError as error:
        raise UserError(error.message, **place, hint=error.hint) from error


def _split(args: argparse.Namespace, decoder: Decoder) -> int:
    from pam.decoding.prepared import prepared_for
    from pam.io import write_json, write_text
    from pam.training.devices import enough_for
    from pam.training.logging import Stopwatch, hardware

    model = decoder.model
    rows = prepared_for(model, args.data).rows(args.split)
    sources = [model.codec.source_symbols(row[:-1]) for row in rows]
    device = next(model.network.parameters()).device
    watch = Stopwatch(device)
    size = decoder.decoding.batch_size
    with enough_for(f"the decoding of {size} sources side by side", HINT):
        answers = decoder(sources, told=_teller(len(sources)))
    wall, cpu, gpu = watch.lap()
    write_text(args.out, _table(model.codec, rows, answers, ranked=decoder.wanted > 1))
    if args.record is not None:
        cost = {"wall_s": wall, "cpu_s": cpu, "gpu_s": gpu}
        best = [found[0] for found in answers]
        unseen = Counter(symbol for source in sources for symbol in decoder.unseen(source))
        machine = {"device": str(device), "hardware": hardware(device)}
        counts = _counts(decoder.decoding, best, unseen, wall)
        write_json(args.record, cost | counts | _drawn(decoder.sampling) | machine)
    return 0


def _drawn(sampling: Sampling | None) -> dict[str, Any]:
    """How outputs were drawn, if they were."""
    return {} if sampling is None else {"sampling": vars(sampling)}


def _table(
    codec: Codec,
    rows: Sequence[tuple[str, ...]],
    answers: Sequence[Sequence[Hypothesis]],
    ranked: bool,
) -> str:
    """Tab-separated lines, one for each output; with ranks and scores where there are several."""
    ranks = ("rank", "score") if ranked else ()
    lines = ["\t".join([*codec.columns, "predicted", "log_prob", "text", *ranks])]
    for row, found in zip(rows, answers, strict=True):
        for rank, answer in enumerate(found, 1):
            runs = [*row, answer.target, f"{answer.log_prob:.6f}", answer.text]
            lines.append("\t".join(runs + [str(rank), f"{answer.score:.6f}"][: len(ranks)]))
    return "\n".join(lines) + "\n"


def _counts(
    decoding: Decoding, best: Sequence[Hypothesis], unseen: Counter[str], wall: float
) -> dict[str, Any]:
    """What a decoding was like, by the best output of each source."""
    symbols = sum(answer.symbols + answer.complete for answer in best)
    names = ("beam", "length_penalty", "length_prior", "replace_unknown")
    return {
        "sentences_per_second": len(best) / wall,
        "symbols_per_second": symbols / wall,
        "sentences": len(best),
        **{name: getattr(decoding, name) for name in names},
        "cut_short": sum(not answer.complete for answer in best),
        "empty": sum(not answer.target for answer in best),
        "unknown": sum(answer.unknown for answer in best),
        "replaced": sum(answer.replaced for answer in best),
        "unseen": dict(sorted(unseen.most_common(MOST_UNSEEN))),
        "unseen_total": unseen.total(),
    }


def _teller(total: int) -> Callable[[int], None]:
    """Tells now and then how many sources are done, and how long the others will take."""
    began = told = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= TELL_EVERY_S:
            told = now
            left = (now - began) * (total - done) / done
            log.info("decoded %d of %d, about %.0f s to go", done, total, left)

    return tell
