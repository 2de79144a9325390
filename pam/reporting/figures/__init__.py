"""Draw each kind of figure and write it as SVG and PNG, its data as CSV.

To add a kind: write a function that returns a `Drawing` and whose arguments are in `OPTIONS`, and a
line in `pam.reporting.catalogue.DRAWINGS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pam.reporting import style
from pam.reporting.catalogue import DRAWINGS
from pam.reporting.runs import LeftOutError
from pam.runtime.errors import unknown
from pam.runtime.parser import Parser
from pam.tasks import imported

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


def drawing_of(kind: str) -> Callable[..., style.Drawing]:
    """Import the function that draws a kind of figure.

    Raises:
        UserError: there is no such kind; the error names the closest.
    """
    if kind not in DRAWINGS:
        raise unknown("kind of figure", kind, list(DRAWINGS))
    draw: Callable[..., style.Drawing] = imported(DRAWINGS[kind])
    return draw


def parser_of(kind: str, program: str | None = None) -> Parser:
    """Return the parser of a kind's options.

    Raises:
        UserError: there is no such kind; the error names the closest.
    """
    draw = drawing_of(kind)
    parser = Parser(prog=program, description=inspect.getdoc(draw))
    for name in inspect.signature(draw).parameters:
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
    parser.add_argument(
        "--narrow", type=Path, help="an .svg to draw again for a phone, its panels in one column"
    )
    options = vars(parser.parse_args(words))
    out = options.pop("out")
    narrow = options.pop("narrow")

    with style.styled():
        style.save(_draw(kind, options), out)
    if narrow is not None:
        with style.styled(style.NARROW):
            style.save(_draw(kind, options), narrow, formats=["svg"])


def _draw(kind: str, options: Mapping[str, Any]) -> style.Drawing:
    """Draw a figure; one that the page leaves out is the sentence that says why."""
    try:
        return drawing_of(kind)(**options)
    except LeftOutError as error:
        return style.in_words(f"Left out: {error.message}.")
