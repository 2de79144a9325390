"""A report shows what fits its experiment's kinds of task, and nothing that cannot be made."""

from __future__ import annotations

from typing import Any

import pytest

from pam.experiments.experiment import Experiment
from pam.reporting.catalogue import BUILDERS, FIGURES, TABLES
from pam.reporting.figures import parser_of
from pam.tasks import imported

INFLECTION = {
    "table2",
    "table2_gains",
    "table2_paradigms",
    "table2_paradigms_gains",
    "form_examples",
}
TRANSLATION = {"table1", "table1_gains", "table1_more", "examples"}
SUMMARIZATION = {
    "table_acvi_summaries",
    "table_acvi_summaries_gains",
    "table_acvi_novelty",
    "summary_examples",
}
CAPTIONING = {"table_acvi_captions", "table_acvi_captions_gains", "caption_examples"}
ANY = {"attentions", "overhead", "costs", "environment"}


def experiment(**tasks: dict[str, Any]) -> Experiment:
    """Return an experiment with two models and these tasks."""
    return Experiment.model_validate(
        {
            "experiment": "x",
            "models": ["soft", "prior-joint"],
            "tasks": {name: {"dataset": name} | task for name, task in tasks.items()},
        }
    )


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["inflection"], INFLECTION | ANY),
        (["translation"], TRANSLATION | ANY),
        (["summarization"], SUMMARIZATION | ANY),
        (["captioning"], CAPTIONING | ANY),
        (["inflection", "translation"], INFLECTION | TRANSLATION | ANY),
    ],
)
def test_tables_follow_the_kinds_of_task(kinds: list[str], expected: set[str]) -> None:
    tasks = {kind: kind for kind in kinds}
    made = experiment(**{kind: {} for kind in kinds})
    assert {name for name, item in TABLES.items() if item.shows(made, tasks)} == expected


def test_alignments_are_shown_of_tasks_that_have_gold_ones() -> None:
    made = experiment(plain={}, aligned={"word_alignments": "links"}, nouns={})
    kinds = {"plain": "translation", "aligned": "translation", "nouns": "inflection"}

    assert TABLES["table3"].shows(made, kinds) == ["aligned"]
    assert TABLES["table1"].shows(made, kinds) == ["plain", "aligned"]
    assert FIGURES["alignment"].shows(made, kinds) == ["aligned"]
    assert FIGURES["curves"].shows(made, kinds) == ["plain", "aligned", "nouns"]


def test_gains_are_shown_where_there_is_a_baseline_and_another_model() -> None:
    kinds = {"nouns": "inflection", "alone": "inflection", "without": "inflection"}
    made = experiment(nouns={}, alone={"models": ["soft"]}, without={"models": ["prior-joint"]})
    assert FIGURES["gains"].shows(made, kinds) == ["nouns"]
    assert FIGURES["accuracy"].shows(made, kinds) == ["nouns", "alone", "without"]
    assert TABLES["table2_gains"].shows(made, kinds) == ["nouns"]
    assert TABLES["table2"].shows(made, kinds) == ["nouns", "alone", "without"]


def test_bounds_are_drawn_of_trainings_that_measure_them() -> None:
    made = experiment(nouns={}, measured={"training": {"eval_metrics": True}})
    kinds = {"nouns": "inflection", "measured": "translation"}
    assert FIGURES["curves_watched"].shows(made, kinds) == ["measured"]


def test_every_table_can_be_built() -> None:
    assert {spec.builder for spec in TABLES.values()} == set(BUILDERS)
    assert all(callable(imported(builder)) for builder in BUILDERS.values())


def test_every_figure_has_a_kind_that_takes_its_files() -> None:
    for item in FIGURES.values():
        files = [word for option in item.files for word in (f"--{option}", "x")]
        options = ["--experiment", "x", *files, *item.options]
        parser_of(item.draws).parse_args(options)


def test_labels_tell_items_apart() -> None:
    for items in (TABLES, FIGURES):
        assert len({item.label for item in items.values()}) == len(items)
