"""The seed decides a training's result, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training import runs, small


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
    run = small.run("postr-joint")
    plain = run.model_copy(update={"network": run.network.model_copy(update={"dropout": 0.0})})
    configs = {"run": run, "seed": run.model_copy(update={"seed": 2}), "plain": plain}
    started = [runs.train(config, data, tmp_path / name) for name, config in configs.items()]

    assert [command.end() for command in started] == [0, 0, 0]

    weights = {runs.result(tmp_path / name)[0] for name in configs}
    assert len(weights) == 3
