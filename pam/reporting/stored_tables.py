"""What stored tables have beyond the stored runs, to make tables of restored runs whole.

Two things are no part of an archive of runs: p by sacreBLEU, whose outputs may not be stored, and
rows of no model, such as the first sentences of a text. Both are taken from the stored table.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from pam.evaluation.significance import Significance, Test
from pam.experiments.consistency import RESERVED_MODELS
from pam.reporting import render
from pam.reporting.cells import MINUS, Cell, Estimate, Judgement, Missing, Name
from pam.runtime.files import write_json

GUESSED_P = 0.0005  # of what is written as `< 0.001`
CONTROLS_NOTE = (
    "Rows of no model, such as the first sentences of a text, have the means and intervals over"
    " units that were scored with these runs; as their outputs are not stored, their gains have no"
    " interval."
)
NUMBERS = ("mean", "sd", "low", "high")  # of a row, as far as its table has them
Cells = dict[str, Any]


def tested_by_sacrebleu(before: pd.DataFrame, baseline: str, files: Path) -> list[Path]:
    """Write files of the p by sacreBLEU that a table has, one for each task and seed.

    Args:
        before: the stored table, as CSV.
        files: their names, with `{task}` and `{seed}`.
    """
    tests: dict[tuple[str, int], list[Test]] = {}
    for row in before.to_dict("records"):
        for seed, text in enumerate(filter(None, row["p_sacrebleu"].split("; ")), 1):
            p = GUESSED_P if text.startswith("<") else float(text)
            test = Test(
                model=row["model"],
                metric=row["metric"],
                score=0,
                baseline=0,
                p=p,
                signature="",
            )
            tests.setdefault((row["task"], seed), []).append(test)

    paths = []
    for (task, seed), of_seed in tests.items():
        significance = Significance(task=task, seed=seed, baseline=baseline, tests=of_seed)
        path = Path(str(files).format(task=task, seed=seed))
        write_json(path, significance.model_dump())
        paths.append(path)

    return paths


def with_controls(table: render.Table, before: pd.DataFrame, page: Path) -> render.Table:
    """Add the stored rows whose model the archive does not have.

    They stand below those of their task and metric.
    """
    rows = list(table.rows)
    models = {(row["task"].key, row["model"].key) for row in rows}
    records = [{str(name): value for name, value in row.items()} for _, row in before.iterrows()]
    for stored, texts in zip(records, shown_before(page), strict=False):
        if (stored["task"], stored["model"]) in models or stored["model"] in RESERVED_MODELS:
            continue
        group = (stored["task"], stored["metric"])
        index = max(
            index for index, row in enumerate(rows) if (row["task"].key, row["metric"].key) == group
        )
        rows.insert(index + 1, control_row(stored, texts, above=rows[index]))

    if len(rows) == len(table.rows):
        return table
    return replace(table, rows=rows, notes=[*table.notes, render.Note(CONTROLS_NOTE)])


def control_row(stored: Cells, texts: Cells, above: render.Row) -> render.Row:
    """Return a stored row with what a row of no model can have.

    Args:
        stored: its values in the CSV, by column.
        texts: what people read, by heading.
        above: a row of the same task and metric.
    """
    numbers = {name: float(stored[name]) if stored.get(name) else None for name in NUMBERS}
    # Both tables show as many digits of a gain as of the level that it is a gain in.
    first_number, _, _ = str(texts.get("Ours") or texts.get("Gain, ours")).partition(" ")
    digits = len(first_number.partition(".")[2])

    level: Cell = Missing("a table of gains has no levels")
    if numbers["mean"] is not None:
        level = Estimate(
            numbers["mean"],
            digits,
            low=numbers["low"],
            high=numbers["high"],
            sd=numbers["sd"],
            seeds=int(stored["n"]),
        )
    gain: Cell = Missing("none is stored")
    # The CSV of a comparison had no gains once, when people read them already.
    gain_text = stored.get("gain") or str(texts.get("Gain, ours", "")).replace(MINUS, "-")
    if gain_text:
        gain = Estimate(float(gain_text), digits, is_gain=True)

    # A row of no model has no gain with an interval, and so no verdict.
    cells: dict[str, Cell] = {name: Missing("none is stored") for name in above.cells}
    cells |= {
        "task": above["task"],
        "metric": above["metric"],
        "baseline": above["baseline"],
        "model": Name(stored["model"], texts["Model"]),
        "level": level,
        "gain": gain,
        "verdict": Judgement("not judged"),
    }
    return render.Row(cells)


def shown_before(page: Path) -> list[Cells]:
    """Return the rows that people read in a stored table, by heading.

    Of two columns with one heading, the first counts.
    """
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    headings, _, *body = table
    rows = []
    for line in body:
        row: Cells = {}
        for heading, text in zip(headings, line, strict=True):
            row.setdefault(heading, text.replace("\\*", "*"))
        rows.append(row)

    return rows
