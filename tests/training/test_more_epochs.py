"""More epochs of a finished training go on from its last state, to the result of one training."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.training.more_epochs import LAST, reason_to_start_anew
from pam.training.run import train
from tests.training import runs, small

CONSTANT = {"schedule": "linear", "flat": 1.0}
OPEN: dict[str, dict[str, Any]] = {
    "a constant rate": CONSTANT,
    "halving at steps": {"schedule": "halving", "halve_after": 4, "halve_every": 3},
    "halving by epoch": {"schedule": "plateau", "halve_from": 1, "select": "loss"},
    "a mean over epochs": {**CONSTANT, "average": 2},
}


def trained(data: Path, folder: Path, run: RunConfig) -> Path:
    small.write_run(folder, run)
    assert train(RunFolder(folder), data, folder / "state", "cpu") == 0
    return folder


def configured(epochs: int, **training: Any) -> RunConfig:
    return small.run("soft", epochs=epochs, **{"state_every_s": 60.0, **training})


@pytest.mark.parametrize("name", OPEN)
def test_two_more_epochs_give_the_bits_of_one_training(
    name: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at_once = trained(data, tmp_path / "once", configured(4, **OPEN[name]))
    in_two = trained(data, tmp_path / "twice", configured(2, **OPEN[name]))
    two = runs.result(in_two)
    with caplog.at_level(logging.INFO):
        trained(data, in_two, configured(4, **OPEN[name]))

    assert "resuming from epoch 3, batch 1" in caplog.messages
    assert not any("from the first epoch" in message for message in caplog.messages)
    assert runs.result(in_two) == runs.result(at_once)
    assert runs.result(in_two) != two
    assert (in_two / "state/replaced/model/weights.safetensors").is_file()

    # Back to two epochs: their results are still there.
    trained(data, in_two, configured(2, **OPEN[name]))
    assert runs.result(in_two) == two


@pytest.mark.parametrize(
    ("training", "epochs", "reason"),
    [
        ({}, 3, "`training.schedule: linear` lets the rate fall over the total number of steps"),
        (CONSTANT, 1, "fewer epochs are requested than are done"),
    ],
)
def test_where_it_cannot_go_on_the_log_says_why_and_old_results_stay(
    data: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    training: dict[str, Any],
    epochs: int,
    reason: str,
) -> None:
    folder = trained(data, tmp_path / "run", configured(2, **training))
    before = (folder / "model/weights.safetensors").read_bytes()
    with caplog.at_level(logging.INFO):
        trained(data, folder, configured(epochs, **training))

    messages = [message for message in caplog.messages if reason in message]
    assert len(messages) == 1
    assert f"2 epochs are done and {epochs} are requested" in messages[0]
    assert (folder / "state/replaced/model/weights.safetensors").read_bytes() == before
    other = trained(data, tmp_path / "other", configured(epochs, **training))
    assert runs.result(folder) == runs.result(other)


def test_another_change_is_another_training(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = trained(data, tmp_path / "run", configured(2, **CONSTANT))
    with caplog.at_level(logging.INFO):
        trained(data, folder, configured(3, **CONSTANT, clip=0.5))

    assert not any("going on" in message for message in caplog.messages)


def test_the_last_state_is_kept_only_where_more_epochs_may_follow(
    data: Path, tmp_path: Path
) -> None:
    folder = trained(data, tmp_path / "run", configured(1, **CONSTANT))
    assert (folder / "state" / LAST).is_file()
    trained(data, folder, configured(1))
    assert not (folder / "state" / LAST).exists()


def test_values_that_change_by_shares_of_the_training_keep_it_closed() -> None:
    run = configured(1, **CONSTANT)
    assert reason_to_start_anew(run) is None
    gradual = {"kind": "linear", "first": 0, "last": 1}
    for unit, end, expected in (
        ("share", 1, "`latent.weight` changes at shares"),
        ("steps", 9, None),
    ):
        values = run.model_dump()
        values["components"]["latent"] = {
            "kind": "acvi",
            "weight": gradual | {"unit": unit, "end": end},
        }
        reason = reason_to_start_anew(RunConfig.model_validate(values))

        if expected is None:
            assert reason is None
        else:
            assert reason is not None and reason.startswith(expected)


def test_the_example_of_the_recipes_goes_on() -> None:
    page = (small.ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    section = page.partition("## More epochs")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    values = configured(1).model_dump()
    values["training"] |= yaml.safe_load(block)["training"]
    assert reason_to_start_anew(RunConfig.model_validate(values)) is None
    assert f"`state/{LAST}`" in section
