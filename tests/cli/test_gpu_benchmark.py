"""`benchmarks/gpu.py` measures steps in all ways it knows, and writes a record and a table."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

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

    assert record["complete"]
    assert row["model"] == "soft"
    assert min(row["plain"]["steps_per_second"], row["graphs"]["steps_per_second"]) > 0
    assert row["graphs"]["shapes"] == 1
    assert 0 < row["graphs"]["padding"] < 1
    assert row["graphs"]["loss_share"] > 0
    assert row["graphs"]["searches_per_second"] > 0
    assert "old" not in row
    assert "left out: soft, old: " in done.stderr
    assert any("soft, old" in message for message in record["messages"])
    assert "left out: soft-pointer, postr-joint-pointer:0.99:6: no data are named" in done.stderr
    assert (out / "gpu.md").read_text(encoding="utf-8") == done.stdout
    assert done.stdout.splitlines()[2].startswith("| model | plain, steps/s | graphs, steps/s |")


# The driver, with workers that compute nothing.

TURN = (
    '{"steps": 2, "tokens": 6, "wall_s": 0.5, "busy_s_per_step": null,'
    ' "train_batches": 1, "dev_batches": 1, "losses_per_second": 1.0}'
)
PATIENT = f"""
print('{{"ready": true}}', flush=True)
while input():
    print('{TURN}', flush=True)
"""
BREAKS_OFF = """
print('{"ready": true}', flush=True)
input()
print('{"shapes":', end="", flush=True)
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("gpu")


def driven(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: Sequence[str]) -> Any:
    """Let workers that run these programs take turns; return the settings for `measure`."""
    args = argparse.Namespace(rounds=2, seconds=0.1, limit=60.0, device="cpu", precision="float32")
    jobs = [gpu.Job(f"model {number}", "graphs", "", 8) for number in range(len(codes))]
    programs = dict(zip(jobs, codes, strict=True))

    def start(job: Any, args: argparse.Namespace) -> Any:
        log = tmp_path / f"{job.model}.log"
        log.touch()
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", programs[job]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return gpu.Worker(job, process, log)

    monkeypatch.setattr(gpu, "jobs_of", lambda args: jobs)
    monkeypatch.setattr(gpu, "start", start)
    return args


def test_a_record_is_written_after_each_round_also_if_a_worker_is_killed(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = driven(gpu, tmp_path, monkeypatch, [PATIENT, PATIENT])
    turns = []

    def save(workers: Sequence[Any]) -> None:
        turns.append([len(worker.turns) for worker in workers])
        if turns[-1] == [1, 1]:
            workers[0].process.kill()

    workers = gpu.measure(args, save)

    # after the recordings, the round that warms up, two rounds, and the looks at the GPU
    assert turns == [[0, 0], [0, 0], [1, 1], [1, 2], [1, 2]]
    assert [row["graphs"]["turns"] for row in gpu.rows_of(workers)] == [1, 2]
    assert any("model 0" in message and "-9" in message for message in gpu.SAID)
    assert all(worker.process.poll() is not None for worker in workers)


def test_a_worker_that_ends_amid_an_answer_is_left_out(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = driven(gpu, tmp_path, monkeypatch, [BREAKS_OFF, PATIENT])
    broken, patient = gpu.measure(args, lambda workers: None)
    assert (broken.prepared, broken.turns, len(patient.turns)) == (None, [], 2)
    assert any("model 0" in message for message in gpu.SAID)


def test_workers_find_packages_where_the_environment_names_them(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = []
    monkeypatch.setattr(
        gpu.subprocess, "Popen", lambda command, env, **settings: environments.append(env)
    )
    monkeypatch.setenv("PYTHONPATH", "/packages/that/were/brought")
    args = argparse.Namespace(
        out=tmp_path, device="cpu", precision="float32", batch_size=1, batches=1
    )
    gpu.start(gpu.Job("soft", "plain", str(tmp_path), 8), args)
    assert environments[0]["PYTHONPATH"] == f"{ROOT}:/packages/that/were/brought"


def test_what_kernels_cover_at_the_same_time_counts_once(gpu: Any) -> None:
    assert gpu.covered([(0, 4), (1, 2), (3, 6), (8, 9)]) == 7
    assert gpu.covered([]) == 0
