"""Trainings that start from trained models: what is taken over, what is not, what is refused."""

from __future__ import annotations

import logging
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from pam.data.dataset import Prepared, Split
from pam.data.vocabulary import EOS
from pam.experiments.model import ModelConfig
from pam.experiments.parsing import parse
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import RunFolder
from pam.library.model_files import WEIGHTS
from pam.models.build import build
from pam.models.checkpoint import load_model, load_tensors
from pam.models.fitting import FitError, check_parts
from pam.runtime.errors import UserError
from pam.training.run import train
from pam.training.start import load_starts, take_over
from tests.training import runs, small
from tests.training.runs import Fault

SEED = "seed1"


def configured(model: str, **training: Any) -> RunConfig:
    """Configure a run of one epoch by the model's own file."""
    run = small.run(model, **{"epochs": 1, "state_every_s": 60.0, **training})
    return run.model_copy(update={"network": run.network.model_copy(update={"dropout": 0.0})})


def trained(data: Path, task: Path, run: RunConfig) -> RunFolder:
    folder = RunFolder(task / run.model / SEED)
    small.write_run(folder.path, run)
    assert train(folder, data, folder.path / "state", "cpu") == 0
    return folder


@pytest.fixture(scope="module")
def sources(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train three models in a task's folder; not to be changed."""
    task = tmp_path_factory.mktemp("task")
    for model in ("soft", "structural"):
        trained(data, task, configured(model))
    trained(data, task, configured("soft-reversed", select="loss"))

    return task


@pytest.fixture
def task(sources: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sources, tmp_path / "task"))


def weights(folder: RunFolder) -> dict[str, torch.Tensor]:
    return load_tensors(folder.model / WEIGHTS)[0]


def first(run: RunConfig, folder: RunFolder, data: Path) -> dict[str, torch.Tensor]:
    """Return the weights with which a training begins."""
    prepared = Prepared(data)
    torch.manual_seed(run.seed)
    model = build(run.components, run.network, len(prepared.source), len(prepared.target))
    take_over(model, load_starts(folder, run, prepared))

    return {name: value.detach() for name, value in model.named_parameters()}


def fresh(run: RunConfig, data: Path) -> dict[str, torch.Tensor]:
    prepared = Prepared(data)
    torch.manual_seed(run.seed)
    model = build(run.components, run.network, len(prepared.source), len(prepared.target))
    return {name: value.detach() for name, value in model.named_parameters()}


def test_fertility_takes_over_structural_and_what_is_new_starts_afresh(
    task: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = configured("fertility-init")
    folder = RunFolder(task / "fertility-init" / SEED)
    with caplog.at_level(logging.INFO):
        weights_at_start = first(run, folder, data)
    source = weights(folder.member("structural"))
    before = fresh(run, data)
    new = weights_at_start.keys() - source.keys()

    assert new

    for name, value in weights_at_start.items():
        torch.testing.assert_close(
            value, before[name] if name in new else source[name], rtol=0, atol=0
        )

    messages = caplog.messages
    assert (
        "structural" in messages[0]
        and f"copied {len(weights_at_start) - len(new)} parameters" in messages[0]
    )
    assert messages[-1].startswith(f"initialized: {len(new)} parameters") and all(
        name in messages[-1] for name in new
    )


def test_weights_of_another_run_are_not_started_from(task: Path, data: Path) -> None:
    folder = RunFolder(task / "fertility-init" / SEED)
    structural = folder.member("structural")
    run = configured("structural", seed=2)
    small.write_run(structural.model, run)
    (structural.model / "run.yaml").rename(structural.model / "config.yaml")
    with pytest.raises(UserError, match="this file does not belong to the model") as caught:
        load_starts(folder, configured("fertility-init"), Prepared(data))

    assert caught.value.file == str(structural.model / "config.yaml")


def test_agreement_takes_over_a_model_for_each_direction(task: Path, data: Path) -> None:
    run = configured("agreement-init")
    folder = RunFolder(task / "agreement-init" / SEED)
    weights_at_start = first(run, folder, data)
    ahead = weights(folder.member("soft"))
    back = weights(folder.member("soft-reversed"))

    assert weights_at_start.keys() == ahead.keys() | {f"back.{name}" for name in back}

    for name, value in weights_at_start.items():
        expected = ahead[name] if name in ahead else back[name.removeprefix("back.")]
        torch.testing.assert_close(value, expected, rtol=0, atol=0)


def test_a_reversed_model_learns_sources_given_targets(task: Path, data: Path) -> None:
    folder = RunFolder(task / "soft-reversed" / SEED)
    prepared = Prepared(data)
    shapes = {name: value.shape for name, value in weights(folder).items()}

    assert shapes["encoder.embedding.weight"][0] == len(prepared.target)
    assert shapes["decoder.embedding.weight"][0] == len(prepared.source)
    assert (folder.model / "source.vocab").read_bytes() == (data / "target.vocab").read_bytes()

    dev = prepared.split("dev")
    turned = dev.turned()
    assert [row.tolist() for row in turned.sources] == [row.tolist() for row in dev.targets]
    assert [row.tolist() for row in turned.targets] == [row.tolist() for row in dev.sources]

    with pytest.raises(UserError, match="translates from target to source") as raised:
        load_model(folder.model)
    assert raised.value.hint


def test_a_training_starts_from_the_weights_and_says_so(task: Path, data: Path) -> None:
    # At a rate this low the weights stay where they started.
    run = configured("fertility-init", learning_rate=1e-12)
    folder = trained(data, task, run)
    source = weights(folder.member("structural"))
    for name, value in weights(folder).items():
        if name in source:
            torch.testing.assert_close(value, source[name], rtol=0, atol=1e-6)

    assert runs.record_of(folder.path)["init_from"] == [str(folder.member("structural").model)]
    assert load_run(folder.config_file).components.starts() == {"": "structural"}


def test_a_stopped_training_goes_on_from_its_own_state(task: Path, data: Path) -> None:
    run = configured("fertility-init", epochs=3, state_every_s=0.0)
    whole = task / "fertility-init" / SEED
    killed = task / "fertility-init" / "seed2"
    shutil.copytree(task / "structural" / SEED, task / "structural" / "seed2")

    assert runs.train(run, data, whole).end() == 0
    assert (
        runs.train(run, data, killed, Fault("pam.training.trainer", "Trainer._step", 7)).end()
        == -signal.SIGKILL
    )
    assert runs.train(run, data, killed).end() == 0
    assert runs.result(killed) == runs.result(whole)
    assert runs.record_of(killed)["resumed"] == 1


def test_other_weights_to_start_from_are_another_training(task: Path, data: Path) -> None:
    run = configured("fertility-init")
    folder = trained(data, task, run)
    before = weights(folder)
    trained(data, task, run)

    assert runs.record_of(folder.path)["resumed"] == 0

    trained(data, task, configured("structural", epochs=2))
    trained(data, task, run)
    assert any(not torch.equal(value, before[name]) for name, value in weights(folder).items())


@pytest.mark.parametrize(
    ("model", "start", "message"),
    [
        ("soft", "sofd", "`soft` starts from `sofd`, which is not trained"),
        ("transformer", "soft", "`soft` has no parameter of this model"),
        ("soft", "soft-reversed", "its symbols are not those of"),
    ],
)
def test_what_cannot_be_taken_over_is_an_error(
    task: Path, data: Path, model: str, start: str, message: str
) -> None:
    run = configured(model)
    changed = ModelConfig.model_validate(run.components.model_dump() | {"init_from": start})
    run = run.model_copy(update={"components": changed})
    folder = RunFolder(task / "started" / SEED)
    with pytest.raises(UserError, match=message) as raised:
        first(run, folder, data)

    assert raised.value.hint and start in str(raised.value.file)


def test_a_shape_that_differs_under_the_same_name_is_an_error_with_the_remedy(
    task: Path, data: Path
) -> None:
    run = configured("fertility-init")
    wide = run.model_copy(update={"network": run.network.model_copy(update={"decoder": 12})})
    with pytest.raises(UserError, match=r"has the shape .*, where .* is needed") as raised:
        first(wide, RunFolder(task / "fertility-init" / SEED), data)

    assert "`network`" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"init_from": {}}, "no model to start from"),
        ({"init_from": {"backward": "soft-reversed"}}, "`recurrent` has no opposite direction"),
        ({"reversed": True, "targets": "actions"}, "sources have no actions"),
        ({"members": ["soft"], "init_from": "soft"}, "an ensemble has no `init_from`"),
        ({"members": ["soft"], "reversed": True}, "an ensemble has no `reversed`"),
    ],
)
def test_a_model_file_that_makes_no_sense_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message) as raised:
        check_parts(parse(ModelConfig, {"label": "Wrong", **changed}))
    assert raised.value.hint


@pytest.mark.parametrize("value", [3, ["soft"], "so ft", {"forwards": "soft"}])
def test_a_value_that_names_no_model_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="init_from"):
        parse(ModelConfig, {"label": "Wrong", "init_from": value})


def test_a_turned_split_ends_its_targets_where_sources_have_no_end(tmp_path: Path) -> None:
    split = Split.from_rows(
        [[5, 6], [7]], [[8], [9, 10]], None, {"source": "s", "target": "t"}, source_eos=False
    )
    turned = split.turned()

    assert [row.tolist() for row in turned.sources] == [[8], [9, 10]]
    assert [row.tolist() for row in turned.targets] == [[5, 6, EOS], [7, EOS]]
    assert not turned.source_eos
