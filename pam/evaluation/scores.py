"""The record `scores.json` of a run: its results with intervals, its cost and its origin.

Tables and figures read nothing else of a run, except histories and alignments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field, model_validator

from pam.evaluation.metrics import Units
from pam.experiments.parsing import Strict


class Cost(Strict):
    """Seconds of training and decoding together; null where they were not measured."""

    wall_s: float | None = None
    cpu_s: float | None = None
    gpu_s: float | None = None


class Value(Strict):
    """One metric of one run with its bootstrap interval over units."""

    value: float
    low: float
    high: float
    n: int = Field(description="things judged: forms, paradigms, sentences, symbols")
    unit: str


class GroupScores(Strict):
    """The scores of a group of the rows of a split."""

    metrics: dict[str, Value]
    units: dict[str, list[int | float]] = Field(
        description="counts per unit of the group, in the columns of the whole split", min_length=1
    )


class Scores(Strict):
    """The content of `scores.json` and of `gold_scores.json`."""

    experiment: str | None = None
    task: str | None = None
    model: str | None = None
    label: str | None = None
    seed: int | None = None
    kind: str = Field("inflection", description="kind of task, of `pam.tasks.KINDS`")
    metrics: dict[str, Value]
    cost: Cost
    unseen: dict[str, int] = Field({}, description="symbols the vocabulary lacks, counted")
    training: dict[str, Any] = Field({}, description="what training recorded")
    decoding: dict[str, Any] = Field({}, description="what decoding recorded, by beam")
    details: dict[str, Any] = Field({}, description="signatures, counts of oddities")
    bootstrap: dict[str, float] = Field(description="resamples, seed and level of the intervals")
    references: str = Field(description="SHA-256 of what was to be predicted")
    over: str = Field("lemmas", description="what the units are, in words")
    columns: list[str] = Field(description="names of the counts per unit")
    units: dict[str, list[int | float]] = Field(description="counts per unit", min_length=1)
    # Left out where data have no groups, as in records from before there were any.
    groups: dict[str, GroupScores] = Field(
        {},
        description="scores by the group of each row, as the key `scores_by` of the data names it",
        exclude_if=lambda groups: not groups,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_lemmas(cls, content: Any) -> Any:
        """Drop the key `lemmas`, which old records of inflection have."""
        # They were made when nothing but inflection was scored, and name no kind.
        if isinstance(content, dict) and "kind" not in content:
            return {key: value for key, value in content.items() if key != "lemmas"}
        return content

    def counts(self) -> Units:
        """Return the counts per unit as arrays."""
        counts = np.array(list(self.units.values()), dtype=np.float64)
        return Units(tuple(self.units), tuple(self.columns), counts, self.references)

    def of_group(self, name: str) -> Scores:
        """Return the scores of a group as those of a split of its own."""
        group = self.groups[name]
        return self.model_copy(
            update={"metrics": group.metrics, "units": group.units, "groups": {}}
        )


def notes_of(scores: Scores) -> list[str]:
    """Return what a reader of scores has to know: notes, and the blank outputs of each beam."""
    notes = list(scores.details.get("notes", ()))
    for name, count in scores.details.items():
        if name.startswith("empty") and count:
            beam = name.removeprefix("empty").removeprefix("_b")
            outputs = f"the outputs of beam {beam}" if beam else "the outputs"
            notes.append(f"{count:,} of {outputs} are blank")
    return notes
