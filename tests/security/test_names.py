"""Names from configuration never reach a shell or a path: refused at their line, or only words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.data.registry import load_registries
from pam.experiments.check import check_datasets
from pam.experiments.loading import load_plan
from pam.runtime.errors import UserError
from tests.conftest import Recorder
from tests.faults.fuzz import replaced
from tests.security.names import FOLDER, NAMES, PAGE, WORDS
from tests.workflow.checkouts import EXPERIMENT, REGISTRY, ROOT, Checkout, checkout, with_own_data

PRIVATE = "what nobody has asked to be shown"
DOCUMENT: dict[str, Any] = yaml.safe_load(EXPERIMENT)
ENTRY: dict[str, Any] = yaml.safe_load(REGISTRY)


def renamed(document: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    return {name if old == key else old: value for old, value in document.items()}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "an experiment": lambda name: DOCUMENT | {"experiment": name},
    "a task": lambda name: DOCUMENT | {"tasks": renamed(DOCUMENT["tasks"], "nouns", name)},
    "a model": lambda name: DOCUMENT | {"models": ["soft", name]},
    "a task's model": lambda name: replaced(DOCUMENT, ["tasks", "nouns", "models"], [name]),
    "a baseline": lambda name: DOCUMENT | {"baseline": name},
    "a data set": lambda name: replaced(DOCUMENT, ["tasks", "nouns", "dataset"], name),
    "word alignments": lambda name: replaced(DOCUMENT, ["tasks", "nouns", "word_alignments"], name),
    "a device": lambda name: DOCUMENT | {"device": name},
    "a plugin": lambda name: DOCUMENT | {"plugins": [name]},
    "a kind of component": lambda name: (
        DOCUMENT | {"options": {"marginalization": {name: {"a": 1}}}}
    ),
    "a component": lambda name: DOCUMENT | {"options": {name: {"output": {"a": 1}}}},
}


@pytest.mark.parametrize("named", PLACES)
def test_a_name_that_is_no_plain_word_is_refused_at_its_line(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Recorder
) -> None:
    monkeypatch.chdir(ROOT)
    file = tmp_path / "experiment.yaml"
    for name in NAMES:
        file.write_text(yaml.safe_dump(PLACES[named](name), allow_unicode=True), encoding="utf-8")
        with pytest.raises(UserError) as caught:
            check_datasets(load_plan(files=[file]), {})

        assert caught.value.file == str(file), name
        assert caught.value.line is not None and caught.value.hint, name

    record(
        fault=f"a name with signs of a shell, a path or a wildcard: {named}",
        showed="refused before any work, by file and line",
        tried=len(NAMES),
    )


ENTRIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "a data set": lambda name: renamed(ENTRY, "small", name),
    "a file": lambda name: replaced(
        ENTRY, ["small", "files"], renamed(ENTRY["small"]["files"], "train.tsv", name)
    ),
    "a kind of task": lambda name: replaced(ENTRY, ["small", "task"], name),
    "a package": lambda name: replaced(
        ENTRY, ["small", "package"], {"name": name, "version": "1", "options": {}}
    ),
    "an address": lambda name: replaced(
        ENTRY, ["small", "files", "train.tsv"], {"urls": [name], "sha256": "0" * 64}
    ),
    "a reader": lambda name: replaced(
        ENTRY, ["small"], {"task": "translation", "files": {}, "format": FORMAT | {"read": name}}
    ),
    "a tokenizer": lambda name: replaced(
        ENTRY,
        ["small"],
        {"task": "translation", "files": {}, "format": FORMAT | {"tokenize": name}},
    ),
}
FORMAT = {"source": "xx", "target": "yy"}


@pytest.mark.parametrize("named", ENTRIES)
def test_a_registry_takes_plain_names_only(named: str, tmp_path: Path, record: Recorder) -> None:
    file = tmp_path / "datasets.yaml"
    for name in NAMES:
        if named == "a file" and name == "a/b":
            continue  # a file in a folder

        file.write_text(yaml.safe_dump(ENTRIES[named](name), allow_unicode=True), encoding="utf-8")
        with pytest.raises(UserError) as caught:
            load_registries([file])

        assert caught.value.file == str(file) and caught.value.line is not None, name
        assert caught.value.hint, name

    record(
        fault=f"a name with signs of a shell, a path or a wildcard, in a registry: {named}",
        showed="refused before any work, by file and line",
        tried=len(NAMES),
    )


def test_snakemake_too_makes_no_objects_of_an_experiment(tmp_path: Path) -> None:
    made = with_own_data(checkout(tmp_path / "checkout"))
    made.edit("own/experiment.yaml", "title: ", "title: !!python/object/apply:os.system ")
    outcome = made.plan("--configfile", "own/experiment.yaml")

    assert outcome.code != 0 and "not valid JSON or YAML" in outcome.said
    assert "Traceback" not in outcome.said


def odd(made: Checkout) -> str:
    """Name the folder of one's own data, and all that can be any words, oddly; return the file."""
    words = " ".join(WORDS)
    (made.folder / "own").rename(made.folder / FOLDER)
    experiment = {
        **DOCUMENT,
        "title": words,
        "registries": ["config/datasets.yaml", f"{FOLDER}/datasets.yaml"],
        "tasks": {"nouns": {"dataset": "small", "label": words, "note": f"{words}\n\n{WORDS[8]}"}},
        "models": ["soft", "odd"],
    }
    made.write(f"{FOLDER}/experiment.yaml", yaml.safe_dump(experiment, allow_unicode=True))
    model = yaml.safe_load((ROOT / "config/models/postr-joint.yaml").read_text(encoding="utf-8"))
    made.write("config/models/odd.yaml", yaml.safe_dump(model | {"label": words, "source": words}))
    entry = ENTRY["small"] | {"title": words, "licence": words, "citation": words}
    made.write(f"{FOLDER}/datasets.yaml", yaml.safe_dump({"small": entry}))

    for split in ("train", "dev", "test"):
        path = made.folder / FOLDER / f"{split}.tsv"
        rows = [f"{word}{split}\t{word}\t{word}\n" for word in WORDS]
        path.write_text(path.read_text(encoding="utf-8") + "".join(rows), encoding="utf-8")

    return f"{FOLDER}/experiment.yaml"


def test_odd_names_and_words_prepare_data_and_nothing_else(tmp_path: Path) -> None:
    made = with_own_data(checkout(tmp_path / FOLDER))
    outcome = made.run("data", "results/tiny/experiment.yaml", "--configfile", odd(made))

    assert outcome.code == 0, outcome.said
    assert not list(tmp_path.rglob("*pwned"))


@pytest.mark.faults
@pytest.mark.slow
def test_odd_names_and_words_come_through_to_the_report(tmp_path: Path, record: Recorder) -> None:
    made = with_own_data(checkout(tmp_path / FOLDER))
    made.write("secret.txt", PRIVATE)
    outcome = made.run("--configfile", odd(made))

    assert outcome.code == 0, outcome.said
    assert not list(tmp_path.rglob("*pwned"))

    pages = [*(made.folder / "results/tiny").rglob("*.html"), *made.folder.rglob("*.svg")]
    for page in pages:
        # The report holds other pages as texts of JavaScript.
        text = page.read_text(encoding="utf-8").replace("\\", "")
        for unwanted in (PAGE, 'href="javascript', PRIVATE):
            assert unwanted not in text, page

    record(
        fault="folders, labels, titles and texts with commands, markup and scripts",
        showed="the whole workflow runs to its report; nothing was run, no script is in a page",
        tried=len(WORDS),
    )
