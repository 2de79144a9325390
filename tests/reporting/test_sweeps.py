"""A sweep has one table and one figure, with its values as rows and on the axis."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from made_runs import MadeExperiment, make_experiment

from pam.reporting import figures
from pam.reporting.catalogue import TABLES, load_papers
from pam.reporting.comparison import Inputs, compare
from pam.reporting.render import Table
from pam.reporting.runs import load_experiment, load_runs
from pam.reporting.tables import build
from pam.runtime.errors import UserError

GRID = {"postr-joint": {"sweep": {"marginalization.mass": [0.9, 0.99], "network.dropout": [0, 1]}}}


def table(made: MadeExperiment) -> Table:
    inputs = Inputs(load_experiment(made.config), load_papers(made.paper), made.scores)
    return build("sweeps", inputs)


def test_the_values_are_rows_below_the_baseline(swept: MadeExperiment) -> None:
    made = table(swept)
    assert list(made.data["model"]) == ["soft", "postr-joint-mass0.9", "postr-joint-mass0.99"]
    assert list(made.data["values"]) == [None, "0.9", "0.99"]
    assert set(made.data["options"]) == {None, "marginalization.mass"}
    labels = [row["model"].label for row in made.rows]
    assert labels[1:] == ["Postr-Joint, mass 0.9", "Postr-Joint, mass 0.99"]
    assert all(row["level"].sd is not None for row in made.rows)
    assert list(made.data["dev_loss"]) == [0.5, 0.5, 0.5]


def test_gains_are_those_of_the_main_table_corrected_for_the_sweep(swept: MadeExperiment) -> None:
    rows = table(swept).data.set_index("model")
    experiment = load_experiment(swept.config)
    compared = compare(load_runs(swept.scores, experiment), experiment, ["accuracy"], None)
    for row in compared:
        if row.model not in rows.index or row.gain is None:
            continue
        of_table = rows.loc[row.model]
        assert of_table["gain"] == pytest.approx(row.gain, abs=1e-4)
        assert of_table["gain_low"] == pytest.approx(row.gain_low, abs=1e-4)
        assert of_table["p"] <= of_table["p_holm"] <= 2 * of_table["p"] + 1e-5


def test_the_figure_has_values_side_by_side_with_intervals_and_the_baseline(
    swept: MadeExperiment, tmp_path: Path
) -> None:
    scores = list(map(str, swept.scores))
    words = ["--experiment", str(swept.config), "--scores", *scores]
    figures.write("sweep", [*words, "--out", str(tmp_path / "sweeps.svg")])
    data = pd.read_csv(tmp_path / "sweeps.csv", dtype={"values": str})

    assert list(data["values"].fillna("")) == ["", "0.9", "0.99"]
    assert (data["low"] < data["mean"]).all()
    assert (data["mean"] < data["high"]).all()


def test_of_several_options_each_combination_of_the_later_ones_has_a_line(tmp_path: Path) -> None:
    names = [f"postr-joint-mass{mass}-dropout{rate}" for mass in (0.9, 0.99) for rate in (0, 1)]
    made = make_experiment(
        tmp_path, tasks=["de-noun"], models=names, listed=[GRID], seeds=[1], count=5, paper=False
    )
    experiment = load_experiment(made.config)

    assert experiment.baseline == names[0]

    with figures.style.styled():
        drawing = figures.drawing_of("sweep")(made.config, made.scores)
    (axes,) = drawing.figure.axes
    lines = [
        line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() != "None"
    ]

    assert len(lines) == 2
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.9", "0.99"]
    assert axes.get_xlabel() == "marginalization.mass"
    legend = [entry.get_text() for entry in drawing.figure.legends[0].get_texts()]

    assert legend[-2:] == ["dropout 0", "dropout 1"]


def test_experiments_without_a_sweep_have_neither(made: MadeExperiment) -> None:
    experiment = load_experiment(made.config)
    kinds = dict.fromkeys(experiment.tasks, "inflection")

    assert TABLES["sweeps"].shows(experiment, kinds) == []
    with pytest.raises(UserError, match="no scores of a sweep"):
        table(made)
