"""The models of the first screen are ranked by typed cells, whatever their texts are."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pam.evaluation.metrics import METRICS, metric_of
from pam.experiments.experiment import Experiment
from pam.reporting.answers import answer, in_sentence
from pam.reporting.catalogue import TABLES
from pam.reporting.cells import (
    Cell,
    Estimate,
    Judgement,
    Missing,
    Name,
    PaperFigure,
    Value,
    from_record,
    to_record,
)
from pam.reporting.render import Column, Row, Table
from pam.reporting.standings import Ranking, ranking

CELLS: list[Cell] = [
    Name("de-noun", "de-N"),
    Value(1234.5, ",.0f"),
    Value(None),
    Estimate(1.5, digits=2, low=-0.5, high=3.5, seeds=3, is_gain=True, p=0.04, p_holm=0.2),
    PaperFigure(1.37, digits=2, same_data=False, is_gain=True),
    Judgement("agrees", "within"),
    Missing("the paper has no figure"),
]


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_read_as_it_was_written(cell: Cell) -> None:
    again = from_record(json.loads(json.dumps(to_record(cell))))
    assert again == cell
    assert again.text == cell.text


def compared(model: str, mean: float, **more: Cell) -> Row:
    """Return a row of accuracy on nouns."""
    cells: dict[str, Cell] = {
        "task": Name("nouns", "Nouns"),
        "model": Name(model, model.capitalize()),
        "metric": Name("accuracy", "Accuracy"),
        "baseline": Name("soft", "Soft"),
        "level": Estimate(mean, digits=2, low=mean - 1, high=mean + 1, seeds=3),
        "gain": Missing("this is the baseline"),
        "paper": Missing("the paper has no figure"),
        "paper_gain": Missing("the paper has no figure"),
        "outcome": Missing("too few seeds"),
        "verdict": Judgement("not judged"),
        "judged_seeds": Value("3 seeds"),
    }
    return Row(cells | more)


def ranked(*rows: Row, metric: str = "accuracy") -> Ranking:
    """Return the ranking of these rows."""
    experiment = Experiment.model_validate(
        {
            "experiment": "x",
            "models": ["soft", "hard"],
            "tasks": {"nouns": {"dataset": "nouns", "paper_reference": "de-N"}},
        }
    )
    named = [replace(row, cells={**row.cells, "metric": Name(metric, metric)}) for row in rows]
    table = Table("", named, [])
    spec = replace(TABLES["table2"], metrics=(metric,))
    return ranking(table, spec, experiment, Name("nouns", "Nouns"))


def best(of: Ranking) -> list[str]:
    return [row.model.key for row in of.rows if row.is_best]


def test_the_best_is_the_highest_or_the_lowest_mean_of_the_experiments_models() -> None:
    rows = [compared("soft", 80.0), compared("hard", 82.0), compared("lead", 90.0)]
    assert best(ranked(*rows)) == ["hard"]
    assert best(ranked(*rows, metric="ppl")) == ["soft"]
    # Means that differ by the order of their sums alone are the same.
    assert best(ranked(compared("soft", 0.3), compared("hard", 0.1 + 0.2))) == []


def test_a_model_is_judged_by_the_papers_claim_or_else_by_its_gain_or_by_why_not() -> None:
    figure = PaperFigure(85.9, digits=2, same_data=True)
    claimed = compared(
        "hard", 82.0, paper=figure, verdict=Judgement("agrees"), outcome=Judgement("better")
    )
    own = compared("hard", 82.0, outcome=Judgement("worse"), verdict=Judgement("agrees"))
    unjudged = compared("hard", 82.0)
    verdicts = [ranked(row).rows[0].verdict.word for row in (claimed, own, unjudged)]

    assert verdicts == ["agrees", "worse", "not judged"]
    assert "3 seeds" in ranked(unjudged).rows[0].verdict.text
    assert ranked(compared("soft", 80.0)).rows[0].verdict.word == "the baseline"


@pytest.mark.parametrize("same_data", [True, False])
def test_a_figure_of_other_data_is_explained_below_the_ranking(same_data: bool) -> None:
    gain = PaperFigure(0.38, digits=2, same_data=same_data, is_gain=True)
    of = ranked(compared("soft", 80.0), compared("hard", 82.0, paper_gain=gain))
    assert of.has_paper
    assert bool(of.note) is not same_data


def gained(value: float, p_holm: float, word: str = "better") -> dict[str, Cell]:
    """Return the cells of a judged gain."""
    gain = Estimate(value, 2, value - 1, value + 1, seeds=3, is_gain=True, p=0.01, p_holm=p_holm)
    return {"gain": gain, "outcome": Judgement(word)}


def test_a_gain_that_holms_correction_does_not_bear_out_has_no_color_and_shows_its_p() -> None:
    chance, sure = ranked(
        compared("hard", 82.0, **gained(2.0, p_holm=0.232)),
        compared("lead", 83.0, **gained(3.0, p_holm=0.01)),
    ).rows
    assert (chance.html_class, sure.html_class) == ("undecided", "better")
    assert "0.232" in chance.caveat
    assert sure.caveat == ""


def test_no_table_colors_what_may_be_chance() -> None:
    column = Column("Outcome", "outcome", "l")
    chance = compared("hard", 82.0, **gained(2.0, p_holm=0.101))
    sure = compared("hard", 82.0, **gained(2.0, p_holm=0.049))

    assert column.text(chance) == column.text(sure) == "better"
    assert (column.html_class(chance), column.html_class(sure)) == ("undecided", "better")


def answered(*rows: Row, asked: Sequence[str] = ("joint", "mono")) -> str:
    """Return the answer on nouns."""
    return answer(Name("nouns", "Nouns"), METRICS["accuracy"], rows, asked)


SOFT = compared("soft", 80.0)


def test_an_answer_counts_gains_after_holms_correction_and_says_what_speaks_against() -> None:
    text = answered(
        SOFT,
        compared("joint", 82.0, **gained(2.0, p_holm=0.01)),
        compared("mono", 81.5, **gained(1.5, p_holm=0.2)),
        compared("hard", 84.0, **gained(4.0, p_holm=0.01)),
    )
    before, _, against = text.partition("against")
    assert "1 of 2" in before and "Joint +2.00 [+1.00, +3.00]" in before
    assert "Mono (+1.50)" in against and "Hard (+4.00)" in against


def test_the_answer_that_the_start_quotes_is_worded_as_on_a_page() -> None:
    start = (Path(__file__).parents[2] / "docs/start.md").read_text(encoding="utf-8")
    lines = [line.removeprefix("> ") for line in start.splitlines() if line.startswith("> ")]
    quoted = " ".join(lines)
    numbers = [float(number) for number in re.findall(r"[+−]?\d+\.\d+", quoted)]
    gain = Estimate(numbers[0], digits=2, low=numbers[1], high=numbers[2], is_gain=True, p_holm=0)
    row = compared("postr-joint", 82.0, **gained(numbers[0], p_holm=0))
    named = {"model": Name("postr-joint", "Postr-Joint"), "gain": gain}
    row = replace(row, cells={**row.cells, **named})
    task = Name("de-noun", "German nouns (Wiktionary, 1,000 lemmas)")

    assert answer(task, METRICS["accuracy"], [SOFT, row], ["postr-joint"]) == quoted


def test_a_gain_that_may_be_chance_is_no_answer() -> None:
    text = answered(SOFT, compared("joint", 82.0, **gained(2.0, p_holm=0.2)))
    assert "chance" in text and "Joint +2.00" in text
    assert "better" not in text and "helps" not in text


def test_too_few_seeds_give_no_answer_but_the_best_mean_with_its_interval() -> None:
    one = Estimate(1.0, digits=2, is_gain=True)
    text = answered(SOFT, compared("joint", 81.0, gain=one))
    assert "Joint" in text and "81.00 % [80.00, 82.00]" in text and "Soft 80.00" in text


def test_where_the_question_names_no_models_all_are_compared() -> None:
    rows = [SOFT, compared("hard", 84.0, **gained(4.0, p_holm=0.01))]
    assert "Hard +4.00" in answered(*rows, asked=())
    # A beam is told from the value beside it.
    assert in_sentence(metric_of("bleu_b4")).endswith("(beam 4)")
