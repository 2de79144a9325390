"""The file of the papers' results."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pam.experiments.model import model_files
from pam.reporting.catalogue import TABLES, load_papers
from pam.runtime.errors import UserError
from tests.variants import MODELS as FOLDER
from tests.variants import variant_names

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "config" / "paper_results.yaml"
SEVEN = (
    "soft",
    "sparse",
    "variational",
    "prior-joint",
    "postr-joint",
    "mono-postr-joint",
    "prox-postr-joint",
)
MODELS = ("soft", "hard-mono", "prior-joint", "postr-joint", "mono-postr-joint", "prox-postr-joint")


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        ("de-N", (85.50, 85.65, 85.81, 85.88, 86.87, 85.81)),
        ("de-V", (94.91, 95.31, 95.52, 95.5, 95.71, 95.4)),
    ],
)
def test_table_2_holds_what_the_paper_prints(row: str, figures: tuple[float, ...]) -> None:
    table = load_papers(RESULTS)["table2"]
    assert tuple(table.value("accuracy", row, model) for model in MODELS) == figures


@pytest.mark.parametrize(
    ("row", "ppl", "bleu_b10"),
    [
        (
            "IWSLT14 DE-EN",
            (9.61, 9.85, None, 8.47, 8.51, 8.23, 8.26),
            (28.5, 28.0, 29.8, 29.6, 29.7, 29.9, 29.7),
        ),
        (
            "IWSLT14 EN-DE",
            (10.68, 10.89, None, 8.72, 8.60, 8.45, 8.52),
            (24.2, 23.3, 25.3, 25.3, 25.4, 25.6, 25.5),
        ),
        (
            "IWSLT15 EN-VI",
            (10.27, 10.13, None, 9.67, 9.11, 9.52, 9.59),
            (26.4, 26.1, None, 27.3, 27.4, 27.3, 27.3),
        ),
        (
            "IWSLT15 VI-EN",
            (8.30, 8.48, None, 7.57, 7.34, 7.14, 7.26),
            (24.6, 23.9, None, 25.6, 25.8, 25.6, 25.9),
        ),
        (
            "WAT17 JA-EN",
            (12.46, 14.18, None, 10.00, 9.96, 9.98, 9.78),
            (18.5, 16.8, None, 20.2, 20.3, 20.5, 20.5),
        ),
    ],
)
def test_table_1_holds_what_the_scan_shows(
    row: str, ppl: tuple[float | None, ...], bleu_b10: tuple[float | None, ...]
) -> None:
    table = load_papers(RESULTS)["table1"]
    assert tuple(table.value("ppl", row, model) for model in SEVEN) == ppl
    assert tuple(table.value("bleu_b10", row, model) for model in SEVEN) == bleu_b10


def test_of_the_lost_column_of_table_1_only_the_two_legible_runs_are_filled() -> None:
    by_row = load_papers(RESULTS)["table1"].metrics["bleu_b4"]
    legible = {
        (row, model): figure
        for row, models in by_row.items()
        for model, figure in models.items()
        if figure is not None
    }

    assert legible == {("IWSLT14 EN-DE", "soft"): 24.2, ("IWSLT15 VI-EN", "sparse"): 24.2}


def test_table_3_stands_beside_aer_and_beside_its_complement() -> None:
    table = load_papers(RESULTS)["table3"]
    printed = {"soft": 0.449, "prior-joint": 0.502, "postr-joint": 0.583}

    assert set(table.metrics) == {"aer", "one_minus_aer"}
    assert all(rows == {"IWSLT14 DE-EN": printed} for rows in table.metrics.values())
    assert "better when lower" in table.note


def test_the_figures_of_luong_et_al_stand_in_the_order_of_their_gains() -> None:
    table = load_papers(RESULTS)["table_ablation"]
    parts = (
        "luong-base",
        "luong-reverse",
        "luong-dropout",
        "luong-location",
        "luong-feeding",
        "luong-local-p",
        "luong-unknown",
    )
    bleu = [table.value("bleu_b10", "WMT14 EN-DE", part) for part in parts]

    assert bleu == [11.3, 12.6, 14.0, 16.8, 18.1, 19.0, 20.9]

    aligned = ("soft-location", "local-m", "local-p", "ensemble")
    errors = [table.value("aer", "WMT14 EN-DE", model) for model in aligned]

    assert errors == [0.39, 0.34, 0.36, 0.34]


def test_figures_are_for_models_and_variants_that_there_are() -> None:
    models_and_variants = {*model_files(FOLDER), *variant_names()}
    for table in load_papers(RESULTS).values():
        for rows in table.metrics.values():
            for models in rows.values():
                assert models_and_variants >= set(models)


def test_every_table_with_a_paper_finds_its_figures() -> None:
    figures = load_papers(RESULTS)
    for spec in TABLES.values():
        if spec.metrics and spec.paper is not None:
            reported = figures[spec.paper].metrics
            assert any(fnmatchcase(name, pattern) for name in reported for pattern in spec.metrics)


def test_what_the_paper_lacks_is_unknown() -> None:
    table = load_papers(RESULTS)["table2"]
    assert table.value("accuracy", "de-N", "sparse") is None
    assert table.value("accuracy", None, "soft") is None
    assert table.value("bleu", "de-N", "soft") is None


def test_a_figure_that_is_no_number_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "figures.yaml"
    path.write_text(
        "table2:\n  source: x\n  metrics:\n    accuracy:\n      de-N:\n        soft: 85:5x\n",
        encoding="utf-8",
    )

    with pytest.raises(UserError) as raised:
        load_papers(path)
    assert (raised.value.file, raised.value.line) == (str(path), 6)
