"""Reproduced, not reproduced, or cannot tell: the one rule for every table."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pam.evaluation.bootstrap import LEVEL, MANY, RESAMPLES, RESAMPLES_OF_MANY, Interval

RULE = (
    f"Intervals are {100 * LEVEL:g} % percentile bootstrap intervals over test units (lemmas or "
    f"sentences; {RESAMPLES:,} draws, {RESAMPLES_OF_MANY:,} of more than {MANY:,} units) of the "
    "mean over seeds. The baseline is `reproduced` if the paper's "
    "figure lies in our interval, else `not reproduced`. Every other model is judged by its gain "
    "over the baseline, counted so that better is positive, G in the paper and g here, with the "
    "paired interval of g: `reproduced` if "
    "the interval excludes 0 on G's side; `not reproduced` if it excludes G and does not exclude 0 "
    "on G's side; `cannot tell` otherwise. It is `cannot tell` also where the paper has no figure, "
    "where our data are not the paper's, and with fewer than 2 seeds."
)

Word = Literal["reproduced", "not reproduced", "cannot tell"]


class Verdict(NamedTuple):
    """The verdict and what decided it."""

    word: Word
    reason: str


def _lacking(paper: float | None, same_data: bool, seeds: int) -> str:
    """What is lacking for a judgement, or nothing."""
    if paper is None:
        return "the paper has no figure"
    if not same_data:
        return "other data than the paper's"
    return "fewer than 2 seeds" if seeds < 2 else ""


def judge_level(paper: float | None, ours: Interval, same_data: bool, seeds: int) -> Verdict:
    """Judges the baseline by its own figure.

    Args:
        paper: the paper's figure.
        ours: interval of our mean over seeds.
        same_data: whether the task's data are those of the paper.
        seeds: trainings of the baseline.
    """
    lacking = _lacking(paper, same_data, seeds)
    if paper is None or lacking:
        return Verdict("cannot tell", lacking)
    if paper in ours:
        return Verdict("reproduced", "the paper's figure lies in our interval")
    return Verdict("not reproduced", "the paper's figure lies outside our interval")


def judge_gain(paper: float | None, ours: Interval, same_data: bool, seeds: int) -> Verdict:
    """Judges any other model by its gain over the baseline.

    Args:
        paper: the paper's gain G.
        ours: paired interval of our gain g.
        same_data: whether the task's data are those of the paper.
        seeds: trainings of the model or of the baseline, whichever has fewer.
    """
    lacking = _lacking(paper, same_data, seeds)
    if paper is None or lacking:
        return Verdict("cannot tell", lacking)
    if (paper > 0 and ours.low > 0) or (paper < 0 and ours.high < 0):
        return Verdict("reproduced", "our interval excludes 0 on the side of the paper's gain")
    if paper not in ours:
        return Verdict("not reproduced", "our interval excludes the paper's gain")
    return Verdict("cannot tell", "our interval holds both 0 and the paper's gain")
