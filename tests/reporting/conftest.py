"""A made-up experiment that the tests of this folder share."""

from __future__ import annotations

import pytest
from made_runs import MadeExperiment, make_experiment
from made_translations import make_translations


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """Two tasks, three models, two seeds; read only."""
    return make_experiment(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="session")
def translated(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """One task of translation, three models, two seeds; read only."""
    return make_translations(tmp_path_factory.mktemp("translated"))


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """One task, three models, three seeds: enough to be judged; read only."""
    return make_experiment(tmp_path_factory.mktemp("judged"), tasks=["de-noun"], seeds=[1, 2, 3])


@pytest.fixture(scope="session")
def judged_translation(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """One task of translation, two models, three seeds; read only."""
    return make_translations(
        tmp_path_factory.mktemp("judged"), models=["soft", "postr-joint"], seeds=[1, 2, 3]
    )


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> MadeExperiment:
    """Soft, Mono-Postr-Joint and a sweep of two values, three seeds; read only."""
    return make_experiment(
        tmp_path_factory.mktemp("swept"),
        tasks=["de-noun"],
        models=["soft", "mono-postr-joint", "postr-joint-mass0.9", "postr-joint-mass0.99"],
        listed=[
            "soft",
            "mono-postr-joint",
            {"postr-joint": {"sweep": {"marginalization.mass": [0.9, 0.99]}}},
        ],
        seeds=[1, 2, 3],
    )
