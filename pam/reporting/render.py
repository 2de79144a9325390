"""Write a table as CSV, Markdown, LaTeX, HTML and JSON, with its numbers as text."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any, Literal, NamedTuple

import pandas as pd

from pam.runtime.files import read_json, write_text


class Column(NamedTuple):
    """A column for people."""

    heading: str
    text: str  # a template of a row's values, such as `{low:.2f}`; empty where a value is unknown
    # `l` for text, `p` for text that may need several lines, `r` for numbers
    align: Literal["l", "p", "r"] = "r"


FINEST = 8  # the most digits after the point
MINUS = "\N{MINUS SIGN}"
WIDTH = 120  # characters of a line of Markdown that is no row of a table
TASK = Column("Task", "{task_label}", "l")
MODEL = Column("Model", "{label}", "l")
SEEDS = Column("Seeds", "{n}")


@dataclass(frozen=True)
class Table:
    """A table for machines (`data`, the CSV) and for people (`shown`, all other formats)."""

    title: str
    data: pd.DataFrame  # one row per row of the CSV; None is written as an empty cell
    shown: pd.DataFrame  # text; several columns may have the same heading
    align: str  # one letter per column of `shown`, as `Column` has them
    notes: tuple[str, ...] = ()  # paragraphs below the table
    group: int = 1  # a line is drawn between rows that differ in so many first columns of `shown`

    @property
    def rows(self) -> list[tuple[bool, tuple[str, ...]]]:
        """The rows for people, each with whether a line is drawn above it."""
        rows = list(self.shown.itertuples(index=False, name=None))
        rows_above = rows[:1] + rows  # no line above the first row
        return [
            (above[: self.group] != row[: self.group], row)
            for above, row in zip(rows_above, rows, strict=False)
        ]


def without_empty_columns(table: Table) -> Table:
    """Leave out the columns that no row fills, such as p where there is a single seed."""
    if table.shown.empty:
        return table

    filled = [
        index for index in range(table.shown.shape[1]) if (table.shown.iloc[:, index] != "").any()
    ]
    return replace(
        table,
        shown=table.shown.iloc[:, filled],
        align="".join(table.align[index] for index in filled),
    )


def table_of(
    title: str,
    frame: pd.DataFrame,
    csv: Sequence[str],
    digits: Mapping[str, int],
    shown: Sequence[Column],
    notes: Sequence[str] = (),
    group: int = 1,
) -> Table:
    """Make a table of a frame.

    Args:
        csv: the columns for machines.
        digits: column -> digits after the point; others are written as they are.
        shown: the columns for people.
        notes: paragraphs below the table.
        group: first columns of `shown` that have to be equal for rows without a line between them.
    """

    def rounded(value: Any, name: str) -> Any:
        if value is None or name not in digits:
            return value
        return round(value, digits[name])

    def filled(template: str, row: dict[Hashable, Any]) -> str:
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        if any(pd.isna(row[name]) for name in names):
            return ""
        return template.format_map(row)

    rows = frame.to_dict("records")
    values = [[rounded(row[name], name) for name in csv] for row in rows]
    texts = [[filled(column.text, row) for column in shown] for row in rows]
    headings = [column.heading for column in shown]

    return Table(
        title=title,
        # As objects: an integer next to an unknown one does not become a float.
        data=pd.DataFrame(values, columns=list(csv), dtype=object),
        shown=pd.DataFrame(texts, columns=headings, dtype=object),
        align="".join(column.align for column in shown),
        notes=tuple(notes),
        group=group,
    )


def signed(value: float | None, digits: int) -> str:
    """Return a difference with its sign, such as `+1.37` or `−0.40`.

    A difference that rounds to nothing has no sign, an unknown one no text.
    """
    if value is None:
        return ""

    text = f"{value:+.{digits}f}"
    if float(text) == 0:
        return text[1:]
    return text.replace("-", MINUS)


def true_minus(text: str) -> str:
    """Write a minus sign in place of each hyphen that stands before a number."""
    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, text)


def interval(low: float | None, high: float | None, digits: int, sign: bool = False) -> str:
    """Return an interval such as `[84.10, 86.02]`, or with signs.

    Both ends are written in full, as in `[0, 0]`, where they are the same. Where they are unknown,
    there is no text.
    """
    if low is None or high is None:
        return ""
    # No number of digits tells such ends apart.
    if round(low, FINEST) == round(high, FINEST):
        return true_minus(f"[{low:g}, {high:g}]")
    if sign:
        return f"[{signed(low, digits)}, {signed(high, digits)}]"
    return true_minus(f"[{low:.{digits}f}, {high:.{digits}f}]")


def probability(value: float) -> str:
    """Return a probability such as `0.013`, and `< 0.001` below that."""
    if value < 0.001:
        return "< 0.001"
    return f"{value:.3f}"


# The formats.


def write(table: Table, folder: Path | str, name: str) -> None:
    """Write `<folder>/<name>` in all formats."""
    texts = {
        ".csv": to_csv(table),
        ".md": to_markdown(table),
        ".tex": to_latex(table, name),
        ".json": to_json(table),
        ".html": page(table.title, [table]),
    }
    for ending, text in texts.items():
        write_text(Path(folder) / f"{name}{ending}", text)


def to_csv(table: Table) -> str:
    """Return the data for machines."""
    return table.data.to_csv(index=False, lineterminator="\n")


def to_json(table: Table) -> str:
    """Return the texts for people, for a page that holds several tables; `read` is the way back."""
    content = {
        "title": table.title,
        "columns": list(table.shown.columns),
        "rows": table.shown.to_numpy().tolist(),
        "align": table.align,
        "notes": table.notes,
        "group": table.group,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def read(folder: Path | str, name: str) -> Table:
    """Read the table `<folder>/<name>` from its CSV and its JSON; all cells are texts."""
    content = read_json(Path(folder) / f"{name}.json")
    return Table(
        title=content["title"],
        data=read_csv(Path(folder) / f"{name}.csv"),
        shown=pd.DataFrame(content["rows"], columns=content["columns"], dtype=object),
        align=content["align"],
        notes=content["notes"],
        group=content["group"],
    )


def read_csv(path: Path | str) -> pd.DataFrame:
    """Read a table's or a figure's data, every cell a text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def to_markdown(table: Table) -> str:
    """Return a pipe table, padded so that it can be read as plain text too.

    Columns that no row fills are left out.
    """

    def escaped(text: str) -> str:
        return re.sub(r"([\\|*]|<(?=[A-Za-z/!?]))", r"\\\1", text)

    table = without_empty_columns(table)
    columns = []
    for index, (heading, side) in enumerate(zip(table.shown.columns, table.align, strict=True)):
        cells = [escaped(text) for text in (heading, *table.shown.iloc[:, index])]
        width = max(3, *map(len, cells))
        if side == "r":
            # A colon at the end aligns a column to the right.
            cells.insert(1, "-" * (width - 1) + ":")
            columns.append([cell.rjust(width) for cell in cells])
        else:
            cells.insert(1, "-" * width)
            columns.append([cell.ljust(width) for cell in cells])

    body = "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns, strict=True))
    notes = [wrapped(escaped(note)) for note in table.notes]
    return "\n\n".join([f"### {escaped(table.title)}", body, *notes]) + "\n"


def wrapped(paragraph: str) -> str:
    """Break a paragraph of Markdown into lines of at most `WIDTH` characters.

    No line begins as an item of a list.
    """
    # A space before the mark of an item is kept from being broken.
    glued = re.sub(" (?=[-+#>] )", "\0", paragraph)
    filled = textwrap.fill(glued, WIDTH, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\0", " ")


def to_latex(table: Table, label: str) -> str:
    r"""Return a `table` environment with booktabs rules; the notes go below the tabular.

    Columns that no row fills are left out.
    """
    table = without_empty_columns(table)
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
    lines += [
        f"\\par\\smallskip{{\\scriptsize\\raggedright {latex(note)}\\par}}" for note in table.notes
    ]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "`": "'",
    MINUS: "$-$",
}


def latex(text: str) -> str:
    """Escape text for LaTeX; a minus before a digit becomes a true minus sign."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)


_STYLE = """\
body { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; margin: 1.2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.table { overflow-x: auto; }
thead th { border-bottom: 2px solid #444; vertical-align: bottom; }
th, td { padding: .25em .7em; text-align: right; }
.text { text-align: left; }
td, tbody th { white-space: nowrap; }
tbody th { font-weight: 400; }
.wide { white-space: normal; min-width: 20em; }
tr.group > * { border-top: 1px solid #999; }
tbody tr:hover > * { background: #f3f3f3; }
.agrees, .equivalent, .better { color: #00563f; font-weight: 600; }
.contradicts, .differs, .worse { color: #a03c00; font-weight: 600; }
.cannot-tell, .agrees-with, .not-judged, .undecided { color: #555; }
p { max-width: 62em; color: #333; }
code { background: #f0f0f0; padding: 0 .2em; }"""
_VERDICTS = (
    "agrees",
    "contradicts",
    "cannot tell",
    "equivalent",
    "differs",
    "agrees with",
    "not judged",
    "better",
    "worse",
    "undecided",
)
_CLASSES: dict[str, list[str]] = {"l": ["text"], "p": ["text", "wide"], "r": []}


def page(title: str, tables: Sequence[Table]) -> str:
    """Return a page of its own, without anything fetched, with tables below each other."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        + "\n".join(map(_section, tables))
        + "\n</body>\n</html>\n"
    )


def grid(table: Table) -> str:
    """Return the table alone as HTML, without title and notes.

    The models are the headings of the rows, or else the first column is. Columns that no row fills
    are left out.
    """
    table = without_empty_columns(table)
    columns = list(table.shown.columns)
    heading = columns.index(MODEL.heading) if MODEL.heading in columns else 0
    names = "".join(
        _html_cell("th", text, side, scope="col")
        for text, side in zip(columns, table.align, strict=True)
    )

    rows = []
    for starts_group, row in table.rows:
        cells = [_html_cell("td", text, side) for text, side in zip(row, table.align, strict=True)]
        cells[heading] = _html_cell("th", row[heading], table.align[heading], scope="row")
        mark = ' class="group"' if starts_group else ""
        rows.append(f"<tr{mark}>{''.join(cells)}</tr>")

    body = "\n".join(rows)
    return f"<table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _html_cell(tag: str, text: str, side: str, scope: str = "") -> str:
    """Return a cell with the classes of its alignment and of its verdict.

    Args:
        scope: `col` or `row`, which a heading is for; empty for a cell of data.
    """
    classes = list(_CLASSES[side])
    direction = text.partition(",")[0]  # the first word of a verdict
    if direction in _VERDICTS:
        classes.append(direction.replace(" ", "-"))

    mark = f' scope="{scope}"' if scope else ""
    if classes:
        mark += f' class="{" ".join(classes)}"'
    if side == "r":
        text = true_minus(text)
    return f"<{tag}{mark}>{html.escape(text)}</{tag}>"


def paragraph(note: str) -> str:
    """Return a note as HTML; text between backticks is code."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(note))
    return f"<p>{text}</p>"


def _section(table: Table) -> str:
    """Return a table as HTML with its title and notes, in a box that may scroll."""
    heading = f"<h2>{html.escape(table.title)}</h2>"
    box = f'<div class="table">{grid(table)}</div>'
    return "\n".join([heading, box, *map(paragraph, table.notes)])
