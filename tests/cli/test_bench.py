"""`bench` measures, and writes what it has measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.io import read_json
from tests.training import runs, small


@pytest.mark.faults
def test_trainings_at_once_are_timed_against_trainings_in_turn(tmp_path: Path) -> None:
    data = small.prepare(tmp_path / "nouns")
    small_work = ["--rounds", 2, "--batches", 2, "--warm-up", 1, "--encoder", 8, "--decoder", 8]
    arguments = ["bench", "--beside", 2, "--data", data, "--models", "soft", *small_work]
    bench = runs.start([*arguments, "--out", tmp_path / "bench.json"], tmp_path / "log")
    assert bench.end() == 0, bench.said()
    (row,) = read_json(tmp_path / "bench.json")["rows"]
    assert (row["model"], row["jobs"]) == ("soft", 2)
    assert 0 < row["lowest"] <= row["at_once"] <= row["highest"]
    assert row["time_ratio"] == pytest.approx(row["in_turn"] / row["at_once"], rel=0.5)
