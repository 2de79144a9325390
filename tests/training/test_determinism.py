"""The seed decides a training's result, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.models.checkpoint import digest
from tests.training import runs, small
from tests.training.trainers import trained, without_dropout


@pytest.mark.parametrize("model", ["hard-mono", "mono-postr-joint"])
def test_the_same_seed_gives_the_same_result_whatever_trains_beside_it(
    model: str, data: Path, tmp_path: Path
) -> None:
    alone = runs.train(small.run(model), data, tmp_path / "alone")
    assert alone.end() == 0, alone.said()

    beside = [runs.train(small.run(model), data, tmp_path / name) for name in ("one", "other")]
    assert [command.end() for command in beside] == [0, 0]

    for name in ("one", "other"):
        assert runs.result(tmp_path / name) == runs.result(tmp_path / "alone")


def test_another_seed_and_another_dropout_rate_give_other_weights(
    data: Path, tmp_path: Path
) -> None:
    run = small.run("postr-joint", epochs=1)
    seed = run.model_copy(update={"seed": 2})
    configs = {"run": run, "seed": seed, "plain": without_dropout(run)}

    results = [trained(config, data, tmp_path / name) for name, config in configs.items()]

    assert len({digest(weights, {}) for weights, _ in results}) == 3
