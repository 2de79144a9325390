"""A batch too large for memory names the setting to change; memory does not grow with epochs."""

from __future__ import annotations

import random
import resource
import signal
from pathlib import Path

import pytest

from pam.experiments.parsing import dump_yaml
from pam.experiments.run_config import RunConfig
from pam.runtime.devices import enough_for, keep_heap
from pam.runtime.errors import UserError
from pam.runtime.files import read_json, write_json
from pam.training.trainer import Trainer
from tests.conftest import Recorder
from tests.training import runs, small
from tests.training.runs import CONTEXT, Fault
from tests.training.test_failures import one_message
from tests.training.trainers import trained

MANY = 1500
FEW = 50
STEP = ("pam.training.trainer", "Trainer._step")
EVALUATION = ("pam.training.trainer", "evaluate")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare so many rows in each split as no batch should have."""
    draw = random.Random(1)
    lemmas = ["".join(draw.choices("abdegiklmnoprstu", k=12)) for _ in range(3 * MANY)]
    rows = [(lemma, "number=plural", f"{lemma}en") for lemma in lemmas]
    splits = {name: rows[start::3] for start, name in enumerate(("train", "dev", "test"))}

    return small.prepare(tmp_path_factory.mktemp("prepared") / "many", splits)


def run(size: int = FEW, decoded: int = FEW, **training: int) -> RunConfig:
    """Configure one step of a network that needs far more memory for a batch than for weights."""
    plain = small.run("postr-joint", batch_size=size, max_steps=1, select="loss", **training)
    network = {"embedding": 64, "encoder": 64, "decoder": 128, "dropout": 0.0}
    changed = {"network": network, "decoding": {"batch_size": decoded}}
    return RunConfig.model_validate(plain.model_dump() | changed)


@pytest.mark.parametrize(
    ("config", "fault", "work", "hint"),
    [
        (
            run(MANY),
            Fault(*STEP, 1, "confined"),
            f"a training step of {MANY} examples",
            (
                "lower `training.batch_size`, or raise `training.accumulate`, which cuts a batch"
                " into parts"
            ),
        ),
        (
            run(decoded=MANY),
            Fault(*EVALUATION, 1, "confined", 40),
            f"the evaluation of {MANY} examples side by side",
            "lower `decoding.batch_size`",
        ),
    ],
)
def test_a_batch_too_large_for_memory_names_the_setting_to_change(
    config: RunConfig, fault: Fault, work: str, hint: str, many: Path, tmp_path: Path
) -> None:
    assert one_message(runs.train(config, many, tmp_path, fault)) == (
        f"out of memory in {work}",
        hint,
    )


@pytest.mark.faults
@pytest.mark.parametrize("room_mb", [2, 10, 40, 70, 80, 85, 90, 95, 100, 110, 130, 200])
def test_memory_that_ends_anywhere_in_a_step_is_told_of_as_such(
    room_mb: int, many: Path, tmp_path: Path, record: Recorder
) -> None:
    trained = runs.train(run(MANY), many, tmp_path, Fault(*STEP, 1, "confined", room_mb))
    if trained.end() == -signal.SIGSEGV:
        # Rarely a library under torch does not look whether it was given memory, and dies of it.
        assert not (tmp_path / "training.json").exists()
        return
    message, _ = one_message(trained)

    assert message == f"out of memory in a training step of {MANY} examples"

    record(fault="a batch too large for memory", showed="the setting to change is named")


def test_what_the_message_names_helps(many: Path, tmp_path: Path) -> None:
    confined = Fault(*STEP, 1, "confined")
    parts = runs.train(run(MANY, accumulate=30), many, tmp_path / "parts", confined)
    fewer = runs.train(run(FEW), many, tmp_path / "fewer", confined)
    assert (parts.end(), fewer.end()) == (0, 0), parts.said() + fewer.said()


@pytest.fixture(scope="module")
def model(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a model that decodes too many at once."""
    out = tmp_path_factory.mktemp("model")
    assert runs.train(run(decoded=MANY), many, out).end() == 0
    return out


def confined(
    point: tuple[str, str], command: str, files: tuple[Path, Path, Path], *options: object
) -> runs.Command:
    """Start a command on a run, data and an output, with 50 MB more than it has at this point."""
    run, data, out = files
    arguments = [command, "--run", run, "--data", data, "--out", out, "--device", "cpu", *options]
    fault = Fault(*point, 1, "confined", 50)
    return runs.start(arguments, out.with_suffix(".log"), fault)


def test_decoding_too_many_at_once_names_the_setting_to_change(
    model: Path, many: Path, tmp_path: Path
) -> None:
    files = model, many, tmp_path / "out.tsv"
    point = ("pam.decoding.generator", "predict_split")
    assert one_message(confined(point, "predict", files)) == (
        f"out of memory in the decoding of {MANY} sources side by side",
        "lower `decoding.batch_size`, or the beam",
    )

    fewer = confined(point, "predict", files, "--config", dump_yaml(run()))
    assert fewer.end() == 0, fewer.said()


def test_analyzing_too_many_at_once_names_the_setting_to_change(
    model: Path, many: Path, tmp_path: Path
) -> None:
    files = model, many, tmp_path / "out.json"
    point = ("pam.evaluation.analyze", "_gather")
    assert one_message(confined(point, "analyze", files)) == (
        f"out of memory in the analysis of {MANY} rows side by side",
        "lower `decoding.batch_size`, or --batch-size",
    )

    fewer = confined(point, "analyze", files, "--batch-size", FEW)
    assert fewer.end() == 0, fewer.said()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has ..."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("could not execute a primitive"),
    ],
)
def test_every_way_to_run_out_of_memory_is_recognized(error: Exception) -> None:
    with pytest.raises(UserError, match="out of memory in this") as raised, enough_for("this", "x"):
        raise error
    assert raised.value.hint == "x"


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes"), enough_for("this", "x"):
        raise RuntimeError("shapes cannot be multiplied")


def _watched(config: RunConfig, data: Path, out: Path) -> None:
    """Train, and note after each epoch how many bytes are resident."""
    sizes: list[int] = []
    save = Trainer._save

    def noted(self: Trainer) -> None:
        save(self)
        pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
        sizes.append(int(pages) * resource.getpagesize())

    Trainer._save = noted  # type: ignore[method-assign]
    keep_heap()
    trained(config, data, out)
    write_json(out / "sizes.json", sizes)


@pytest.mark.parametrize(
    ("epochs", "settled"), [(130, 70), pytest.param(2000, 800, marks=pytest.mark.faults)]
)
def test_memory_does_not_grow_with_epochs(
    epochs: int, settled: int, tmp_path: Path, record: Recorder
) -> None:
    """A batch of these few rows takes more than the bound."""
    rows = {split: listed[: len(listed) // 3] for split, listed in small.ROWS.items()}
    data = small.prepare(tmp_path / "few", rows)
    config = small.run("postr-joint", epochs=epochs, batch_size=60, average=2, state_every_s=60.0)
    process = CONTEXT.Process(target=_watched, args=(config, data, tmp_path))
    process.start()
    process.join()

    assert process.exitcode == 0

    sizes = read_json(tmp_path / "sizes.json")
    assert len(sizes) == epochs

    grown = (max(sizes[settled:]) - sizes[settled]) / (epochs - settled)
    # A row of the history, with what it takes to write it into the state, is all that is left of an
    # epoch: less than any batch, and than the weights.
    assert grown < 16384, f"{grown} bytes an epoch"

    showed = f"{sizes[-1] / 2**20:.0f} MB, {grown:.0f} bytes more an epoch"
    record(fault=f"{epochs} epochs", showed=showed)
