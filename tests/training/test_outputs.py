"""The files of a training: weights of the best epoch, history, record, curves."""

from __future__ import annotations

import ast
import json
import logging
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.io_wrapper import GetLogdirSubdirectories

import pam
from pam.data.dataset import Prepared
from pam.experiments.run_config import load_run
from pam.models.checkpoint import load_model, load_tensors
from pam.runtime import processor
from pam.runtime.devices import versions
from pam.runtime.files import write_text
from pam.training import logging as training_logging
from pam.training import trainer as training_loop
from pam.training.checkpoint import Progress, Results, StateFolder
from pam.training.learning_rate import learning_rate
from tests.training import runs, small
from tests.training.runs import Fault
from tests.training.trainers import trained

RUN = small.run("mono-postr-joint")


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train, killed once after the second epoch was reported and before it was saved."""
    out = tmp_path_factory.mktemp("trained")
    runs.train(RUN, data, out, Fault("pam.training.checkpoint", "save_tensors", 8)).end()
    assert runs.train(RUN, data, out).end() == 0
    return out


def test_the_model_folder_is_all_that_is_needed_to_use_the_model(
    finished: Path, data: Path
) -> None:
    folder = finished / "model"
    assert {path.name for path in folder.iterdir()} == {
        "codec.json",
        "config.yaml",
        "weights.safetensors",
        "lengths.json",
        "source.vocab",
        "target.vocab",
    }

    model = load_model(folder)
    assert model.run == load_run(folder / "config.yaml") == RUN
    assert model.task == "inflection"
    assert model.source.digest == Prepared(data).source.digest
    assert not model.network.training


def test_the_history_has_a_row_an_epoch(finished: Path) -> None:
    history = pd.read_csv(finished / "history.csv")
    assert list(history) == runs.COLUMNS
    assert history["epoch"].tolist() == [1, 2, 3]
    assert history["step"].tolist() == [4, 8, 12]
    assert history["examples"].tolist() == [60, 120, 180]
    assert history["learning_rate"].tolist() == pytest.approx(
        [learning_rate(RUN.training, step, 12) for step in (3, 7, 11)]
    )
    assert history["train_loss"].is_monotonic_decreasing
    assert history["wall_s"].is_monotonic_increasing and history["cpu_s"].is_monotonic_increasing
    assert b"\r" not in (finished / "history.csv").read_bytes()


def test_the_record_states_cost_origin_and_outcome(finished: Path) -> None:
    record = runs.record_of(finished)
    assert set(record) == {
        *("wall_s", "cpu_s", "gpu_s", "device", "hardware", "versions", "seed", "epochs"),
        *("processes", "precision"),
        *("best_epoch", "dev_accuracy", "dev_loss", "parameters", "examples_per_second"),
        *("tokens_per_second", "peak_memory_mb", "peak_gpu_memory_mb", "resumed", "command"),
        *("peak_gpu_reserved_mb", "gpu_used_mb", "replayed_steps"),
    }

    history = pd.read_csv(finished / "history.csv").to_dict("records")
    assert (record["seed"], record["epochs"], record["resumed"]) == (1, 3, 1)
    assert record["dev_accuracy"] == history[record["best_epoch"] - 1]["dev_accuracy"]

    weights, _ = load_tensors(finished / "model" / "weights.safetensors")
    assert record["parameters"] == sum(value.numel() for value in weights.values())
    assert record["wall_s"] >= history[-1]["wall_s"] > 0
    assert record["gpu_s"] == 0.0 and record["device"] == "cpu"
    assert record["tokens_per_second"] == pytest.approx(history[-1]["tokens"] / record["wall_s"])
    assert record["peak_gpu_memory_mb"] is None
    assert record["peak_gpu_reserved_mb"] is None
    assert record["examples_per_second"] == pytest.approx(180 / record["wall_s"])
    assert 50 < record["peak_memory_mb"] < 2000
    assert set(record["hardware"]) == {"cpu", "cores", "gpu", "system"}
    assert record["command"].startswith("python -m pam train --run ")


def test_the_record_names_the_versions_of_what_ran(finished: Path) -> None:
    recorded = runs.record_of(finished)["versions"]
    assert recorded == versions()
    assert recorded["pam"] == pam.__version__
    assert recorded["torch"] == torch.__version__


def test_the_package_and_its_metadata_have_the_same_version() -> None:
    project = tomllib.loads((small.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # `dynamic` would mean that the metadata are read from the package.
    assert project.get("version", pam.__version__) == pam.__version__


def test_tensorboard_reads_the_curves_of_a_training_that_was_resumed_as_one(finished: Path) -> None:
    events = EventAccumulator(str(finished / "events")).Reload()
    history = pd.read_csv(finished / "history.csv")
    assert set(events.Tags()["scalars"]) == {
        "train_loss",
        "dev_loss",
        "dev_accuracy",
        "learning_rate",
    }

    for name in ("train_loss", "dev_loss", "dev_accuracy", "learning_rate"):
        scalars = events.Scalars(name)
        assert [scalar.step for scalar in scalars] == [1, 2, 3]
        assert [scalar.value for scalar in scalars] == pytest.approx(history[name].tolist())


def test_tensorboard_finds_the_curves_where_the_recipes_say(finished: Path, tmp_path: Path) -> None:
    page = (small.ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    (folder,) = re.findall(r"^tensorboard --logdir (\S+)$", page, flags=re.MULTILINE)
    run = tmp_path / folder / "de-noun/soft/seed1"
    shutil.copytree(finished / "events", run / "events")
    assert list(GetLogdirSubdirectories(str(tmp_path / folder))) == [str(run / "events")]


def test_no_module_can_load_a_pickle() -> None:
    risky = {"pickle", "dill", "joblib", "shelve", "cloudpickle"}
    for path in (small.ROOT / "pam").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not risky & {alias.name.split(".")[0] for alias in node.names}, path
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in risky, path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"torch.load", "torch.save", "np.load", "numpy.load"}, path
                assert not called.endswith((".read_pickle", ".unsafe_load", "yaml.load")), path


EPOCHS = [
    # dev loss, dev accuracy
    {"loss": 3.0, "accuracy": 0.25},
    {"loss": 2.0, "accuracy": 0.50},
    {"loss": 1.0, "accuracy": 0.50},
    {"loss": 4.0, "accuracy": 0.25},
]


@pytest.mark.parametrize(("select", "best"), [("accuracy", 3), ("loss", 3), ("last", 4)])
@pytest.mark.parametrize("order", ["forth", "back"])
def test_the_weights_of_the_best_epoch_are_kept(
    select: str, best: int, order: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On equal terms the later epoch's, and by the chosen measure alone."""
    scores = EPOCHS if order == "forth" else EPOCHS[::-1]
    if order == "back":
        best = {"accuracy": 3, "loss": 2, "last": 4}[select]
    seen: list[dict[str, torch.Tensor]] = []

    def scripted(model: torch.nn.Module, *arguments: Any, **options: bool) -> dict[str, float]:
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return scores[len(seen) - 1]

    monkeypatch.setattr(training_loop, "evaluate", scripted)
    weights, progress = trained(small.run(epochs=4, select=select), data, tmp_path)
    assert progress.best is not None and progress.best["epoch"] == best
    assert all(torch.equal(weights[name], seen[best - 1][name]) for name in weights)
    assert not torch.equal(seen[0]["readout.output.weight"], seen[3]["readout.output.weight"])


def test_gradients_are_clipped_to_their_largest_norm(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms: list[float] = []
    step = torch.optim.SGD.step

    def noted(self: torch.optim.SGD, *arguments: Any) -> Any:
        parameters = [p for group in self.param_groups for p in group["params"]]
        grads = [p.grad.norm() for p in parameters if p.grad is not None]
        norms.append(float(torch.stack(grads).norm()))
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", noted)
    trained(small.run(optimizer="sgd", clip=0.01, epochs=1), data, tmp_path)
    assert norms == pytest.approx([0.01] * 4, rel=1e-3)


def test_a_log_gets_plain_lines_with_the_time_to_go(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(training_logging, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(processor, "maker", lambda: None)
    with caplog.at_level(logging.INFO, "pam"):
        trained(small.run(epochs=2), data, tmp_path)
    lines = [record.getMessage() for record in caplog.records]

    assert lines.pop(0) == "small: precision: float32; float32 products: default"
    assert len(lines) == 8 + 2
    assert lines[1].startswith("small: epoch 1 of 2, step 2 of 8, loss 3.")
    assert lines[1].endswith(" to go")
    assert lines[4].startswith("small: epoch 1 of 2, train loss 3.")
    assert "\r" not in capfd.readouterr().err


def test_where_patience_may_end_a_training_its_log_has_the_most_time_to_go(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(training_logging, "LINE_EVERY_S", 0.0)
    with caplog.at_level(logging.INFO, "pam"):
        trained(small.run(epochs=2, patience=1), data, tmp_path)
    line = next(r.getMessage() for r in caplog.records if " step 2 of 8" in r.getMessage())

    assert re.search(r", at most \d\d:\d\d to go$", line)


def test_lines_come_no_faster_than_a_person_reads(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pam"):
        trained(small.run(epochs=2), data, tmp_path)
    assert len(caplog.records) == 1 + 2


def test_a_terminal_gets_a_bar_and_whole_lines_above_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    handler = logging.StreamHandler(terminal)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setattr(root, "level", logging.INFO)
    trained(small.run(epochs=2), data, tmp_path)
    pieces = terminal.text.replace("\r", "\n").split("\n")
    lines = [piece for piece in pieces if "train loss" in piece]

    assert len(lines) == 2 and all(piece.startswith("small: epoch ") for piece in lines)

    bars = [piece for piece in pieces if piece.startswith("small:") and "%|" in piece]
    assert " 8/8 [" in bars[-1] and "step" in bars[-1]
    assert root.handlers == [handler]


class Terminal:
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return True


def test_progress_comes_back_from_json_as_it_was(tmp_path: Path) -> None:
    before = Progress(
        epoch=2, batch=3, loss=0.1 + 0.2, tokens=7, examples=5, history=[{"epoch": 1, "x": 1 / 3}]
    )
    states = StateFolder(tmp_path, "key")
    states.save({"a": torch.zeros(1)}, before)
    loaded = states.load()

    assert loaded is not None and loaded[1] == before
    assert json.loads(json.dumps(loaded[1].history)) == before.history


def written(folder: Path, key: str) -> Results:
    """Results of a training, whole."""
    results = Results(folder / "finished", key)
    results.take_back()
    if not results.whole():
        results.clear()
        write_text(results.folder / "model/weights", key)
        results.complete()

    return results


def test_results_of_another_configuration_are_kept_and_come_back_with_it(tmp_path: Path) -> None:
    two = "two epochs"
    four = "four epochs"
    written(tmp_path, two)
    written(tmp_path, four)

    assert (tmp_path / "replaced/model/weights").read_text(encoding="utf-8") == two

    before = (tmp_path / "replaced/model/weights").stat().st_ino
    back = written(tmp_path, two)
    assert (back.folder / "model/weights").stat().st_ino == before
    assert (tmp_path / "replaced/model/weights").read_text(encoding="utf-8") == four

    # What is damaged is made again and takes nobody's place.
    (back.folder / "model/weights").write_text("torn", encoding="utf-8")
    assert (written(tmp_path, two).folder / "model/weights").read_text(encoding="utf-8") == two
    assert (tmp_path / "replaced/model/weights").read_text(encoding="utf-8") == four
    assert sorted(path.name for path in tmp_path.iterdir()) == ["finished", "replaced"]
