"""The names that a registry may use: dictionaries that agree with each other and need no torch."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from pam.data.generated import GENERATORS
from pam.data.prepare import class_names
from pam.data.readers import READERS, load_reader
from pam.data.registry import load_task
from pam.data.tokenizers import TOKENIZERS
from pam.tasks import KINDS, imported

from .conftest import ROOT

PAIRS = {"source": "de", "target": "en"}


def test_a_reader_bears_the_name_by_which_it_is_chosen() -> None:
    for name, reader in READERS.items():
        assert reader.model_fields["kind"].default == name
    assert type(load_reader("lines")) is READERS["lines"]
    assert load_reader({"kind": "wit3", "pair": "en-de"}).model_dump()["pair"] == "en-de"


@pytest.mark.parametrize("choice", [3, None, {"divide": None}, ["lines"]])
def test_a_choice_without_a_name_is_refused(choice: object) -> None:
    with pytest.raises(ValueError, match="without `kind`"):
        load_reader(choice)


def test_the_format_of_a_task_keeps_what_was_chosen() -> None:
    read = {"kind": "columns", "columns": {"de": 0, "en": 1}, "divide": {"dev": 1, "test": 1}}
    layout = load_task("translation").Format.model_validate({**PAIRS, "read": read})
    again = layout.model_dump()
    expected = {**read, "separator": "\t", "divide": {"dev": 1, "test": 1, "seed": 1}}

    assert again["read"].items() >= expected.items()
    assert load_task("translation").Format.model_validate(again) == layout


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_task_names_parts_that_exist(kind: str) -> None:
    entries = list(KINDS[kind].all_entries())

    assert len(entries) >= 4
    for entry in entries:
        imported(entry)


def test_only_characters_of_inflection_are_aligned_for_pointer_actions() -> None:
    assert [kind for kind in KINDS if load_task(kind).has_actions] == ["inflection"]


@pytest.mark.parametrize(
    ("kind", "stage", "expected"),
    [
        ("inflection", "index", ["pam.tasks.inflection.stages:Index"]),
        ("inflection", "codec", ["pam.tasks.inflection.codec:InflectionCodec"]),
        (
            "translation",
            "extract",
            ["pam.tasks.translation.stages:Extract", "pam.data.readers:Segments"],
        ),
        (
            "translation",
            "tokenize",
            [
                "pam.tasks.translation.stages:Tokenize",
                "pam.data.tokenizers:Moses",
                "pam.data.tokenizers:UniDic",
            ],
        ),
        ("alignment", "gold", ["pam.tasks.alignment.links:WordAlignments"]),
    ],
)
def test_a_stage_depends_on_the_classes_that_it_uses(
    kind: str, stage: str, expected: list[str]
) -> None:
    japanese = {"read": "segments", "source": "ja", "tokenize": {"ja": "unidic", "en": "moses"}}
    options = {"inflection": {}, "translation": PAIRS | japanese, "alignment": PAIRS}[kind]
    task = load_task(kind)
    names = task.modules(stage, task.Format.model_validate(options))

    assert names == expected
    for module, _, name in (entry.partition(":") for entry in names):
        assert class_names(getattr(import_module(module), name)) == [f"{module}:{name}"]


def test_the_keys_of_all_stages_are_those_of_the_format() -> None:
    for task in map(load_task, KINDS):
        keys = [key for stage in task.STAGES.values() for key in stage.keys]
        assert not task.STAGES or sorted(keys) == sorted(task.Format.model_fields)


def test_reading_data_sets_and_preparing_them_needs_no_torch() -> None:
    modules = ", ".join(f"pam.data.{name}" for name in ("registry", "prepare", "download"))
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_names_are_in_the_order_in_which_messages_list_them() -> None:
    for choices in (READERS, TOKENIZERS, GENERATORS):
        assert list(choices) == sorted(choices)
