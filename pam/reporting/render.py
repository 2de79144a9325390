"""Write tables, which are rows of typed cells, as CSV, Markdown, LaTeX, HTML and JSON."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from pam.reporting.cells import (
    MINUS,
    Cell,
    Judgement,
    Missing,
    Name,
    Value,
    from_record,
    to_record,
    true_minus,
)
from pam.runtime.files import read_json, write_text

WIDTH = 120  # characters of a line of Markdown that is no row of a table


@dataclass(frozen=True)
class Row:
    """A row of a table: cells by name."""

    cells: Mapping[str, Cell]
    is_shown: bool = True  # to people
    is_stored: bool = True  # in the CSV, for machines

    def __getitem__(self, name: str) -> Any:
        """Return a cell, whose kind is known to the caller by its name."""
        return self.cells[name]

    def get(self, name: str) -> Any:
        """Return a cell; None where it holds nothing."""
        cell = self.cells.get(name)
        return None if isinstance(cell, Missing) else cell

    def has(self, name: str) -> bool:
        """Check that a cell holds something."""
        return self.get(name) is not None

    @property
    def task(self) -> str | None:
        """The key of the task that the row is about; None for a sum over tasks."""
        cell = self.cells.get("task")
        return cell.key if isinstance(cell, Name) else None


@dataclass(frozen=True)
class Column:
    """A column for people: a heading, and the text of a part of one cell of each row."""

    heading: str
    cell: str
    # `l` for text, `p` for text that may need several lines, `r` for numbers
    align: Literal["l", "p", "r"] = "r"
    part: str = "text"  # attribute of the cell
    needs: str = ""  # another cell, without which nothing is shown of this one

    def text(self, row: Row) -> str:
        """Return the text of a row; empty where there is none."""
        if not row.has(self.cell) or (self.needs and not row.has(self.needs)):
            return ""
        text = getattr(row[self.cell], self.part)
        return "" if text is None else str(text)

    def html_class(self, row: Row) -> str:
        """Return the class of a row's judgement; empty for another cell or without a text."""
        cell = row.cells.get(self.cell)
        if isinstance(cell, Judgement) and self.text(row):
            return cell.html_class(row.get("gain"))
        return ""


@dataclass(frozen=True)
class Field:
    """A column for machines: its name in the CSV, and a part of one cell of each row."""

    name: str
    cell: str
    part: str = "value"
    digits: int | None = None  # after the point; None: as many as there are

    def value(self, row: Row) -> Any:
        """Return the value of a row; None where there is none."""
        if not row.has(self.cell):
            return None
        value = getattr(row[self.cell], self.part)
        if value is None or self.digits is None:
            return value
        return round(value, self.digits)


@dataclass(frozen=True)
class Note:
    """A paragraph below a table."""

    words: str
    task: str = ""  # key of the task that it is about; empty: the whole table
    label: str = ""  # of that task
    # what it says: the `rule` of verdicts, the author's words `about` a task, a `caution`
    kind: Literal["", "rule", "about", "caution"] = ""

    @property
    def text(self) -> str:
        """The words below the label of their task."""
        return f"{self.label}: {self.words}" if self.label else self.words


TASK = Column("Task", "task", "l")
MODEL = Column("Model", "model", "l")
SEEDS = Column("Seeds", "level", part="seeds")
TASK_KEY = Field("task", "task", "key")
MODEL_KEY = Field("model", "model", "key")


@dataclass(frozen=True)
class Table:
    """Rows with a layout for people (`columns`) and one for machines (`fields`, the CSV)."""

    title: str
    rows: Sequence[Row]
    columns: Sequence[Column]  # several may have the same heading
    fields: Sequence[Field] = ()
    subject: str = ""  # title of the experiment, which follows where the table stands alone
    notes: Sequence[Note] = ()
    group: int = 1  # a line is drawn between rows that differ in so many first columns

    @property
    def heading(self) -> str:
        """The title where the table stands alone."""
        return f"{self.title}: {self.subject}" if self.subject else self.title

    @cached_property
    def shown(self) -> list[Row]:
        """The rows for people."""
        return [row for row in self.rows if row.is_shown]

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """The texts of the rows for people."""
        return [tuple(column.text(row) for column in self.columns) for row in self.shown]

    @property
    def starts_group(self) -> list[bool]:
        """For each row for people, whether a line is drawn above it."""
        above = self.texts[:1] + self.texts  # no line above the first row
        return [
            previous[: self.group] != row[: self.group]
            for previous, row in zip(above, self.texts, strict=False)
        ]

    @property
    def data(self) -> pd.DataFrame:
        """The rows for machines."""
        rows = [row for row in self.rows if row.is_stored]
        values = [[field.value(row) for field in self.fields] for row in rows]
        # As objects: an integer next to an unknown one does not become a float.
        return pd.DataFrame(values, columns=[field.name for field in self.fields], dtype=object)

    def without_empty_columns(self) -> Table:
        """Leave out the columns that no row fills, such as p where there is a single seed."""
        if not self.texts:
            return self

        filled = [
            column
            for column, texts in zip(self.columns, zip(*self.texts, strict=True), strict=True)
            if any(texts)
        ]
        return replace(self, columns=filled)

    def of_tasks(self, tasks: Sequence[str]) -> Table:
        """Keep the rows and the notes of some tasks, and those of no task, in their order."""
        return replace(
            self,
            rows=[row for row in self.rows if row.task is None or row.task in tasks],
            notes=[note for note in self.notes if not note.task or note.task in tasks],
        )


def plain_table(
    title: str,
    headings: Sequence[str],
    align: str,
    rows: Sequence[Sequence[Any]],
    notes: Sequence[Note] = (),
) -> Table:
    """Make a table whose columns are the same for people and for machines.

    Args:
        headings: of which several may be the same.
        align: one letter per column, as `Column` has them.
        rows: numbers and texts, or cells; numbers are shown without digits after the point, and a
            task is its `Name`.
    """
    names = [str(index) for index in range(len(headings))]
    columns = []
    fields = []
    for name, heading, side in zip(names, headings, align, strict=True):
        columns.append(Column(heading, name, side))  # type: ignore[arg-type]
        fields.append(Field(heading, name))
    if TASK.heading in headings:
        index = list(headings).index(TASK.heading)
        names[index] = TASK.cell
        columns[index] = TASK
        fields[index] = Field(TASK.heading, TASK.cell, "label")

    return Table(
        title=title,
        rows=[Row(dict(zip(names, map(_cell, row), strict=True))) for row in rows],
        columns=columns,
        fields=fields,
        notes=notes,
    )


def _cell(value: Any) -> Cell:
    """Return a number or a text as a cell."""
    return value if isinstance(value, Cell) else Value(value, ",.0f")


# The formats.


def write(table: Table, folder: Path | str, name: str) -> None:
    """Write `<folder>/<name>` in all formats."""
    texts = {
        ".csv": to_csv(table),
        ".md": to_markdown(table),
        ".tex": to_latex(table, name),
        ".json": to_json(table),
        ".html": page(table.heading, [table]),
    }
    for ending, text in texts.items():
        write_text(Path(folder) / f"{name}{ending}", text)


def to_csv(table: Table) -> str:
    """Return the data for machines."""
    return table.data.to_csv(index=False, lineterminator="\n")


def to_json(table: Table) -> str:
    """Return the rows as they are, for a page that holds several tables; `read` is the way back."""
    content = {
        "title": table.title,
        "subject": table.subject,
        "columns": [asdict(column) for column in table.columns],
        "fields": [asdict(field) for field in table.fields],
        "notes": [asdict(note) for note in table.notes],
        "group": table.group,
        "rows": [
            {
                "is_shown": row.is_shown,
                "is_stored": row.is_stored,
                "cells": {name: to_record(cell) for name, cell in row.cells.items()},
            }
            for row in table.rows
        ],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def read(folder: Path | str, name: str) -> Table:
    """Read the table `<folder>/<name>` from its JSON."""
    content = read_json(Path(folder) / f"{name}.json")
    rows = [
        row | {"cells": {name: from_record(cell) for name, cell in row["cells"].items()}}
        for row in content["rows"]
    ]
    return Table(
        title=content["title"],
        subject=content["subject"],
        columns=[Column(**column) for column in content["columns"]],
        fields=[Field(**field) for field in content["fields"]],
        notes=[Note(**note) for note in content["notes"]],
        group=content["group"],
        rows=[Row(**row) for row in rows],
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

    table = table.without_empty_columns()
    columns = []
    for index, column in enumerate(table.columns):
        cells = [escaped(text) for text in (column.heading, *(row[index] for row in table.texts))]
        width = max(3, *map(len, cells))
        if column.align == "r":
            # A colon at the end aligns a column to the right.
            cells.insert(1, "-" * (width - 1) + ":")
            columns.append([cell.rjust(width) for cell in cells])
        else:
            cells.insert(1, "-" * width)
            columns.append([cell.ljust(width) for cell in cells])

    body = "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns, strict=True))
    notes = [wrapped(escaped(note.text)) for note in table.notes]
    return "\n\n".join([f"### {escaped(table.heading)}", body, *notes]) + "\n"


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
    table = table.without_empty_columns()
    sides = "".join(column.align for column in table.columns)
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(table.heading)}}}",
        f"\\label{{tab:{label}}}",
        "\\resizebox{\\linewidth}{!}{%",
        f"\\begin{{tabular}}{{{sides.replace('p', 'p{10cm}')}}}",
        "\\toprule",
        " & ".join(latex(column.heading) for column in table.columns) + " \\\\",
        "\\midrule",
    ]

    for starts_group, row in zip(table.starts_group, table.texts, strict=True):
        lines += ["\\midrule"] * starts_group
        lines.append(" & ".join(map(latex, row)) + " \\\\")

    lines += ["\\bottomrule", "\\end{tabular}}"]
    lines += [
        f"\\par\\smallskip{{\\scriptsize\\raggedright {latex(note.text)}\\par}}"
        for note in table.notes
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
    table = table.without_empty_columns()
    names = [column.cell for column in table.columns]
    heading = names.index(MODEL.cell) if MODEL.cell in names else 0
    head = "".join(
        _html_cell("th", column.heading, column.align, scope="col") for column in table.columns
    )

    lines = []
    for starts_group, row in zip(table.starts_group, table.shown, strict=True):
        cells = []
        for index, column in enumerate(table.columns):
            tag = "td"
            scope = ""
            if index == heading:
                tag = "th"
                scope = "row"
            judged = column.html_class(row)
            cells.append(_html_cell(tag, column.text(row), column.align, scope, judged))
        mark = ' class="group"' if starts_group else ""
        lines.append(f"<tr{mark}>{''.join(cells)}</tr>")

    body = "\n".join(lines)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _html_cell(tag: str, text: str, align: str, scope: str = "", judged: str = "") -> str:
    """Return a cell with the classes of its alignment and of its judgement.

    Args:
        scope: `col` or `row`, which a heading is for; empty for a cell of data.
        judged: class of its judgement, if it is one.
    """
    classes = list(_CLASSES[align])
    if judged:
        classes.append(judged)

    mark = f' scope="{scope}"' if scope else ""
    if classes:
        mark += f' class="{" ".join(classes)}"'
    if align == "r":
        text = true_minus(text)
    return f"<{tag}{mark}>{html.escape(text)}</{tag}>"


def paragraph(note: str) -> str:
    """Return a note as a paragraph of HTML."""
    return f"<p>{with_code(note)}</p>"


def with_code(text: str) -> str:
    """Return a text as HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _section(table: Table) -> str:
    """Return a table as HTML with its title and notes, in a box that may scroll."""
    heading = f"<h2>{html.escape(table.heading)}</h2>"
    box = f'<div class="table">{grid(table)}</div>'
    return "\n".join([heading, box, *(paragraph(note.text) for note in table.notes)])
