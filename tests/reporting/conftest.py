"""A made-up experiment that the tests of this folder share."""

from __future__ import annotations

import pytest
from made_cells import MadeExperiment, make_experiment


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """Two tasks, three models, two seeds; read only."""
    return make_experiment(tmp_path_factory.mktemp("made"))
