"""Means, intervals and gains of an experiment's cells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_cells import MadeExperiment, make_experiment

from pam.errors import UserError
from pam.reporting import cells, paper
from pam.reporting.comparison import Row, compare


def rows_of(
    made: MadeExperiment, metric: str = "accuracy", table: str | None = "table2"
) -> list[Row]:
    experiment = cells.load_experiment(made.config)
    figures = paper.load(made.paper)[table] if table else None
    return compare(cells.load_cells(made.scores, experiment), experiment, [metric], figures)


def find(rows: list[Row], task: str, model: str) -> Row:
    return next(row for row in rows if (row.task, row.model) == (task, model))


def values(made: MadeExperiment, task: str, model: str, metric: str) -> list[float]:
    found = []
    for seed in (1, 2):
        path = made.cell(task, model, seed) / "scores.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        found.append(content["metrics"][metric]["value"])
    return found


@pytest.mark.parametrize("metric", ["accuracy", "paradigm_accuracy"])
def test_mean_and_deviation_are_over_seeds(made: MadeExperiment, metric: str) -> None:
    row = find(rows_of(made, metric, None), "de-noun", "postr-joint")
    expected = values(made, "de-noun", "postr-joint", metric)
    assert row.values == pytest.approx(expected)
    assert row.mean == pytest.approx(np.mean(expected))
    assert row.sd == pytest.approx(np.std(expected, ddof=1))
    assert row.mean in row.interval


def test_gain_is_the_difference_of_means_and_its_interval_is_narrower_than_unpaired(
    made: MadeExperiment,
) -> None:
    rows = rows_of(made)
    soft, mono = find(rows, "de-noun", "soft"), find(rows, "de-noun", "mono-postr-joint")
    assert soft.gain is None
    assert mono.gain is not None
    assert mono.gain.value == pytest.approx(mono.mean - soft.mean)
    assert mono.gain.paper == pytest.approx(86.87 - 85.50)
    paired = mono.gain.interval.high - mono.gain.interval.low
    unpaired = np.hypot(
        mono.interval.high - mono.interval.low, soft.interval.high - soft.interval.low
    )
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


def test_other_data_show_the_papers_figure_and_decide_nothing(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], paper=False, count=20)
    row = find(rows_of(made), "de-noun", "soft")
    assert row.paper == 85.50
    assert row.difference is None
    assert row.verdict == ("cannot tell", "other data than the paper's")


def test_one_seed_has_no_deviation_and_no_verdict(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=20)
    row = find(rows_of(made), "de-noun", "postr-joint")
    assert row.sd is None
    assert row.verdict == ("cannot tell", "fewer than 2 seeds")


def test_a_baseline_of_one_seed_decides_nothing(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], count=20)
    (made.cell("de-noun", "soft", 2) / "scores.json").unlink()
    row = find(rows_of(made), "de-noun", "postr-joint")
    assert row.seeds == 2
    assert row.verdict == ("cannot tell", "fewer than 2 seeds")


def test_without_the_baseline_there_is_no_gain(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["postr-joint"], count=20)
    row = find(rows_of(made), "de-noun", "postr-joint")
    assert row.gain is None
    assert row.verdict == ("cannot tell", "the baseline was not run")


def test_a_row_that_the_paper_lacks_is_named(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], models=["soft"], count=5)
    text = made.config.read_text(encoding="utf-8").replace("paper: de-N", "paper: de-X")
    made.config.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="de-X") as raised:
        rows_of(made)
    assert "de-N, de-V" in (raised.value.remedy or "")
