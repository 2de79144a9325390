"""Draw each kind of figure and write it as SVG and PNG, its data as CSV.

To add a kind: write a function that returns a `Drawing` and whose arguments are in `OPTIONS`, and a
line in `KINDS` and in `pam.reporting.catalogue.FIGURE_CODE`.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pam.reporting import style
from pam.reporting.figures import attention, curves, models, sweeps
from pam.reporting.runs import LeftOutError
from pam.runtime.errors import unknown

KINDS: dict[str, Callable[..., style.Drawing]] = {
    "quality": models.quality,
    "gains": models.gains,
    "cost": models.cost,
    "sweep": sweeps.sweep,
    "attention": attention.attention,
    "curves": curves.curves,
    "bleu_by_length": curves.bleu_by_length,
    "bleu_by_size": curves.bleu_by_size,
    "entropy_accuracy": attention.entropy_accuracy,
    "coverage": attention.coverage,
}

_FILE: dict[str, Any] = {"type": Path, "required": True}
_FILES: dict[str, Any] = {"type": Path, "required": True, "nargs": "+"}
OPTIONS: dict[str, dict[str, Any]] = {
    "experiment": _FILE | {"help": "configuration (YAML)"},
    "scores": _FILES | {"help": "scores.json of every run"},
    "analyses": _FILES | {"help": "analysis.json of every run"},
    "histories": _FILES | {"help": "history.csv of every run, run.yaml in the same folder"},
    "data": _FILES | {"help": "summary.json of the tasks' data"},
    "base": _FILE | {"help": "attention.json of Soft"},
    "other": _FILE | {"help": "attention.json of Postr-Joint"},
    "more": {
        "type": Path,
        "nargs": "*",
        "help": "attention.json of more models, whose weights the data have too",
    },
    "rows": {"type": int, "default": 4, "help": "rows to draw (%(default)s)"},
    "metric": {
        "default": "accuracy",
        "help": (
            "its name, or a pattern such as bleu_b*, of which each task's first is drawn"
            " (%(default)s)"
        ),
    },
    "paper": {
        "type": Path,
        "default": Path("config/paper_results.yaml"),
        "help": "the papers' results (%(default)s)",
    },
    "paper_table": {"help": "table of that file to show with ours; none: no paper's marks"},
    "eval_metrics": {
        "action": "store_true",
        "help": "accuracy of single symbols, objective and perplexity, not accuracy and loss",
    },
}


def parser_of(kind: str, program: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of a kind's options.

    Raises:
        UserError: there is no such kind; the error names the closest.
    """
    if kind not in KINDS:
        raise unknown("kind of figure", kind, list(KINDS))

    parser = argparse.ArgumentParser(program, description=inspect.getdoc(KINDS[kind]))
    for name in inspect.signature(KINDS[kind]).parameters:
        parser.add_argument(f"--{name.replace('_', '-')}", **OPTIONS[name])
    return parser


def write(kind: str, words: Sequence[str], program: str | None = None) -> None:
    """Draw a figure in the common style and write it where `--out` says.

    Args:
        words: options as on the command line.

    Raises:
        UserError: there is no such kind, or it cannot be drawn of these files.
    """
    parser = parser_of(kind, program)
    parser.add_argument(
        "--out", type=Path, required=True, help="an .svg or .png; the other is written too"
    )
    options = vars(parser.parse_args(words))
    out = options.pop("out")

    with style.styled():
        try:
            drawing = KINDS[kind](**options)
        except LeftOutError as error:
            # The page shows why, where it would have shown the metric.
            drawing = style.in_words(f"Left out: {error.message}.")

        style.save(drawing, out)
