"""Compare two runs: metrics with paired differences, and the configuration that differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any

from pydantic import Field

from pam.evaluation.metrics import Units, metric_of
from pam.evaluation.plain_texts import Gain, gains_of
from pam.evaluation.records import load
from pam.evaluation.scores import Scores, Value, notes_of
from pam.experiments.parsing import Strict
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.reporting.runs import ScoredRun, check_comparable
from pam.runtime.errors import UserError
from pam.runtime.messages import aligned

NAMES = ("experiment", "task", "model", "label")  # that say nothing of how a run was made
MISSING = "-"  # shown for a key that one run does not have


class RunPair(Strict):
    """What two runs of one task have in common and what differs."""

    runs: tuple[str, str] = Field(description="their folders")
    split: str = Field(description="of the data that was scored")
    over: str = Field(description="what the differences are paired by, in words")
    units: int = Field(description="number of these")
    values: dict[str, tuple[Value, Value]] = Field(description="both values, by metric")
    gains: dict[str, Gain] = Field(
        description="the second run's gain over the first, positive where the second is better"
    )
    differing: dict[str, tuple[Any, Any]] = Field(
        description="keys of the configuration that differ, with both values"
    )
    notes: list[str] = Field([], description="what a reader of the scores has to know")


def compare_runs(first: RunFolder, second: RunFolder, split: str = "test") -> RunPair:
    """Compare two scored runs, metric by metric, on the same draws of the test units.

    Raises:
        UserError: a run is not scored, the runs have other test sets, or no metric in common.
    """
    runs = [_scored(folder, split) for folder in (first, second)]
    kinds = [run.scores.kind for run in runs]
    if kinds[0] != kinds[1]:
        raise UserError(
            f"these are scores of {kinds[1]}; the scores of {runs[0].path} are of {kinds[0]}",
            file=runs[1].path,
            hint="compare runs of the same task",
        )
    check_comparable(*runs)

    names = [name for name in runs[0].scores.metrics if name in runs[1].scores.metrics]
    if not names:
        raise UserError(
            f"there is no metric in common with {runs[0].path}",
            file=runs[1].path,
            hint="decode both runs with the same main beam, and score them again",
        )

    metrics = [metric_of(name) for name in names]
    columns = list(dict.fromkeys(column for metric in metrics for column in metric.columns))
    units, other_units = (_units_of(run.scores, columns) for run in runs)
    scores, other_scores = (run.scores for run in runs)
    return RunPair(
        runs=(str(first.path), str(second.path)),
        split=split,
        over=scores.over,
        units=len(units.names),
        values={name: (scores.metrics[name], other_scores.metrics[name]) for name in names},
        gains=gains_of(other_units, units, metrics),
        differing=differing_keys(first.load(), second.load()),
        notes=[
            f"{run}: {note}"
            for run, of_run in zip(("A", "B"), (scores, other_scores), strict=True)
            for note in notes_of(of_run)
        ],
    )


def _scored(folder: RunFolder, split: str) -> ScoredRun:
    """Read the scores of a run."""
    path = folder.scores(split)
    if not path.is_file():
        hint = f"score it first: `pam score --run {quote(str(folder.path))}`"
        raise UserError("no such file", file=path, hint=hint)

    scores = load(Scores, path)
    return ScoredRun(
        path=path,
        task=scores.task or "",
        model=scores.model or "",
        label=scores.label or "",
        seed=scores.seed or 0,
        scores=scores,
    )


def _units_of(scores: Scores, columns: list[str]) -> Units:
    """Return the counts of these columns, in this order."""
    units = scores.counts()
    return Units(units.names, tuple(columns), units.of(columns), units.references)


def differing_keys(first: RunConfig, second: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the keys of two configurations whose values differ, such as `network.dropout`.

    Names, and what is said for people, are left out.
    """
    all_keys = [_flat(run.model_dump(exclude=set(NAMES))) for run in (first, second)]
    keys = dict.fromkeys([*all_keys[0], *all_keys[1]])
    pairs = {key: tuple(of_run.get(key, MISSING) for of_run in all_keys) for key in keys}
    return {
        key.removeprefix("components."): (values[0], values[1])
        for key, values in pairs.items()
        if values[0] != values[1] and key not in ("components.label", "components.source")
    }


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested keys as one, joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{above}{key}.")
        else:
            flat[f"{above}{key}"] = value

    return flat


def report(pair: RunPair) -> str:
    """Return a comparison as lines for people."""
    rows = [("metric", "A", "B", "B is better by", "95 % interval", "p")]
    for name, (value, other_value) in pair.values.items():
        gain = pair.gains[name]
        rows.append(
            (
                f"{name} ({value.unit})" if value.unit else name,
                f"{value.value:.2f}",
                f"{other_value.value:.2f}",
                f"{gain.value:+.2f}",
                f"[{gain.low:+.2f}, {gain.high:+.2f}]",
                f"{gain.p:.4f}",
            )
        )

    lines = [f"A: {pair.runs[0]}", f"B: {pair.runs[1]}", "", *aligned(rows), ""]
    units = f"{pair.units} {pair.over} of the {pair.split} split"
    lines.append(f"paired by {units}; of these two runs alone")
    lines += [f"note: {note}" for note in pair.notes]
    lines.append("")
    if pair.differing:
        keys = [("configuration", "A", "B")]
        keys += [(key, _as_yaml(a), _as_yaml(b)) for key, (a, b) in pair.differing.items()]
        lines += aligned(keys)
    else:
        lines.append("the configurations are the same")

    return "\n".join(lines) + "\n"


def _as_yaml(value: Any) -> str:
    """Return a value as one writes it in YAML."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
