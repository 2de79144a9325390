"""Nothing that data, models or configuration hold is ever run as code."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pam.cli import main
from pam.runtime.errors import UserError
from tests.faults.subjects import SUBJECTS
from tests.workflow.checkouts import ROOT

SOURCES = ("pam", "workflow", "envs")
PYTHON = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
RULES = [
    ROOT / "Snakefile",
    ROOT / "workflow/Snakefile",
    *sorted((ROOT / "workflow/rules").glob("*.smk")),
]

MODULES = frozenset(
    {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "code", "codeop"}
)
"""They turn bytes into objects with code of their own, or text into code."""

CALLS = frozenset(
    {
        *("eval", "exec", "compile", "__import__"),
        *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
        *("torch.load", "torch.save", "torch.jit.load", "torch.hub.load"),
        *("numpy.load", "np.load", "pandas.read_pickle", "pd.read_pickle"),
        *("pandas.eval", "pd.eval"),
        *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"),
        *("tempfile.mktemp", "shutil.unpack_archive"),
    }
)
METHODS = frozenset({"extractall", "to_pickle"})
"""They extract archives to where their members say, and store objects with code of their own."""

TABLE_METHODS = frozenset({"query"})
"""pandas runs the text that it is given; looked for in modules that import pandas."""


def spelt(node: ast.expr) -> str:
    """Return a dotted name, as `torch.load`, or an empty text for another expression."""
    if isinstance(node, ast.Name):
        return node.id

    if isinstance(node, ast.Attribute):
        return f"{spelt(node.value)}.{node.attr}"

    return ""


def findings(text: str) -> Iterator[str]:
    """Yield the parts of a module that could run code from elsewhere, by line."""
    methods = METHODS
    if re.search(r"^\s*(?:import|from) pandas\b", text, flags=re.MULTILINE):
        methods = METHODS | TABLE_METHODS

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = {(node.module or "").split(".")[0]}
        else:
            names = set()

        for name in names & MODULES:
            yield f"{node.lineno}: import {name}"

        if isinstance(node, ast.Call):
            name = spelt(node.func)
            if name in CALLS or ("." in name and name.rpartition(".")[2] in methods):
                yield f"{node.lineno}: {name}"

            if any(key.arg in ("shell", "allow_pickle") for key in node.keywords):
                yield f"{node.lineno}: {name} with a shell or with pickles"

        if (
            isinstance(node, ast.Attribute)
            and spelt(node).startswith("yaml.")
            and node.attr
            in (
                "Loader",
                "UnsafeLoader",
                "FullLoader",
                "CLoader",
            )
        ):
            yield f"{node.lineno}: {spelt(node)}"


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_unpickles_evaluates_or_calls_a_shell(path: Path) -> None:
    assert list(findings(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load('x')",
        "eval('1')",
        "import os\nos.system('x')",
        "import subprocess\nsubprocess.run('x', shell=True)",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import yaml\nyaml.load('x', Loader=yaml.Loader)",
        "archive.extractall('x')",
        "import pandas as pd\npd.read_csv('x').query('y')",
    ],
)
def test_what_is_looked_for_would_be_found(text: str) -> None:
    assert list(findings(text))


UNQUOTED = re.compile(r"\{([\w.]+)\}")
NUMBERS_AND_OWN_WORDS = frozenset(
    {
        *("params.rows", "params.beam", "wildcards.beam", "params.stage", "params.batch_size"),
        *("resources.device", "resources.gpu", "resources.processes"),
    }
)
"""Whole numbers, or words that the workflow itself chooses."""


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_value_in_a_command_is_quoted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for command in re.findall(r"\n    shell:\n((?:        .*\n)+)", text):
        assert set(UNQUOTED.findall(command)) <= NUMBERS_AND_OWN_WORDS, command

    assert "\n    run:" not in text


EVENTS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "pickle.find_class")
"""What Python tells of when another program is run, or an object is unpickled."""


@pytest.fixture(scope="module")
def events() -> list[str]:
    """Collect the events of which Python tells; the hook stays until the process ends."""
    heard: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS:
            heard.append(f"{event}: {arguments}")

    sys.addaudithook(hook)
    return heard


TAGS = (
    "!!python/object/apply:os.system ['touch pwned']",
    "!!python/object/new:subprocess.Popen [['touch', 'pwned']]",
    "!!python/name:os.system",
    "!!python/module:os",
    "{experiment: !!python/object/apply:builtins.exec [\"open('pwned', 'w')\"]}",
)


@pytest.mark.parametrize("tag", TAGS)
def test_yaml_makes_no_objects(
    tag: str, tmp_path: Path, events: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(f"label: {tag}\n")
    events.clear()

    assert main(["train", "--run", str(tmp_path), "--data", str(tmp_path)]) == 2
    assert f"{run}:1: this is not valid YAML: could not determine a constructor" in (
        capsys.readouterr().err
    )
    assert events == []


PICKLE = b"cos\nsystem\n(S'touch pwned'\ntR."


MODEL = ("weights.safetensors", "source.vocab", "config.yaml", "codec.json")
DATA = ("train.safetensors", "source.vocab", "summary.json", "codec.json")


@pytest.mark.parametrize("name", MODEL)
def test_a_pickle_in_place_of_a_file_of_a_model_is_not_read_as_one(
    name: str, tmp_path: Path, events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = SUBJECTS["a model of translation"](tmp_path).folder
    (model / name).write_bytes(PICKLE)
    monkeypatch.chdir(tmp_path)
    events.clear()

    assert main(["predict", "--model", str(model)]) == 2
    assert events == [] and not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("name", DATA)
def test_a_pickle_in_place_of_prepared_data_is_not_read_as_one(
    name: str, tmp_path: Path, events: list[str]
) -> None:
    subject = SUBJECTS["prepared data of translation"](tmp_path)
    (subject.folder / name).write_bytes(PICKLE)
    events.clear()

    with pytest.raises(UserError):
        subject.use(subject.folder)

    assert events == []
