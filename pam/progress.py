"""A line for each job that has ended, with how many are left and how long they will take; on a terminal a bar.

Snakemake says what its scheduler does by records of `logging` that carry an event. This handler reads two of them: a
job begins, and it ends. Of one that fails Snakemake tells enough.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

LINES = "PAM_PROGRESS"  # in the environment: a line for each job is all that is to be said
TRAINING = "train_run"  # how the name of the rule ends that takes most of the time


class JobProgress(logging.Handler):
    """Reports jobs, of which so many of each rule have to run; `bar`: draws one at the foot of the terminal."""

    def __init__(self, rules: Iterable[str], bar: bool) -> None:
        super().__init__()
        self.left = Counter(rules)
        self.total, self.done, self.begin = self.left.total(), 0, time.monotonic()
        self.running: dict[int, tuple[str, str, float]] = {}  # by number: rule, words, when it began
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)  # of ended jobs, by rule
        self.bar = tqdm(
            total=self.total, unit="job", disable=not bar, bar_format="{n_fmt}/{total_fmt} jobs |{bar}| {desc}"
        )

    def emit(self, record: Any) -> None:
        """Takes any record of Snakemake's logger."""
        event = getattr(getattr(record, "event", None), "value", None)
        if event == "job_info" and record.output:  # a mere target makes nothing
            # Without a message of its own a rule is known by what it makes.
            words = record.rule_msg or f"{record.rule_name.replace('_', ' ')}: {', '.join(record.output[:1])}"
            self.running[record.jobid] = record.rule_name, words, time.monotonic()
        elif event == "job_finished" and record.job_id in self.running:
            self._end(*self.running.pop(record.job_id))

    def _end(self, rule: str, words: str, began: float) -> None:
        seconds = time.monotonic() - began
        self.seconds[rule].append(seconds)
        self.left[rule] -= 1
        self.done += 1
        left = self.to_go()
        to_go = "" if left is None else f", about {tqdm.format_interval(left)} to go"
        self.bar.set_description_str(to_go.removeprefix(", "), refresh=False)
        self.bar.update()
        tqdm.write(f"{self.done} of {self.total} jobs: {words} ({seconds:.0f} s){to_go}", file=sys.stderr)

    def to_go(self) -> float | None:
        """Seconds until all is done, by the means of each rule so far; None before the first training has ended."""
        ended = [one for own in self.seconds.values() for one in own]
        unknown = [rule for rule, count in self.left.items() if count > 0 and rule not in self.seconds]
        if not ended or any(rule.endswith(TRAINING) for rule in unknown):
            return None
        at_once = max(1.0, sum(ended) / (time.monotonic() - self.begin))
        usual = sum(ended) / len(ended)
        means = {rule: sum(own) / len(own) for rule, own in self.seconds.items()}
        return sum(count * means.get(rule, usual) for rule, count in self.left.items()) / at_once


def show(workflow: Any) -> None:
    """Reports the jobs that a Snakemake workflow is about to run.

    Where `LINES` is set in the environment, Snakemake itself says no more of them than what goes wrong, but in its log.
    """
    from snakemake.logging import ColorizingTextHandler, logger

    lines = bool(os.environ.get(LINES))
    for handler in logger.handlers:
        if lines and isinstance(handler, ColorizingTextHandler):
            handler.setLevel(logging.WARNING)
    bar = lines and sys.stderr.isatty()
    logger.addHandler(JobProgress((job.rule.name for job in workflow.dag.needrun_jobs() if job.output), bar))
