"""The library, `pam.load`, and models that are exported: what a person does in a notebook."""

from __future__ import annotations

import doctest
import errno
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
import yaml

import pam
from pam.io import UserError
from tests.cli.conftest import Call

mpl.use("agg")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["Haus\tcase=dative,number=plural", "Tisch\tcase=genitive,number=singular"]


@pytest.fixture(scope="module")
def model(trained: Path) -> pam.TrainedModel:
    return pam.load(trained)


@pytest.fixture(scope="module")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model as one file."""
    from pam.exporting import export
    from pam.run_folder import RunFolder

    out = tmp_path_factory.mktemp("exported") / "model.pam"
    export(RunFolder(trained), out)

    return out


@pytest.mark.parametrize(
    ("module", "examples"),
    [("pam.api", 14), ("pam.model_files", 1), ("pam.models.posterior_attention", 6)],
)
def test_examples_of_the_reference_print_what_they_show(module: str, examples: int) -> None:
    results = doctest.testmod(importlib.import_module(module), verbose=False)
    assert results.failed == 0
    assert results.attempted >= examples


def test_importing_the_package_imports_no_torch() -> None:
    program = "import sys, pam; assert 'torch' not in sys.modules; assert pam.__version__"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_library_predicts_what_the_command_predicts(
    model: pam.TrainedModel, trained: Path, called: Call
) -> None:
    typed = "".join(f"{source}\n" for source in SOURCES)
    result = called("predict", "--model", trained / "model", "--beam", "3", typed=typed)
    assert model.predict(SOURCES, beam=3) == result.out.splitlines()


def test_several_outputs_have_scores_and_fall_in_order(model: pam.TrainedModel) -> None:
    for outputs in model.predict(SOURCES, beam=4, n_best=3):
        scores = [output.score for output in outputs]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_outputs_that_are_drawn_depend_on_the_seed_alone(model: pam.TrainedModel) -> None:
    texts = [model.predict(SOURCES, sample=True, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_score_is_the_likelihood_that_search_reports(model: pam.TrainedModel) -> None:
    outputs = model.predict(SOURCES, beam=2, n_best=1)
    best = [output for (output,) in outputs if output.complete]
    scores = model.score(SOURCES, [output.text for output in best])
    for output, score in zip(best, scores, strict=True):
        assert score.log_prob == pytest.approx(output.log_prob, abs=1e-4)
        assert score.symbols == [*output.text, "</s>"]
        assert score.perplexity == pytest.approx(
            np.exp(-output.log_prob / len(score.symbols)), rel=1e-3
        )


def test_attention_is_a_distribution_that_the_symbol_updates_and_a_picture(
    model: pam.TrainedModel,
) -> None:
    look = model.attention(SOURCES[0], target="Häusern")
    assert look.source == ["case=dative", "number=plural", *"Haus", "</s>"]
    assert look.target == [*"Häusern", "</s>"]
    assert look.posterior is not None
    for weights in (look.prior, look.alignment, look.posterior):
        assert weights.shape == (len(look.target), len(look.source))
        np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-5)

    assert np.abs(look.posterior - look.prior).max() > 0.01

    axes = look.plot(which="posterior")
    assert [label.get_text() for label in axes.get_yticklabels()] == look.source
    with pytest.raises(UserError, match="no attention of the kind `nothing`"):
        look.plot(which="nothing")


def test_a_target_is_read_in_composed_letters_as_training_text_is() -> None:
    translator = pam.load("pretrained:phrases/soft")
    source = "Am Montag kostet das Haus 8.500 Euro."

    scores = [
        translator.score([source], [unicodedata.normalize(form, "Málaga is big.")])[0]
        for form in ("NFC", "NFD")
    ]
    assert scores[0].symbols == scores[1].symbols
    assert scores[0].log_prob == scores[1].log_prob


def test_the_folder_of_an_exported_file_goes_when_the_model_does(exported: Path) -> None:
    loaded = pam.load(exported)
    folder = loaded.folder

    assert folder.is_dir()

    del loaded
    gc.collect()
    assert not folder.exists()


def test_symbols_that_training_did_not_have_are_listed(model: pam.TrainedModel) -> None:
    assert model.unseen("H漢us\tmood=x") == ["mood=x", "漢"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.predict(["Haus"]), "source 0: expected a lemma, a tab and features"),
        (lambda model: model.predict([SOURCES[0], "\tx=y"]), "source 1: expected a lemma"),
        (lambda model: model.predict(SOURCES, beam=0), "beam"),
        (lambda model: model.predict(SOURCES, lenght_penalty=1.0), "lenght_penalty"),
        (lambda model: model.predict(SOURCES, beam=1, n_best=2), "2 outputs of a beam of 1"),
        (lambda model: model.score(SOURCES, ["Haus"]), "2 sources and 1 targets"),
        (lambda model: model.attention("Haus"), "expected a lemma"),
    ],
    ids=[
        "no features",
        "no lemma",
        "no beam",
        "a wrong key",
        "a narrow beam",
        "unequal numbers",
        "no source",
    ],
)
def test_what_is_wrong_is_said(model: pam.TrainedModel, call: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(model)  # type: ignore[operator]


def test_a_name_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such model folder"):
        pam.load(tmp_path / "none")
    with pytest.raises(UserError, match="no pretrained model `none`"):
        pam.load("pretrained:none")


def test_the_first_commands_of_the_start_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Call
) -> None:
    start = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    command = r"^\$ (printf|echo) '(.*)' \| python -m pam predict --pretrained (\S+)\n(.*)\n"
    examples = re.findall(command, start, flags=re.MULTILINE)
    assert [name for *_, name, _ in examples] == ["nouns/postr-joint", "phrases/postr-joint"]

    # Nothing of the repository is needed but the package.
    monkeypatch.chdir(tmp_path)
    for program, text, name, output in examples:
        typed = text.replace("\\t", "\t").replace("\\n", "\n")
        if program == "echo":
            typed += "\n"
        result = called("predict", "--pretrained", name, typed=typed)
        assert (result.code, result.out) == (0, f"{output}\n")


# Exported models.


def test_an_exported_file_is_the_same_model_anywhere(
    model: pam.TrainedModel, exported: Path, called: Call
) -> None:
    elsewhere = pam.load(exported)
    assert elsewhere.predict(SOURCES) == model.predict(SOURCES)

    result = called("predict", "--model", exported, typed=f"{SOURCES[0]}\n")
    assert result.out.splitlines() == model.predict(SOURCES[:1])


def test_an_exported_folder_has_the_layout_of_model_hubs(
    trained: Path, tmp_path: Path, called: Call
) -> None:
    out = tmp_path / "hub"
    assert called("export", "--run", trained, "--out", out, "--half").code == 0

    _, head, text = (out / "README.md").read_text(encoding="utf-8").split("---\n")
    assert yaml.safe_load(head)["library_name"] == "pam"
    assert "pam.load" in text

    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "pam"

    half = pam.load(out)
    assert {parameter.dtype for parameter in half.saved.network.parameters()} == {torch.float32}
    assert half.predict(SOURCES) == pam.load(trained).predict(SOURCES)


def test_an_export_that_fails_leaves_no_folder_and_the_next_one_succeeds(
    trained: Path, tmp_path: Path, called: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "shared/hub"

    def full(model: object, origin: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("pam.exporting.card", full)
        message, _ = called("export", "--run", trained, "--out", out).message()
    assert message == f"{out}: the disk is full"
    assert list(out.parent.iterdir()) == []

    out.mkdir()
    assert called("export", "--run", trained, "--out", out).code == 0
    assert pam.load(out).label == "postr-joint"

    # A shell that stands in a folder would lose it.
    monkeypatch.chdir(tmp_path / "shared")
    out.rename(tmp_path / "hub")
    message, _ = called("export", "--run", trained, "--out", ".").message()
    assert message == ".: the folder in which this command runs"


def test_a_model_is_exported_to_the_same_bytes_each_time(
    trained: Path, exported: Path, called: Call
) -> None:
    again = exported.with_name("again.pam")
    assert called("export", "--run", trained, "--out", again).code == 0
    assert again.read_bytes() == exported.read_bytes()


def test_a_damaged_file_and_a_full_folder_are_refused(
    trained: Path, exported: Path, tmp_path: Path, called: Call
) -> None:
    cut = tmp_path / "cut.pam"
    cut.write_bytes(exported.read_bytes()[:-100])

    with pytest.raises(UserError, match="damaged"):
        pam.load(cut)

    changed = tmp_path / "changed.pam"
    with zipfile.ZipFile(exported) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            space = b" " if name == "lengths.json" else b""
            new.writestr(name, old.read(name) + space)

    with pytest.raises(UserError, match="does not belong to the model"):
        pam.load(changed)

    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("", encoding="utf-8")

    message, _ = called("export", "--run", trained, "--out", tmp_path / "full").message()
    assert message.endswith("the folder is not empty")
