"""What is said of a run's jobs: a line for each that has ended and two a minute of the trainings at
work.

Both have the time that is left. On a terminal there is a bar too. Snakemake says what its scheduler
does by records of `logging` that carry an event. This handler reads two of them: a job begins, and
it ends. Failed jobs are not reported
here: Snakemake already prints their logs.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

LINES = "PAM_PROGRESS"  # in the environment: a line for each job is all that is to be said
EXPECTED = "PAM_EXPECTED"  # in the environment: the file that `pam check --expected` wrote
TRAINING = "train_run"  # how the name of the rule ends that trains
DECODING = ("predict_run", "predict_dev", "analyze_run", "analyze_dev", "choose_length_penalty")
LINE_EVERY_S = 30.0
TRUST = 0.1  # the estimates before the run weigh as much as this share of it, once that is done
SETTLED_S = (
    20.0  # so many seconds of a run, what is known of its cores counts as much as what was seen
)
EPOCH = re.compile(r"epoch (\d+ of \d+)")
SCORE = re.compile(r"dev (accuracy [\d.]+ %|perplexity [\d.]+)")
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
        """What the file says, or None if there is none or it says nothing."""
        with suppress(OSError, ValueError, TypeError):
            if file:
                return cls(**json.loads(Path(file).read_text(encoding="utf-8")))
        return None

    def knows(self, jobs: Iterable[Job]) -> bool:
        """Whether all trainings among the jobs could be timed before the run."""
        return all(job.run in self.training for job in jobs if job.trains)

    def seconds(self, job: Job) -> float:
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
        self.expected = expected if expected is not None and expected.knows(self.waiting) else None
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
        """Takes any record of Snakemake's logger."""
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_info" and record.output:  # a mere target makes nothing
            self._start(record)
        elif event == "job_finished" and record.job_id in self.running:
            self._end(self.running.pop(record.job_id))

    def _start(self, record: Any) -> None:
        wildcards = dict(getattr(record, "wildcards", None) or {})
        same_rule = [job for job in self.waiting if job.rule == record.rule_name]
        same_job = [job for job in same_rule if job.wildcards == wildcards]
        job = next(iter(same_job or same_rule), None)
        if job is None:  # it is tried once more
            job = Job(record.rule_name, wildcards)
        else:
            self.waiting.remove(job)
        # Without a message of its own a rule is known by what it makes.
        job.words = (
            record.rule_msg
            or f"{record.rule_name.replace('_', ' ')}: {', '.join(record.output[:1])}"
        )
        job.log = next(iter(getattr(record, "log", None) or ()), None)
        job.began = time.monotonic()
        self.running[record.jobid] = job

    def _end(self, job: Job) -> None:
        job.seconds = self._elapsed(job)
        self.ended.append(job)
        to_go = self._words_to_go()
        self.bar.set_description_str(to_go.removeprefix(", "), refresh=False)
        self.bar.update()
        done = f"{len(self.ended)} of {self.total} jobs: {job.words} ({job.seconds:.0f} s)"
        tqdm.write(f"{done}{to_go}", file=sys.stderr)

    def tell_trainings(self) -> None:
        """Says which trainings are at work, in which epoch, and with which score on the development
        split.
        """
        at_work = [job for job in list(self.running.values()) if job.trains]
        if at_work:
            states = "; ".join(training_state(job) for job in at_work)
            tqdm.write(f"training: {states}{self._words_to_go()}", file=sys.stderr)

    def _words_to_go(self) -> str:
        left = self.to_go()
        return "" if left is None else f", about {tqdm.format_interval(left)} to go"

    def _elapsed(self, job: Job) -> float:
        return 0.0 if job.began is None else time.monotonic() - job.began

    def to_go(self) -> float | None:
        """Seconds until all is done; None while nothing is known of the trainings.

        They are what was expected, by the pace of the jobs that have ended; else the means of each
        rule so far.
        """
        seconds = self._seconds_by_job()
        if seconds is None:
            return None
        running = list(self.running.values())
        left = [max(0.0, seconds(job) - self._elapsed(job)) for job in running]
        left += [seconds(job) for job in self.waiting]
        spent = sum(job.seconds or 0.0 for job in self.ended) + sum(map(self._elapsed, running))
        wall = time.monotonic() - self.begin
        # In the first seconds jobs are too short to tell how many of them work at once.
        at_once = max(1.0, (spent + self.cores * SETTLED_S) / (wall + SETTLED_S))
        return max([sum(left) / at_once, *left])

    def _seconds_by_job(self) -> Callable[[Job], float] | None:
        """A function from a job to the seconds that it is likely to take, or None where that is not
        known.
        """
        if self.expected is not None:
            expected = self.expected
            everything = [*self.ended, *self.running.values(), *self.waiting]
            pace = {}
            for trains in (True, False):
                weight = TRUST * sum(
                    expected.seconds(job) for job in everything if job.trains == trains
                )
                planned = sum(expected.seconds(job) for job in self.ended if job.trains == trains)
                needed = sum(job.seconds or 0.0 for job in self.ended if job.trains == trains)
                pace[trains] = (needed + weight) / (planned + weight) if weight else 1.0
            return lambda job: pace[job.trains] * expected.seconds(job)

        by_rule: defaultdict[str, list[float]] = defaultdict(list)
        for job in self.ended:
            by_rule[job.rule].append(job.seconds or 0.0)
        unknown_training = any(
            job.trains and job.rule not in by_rule
            for job in [*self.running.values(), *self.waiting]
        )
        if not self.ended or unknown_training:
            return None
        means = {rule: sum(seconds) / len(seconds) for rule, seconds in by_rule.items()}
        usual = sum(job.seconds or 0.0 for job in self.ended) / len(self.ended)
        return lambda job: means.get(job.rule, usual)


def training_state(job: Job) -> str:
    """A training in words, with the last epoch and score in its log, if it has come so far."""
    named = "{model} on {task}, seed {seed}".format_map(defaultdict(lambda: "?", job.wildcards))
    text = ""
    with suppress(OSError):
        if job.log is not None:
            with open(job.log, "rb") as file:
                file.seek(max(0, os.path.getsize(job.log) - LOG_BYTES))
                text = file.read().decode("utf-8", errors="replace")
    epochs = EPOCH.findall(text)
    scores = SCORE.findall(text)
    known = [f"epoch {epochs[-1]}"] if epochs else ["begins"]
    if scores:
        known.append(f"dev {scores[-1]}")
    return f"{named}: {', '.join(known)}"


def show(workflow: Any) -> None:
    """Reports the jobs that a Snakemake workflow is about to run.

    Where `LINES` is set in the environment, Snakemake itself says no more of them than what goes
    wrong, but in its log.
    """
    from snakemake.logging import ColorizingTextHandler, logger

    lines = bool(os.environ.get(LINES))
    for handler in logger.handlers:
        if lines and isinstance(handler, ColorizingTextHandler):
            handler.setLevel(logging.WARNING)
    jobs: Sequence[Any] = [job for job in workflow.dag.needrun_jobs() if job.output]
    progress = JobProgress(
        jobs=[(job.rule.name, dict(job.wildcards_dict)) for job in jobs],
        bar=lines and sys.stderr.isatty(),
        expected=Expected.load(os.environ.get(EXPECTED)),
        cores=workflow.resource_settings.cores or 1,
    )
    logger.addHandler(progress)
    threading.Thread(target=_tell_trainings_regularly, args=(progress,), daemon=True).start()


def tell_trained_again(workflow: Any, restored: Collection[tuple[str, str, int]]) -> None:
    """Say which restored runs are about to be trained, as what is asked for needs their weights."""
    again = []
    for job in workflow.dag.needrun_jobs():
        wildcards = job.wildcards_dict
        if job.rule.name.endswith(TRAINING):
            run = (wildcards["task"], wildcards["model"], int(wildcards["seed"]))
            if run in restored:
                again.append("{}/{}/seed{}".format(*run))
    if again:
        names = ", ".join(sorted(again))
        said = (
            f"{len(again)} restored runs are trained again, as what is asked for needs their"
            " weights"
        )
        tqdm.write(f"{said}: {names}", file=sys.stderr)


def _tell_trainings_regularly(progress: JobProgress) -> None:
    while True:
        time.sleep(LINE_EVERY_S)
        progress.tell_trainings()
