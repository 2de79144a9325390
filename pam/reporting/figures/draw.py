"""Every kind of figure with its options, drawn and written as SVG and PNG.

To add a kind: a function that returns a figure, and a line in `KINDS` and in
`pam.reporting.catalogue.FIGURE_CODE`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pam.io import unknown
from pam.reporting.figures import attention, curves, models, style, translation


@dataclass(frozen=True)
class Option:
    """An option of the command line, and how argparse reads it."""

    name: str
    reading: dict[str, Any]


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure: a function of its options, which are named as the function's arguments."""

    draw: Callable[..., Figure]
    help: str
    options: tuple[Option, ...]


def _files(name: str, text: str) -> Option:
    return Option(name, {"type": Path, "nargs": "+", "required": True, "help": text})


def _file(name: str, text: str) -> Option:
    return Option(name, {"type": Path, "required": True, "help": text})


EXPERIMENT = _file("--experiment", "configuration (YAML)")
SCORES = _files("--scores", "scores.json of every run")
ANALYSES = _files("--analyses", "analysis.json of every run")
HISTORIES = _files("--histories", "history.csv of every run, its run.yaml in the same folder")
DATA = _files("--data", "summary.json of the tasks' data")
BASE = _file("--base", "attention.json of Soft")
OTHER = _file("--other", "attention.json of Postr-Joint")
ROWS = Option("--rows", {"type": int, "default": 4, "help": "rows to draw (%(default)s)"})
EVAL_METRICS = Option(
    "--eval-metrics",
    {
        "action": "store_true",
        "help": "accuracy of single symbols, objective and perplexity, in place of accuracy and "
        "loss",
    },
)
METRIC = Option(
    "--metric",
    {
        "default": "accuracy",
        "help": "its name, or a pattern such as bleu_b*, of which each task's first is drawn "
        "(%(default)s)",
    },
)
PAPER = Option(
    "--paper",
    {
        "type": Path,
        "default": Path("config/paper_results.yaml"),
        "help": "the papers' results (%(default)s)",
    },
)
PAPER_TABLE = Option(
    "--paper-table", {"help": "table of that file to show with ours; none: no paper's marks"}
)
COMPARED = (EXPERIMENT, SCORES, METRIC, PAPER, PAPER_TABLE)

KINDS: dict[str, FigureKind] = {
    "quality": FigureKind(
        models.quality,
        "a metric by model with 95 % intervals, seeds and the paper's mark",
        COMPARED,
    ),
    "gains": FigureKind(
        models.gains,
        "gain over the baseline, better to the right, with paired 95 % intervals, and the paper's",
        COMPARED,
    ),
    "cost": FigureKind(
        models.cost, "a metric against CPU (or GPU) seconds of training and decoding", COMPARED
    ),
    "curves": FigureKind(
        curves.curves,
        "quality on the development split by epoch, mean over seeds, seeds thin",
        (EXPERIMENT, HISTORIES, EVAL_METRICS),
    ),
    "attention": FigureKind(
        attention.attention,
        "heat maps of two models' alignments and their difference on some rows of the test split",
        (BASE, OTHER, ROWS),
    ),
    "entropy_accuracy": FigureKind(
        translation.entropy_accuracy,
        "accuracy of the next symbol by the entropy of attention, and how often it is that high",
        (EXPERIMENT, ANALYSES),
    ),
    "coverage": FigureKind(
        translation.coverage,
        "how much of a source sentence, and of a source word, attention has covered at the end",
        (EXPERIMENT, ANALYSES),
    ),
    "bleu_by_length": FigureKind(
        translation.bleu_by_length,
        "BLEU of sentences of similar length by model, with the main beam, mean over seeds",
        (EXPERIMENT, SCORES),
    ),
    "bleu_by_size": FigureKind(
        translation.bleu_by_size,
        "BLEU of models trained on more and more pairs of the same data, mean over seeds",
        (EXPERIMENT, SCORES, DATA),
    ),
}


def parser_of(kind: str, program: str | None = None) -> argparse.ArgumentParser:
    """The parser of a kind's options.

    Raises:
        UserError: no such kind; names the closest.
    """
    if kind not in KINDS:
        raise unknown("kind of figure", kind, list(KINDS))
    parser = argparse.ArgumentParser(program, description=KINDS[kind].help)
    for option in KINDS[kind].options:
        parser.add_argument(option.name, **option.reading)
    return parser


def write(kind: str, words: Sequence[str], program: str | None = None) -> None:
    """Draws a figure in the common style and writes it where `--out` says.

    Args:
        words: its options, as on the command line.

    Raises:
        UserError: no such kind, or files of which it cannot be drawn.
    """
    parser = parser_of(kind, program)
    parser.add_argument(
        "--out", type=Path, required=True, help="an .svg or .png; the other is written too"
    )
    options = vars(parser.parse_args(words))
    out = options.pop("out")
    with style.styled():
        style.save(KINDS[kind].draw(**options), out)
