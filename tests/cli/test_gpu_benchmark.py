"""`benchmarks/gpu.py` measures steps in all ways it knows, and writes a record and a table."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.training import small
from tests.warm import bin_folder

ROOT = Path(__file__).resolve().parents[2]


def test_steps_are_measured_plainly_and_as_graphs_and_what_fails_is_left_out(
    tmp_path: Path,
) -> None:
    data = small.prepare(tmp_path / "nouns")
    out = tmp_path / "out"
    (tmp_path / "old/pam").mkdir(parents=True)

    command = [str(bin_folder() / "python"), str(ROOT / "benchmarks/gpu.py")]
    command += ["--data", str(data), "--out", str(out), "--old", str(tmp_path / "old")]
    command += ["--device", "cpu", "--models", "soft", "--units", "8", "--batch-size", "5"]
    command += ["--batches", "2", "--rounds", "1", "--seconds", "0.05"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    record = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    (row,) = record["rows"]

    assert row["model"] == "soft"
    assert min(row["plain"]["steps_per_second"], row["graphs"]["steps_per_second"]) > 0
    assert row["graphs"]["shapes"] == 1
    assert 0 < row["graphs"]["padding"] < 1
    assert row["graphs"]["loss_share"] > 0
    assert row["graphs"]["searches_per_second"] > 0
    assert "old" not in row
    assert "left out: soft, old: " in done.stderr
    assert "left out: soft-pointer, postr-joint-pointer:0.99:6: no data are named" in done.stderr
    assert (out / "gpu.md").read_text(encoding="utf-8") == done.stdout
    assert done.stdout.splitlines()[2].startswith("| model | plain, steps/s | graphs, steps/s |")
