"""Commands of tests are forked with our package imported, where it is that of their folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.warm.client import files_of, preloaded_package
from tests.workflow.checkouts import Checkout, checkout

EXPERIMENT = "experiment: e\nmodels: [nwe]\ntasks: {nouns: {dataset: de-noun}}\n"


@pytest.fixture
def socket(tmp_path: Path) -> str:
    """The socket of a server with a package of two files preloaded."""
    package = tmp_path / "first/pam"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "table.yaml").write_text("size: 1\n", encoding="utf-8")
    listed = {"folder": str(package.parent), "files": files_of(str(package))}
    (tmp_path / "preloaded.json").write_text(json.dumps(listed), encoding="utf-8")
    (tmp_path / "socket-preloaded").touch()
    return str(tmp_path / "socket")


def test_a_copy_is_the_preloaded_package_until_a_file_of_it_changes(
    socket: str, tmp_path: Path
) -> None:
    copy = tmp_path / "second"
    shutil.copytree(tmp_path / "first", copy)
    assert preloaded_package(socket, [str(tmp_path), str(copy)]) == str(copy)

    (copy / "pam/__pycache__").mkdir()
    (copy / "pam/__pycache__/table.pyc").touch()
    assert preloaded_package(socket, [str(copy)]) == str(copy)

    (copy / "pam/new.py").touch()
    assert preloaded_package(socket, [str(copy)]) is None

    (copy / "pam/new.py").unlink()
    os.utime(copy / "pam/table.yaml", (1, 1))
    assert preloaded_package(socket, [str(copy)]) is None


def test_the_first_package_on_the_path_counts(socket: str, tmp_path: Path) -> None:
    (tmp_path / "other/pam").mkdir(parents=True)
    folders = [str(tmp_path / "other"), str(tmp_path / "first")]
    assert preloaded_package(socket, folders) is None
    assert preloaded_package(socket, folders[::-1]) == folders[1]


def test_a_package_that_cannot_be_read_is_not_the_preloaded_one(
    socket: str, tmp_path: Path
) -> None:
    (tmp_path / "third").mkdir()
    (tmp_path / "third/pam").touch()
    assert preloaded_package(socket, [str(tmp_path / "third")]) is None


def test_without_a_second_server_nothing_is_preloaded(socket: str, tmp_path: Path) -> None:
    (tmp_path / "socket-preloaded").unlink()
    assert preloaded_package(socket, [str(tmp_path / "first")]) is None


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_command_has_the_models_of_its_own_folder_and_not_of_the_preloaded_one(
    tmp_path: Path, is_changed: bool
) -> None:
    made = checkout(tmp_path / "checkout")
    made.write("config/models/new.yaml", "label: New\n")
    if is_changed:
        made.edit("pam/runtime/errors.py", "did you mean", "do you mean")
    elsewhere = Checkout(tmp_path / "elsewhere")
    elsewhere.write("e.yaml", EXPERIMENT)

    command = [sys.executable, "-m", "pam", "check", "--configfile", "e.yaml"]
    outcome = elsewhere.command(command, PYTHONPATH=str(made.folder))

    assert outcome.code == 2
    asked = "do" if is_changed else "did"
    assert f"{asked} you mean `new`?" in outcome.said
