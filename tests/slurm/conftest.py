"""A Slurm for each test, and a checkout from which a user sends jobs to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing
from tests.slurm.login import Login
from tests.workflow.checkouts import checkout, with_own_data

ABSENT = missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Start two idle nodes with two GPUs each."""
    if ABSENT is not None:
        pytest.skip(ABSENT)

    with Cluster.started() as started:
        yield started


@pytest.fixture
def login(cluster: Cluster, tmp_path: Path) -> Iterator[Login]:
    """Give a user of that cluster a checkout and a small experiment; nothing is run."""
    made = Login(cluster, with_own_data(checkout(tmp_path / "checkout")))
    made.hurry()

    yield made

    made.end()
