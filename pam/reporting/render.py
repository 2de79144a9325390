"""One table as CSV, Markdown, LaTeX and HTML, and how its numbers are written."""

from __future__ import annotations

import html
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, Literal, NamedTuple

import pandas as pd

from pam.io import write_text

FORMATS = (".csv", ".md", ".tex", ".html")


class Column(NamedTuple):
    """A column for people: its heading, and a template of a row's values, such as `{low:.2f}`.

    The text is empty where a value is unknown. Alignment: `l` for text, `p` for text that may need several lines and
    `r` for numbers.
    """

    heading: str
    text: str
    align: Literal["l", "p", "r"] = "r"


TASK, MODEL, SEEDS = Column("Task", "{task_label}", "l"), Column("Model", "{label}", "l"), Column("Seeds", "{n}")


@dataclass(frozen=True)
class Table:
    """A table for machines (`data`, the CSV) and for people (`shown`, all other formats).

    Attributes:
        data: one row per row of the CSV; None is written as an empty cell.
        shown: text; several columns may have the same heading.
        align: one letter per column of `shown`, as `Column` has them.
        notes: paragraphs below the table.
        group: a line is drawn between rows that differ in so many first columns of `shown`.
    """

    title: str
    data: pd.DataFrame
    shown: pd.DataFrame
    align: str
    notes: tuple[str, ...] = ()
    group: int = 1

    @property
    def rows(self) -> list[tuple[bool, tuple[str, ...]]]:
        """The rows for people, each with whether a line is drawn above it."""
        rows = list(self.shown.itertuples(index=False, name=None))
        before = [row[: self.group] for row in rows[:1] + rows]
        return [(before[place] != row[: self.group], row) for place, row in enumerate(rows)]


def table_of(
    title: str,
    frame: pd.DataFrame,
    csv: Sequence[str],
    digits: Mapping[str, int],
    shown: Sequence[Column],
    notes: Sequence[str] = (),
    group: int = 1,
) -> Table:
    """A table of a frame: columns `csv` for machines, with the `digits` of each or as they are; `shown` for people."""
    rows = frame.to_dict("records")
    records = [[_rounded(row[name], digits.get(name)) for name in csv] for row in rows]
    texts = [[_filled(column.text, row) for column in shown] for row in rows]
    return Table(
        title,
        # As objects: an integer next to an unknown one does not become a float.
        pd.DataFrame(records, columns=list(csv), dtype=object),
        pd.DataFrame(texts, columns=[column.heading for column in shown], dtype=object),
        "".join(column.align for column in shown),
        tuple(notes),
        group,
    )


def _filled(template: str, row: dict[Hashable, Any]) -> str:
    names = [name for _, name, _, _ in Formatter().parse(template) if name]
    return "" if any(pd.isna(row[name]) for name in names) else template.format_map(row)


def _rounded(value: Any, digits: int | None) -> Any:
    """A number with enough digits for machines, and no noise behind them."""
    return value if value is None or digits is None else round(value, digits)


def signed(value: float | None, digits: int) -> str:
    """`+1.37`; a difference that rounds to nothing has no sign, an unknown one no text."""
    if value is None:
        return ""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def probability(value: float) -> str:
    """`0.013`, and `< 0.001` below that."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


# The four formats.


def write(table: Table, folder: Path | str, name: str) -> None:
    """Writes `<folder>/<name>` in all `FORMATS`."""
    texts = (to_csv(table), to_markdown(table), to_latex(table, name), to_html(table))
    for ending, text in zip(FORMATS, texts, strict=True):
        write_text(Path(folder) / f"{name}{ending}", text)


def to_csv(table: Table) -> str:
    return table.data.to_csv(index=False, lineterminator="\n")


def to_markdown(table: Table) -> str:
    """A pipe table, padded so that it can be read as plain text too."""
    texts = [tuple(table.shown.columns), *(row for _, row in table.rows)]
    rows = [tuple(_markdown(text) for text in row) for row in texts]
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]

    padded = [
        [
            text.rjust(width) if side == "r" else text.ljust(width)
            for side, text, width in zip(table.align, row, widths, strict=True)
        ]
        for row in rows
    ]
    rule = ["-" * (width - 1) + (":" if side == "r" else "-") for side, width in zip(table.align, widths, strict=True)]
    body = "\n".join(f"| {' | '.join(row)} |" for row in (padded[0], rule, *padded[1:]))
    notes = [_markdown(note) for note in table.notes]
    return "\n\n".join([f"### {_markdown(table.title)}", body, *notes]) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*]|<(?=[A-Za-z/!?]))", r"\\\1", text)


def to_latex(table: Table, label: str) -> str:
    r"""A `table` environment with booktabs rules; the notes go below the tabular."""
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(table.title)}}}",
        f"\\label{{tab:{label}}}",
        "\\resizebox{\\linewidth}{!}{%",
        f"\\begin{{tabular}}{{{table.align.replace('p', 'p{10cm}')}}}",
        "\\toprule",
        " & ".join(map(latex, table.shown.columns)) + " \\\\",
        "\\midrule",
    ]
    for starts_group, row in table.rows:
        lines += ["\\midrule"] * starts_group
        lines.append(" & ".join(map(latex, row)) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}}"]
    lines += [f"\\par\\smallskip{{\\scriptsize\\raggedright {latex(note)}\\par}}" for note in table.notes]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "`": "'",
} | {character: f"\\{character}" for character in "&%$#_{}"}


def latex(text: str) -> str:
    """Escapes text for LaTeX; a minus before a digit becomes a true minus sign."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)


_STYLE = """\
body { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; margin: 1.2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #444; vertical-align: bottom; }
th, td { padding: .25em .7em; text-align: right; }
.text { text-align: left; }
td { white-space: nowrap; }
.wide { white-space: normal; min-width: 20em; }
tr.group td { border-top: 1px solid #999; }
tr:hover td { background: #f3f3f3; }
.reproduced { color: #00563f; font-weight: 600; }
.not-reproduced { color: #a03c00; font-weight: 600; }
.cannot-tell { color: #555; }
p { max-width: 62em; color: #333; }
code { background: #f0f0f0; padding: 0 .2em; }"""

_VERDICTS = ("reproduced", "not reproduced", "cannot tell")


def to_html(table: Table) -> str:
    """A page of its own, without anything fetched, for a report that embeds it."""
    return page(table.title, [table])


def page(title: str, tables: Sequence[Table]) -> str:
    """The same of several tables, below each other."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        + "\n".join(map(_section, tables))
        + "\n</body>\n</html>\n"
    )


_CLASSES: dict[str, list[str]] = {"l": ["text"], "p": ["text", "wide"], "r": []}
_GROUP = ' class="group"'


def _section(table: Table) -> str:
    head = f"<thead><tr>{_cells('th', table.shown.columns, table.align)}</tr></thead>"
    rows = "\n".join(f"<tr{_GROUP * above}>{_cells('td', row, table.align)}</tr>" for above, row in table.rows)
    notes = [re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(note)) for note in table.notes]
    below = "\n".join(f"<p>{note}</p>" for note in notes)
    return f"<h2>{html.escape(table.title)}</h2>\n<table>\n{head}\n<tbody>\n{rows}\n</tbody>\n</table>\n{below}"


def _cells(tag: str, texts: Iterable[str], align: str) -> str:
    cells = []
    for text, side in zip(texts, align, strict=True):
        classes = _CLASSES[side] + ([text.replace(" ", "-")] if text in _VERDICTS else [])
        mark = f' class="{" ".join(classes)}"' if classes else ""
        cells.append(f"<{tag}{mark}>{html.escape(text)}</{tag}>")
    return "".join(cells)
