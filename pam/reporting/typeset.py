"""One sheet written as CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pam.io import write_text

FORMATS = (".csv", ".md", ".tex", ".html")


@dataclass(frozen=True)
class Sheet:
    """A table for machines (`columns`, `records`) and for people (`headings`, `body`).

    A line is drawn between groups of rows that share their first cells.

    Attributes:
        records: one per row of the CSV; None is written as an empty cell.
        align: one letter per heading, `l` for text, `p` for text that may need several lines and
            `r` for numbers.
        notes: paragraphs below the table.
        group: so many first cells make a group.
    """

    title: str
    columns: tuple[str, ...]
    records: list[tuple[object, ...]]
    headings: tuple[str, ...]
    body: list[tuple[str, ...]]
    align: str
    notes: tuple[str, ...] = ()
    group: int = 1


def write(sheet: Sheet, folder: Path | str, name: str) -> None:
    """Writes `<folder>/<name>` in all `FORMATS`."""
    texts = (to_csv(sheet), to_markdown(sheet), to_latex(sheet, name), to_html(sheet))
    for ending, text in zip(FORMATS, texts, strict=True):
        write_text(Path(folder) / f"{name}{ending}", text)


def to_csv(sheet: Sheet) -> str:
    """Comma-separated text with a header row."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(sheet.columns)
    writer.writerows(sheet.records)
    return buffer.getvalue()


def to_markdown(sheet: Sheet) -> str:
    """A pipe table, padded so that it can be read as plain text too."""
    rows = [tuple(_markdown(cell) for cell in row) for row in (sheet.headings, *sheet.body)]
    widths = [max(3, *(len(row[place]) for row in rows)) for place in range(len(sheet.headings))]

    def line(row: tuple[str, ...]) -> str:
        cells = [
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for side, cell, width in zip(sheet.align, row, widths, strict=True)
        ]
        return f"| {' | '.join(cells)} |"

    rule = tuple(
        "-" * (width - 1) + ":" if side == "r" else "-" * width
        for side, width in zip(sheet.align, widths, strict=True)
    )
    table = "\n".join([line(rows[0]), line(rule), *(line(row) for row in rows[1:])])
    notes = [_markdown(note) for note in sheet.notes]
    return "\n\n".join([f"### {_markdown(sheet.title)}", table, *notes]) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*]|<(?=[A-Za-z/!?]))", r"\\\1", text)


def to_latex(sheet: Sheet, label: str) -> str:
    r"""A `table` environment with booktabs rules; the notes go below the tabular."""
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex(sheet.title)}}}",
        f"\\label{{tab:{label}}}",
        "\\resizebox{\\linewidth}{!}{%",
        f"\\begin{{tabular}}{{{sheet.align.replace('p', 'p{10cm}')}}}",
        "\\toprule",
        " & ".join(latex(heading) for heading in sheet.headings) + " \\\\",
        "\\midrule",
    ]
    for index, row in enumerate(sheet.body):
        if _starts_group(sheet, index):
            lines.append("\\midrule")
        lines.append(" & ".join(latex(cell) for cell in row) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}}"]
    lines += [
        f"\\par\\smallskip{{\\scriptsize\\raggedright {latex(note)}\\par}}" for note in sheet.notes
    ]
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


def to_html(sheet: Sheet) -> str:
    """A page of its own, without anything fetched, for a report that embeds it."""
    return page(sheet.title, [sheet])


def page(title: str, sheets: Sequence[Sheet]) -> str:
    """The same of several sheets, below each other."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        + "\n".join(map(_section, sheets))
        + "\n</body>\n</html>\n"
    )


def _section(sheet: Sheet) -> str:
    head = "".join(_cell("th", text, place, sheet) for place, text in enumerate(sheet.headings))
    rows = []
    for index, row in enumerate(sheet.body):
        group = ' class="group"' if _starts_group(sheet, index) else ""
        cells = "".join(_cell("td", text, place, sheet) for place, text in enumerate(row))
        rows.append(f"<tr{group}>{cells}</tr>")
    notes = "\n".join(
        "<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(note)) + "</p>"
        for note in sheet.notes
    )
    return (
        f"<h2>{html.escape(sheet.title)}</h2>\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + f"\n</tbody>\n</table>\n{notes}"
    )


def _cell(tag: str, text: str, place: int, sheet: Sheet) -> str:
    classes = {"l": ["text"], "p": ["text", "wide"]}.get(sheet.align[place], [])
    if text in _VERDICTS:
        classes.append(text.replace(" ", "-"))
    mark = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{mark}>{html.escape(text)}</{tag}>"


def _starts_group(sheet: Sheet, index: int) -> bool:
    return index > 0 and sheet.body[index][: sheet.group] != sheet.body[index - 1][: sheet.group]
