"""Write what the report says of the whole run: cost, data, and the first page's tables.

Outputs: `summary` (reStructuredText below every caption), `front` (HTML for the first
page) and `data` (an HTML page about the data sets).
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pam.experiments.experiment import Experiment
from pam.reporting.render import page
from pam.reporting.runs import load_experiment
from pam.reporting.tables.data import datasets, summaries_of
from pam.runtime.files import read_json, write_text
from pam.runtime.job_lock import open_log


def summary(experiment: Experiment, scores: list[dict[str, Any]]) -> str:
    """Return the runs, their cost and the machines as two sentences, then the tasks' notes."""
    cpu_s = sum(run["cost"]["cpu_s"] or 0 for run in scores)
    gpu_s = sum(run["cost"]["gpu_s"] or 0 for run in scores)
    cost = f"{cpu_s:,.0f} CPU seconds"
    if gpu_s:
        cost += f" and {gpu_s:,.0f} GPU seconds"

    seeds = sorted({run["seed"] for run in scores})
    machines = Counter(machine(run["training"]) for run in scores)
    counts = "; ".join(f"{name} ({count})" for name, count in machines.most_common())
    notes = [
        f"\n{escaped(f'{task.label or name}: {task.note}')}\n"
        for name, task in experiment.tasks.items()
        if task.note
    ]

    return (
        f"{len(scores)} runs, seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}, together {cost}, decoding included. "
        f"Trained on {escaped(counts)}.\n" + "".join(notes)
    )


def machine(training: dict[str, Any]) -> str:
    """Return the processor or GPU of a training, cores and the version of torch."""
    hardware = training.get("hardware") or {}
    versions = training.get("versions") or {}
    device = hardware.get("gpu") or f"{hardware.get('cpu')}, {hardware.get('cores')} cores"
    return f"{device}, torch {versions.get('torch')}"


def escaped(text: str) -> str:
    """Return text that reStructuredText reads neither as markup nor as a directive."""
    return r"\ " + re.sub(r"([\\*`|_<>:])", r"\\\1", " ".join(text.split()))


def front(tables: list[str]) -> str:
    """Return tables' pages without their heads, to go into another page with its own style."""
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
    sys.stderr = open_log(snakemake.log[0])
    files = snakemake.input
    experiment = load_experiment(files.experiment)
    data = summaries_of(files.data)
    gold = summaries_of(files.gold)
    texts = [Path(path).read_text(encoding="utf-8") for path in files.tables]
    write_text(snakemake.output.summary, summary(experiment, list(map(read_json, files.scores))))
    write_text(snakemake.output.front, front(texts))
    write_text(snakemake.output.data, page("Data", datasets(experiment, data, gold)))
