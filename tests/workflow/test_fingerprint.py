"""A fingerprint changes with the code that computes a result, and with nothing else."""

from __future__ import annotations

import importlib
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pam.answers import answers, options_of
from pam.config import ModelConfig, load_model
from pam.fingerprint import closure, model_modules
from pam.models.architectures.recurrent import QUESTIONS
from tests.workflow.checkouts import ROOT

PRINT = """
import sys
from pam.config import load_model
from pam.fingerprint import fingerprint, model_modules
print(fingerprint(sys.argv[1], *(model_modules(load_model(sys.argv[2])) if sys.argv[2:] else [])))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package and of the models' files."""
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pam", tmp_path / "pam", ignore=leave_out)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    return tmp_path


def fingerprint(folder: Path, *arguments: str) -> str:
    """The fingerprint as a new process in `folder` computes it."""
    command = [sys.executable, "-c", PRINT, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def append(folder: Path, file: str, text: str) -> None:
    with open(folder / file, "a", encoding="utf-8") as handle:
        handle.write(text)


def test_comments_docstrings_and_layout_do_not_count(package: Path) -> None:
    before = fingerprint(package, "pam.commands.score")
    append(package, "pam/scoring/bootstrap.py", "\n\n\n# a remark\n'''a remark, too'''\n")
    path = package / "pam/scoring/metrics.py"
    text = path.read_text(encoding="utf-8")
    path.write_text('"""Another docstring."""\n' + text.split('"""', 2)[2], encoding="utf-8")
    assert fingerprint(package, "pam.commands.score") == before


@pytest.mark.parametrize(
    "file", ["pam/verbs/score.py", "pam/scoring/bootstrap.py", "pam/scoring/__init__.py"]
)
def test_code_counts_where_it_is_imported_directly_or_not(package: Path, file: str) -> None:
    before = fingerprint(package, "pam.commands.score")
    append(package, file, "\nNEW = 1\n")
    assert fingerprint(package, "pam.commands.score") != before


@pytest.mark.parametrize(
    "file", ["pam/reporting/tables.py", "pam/config.py", "pam/data/download.py", "pam/errors.py"]
)
def test_other_code_and_plumbing_do_not_count(package: Path, file: str) -> None:
    before = fingerprint(package, "pam.commands.score"), fingerprint(package, "pam.commands.train")
    append(package, file, "\nNEW = 1\n")
    after = fingerprint(package, "pam.commands.score"), fingerprint(package, "pam.commands.train")
    assert after == before


def test_a_component_counts_for_the_models_that_choose_it(package: Path) -> None:
    models = sorted(path.stem for path in (package / "config/models").glob("*.yaml"))
    before = {model: fingerprint(package, "pam.commands.train", model) for model in models}
    append(package, "pam/models/couplings/monotone.py", "\nNEW = 1\n")
    changed = {m for m in models if fingerprint(package, "pam.commands.train", m) != before[m]}
    users = {
        model
        for model in models
        if "pam.models.couplings.monotone" in model_modules(load_model(model))
    }
    assert changed == users
    assert "mono-postr-joint" in changed
    assert "soft" not in changed


def test_what_every_model_shares_counts_for_all(package: Path) -> None:
    before = {
        name: fingerprint(package, "pam.commands.train", name) for name in ("soft", "hard-mono")
    }
    append(package, "pam/models/seq2seq.py", "\nNEW = 1\n")
    for name, old in before.items():
        assert fingerprint(package, "pam.commands.train", name) != old


def test_every_answer_of_every_model_is_a_module() -> None:
    for path in (ROOT / "config/models").glob("*.yaml"):
        components = load_model(path.stem, path.parent)
        modules = [name for name in model_modules(components) if name.startswith("pam.models.")]
        assert len(modules) == 1 + len(QUESTIONS)  # and the architecture


def test_options_do_not_hide_a_component() -> None:
    components = ModelConfig(label="Mine", coupling={"kind": "proximity", "width": 2})
    assert "pam.models.couplings.proximity" in model_modules(components)


def test_answers_are_named_as_models_name_them() -> None:
    assert {"none", "monotone", "proximity", "pointer"} <= set(answers("coupling"))


def test_training_does_not_depend_on_how_results_are_reported() -> None:
    modules = closure(["pam.commands.train"])
    assert "pam.models.build" in modules
    assert not [name for name in modules if name.startswith(("pam.reporting", "pam.evaluation"))]


def test_a_module_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pam\.verbs\.trian"):
        closure(["pam.commands.trian"])


def test_options_told_from_the_source_are_those_that_components_take() -> None:
    for question in QUESTIONS:
        for kind in answers(question):
            module = f"pam.models.{question}s.{kind.replace('-', '_')}"
            made = importlib.import_module(module).COMPONENT
            assert options_of(question, kind) == list(inspect.signature(made).parameters)[1:]
    for kind in answers("architecture"):
        build = importlib.import_module(f"pam.models.architectures.{kind}").build
        assert options_of("architecture", kind) == list(inspect.signature(build).parameters)[4:]
    assert options_of("architecture", "transformer") == ["heads", "feedforward"]
    assert options_of("architecture", "recurrent") == []


def test_options_may_be_required_or_be_keywords_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "class Own:\n    def __init__(self, sizes, place, width=3, *, steep): ...\n"
    text += "COMPONENT = Own\n"
    file = tmp_path / "own.py"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr("pam.answers.file_of", lambda module: file)
    assert options_of("score", "own") == ["place", "width", "steep"]
