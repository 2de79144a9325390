"""`align`: links between the words of two files, by trained models."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import ExitStack
from typing import IO

from pam.commands import DEVICE, command, option, path

MODEL = "a run's folder, a model folder, a file that `export` wrote, or pretrained:NAME"
# The names of `pam.alignment.symmetrization`, which takes long to import.
SYMMETRIZATIONS = (
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final",
    "grow-diag-final-and",
    "product",
)


@command(
    "link the words of sentence pairs, one pair a line, by one model or two of opposite directions",
    option("--run", f"the model: {MODEL}", required=True, metavar="MODEL"),
    option("--reverse", "a model of the opposite direction, named likewise", metavar="MODEL"),
    path("--source", "sentences of the language that the model reads, one a line", required=True),
    path("--target", "their translations, line by line", required=True),
    option(
        "--symmetrize",
        "how links of two directions become one set (default: grow-diag-final-and)",
        choices=SYMMETRIZATIONS,
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
    path("--out", "file to write (default: standard output)"),
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
        "pam align --run results/mine/de-en/postr-joint/seed1 --source a.de --target a.en",
        "pam align --run DE_EN --reverse EN_DE --source a.de --target a.en --out links.txt",
    ],
)
def align(args: Namespace) -> int:
    from pam.alignment.aligner import Aligner, Settings
    from pam.alignment.files import align_files
    from pam.alignment.formats import jsonl, pharaoh
    from pam.library import api
    from pam.runtime.devices import choose_device, keep_heap, limit_threads
    from pam.runtime.errors import UserError
    from pam.runtime.files import atomic_write

    keep_heap()
    limit_threads()
    if args.offsets and args.format != "jsonl":
        raise UserError("--offsets", hint="add --format jsonl, which has a place for them")

    device = choose_device(args.device)
    model = api.load(args.run, device).saved
    reverse = None
    if args.reverse is not None:
        reverse = api.load(args.reverse, device).saved
    settings = Settings(
        symmetrize=args.symmetrize,
        threshold=args.threshold,
        smooth=args.smooth,
        tokenized=args.offsets,
        longest=args.longest,
        batch_size=args.batch_size,
    )
    aligner = Aligner(model, reverse, settings)
    for note in aligner.notes():
        sys.stderr.write(f"note: {note}\n")

    with ExitStack() as stack:
        out: IO[str] = sys.stdout
        if args.out is not None:
            temporary = stack.enter_context(atomic_write(args.out))
            out = stack.enter_context(open(temporary, "w", encoding="utf-8"))

        for number, alignment in enumerate(align_files(aligner, args.source, args.target), 1):
            if args.format == "jsonl":
                line = jsonl(
                    alignment,
                    number,
                    with_probabilities=args.probabilities,
                    with_offsets=args.offsets,
                )
            else:
                line = pharaoh(alignment, with_probabilities=args.probabilities)
            out.write(f"{line}\n")

    return 0
