"""A changed reader, tokenizer or stage prepares again what uses it, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pam.data.registry import load_task
from pam.experiments import fingerprint as fingerprints

from .conftest import ROOT

PAIRS = ("translation", "summarization")
PREPARED = ("extract", "tokenize", "segment", "index", "codec")
KEPT = ("fingerprint", "source_of", "_find", "_stored")


def forget() -> None:
    """Forget what was read of the package."""
    for name in KEPT:
        getattr(fingerprints, name).cache_clear()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Copy the package, of which fingerprints are computed."""
    copy = tmp_path_factory.mktemp("copy") / "pam"
    shutil.copytree(ROOT / "pam", copy, ignore=shutil.ignore_patterns("__pycache__"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "PACKAGE", copy)
        patch.setattr(fingerprints, "Source", parsed_once())
        patch.setattr("sys.dont_write_bytecode", True)  # which keeps fingerprints as well
        forget()
        yield copy

    forget()


def parsed_once() -> Callable[[str, Path], fingerprints.Source]:
    """Return what parses a module only where its text has changed since the last time."""
    sources: dict[tuple[str, str], fingerprints.Source] = {}
    parse = fingerprints.Source

    def source(module: str, file: Path) -> fingerprints.Source:
        key = (module, file.read_text(encoding="utf-8"))
        if key not in sources:
            sources[key] = parse(module, file)
        return sources[key]

    return source


@pytest.fixture(scope="module")
def before(package: Path) -> dict[str, str]:
    """Compute the fingerprints of the unchanged copy."""
    return all_fingerprints()


def all_fingerprints() -> dict[str, str]:
    """Compute the fingerprints of a few stages."""
    pair = {"source": "de", "target": "en"}
    talks = of_stages("translation", read="wit3", **pair)

    return {
        **of_stages("inflection"),
        **of_stages("translation", **pair),
        **of_stages("summarization", read="lines"),
        "talks": talks["translation extract"],
        "prepare": fingerprints.fingerprint("pam.data.prepare:prepare"),
        "train": fingerprints.fingerprint("pam.data.dataset:Examples"),
    }


def of_stages(kind: str, **layout: str) -> dict[str, str]:
    """Compute the fingerprints of a task's stages and of its codec."""
    task = load_task(kind)
    layout_of_task = task.Format.model_validate(layout)

    return {
        f"{kind} {name}": fingerprints.fingerprint(*task.modules(name, layout_of_task))
        for name in [*task.STAGES, "codec"]
    }


@pytest.mark.parametrize(
    ("file", "line", "changed"),
    [
        ("data/readers", "class Wit3(Reader):", {"talks"}),
        (
            "data/readers",
            "class Lines(GroupingReader):",
            {"translation extract", "summarization extract"},
        ),
        ("data/records", "class JsonLines(Records):", set()),
        ("tasks/summarization/stages", "class IndexSummaries(Index):", {"summarization index"}),
        (
            "tasks/summarization/codec",
            "class SummarizationCodec(TranslationCodec):",
            {f"summarization {name}" for name in ("tokenize", "segment", "codec")},
        ),
        ("data/tokenizers", "class UniDic(Tokenizer):", set()),
        (
            "data/tokenizers",
            "class Moses(Tokenizer):",
            {f"{kind} {name}" for kind in PAIRS for name in PREPARED[1:]},
        ),
        (
            "tasks/inflection/codec",
            "class InflectionCodec(Codec):",
            {"inflection index", "inflection codec"},
        ),
        (
            "tasks/translation/stages",
            "class Segment(Stage[PairsFormat]):",
            {"translation segment", "summarization segment"},
        ),
        ("tasks/inflection/stages", "class Index(Stage[InflectionFormat]):", {"inflection index"}),
        ("data/dataset", "class Batch:", {"train"}),
    ],
)
def test_a_changed_class_counts_for_what_uses_it(
    package: Path, before: dict[str, str], file: str, line: str, changed: set[str]
) -> None:
    path = package / f"{file}.py"
    text = path.read_text(encoding="utf-8")

    assert line in text

    path.write_text(text.replace(line, f"{line}\n    def changed(self): ...\n"), encoding="utf-8")
    forget()
    try:
        after = all_fingerprints()
    finally:
        path.write_text(text, encoding="utf-8")
        forget()

    assert {name for name in after if after[name] != before[name]} == changed
