"""A fingerprint changes with the code that computes a result, and with nothing else."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from pam.experiments import fingerprint as fingerprints
from pam.experiments.fingerprint import closure, fingerprint, model_modules
from pam.experiments.model import load_model
from pam.experiments.run_config import Member, RunConfig
from pam.experiments.settings import Decoding, Network, Training
from pam.models.options import COMPONENTS, is_shipped
from tests.workflow.checkouts import ROOT

MADE_UP = {
    "__init__.py": "DECIDES_NO_RESULT = True",
    "train.py": """
        '''Trains.'''
        from pam.build import build
        import pam.io
        def train(): return build("general")
    """,
    "io.py": "DECIDES_NO_RESULT = True\ndef read(): ...",
    "build.py": """
        from pam.scores import SCORES, base
        from pam import windows
        from pam.transformer import Transformer
        ARCHITECTURES: Choices[type] = {"recurrent": "Recurrent", "transformer": Transformer}
        class Recurrent: ...
        def build(kind):
            windows.slide()
            return SCORES[kind](base())
    """,
    "transformer.py": "class Transformer: ...",
    "scores.py": """
        from pam.tools import helper
        import pam.other
        FACTOR = 2
        UNUSED = 3
        class Base:
            '''A score.'''
        class General(Base):
            def forward(self): return scaled(FACTOR)
        class Dot(Base):
            reads = "pam.named:chosen"
            def forward(self):
                from pam.lazy import work
                return work(pam.other.value)
        def scaled(factor): return helper(factor)
        def base(): return 1
        SCORES: Choices[Base] = {"general": General, "dot": Dot}
    """,
    "windows.py": """
        WINDOWS: Choices[int] = {}
        WINDOWS["none"] = 0
        def slide(): ...
        def shrink(): ...
    """,
    "tools.py": "def helper(factor): return factor\n\ndef other(): ...",
    "other.py": "value = 1",
    "other.yaml": "size: 1",
    "lazy.py": "def work(value): return value",
    "named.py": "def chosen(): return 1\n\ndef other(): return 2",
}
Change = Callable[[str, str, str], None]


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Change]:
    """A package of a few lines in place of ours; a function that replaces text in its files."""
    folder = tmp_path / "pam"
    folder.mkdir()
    for name, text in MADE_UP.items():
        (folder / name).write_text(dedent(text), encoding="utf-8")
    monkeypatch.setattr(fingerprints, "PACKAGE", folder)

    def forget() -> None:
        functions = (
            fingerprints.fingerprint,
            fingerprints.source_of,
            fingerprints._find,
            fingerprints._stored,
        )
        for cached in functions:
            cached.cache_clear()

    def change(file: str, old: str, new: str) -> None:
        text = (folder / file).read_text(encoding="utf-8")

        assert old in text

        (folder / file).write_text(text.replace(old, new), encoding="utf-8")
        forget()

    forget()
    yield change
    forget()


GENERAL = "pam.scores:General"
DOT = "pam.scores:Dot"


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("scores.py", "return scaled(FACTOR)", "return 0", {GENERAL}),
        ("scores.py", "FACTOR = 2", "FACTOR = 5", {GENERAL}),
        ("scores.py", "return helper(factor)", "return factor", {GENERAL}),
        ("tools.py", "return factor", "return 0", {GENERAL}),
        ("tools.py", "def other(): ...", "def another(): ...", set()),
        ("scores.py", "return work(pam.other.value)", "return 0", {DOT}),
        ("lazy.py", "return value", "return 0", {DOT}),
        ("other.py", "value = 1", "value = 2", {DOT}),
        ("named.py", "return 1", "return 3", {DOT}),
        ("named.py", "return 2", "return 3", set()),
        ("other.yaml", "size: 1", "size: 2", {DOT}),
        ("scores.py", "    '''A score.'''", "    size = 1", {GENERAL, DOT}),
        ("scores.py", "'''A score.'''", "'''Another text.'''", set()),
        ("scores.py", "UNUSED = 3", "UNUSED = 4  # and a remark", set()),
        ("scores.py", '"dot": Dot', '"dot": General', set()),
        ("scores.py", "def base(): return 1", "def base(): return 2", {"pam.train"}),
        ("windows.py", "def slide(): ...", "def slide(): return 1", {"pam.train"}),
        ("windows.py", "def shrink(): ...", "def shrink(): return 1", set()),
        ("windows.py", 'WINDOWS["none"] = 0', 'WINDOWS["none"] = 1', {"pam.train"}),
        ("build.py", "return SCORES[kind]", "return 1 + SCORES[kind]", {"pam.train"}),
        ("build.py", "class Recurrent: ...", "class Recurrent: size = 1", {"pam.build:Recurrent"}),
        ("transformer.py", "...", "size = 1", {"pam.build:Transformer"}),
        ("train.py", "'''Trains.'''", "NEW = 1", {"pam.train"}),
        ("io.py", "...", "return 1", set()),
        ("__init__.py", "", "", set()),
    ],
)
def test_what_is_named_counts_and_of_choices_what_is_chosen(
    made_up: Change, file: str, old: str, new: str, changed: set[str]
) -> None:
    entries = ("pam.train", GENERAL, DOT, "pam.build:Recurrent", "pam.build:Transformer")
    before = {entry: fingerprint(entry) for entry in entries}
    made_up(file, old, new)

    assert {entry for entry in entries if fingerprint(entry) != before[entry]} == changed


def test_of_any_module_an_entry_may_name_one_definition(made_up: Change) -> None:
    before = fingerprint("pam.tools:helper"), fingerprint("pam.tools")
    made_up("tools.py", "def other(): ...", "def other(): return 1")
    after = fingerprint("pam.tools:helper"), fingerprint("pam.tools")

    assert after[0] == before[0] and after[1] != before[1]


def test_what_does_not_exist_is_an_error(made_up: Change) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no module pam\.trian"):
        fingerprint("pam.trian")
    with pytest.raises(ModuleNotFoundError, match=r"no Genral in pam\.scores"):
        fingerprint("pam.scores:Genral")


def test_a_package_of_ones_own_counts_with_what_it_imports_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mylab"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "cosine.py").write_text(
        "import torch\nfrom mylab.tools import norm\nfrom . import near\nclass Cosine: ...\n",
        encoding="utf-8",
    )

    for name in ("tools", "near", "far"):
        (folder / f"{name}.py").write_text("norm = 1\n", encoding="utf-8")

    assert closure(["mylab.cosine:Cosine"]) == [
        *("mylab", "mylab.cosine", "mylab.near", "mylab.tools")
    ]
    assert "mylab.cosine" not in sys.modules


def run(model: str) -> RunConfig:
    """Return a run of one of our models."""
    components = load_model(model, ROOT / "config/models")
    loaded = [load_model(name, ROOT / "config/models") for name in components.members]

    return RunConfig(
        experiment="mine",
        task="nouns",
        model=model,
        label=model,
        seed=1,
        components=components,
        members=[Member(components=one, network=Network()) for one in loaded],
        network=Network(),
        training=Training(),
        decoding=Decoding(),
    )


PRINT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pam.experiments.fingerprint import fingerprint
entries = json.loads(sys.argv[2])
print(json.dumps({name: fingerprint(*own) for name, own in entries.items()}))
"""
HEAD = re.compile(r"^class Monotone\b[^:]*:\n", flags=re.MULTILINE)


def test_what_another_process_has_computed_is_kept_while_no_file_changes(
    made_up: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fingerprints.PACKAGE / "__pycache__/fingerprints.json"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", False)
        computed = fingerprint("pam.train")
        assert json.loads(file.read_text(encoding="utf-8"))["values"] == {"pam.train": computed}
        made_up("io.py", "...", "...")  # nothing but a new process
        patch.setattr(fingerprints, "_reach", None)
        assert fingerprint("pam.train") == computed

    made_up("train.py", "'''Trains.'''", "NEW = 1")

    assert fingerprint("pam.train") != computed


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sources": 1}'])
def test_a_damaged_file_of_kept_fingerprints_is_passed_over(made_up: Change, content: str) -> None:
    expected = fingerprint("pam.train")
    file = fingerprints.PACKAGE / "__pycache__/fingerprints.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content, encoding="utf-8")
    made_up("io.py", "...", "...")  # nothing but a new process

    assert fingerprint("pam.train") == expected


MODELS = sorted(path.stem for path in (ROOT / "config/models").glob("*.yaml"))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package."""
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pam", tmp_path / "pam", ignore=leave_out)
    return tmp_path


def of_models(folder: Path) -> dict[str, str]:
    """Return the fingerprint of each model's training, as a new process in `folder` computes it."""
    entries = {model: ["pam.training.trainer", *model_modules(run(model))] for model in MODELS}
    command = [sys.executable, "-c", PRINT, str(folder), json.dumps(entries)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    fingerprints_of_models: dict[str, str] = json.loads(done.stdout)

    return fingerprints_of_models


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """The fingerprints of the package as it is."""
    return of_models(ROOT)


def append(package: Path, module: str) -> None:
    """Change a module of a copy of the package."""
    with open(package / f"{module.replace('.', '/')}.py", "a", encoding="utf-8") as file:
        file.write("\nNEW = 1\n")


def test_a_changed_coupling_counts_for_the_models_that_choose_it_and_messages_for_none(
    package: Path, before: dict[str, str]
) -> None:
    file = package / "pam/models/couplings.py"
    text, changes = HEAD.subn(r"\g<0>    NEW = 1\n", file.read_text(encoding="utf-8"))
    assert changes == 1
    file.write_text(text, encoding="utf-8")
    for module in ("pam.experiments.settings", "pam.runtime.files", "pam.models.options"):
        append(package, module)

    after = of_models(package)

    changed = {model for model in MODELS if after[model] != before[model]}
    coupling = "pam.models.couplings:Monotone"
    assert changed == {model for model in MODELS if coupling in model_modules(run(model))}
    assert "mono-postr-joint" in changed and "soft" not in changed


def test_what_every_model_shares_counts_for_all(package: Path, before: dict[str, str]) -> None:
    append(package, "pam.training.trainer")
    after = of_models(package)
    assert [model for model in MODELS if after[model] == before[model]] == []


def test_options_do_not_hide_a_component() -> None:
    assert "pam.models.couplings:Proximity" in model_modules(run("prox-postr-joint"))


def test_a_transformer_has_no_components_of_a_recurrence() -> None:
    assert model_modules(run("transformer")) == ["pam.models.build:transformer"]


def test_an_ensemble_depends_on_its_members_components() -> None:
    entries = model_modules(run("ensemble"))
    assert {"pam.models.scores:Location", "pam.models.windows:Monotonic"} <= set(entries)


def test_training_does_not_depend_on_how_results_are_reported() -> None:
    modules = closure(["pam.training.trainer"])
    assert not [name for name in modules if name.startswith(("pam.reporting", "pam.evaluation"))]


def test_every_class_that_computes_a_kind_counts_by_itself() -> None:
    for kinds in COMPONENTS.values():
        for options in filter(is_shipped, kinds.values()):
            module, _, name = options.implementation.partition(":")
            assert name in fingerprints.source_of(module).definitions


def test_soft_attention_does_not_depend_on_the_code_of_sparsemax() -> None:
    soft = code_of("soft", "pam.models.distributions")
    assert "'Softmax'" in soft and "'Sparsemax'" not in soft
    assert "'Sparsemax'" in code_of("sparsemax", "pam.models.distributions")


def code_of(model: str, module: str) -> str:
    """Return the code of a module on which a training of a model depends."""
    return fingerprints._reach(("pam.training.run:train", *model_modules(run(model))))[module]


def test_code_is_written_alike_by_every_version_of_python() -> None:
    (function,) = ast.parse(
        "def f(x: int, *, y=None): return f'{\", \".join(x)!r:>{y}} {1.5}'"
    ).body
    assert fingerprints.written(function) == (
        "FunctionDef(name='f', args=arguments(args=[arg(arg='x', annotation=Name(id='int',"
        " ctx=Load()))], kwonlyargs=[arg(arg='y')], kw_defaults=[NoneType None]),"
        " body=[Return(value=JoinedStr(values=[FormattedValue(value=Call(func=Attribute(value=str"
        " ', ', attr='join', ctx=Load()), args=[Name(id='x', ctx=Load())]), conversion=114,"
        " format_spec=JoinedStr(values=[str '>', FormattedValue(value=Name(id='y', ctx=Load()),"
        " conversion=-1)])), str ' ', FormattedValue(value=float 1.5, conversion=-1)]))])"
    )
