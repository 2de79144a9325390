"""Means, intervals and gains of an experiment's runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from made_runs import MadeExperiment, make_experiment
from made_translations import make_translations

from pam.evaluation.two_levels import Measured, Scatter
from pam.experiments.experiment import Experiment
from pam.reporting import runs
from pam.reporting.catalogue import load_papers
from pam.reporting.comparison import Row, compare, gain_of, judge_gain, setting_of
from pam.runtime.errors import UserError
from pam.runtime.files import write_json


def rows_of(
    made: MadeExperiment,
    *metrics: str,
    table: str | None = "table2",
    scores: Sequence[Path] | None = None,
    first: bool = False,
) -> list[Row]:
    """Compare all runs with a table of a paper; without metrics, by accuracy."""
    experiment = runs.load_experiment(made.config)
    tasks = runs.load_runs(scores or made.scores, experiment)
    paper = load_papers(made.paper)[table] if table else None
    return compare(tasks, experiment, metrics or ["accuracy"], paper, first)


def find(rows: list[Row], task: str, model: str) -> Row:
    """Return the first row of a model on a task."""
    return next(row for row in rows if (row.task, row.model) == (task, model))


def values(made: MadeExperiment, task: str, model: str, metric: str) -> list[float]:
    """Return a metric of both seeds, as it was scored."""
    of_seeds = []
    for seed in (1, 2):
        path = made.run(task, model, seed) / "scores.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        of_seeds.append(content["metrics"][metric]["value"])
    return of_seeds


@pytest.mark.parametrize("metric", ["accuracy", "paradigm_accuracy"])
def test_mean_and_deviation_are_over_seeds(made: MadeExperiment, metric: str) -> None:
    row = find(rows_of(made, metric, table=None), "de-noun", "postr-joint")
    expected = values(made, "de-noun", "postr-joint", metric)

    assert row.values == pytest.approx(expected)
    assert row.mean == pytest.approx(np.mean(expected))
    assert row.sd == pytest.approx(np.std(expected, ddof=1))
    assert row.low <= row.mean <= row.high


def test_gain_is_the_difference_of_means_and_its_interval_is_narrower_than_unpaired(
    made: MadeExperiment,
) -> None:
    rows = rows_of(made)
    soft = find(rows, "de-noun", "soft")
    mono = find(rows, "de-noun", "mono-postr-joint")

    assert soft.gain is None
    assert mono.gain == pytest.approx(mono.mean - soft.mean)
    assert mono.paper_gain == pytest.approx(86.87 - 85.50)
    assert mono.gain_low is not None and mono.gain_high is not None

    paired = mono.gain_high - mono.gain_low
    unpaired = np.hypot(mono.high - mono.low, soft.high - soft.low)

    assert paired < unpaired


def test_difference_is_ours_minus_the_papers(made: MadeExperiment) -> None:
    row = find(rows_of(made), "de-verb", "soft")
    assert row.difference == pytest.approx(row.mean - 94.91)


def test_rows_follow_the_configuration(made: MadeExperiment) -> None:
    models = ["soft", "postr-joint", "mono-postr-joint"]
    expected = [(task, model) for task in ("de-noun", "de-verb") for model in models]
    assert [(row.task, row.model) for row in rows_of(made)] == expected


def test_cost_is_the_mean_of_training_with_decoding(made: MadeExperiment) -> None:
    row = find(rows_of(made), "de-noun", "soft")
    assert row.cpu_s == pytest.approx((131 + 132) / 2 + 1.3)
    assert row.gpu_s == 0.0


def test_an_ensemble_costs_what_its_members_do_too(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, models=["soft", "postr-joint"], seeds=[1], tasks=["de-noun"])
    alone = {row.model: row.cpu_s for row in rows_of(made)}
    path = made.run("de-noun", "postr-joint", 1) / "scores.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["training"]["members"] = [f"results/made/{path.parts[-4]}/soft/seed1/model"]
    write_json(path, content)

    together = find(rows_of(made), "de-noun", "postr-joint").cpu_s
    assert together == pytest.approx(alone["postr-joint"] + alone["soft"])

    content["training"]["members"] = ["results/made/de-noun/another/seed1/model"]
    write_json(path, content)
    assert find(rows_of(made), "de-noun", "postr-joint").cpu_s is None


def test_of_other_data_the_baselines_level_is_not_judged(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], paper=False, count=20)
    row = find(rows_of(made), "de-noun", "soft")

    assert row.paper == 85.50
    assert row.difference is None
    assert (row.direction, row.reason) == ("not judged", "other data than the paper's")


def test_one_seed_has_no_deviation_and_no_verdict(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=20)
    row = find(rows_of(made), "de-noun", "postr-joint")
    assert row.sd is None
    assert (row.direction, row.reason) == ("not judged", "fewer than 3 seeds")


def test_a_baseline_of_one_seed_decides_nothing(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], count=20)
    (made.run("de-noun", "soft", 2) / "scores.json").unlink()
    row = find(rows_of(made), "de-noun", "postr-joint")

    assert row.seeds == 2
    assert (row.direction, row.reason) == ("not judged", "fewer than 3 seeds")


def test_the_interval_of_a_mean_is_over_seeds_too(judged: MadeExperiment) -> None:
    row = find(rows_of(judged), "de-noun", "postr-joint")
    spread = 4.30 * (row.sd or 0.0) / np.sqrt(3)
    assert row.high - row.low > 1.2 * spread


def test_gains_on_other_data_are_judged_in_their_setting(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1, 2, 3], count=20, paper=False)
    row = find(rows_of(made), "de-noun", "mono-postr-joint")
    assert row.direction in ("agrees", "contradicts", "cannot tell")
    assert row.setting.startswith("other data") and row.setting.endswith("3 seeds")


def test_a_smaller_network_than_the_papers_is_said(judged: MadeExperiment) -> None:
    experiment = runs.load_experiment(judged.config)
    paper = load_papers(judged.paper)["table2"].model_copy(update={"size": {"decoder": 4096}})
    setting = setting_of(experiment, "de-noun", paper, "3 seeds")

    assert setting == "the paper's data, smaller, 3 seeds"

    same = paper.model_copy(update={"size": {"decoder": experiment.network.decoder}})
    setting = setting_of(experiment, "de-noun", same, "3 seeds")

    assert setting == "the paper's data and size, 3 seeds"


def test_without_the_baseline_there_is_no_gain(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["postr-joint"], count=20)
    row = find(rows_of(made), "de-noun", "postr-joint")
    assert row.gain is None
    assert (row.direction, row.reason) == ("not judged", "the baseline was not run")


def test_a_metric_of_the_outputs_is_the_one_that_scoring_measured(
    translated: MadeExperiment,
) -> None:
    rows = rows_of(translated, "bleu_b10", table="table1")
    path = translated.run("de-en", "postr-joint", 1) / "scores.json"
    scores = json.loads(path.read_text(encoding="utf-8"))
    row = find(rows, "de-en", "postr-joint")

    assert row.values[0] == pytest.approx(scores["metrics"]["bleu_b10"]["value"])
    assert row.paper == 29.7
    assert row.paper_gain == pytest.approx(29.7 - 28.5)


@pytest.mark.parametrize(
    ("metric", "table", "paper_gain", "direction"),
    [
        ("ppl", "table1", 9.61 - 8.51, "agrees"),
        # The paper's figures under AER grow with quality, so that they point the other way.
        ("aer", "table3", 0.449 - 0.583, "contradicts"),
    ],
)
def test_a_gain_in_what_is_better_when_lower_is_positive_where_it_falls(
    judged_translation: MadeExperiment, metric: str, table: str, paper_gain: float, direction: str
) -> None:
    scores = judged_translation.gold_scores if metric == "aer" else None
    rows = rows_of(judged_translation, metric, table=table, scores=scores)
    soft = find(rows, "de-en", "soft")
    postr = find(rows, "de-en", "postr-joint")

    assert postr.mean < soft.mean
    assert postr.gain is not None
    assert postr.gain_low is not None and postr.gain_high is not None
    assert postr.gain == pytest.approx(soft.mean - postr.mean)
    assert 0 < postr.gain_low < postr.gain < postr.gain_high
    assert postr.paper_gain == pytest.approx(paper_gain)
    assert postr.direction == direction


def test_what_the_papers_figures_of_alignment_must_mean_agrees(
    judged_translation: MadeExperiment,
) -> None:
    rows = rows_of(
        judged_translation, "one_minus_aer", table="table3", scores=judged_translation.gold_scores
    )
    postr = find(rows, "de-en", "postr-joint")

    assert postr.paper_gain == pytest.approx(0.583 - 0.449)
    assert postr.direction == "agrees"


def test_a_pattern_finds_every_beam_in_order_or_the_main_one(translated: MadeExperiment) -> None:
    rows = rows_of(translated, "ppl", "bleu_b*", table=None)
    assert list(dict.fromkeys(row.metric.name for row in rows)) == ["ppl", "bleu_b4", "bleu_b10"]

    rows = rows_of(translated, "bleu_b*", table=None, first=True)
    assert {row.metric.name for row in rows} == {"bleu_b4"}


def test_each_task_is_compared_by_the_metrics_of_its_kind(
    made: MadeExperiment, translated: MadeExperiment
) -> None:
    forms = runs.load_experiment(made.config)
    sentences = runs.load_experiment(translated.config)
    both = {"tasks": forms.tasks | sentences.tasks}
    experiment: Experiment = sentences.model_copy(update=both)
    tasks = runs.load_runs([*made.scores, *translated.scores], experiment)
    for metric, expected in (("accuracy", {"de-noun", "de-verb"}), ("bleu_b4", {"de-en"})):
        assert {row.task for row in compare(tasks, experiment, [metric], None)} == expected


def test_a_metric_that_no_task_has_is_named(made: MadeExperiment) -> None:
    with pytest.raises(UserError, match="unknown metric `acuracy`") as raised:
        rows_of(made, "acuracy", table=None)
    assert "did you mean `accuracy`?" in (raised.value.hint or "")


def test_a_model_that_one_task_leaves_out_is_in_the_others(tmp_path: Path) -> None:
    made = make_translations(tmp_path, tasks=["first", "second"], seeds=[1], count=6)
    text = made.config.read_text(encoding="utf-8").replace(
        "  second:\n", "  second:\n    models: [soft]\n"
    )
    made.config.write_text(text, encoding="utf-8")
    for path in (made.folder / "second").glob("*joint/seed1/scores.json"):
        path.unlink()
    rows = rows_of(made, "ppl", table=None)
    models = ["soft", "prior-joint", "postr-joint"]
    expected = [("first", model) for model in models] + [("second", "soft")]

    assert [(row.task, row.model) for row in rows] == expected


def test_a_gain_is_decided_where_p_says_so_too(judged: MadeExperiment) -> None:
    gains = [row for row in rows_of(judged, "accuracy", "paradigm_accuracy") if row.p is not None]
    assert len(gains) == 4
    for row in gains:
        assert (row.outcome in ("better", "worse")) is (row.p is not None and row.p < 0.05)


def test_each_metric_of_the_same_outputs_is_a_family_of_its_own(judged: MadeExperiment) -> None:
    alone = {row.model: row.p_holm for row in rows_of(judged, "accuracy")}
    together = rows_of(judged, "accuracy", "paradigm_accuracy")
    assert {row.model: row.p_holm for row in together if row.metric.name == "accuracy"} == alone


def test_a_verdict_is_the_same_at_any_time(judged: MadeExperiment) -> None:
    first = rows_of(judged)
    np.random.seed(1)
    assert rows_of(judged) == first


def test_a_level_is_judged_over_seeds_alone(judged: MadeExperiment) -> None:
    row = find(rows_of(judged), "de-noun", "soft")
    half = 4.302653 * (row.sd or 0.0) / np.sqrt(3)
    assert f"{row.mean - half:.4g} to {row.mean + half:.4g}" in row.reason


@pytest.mark.parametrize("values", [[[1.0]], [[0.0, np.nan]]])
def test_a_single_test_unit_that_counts_judges_no_gain(values: list[list[float]]) -> None:
    influences = np.array(values * 3)
    better, base = (Measured(np.full(3, level), influences) for level in (2.0, 1.0))
    assert gain_of(better, base, Scatter()) is None
    assert judge_gain(1.0, None, seeds=3).direction == "not judged"
