"""A trained model, prepared data, and the command line called in this process."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from filelock import FileLock

from pam.cli import main
from tests.training import small


class Result(NamedTuple):
    """The exit code and the output of a call."""

    code: int
    out: str
    err: str

    def message(self) -> tuple[str, str]:
        """Return the one message of a call that failed, and its hint."""
        assert self.code == 2
        assert "Traceback" not in self.err

        message, hint = self.err.splitlines()
        assert message.startswith("error: ") and hint.startswith("  hint: ")

        return message.removeprefix("error: "), hint.removeprefix("  hint: ")


Call = Callable[..., Result]


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that calls `pam ARGUMENTS`, with `typed` as standard input."""

    def call(*arguments: object, typed: bytes | str = b"") -> Result:
        content = typed.encode() if isinstance(typed, str) else typed
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])

        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder of real nouns; not to be changed."""
    return small.prepare(tmp_path_factory.mktemp("prepared") / "nouns")


@pytest.fixture(scope="session")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a short training, made once for all test processes; not to be changed."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    out = folder / "trained nouns"
    with FileLock(f"{out}.lock"):
        if not out.exists():
            train(data, out.with_suffix(".new"))
            out.with_suffix(".new").rename(out)

    return out


def train(data: Path, out: Path) -> None:
    """Train Postr-Joint on a few nouns."""
    small.write_run(out, small.run("postr-joint", epochs=25, state_every_s=60.0))
    arguments = ["train", "--run", str(out), "--data", str(data)]
    assert main([*arguments, "--device", "cpu"]) == 0


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained model, to be damaged."""
    return Path(shutil.copytree(trained / "model", tmp_path / "model"))


@pytest.fixture
def own_data(data: Path, tmp_path: Path) -> Path:
    """A copy of the prepared folder, to be damaged."""
    return Path(shutil.copytree(data, tmp_path / "data"))
