"""Bad input gives one message with file and hint, exit code 2, and nothing half written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pam.data.dataset import Prepared, Split, write_summary
from pam.experiments.run_config import RunConfig
from pam.models.checkpoint import load_tensors, save_tensors
from pam.runtime.files import sha256_of
from tests.cli.conftest import Call
from tests.training import small

TYPED = "Haus\tcase=nominative,number=plural\n"


def damaged(path: Path) -> None:
    """Turn one bit of a file."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 0x08
    path.write_bytes(content)


def resaved(path: Path, notes: dict[str, str]) -> None:
    """Change notes of a file of tensors."""
    tensors, old_notes = load_tensors(path)
    save_tensors(path, tensors, old_notes | notes)


def replaced(path: Path, old: str, new: str) -> None:
    """Replace a text in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def of_other_sizes(weights: Path) -> None:
    """Change the sizes of a model and put its hashes right."""
    config = weights.parent / "config.yaml"
    replaced(config, "decoder: 8", "decoder: 9")
    hashes = json.loads(load_tensors(weights)[1]["files"]) | {config.name: sha256_of(config)}
    resaved(weights, {"files": json.dumps(hashes)})


MODELS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no weights": ("weights.safetensors", Path.unlink, "no such file"),
    "no configuration": ("config.yaml", Path.unlink, "no such file"),
    "no vocabulary": ("source.vocab", Path.unlink, "no such file"),
    "damaged weights": ("weights.safetensors", damaged, "damaged"),
    "cut weights": (
        "weights.safetensors",
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        "not a safetensors file, or cut short",
    ),
    "empty weights": (
        "weights.safetensors",
        lambda path: path.write_bytes(b""),
        "not a safetensors file, or cut short",
    ),
    "a pickle": (
        "weights.safetensors",
        lambda path: torch.save({"weight": torch.ones(2)}, path),
        "not a safetensors file, or cut short",
    ),
    "a state": (
        "weights.safetensors",
        lambda path: resaved(path, {"format": "pam-state-1"}),
        "not a model of this format",
    ),
    "weights of other sizes": (
        "weights.safetensors",
        lambda path: of_other_sizes(path),
        "do not fit the model that config.yaml describes",
    ),
    "a changed configuration": (
        "config.yaml",
        lambda path: replaced(path, "max_ratio: 1.0", "max_ratio: 9.0"),
        "does not belong to the model",
    ),
    "other lengths": (
        "lengths.json",
        lambda path: replaced(path, '"ratio":', '"ratio": '),
        "does not belong to the model",
    ),
    "no lengths": ("lengths.json", Path.unlink, "no such file"),
    "another vocabulary": (
        "target.vocab",
        lambda path: replaced(path, "\nt\n", "\nq\n"),
        "does not belong to the model",
    ),
    "a vocabulary that is none": (
        "target.vocab",
        lambda path: path.write_text("a\nb\n", encoding="utf-8"),
        "`<pad>` must stand here",
    ),
    "an unknown key": (
        "config.yaml",
        lambda path: replaced(path, "dropout:", "drop:"),
        "unknown key `network.drop`",
    ),
    "configuration of another kind": (
        "config.yaml",
        lambda path: path.write_bytes(b"\x89PNG\r\n"),
        "not UTF-8",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_folder_that_is_not_whole_is_refused(name: str, called: Call, model: Path) -> None:
    file, damage, problem = MODELS[name]
    damage(model / file)

    message, hint = called("predict", "--model", model, typed=TYPED).message()
    assert message.startswith(f"{model / file}:") and problem in message
    assert hint


def test_a_missing_model_folder_is_named(called: Call, tmp_path: Path) -> None:
    message, hint = called("predict", "--model", tmp_path / "none", typed=TYPED).message()
    assert message.startswith(f"{tmp_path / 'none'}: ")
    assert "trained run" in hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beam", "0"], "beam 0"),
        (["--beam", "-2"], "beam -2"),
        (["--data", "somewhere"], "a split and no --out"),
        (["--out", "predictions.tsv"], "--out and --record are not for lines from standard input"),
        (["--record", "decoding.json"], "--out and --record are not for lines from standard input"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: list[str], message: str, called: Call, trained: Path
) -> None:
    result = called("predict", "--model", trained / "model", *arguments, typed=TYPED)
    assert result.message()[0] == message
    assert result.out == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("command", ["train", "predict"])
def test_cuda_where_there_is_none_is_told_of(
    command: str, called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    shutil.copy2(trained / "run.yaml", tmp_path)
    arguments: dict[str, list[object]] = {
        "train": ["--run", tmp_path, "--data", data],
        "predict": ["--run", trained],
    }

    result = called(command, *arguments[command], "--device", "cuda", typed=TYPED)
    assert result.message() == (
        "no CUDA device is usable here",
        "ask for the device `cpu` or `auto`, or check the driver",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def run(folder: Path, model: str) -> Path:
    """Write a run's folder with nothing but its configuration."""
    chosen: RunConfig = small.run(model)
    return small.write_run(folder / "run", chosen).parent


def untouched(folder: Path) -> bool:
    """Tell whether a run's folder still holds nothing but its configuration."""
    return [path.name for path in folder.iterdir()] == ["run.yaml"]


def without_alignment(folder: Path) -> None:
    """Take the alignments out of prepared training data."""
    replace(Split.load(folder, "train"), alignments=None).save(folder, "train")
    write_summary(folder, Prepared(folder).summary)


def without_rows(folder: Path) -> None:
    """Take all rows out of the prepared development split."""
    digests = Split.load(folder, "dev").digests
    Split.from_rows([], [], [], digests).save(folder, "dev")
    write_summary(folder, Prepared(folder).summary)


def short(path: Path) -> None:
    """Cut a file to half of its length."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DATA: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no folder": ("train.safetensors", shutil.rmtree, "no such file"),
    "an empty split": (
        "train.safetensors",
        lambda folder: (folder / "train.safetensors").write_bytes(b""),
        "not a prepared split",
    ),
    "a cut split": (
        "dev.safetensors",
        lambda folder: short(folder / "dev.safetensors"),
        "not a prepared split",
    ),
    "a damaged split": (
        "dev.safetensors",
        lambda folder: damaged(folder / "dev.safetensors"),
        "damaged",
    ),
    "a split without rows": ("dev.safetensors", without_rows, "no rows"),
    "steps without an alignment": ("train.safetensors", without_alignment, "has no alignment"),
    "an empty vocabulary": (
        "source.vocab",
        lambda folder: (folder / "source.vocab").write_bytes(b""),
        "not a vocabulary",
    ),
    "another vocabulary": (
        "target.vocab",
        lambda folder: replaced(folder / "target.vocab", "\nt\n", "\nq\n"),
        "not the vocabulary that train.safetensors was made with",
    ),
    "no summary": (
        "summary.json",
        lambda folder: (folder / "summary.json").unlink(),
        "no such file",
    ),
    "a cut summary": ("summary.json", lambda folder: short(folder / "summary.json"), "not valid"),
}


@pytest.mark.parametrize("name", DATA)
def test_prepared_data_that_is_not_whole_is_refused_before_training(
    name: str, called: Call, own_data: Path, tmp_path: Path
) -> None:
    file, damage, problem = DATA[name]
    damage(own_data)
    model = "hard-mono" if "steps" in name else "soft"
    folder = run(tmp_path, model=model)

    message, hint = called("train", "--run", folder, "--data", own_data).message()
    assert message.startswith(f"{own_data / file}:") and problem in message, message
    assert hint
    assert untouched(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected keys and values"),
        ("- 1\n", "expected keys and values"),
        ("experiment: [\n", "not valid YAML"),
        ("experiment: a\n", "missing key"),
    ],
)
def test_a_run_that_is_none_is_refused(
    content: str, message: str, called: Call, data: Path, tmp_path: Path
) -> None:
    path = run(tmp_path, model="soft") / "run.yaml"
    path.write_text(content, encoding="utf-8")

    result = called("train", "--run", path.parent, "--data", data)
    assert result.message()[0].startswith(f"{path}:") and message in result.message()[0]
    assert untouched(path.parent)


@pytest.mark.parametrize("command", ["train", "ensemble", "score"])
def test_a_folder_that_is_no_run_is_named(command: str, called: Call, model: Path) -> None:
    message, hint = called(command, "--run", model.parent).message()
    assert message == f"{model.parent / 'run.yaml'}: no such file"
    assert "results/<experiment>/<task>/<model>/seed<k>" in hint


def test_a_run_is_not_trained_and_an_ensemble_not_joined_by_the_others_command(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    result = called("ensemble", "--run", trained)
    assert "is trained itself" in result.message()[0]

    folder = run(tmp_path, model="ensemble")
    result = called("train", "--run", folder, "--data", data)
    assert "is an ensemble, which is not trained" in result.message()[0]


def test_components_that_do_not_fit_together_are_refused(
    called: Call, data: Path, tmp_path: Path
) -> None:
    folder = run(tmp_path, model="postr-joint")
    summed = "marginalization:\n    kind: output\n    top_k: null\n    mass: null"
    replaced(folder / "run.yaml", summed, "marginalization: input")

    result = called("train", "--run", folder, "--data", data)
    assert "the posterior needs p(y | s, h_a) of each position" in result.message()[0]


@pytest.mark.parametrize("command", ["predict", "attention"])
def test_a_text_that_was_changed_after_preparing_is_refused(
    command: str, called: Call, trained: Path, own_data: Path, tmp_path: Path
) -> None:
    short(own_data / "test.tsv")
    out = tmp_path / "out.tsv"
    result = called(command, "--run", trained, "--data", own_data, "--out", out)

    message = f"{own_data / 'test.tsv'}: this is not the text that test.safetensors was made from"
    assert result.message()[0] == message
    assert not out.exists()


def test_a_folder_where_a_file_is_to_be_written_is_named(
    called: Call, trained: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "predictions.tsv"
    out.mkdir()

    result = called("predict", "--model", trained / "model", "--data", data, "--out", out)
    assert result.message()[0].startswith(f"{out}: a file is where a folder is needed")


def test_a_threads_setting_that_is_no_number_is_passed_over(
    called: Call, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in ("", "0", "4,2", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
        assert called("predict", "--model", trained / "model", typed=TYPED).code == 0
        assert torch.get_num_threads() == 1


def test_weights_that_are_no_numbers_do_not_hang_a_search(called: Call, model: Path) -> None:
    tensors, notes = load_tensors(model / "weights.safetensors")
    tensors["readout.output.bias"] = torch.full_like(tensors["readout.output.bias"], np.nan)
    save_tensors(model / "weights.safetensors", tensors, notes)

    result = called("predict", "--model", model, typed=TYPED)
    assert result.code in (0, 2) and "Traceback" not in result.err
