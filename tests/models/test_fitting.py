"""Whether models fit the sizes of their tasks, seen without training them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.experiment import load_plan
from pam.io import UserError, read_yaml
from pam.models.fitting import check_fit

CONFIG = Path(__file__).resolve().parents[2] / "config"
EXPERIMENTS = [file for file in sorted(CONFIG.glob("*.yaml")) if "experiment" in read_yaml(file)]


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_every_model_of_our_experiments_fits_its_tasks(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CONFIG.parent)
    check_fit(load_plan(files=[file]))


def test_sizes_that_do_not_fit_are_told_with_task_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CONFIG.parent)
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "experiment: mine\nmodels: [soft-dot]\ntasks:\n  fine: {dataset: de-noun}\n"
        "  wrong: {dataset: de-noun, network: {encoder: 32}}\n",
        encoding="utf-8",
    )
    plan = load_plan(files=[mine])
    with pytest.raises(UserError) as caught:
        check_fit(plan)
    assert (Path(str(caught.value.file)), caught.value.line) == (mine, 5)
    assert caught.value.message.startswith("model `soft-dot` of task `wrong`: score `dot`")
    assert caught.value.hint
