"""A changed reader, tokenizer or stage prepares again what uses it, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT

PRINT = """
import json, sys
from pam.data.registry import load_task
from pam.fingerprint import fingerprint

def stages(kind, **layout):
    task = load_task(kind)
    own = task.Format.model_validate(layout)
    names = [*task.STAGES, "codec"]
    return {f"{kind} {name}": fingerprint(*task.modules(name, own)) for name in names}

pair = {"source": "de", "target": "en"}
json.dump({
    **stages("inflection"),
    **stages("translation", **pair),
    **stages("summarization", read="lines"),
    "talks": stages("translation", read="wit3", **pair)["translation extract"],
    "prepare": fingerprint("pam.data.prepare:prepare"),
    "train": fingerprint("pam.data.dataset:Examples"),
}, sys.stdout)
"""

PAIRS = ("translation", "summarization")
PREPARED = ("extract", "tokenize", "segment", "index", "codec")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy the package."""
    shutil.copytree(ROOT / "pam", tmp_path / "pam", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def fingerprints(folder: Path) -> dict[str, str]:
    """Compute the fingerprints of a few stages in a new process in `folder`."""
    command = [sys.executable, "-c", PRINT]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    computed: dict[str, str] = json.loads(done.stdout)
    return computed


@pytest.mark.parametrize(
    ("file", "line", "changed"),
    [
        ("readers", "class Wit3(Reader):", {"talks"}),
        (
            "readers",
            "class Lines(DividingReader):",
            {"translation extract", "summarization extract"},
        ),
        ("readers", "class JsonLines(DividingReader):", set()),
        ("summarization", "class IndexSummaries(Index):", {"summarization index"}),
        (
            "tokenizers",
            "class SummarizationCodec(TranslationCodec):",
            {f"summarization {name}" for name in ("tokenize", "segment", "codec")},
        ),
        ("tokenizers", "class UniDic(Tokenizer):", set()),
        (
            "tokenizers",
            "class Moses(Tokenizer):",
            {f"{kind} {name}" for kind in PAIRS for name in PREPARED[1:]},
        ),
        ("tokenizers", "class InflectionCodec(Codec):", {"inflection index", "inflection codec"}),
        (
            "translation",
            "class Segment(Stage[PairsFormat]):",
            {"translation segment", "summarization segment"},
        ),
        ("inflection", "class Index(Stage[InflectionFormat]):", {"inflection index"}),
        ("dataset", "class Batch:", {"train"}),
    ],
)
def test_a_changed_class_counts_for_what_uses_it(
    package: Path, file: str, line: str, changed: set[str]
) -> None:
    before = fingerprints(package)
    path = package / f"pam/data/{file}.py"
    text = path.read_text(encoding="utf-8")

    assert line in text

    path.write_text(text.replace(line, f"{line}\n    def changed(self): ...\n"), encoding="utf-8")
    after = fingerprints(package)
    assert {name for name in after if after[name] != before[name]} == changed
