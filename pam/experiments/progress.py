"""What is said of a run's jobs: a line for each that has ended, and of the trainings at work.

Trainings are told of twice a minute. Both lines have the time that is left. On a terminal there is
a bar too. Snakemake says what its scheduler does by records of `logging` that carry an event, as
logger plugins read them. This handler reads three of them: a job begins, it ends, and it fails.
Failed jobs have no line here, as Snakemake already prints their logs.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm

from pam.runtime import snakemake_internals

LINES = "PAM_PROGRESS"  # in the environment: a line for each job is all that is to be said
EXPECTED = "PAM_EXPECTED"  # in the environment: the file that `pam check --expected` wrote
TRAINING = "train_run"  # how the name of the rule ends that trains
DECODING = ("predict_run", "predict_dev", "analyze_run", "analyze_dev", "choose_length_penalty")
LINE_EVERY_S = 30.0
# Estimates before the run weigh as much as this share of it, once that is done.
TRUST = 0.1
# After so many seconds of a run, the jobs seen at once count as much as its cores.
SETTLED_S = 20.0
EPOCH = re.compile(r"epoch (\d+ of \d+)")
SCORE = re.compile(r"dev (accuracy [\d.]+ %|perplexity [\d.]+)")
FINISHED = "finished already"  # in a training's log, where its results were there
NOT_TRAINED = f"{FINISHED}, nothing was trained; `--forcerun train_run` trains again"
LOG_BYTES = 1 << 16  # of the end of a training's log, which has its last epoch


@dataclass(frozen=True)
class Expected:
    """Seconds that `pam check` expects jobs to take.

    `training` and `decoding` have them by `task/model`, beyond the `other` ones that each job takes
    to start.
    """

    training: Mapping[str, float]
    decoding: Mapping[str, float]
    other: float

    @classmethod
    def load(cls, file: str | None) -> Expected | None:
        """Read the file, or return None if there is none or it says nothing."""
        with suppress(OSError, ValueError, TypeError):
            if file:
                return cls(**json.loads(Path(file).read_text(encoding="utf-8")))
        return None

    def knows(self, jobs: Iterable[Job]) -> bool:
        """Return whether all trainings among the jobs could be timed before the run."""
        return all(job.run in self.training for job in jobs if job.trains)

    def seconds(self, job: Job) -> float:
        """Return the seconds that a job is expected to take."""
        if job.trains:
            return self.other + self.training.get(job.run, 0.0)
        if job.rule.endswith(DECODING):
            return self.other + self.decoding.get(job.run, 0.0)
        return self.other


@dataclass
class Job:
    """A job that has to run."""

    rule: str
    wildcards: Mapping[str, str] = field(default_factory=dict)
    words: str = ""
    log: str | None = None
    began: float | None = None
    seconds: float | None = None  # that it took, once it has ended

    @property
    def trains(self) -> bool:
        return self.rule.endswith(TRAINING)

    @property
    def run(self) -> str:
        """Its `task/model`."""
        return f"{self.wildcards.get('task')}/{self.wildcards.get('model')}"


class JobProgress(logging.Handler):
    """Reports jobs as they end, and the trainings at work every half a minute.

    Args:
        jobs: those that have to run, each a rule's name and its wildcards.
        bar: whether a bar is drawn at the foot of the terminal.
        expected: what is known of their times before the run, if anything is.
        cores: how many jobs can work at once at first.
    """

    def __init__(
        self,
        jobs: Iterable[tuple[str, Mapping[str, str]]],
        bar: bool,
        expected: Expected | None = None,
        cores: int = 1,
    ) -> None:
        super().__init__()
        self.cores = cores
        self.waiting = [Job(rule, wildcards) for rule, wildcards in jobs]
        # Without an estimate of each training the means of jobs so far are nearer.
        self.expected = None
        if expected is not None and expected.knows(self.waiting):
            self.expected = expected
        self.running: dict[int, Job] = {}  # by Snakemake's number
        self.ended: list[Job] = []
        self.total = len(self.waiting)
        self.begin = time.monotonic()
        self.bar = tqdm(
            total=self.total,
            unit="job",
            disable=not bar,
            bar_format="{n_fmt}/{total_fmt} jobs |{bar}| {desc}",
        )

    def emit(self, record: Any) -> None:
        """Take any record of Snakemake's logger."""
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_info" and record.output:  # a mere target makes nothing
            self._start(record)
        elif event == "job_finished" and record.job_id in self.running:
            self._end(self.running.pop(record.job_id))
        elif event == "job_error":
            self.running.pop(record.jobid, None)  # it has failed, or was stopped

    def _start(self, record: Any) -> None:
        """Move a job from those that wait to those that run."""
        wildcards = dict(getattr(record, "wildcards", None) or {})
        same_rule = [job for job in self.waiting if job.rule == record.rule_name]
        same_job = [job for job in same_rule if job.wildcards == wildcards]
        job = next(iter(same_job or same_rule), None)
        if job is not None:
            self.waiting.remove(job)
        else:  # it is tried once more
            job = Job(record.rule_name, wildcards)

        # Without a message of its own a rule is known by what it makes.
        default = f"{record.rule_name.replace('_', ' ')}: {', '.join(record.output[:1])}"
        job.words = record.rule_msg or default
        job.log = next(iter(getattr(record, "log", None) or ()), None)
        job.began = time.monotonic()
        self.running[record.jobid] = job

    def _end(self, job: Job) -> None:
        """Report a job that has ended, on the bar and by a line."""
        job.seconds = self._elapsed(job)
        self.ended.append(job)
        to_go = self._words_to_go()
        self.bar.set_description_str(to_go.removeprefix(", "), refresh=False)
        self.bar.update()
        words = job.words
        if job.trains and FINISHED in end_of_log(job):
            words += f": {NOT_TRAINED}"
        done = f"{len(self.ended)} of {self.total} jobs: {words} ({job.seconds:.0f} s)"
        tqdm.write(f"{done}{to_go}", file=sys.stderr)

    def tell_trainings(self) -> None:
        """Say which trainings are at work, in which epoch, and with which development score."""
        at_work = [job for job in list(self.running.values()) if job.trains]
        if at_work:
            states = "; ".join(training_state(job) for job in at_work)
            tqdm.write(f"training: {states}{self._words_to_go()}", file=sys.stderr)

    def _words_to_go(self) -> str:
        """Return the time that is left in words, or nothing while it is not known."""
        seconds = self.to_go()
        if seconds is None:
            return ""
        return f", about {tqdm.format_interval(seconds)} to go"

    def _elapsed(self, job: Job) -> float:
        return 0.0 if job.began is None else time.monotonic() - job.began

    def to_go(self) -> float | None:
        """Return the seconds until all is done; None while nothing is known of the trainings.

        They are what was expected, by the pace of the jobs that have ended; else the means so far
        of each model in other seeds, or of each rule.
        """
        seconds = self._seconds_by_job()
        if seconds is None:
            return None

        running = list(self.running.values())
        to_do = [max(0.0, seconds(job) - self._elapsed(job)) for job in running]
        to_do += [seconds(job) for job in self.waiting]

        spent = sum(job.seconds or 0.0 for job in self.ended) + sum(map(self._elapsed, running))
        wall = time.monotonic() - self.begin
        # In the first seconds jobs are too short to tell how many of them work at once.
        at_once = max(1.0, (spent + self.cores * SETTLED_S) / (wall + SETTLED_S))

        return max([sum(to_do) / at_once, *to_do])

    def _seconds_by_job(self) -> Callable[[Job], float] | None:
        """Return a function from a job to its likely seconds, or None where they are not known."""
        if self.expected is not None:
            expected = self.expected
            pace = {trains: self._pace(expected, trains) for trains in (True, False)}
            return lambda job: pace[job.trains] * expected.seconds(job)

        # Of the same model in another seed, else of the same rule.
        seconds_of: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
        for job in self.ended:
            seconds_of[job.rule, job.run].append(job.seconds or 0.0)
            seconds_of[job.rule,].append(job.seconds or 0.0)

        to_do = [*self.running.values(), *self.waiting]
        if not self.ended or any(job.trains and (job.rule,) not in seconds_of for job in to_do):
            return None

        means = {key: sum(seconds) / len(seconds) for key, seconds in seconds_of.items()}
        # What has not been seen yet is no training, and takes as long as other such jobs.
        others = [job.seconds or 0.0 for job in self.ended if not job.trains]
        usual = sum(others) / max(1, len(others))
        return lambda job: means.get((job.rule, job.run), means.get((job.rule,), usual))

    def _pace(self, expected: Expected, trains: bool) -> float:
        """Return the seconds that jobs take for each second that was expected of them.

        Trainings, which use all that a core or a GPU has, have a pace of their own.
        """
        jobs = [*self.ended, *self.running.values(), *self.waiting]
        weight = TRUST * sum(expected.seconds(job) for job in jobs if job.trains == trains)
        if not weight:
            return 1.0

        planned = sum(expected.seconds(job) for job in self.ended if job.trains == trains)
        needed = sum(job.seconds or 0.0 for job in self.ended if job.trains == trains)
        return (needed + weight) / (planned + weight)


def training_state(job: Job) -> str:
    """Return a training in words, with the last epoch and score in its log, if there are any."""
    run = "{model} on {task}, seed {seed}".format_map(defaultdict(lambda: "?", job.wildcards))
    text = end_of_log(job)
    epochs = EPOCH.findall(text)
    scores = SCORE.findall(text)
    state = f"epoch {epochs[-1]}" if epochs else "begins"
    if scores:
        state += f", dev {scores[-1]}"

    return f"{run}: {state}"


def end_of_log(job: Job) -> str:
    """Return the end of a job's log, nothing where there is none."""
    with suppress(OSError):
        if job.log is not None:
            with open(job.log, "rb") as file:
                file.seek(max(0, os.path.getsize(job.log) - LOG_BYTES))
                return file.read().decode("utf-8", errors="replace")
    return ""


class FinishedTrainings(logging.Handler):
    """Says in a dry run which trainings are finished already and would train nothing.

    Snakemake plans them where files have other times, as after a copy to another machine.

    Args:
        workflow: Snakemake's, whose plan is made later.
        is_finished: returns whether the training of a task, a model and a seed is finished.
    """

    def __init__(self, workflow: Any, is_finished: Callable[[str, str, int], bool]) -> None:
        super().__init__()
        self.workflow = workflow
        self.is_finished = is_finished

    def emit(self, record: Any) -> None:
        """Take any record of Snakemake's logger."""
        event = getattr(getattr(record, "event", None), "value", None)
        if event != "job_info" or not record.rule_name.endswith(TRAINING):
            return
        if not snakemake_internals.is_dry_run(self.workflow):
            return

        wildcards = dict(getattr(record, "wildcards", None) or {})
        task, model, seed = (wildcards.get(name, "") for name in ("task", "model", "seed"))
        if self.is_finished(task, model, int(seed)) and not self._is_forced(wildcards):
            tqdm.write(
                f"{model} on {task}, seed {seed}: {FINISHED}, nothing is trained unless its data"
                " change",
                file=sys.stderr,
            )

    def _is_forced(self, wildcards: Mapping[str, str]) -> bool:
        """Return whether the user has forced a training to run."""
        return any(
            job.is_forced and job.rule.endswith(TRAINING) and job.wildcards == wildcards
            for job in snakemake_internals.planned_jobs(self.workflow)
        )


def tell_finished(workflow: Any, is_finished: Callable[[str, str, int], bool]) -> None:
    """Let a dry run say which trainings are finished already."""
    handler = FinishedTrainings(workflow, is_finished)
    snakemake_internals.add_log_handler(handler, quiet=False)


def show(workflow: Any) -> None:
    """Report the jobs that a Snakemake workflow is about to run.

    Where `LINES` is set in the environment, Snakemake itself says no more of them than what goes
    wrong, but in its log.
    """
    lines = bool(os.environ.get(LINES))
    jobs = [job for job in snakemake_internals.planned_jobs(workflow) if job.has_output]
    progress = JobProgress(
        jobs=[(job.rule, job.wildcards) for job in jobs],
        bar=lines and sys.stderr.isatty(),
        expected=Expected.load(os.environ.get(EXPECTED)),
        cores=snakemake_internals.cores(workflow),
    )
    snakemake_internals.add_log_handler(progress, quiet=lines)
    if lines:
        _say_nothing_once_interrupted()
    threading.Thread(target=_tell_trainings_regularly, args=(progress,), daemon=True).start()


def _say_nothing_once_interrupted() -> None:
    """Keep what fails since Ctrl-C has stopped it off the terminal; `pam run` says how to go on."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        snakemake_internals.print_from(logging.CRITICAL + 1)
        before(number, frame)

    signal.signal(signal.SIGINT, interrupted)


def tell(texts: Iterable[str]) -> None:
    """Tell the user what is to be known before the jobs are planned, in one line each."""
    for text in texts:
        tqdm.write(text, file=sys.stderr)


def tell_trained_again(workflow: Any, restored: Collection[tuple[str, str, int]]) -> None:
    """Say which restored runs are about to be trained, as what is asked for needs their weights."""
    again = []
    for job in snakemake_internals.planned_jobs(workflow):
        if job.rule.endswith(TRAINING):
            task, model, seed = (job.wildcards[name] for name in ("task", "model", "seed"))
            if (task, model, int(seed)) in restored:
                again.append(f"{task}/{model}/seed{seed}")

    if again:
        tqdm.write(
            f"{len(again)} restored runs are trained again, as what is asked for needs their"
            f" weights: {', '.join(sorted(again))}",
            file=sys.stderr,
        )


def _tell_trainings_regularly(progress: JobProgress) -> None:
    while True:
        time.sleep(LINE_EVERY_S)
        progress.tell_trainings()
