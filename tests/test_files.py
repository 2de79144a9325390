"""Files that are written, and paths that somebody has written in a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pam.experiments.parsing import Strict, parse
from pam.experiments.yaml import parse_yaml
from pam.runtime.errors import UserError
from pam.runtime.files import write_text


@pytest.fixture
def mask() -> Iterator[int]:
    """Return the process's umask, which is restored after the test."""
    before = os.umask(0)
    os.umask(before)

    yield before
    os.umask(before)


@pytest.mark.parametrize("value", [0o022, 0o077, 0o002])
def test_a_file_follows_the_umask(tmp_path: Path, mask: int, value: int) -> None:
    os.umask(value)
    write_text(tmp_path / "new.txt", "x")

    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o666 & ~value


@pytest.mark.parametrize("name", ["no", "on", "off", "yes", "true"])
def test_a_key_is_a_name_whatever_yaml_takes_it_for(name: str) -> None:
    assert parse_yaml(f"{{splits: {{{name}: a}}}}", "x.yaml") == {"splits": {name: "a"}}


def test_a_name_that_yaml_takes_for_a_truth_value_is_told_to_be_quoted() -> None:
    class Files(Strict):
        splits: dict[str, str | dict[str, str]]

    class Names(Strict):
        names: list[str]

    for kind, text in ((Files, "splits: {train: {sv: no}}"), (Names, "names: [sv, no]")):
        with pytest.raises(UserError, match="quotes"):
            parse(kind, parse_yaml(text, "x.yaml"), "x.yaml")
