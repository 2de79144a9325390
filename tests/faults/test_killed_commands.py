"""SIGKILL of a command at each of its writes: the same command, called again, ends with the same
files.
"""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import Recorder
from tests.faults.commands import COMMANDS
from tests.training.runs import Fault

MOMENTS = {
    "before the file is begun": ("pam.runtime.files", "_locked_part"),
    "while it is written": ("pam.runtime.files", "_flush"),
}
WRITES = 40
"""As many as any of the commands has, or more."""


class Made(NamedTuple):
    """A command's folder, the number of files that it writes, and their contents undisturbed."""

    folder: Path
    writes: int
    results: dict[str, Any]


Ready = Callable[[str], Made]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Ready:
    """Make the folder of each command once."""
    folders: dict[str, Made] = {}

    def make(name: str) -> Made:
        if name not in folders:
            command = COMMANDS[name]
            # The same path for all, as some files hold it.
            folder = tmp_path_factory.mktemp("command") / "room"
            folder.mkdir()
            command.make(folder)
            shutil.copytree(folder, folder.with_name("ready"))
            whole = command.start(folder, Fault(*MOMENTS["while it is written"], 1, "noted"))

            assert whole.end() == 0, whole.said()

            # Other lines may have the word too, such as a library's warning at its first use.
            writes = len(re.findall(r"^call \d+$", whole.said(), re.MULTILINE))
            folders[name] = Made(folder, writes, command.results(folder))
        return folders[name]

    return make


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*.part")]


def moments() -> list[Any]:
    """List commands, moments and writes; `make test` tries one moment of each command."""
    cases: list[Any] = []
    for index, name in enumerate(COMMANDS):
        for moment in MOMENTS:
            sample = int(moment == list(MOMENTS)[index % len(MOMENTS)])
            for number in range(WRITES):
                marks = pytest.mark.faults
                if number < sample:
                    marks = ()
                cases.append(pytest.param(name, moment, number, marks=marks))

    return cases


@pytest.mark.parametrize(("name", "moment", "number"), moments())
def test_a_killed_command_ends_with_the_same_files(
    name: str, moment: str, number: int, ready: Ready, record: Recorder
) -> None:
    command = COMMANDS[name]
    folder, writes, undisturbed = ready(name)
    assert 0 < writes <= WRITES
    if number >= writes:
        return

    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("ready"), folder)
    struck = command.start(folder, Fault(*MOMENTS[moment], number + 1))
    assert struck.end() == -signal.SIGKILL, struck.said()

    again = command.start(folder)
    assert again.end() == 0, again.said()
    assert "Traceback" not in again.said()

    results = command.results(folder)
    names = results | undisturbed
    differing = {file for file in names if results.get(file) != undisturbed.get(file)}
    assert differing == set(), f"killed {moment} {number + 1}"
    assert leftovers(folder) == []

    record(
        fault=f"SIGKILL of a command at a write: {name}",
        showed=(
            "the same command, called again, ends with the same files, and nothing is left behind"
        ),
    )
