"""Find of which stored runs a stored figure is drawn, and by which options."""

from __future__ import annotations

from pathlib import Path

from pam.experiments.yaml import read_yaml
from pam.reporting.catalogue import FIGURES, MAP
from pam.reporting.runs import load_experiment
from pam.runtime.files import read_json


def kind_of(name: str) -> str:
    """Return the kind of a figure; empty if the catalogue has the figure no longer."""
    if MAP.fullmatch(name):
        return "attention"
    return FIGURES[name].draws if name in FIGURES else ""


def options_of(name: str, config: Path, runs: Path) -> list[str]:
    """Return the options of `pam figures` that draw a figure; none if not all files are stored.

    Args:
        config: configuration of the experiment.
        runs: its archive, unpacked.
    """
    of_map = MAP.fullmatch(name)
    if of_map:
        return _options_of_map(config, runs, task=of_map[1], seed=of_map[2])

    figure = FIGURES[name]
    experiment = load_experiment(config)
    # A task without scores has no kind, and is in no figure.
    kinds = dict.fromkeys(experiment.tasks, "")
    for path in runs.glob("*/*/seed*/scores.json"):
        kinds[path.relative_to(runs).parts[0]] = read_json(path)["kind"]

    options = ["--experiment", str(config)]
    for option, pattern in figure.files.items():
        files: list[Path] = []
        for task in figure.shows(experiment, kinds):
            run = f"{task}/*/seed*"
            files += sorted(runs.glob(pattern.format(run=run, task=task)))
        if not files:
            return []
        options += [f"--{option}", *map(str, files)]

    return [*options, *figure.options]


def _options_of_map(config: Path, runs: Path, task: str, seed: str) -> list[str]:
    """Return the options that draw a task's maps: of the baseline and the first posterior model."""
    experiment = load_experiment(config)
    files = {
        model: runs / task / model / f"seed{seed}/attention.json"
        for model in experiment.models_of(task)
    }
    posterior = [
        path
        for path in files.values()
        if path.is_file() and _has_posterior(path.with_name("run.yaml"))
    ]
    baseline = files.get(experiment.baseline)
    if not posterior or baseline is None or not baseline.is_file():
        return []

    rows = str(experiment.attention_words)
    return ["--base", str(baseline), "--other", str(posterior[0]), "--rows", rows]


def _has_posterior(run_config: Path) -> bool:
    """Check whether the model of a stored run feeds its posterior attention."""
    kind: str = read_yaml(run_config)["components"]["input_feeding"]["kind"]
    return kind == "posterior"
