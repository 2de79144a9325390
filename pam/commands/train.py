"""`train`, `ensemble`, `reuse`, `length-penalty`, `predict`, `export`: models and their outputs."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

from pam.commands import (
    CONFIG,
    DATA,
    DEVICE,
    SPLITS,
    command,
    folder,
    option,
    output,
    path,
    run_with,
)
from pam.experiments.run_folder import RunFolder

if TYPE_CHECKING:
    from pam.decoding.files import Answer
    from pam.decoding.generator import Generator
    from pam.evaluation.length_penalty import Choice
    from pam.experiments.settings import Decoding


@command(
    "train one model; a training that was stopped resumes from its last state",
    run_with("run.yaml; results are written there"),
    CONFIG,
    DATA,
    folder("--state", "the training's state (default: RUN/state)"),
    DEVICE,
    option(
        "--code",
        "name of the code: a training resumes only from a state of the same code (default: the"
        " code's fingerprint)",
    ),
    option(
        "--processes",
        "number of processes that share the training; each has a GPU if there are GPUs",
        type=int,
        default=1,
    ),
    examples=[
        "pam train --run results/quick/de-noun/soft/seed1",
    ],
)
def train(args: Namespace) -> int:
    from pam.training.run import train

    run = RunFolder(args.run, args.config)
    data = args.data or run.data()
    state = args.state or run.path / "state"
    if run.asked_again.is_file():
        from pam.training.again import forget

        forget(run, data, state, args.code)

    return train(run, data, state, args.device, args.code, args.processes)


@command(
    "combine trained models in an ensemble",
    run_with("run.yaml of an ensemble, beside the runs of its members"),
    CONFIG,
    examples=[
        "pam ensemble --run results/small/multi30k/ensemble/seed1",
    ],
)
def ensemble(args: Namespace) -> int:
    from pam.training.run import join

    join(RunFolder(args.run, args.config))
    return 0


@command(
    "copy a trained model, to test it on another task",
    run_with("no results yet; they are written there"),
    folder("--trained", "folder of the run that has the model", required=True),
    DATA,
    examples=[
        "pam reuse --run results/mine/other/soft/seed1 --trained results/mine/nouns/soft/seed1",
    ],
)
def reuse(args: Namespace) -> int:
    from pam.training.run import reuse as reuse_model

    run = RunFolder(args.run)
    reuse_model(run, RunFolder(args.trained), args.data or run.data())
    return 0


@command(
    "choose from `decoding.length_penalties` the length penalty with the best BLEU on the"
    " development split",
    run_with("a trained model"),
    CONFIG,
    DATA,
    output("--out", "length_penalty.json (default: in the run's folder, one per beam)"),
    option("--beam", "hypotheses that are followed (default: the run's own)", type=int),
    DEVICE,
    examples=[
        "pam length-penalty --run results/small/multi30k/soft/seed1 --beam 4",
    ],
)
def length_penalty(args: Namespace) -> int:
    from pam.decoding.generator import Generator
    from pam.evaluation.length_penalty import choose
    from pam.evaluation.records import save
    from pam.experiments.parsing import parse
    from pam.models.checkpoint import load_model
    from pam.runtime.devices import choose_device, keep_heap, limit_threads

    keep_heap()
    limit_threads()
    folder = RunFolder(args.run, args.config)
    decoding = folder.load().decoding
    if args.beam is not None:
        decoding = parse(type(decoding), decoding.model_dump() | {"beam": args.beam})

    model = load_model(folder.model, choose_device(args.device))
    generator = Generator(model, decoding, penalties=decoding.length_penalties)
    choice = choose(generator, args.data or folder.data("dev"))
    save(choice, args.out or folder.length_penalty(decoding.beam))

    return 0


@command(
    "decode a split of prepared data, the lines of a file, or the lines of standard input",
    run_with("a trained model", required=False),
    CONFIG,
    path(
        "--model",
        "instead of --run: a model folder without its run, or an export (file or folder)",
        "PATH",
    ),
    option(
        "--pretrained",
        "instead of --run: a model that comes with the package; an unknown name lists them all",
    ),
    option(
        "--split",
        "split of the prepared data; without --split, --data and --input, standard input is"
        " decoded",
        choices=SPLITS,
    ),
    path(
        "--input",
        "file of sources, one per line, compressed or not; with --n-best, each line gets a line"
        " of JSON",
    ),
    output(
        "--attention",
        "with --input: draw the attention of the first lines' outputs (.svg or .png)",
    ),
    option(
        "--weights",
        "with --input and --n-best: add each output's tokens, attention and, if the model"
        " copies, p_gen",
        action="store_true",
    ),
    DATA,
    output(
        "--out",
        "predictions.tsv (default: in the run's folder); with --input the outputs (default:"
        " standard output)",
    ),
    output("--record", "decoding.json, the record of cost and unseen symbols"),
    option(
        "--batch-size",
        "number of sources decoded at once (default: the run's own)",
        type=int,
        metavar="N",
    ),
    option(
        "--each-line",
        "summarize each line of standard input, not all of it as one text",
        action="store_true",
    ),
    option("--beam", "hypotheses that are followed (default: the run's own)", type=int),
    option("--n-best", "number of outputs for each source", type=int, default=1, metavar="N"),
    option("--sample", "sample outputs instead of searching", action="store_true"),
    option("--temperature", "with --sample: below 1 is less random (default: 1)", type=float),
    option("--seed", "with --sample: seed of the random numbers (default: 1)", type=int),
    option(
        "--length-penalty",
        "divide log p by length^this (default: the run's, or its choice on the development split)",
        type=float,
    ),
    option("--length-prior", "weight of log p(target length | source length)", type=float),
    option(
        "--replace-unknown",
        "replace an unknown word by the source word with the highest attention",
        action=BooleanOptionalAction,
    ),
    DEVICE,
    examples=[
        "echo 'Am 14. Mai waren es 5 Grad.' | pam predict --pretrained phrases/postr-joint",
        "pam predict --pretrained phrases/postr-joint --input phrases.de --beam 4 --n-best 2",
        "pam predict --run results/mine/nouns/soft/seed1 --input words.tsv --attention words.svg",
    ],
)
def predict(args: Namespace) -> int:
    from pam.decoding.generator import Generator, predict_lines, sampling_of
    from pam.decoding.search import Sampling
    from pam.experiments.model import PRETRAINED
    from pam.library import api
    from pam.models.checkpoint import load_model
    from pam.runtime.devices import choose_device, keep_heap, limit_threads

    keep_heap()
    limit_threads()
    _check_search(args)

    folder = None
    choices: Mapping[int, Choice] = {}
    if args.run is not None:
        folder = RunFolder(args.run, args.config)
        model = load_model(folder.model, choose_device(args.device))
    else:
        name = args.model if args.pretrained is None else f"{PRETRAINED}{args.pretrained}"
        loaded = api.load(name, choose_device(args.device))
        model = loaded.saved
        choices = loaded.choices

    # A run that was only trained has no run.yaml.
    run = model.run
    if folder is not None and (args.config or folder.config_file.is_file()):
        run = folder.load()

    beam = args.beam or run.decoding.beam
    penalty = _chosen_penalty(args, folder, choices, run.decoding, beam)
    decoding = _changed_decoding(args, run.decoding, penalty)
    sampling = sampling_of(decoding, run.seed)
    if args.sample:
        seed = 1 if args.seed is None else args.seed
        sampling = Sampling(args.temperature or 1.0, seed)

    # Outputs of prepared data are compared with those without a penalty.
    penalties = []
    if penalty is not None and not _reads_lines(args) and args.n_best == 1:
        penalties = [penalty, 0.0]

    generator = Generator(model, decoding, args.n_best, sampling, penalties)
    if args.input is not None:
        return _predict_file(args, generator)
    if _reads_lines(args):
        predict_lines(generator, args.n_best, args.each_line)
        return 0

    _predict_split(args, generator, folder, beam)
    return 0


@command(
    "export a trained model as one file or folder, with a model card",
    run_with("a trained model"),
    path(
        "--out",
        "a file, NAME.pam, or a new folder in the layout of model hubs",
        "PATH",
        required=True,
    ),
    option("--half", "store the weights in float16", action="store_true"),
    option("--force", "replace a file that is there; a folder never is", action="store_true"),
    examples=[
        "pam export --run results/quick/de-noun/postr-joint/seed1 --out postr-joint.pam",
    ],
)
def export(args: Namespace) -> int:
    from pam.library.exporting import export as export_model
    from pam.models.checkpoint import load_model

    run = RunFolder(args.run)
    model = load_model(run.model)
    config = model.run
    # A run that was only trained has no run.yaml.
    if run.config_file.is_file():
        config = run.load()

    export_model(model, config, run, args.out, args.half, args.force)
    return 0


def _changed_decoding(args: Namespace, decoding: Decoding, penalty: float | None) -> Decoding:
    """Return a run's decoding with what the command line says, and with a chosen penalty."""
    from pam.experiments.parsing import parse

    values = decoding.model_dump() | {"length_penalties": []}
    for name in ("batch_size", "beam", "length_penalty", "length_prior", "replace_unknown"):
        if getattr(args, name) is not None:
            values[name] = getattr(args, name)
    if penalty is not None:
        values["length_penalty"] = penalty
    return parse(type(decoding), values)


def _reads_lines(args: Namespace) -> bool:
    """Return whether lines of text are decoded, rather than prepared data."""
    return args.split is None and args.data is None


def _predict_split(
    args: Namespace, generator: Generator, folder: RunFolder | None, beam: int
) -> None:
    """Decode a split of prepared data; the run's folder says where what is not named."""
    from pam.decoding.generator import predict_split

    split = args.split or "test"
    data = args.data
    out = args.out
    record = args.record

    if folder is not None:
        if record is None and out is None:
            record = folder.decoding(split, beam)
        data = data or folder.data(split)
        out = out or folder.predictions(split, beam)

    predict_split(generator, data, split, out, record, args.n_best)


def _predict_file(args: Namespace, generator: Generator) -> int:
    """Answer the lines of --input."""
    from pam.decoding.files import DRAWN, answers, attended, check_symbols, read_again
    from pam.runtime.errors import UserError
    from pam.runtime.files import atomic_write

    if args.attention is not None and args.attention.suffix not in (".svg", ".png"):
        raise UserError(
            f"--attention {args.attention}", hint="write a name that ends in .svg or .png"
        )

    if args.attention is not None or args.weights:
        check_symbols(generator.model)

    drawn: list[Answer] = []
    with ExitStack() as stack:
        out: IO[str] = sys.stdout
        if args.out is not None:
            temporary = stack.enter_context(atomic_write(args.out))
            out = stack.enter_context(open(temporary, "w", encoding="utf-8"))

        for answer in answers(generator, args.input):
            reading = read_again(generator, answer) if args.weights else None
            line = answer.json(reading) if args.n_best > 1 else answer.text()
            out.write(f"{line}\n")
            if answer.outputs and len(drawn) < DRAWN:
                drawn.append(answer)

    if args.attention is not None:
        from pam.reporting import style
        from pam.reporting.figures.attention import of_outputs

        with style.styled():
            style.save(of_outputs(attended(generator, drawn)), args.attention)
        sys.stderr.write(
            f"{args.attention}: attention of {len(drawn)} lines, at most the first {DRAWN}\n"
        )

    return 0


def _chosen_penalty(
    args: Namespace,
    run: RunFolder | None,
    exported: Mapping[int, Choice],
    decoding: Decoding,
    beam: int,
) -> float | None:
    """Return the length penalty chosen on the development split, if there were several.

    None where one is named on the command line, or outputs are drawn.
    """
    if not decoding.length_penalties or args.sample or args.length_penalty is not None:
        return None
    from pam.evaluation.length_penalty import chosen_penalty

    return chosen_penalty(run, exported, decoding, beam)


def _check_search(args: Namespace) -> None:
    """Check that the options of `predict` go together; a UserError names the first that do not."""
    from pam.runtime.errors import UserError

    for is_wrong, message, hint in (*_wrong_files(args), *_wrong_values(args)):
        if is_wrong:
            raise UserError(message, hint=hint or None)


def _wrong_files(args: Namespace) -> list[tuple[bool, str, str]]:
    """List what can be wrong about models, sources and outputs: whether it is, message and hint."""
    lines = _reads_lines(args)
    has_output = args.out is not None or args.record is not None
    models = sum(name is not None for name in (args.run, args.model, args.pretrained))
    missing = "--data" if args.data is None else "--out"

    return [
        (models != 1, "exactly one model is needed", "name one: --run, --model or --pretrained"),
        (
            args.input is not None and not lines,
            "--input and prepared data exclude each other",
            "name one of the two",
        ),
        (
            args.input is None and args.attention is not None,
            "--attention is for --input",
            "name a file of sources",
        ),
        (
            args.weights and (args.input is None or args.n_best == 1),
            "--weights is for JSON",
            "name a file of sources with --input, and two outputs or more with --n-best",
        ),
        (
            lines and args.input is None and has_output,
            "--out and --record are not for lines from standard input",
            "redirect them with > FILE, or name their file with --input, or prepared data with"
            " --split",
        ),
        (
            lines and args.input is None and sys.stdin is None,
            "standard input is closed; name a file of sources with --input",
            "",
        ),
        (
            args.input is not None and args.record is not None,
            "--record is for prepared data",
            "leave it out",
        ),
        (
            args.batch_size is not None and args.batch_size < 1,
            f"--batch-size {args.batch_size}",
            "use a whole number, at least 1",
        ),
        (
            not lines and args.run is None and None in (args.data, args.out),
            f"a split and no {missing}",
            f"name it with {missing}, or a run with --run",
        ),
    ]


def _wrong_values(args: Namespace) -> list[tuple[bool, str, str]]:
    """List what can be wrong about the search: whether it is, message and hint."""
    at_least_1 = "use a whole number, at least 1"
    is_drawn = args.temperature is not None or args.seed is not None
    return [
        (args.beam is not None and args.beam < 1, f"beam {args.beam}", at_least_1),
        (args.n_best < 1, f"--n-best {args.n_best}", at_least_1),
        (
            args.temperature is not None and not args.temperature > 0,
            f"--temperature {args.temperature}",
            "use a number above 0",
        ),
        (
            args.seed is not None and args.seed < 0,
            f"--seed {args.seed}",
            "use a whole number, at least 0",
        ),
        (
            is_drawn and not args.sample,
            "--temperature and --seed are for sampling",
            "add --sample, or leave them out",
        ),
    ]
