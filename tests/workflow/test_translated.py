"""The whole workflow on sentence pairs of one's own, in both directions, with word alignments."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from tests.workflow.checkouts import Checkout, Outcome
from tests.workflow.conftest import PAIRS

pytestmark = pytest.mark.slow

RESULTS = "results/translated"
RUNS = ("pairs/soft", "pairs/postr-joint", "yy-xx/soft")


def content(made: Checkout, file: str) -> Any:
    return json.loads((made.folder / RESULTS / file).read_text(encoding="utf-8"))


def rows(made: Checkout, table: str) -> list[dict[str, str]]:
    with open(made.folder / RESULTS / "tables" / f"{table}.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_has_outputs_of_every_beam_analyses_and_scores(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, outcome = translated
    assert outcome.code == 0, outcome.said

    for run in RUNS:
        for beam in (2, 1):
            record = content(made, f"{run}/seed1/beam{beam}/decoding.json")
            assert (record["beam"], record["sentences"]) == (beam, 30)

        scores = content(made, f"{run}/seed1/scores.json")
        assert list(scores["decoding"]) == ["2", "1"]
        metrics = {"ppl", "ppl_exact", "bleu_b2", "bleu_b1", "sacrebleu_b2", "chrf_b1"}
        assert metrics <= set(scores["metrics"])


def test_the_development_split_is_decoded_and_scored_where_it_is_wished(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, outcome = translated
    assert outcome.jobs["score_dev"] == 3

    scores = content(made, "pairs/postr-joint/seed1/dev/scores.json")
    assert {"ppl", "token_accuracy", "bleu_b2"} <= set(scores["metrics"])
    assert scores["metrics"]["bleu_b2"]["n"] == 30  # sentences of that split
    models = [row["model"] for row in rows(made, "table1_dev")]
    assert list(dict.fromkeys(models)) == ["soft", "postr-joint", "both"]

    analysis = content(made, "pairs/postr-joint/seed1/dev/analysis.json")
    correct = sum(analysis["sentences"]["correct"])
    tokens = sum(analysis["sentences"]["tokens"])
    assert scores["metrics"]["token_accuracy"]["value"] == pytest.approx(100 * correct / tokens)
    assert correct == sum(analysis["entropy"]["correct"])

    assert not (made.folder / RESULTS / "yy-xx/soft/seed1/dev").exists()


def test_attention_is_held_to_the_alignments_of_those_tasks_that_have_some(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, _ = translated

    scores = content(made, "pairs/postr-joint/seed1/gold_scores.json")
    assert scores["metrics"]["aer"]["value"] == pytest.approx(scores["details"]["aer_nltk"])
    assert not (made.folder / RESULTS / "yy-xx/gold").exists()

    table = rows(made, "table3")
    assert {row["task"] for row in table} == {"pairs"}
    papers = {(row["model"], row["metric"]): row["paper"] for row in table}
    assert papers["postr-joint", "one_minus_aer"] == "0.583"


def test_the_training_text_is_aligned_line_by_line_where_that_is_wished(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, outcome = translated
    assert (outcome.jobs["align_text"], outcome.jobs["align_by_program"]) == (1, 1)

    pairs = (made.folder / "own/train.yy").read_text(encoding="utf-8").splitlines()
    links = (made.folder / RESULTS / "yy-xx/soft/seed1/links.txt").read_text(encoding="utf-8")
    assert len(links.splitlines()) == len(pairs)
    table = (made.folder / RESULTS / "yy-xx/aligners/table.md").read_text(encoding="utf-8")
    assert "| fast_align |" in table and f" {len(pairs)} " in table


def test_each_task_runs_its_own_models_with_the_options_it_was_given(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, outcome = translated

    runs = (run.split("/") for run in RUNS)
    assert outcome.trained == {f"{model} on {task}, seed 1" for task, model in runs}
    path = made.folder / RESULTS / "pairs/postr-joint/seed1/model/config.yaml"
    assert "top_k: 2" in path.read_text(encoding="utf-8")


def test_tables_and_figures_are_those_of_translation(translated: tuple[Checkout, Outcome]) -> None:
    made, _ = translated

    tables = {path.stem for path in (made.folder / RESULTS / "tables").iterdir()}
    expected = "table1 table1_gains table1_more table1_dev table3 table3_gains lengths"
    expected += " attentions examples overhead costs environment"
    assert tables == set(expected.split())

    figures = {path.name for path in (made.folder / RESULTS / "figures").iterdir()}
    names = "bleu bleu_gains perplexity alignment entropy_accuracy coverage bleu_by_length"
    names += " bleu_cost curves attention_pairs_seed1"
    for name in names.split():
        assert {f"{name}.svg", f"{name}.png"} <= figures
    # Of a task with the baseline alone there is nothing to be held beside it.
    assert "attention_yy-xx_seed1.svg" not in figures


def test_models_are_tested_against_the_baseline_by_sacrebleu(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, _ = translated

    tests = content(made, "pairs/significance/seed1.json")["tests"]
    compared = {(test["model"], test["metric"]) for test in tests}
    metrics = [f"{name}_b2" for name in ("bleu", "sacrebleu", "chrf")]
    assert compared == {(model, name) for model in ("postr-joint", "both") for name in metrics}

    table = rows(made, "table1_more")
    p_values = {(row["model"], row["metric"]): row["p_sacrebleu"] for row in table}
    assert p_values["postr-joint", "chrf_b2"]


def test_the_report_has_examples_the_stages_of_the_data_and_what_is_said_of_a_task(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, _ = translated

    report = (made.folder / RESULTS / "report.html").read_text(encoding="utf-8")
    assert "tables/examples.html" in report
    first = report.partition("workflow_desc")[2].partition("</script>")[0]
    for text in ("Perplexity", "BLEU, beam 2", "1 − AER", "calls its column AER", "made up"):
        assert json.dumps(text)[1:-1] in first, text

    data = (made.folder / RESULTS / "report/data.html").read_text(encoding="utf-8")
    for text in ("Stages of preparing", "tokenize", "Word alignments", "pairs: made up"):
        assert text in data, text


def test_a_second_run_does_nothing(translated: tuple[Checkout, Outcome]) -> None:
    made, _ = translated

    outcome = made.plan(*PAIRS)

    assert outcome.code == 0
    assert "Nothing to be done" in outcome.said
