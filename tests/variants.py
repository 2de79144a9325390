"""Models by their names: files of config/models/, variants of our experiments, and some that tests
alone have.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from pam.experiments.experiment import Experiment
from pam.experiments.listed_models import load_models
from pam.experiments.model import ModelConfig, load_model
from pam.experiments.parsing import parse
from pam.experiments.variants import with_changes
from pam.experiments.yaml import read_yaml

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "config/models"
UNLISTED: dict[str, dict[str, Any]] = {
    "agreement-init": {
        "from": "agreement",
        "init_from": {"forward": "soft", "backward": "soft-reversed"},
    },
    "fertility-init": {"from": "fertility", "init_from": "structural"},
    "mixture-3": {"from": "mixture", "marginalization": {"experts": 3}},
    "postr-joint-pointer-coverage": {
        "from": "postr-joint-pointer",
        "score": {"kind": "coverage", "active": {"kind": "delayed", "value": 1, "after": 0.988}},
        "marginalization": {"mass": 0.99},
    },
    "soft-entmax-learned": {"from": "soft-entmax", "distribution": {"learned": True}},
    "variational-kl0.1": {"from": "variational", "marginalization": {"weight": 0.1}},
}
"""Variants that no experiment of ours writes."""


@cache
def model_named(name: str) -> ModelConfig:
    """Read a model, whether it is a file or a variant."""
    if (MODELS / f"{name}.yaml").is_file():
        return load_model(name, MODELS)

    if name in UNLISTED:
        base = load_model(UNLISTED[name]["from"], MODELS)
        return parse(ModelConfig, with_changes(base, name, UNLISTED[name]))

    return _variants()[name]


def variant_names() -> list[str]:
    """List the names of all variants that our experiments write, and of those that tests have."""
    return sorted({*_variants(), *UNLISTED})


def experiment_files() -> list[Path]:
    """List the files of our experiments. No YAML is parsed, which takes a while."""
    experiment = re.compile("^experiment:", re.MULTILINE)
    files = sorted((ROOT / "config").rglob("*.yaml"))
    return [file for file in files if experiment.search(file.read_text(encoding="utf-8"))]


@cache
def _variants() -> dict[str, ModelConfig]:
    variants: dict[str, ModelConfig] = {}
    for file in experiment_files():
        experiment = parse(Experiment, read_yaml(file), file)
        models = load_models(experiment, [file])
        variants |= {name: models[name] for name in experiment.variants()}
    return variants
