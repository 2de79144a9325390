"""Runs that may stand in one table are grouped, and others are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import MadeExperiment, make_experiment

from pam.evaluation.records import load, save
from pam.evaluation.scores import Scores
from pam.reporting import runs
from pam.runtime.errors import UserError
from pam.tasks.inflection import counts as inflection


@pytest.fixture
def small(tmp_path: Path) -> MadeExperiment:
    """One task, two models, one seed, four lemmas."""
    return make_experiment(
        tmp_path, tasks=["de-noun"], models=["soft", "postr-joint"], seeds=[1], count=4
    )


def runs_of(made: MadeExperiment) -> list[runs.TaskRuns]:
    """Load all runs of an experiment."""
    return runs.load_runs(made.scores, runs.load_experiment(made.config))


def change(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def test_runs_are_grouped_by_task_and_model(made: MadeExperiment) -> None:
    tasks = runs_of(made)
    assert [task.label for task in tasks] == ["de-N", "de-V"]
    assert [[run.seed for run in seeds] for seeds in tasks[0].models.values()] == [[1, 2]] * 3


def test_runs_scored_on_other_forms_are_refused_with_file_and_line(small: MadeExperiment) -> None:
    path = small.run("de-noun", "soft") / "scores.json"
    rows = inflection.read(path.parent / "beam1" / "predictions.tsv")
    scores = load(Scores, path)
    units = inflection.count_lemmas(rows[:8] + rows[9:])
    changes = {
        "references": units.references,
        "units": dict(zip(units.names, units.counts.astype(int).tolist(), strict=True)),
    }
    save(scores.model_copy(update=changes), path)

    with pytest.raises(UserError, match="another test set") as raised:
        runs_of(small)
    assert raised.value.file == str(path)

    line = path.read_text(encoding="utf-8").split("\n")[(raised.value.line or 0) - 1]
    assert line.strip().startswith(json.dumps(units.names[1], ensure_ascii=False))


def test_forms_that_differ_only_in_spelling_are_refused_too(small: MadeExperiment) -> None:
    change(small.run("de-noun", "soft") / "scores.json", references="0" * 64)
    with pytest.raises(UserError, match="what was to be predicted differs"):
        runs_of(small)


def test_a_run_of_another_experiment_is_refused(small: MadeExperiment) -> None:
    path = small.run("de-noun", "soft") / "scores.json"
    change(path, experiment="other")

    with pytest.raises(UserError, match="`other`") as raised:
        runs_of(small)
    assert raised.value.file == str(path)


def test_a_task_that_the_experiment_lacks_is_refused(small: MadeExperiment) -> None:
    change(small.run("de-noun", "soft") / "scores.json", task="fr-verb")
    with pytest.raises(UserError, match="fr-verb"):
        runs_of(small)


def test_one_run_named_twice_is_refused(small: MadeExperiment) -> None:
    experiment = runs.load_experiment(small.config)
    with pytest.raises(UserError, match="the same run"):
        runs.load_runs([*small.scores, small.scores[0]], experiment)


def test_scores_without_a_run_are_refused(small: MadeExperiment) -> None:
    change(small.run("de-noun", "soft") / "scores.json", task=None)
    with pytest.raises(UserError, match="which run") as raised:
        runs_of(small)
    assert "--run" in (raised.value.hint or "")


def test_no_scores_are_refused(small: MadeExperiment) -> None:
    with pytest.raises(UserError, match="no scores"):
        runs.load_runs([], runs.load_experiment(small.config))
