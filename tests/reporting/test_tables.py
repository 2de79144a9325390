"""Tables as files: exact columns, the paper's figures, escaping in every format."""

from __future__ import annotations

import argparse
import csv
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from made_cells import MadeExperiment, make_experiment

from pam.errors import UserError
from pam.reporting import numbers, tables, typeset
from pam.reporting.typeset import Sheet
from pam.reporting.verdict import RULE
from pam.scoring.bootstrap import Interval
from pam.verbs import tables as verb

COLUMNS = "task,model,metric,mean,sd,n,low,high,paper,difference,p_vs_soft,verdict,cpu_s,gpu_s"


def make(made: MadeExperiment, name: str, out: Path) -> list[dict[str, str]]:
    """Makes a table through its verb; returns the rows of the CSV."""
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    arguments = ["--table", name, "--experiment", str(made.config), "--paper", str(made.paper)]
    arguments += ["--scores", *map(str, made.scores), "--out", str(out)]
    assert verb.run(parser.parse_args(arguments)) == 0
    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize("name", ["table2", "table2_paradigms"])
def test_csv_has_exactly_the_promised_columns_and_a_row_per_task_and_model(
    made: MadeExperiment, tmp_path: Path, name: str
) -> None:
    rows = make(made, name, tmp_path)
    header = (tmp_path / f"{name}.csv").read_text(encoding="utf-8").split("\n")[0]
    assert header == COLUMNS
    models = ["soft", "postr-joint", "mono-postr-joint"]
    expected = [(task, model) for task in ("de-noun", "de-verb") for model in models]
    assert [(row["task"], row["model"]) for row in rows] == expected


def test_csv_is_in_per_cent_and_empty_where_nothing_is_known(
    made: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(made, "table2", tmp_path)
    soft, mono = rows[0], rows[2]
    assert (soft["paper"], soft["p_vs_soft"], soft["n"]) == ("85.5", "", "2")
    assert 50 < float(soft["low"]) < float(soft["mean"]) < float(soft["high"]) < 100
    assert float(soft["difference"]) == pytest.approx(float(soft["mean"]) - 85.5)
    assert 0 < float(mono["p_vs_soft"]) <= 1
    paradigms = make(made, "table2_paradigms", tmp_path)
    assert (paradigms[0]["paper"], paradigms[0]["difference"]) == ("", "")
    assert paradigms[0]["verdict"] == "cannot tell"


def test_an_unreadable_figure_of_the_paper_is_an_empty_cell(
    made: MadeExperiment, tmp_path: Path
) -> None:
    figures = tmp_path / "paper_figures.yaml"
    text = made.paper.read_text(encoding="utf-8").replace("soft: 85.50", "soft: null")
    figures.write_text(text, encoding="utf-8")
    rows = make(MadeExperiment(made.folder, made.config, figures), "table2", tmp_path)
    assert (rows[0]["paper"], rows[0]["verdict"]) == ("", "cannot tell")
    assert (rows[1]["paper"], rows[1]["verdict"]) == ("85.88", "cannot tell")


def test_people_read_the_papers_figure_the_verdict_and_the_rule(
    made: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(made, "table2", tmp_path)
    for ending in (".md", ".html"):
        text = (tmp_path / f"table2{ending}").read_text(encoding="utf-8")
        assert "86.87" in text
        assert rows[2]["verdict"] in text
        assert "Shankar" in text
    assert RULE in (tmp_path / "table2.md").read_text(encoding="utf-8")


def test_figures_for_other_data_are_marked(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, tasks=["de-noun"], seeds=[1], count=10, paper=False)
    rows = make(made, "table2", tmp_path)
    assert (rows[0]["paper"], rows[0]["difference"]) == ("85.5", "")
    text = (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert r"85.50\*" in text
    assert "not ours" in text


def test_gains_name_what_decided_each_verdict(made: MadeExperiment, tmp_path: Path) -> None:
    rows = make(made, "table2_gains", tmp_path)
    assert [row["model"] for row in rows[:2]] == ["postr-joint", "mono-postr-joint"]
    assert float(rows[1]["paper_gain"]) == pytest.approx(1.37)
    assert float(rows[1]["low"]) <= float(rows[1]["gain"]) <= float(rows[1]["high"])
    assert all(row["reason"] for row in rows)


def test_costs_have_a_row_per_cell_and_a_sum(made: MadeExperiment, tmp_path: Path) -> None:
    rows = make(made, "costs", tmp_path)
    assert len(rows) == len(made.scores)
    assert float(rows[0]["cpu_s"]) == pytest.approx(131 + 1.3)
    assert (rows[0]["device"], rows[0]["best_epoch"], rows[0]["epochs"]) == ("cpu", "9", "12")
    assert float(rows[0]["peak_memory_mb"]) == 540
    last = (tmp_path / "costs.md").read_text(encoding="utf-8").split("| All")[1]
    assert f"{sum(float(row['cpu_s']) for row in rows):,.0f}" in last


def test_environment_counts_cells_by_version_and_hardware(
    made: MadeExperiment, tmp_path: Path
) -> None:
    rows = make(made, "environment", tmp_path)
    facts = {(row["name"], row["value"]): row["cells"] for row in rows}
    assert facts["torch", "2.13.0"] == str(len(made.scores))
    assert ("gpu", "None") not in facts


def test_the_same_scores_give_the_same_bytes(made: MadeExperiment, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        make(made, "table2", tmp_path / folder)
    for ending in typeset.FORMATS:
        first, second = (tmp_path / name / f"table2{ending}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_an_unknown_table_names_the_closest(made: MadeExperiment, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="table22") as raised:
        make(made, "table22", tmp_path)
    assert "did you mean `table2`?" in (raised.value.remedy or "")
    assert not list(tmp_path.iterdir())


SHEET = Sheet(
    title="50 % of A & B",
    columns=("task", "value"),
    records=[("a,b", 1.5), ('say "x"', None)],
    headings=("Task_1", "Value"),
    body=[("a|b <b>", "-1.5"), ("[c]", "1.0 ± 0.5")],
    align="lr",
    notes=("* {note}",),
)


def test_csv_quotes_and_leaves_unknown_cells_empty() -> None:
    assert typeset.to_csv(SHEET) == 'task,value\n"a,b",1.5\n"say ""x""",\n'


def test_markdown_is_escaped_and_aligned() -> None:
    lines = typeset.to_markdown(SHEET).split("\n")
    assert lines[2:4] == ["| Task_1    |     Value |", "| --------- | --------: |"]
    assert lines[4] == r"| a\|b \<b> |      -1.5 |"
    assert r"\* {note}" in lines


def test_latex_is_escaped() -> None:
    text = typeset.to_latex(SHEET, "sheet")
    assert r"50 \% of A \& B" in text
    assert r"Task\_1 & Value \\" in text
    assert r"a|b $<$b$>$ & $-$1.5 \\" in text
    assert r"{[}c] & 1.0 $\pm$ 0.5 \\" in text
    assert r"* \{note\}" in text
    for rule in ("toprule", "midrule", "bottomrule"):
        assert f"\\{rule}" in text


def test_html_is_well_formed_and_escaped() -> None:
    text = typeset.to_html(SHEET)
    body = ElementTree.fromstring(text[text.index("<body>") : text.index("</html>")])  # noqa: S314
    cells = [cell.text for cell in body.iter("td")]
    assert cells == ["a|b <b>", "-1.5", "[c]", "1.0 ± 0.5"]


def test_every_comparison_uses_metrics_that_exist() -> None:
    from pam.scoring.metrics import METRICS

    for spec in tables.COMPARISONS.values():
        assert set(spec.metrics) <= set(METRICS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers.signed(0.0, 2), "0.00"),
        (numbers.signed(-0.001, 2), "0.00"),
        (numbers.signed(1.37, 2), "+1.37"),
        (numbers.signed(None, 2), ""),
        (numbers.probability(0.0001), "< 0.001"),
        (numbers.probability(0.0126), "0.013"),
        (numbers.signed_between(Interval(-0.5, 1.25), 1), "[-0.5, +1.2]"),
        (numbers.grouped(1234.4), "1,234"),
    ],
)
def test_numbers_as_people_read_them(text: str, expected: str) -> None:
    assert text == expected
