"""Writes what the report says of the whole run: cost, data, and the first page's table.

Outputs: `summary` (reStructuredText that stands below every caption), `front` (HTML for the first
page) and `data` (an HTML page about the data sets).
"""

import html
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pam.files import read_json, write_text

SPLITS = ("train", "dev", "test")

STYLE = """\
body { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; margin: 1.2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #444; }
th, td { padding: .25em .7em; text-align: right; }
.text { text-align: left; }
p { max-width: 62em; color: #333; }"""


def summary(scores: list[dict[str, Any]]) -> str:
    """Trainings, their cost, and the machines, in two sentences."""
    seconds = {key: sum(one["cost"][key] or 0 for one in scores) for key in ("cpu_s", "gpu_s")}
    seeds = sorted({one["seed"] for one in scores})
    cost = f"{seconds['cpu_s']:,.0f} CPU seconds"
    if seconds["gpu_s"]:
        cost += f" and {seconds['gpu_s']:,.0f} GPU seconds"
    machines = Counter(machine(one["training"]) for one in scores)
    ran = "; ".join(f"{name} ({count})" for name, count in machines.most_common())
    return (
        f"{len(scores)} trainings, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}, together {cost}, decoding included. "
        f"Trained on {escaped(ran)}.\n"
    )


def machine(training: dict[str, Any]) -> str:
    """Processor or GPU, cores and the version of torch."""
    hardware, versions = training.get("hardware") or {}, training.get("versions") or {}
    device = hardware.get("gpu") or f"{hardware.get('cpu')}, {hardware.get('cores')} cores"
    return f"{device}, torch {versions.get('torch')}"


def escaped(text: str) -> str:
    """Text that reStructuredText does not read as markup."""
    return re.sub(r"([\\*`|_<>])", r"\\\1", text)


def data_page(summaries: list[dict[str, Any]], tasks: list[str]) -> str:
    """One row per task and split, then what was noticed in the data."""
    rows, notes = [], []
    for task, content in zip(tasks, summaries, strict=True):
        for split in SPLITS:
            counts = content["splits"][split]
            unseen = sum(counts["unseen_source"].values()) + sum(counts["unseen_target"].values())
            rows.append(
                (task, content["dataset"], split, counts["rows"], counts["lemmas"])
                + (counts["duplicate_rows"], counts["cells_with_several_forms"], unseen)
            )
        licence = f"{content['title']}. Licence: {content['licence'] or 'not stated'}."
        notes += [f"{task}: {text}" for text in (licence, content["citation"]) if text]
        notes += [f"{task}: {warning}" for warning in content["warnings"]]
    head = ("Task", "Data set", "Split", "Rows", "Lemmas", "Duplicates", "Several forms", "Unseen")
    return page("Data", head, rows, notes)


def page(title: str, head: tuple[str, ...], rows: list[tuple[Any, ...]], notes: list[str]) -> str:
    """A page of its own with one table and notes below it."""

    def row(tag: str, cells: tuple[Any, ...]) -> str:
        return "".join(
            f'<{tag} class="text">{html.escape(cell)}</{tag}>'
            if isinstance(cell, str)
            else f"<{tag}>{cell:,}</{tag}>"
            for cell in cells
        )

    body = "\n".join(f"<tr>{row('td', cells)}</tr>" for cells in rows)
    below = "\n".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>'
        f"\n<style>{STYLE}</style></head>\n<body>\n<h2>{title}</h2>\n<table>\n<thead><tr>"
        f"{row('th', head)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n{below}\n"
        "</body>\n</html>\n"
    )


def front(table: str) -> str:
    """A table's page without its head, to stand inside another page, with a style of its own."""
    body = table.partition("<body>")[2].partition("</body>")[0]
    style = table.partition("<style>")[2].partition("</style>")[0]
    # Rules for the page as a whole would reach beyond the table, so the others are nested.
    rules = "\n".join(line for line in style.splitlines() if not line.startswith("body"))
    return f'<style>\n.front {{\n{rules}\n}}\n</style>\n<div class="front">\n{body}\n</div>\n'


if __name__ == "__main__":
    with open(snakemake.log[0], "w", encoding="utf-8") as sys.stderr:
        scores = [read_json(path) for path in snakemake.input.scores]
        summaries = [read_json(path) for path in snakemake.input.data]
        table = Path(snakemake.input.table).read_text(encoding="utf-8")
        write_text(snakemake.output.summary, summary(scores))
        write_text(snakemake.output.front, front(table))
        write_text(snakemake.output.data, data_page(summaries, list(snakemake.params.tasks)))
