"""Train peers by their own recipes on our prepared data, and score them as our own models.

    PEERS=FOLDER python benchmarks/peers/accuracy.py yoyodyne-soft --data DIR --out FILE

Recipes are in recipes/, in the format of each peer. A run is kept in FOLDER/runs and is not made
again. Its scores are those of `pam score`, its CPU seconds those of the whole processes, from their
start.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import recipe_eole
import recipe_trans
import recipe_yoyodyne
import torch
from recipe_runs import RECIPES, Run
from run import version_of

from pam.data.dataset import Prepared
from pam.evaluation.records import load, save
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import Scored, score
from pam.runtime import devices
from pam.runtime.errors import UserError
from pam.runtime.files import write_json

Train = Callable[[Run], dict[str, Any]]
Predict = Callable[[Run, Path], dict[str, Any]]
# by peer: the kind of task that it learns, training, prediction
PEERS: dict[str, tuple[str, Train, Predict]] = {
    "yoyodyne": ("inflection", recipe_yoyodyne.train, recipe_yoyodyne.predict),
    "eole": ("translation", recipe_eole.train, recipe_eole.predict),
    "trans": ("inflection", recipe_trans.train, recipe_trans.predict),
}


def scores_of(run: Run) -> Scores:
    """Train, decode and score a run, unless it was done before."""
    scores = run.folder / "scores.json"
    if scores.is_file():
        return load(Scores, scores)

    run.folder.mkdir(parents=True, exist_ok=True)
    run.log.unlink(missing_ok=True)
    _, train, predict = PEERS[run.peer.name]
    training = run.folder / "training.json"
    decoding = run.folder / "decoding.json"
    predictions = run.folder / "predictions.tsv"
    write_json(training, train(run))
    write_json(decoding, predict(run, predictions))

    scored = score(
        Scored(
            predictions=[predictions],
            decoding=[decoding],
            data=run.data.folder,
            training=training,
        )
    )
    save(scored, scores)
    return scored


def row_of(run: Run, scores: Scores) -> dict[str, Any]:
    """Return the row of a run in the record."""
    metrics = {}
    for name, metric in scores.metrics.items():
        metrics[name] = {
            "value": round(metric.value, 4),
            "low": round(metric.low, 4),
            "high": round(metric.high, 4),
        }

    notes = ("parameters", "epochs", "best_epoch", "steps", "best_step", "peak_memory_mb")
    decoding = next(iter(scores.decoding.values()))
    return {
        "recipe": run.recipe,
        "task": run.data.folder.name,
        "seed": run.seed,
        "metrics": metrics,
        "cpu_s": round(scores.cost.cpu_s or 0.0, 1),
        "wall_s": round(scores.cost.wall_s or 0.0, 1),
        "decoding_cpu_s": round(decoding["cpu_s"], 1),
        **{name: round(scores.training[name]) for name in notes if name in scores.training},
        "hardware": scores.training["hardware"],
        "versions": scores.training["versions"],
    }


def checked(recipe: str, data: Prepared, peers: Path) -> Path:
    """Return the folder of a recipe's peer.

    Raises:
        UserError: the peer is not there, or learns no task of this kind.
    """
    peer = peers / recipe.partition("-")[0]
    if version_of(peer) is None:
        hint = "benchmarks/peers/README.md says how to install it, and PEERS names the folder"
        raise UserError(f"{recipe}: not in the folder of peers", file=peer, hint=hint)

    kind = PEERS[peer.name][0]
    if data.summary["task"] != kind:
        problem = f"{recipe} learns {kind}, and these are data of {data.summary['task']}"
        raise UserError(problem, file=data.folder, hint=f"name prepared data of {kind}")
    return peer


def main() -> None:
    recipes = sorted(file.stem for file in RECIPES.glob("*-*.yaml"))
    parser = argparse.ArgumentParser(description="train peers by their own recipes on our data")
    parser.add_argument("recipes", nargs="+", choices=recipes, metavar="RECIPE")
    parser.add_argument("--data", type=Path, required=True, help="folder of prepared data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, required=True, help="JSON with all figures")
    args = parser.parse_args()

    folder = Path(os.environ.get("PEERS", "data/peers")).resolve()
    try:
        # Before any of them trains.
        data = Prepared(args.data.resolve())
        peers = {recipe: checked(recipe, data, folder) for recipe in args.recipes}
        record = {
            "command": shlex.join(["python", "benchmarks/peers/accuracy.py", *sys.argv[1:]]),
            "data": data.summary["outputs_sha256"],
            "clock": "CPU seconds",
            "threads": 1,
            "hardware": devices.hardware(torch.device("cpu")),
            "peers": {peer.name: version_of(peer) for peer in peers.values()},
        }

        rows: list[dict[str, Any]] = []
        for recipe, peer in peers.items():
            for seed in args.seeds:
                work = folder / "runs" / data.folder.name / recipe / f"seed{seed}"
                run = Run(recipe, peer, data, seed, work)
                rows.append(row_of(run, scores_of(run)))
                # After each run, as a later one may be stopped.
                today = datetime.datetime.now(datetime.UTC).date().isoformat()
                write_json(args.out, {"date": today, **record, "rows": rows})
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
