"""Make comparisons and figures of stored experiments again, from their archives.

    python workflow/scripts/rebuild_reference.py                                  # all of them
    python workflow/scripts/rebuild_reference.py results/reference/table2 --draw gains cost

Neither data nor training is needed. Call it when the rule of verdicts or of intervals changes, or
how figures are drawn. Two things are no part of an archive and stay as they are stored: p by
sacreBLEU, and rows of no model, such as the first sentences of a text, whose gains get no interval.
A table of fewer runs than the archive has is left alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.evaluation.significance import Significance, Test
from pam.experiments.consistency import RESERVED_MODELS
from pam.reporting import figures, render, tables
from pam.reporting.catalogue import DRAWINGS, TABLES, load_papers
from pam.reporting.cells import MINUS, Cell, Estimate, Judgement, Missing, Name
from pam.reporting.comparison import Inputs
from pam.reporting.items import TableSpec
from pam.reporting.reference import ARCHIVE, EXPERIMENT, unpacked
from pam.reporting.runs import load_experiment
from pam.reporting.stored_figures import kind_of, options_of
from pam.runtime.files import write_json, write_text

PAPERS = Path("config/paper_results.yaml")
STORED = Path("results/reference")
REBUILT = ("comparison", "gains", "attentions", "overhead")
GUESSED_P = 0.0005  # of what is written as `< 0.001`
CONTROLS_NOTE = (
    "Rows of no model, such as the first sentences of a text, have the means and intervals over"
    " units that were scored with these runs; as their outputs are not stored, their gains have no"
    " interval."
)
NUMBERS = ("mean", "sd", "low", "high")  # of a row, as far as its table has them
Cells = dict[str, Any]


def main() -> int:
    """Make again what the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "stored",
        type=Path,
        nargs="*",
        help=f"folders with an archive (default: all in {STORED})",
    )
    parser.add_argument(
        "--draw",
        nargs="*",
        choices=list(DRAWINGS),
        default=list(DRAWINGS),
        metavar="KIND",
        help="kinds of figures to draw again (default: all)",
    )
    parser.add_argument("--no-tables", action="store_true", help="leave the tables as they are")
    arguments = parser.parse_args()

    folders = arguments.stored or [path.parent for path in sorted(STORED.glob(f"*/{ARCHIVE}"))]
    for stored in folders:
        with unpacked(stored) as runs:
            if not arguments.no_tables:
                for page in sorted((stored / "tables").glob("*.md")):
                    if spec_of(page).builder in REBUILT:
                        print(page, rebuild(page, stored, runs), flush=True)

            for picture in sorted((stored / "figures").glob("*.svg")):
                if kind_of(picture.stem) in arguments.draw:
                    print(picture, draw(picture, stored, runs), flush=True)

    return 0


def spec_of(page: Path) -> TableSpec:
    """Return the entry of the catalogue for a stored table, by its name."""
    return TABLES.get(page.stem) or TABLES[page.stem.removesuffix("_gains")]


def rebuild(page: Path, stored: Path, runs: Path) -> str:
    """Write a table again, as CSV and Markdown, and say so."""
    before = pd.read_csv(page.with_suffix(".csv"), dtype=str, keep_default_na=False)
    spec = spec_of(page)
    experiment = load_experiment(stored / EXPERIMENT)
    file = spec.files["scores"].removeprefix("{run}/")
    scores: list[Path] = []
    for task in dict.fromkeys(before["task"]):
        scores += sorted(runs.glob(f"{task}/*/seed*/{file}"))

    more: dict[str, list[Path]] = {}
    if spec.builder == "attentions":
        more["gold_scores"] = sorted(runs.glob("*/*/seed*/gold_scores.json"))
        more["analyses"] = sorted(runs.glob("*/*/seed*/analysis.json"))
        if 0 < len(more["analyses"]) < len(scores):
            return "left alone: some analyses are missing"

    with TemporaryDirectory() as folder:
        if "p_sacrebleu" in before:
            more["significance"] = tested_by_sacrebleu(before, experiment.baseline, Path(folder))
        inputs = Inputs(experiment, load_papers(PAPERS), scores, **more)
        table = with_controls(tables.build(page.stem, inputs), before, page)

    write_text(page, render.to_markdown(table))
    write_text(page.with_suffix(".csv"), render.to_csv(table))
    return "made again"


def tested_by_sacrebleu(before: pd.DataFrame, baseline: str, folder: Path) -> list[Path]:
    """Write files of the p by sacreBLEU that a table has, one for each task and seed."""
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
        path = folder / f"{task}-{seed}.json"
        write_json(path, significance.model_dump())
        paths.append(path)

    return paths


def with_controls(table: render.Table, before: pd.DataFrame, page: Path) -> render.Table:
    """Add the stored rows whose model the archive does not have.

    They stand below those of their task and metric.
    """
    rows = list(table.rows)
    models = {(row["task"].key, row["model"].key) for row in rows}
    for stored, texts in zip(before.to_dict("records"), shown_before(page), strict=False):
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

    cells: dict[str, Cell] = {
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


def draw(picture: Path, stored: Path, runs: Path) -> str:
    """Draw a figure again, as SVG and PNG, and say so."""
    options = options_of(picture.stem, stored / EXPERIMENT, runs)
    if not options:
        return "left alone: not all of its files are stored"

    with TemporaryDirectory() as folder:
        out = Path(folder) / picture.name
        figures.write(kind_of(picture.stem), [*options, "--out", str(out)])
        for path in (out, out.with_suffix(".png")):
            picture.with_suffix(path.suffix).write_bytes(path.read_bytes())

    return "drawn again"


if __name__ == "__main__":
    sys.exit(main())
