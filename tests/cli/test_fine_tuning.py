"""Training goes on from a trained model on other data, in the symbols of that model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from pam.data.dataset import Prepared
from pam.experiments.loading import load_plan
from pam.experiments.model import ModelConfig
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.library.model_files import WEIGHTS, files_of
from pam.models.checkpoint import load_model, load_tensors
from tests.cli.conftest import Call
from tests.training import small
from tests.workflow.checkouts import Checkout, with_own_data

ROWS = {
    "train": (
        "Tür\tcase=nominative,number=plural\tTüren\nRad\tcase=genitive,number=singular\tRades\n"
    ),
    "dev": "Rad\tcase=nominative,number=plural\tRäder\n",
    # `y` is a letter that the model does not know.
    "test": "Zylinder\tcase=nominative,number=plural\tZylinder\n",
}
CHECK = ("check", "--configfile", "own/experiment.yaml")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """Write a data set of a few other nouns, fetched already."""
    raw = tmp_path / "raw"
    raw.mkdir()
    files = {}
    for split, text in ROWS.items():
        (raw / f"{split}.tsv").write_text(text, encoding="utf-8")
        files[f"{split}.tsv"] = {"path": str(raw / f"{split}.tsv")}

    entry = {"task": "inflection", "title": "Others", "files": files}
    path = tmp_path / "datasets.yaml"
    path.write_text(yaml.safe_dump({"others": entry}), encoding="utf-8")
    return path


def prepare(called: Call, registry: Path, *more: object) -> Any:
    """Fetch and prepare the other nouns."""
    options = ["--dataset", "others", "--registry", registry]
    fetched = registry.parent / "fetched"
    assert called("fetch", *options, "--out", fetched).code == 0
    out = registry.parent / "prepared"
    return called("prepare", *options, "--raw", fetched, "--out", out, *more)


def started(path: object, **changes: Any) -> RunConfig:
    """Configure a run that starts from the model at a path, and stays where it starts."""
    run = small.run("postr-joint", epochs=1, state_every_s=60.0, learning_rate=1e-12, **changes)
    components = run.components.model_dump() | {"init_from": str(path)}
    return run.model_copy(update={"components": ModelConfig.model_validate(components)})


@pytest.mark.parametrize("form", ["run", "file"])
def test_a_model_is_trained_on_with_its_own_symbols(
    called: Call, trained: Path, registry: Path, tmp_path: Path, form: str
) -> None:
    path = trained
    if form == "file":
        path = tmp_path / "nouns.pam"
        assert called("export", "--run", trained, "--out", path).code == 0

    result = prepare(called, registry, "--symbols-of", path)
    assert result.code == 0, result.err
    data = Prepared(tmp_path / "prepared")
    before = load_model(trained / "model")
    assert data.source.symbols == before.source.symbols
    assert data.target.symbols == before.target.symbols
    assert data.summary["splits"]["test"]["unseen_source"] == {"Z": 1, "y": 1}
    assert data.summary["symbols_of"] == str(path)
    assert [len(data.rows(split)) for split in ("train", "dev", "test")] == [2, 1, 1]

    run = tmp_path / "tuned"
    small.write_run(run, started(path))
    result = called("train", "--run", run, "--data", data.folder, "--device", "cpu")
    assert result.code == 0, result.err
    weights = load_tensors(trained / "model" / WEIGHTS)[0]
    for name, value in load_tensors(run / "model" / WEIGHTS)[0].items():
        torch.testing.assert_close(value, weights[name], rtol=0, atol=1e-6)


def test_data_in_other_symbols_are_refused_with_the_remedy(
    called: Call, trained: Path, registry: Path, tmp_path: Path
) -> None:
    assert prepare(called, registry).code == 0
    run = tmp_path / "tuned"
    small.write_run(run, started(trained))
    result = called("train", "--run", run, "--data", tmp_path / "prepared", "--device", "cpu")
    message, hint = result.message()
    assert f"`postr-joint` starts from {trained}, whose vocabularies differ" in message
    assert f"--symbols-of {trained}" in hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--symbols-of", "nowhere"], "nowhere: no trained model"),
        (["--symbols-of", "pretrained:nuns/soft"], "no pretrained model `nuns/soft`"),
        (["--symbols-of", "pretrained:phrases/soft"], "is for translation, but the data are for"),
        (["--symbols-of", "x", "--base", "y"], "--base and --symbols-of"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(
    called: Call, registry: Path, options: list[str], message: str
) -> None:
    assert message in prepare(called, registry, *options).message()[0]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path) -> Checkout:
    """An experiment on made-up nouns beside the run of a trained model, `trained`."""
    monkeypatch.chdir(tmp_path)
    made = with_own_data(Checkout(tmp_path))
    made.edit("own/experiment.yaml", "config/datasets.yaml, ", "")
    made.edit("own/experiment.yaml", "batch_size: 16", "batch_size: 16, warmup_steps: 1")
    made.edit("own/experiment.yaml", "decoder: 16", "decoder: 8")
    shutil.copytree(trained, tmp_path / "trained")
    return made


def with_models(made: Checkout, models: str) -> None:
    made.edit("own/experiment.yaml", "models: [soft, mono-postr-joint]", f"models:\n{models}")


TUNED = "  - soft\n  - tuned:\n      from: postr-joint\n      init_from: ./trained/\n"


def test_check_accepts_a_start_that_fits(own: Checkout, called: Call) -> None:
    with_models(own, TUNED)
    result = called(*CHECK)
    assert result.code == 0, result.err
    assert "2 runs; the configuration is right" in result.out


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("./trained/", "./trainde/", "no trained model", "name the folder of a trained run"),
        (
            "./trained/",
            "results/tiny/nouns/soft/seed1",
            "is a run of the task `nouns`",
            "only the model's name",
        ),
        ("./trained/", "pretrained:phrases/soft", "is for translation, but `small`", "same kind"),
        ("from: postr-joint", "from: hard-mono", "which writes symbols", "targets: actions"),
        ("from: postr-joint", "from: transformer", "`architecture: recurrent`", "transformer"),
        (
            "from: postr-joint",
            "from: postr-joint\n      network: {encoder: 16, embedding: 4}",
            "`network.embedding` is 4 in `nouns`, but 8 in the trained model",
            "write `network: {embedding: 8, encoder: 8}`",
        ),
    ],
)
def test_check_refuses_a_start_that_does_not_fit_with_its_line(
    own: Checkout, called: Call, old: str, new: str, message: str, hint: str
) -> None:
    with_models(own, TUNED.replace(old, new))

    actual_message, actual_hint = called(*CHECK).message()

    line = 9 if "network: {" in new else 8
    assert actual_message.startswith(f"own/experiment.yaml:{line}: "), actual_message
    assert message in actual_message
    assert hint in actual_hint


def test_check_tells_symbols_that_the_model_lacks_and_how_to_add_them(
    own: Checkout, called: Call, trained: Path
) -> None:
    with_models(own, TUNED)
    for split in ("train", "dev"):
        file = own.folder / f"own/{split}.tsv"
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{text}жж\tnumber=dual\tжж\n", encoding="utf-8")

    result = called(*CHECK)
    assert result.code == 0, result.err
    before = load_model(trained / "model")
    rows = [line.split("\t") for line in (own.folder / "own/train.tsv").read_text().splitlines()]
    lacking = sum(any(letter not in before.target for letter in form) for *_, form in rows)
    assert f"{lacking} of {len(rows)} targets of train" in result.err
    assert "ж" in result.err and "number=dual" in result.err and "add_symbols: true" in result.err

    # What training adds is no longer lacking.
    with_added_symbols(own)
    result = called(*CHECK)
    assert (result.code, result.err) == (0, "")
    assert "symbols of training added to those of `./trained/`" in result.out


def with_added_symbols(made: Checkout) -> None:
    made.edit(
        "own/experiment.yaml",
        "nouns: {dataset: small}",
        "nouns:\n    dataset: small\n    format:\n      add_symbols: true",
    )


@pytest.mark.parametrize(
    "models", ["  - soft\n", "  - soft\n  - more: {from: soft, init_from: soft}\n"]
)
def test_check_refuses_to_add_symbols_to_no_other_models(
    own: Checkout, called: Call, models: str
) -> None:
    with_models(own, models)
    with_added_symbols(own)
    message, hint = called(*CHECK).message()
    line = (
        own.folder.joinpath("own/experiment.yaml")
        .read_text()
        .splitlines()
        .index("      add_symbols: true")
    )
    assert message.startswith(f"own/experiment.yaml:{line + 1}: ")
    assert "`init_from`" in hint


def test_models_of_one_task_start_from_models_with_the_same_symbols(
    own: Checkout, called: Call
) -> None:
    other = "  - other:\n      from: soft\n      init_from: pretrained:nouns/soft\n"
    network = "      network: {embedding: 64, encoder: 64, decoder: 128}\n"
    with_models(own, TUNED + other + network)
    message, _ = called(*CHECK).message()
    assert "`pretrained:nouns/soft` and `./trained/`, whose symbols differ" in message


def test_jobs_depend_on_the_files_of_the_model(trained: Path, tmp_path: Path) -> None:
    # The same before a run is trained and afterwards.
    assert files_of(str(trained)) == RunFolder(trained).model_files
    untrained = tmp_path / "results/a/b/c/seed1"
    assert files_of(str(untrained)) == RunFolder(untrained).model_files
    names = [file.name for file in files_of(str(trained / "model"))]
    assert names == ["config.yaml", "source.vocab", "target.vocab", WEIGHTS]
    assert files_of("pretrained:nouns/soft") == []
    assert files_of("some/nouns.pam") == [Path("some/nouns.pam")]


def test_the_example_of_the_recipes_starts_from_another_experiment(tmp_path: Path) -> None:
    page = (small.ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    section = page.partition("## Fine-tuning")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / "my").mkdir()
    for name in ("tuned.yaml", "my/datasets.yaml"):
        (tmp_path / name).write_text(block, encoding="utf-8")

    plan = load_plan(files=[tmp_path / "tuned.yaml"])
    assert plan.trained_starts("letters") == {"tuned": "results/news/news/soft/seed1"}
    assert plan.run("letters", "tuned", 1).training.learning_rate == 0.0005
