"""Models fit their tasks: their components, sizes and targets are checked without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pam.data.registry import load_registries
from pam.experiments.check import check_datasets
from pam.experiments.loading import load_plan
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models import options
from pam.models.fitting import FitError, check_fit
from pam.runtime.errors import UserError
from tests.variants import experiment_files

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"


@pytest.fixture(autouse=True)
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An experiment whose second task does not fit its model's sizes."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "experiment: mine\nmodels: [soft-dot]\ntasks:\n  fine: {dataset: de-noun}\n"
        "  wrong: {dataset: de-noun, network: {encoder: 32}}\n",
        encoding="utf-8",
    )
    return file


@pytest.mark.parametrize("file", experiment_files(), ids=lambda file: file.stem)
def test_every_model_of_our_experiments_fits_its_tasks(file: Path) -> None:
    plan = load_plan(files=[file])
    check_datasets(plan, load_registries(plan.experiment.registries))


def test_sizes_that_do_not_fit_are_reported_with_task_and_model(mine: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_plan(files=[mine])
    assert (Path(str(caught.value.file)), caught.value.line) == (mine, 5)
    assert caught.value.message.startswith("model `soft-dot` of task `wrong`: score `dot`")
    assert caught.value.hint


def test_a_transformers_heads_divide_its_units() -> None:
    transformer = ModelConfig(label="T", architecture=options.TransformerOptions(heads=3))
    check_fit(transformer, Network(embedding=12))
    with pytest.raises(FitError, match="64 units do not divide into 3 heads"):
        check_fit(transformer, Network(embedding=64))


@pytest.mark.parametrize("model", ["hard-mono", "hard-twice"])
def test_a_model_that_writes_actions_is_refused_where_a_task_has_none(
    model: str, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mine.parent)
    own = mine.parent / "config" / "models" / "hard-twice.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("label: Both\nmembers: [hard-mono]\n", encoding="utf-8")
    text = (
        f"experiment: mine\nmodels: [soft, {model}]\ntasks:\n  nouns: {{dataset: de-noun}}\n"
        "  phrases: {dataset: cldr-de-en}\n"
    )
    mine.write_text(text, encoding="utf-8")
    datasets = load_registries([CONFIG / "datasets.yaml"])
    with pytest.raises(UserError) as caught:
        check_datasets(load_plan(files=[mine]), datasets)
    assert (Path(str(caught.value.file)).resolve(), caught.value.line) == (mine, 5)
    assert f"model `{model}` of task `phrases` writes pointer actions" in caught.value.message
    assert caught.value.hint == f"leave it out of this task: `without: [{model}]`"
    mine.write_text(text.replace("de-en}", f"de-en, without: [{model}]}}"), encoding="utf-8")
    check_datasets(load_plan(files=[mine]), datasets)


def test_features_are_told_from_characters_on_tasks_of_inflection_alone(mine: Path) -> None:
    mine.write_text(
        "experiment: mine\nmodels:\n"
        "  - kinds: {from: transformer, label: Mine, architecture: {feature_kinds: true}}\n"
        "baseline: kinds\ntasks:\n  nouns: {dataset: de-noun}\n"
        "  phrases: {dataset: cldr-de-en}\n",
        encoding="utf-8",
    )
    with pytest.raises(UserError) as caught:
        check_datasets(load_plan(files=[mine]), load_registries(["config/datasets.yaml"]))
    assert (Path(str(caught.value.file)), caught.value.line) == (mine, 7)
    assert "model `kinds` of task `phrases` has `feature_kinds`" in caught.value.message
    assert caught.value.hint


def test_reading_an_experiment_imports_no_torch() -> None:
    code = (
        "import sys; from pam.experiments.loading import load_plan;"
        "load_plan(files=['config/paper.yaml']);"
        "from pam.experiments.fingerprint import fingerprint; fingerprint('pam.commands.train');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
