"""What is said of the jobs of a run while they work."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from pam.experiments import progress
from pam.experiments.progress import TRUST, Expected, FinishedTrainings, JobProgress


class Clock:
    """Time that passes when it is told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def say(handler: JobProgress, event: LogEvent, **fields: Any) -> None:
    handler.handle(logging.makeLogRecord({"event": event, **fields}))


def begin(handler: JobProgress, number: int, rule: str, message: str | None, **more: Any) -> None:
    job = {"jobid": number, "rule_name": rule, "rule_msg": message, "output": [f"out{number}"]}
    say(handler, LogEvent.JOB_INFO, **job, **more)


def end(handler: JobProgress, number: int) -> None:
    say(handler, LogEvent.JOB_FINISHED, job_id=number)


def of_runs(*models: str) -> list[tuple[str, dict[str, str]]]:
    return [("train_run", {"task": "nouns", "model": model, "seed": "1"}) for model in models]


def test_each_job_is_a_line_with_jobs_and_time_left(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = JobProgress([("train_run", {})] * 4 + [("make_table", {})] * 2, bar=False, cores=2)
    begin(handler, 1, "make_table", None)
    clock.now += 2.0
    end(handler, 1)

    # no training has ended: no guess
    assert capsys.readouterr().err == "1 of 6 jobs: make table: out1 (2 s)\n"

    begin(handler, 2, "train_run", "Training a")
    begin(handler, 3, "train_run", "Training b")
    clock.now += 100.0
    end(handler, 2)
    clock.now += 0.5
    end(handler, 3)
    # Two trainings of 100 s at once have taken 200 of 102.5 s; two more and a table of 2 s are
    # left.
    last = capsys.readouterr().err.splitlines()[-1]

    assert last == "3 of 6 jobs: Training b (100 s), about 01:42 to go"


def test_a_long_training_makes_neither_other_models_nor_other_jobs_seem_long(clock: Clock) -> None:
    jobs = [("write_run", {}), *of_runs("slow", "quick", "quick"), *[("make_table", {})] * 9]
    handler = JobProgress(jobs, bar=False)
    begin(handler, 1, "write_run", None)
    clock.now += 1.0
    end(handler, 1)
    for number, (model, seconds) in enumerate({"slow": 1000.0, "quick": 100.0}.items(), 2):
        begin(handler, number, "train_run", "Training", wildcards=of_runs(model)[0][1])
        clock.now += seconds
        end(handler, number)

    # One more seed of the quick one, and nine jobs of a second.
    assert handler.to_go() == pytest.approx(109.0)


def test_a_training_that_was_finished_already_is_told_as_such(
    clock: Clock, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    handler = JobProgress(of_runs("soft"), bar=False)
    log = tmp_path / "train.log"
    log.write_text("2026-01-01 finished already: to train it once more\n", encoding="utf-8")
    begin(handler, 1, "train_run", "Training soft", wildcards={}, log=[str(log)])
    end(handler, 1)

    said = capsys.readouterr().err
    assert "Training soft: finished already" in said and "--forcerun train_run" in said


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("forced", [True, False])
def test_a_dry_run_says_which_trainings_are_finished_already(
    capsys: pytest.CaptureFixture[str], *, dry: bool, forced: bool
) -> None:
    jobs = []
    for rule, wildcards in of_runs("soft", "postr-joint"):
        of_rule = SimpleNamespace(name=rule)
        jobs.append(SimpleNamespace(rule=of_rule, wildcards_dict=wildcards, output=["x"]))

    dag = SimpleNamespace(
        needrun_jobs=lambda: jobs, reason=lambda job: SimpleNamespace(forced=forced)
    )
    handler = FinishedTrainings(
        SimpleNamespace(dryrun=dry, dag=dag),
        is_finished=lambda task, model, seed: (task, model, seed) == ("nouns", "soft", 1),
    )
    for number, (rule, wildcards) in enumerate(of_runs("soft", "postr-joint")):
        begin(handler, number, rule, "Training", wildcards=wildcards)

    said = capsys.readouterr().err
    assert ("soft on nouns, seed 1: finished already" in said) is (dry and not forced)
    assert "postr-joint" not in said


def test_the_time_left_begins_with_what_was_expected_and_follows_the_pace(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = Expected(
        training={"nouns/soft": 100.0, "nouns/postr-joint": 300.0}, decoding={}, other=0.0
    )
    jobs = [("fetch_data", {}), *of_runs("soft", "postr-joint")]
    handler = JobProgress(jobs, bar=False, expected=expected)
    begin(handler, 1, "fetch_data", "Fetching")
    end(handler, 1)

    assert capsys.readouterr().err == "1 of 3 jobs: Fetching (0 s), about 06:40 to go\n"

    begin(handler, 2, "train_run", "Training soft", wildcards=of_runs("soft")[0][1])
    clock.now += 50.0

    assert handler.to_go() == pytest.approx(350.0)

    # It takes twice as long as was expected, and so will the other one, if not quite as surely.
    clock.now += 150.0
    end(handler, 2)
    weight = TRUST * 400.0
    left = handler.to_go()

    assert left == pytest.approx(300.0 * (200.0 + weight) / (100.0 + weight))
    assert 500.0 < left < 600.0


def test_jobs_at_once_are_those_of_the_cores_until_some_have_worked(clock: Clock) -> None:
    expected = Expected(training={"nouns/a": 100.0, "nouns/b": 100.0}, decoding={}, other=0.0)
    handler = JobProgress(of_runs("a", "b"), bar=False, expected=expected, cores=2)

    assert handler.to_go() == pytest.approx(100.0)

    # One long training has no shorter end than its own.
    alone = JobProgress(of_runs("a"), bar=False, expected=expected, cores=2)

    assert alone.to_go() == pytest.approx(100.0)


def test_what_was_not_expected_is_not_guessed(clock: Clock) -> None:
    expected = Expected(training={"nouns/a": 100.0}, decoding={}, other=0.0)
    assert JobProgress(of_runs("a", "b"), bar=False, expected=expected).to_go() is None


@pytest.mark.parametrize("content", [None, "", "[]", '{"training": {}}'])
def test_a_file_of_expectations_that_says_nothing_is_none(
    content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "expected.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    assert Expected.load(str(file)) is None
    assert Expected.load(None) is None


LOG = """\
2026-11-28 04:36:01,100 nouns/soft/seed1: epoch 1 of 6, train loss 1.2, dev loss 0.9, \
dev accuracy 61.25 %, 9 CPU s
2026-11-28 04:36:21,100 nouns/soft/seed1: epoch 2 of 6, step 120 of 400, loss 0.8, 00:40 to go
"""


def test_trainings_at_work_are_told_with_epoch_and_score(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = JobProgress(of_runs("soft", "postr-joint"), bar=False)
    handler.tell_trainings()

    assert capsys.readouterr().err == ""

    (tmp_path / "soft.log").write_text(LOG, encoding="utf-8")

    for number, (rule, wildcards) in enumerate(of_runs("soft", "postr-joint")):
        log = [str(tmp_path / f"{wildcards['model']}.log")]
        begin(handler, number, rule, "Training", wildcards=wildcards, log=log)

    handler.tell_trainings()

    assert (
        capsys.readouterr().err
        == "training: soft on nouns, seed 1: epoch 2 of 6, dev accuracy 61.25 %; postr-joint on"
        " nouns, seed 1: begins\n"
    )


def test_a_training_that_failed_is_not_told_as_at_work_unless_it_is_tried_again(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    (rule, wildcards), *_ = runs = of_runs("soft")
    handler = JobProgress(runs, bar=False)
    begin(handler, 3, rule, "Training", wildcards=wildcards)
    say(handler, LogEvent.JOB_ERROR, jobid=3)
    handler.tell_trainings()

    assert capsys.readouterr().err == ""

    begin(handler, 3, rule, "Training", wildcards=wildcards)
    handler.tell_trainings()

    assert capsys.readouterr().err == "training: soft on nouns, seed 1: begins\n"


def test_other_records_are_nothing_to_it(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    handler = JobProgress([("train_run", {})], bar=False)
    handler.handle(logging.makeLogRecord({"msg": "Building DAG of jobs..."}))
    end(handler, 9)

    assert capsys.readouterr().err == ""
