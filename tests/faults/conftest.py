"""A mirror on loopback, a run that nothing disturbed, and fresh copies to disturb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.data.conftest import Server
from tests.faults.runs import OWN, serve, with_download
from tests.workflow.checkouts import Checkout, Outcome, checkout
from tests.workflow.conftest import once


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files that this process writes wait for no disk: no test takes the power away."""
    monkeypatch.setattr("pam.runtime.files._flush", lambda path: None)


@pytest.fixture(scope="session")
def mirror() -> Iterator[Server]:
    """Serve the nouns from a mirror."""
    running = Server()
    yield running
    running.close()


@dataclass(frozen=True)
class Scene:
    """A checkout, and the environment that names the mirror of its data."""

    made: Checkout
    environment: dict[str, str]

    def run(self, *arguments: str, **environment: str) -> Outcome:
        """Call Snakemake plainly, as any user types it."""
        return self.made.run(*arguments, *OWN, **self.environment, **environment)


@pytest.fixture
def scene(tmp_path: Path, mirror: Server) -> Scene:
    """Copy the repository with data to download; nothing is run."""
    made = with_download(checkout(tmp_path / "checkout"))
    return Scene(made, serve(mirror, made))


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, mirror: Server
) -> tuple[Checkout, Outcome]:
    """Run the same without a disturbance; the result is not to be changed."""

    def run(made: Checkout) -> Outcome:
        return Scene(with_download(made), serve(mirror, made)).run()

    return once(tmp_path_factory, "undisturbed", run)


@pytest.fixture
def finished(undisturbed: tuple[Checkout, Outcome], tmp_path: Path, mirror: Server) -> Scene:
    """Copy that run, to be changed."""
    made = undisturbed[0].copy(tmp_path / "finished")
    return Scene(made, serve(mirror, made))
