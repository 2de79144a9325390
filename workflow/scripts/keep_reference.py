"""Keeps what an experiment measured under results/reference/, small enough to be tracked.

    python workflow/scripts/keep_reference.py results/paper results/reference/table2 \
        --command 'snakemake ...' --commit COMMIT

Tables, figures, the resolved experiment and of each scored run what they are made of are copied,
the large ones packed; the runs' values are gathered into one CSV. What a run leaves besides
(weights) stays behind, and so does text of data whose licence allows no derivatives. A run whose
scores lie in the kept folder already is counted to the run that made it; all else there is
replaced. take_reference.py is the way back.
"""

import argparse
import csv
import datetime
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pam.config import Experiment
from pam.io import UserError, atomic_write, read_json, write_json
from pam.reporting.reference import (
    Name,
    files_to_keep,
    folder_of,
    forbids_derivatives,
    pack,
    scored_runs,
)
from pam.reporting.runs import load_experiment

SHOWN = {"tables": (".csv", ".md"), "figures": (".svg", ".png")}
RECORD = "record.json"


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
        # Tasks of different kinds have different columns.
        columns = dict.fromkeys(column for row in rows for column in row)
        writer = csv.DictWriter(out, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def score_row(scores: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One run: each metric's value, those of its alignments too, and what it cost."""
    row = {key: scores[key] for key in ("task", "model", "seed")}
    gold = folder / "gold_scores.json"
    for content in (scores, *([read_json(gold)] if gold.is_file() else [])):
        row |= {name: round(metric["value"], 4) for name, metric in content["metrics"].items()}
    return row | {key: round(value or 0, 1) for key, value in scores["cost"].items()}


def keep(results: Path, out: Path, command: str, commit: str) -> None:
    """Makes the kept folder beside `out`, then puts it in its place.

    Raises:
        UserError: the experiment has no scores.
    """
    experiment = load_experiment(results / "experiment.yaml")
    names = list(scored_runs(results, experiment))
    if not names:
        raise UserError("no run has scores", file=results, hint="let the experiment run first")
    made = out.with_name(f".{out.name}.part")
    shutil.rmtree(made, ignore_errors=True)
    keep_shown(results, made, experiment)
    for task in experiment.tasks:
        wanted = files_to_keep(experiment, task, results)
        for name in (name for name in names if name[0] == task):
            for file in wanted:
                if (folder_of(results, name) / file).is_file():
                    pack(folder_of(results, name) / file, folder_of(made, name) / file)
    scores = [read_json(folder_of(results, name) / "scores.json") for name in names]
    rows = [
        score_row(one, folder_of(results, name)) for one, name in zip(scores, names, strict=True)
    ]
    write_rows(made / "scores.csv", rows)
    run = {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    run |= {"command": command, "commit": commit}
    write_json(made / RECORD, record(scores, runs(run, names, made, out)))
    shutil.rmtree(out, ignore_errors=True)
    made.rename(out)


def keep_shown(results: Path, made: Path, experiment: Experiment) -> None:
    """Copies tables, figures and the resolved experiment."""
    closed = [
        task
        for task in experiment.tasks
        if forbids_derivatives(read_json(results / task / "data/summary.json"))
    ]
    hidden = tuple(f"attention_{task}_" for task in closed) + (("examples.",) if closed else ())
    for folder, endings in SHOWN.items():
        (made / folder).mkdir(parents=True)
        for path in sorted((results / folder).glob("*")):
            if path.suffix in endings and not path.name.startswith(hidden):
                shutil.copyfile(path, made / folder / path.name)
    shutil.copyfile(results / "experiment.yaml", made / "experiment.yaml")


def runs(run: dict[str, Any], names: list[Name], made: Path, out: Path) -> list[dict[str, Any]]:
    """The runs that made the kept runs, each with those it made; `run` made what is new.

    A run that went on, by the same command with the same code, is one, of its last day.
    """
    earlier = read_json(out / RECORD)["runs"] if (out / RECORD).is_file() else []
    identity = itemgetter("commit", "command")
    made_by = {run: identity(one) for one in earlier for run in one["runs"]}
    found = {identity(one): one | {"runs": []} for one in [*earlier, run]}
    for name in names:
        run = folder_of(Path(), name).as_posix()
        same = content(folder_of(out, name)) == content(folder_of(made, name))
        by = made_by.get(run) if same else None
        found[by or identity(run)]["runs"].append(run)
    return [one for one in found.values() if one["runs"]]


def content(folder: Path) -> list[bytes]:
    """The scores in a kept folder."""
    return [path.read_bytes() for path in sorted(folder.glob("scores.json*"))]


def record(scores: list[dict[str, Any]], made: list[dict[str, Any]]) -> dict[str, Any]:
    """How many runs there are, what they cost, where and by what they were made."""
    cost = {key: round(sum(one["cost"][key] or 0 for one in scores)) for key in ("cpu_s", "gpu_s")}
    trainings = machines(one["training"] for one in scores)
    return {"runs": len(scores), "cost": cost, "machines": trainings, "runs": made}


def machines(trainings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every hardware with its versions, and how many runs were trained there."""
    counts = Counter(
        json.dumps({key: training.get(key) for key in ("hardware", "versions")})
        for training in trainings
    )
    return [json.loads(text) | {"runs": count} for text, count in counts.most_common()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of an experiment that has run")
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
