"""One table as CSV, Markdown, LaTeX, HTML and JSON, and how its numbers are written."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, Literal, NamedTuple

import pandas as pd

from pam.io import read_json, write_text


class Column(NamedTuple):
    """A column for people."""

    heading: str
    text: str  # a template of a row's values, such as `{low:.2f}`; empty where a value is unknown
    align: Literal["l", "p", "r"] = (
        "r"  # `l` for text, `p` for text that may need several lines, `r` for numbers
    )


FINEST = 8  # digits after the point, at most
WIDTH = 120  # characters of a line of Markdown that is no row of a table
TASK, MODEL, SEEDS = (
    Column("Task", "{task_label}", "l"),
    Column("Model", "{label}", "l"),
    Column("Seeds", "{n}"),
)


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
    """A table of a frame: columns `csv` for machines, with the `digits` of each or as they are;
    `shown` for people.
    """

    def rounded(value: Any, name: str) -> Any:
        return value if value is None or name not in digits else round(value, digits[name])

    def filled(template: str, row: dict[Hashable, Any]) -> str:
        names = [name for _, name, _, _ in Formatter().parse(template) if name]
        return "" if any(pd.isna(row[name]) for name in names) else template.format_map(row)

    rows = frame.to_dict("records")
    # As objects: an integer next to an unknown one does not become a float.
    data = pd.DataFrame(
        [[rounded(row[name], name) for name in csv] for row in rows],
        columns=list(csv),
        dtype=object,
    )
    texts = [[filled(column.text, row) for column in shown] for row in rows]
    people = pd.DataFrame(texts, columns=[column.heading for column in shown], dtype=object)
    return Table(
        title, data, people, "".join(column.align for column in shown), tuple(notes), group
    )


def signed(value: float | None, digits: int) -> str:
    """`+1.37`; a difference that rounds to nothing has no sign, an unknown one no text."""
    if value is None:
        return ""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def interval(low: float | None, high: float | None, digits: int, sign: bool = False) -> str:
    """`[84.10, 86.02]`, or with signs; `[0, 0]` where both ends are the same, nothing where they
    are unknown.
    """
    if low is None or high is None:
        return ""
    if round(low, FINEST) == round(high, FINEST):
        return f"[{low:g}, {high:g}]"
    ends = [signed(one, digits) if sign else f"{one:.{digits}f}" for one in (low, high)]
    return f"[{', '.join(ends)}]"


def probability(value: float) -> str:
    """`0.013`, and `< 0.001` below that."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


# The formats.


def write(table: Table, folder: Path | str, name: str) -> None:
    """Writes `<folder>/<name>` in all formats."""
    texts = {
        ".csv": to_csv(table),
        ".md": to_markdown(table),
        ".tex": to_latex(table, name),
        ".json": to_json(table),
    }
    for ending, text in (texts | {".html": page(table.title, [table])}).items():
        write_text(Path(folder) / f"{name}{ending}", text)


def to_csv(table: Table) -> str:
    return table.data.to_csv(index=False, lineterminator="\n")


def to_json(table: Table) -> str:
    """What people read, for a page that holds several tables; `read` is the way back."""
    shown = {"columns": list(table.shown.columns), "rows": table.shown.to_numpy().tolist()}
    own = {
        "title": table.title,
        **shown,
        "align": table.align,
        "notes": table.notes,
        "group": table.group,
    }
    return json.dumps(own, ensure_ascii=False, indent=1) + "\n"


def read(folder: Path | str, name: str) -> Table:
    """The table `<folder>/<name>` of its CSV, whose cells are texts here, and its JSON."""
    own = read_json(Path(folder) / f"{name}.json")
    shown = pd.DataFrame(own["rows"], columns=own["columns"], dtype=object)
    return Table(
        own["title"],
        read_csv(Path(folder) / f"{name}.csv"),
        shown,
        own["align"],
        own["notes"],
        own["group"],
    )


def read_csv(path: Path | str) -> pd.DataFrame:
    """A table's or a figure's data, every cell a text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def to_markdown(table: Table) -> str:
    """A pipe table, padded so that it can be read as plain text too."""

    def escaped(text: str) -> str:
        return re.sub(r"([\\|*]|<(?=[A-Za-z/!?]))", r"\\\1", text)

    columns = []
    for place, (heading, side) in enumerate(zip(table.shown.columns, table.align, strict=True)):
        texts = [escaped(text) for text in (heading, *table.shown.iloc[:, place])]
        width = max(3, *map(len, texts))
        texts.insert(1, "-" * (width - 1) + (":" if side == "r" else "-"))
        columns.append([text.rjust(width) if side == "r" else text.ljust(width) for text in texts])
    body = "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns, strict=True))
    notes = [wrapped(escaped(note)) for note in table.notes]
    return "\n\n".join([f"### {escaped(table.title)}", body, *notes]) + "\n"


def wrapped(paragraph: str) -> str:
    """A paragraph of Markdown in lines of at most `WIDTH` characters, none of which begins as an
    item of a list.
    """
    glued = re.sub(" (?=[-+#>] )", "\0", paragraph)
    return textwrap.fill(glued, WIDTH, break_long_words=False, break_on_hyphens=False).replace(
        "\0", " "
    )


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
}


def latex(text: str) -> str:
    """Escapes text for LaTeX; a minus before a digit becomes a true minus sign."""
    return re.sub(
        r"(?<![\w-])-(?=\d)", "$-$", "".join(_LATEX.get(character, character) for character in text)
    )


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
.agrees, .equivalent, .better { color: #00563f; font-weight: 600; }
.contradicts, .differs, .worse { color: #a03c00; font-weight: 600; }
.cannot-tell, .agrees-with, .not-judged, .undecided { color: #555; }
p { max-width: 62em; color: #333; }
code { background: #f0f0f0; padding: 0 .2em; }"""
_TOLD = (
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
    """A page of its own, without anything fetched, for a report that embeds it; tables are below
    each other.
    """
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        + "\n".join(map(_section, tables))
        + "\n</body>\n</html>\n"
    )


def grid(table: Table) -> str:
    """The table alone as HTML, without title and notes."""

    def cells(tag: str, texts: Iterable[str]) -> str:
        found = ""
        for text, side in zip(texts, table.align, strict=True):
            word = text.partition(",")[0]  # of a verdict its direction
            classes = _CLASSES[side] + ([word.replace(" ", "-")] if word in _TOLD else [])
            mark = f' class="{" ".join(classes)}"' if classes else ""
            found += f"<{tag}{mark}>{html.escape(text)}</{tag}>"
        return found

    group = ' class="group"'
    head = f"<thead><tr>{cells('th', table.shown.columns)}</tr></thead>"
    rows = "\n".join(f"<tr{group * above}>{cells('td', row)}</tr>" for above, row in table.rows)
    return f"<table>\n{head}\n<tbody>\n{rows}\n</tbody>\n</table>"


def paragraph(note: str) -> str:
    """A note as HTML; what is between backticks is code."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(note))
    return f"<p>{text}</p>"


def _section(table: Table) -> str:
    return "\n".join(
        [f"<h2>{html.escape(table.title)}</h2>", grid(table), *map(paragraph, table.notes)]
    )
