"""Parts of a training, each with its longest source and target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import Batch
from pam.experiments.parsing import parse
from pam.experiments.settings import Training
from pam.models.seq2seq import Seq2Seq
from pam.runtime.errors import UserError
from tests.training import small
from tests.training.trainers import trainer

PHASES = [
    {"until": 2, "source": 3, "target": 2},
    {"until": 5, "source": 6},
    {"source": 5, "target": 4},
]


def test_steps_read_what_their_phase_says_and_development_data_what_the_last_one_says(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[bool, list[tuple[int, int]]] = {True: [], False: []}

    def noted(name: str) -> None:
        whole = getattr(Seq2Seq, name)

        def read(model: Seq2Seq, source: Any, lengths: Any, target: Any) -> Any:
            assert int(lengths.max()) == source.shape[1]
            seen[model.training].append((source.shape[1], target.shape[1]))
            return whole(model, source, lengths, target)

        monkeypatch.setattr(Seq2Seq, name, read)

    noted("objective")
    noted("log_likelihood")
    training = trainer(small.run("soft", phases=PHASES, epochs=2), data, tmp_path)
    _, progress = training.run()
    longest = [(3, 2)] * 2 + [(6, 20)] * 3 + [(5, 4)] * 3

    assert len(seen[True]) == 8
    assert all(
        m <= most and n <= limit for (m, n), (most, limit) in zip(seen[True], longest, strict=True)
    )
    assert seen[True][:2] == [(3, 2)] * 2 and max(n for _, n in seen[True][2:5]) > 5
    assert (max(m for m, _ in seen[False]), max(n for _, n in seen[False])) == (5, 4)

    # Only what was learned is counted.
    lengths = training.train.target_lengths
    assert progress.history[0]["tokens"] < int(lengths.sum())


def test_without_phases_everything_is_read(data: Path, tmp_path: Path) -> None:
    training = trainer(small.run("soft"), data, tmp_path)
    rows = training.train.shuffled(15, 1, 0)[0]
    whole: Batch = training.train.batch(rows)
    assert training._examples().batch(rows).target.tolist() == whole.target.tolist()


@pytest.mark.parametrize(
    "phases",
    [[{"until": 5}], [{}, {}], [{"until": 5}, {"until": 5}, {}], [{"until": 6}, {"until": 5}, {}]],
)
def test_phases_that_do_not_follow_one_another_are_refused(phases: list[dict[str, int]]) -> None:
    with pytest.raises(UserError, match="the phases do not follow one another"):
        parse(Training, {"phases": phases})


def test_pointer_actions_are_not_cut(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pointer actions cannot be cut"):
        trainer(small.run("hard-mono", phases=[{"source": 5}]), data, tmp_path)
