"""Makes comparisons and pictures of gains of stored experiments again, from their archives, without
data or training.

    python workflow/scripts/rebuild_reference.py results/reference/table2 [results/reference/small
    ...]

Call it when the rule of verdicts or of intervals changes. Two things are no part of an archive and
stay as they are
stored: p by sacreBLEU, and rows of no model, such as the first sentences of a text, whose gains get
    no interval. A table of fewer runs than the archive has is left alone.
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

from pam.evaluation.translation import Significance, Test
from pam.experiment import RESERVED_MODELS
from pam.io import write_json, write_text
from pam.reporting import figures, render, tables
from pam.reporting.catalogue import FIGURES, TABLES, load_papers
from pam.reporting.comparison import Inputs
from pam.reporting.reference import EXPERIMENT, unpacked
from pam.reporting.runs import load_experiment

PAPERS = Path("config/paper_results.yaml")
REBUILT = ("comparison", "gains", "attentions")
GUESSED_P = 0.0005  # of what is written as `< 0.001`
CONTROLS_NOTE = (
    "Rows of no model, such as the first sentences of a text, have the means and intervals over"
    " units that were scored with these runs; as their outputs are not stored, their gains have no"
    " interval."
)
Cells = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "stored", type=Path, nargs="+", help="folders under results/reference/, with an archive"
    )
    parser.add_argument(
        "--draw", nargs="*", default=["gains"], help="kinds of figures to draw again (%(default)s)"
    )
    arguments = parser.parse_args()
    for stored in arguments.stored:
        with unpacked(stored) as runs:
            for page in sorted((stored / "tables").glob("*.md")):
                spec = TABLES.get(page.stem) or TABLES[page.stem.removesuffix("_gains")]
                if spec.builder in REBUILT:
                    print(page, rebuild(page, stored, runs))
            for picture in sorted((stored / "figures").glob("*.svg")):
                if picture.stem in FIGURES and FIGURES[picture.stem].draws in arguments.draw:
                    print(picture, draw(picture, stored, runs))
    return 0


def rebuild(page: Path, stored: Path, runs: Path) -> str:
    """Write a table again, as CSV and Markdown, and say so."""
    before = pd.read_csv(page.with_suffix(".csv"), dtype=str, keep_default_na=False)
    spec = TABLES.get(page.stem) or TABLES[page.stem.removesuffix("_gains")]
    experiment = load_experiment(stored / EXPERIMENT)
    file = spec.files["scores"].removeprefix("{run}/")
    scores = [
        path
        for task in dict.fromkeys(before["task"])
        for path in sorted(runs.glob(f"{task}/*/seed*/{file}"))
    ]
    more: dict[str, list[Path]] = {}
    if spec.builder == "attentions":
        more["gold_scores"] = sorted(runs.glob("*/*/seed*/gold_scores.json"))
        more["analyses"] = sorted(runs.glob("*/*/seed*/analysis.json"))
        if 0 < len(more["analyses"]) < len(scores):
            return "left alone: some analyses are missing"
    with TemporaryDirectory() as folder:
        if "p_sacrebleu" in before:
            more["significance"] = tested_by_sacrebleu(before, experiment.baseline, Path(folder))
        made = tables.build(page.stem, Inputs(experiment, load_papers(PAPERS), scores, **more))
    made = with_controls(made, before, page)
    write_text(page, render.to_markdown(made))
    write_text(page.with_suffix(".csv"), render.to_csv(made))
    return "made again"


def tested_by_sacrebleu(before: pd.DataFrame, baseline: str, folder: Path) -> list[Path]:
    """Files of the p by sacreBLEU that a table has, one for each task and seed."""
    tests: dict[tuple[str, int], list[Test]] = {}
    for row in before.to_dict("records"):
        for seed, text in enumerate(filter(None, row["p_sacrebleu"].split("; ")), 1):
            p = GUESSED_P if text.startswith("<") else float(text)
            test = Test(
                model=row["model"], metric=row["metric"], score=0, baseline=0, p=p, signature=""
            )
            tests.setdefault((row["task"], seed), []).append(test)
    paths = []
    for (task, seed), own in tests.items():
        paths.append(folder / f"{task}-{seed}.json")
        write_json(
            paths[-1], Significance(task=task, seed=seed, baseline=baseline, tests=own).model_dump()
        )
    return paths


def with_controls(made: render.Table, before: pd.DataFrame, page: Path) -> render.Table:
    """Add the stored rows whose model the archive does not have, below those of their task and
    metric.
    """
    known = set(zip(made.data["task"], made.data["model"], strict=True))
    rows = made.data.to_dict("records")
    texts = made.shown.to_numpy().tolist()
    headings = list(made.shown.columns)
    is_level = "Ours" in headings
    added = False
    for stored, cells in zip(before.to_dict("records"), shown_before(page), strict=False):
        if (stored["task"], stored["model"]) in known or stored["model"] in RESERVED_MODELS:
            continue
        kept = {
            "task",
            "model",
            "metric",
            "baseline",
            "mean",
            "gain",
            "n",
            "sd",
            *(("low", "high") if is_level else ()),
        }
        row = {name: stored.get(name) if name in kept else None for name in made.data.columns}
        if "direction" in row:
            row["direction"] = "not judged"
        text = []
        for place, heading in enumerate(headings):
            is_told = heading in ("Task", "Metric", "Model", "Ours", "Gain, ours", "Seeds")
            is_told |= is_level and heading == "95 % interval" and headings.index(heading) == place
            text.append(cells.get(heading, "") if is_told else "")
        group = [
            place
            for place, other in enumerate(rows)
            if (other["task"], other["metric"]) == (stored["task"], stored["metric"])
        ]
        rows.insert(group[-1] + 1, row)
        texts.insert(group[-1] + 1, text)
        added = True
    if not added:
        return made
    data = pd.DataFrame(rows, columns=made.data.columns, dtype=object)
    shown = pd.DataFrame(texts, columns=headings, dtype=object)
    return replace(made, data=data, shown=shown, notes=(*made.notes, CONTROLS_NOTE))


def shown_before(page: Path) -> list[Cells]:
    """The rows that people read in a stored table; of two columns with one heading the first."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rows = []
    for row in cells[2:]:
        own: Cells = {}
        for heading, text in zip(cells[0], row, strict=True):
            own.setdefault(heading, text.replace("\\*", "*"))
        rows.append(own)
    return rows


def draw(picture: Path, stored: Path, runs: Path) -> str:
    """Draw a figure of scores again, as SVG and PNG."""
    figure = FIGURES[picture.stem]
    file = figure.files["scores"].removeprefix("{run}/")
    words = [
        "--experiment",
        str(stored / EXPERIMENT),
        "--scores",
        *map(str, sorted(runs.glob(f"*/*/seed*/{file}"))),
    ]
    with TemporaryDirectory() as folder:
        out = Path(folder) / picture.name
        figures.write(figure.draws, [*words, *figure.options, "--out", str(out)])
        for path in (out, out.with_suffix(".png")):
            picture.with_suffix(path.suffix).write_bytes(path.read_bytes())
    return "drawn again"


if __name__ == "__main__":
    sys.exit(main())
