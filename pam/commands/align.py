"""`align`: links between the words of two files, by trained models."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, get_args

from pam.alignment.choices import ProgramName, Symmetrization
from pam.commands import DEVICE, command, folder, option, output, path

if TYPE_CHECKING:
    import torch

    from pam.alignment.aligner import WordAlignment
    from pam.alignment.files import StreamAligner
    from pam.alignment.pair_models import PairModel

MODEL = "a run's folder, a model folder, a file that `export` wrote, or pretrained:NAME"


@command(
    "link the words of sentence pairs, one pair a line, by one model or two of opposite directions",
    [
        option("--run", f"the model: {MODEL}", metavar="MODEL"),
        option(
            "--pretrained",
            "a model that comes with the package, as --run pretrained:NAME",
            metavar="NAME",
            dest="run",
            type="pretrained:{}".format,
        ),
        option(
            "--hf",
            "a folder of a model of `transformers` with posterior attention, and of its tokenizer;"
            " --reverse then names such a folder",
            metavar="FOLDER",
        ),
        option(
            "--aligner",
            "a program in place of a model, if it is installed; it learns from the text itself",
            choices=get_args(ProgramName),
        ),
    ],
    option(
        "--reverse",
        "a model of the opposite direction, named likewise (default: the one that --run was trained"
        " with for agreement, if there is one)",
        metavar="MODEL",
    ),
    path("--source", "sentences of the language that the model reads, one a line", required=True),
    path("--target", "their translations, line by line", required=True),
    option(
        "--symmetrize",
        "how links of two directions become one set (default: product of models with posteriors,"
        " else grow-diag-final-and); none: links of the first one alone",
        choices=get_args(Symmetrization),
    ),
    option(
        "--threshold",
        "link all words with at least this probability (default: each target word to its most"
        " probable source word, unless none is more probable)",
        type=float,
        metavar="P",
    ),
    option(
        "--smooth",
        "let later target words tell of earlier ones, where the model's positions are coupled",
        action="store_true",
    ),
    option(
        "--format",
        "pharaoh: `0-0 1-2`, source word and target word counted from 0; jsonl: an object a line,"
        " with words and probabilities",
        choices=("pharaoh", "jsonl"),
        default="pharaoh",
    ),
    option(
        "--probabilities",
        "write the probability of each link, as `0-0:0.93`; in jsonl the whole matrix",
        action="store_true",
    ),
    option(
        "--offsets",
        "words are those of the model's tokenizer, with their places in the line (default: what is"
        " between spaces); needs --format jsonl",
        action="store_true",
    ),
    output("--out", "file to write (default: standard output)"),
    output("--record", "JSON file to write: numbers of pairs and links, and the time"),
    folder(
        "--gold",
        "prepared word alignments, whose sentences are aligned after the text; --record has their"
        " scores",
    ),
    option(
        "--if-installed",
        "write blank links, and the reason into --record, where --aligner is not installed",
        action="store_true",
    ),
    option("--batch-size", "pairs aligned side by side", type=int, default=64, metavar="N"),
    option(
        "--longest",
        "symbols of a sentence from which on a pair is left out",
        type=int,
        default=1000,
        metavar="N",
    ),
    DEVICE,
    examples=[
        "pam align --pretrained de-en/aligner --smooth --source a.de --target a.en",
        "pam align --run results/mine/de-en/postr-joint/seed1 --source a.de --target a.en",
        "pam align --run DE_EN --reverse EN_DE --source a.de --target a.en --out links.txt",
        "pam align --hf FOLDER --source a.de --target a.en --out links.txt",
        "pam align --aligner eflomal --source a.de --target a.en --out links.txt",
    ],
)
def align(args: Namespace) -> int:
    from pam.alignment.aligner import BLANK
    from pam.alignment.files import Counts, text_pairs, told
    from pam.alignment.peers import NotInstalledError
    from pam.alignment.record import SMOOTHED, AlignerRecord, GoldSentences, Seconds
    from pam.alignment.symmetrization import DEFAULT, ONE_DIRECTION
    from pam.evaluation.records import save
    from pam.runtime.devices import keep_heap, limit_threads
    from pam.runtime.files import atomic_write

    keep_heap()
    limit_threads()
    _check(args)
    gold = None
    if args.gold is not None:
        gold = GoldSentences.read(args.gold)

    seconds = Seconds()
    counts = Counts()
    reason = ""
    chosen: Chosen | None = None
    try:
        chosen = _by_models(args) if args.aligner is None else _by_program(args)
    except NotInstalledError as error:
        if not args.if_installed:
            raise
        reason = error.message
        sys.stderr.write(f"note: {reason}\n")

    with ExitStack() as stack:
        out: IO[str] = sys.stdout
        if args.out is not None:
            temporary = stack.enter_context(atomic_write(args.out))
            out = stack.enter_context(open(temporary, "w", encoding="utf-8"))

        pairs = text_pairs(args.source, args.target)
        if chosen is None:
            alignments: Iterator[WordAlignment] = (BLANK for _ in pairs)
        elif gold is None:
            alignments = told(chosen.aligner.stream(pairs), args.source, counts)
        else:
            with_gold = chosen.aligner.stream(gold.after(pairs))
            alignments = told(gold.without(with_gold), args.source, counts)
        for number, alignment in enumerate(alignments, 1):
            out.write(f"{_line(args, alignment, number)}\n")

    if args.record is not None:
        spent = seconds.spent()
        reading = args.symmetrize or DEFAULT
        if chosen is not None:
            reading = chosen.aligner.reading
        if gold is not None and chosen is not None:
            gold.count(gold.alignments, SMOOTHED if args.smooth else "")
            if chosen.smoothed is not None:
                gold.count(list(chosen.smoothed.stream(gold.pairs)), SMOOTHED)
        record = AlignerRecord(
            aligner=args.aligner if chosen is None else chosen.name,
            seed=None if chosen is None else chosen.seed,
            directions=1 if reading == ONE_DIRECTION else 2,
            reading=reading + SMOOTHED if args.smooth else reading,
            pairs=counts.pairs,
            blank=counts.blank,
            problems=counts.problems,
            links=counts.links,
            training_cpu_s=None if chosen is None else chosen.training_cpu_s,
            scores=None if gold is None else gold.scores(),
            readings={} if gold is None else gold.readings,
            reason=reason,
            **spent,
        )
        save(record, args.record)
    return 0


@command(
    "make a table of aligners from the records that `align --record` wrote",
    path("--records", "records, in the order of the table", nargs="+", required=True),
    output("--out", "Markdown file to write (default: standard output)"),
    examples=["pam aligners --records ours.json eflomal.json"],
)
def aligners(args: Namespace) -> int:
    from pam.reporting.aligners import table
    from pam.reporting.render import to_markdown
    from pam.runtime.files import write_text

    text = to_markdown(table(args.records))
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_text(args.out, text)
    return 0


def _check(args: Namespace) -> None:
    """Check that options fit together."""
    from pam.runtime.errors import UserError

    if args.run is None and args.hf is None and args.aligner is None:
        raise UserError("no aligner", hint="name a model with --run, or a program with --aligner")
    for name in ("run", "hf", "reverse"):
        if getattr(args, name) == "":
            raise UserError(f"--{name} names nothing", hint="name a model")
    if args.gold is not None and args.record is None:
        raise UserError("--gold without --record", hint="--record FILE gets the scores")
    if args.offsets and args.format != "jsonl":
        raise UserError("--offsets", hint="add --format jsonl, which has a place for them")
    if args.offsets and args.gold is not None:
        raise UserError("--offsets and --gold", hint="gold links are of words between spaces")
    if args.aligner is None and args.if_installed:
        raise UserError("--if-installed without --aligner", hint="leave it out")
    for name in ("reverse", "threshold", "smooth", "offsets", "probabilities"):
        if args.aligner is not None and getattr(args, name):
            raise UserError(f"--aligner and --{name}", hint="that needs a model: --run or --hf")


@dataclass(frozen=True)
class Chosen:
    """The aligner that is asked for."""

    name: str
    aligner: StreamAligner
    seed: int | None = None  # of a model
    training_cpu_s: float | None = None  # of all models; None if unknown
    smoothed: StreamAligner | None = None  # the same with smoothing, where that changes something


def _by_program(args: Namespace) -> Chosen:
    """Return the program that is asked for."""
    from pam.alignment.peers import ProgramAligner

    return Chosen(args.aligner, ProgramAligner(args.aligner, args.symmetrize))


def _by_models(args: Namespace) -> Chosen:
    """Return the models that are asked for."""
    from pam.alignment.aligner import Aligner, Settings
    from pam.models.interfaces import Smoothing
    from pam.runtime.devices import choose_device

    device = choose_device(args.device)
    names = [args.hf if args.run is None else args.run]
    if args.reverse is not None:
        names.append(args.reverse)
    seed = None
    if args.hf is not None:
        models = _models_of_transformers(names, device)
    else:
        models, seed = _saved_models(names, device)
    settings = Settings(
        symmetrize=args.symmetrize,
        threshold=args.threshold,
        smooth=args.smooth,
        tokenized=args.offsets,
        longest=args.longest,
        batch_size=args.batch_size,
    )
    model = models[0]
    reverse = None
    if args.reverse is not None:
        reverse = models[1]
    aligner = Aligner(model, reverse, settings)
    for note in aligner.notes():
        sys.stderr.write(f"note: {note}\n")

    smoothed = None
    if not args.smooth and model.smoothing in (Smoothing.EXACT, Smoothing.APPROXIMATE):
        smoothed = Aligner(model, reverse, replace(settings, smooth=True))
    return Chosen(
        name=model.label,
        aligner=aligner,
        seed=seed,
        training_cpu_s=_training_seconds(names),
        smoothed=smoothed,
    )


def _saved_models(names: Sequence[str], device: torch.device) -> tuple[list[PairModel], int]:
    """Return models of this package by their names, and the seed of the first."""
    from pam.alignment.pair_models import SavedPairModel
    from pam.library import api

    saved = [api.load(name, device).saved for name in names]
    models: list[PairModel] = [SavedPairModel(model) for model in saved]
    return models, saved[0].run.seed


def _models_of_transformers(folders: Sequence[str], device: torch.device) -> list[PairModel]:
    """Return models of `transformers` by their folders."""
    # First, as it says if `transformers` is missing.
    import pam.hf  # noqa: F401
    from pam.hf.pair_model import HubPairModel

    return [HubPairModel.load(folder, device) for folder in folders]


def _training_seconds(names: Sequence[str]) -> float | None:
    """Return the CPU seconds of the trainings of models; None if one is no run's folder."""
    from pam.experiments.run_folder import RunFolder
    from pam.runtime.files import read_json

    seconds = []
    for name in names:
        file = RunFolder(Path(name)).training
        if not file.is_file():
            return None
        seconds.append(float(read_json(file)["cpu_s"]))
    return round(sum(seconds), 3)


def _line(args: Namespace, alignment: WordAlignment, number: int) -> str:
    """Return an alignment in the format that is asked for."""
    from pam.alignment.formats import jsonl, pharaoh

    if args.format == "pharaoh":
        return pharaoh(alignment, with_probabilities=args.probabilities)
    return jsonl(
        alignment,
        number,
        with_probabilities=args.probabilities,
        with_offsets=args.offsets,
    )
