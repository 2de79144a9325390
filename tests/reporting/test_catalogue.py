"""What a report shows: by the kinds of task of its experiment, and nothing that cannot be made."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from pam.commands.figures import KINDS
from pam.config import Experiment
from pam.reporting.catalogue import DRAWINGS, TABLES
from pam.reporting.tables import MAKERS

INFLECTION = {"table2", "table2_gains", "table2_paradigms", "table2_paradigms_gains"}
TRANSLATION = {"table1", "table1_gains", "table1_more", "examples"}
ANY = {"attentions", "overhead", "costs", "environment"}


def experiment(**tasks: dict[str, Any]) -> Experiment:
    own = {name: {"dataset": name} | task for name, task in tasks.items()}
    models = ["soft", "prior-joint"]
    return Experiment.model_validate({"experiment": "x", "models": models, "tasks": own})


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["inflection"], INFLECTION | ANY),
        (["translation"], TRANSLATION | ANY),
        (["inflection", "translation"], INFLECTION | TRANSLATION | ANY),
    ],
)
def test_tables_follow_the_kinds_of_task(kinds: list[str], expected: set[str]) -> None:
    tasks = {kind: kind for kind in kinds}
    made = experiment(**{kind: {} for kind in kinds})
    assert {name for name, item in TABLES.items() if item.shows(made, tasks)} == expected


def test_alignments_are_shown_of_tasks_that_have_gold_ones() -> None:
    made = experiment(plain={}, aligned={"gold": "links"}, nouns={})
    kinds = {"plain": "translation", "aligned": "translation", "nouns": "inflection"}
    assert TABLES["table3"].shows(made, kinds) == ["aligned"]
    assert TABLES["table1"].shows(made, kinds) == ["plain", "aligned"]
    assert DRAWINGS["alignment"].shows(made, kinds) == ["aligned"]
    assert DRAWINGS["curves"].shows(made, kinds) == ["plain", "aligned", "nouns"]


def test_gains_are_drawn_where_there_is_a_baseline_and_another_model() -> None:
    kinds = {"nouns": "inflection", "alone": "inflection", "without": "inflection"}
    made = experiment(nouns={}, alone={"models": ["soft"]}, without={"models": ["prior-joint"]})
    assert DRAWINGS["gains"].shows(made, kinds) == ["nouns"]
    assert DRAWINGS["accuracy"].shows(made, kinds) == ["nouns", "alone", "without"]


def test_bounds_are_drawn_of_trainings_that_watch_them() -> None:
    made = experiment(nouns={}, watched={"training": {"eval_metrics": True}})
    kinds = {"nouns": "inflection", "watched": "translation"}
    assert DRAWINGS["curves_watched"].shows(made, kinds) == ["watched"]


def test_every_table_can_be_made() -> None:
    assert set(TABLES) <= set(MAKERS)


def test_every_figure_has_a_module_that_takes_its_files() -> None:
    for item in DRAWINGS.values():
        assert item.draws in KINDS
        module = importlib.import_module(f"pam.reporting.figures.{item.draws}")
        known: set[str] = set()

        class Parser:
            def add_argument(self, *names: str, known: set[str] = known, **_: object) -> None:
                known.update(names)

        module.add_arguments(Parser())
        given = {f"--{option}" for option in item.files}
        given |= {word for word in item.options if word.startswith("--")}
        assert given <= known, item.label


def test_labels_tell_items_apart() -> None:
    for items in (TABLES, DRAWINGS):
        assert len({item.label for item in items.values()}) == len(items)
