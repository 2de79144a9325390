"""Compare your own model with Soft, in minutes: a new score, trained and tested on German nouns.

    python examples/own_model.py [--out results/own-model] [--lemmas 400] [--epochs 10]

The score is a distance instead of a product. It needs no change of the repository: this file is a
plugin, as docs/models.md explains. There, the kind and what computes it are in two files, so that a
dry run need not import torch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.decoding.generator import Generator, predict_split
from pam.evaluation.bootstrap import interval, resampled_sums
from pam.evaluation.metrics import metric_of
from pam.evaluation.records import save
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import files_of, score
from pam.experiments.experiment import Experiment
from pam.experiments.model import ModelConfig, load_model
from pam.experiments.parsing import dump_yaml, parse
from pam.experiments.plan import Plan
from pam.experiments.run_folder import RunFolder
from pam.models.checkpoint import load_model as load_trained
from pam.models.interfaces import AttentionHistory, Memory, Score, Sizes
from pam.models.options import Options, register
from pam.runtime.errors import UserError
from pam.runtime.files import write_text
from pam.training.run import train

TASK = "nouns"
OWN = {"label": "Soft, distance", "source": "mine", "score": "distance"}


class Distance(Options):
    """Negative squared distance of decoder and encoder state."""

    kind: Literal["distance"] = "distance"
    implementation = "own_model:DistanceScore"
    sharpness: float = Field(0.1, gt=0, description="what the distance is multiplied with")


class DistanceScore(Score):
    """e_t(a) = -sharpness |s_t - W h_a|^2: of states that lie close together."""

    def __init__(self, options: Distance, sizes: Sizes) -> None:
        super().__init__()
        self.sharpness = options.sharpness
        self.weight = nn.Linear(sizes.values, sizes.query, bias=False)

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.weight(values)
        return keys

    def forward(self, query: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        differences: Tensor = memory.keys - query[:, None]
        return -self.sharpness * differences.square().sum(2)


def nouns(out: Path, lemmas: int) -> Path:
    """Prepare so many German nouns, and a quarter as many each for development and test."""
    if lemmas < 4:
        raise UserError(f"--lemmas {lemmas}", hint="use a whole number, at least 4")

    sizes = {"train": lemmas, "dev": lemmas // 4, "test": lemmas // 4}
    content = {
        "task": "inflection",
        "package": {"name": "german-nouns", "version": "1.2.5", "options": sizes},
        "files": {f"{split}.tsv": {} for split in sizes},
    }
    dataset = parse(Dataset, content)

    fetch(TASK, dataset, out / "raw")
    prepare(TASK, dataset, out / "raw", out / TASK / "data")
    return out / TASK / "data"


def planned(epochs: int) -> Plan:
    """Plan the experiment: Soft, and the same with a score of our own."""
    content = {
        "experiment": "own-model",
        "plugins": ["own_model"],
        "models": ["soft", "soft-distance"],
        "tasks": {TASK: {"dataset": TASK}},
        "training": {"epochs": epochs, "batch_size": 32},
    }
    experiment = parse(Experiment, content)
    components = {"soft": load_model("soft"), "soft-distance": parse(ModelConfig, OWN)}

    return Plan(experiment, components, ())


def tested(plan: Plan, model: str, out: Path) -> Scores:
    """Train a model, decode the test split and score it.

    All files are where the workflow would leave them.
    """
    run = plan.run(TASK, model, seed=1)
    folder = RunFolder(out / TASK / model / "seed1")
    write_text(folder.config_file, dump_yaml(run))
    train(folder, folder.data(), folder.path / "state", "cpu")

    generator = Generator(load_trained(folder.model), run.decoding)
    beam = run.decoding.beam
    predict_split(
        generator,
        folder.data(),
        "test",
        folder.predictions("test", beam),
        folder.decoding("test", beam),
    )

    scores = score(files_of(folder, "test"))
    save(scores, folder.scores("test"))
    return scores


def gain(baseline: Scores, other: Scores) -> str:
    """Say how much more accurate the other is, with the paired bootstrap interval over lemmas."""
    metric = metric_of("accuracy")
    counts = np.stack([scores.counts().of(metric.columns) for scores in (baseline, other)])
    # Both are resampled with the same lemmas, so that their differences are paired.
    baseline_values, other_values = metric.value(resampled_sums(counts))
    spread = interval(other_values - baseline_values)

    difference = other.metrics["accuracy"].value - baseline.metrics["accuracy"].value
    return f"gain {difference:+.2f} [{spread.low:+.2f}, {spread.high:+.2f}]"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/own-model"), help="folder (%(default)s)"
    )
    parser.add_argument("--lemmas", type=int, default=400, help="nouns to train on (%(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over them (%(default)s)")
    args = parser.parse_args(arguments)

    try:
        nouns(args.out, args.lemmas)
        plan = planned(args.epochs)
        scores_of_models = [tested(plan, model, args.out) for model in plan.components]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    for scores in scores_of_models:
        accuracy = scores.metrics["accuracy"]
        spread = f"[{accuracy.low:.2f}, {accuracy.high:.2f}]"
        print(f"{scores.label}: accuracy {accuracy.value:.2f} % {spread} of {accuracy.n} forms")
    print(f"{OWN['label']}: {gain(*scores_of_models)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
# Imported as the plugin `own_model`, it adds its kind. The script itself is `__main__`, and adds
# none.
register("score", Distance)
