"""Writes what the report says of the whole run: cost, data, and the first page's tables.

Outputs: `summary` (reStructuredText below every caption), `front` (HTML for the first
page) and `data` (an HTML page about the data sets).
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pam.config import Experiment
from pam.io import read_json, write_text
from pam.reporting.data_and_cost import datasets
from pam.reporting.render import page
from pam.reporting.runs import load_experiment


def summary(experiment: Experiment, scores: list[dict[str, Any]]) -> str:
    """Trainings, their cost, and the machines, in two sentences; then the tasks' notes."""
    seconds = {key: sum(one["cost"][key] or 0 for one in scores) for key in ("cpu_s", "gpu_s")}
    seeds = sorted({one["seed"] for one in scores})
    cost = f"{seconds['cpu_s']:,.0f} CPU seconds"
    if seconds["gpu_s"]:
        cost += f" and {seconds['gpu_s']:,.0f} GPU seconds"
    machines = Counter(machine(one["training"]) for one in scores)
    ran = "; ".join(f"{name} ({count})" for name, count in machines.most_common())
    notes = [
        f"\n{escaped(f'{task.label or name}: {task.note}')}\n"
        for name, task in experiment.tasks.items()
        if task.note
    ]
    return (
        f"{len(scores)} trainings, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}, together {cost}, decoding included. "
        f"Trained on {escaped(ran)}.\n" + "".join(notes)
    )


def machine(training: dict[str, Any]) -> str:
    """Processor or GPU, cores and the version of torch."""
    hardware, versions = training.get("hardware") or {}, training.get("versions") or {}
    device = hardware.get("gpu") or f"{hardware.get('cpu')}, {hardware.get('cores')} cores"
    return f"{device}, torch {versions.get('torch')}"


def escaped(text: str) -> str:
    """Text that reStructuredText does not read as markup, nor as a directive at its begin."""
    return r"\ " + re.sub(r"([\\*`|_<>:])", r"\\\1", " ".join(text.split()))


def by_task(paths: list[str]) -> dict[str, Any]:
    """The content of summaries, each in a folder of its task's."""
    return {Path(path).parents[1].name: read_json(path) for path in paths}


def front(tables: list[str]) -> str:
    """Tables' pages without their heads, to go into another page, in a style of their own."""
    bodies = [table.partition("<body>")[2].partition("</body>")[0] for table in tables]
    style = "".join(tables[:1]).partition("<style>")[2].partition("</style>")[0]
    # Rules for the page as a whole would reach beyond the tables, so the others are nested.
    rules = "\n".join(line for line in style.splitlines() if not line.startswith("body"))
    return (
        f'<style>\n.front {{\n{rules}\n}}\n</style>\n<div class="front">\n'
        + "\n".join(bodies)
        + "\n</div>\n"
    )


if __name__ == "__main__":
    # Not closed: Python writes to it why it ends.
    sys.stderr = open(snakemake.log[0], "w", encoding="utf-8")  # noqa: SIM115
    files = snakemake.input
    experiment = load_experiment(files.experiment)
    data, gold = by_task(files.data), by_task(files.gold)
    texts = [Path(path).read_text(encoding="utf-8") for path in files.tables]
    write_text(snakemake.output.summary, summary(experiment, list(map(read_json, files.scores))))
    write_text(snakemake.output.front, front(texts))
    write_text(snakemake.output.data, page("Data", datasets(experiment, data, gold)))
