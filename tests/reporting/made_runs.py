"""A made-up experiment on disk, shaped like a real one: two tasks, models, seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pam.evaluation import scoring
from pam.evaluation.inputs import Counts
from pam.evaluation.records import save
from pam.runtime.files import write_json, write_text
from pam.tasks.inflection import counts as inflection

LABELS = {
    "soft": "Soft",
    "hard-mono": "Hard-Mono",
    "prior-joint": "Prior-Joint",
    "postr-joint": "Postr-Joint",
    "prox-postr-joint": "Prox-Postr-Joint",
    "mono-postr-joint": "Mono-Postr-Joint",
}
SKILL = {
    ("de-noun", "soft"): 0.85,
    ("de-noun", "hard-mono"): 0.855,
    ("de-noun", "prior-joint"): 0.852,
    ("de-noun", "postr-joint"): 0.868,
    ("de-noun", "prox-postr-joint"): 0.87,
    ("de-noun", "mono-postr-joint"): 0.882,
    ("de-noun", "postr-joint-mass0.9"): 0.86,
    ("de-noun", "postr-joint-mass0.99"): 0.88,
    ("de-verb", "soft"): 0.951,
    ("de-verb", "hard-mono"): 0.95,
    ("de-verb", "prior-joint"): 0.953,
    ("de-verb", "postr-joint"): 0.955,
    ("de-verb", "prox-postr-joint"): 0.954,
    ("de-verb", "mono-postr-joint"): 0.958,
}
SKILL_OF_OTHERS = 0.86
CASES = ("nominative", "genitive", "dative", "accusative")
FEATURES = [f"case={case},number={number}" for case in CASES for number in ("singular", "plural")]


@dataclass(frozen=True)
class MadeExperiment:
    """Paths of a made-up experiment."""

    folder: Path
    config: Path
    paper: Path

    @property
    def scores(self) -> list[Path]:
        return sorted(self.folder.glob("*/*/seed*/scores.json"))

    @property
    def gold_scores(self) -> list[Path]:
        return sorted(self.folder.glob("*/*/seed*/gold_scores.json"))

    @property
    def analyses(self) -> list[Path]:
        return sorted(self.folder.glob("*/*/seed*/analysis.json"))

    @property
    def predictions(self) -> list[Path]:
        return sorted(self.folder.glob("*/*/seed*/beam4/predictions.tsv"))

    @property
    def histories(self) -> list[Path]:
        return sorted(self.folder.glob("*/*/seed*/history.csv"))

    def run(self, task: str, model: str, seed: int = 1) -> Path:
        return self.folder / task / model / f"seed{seed}"


def lemmas(count: int) -> list[str]:
    """Return pronounceable made-up nouns, always the same."""
    generator = np.random.default_rng(7)
    onset = ["B", "Schl", "F", "Kr", "M", "Z", "Str", "W", "T", "Pf"]
    rhyme = ["and", "ose", "inn", "aum", "eile", "upf", "ächt", "olm", "erz", "ünd"]
    pieces = [generator.choice(onset) + generator.choice(rhyme) for _ in range(2 * count)]

    return [f"{pieces[2 * i]}{pieces[2 * i + 1].lower()}{i}" for i in range(count)]


def prediction_rows(skill: float, seed: int, count: int) -> list[tuple[str, str, str, str]]:
    """Return rows whose errors come by lemma, as errors in inflection do."""
    ease_of_lemmas = np.random.default_rng(11).beta(0.25, 0.25 * (1 - skill) / skill, size=count)
    generator = np.random.default_rng([seed, round(skill * 1e4)])

    rows = []
    for lemma, ease in zip(lemmas(count), ease_of_lemmas, strict=True):
        for features in FEATURES:
            form = f"{lemma}en" if "plural" in features else lemma
            predicted_form = form
            if generator.random() >= ease:
                predicted_form = f"{form}x"
            rows.append((lemma, features, form, predicted_form))

    return rows


def predictions_text(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Return the content of `predictions.tsv`."""
    lines = ["lemma\tfeatures\tform\tpredicted\tlog_prob"]
    lines += ["\t".join([*row, "-0.25"]) for row in rows]
    return "\n".join(lines) + "\n"


def training_record(seed: int, cpu_s: float) -> dict[str, Any]:
    """Return the content of `training.json`."""
    return {
        "wall_s": cpu_s * 1.02,
        "cpu_s": cpu_s,
        "gpu_s": 0.0,
        "device": "cpu",
        "hardware": {"cpu": "Some CPU at 2.5 GHz", "cores": 2, "gpu": None},
        "versions": {"python": "3.11.2", "torch": "2.13.0", "pam": "0.1"},
        "seed": seed,
        "epochs": 12,
        "best_epoch": 9,
        "dev_loss": 0.5,
        "parameters": 312_000,
        "examples_per_second": 18912 * 12 / cpu_s,
        "peak_memory_mb": 540.0,
        "resumed": 0,
        "command": "python -m pam train",
    }


def history_text(skill: float, seed: int, epochs: int = 12) -> str:
    """Return the content of `history.csv`, with losses that fall and an accuracy that rises."""
    generator = np.random.default_rng(seed)
    lines = ["epoch,step,examples,learning_rate,train_loss,dev_loss,dev_accuracy,wall_s,cpu_s"]

    for epoch in range(1, epochs + 1):
        rise = 1 - math.exp(-0.7 * epoch)
        accuracy = skill * rise + generator.normal(0, 0.006)
        train = 0.9 * math.exp(-0.6 * epoch) + 0.02
        dev = 0.8 * math.exp(-0.7 * epoch) + 0.4 * (1 - skill) + 0.004 * max(0, epoch - 5)
        dev += generator.normal(0, 0.003)
        lines.append(
            f"{epoch},{epoch * 296},{epoch * 18912},0.002,{train:.5f},{dev:.5f},"
            f"{accuracy:.5f},{epoch * 12.5:.2f},{epoch * 12.1:.2f}"
        )

    return "\n".join(lines) + "\n"


def attention_record(model: str, label: str, sharpness: float) -> dict[str, Any]:
    """Return alignments along the diagonal, the sharper the larger `sharpness`."""
    words = [
        ("Schlaraffenland", FEATURES[5], "Schlaraffenländern"),
        ("Fenn", FEATURES[2], "Fenns"),
        ("Baumstumpf", FEATURES[1], "Baumstümpfe"),
        ("Zug", FEATURES[7], "Züge"),
    ]
    rows = []
    for lemma, features, form in words:
        source = [*features.split(","), *lemma, "</s>"]
        target = [*form, "</s>"]

        generator = np.random.default_rng(len(lemma))
        center = 2 + np.linspace(0, len(lemma), len(target))
        distance = np.abs(np.arange(len(source))[None] - center[:, None])
        energy = -sharpness * distance + generator.normal(0, 1.0, distance.shape)
        weights = np.exp(energy) / np.exp(energy).sum(axis=1, keepdims=True)
        matrix = np.round(weights, 5).tolist()

        rows.append(
            {
                "lemma": lemma,
                "features": features,
                "form": form,
                "source": source,
                "target": target,
                "prior": matrix,
                "alignment": matrix,
            }
        )

    return {"model": model, "label": label, "rows": rows}


def experiment_config(tasks: Sequence[str], models: Sequence[Any], paper: bool) -> dict[str, Any]:
    """Return an experiment on the paper's data, or on others that are compared with it."""
    rows = {"de-noun": "de-N", "de-verb": "de-V"}
    key = "paper" if paper else "paper_reference"
    # A sweep alone is compared with its first value.
    baseline = {"baseline": "soft"} if isinstance(models[0], str) else {}
    return {
        **baseline,
        "experiment": "made-up",
        "title": "made-up runs",
        "models": list(models),
        "tasks": {task: {"dataset": task, "label": rows[task], key: rows[task]} for task in tasks},
    }


def label_of(model: str) -> str:
    """Return a model's label, of a sweep's model with its values."""
    if model in LABELS:
        return LABELS[model]
    name, _, values = model.partition("-mass")
    words = f"mass {values}".replace("-dropout", ", dropout ")
    return f"{LABELS[name]}, {words}"


def run_config(task: str, model: str, seed: int) -> dict[str, Any]:
    """Return the content of `run.yaml`."""
    return {
        "experiment": "made-up",
        "task": task,
        "model": model,
        "label": label_of(model),
        "seed": seed,
        "components": {"label": label_of(model)},
        "network": {},
        "training": {},
        "decoding": {},
    }


def make_run(folder: Path, task: str, model: str, seed: int, count: int) -> None:
    """Write all files of one run that reporting reads."""
    skill = SKILL.get((task, model), SKILL_OF_OTHERS)
    cpu_s = 130 + seed
    if model in LABELS:
        cpu_s += 12 * list(LABELS).index(model)
    training = training_record(seed, cpu_s)
    decoding = {
        "wall_s": 1.4,
        "cpu_s": 1.3,
        "gpu_s": 0.0,
        "sentences_per_second": 1310.0,
        "beam": 1,
        "unseen": {"ß": 2},
    }
    config = run_config(task, model, seed)
    rows = prediction_rows(skill, seed, count)

    write_text(folder / "beam1" / "predictions.tsv", predictions_text(rows))
    write_json(folder / "training.json", training)
    write_json(folder / "beam1" / "decoding.json", decoding)
    write_text(folder / "history.csv", history_text(skill, seed))
    write_text(folder / "run.yaml", yaml.safe_dump(config))

    units = inflection.count_lemmas([inflection.Prediction(*row) for row in rows])
    counts = Counts(units, tuple(metric.name for metric in inflection.METRICS), "lemmas")
    identity = {key: config[key] for key in ("experiment", "task", "model", "label", "seed")}
    scores = scoring.make("inflection", counts, identity, training, {"1": decoding})
    save(scores, folder / "scores.json")


def make_experiment(
    root: Path,
    tasks: Sequence[str] = ("de-noun", "de-verb"),
    models: Sequence[str] = ("soft", "postr-joint", "mono-postr-joint"),
    seeds: Sequence[int] = (1, 2),
    count: int = 40,
    paper: bool = True,
    listed: Sequence[Any] = (),
) -> MadeExperiment:
    """Write a whole experiment below `root`.

    `listed` is what its `models:` has, where that is not the names of `models`.
    """
    folder = root / "results" / "made-up"
    for task in tasks:
        for model in models:
            for seed in seeds:
                make_run(folder / task / model / f"seed{seed}", task, model, seed, count)

    for model, sharpness in (("soft", 1.2), ("postr-joint", 2.5), ("mono-postr-joint", 4.0)):
        if model in models:
            content = attention_record(model, LABELS[model], sharpness)
            write_json(folder / tasks[0] / model / "seed1" / "attention.json", content)

    config = root / "experiment.yaml"
    write_text(
        config, yaml.safe_dump(experiment_config(tasks, listed or models, paper), sort_keys=False)
    )
    return MadeExperiment(folder, config, Path(__file__).parents[2] / "config/paper_results.yaml")
