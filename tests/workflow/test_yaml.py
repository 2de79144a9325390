"""YAML is read by libyaml where PyYAML has it, and means and says the same."""

from __future__ import annotations

import pytest
import yaml

from pam import io
from pam.io import UserError, parse_yaml, read_yaml
from tests.workflow.checkouts import ROOT

FILES = ["config/config.yaml", "config/datasets.yaml", "config/attentions.yaml"]
WRONG = [
    "a: [1\nb: 2\n",
    "a: 1\na: 2\n",
    "a: {b: 1, c: {d: 1, d: 2}}\n",
    "a: 'text\n",
    "a:\n\t- 1\n",
    "a: &x [*x, *y]\n",
    "a: 2001-99-99\n",
    "a: !!int x\n",
    "a: \x00\n",
    "a: 1\n---\nb: 2\n",
    "[" * 5000,
]


def message_of(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse_yaml(text, "own.yaml")
    return str(caught.value)


def test_this_pyyaml_has_libyaml() -> None:
    assert io._FastLoader is not None


@pytest.mark.parametrize("file", FILES)
def test_a_file_means_what_python_reads_in_it(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert read_yaml(ROOT / file) == yaml.load(text, yaml.CSafeLoader)


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_an_error_is_the_same_without_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = message_of(text)
    monkeypatch.setattr(io, "_FastLoader", None)
    assert message == message_of(text)
