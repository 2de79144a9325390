"""The file of the papers' figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam.errors import UserError
from pam.reporting import paper, tables

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "config" / "paper_figures.yaml"
MODELS = ("soft", "hard-mono", "prior-joint", "postr-joint", "mono-postr-joint", "prox-postr-joint")


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        ("de-N", (85.50, 85.65, 85.81, 85.88, 86.87, 85.81)),
        ("de-V", (94.91, 95.31, 95.52, 95.5, 95.71, 95.4)),
    ],
)
def test_table_2_holds_what_the_paper_prints(row: str, figures: tuple[float, ...]) -> None:
    table = paper.load(FIGURES)["table2"]
    assert tuple(table.figure("accuracy", row, model) for model in MODELS) == figures


def test_figures_are_for_models_that_have_a_file() -> None:
    for table in paper.load(FIGURES).values():
        for rows in table.metrics.values():
            for models in rows.values():
                for model in models:
                    assert (ROOT / "config" / "models" / f"{model}.yaml").is_file(), model


def test_every_table_with_a_paper_finds_its_figures() -> None:
    figures = paper.load(FIGURES)
    for spec in tables.COMPARISONS.values():
        if spec.paper is not None:
            assert set(spec.metrics) & set(figures[spec.paper].metrics)


def test_what_the_paper_lacks_is_unknown() -> None:
    table = paper.load(FIGURES)["table2"]
    assert table.figure("accuracy", "de-N", "sparse") is None
    assert table.figure("accuracy", None, "soft") is None
    assert table.figure("bleu", "de-N", "soft") is None


def test_a_figure_that_is_no_number_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "figures.yaml"
    path.write_text(
        "table2:\n  source: x\n  metrics:\n    accuracy:\n      de-N:\n        soft: 85:5x\n",
        encoding="utf-8",
    )
    with pytest.raises(UserError) as raised:
        paper.load(path)
    assert (raised.value.file, raised.value.line) == (str(path), 6)
