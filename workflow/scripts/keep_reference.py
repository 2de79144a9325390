"""Keeps what an experiment measured under results/reference/, small enough to be tracked.

    python workflow/scripts/keep_reference.py results/paper results/reference/table2 \
        --command 'snakemake ...' --commit COMMIT

Tables, figures, the resolved experiment and each cell's scores, which hold the counts per lemma or
sentence that every table is made from, are copied, the large ones compressed; values and histories
of all cells are gathered into one CSV each. What a run leaves besides (weights, outputs) stays
behind.
"""

import argparse
import csv
import datetime
import gzip
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pam.errors import UserError  # noqa: E402
from pam.files import read_json, write_aside, write_json  # noqa: E402
from pam.reporting.cells import load_experiment  # noqa: E402

KEPT = {"tables": (".csv", ".md"), "figures": (".svg", ".png")}
SCORES = {
    "scores.json": "seed{seed}.json",
    "gold_scores.json": "seed{seed}.gold.json",
    "dev/scores.json": "seed{seed}.dev.json",
}
LARGE = 200_000
"""Bytes of scores above which they are compressed: such are those of thousands of sentences."""


def cells(results: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The scores of the experiment's cells, with their folders, by task, model and seed."""
    experiment = load_experiment(results / "experiment.yaml")
    for task in experiment.tasks:
        for model in experiment.models_of(task):
            for seed in experiment.seeds_of(task):
                folder = results / task / model / f"seed{seed}"
                yield read_json(folder / "scores.json"), folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    with write_aside(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
        # Tasks of different kinds have different columns.
        columns = dict.fromkeys(column for row in rows for column in row)
        writer = csv.DictWriter(out, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def score_row(scores: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One cell: each metric's value, those of its alignments too, and what it cost."""
    row = {key: scores[key] for key in ("task", "model", "seed")}
    gold = folder / "gold_scores.json"
    for content in (scores, *([read_json(gold)] if gold.is_file() else [])):
        row |= {name: round(metric["value"], 4) for name, metric in content["metrics"].items()}
    return row | {key: round(value or 0, 1) for key, value in scores["cost"].items()}


def history_rows(scores: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    name = {key: scores[key] for key in ("task", "model", "seed")}
    if not (folder / "history.csv").is_file():  # joined from other models
        return []
    with (folder / "history.csv").open(encoding="utf-8", newline="") as lines:
        return [name | row for row in csv.DictReader(lines)]


def keep(results: Path, out: Path, command: str, commit: str) -> None:
    """Copies and gathers; files that an earlier run left in `out` are replaced."""
    found = list(cells(results))
    for folder, endings in KEPT.items():
        for path in sorted((results / folder).iterdir()):
            if path.suffix in endings:
                (out / folder).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, out / folder / path.name)
    shutil.copyfile(results / "experiment.yaml", out / "experiment.yaml")
    for scores, folder in found:
        for name, kept in SCORES.items():
            if (folder / name).is_file():
                place = out / "cells" / scores["task"] / scores["model"]
                keep_scores(folder / name, place / kept.format(seed=scores["seed"]))
    write_rows(out / "scores.csv", [score_row(scores, folder) for scores, folder in found])
    histories = [row for scores, folder in found for row in history_rows(scores, folder)]
    write_rows(out / "history.csv", histories)
    cost = {
        key: round(sum(scores["cost"][key] or 0 for scores, _ in found))
        for key in ("cpu_s", "gpu_s")
    }
    write_json(
        out / "record.json",
        {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "command": command,
            "commit": commit,
            "cells": len(found),
            "cost": cost,
            "machines": machines([scores["training"] for scores, _ in found]),
        },
    )


def keep_scores(source: Path, target: Path) -> None:
    """Copies scores, compressed where they are large."""
    content = source.read_bytes()
    if len(content) > LARGE:
        # The same bytes each time: no date.
        content, target = gzip.compress(content, mtime=0), target.with_name(f"{target.name}.gz")
    with write_aside(target) as temporary:
        temporary.write_bytes(content)


def machines(trainings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every hardware with its versions, and how many cells were trained there."""
    counts = Counter(
        json.dumps({key: training.get(key) for key in ("hardware", "versions")})
        for training in trainings
    )
    return [json.loads(text) | {"cells": count} for text, count in counts.most_common()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of a finished experiment")
    parser.add_argument("out", type=Path, help="folder under results/reference/")
    parser.add_argument("--command", required=True, help="the command that made the results")
    parser.add_argument("--commit", required=True, help="the commit whose code made them")
    args = parser.parse_args()
    try:
        keep(args.results, args.out, args.command, args.commit)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
