"""Alignment error rates: sure and possible links, by nltk and by counts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from nltk.translate.metrics import alignment_error_rate

from pam.cli import main
from pam.data.dataset import write_summary
from pam.evaluation.attention import Links
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.metrics import metric_of
from pam.evaluation.records import load
from pam.evaluation.scores import Scores
from pam.runtime.errors import UserError
from pam.tasks.alignment import counts as alignment
from tests.evaluation.translations import analyze


def drawn(seed: int, sentences: int = 12) -> tuple[list[Links], list[Links], list[Links]]:
    """Draw a model's, sure and possible links of sentences, some of them without sure ones."""
    generator = random.Random(seed)
    every = [(i, j) for i in range(5) for j in range(5)]
    links = []
    sure = []
    possible = []
    for _ in range(sentences):
        links.append(sorted(generator.sample(every, 5)))
        possible.append(sorted(generator.sample(every, 8)))
        sure.append(sorted(generator.sample(possible[-1], generator.choice([0, 3, 6]))))

    return links, sure, possible


def gold_folder(folder: Path, sure: list[Links], possible: list[Links]) -> Path:
    folder.mkdir()
    (folder / "links.json").write_text(json.dumps({"sure": sure, "possible": possible}))
    write_summary(folder, {"task": "alignment"})

    return folder


@pytest.mark.parametrize("seed", range(5))
def test_counts_give_the_error_rate_that_nltk_gives(seed: int, tmp_path: Path) -> None:
    model_links, sure, possible = drawn(seed)
    inputs = EvalInputs(
        analysis=analyze(tmp_path / "gold_analysis.json", len(model_links), model_links),
        data=gold_folder(tmp_path / "gold", sure, possible),
    )
    counted = alignment.count(inputs)
    metric = metric_of("aer")

    value = float(metric.value(counted.units.total(metric.columns)))
    assert value == pytest.approx(counted.details["aer_nltk"])
    assert 0.3 < value < 0.95
    for row, links in enumerate(model_links):
        sentence_value = metric.value(counted.units.of(metric.columns)[row])
        assert sentence_value == pytest.approx(
            alignment_error_rate(set(sure[row]), set(links), set(possible[row]))
        )


def test_the_example_of_och_and_ney(tmp_path: Path) -> None:
    """The model has one of two sure links, one more that is possible, and a wrong one."""
    inputs = EvalInputs(
        analysis=analyze(tmp_path / "a.json", 1, [[(0, 0), (1, 1), (2, 1)]]),
        data=gold_folder(tmp_path / "gold", [[(0, 0), (1, 2)]], [[(0, 0), (1, 1), (1, 2)]]),
    )
    units = alignment.count(inputs).units

    columns = ("sure_hit", "possible_hit", "links", "sure")
    assert units.total(columns).tolist() == [1, 2, 3, 2]
    assert units.total([f"{name}_prior" for name in columns[:3]]).tolist() == [1, 1, 1]


def test_an_analysis_that_lacks_a_reading_is_scored_by_the_others(tmp_path: Path) -> None:
    data = gold_folder(tmp_path / "gold", [[(0, 0)]], [[(0, 0)]])
    stored = analyze(tmp_path / "a.json", 1, [[(0, 0)]])

    assert alignment.count(EvalInputs(analysis=stored, data=data)).metrics[-2:] == (
        "aer_prior",
        "one_minus_aer_prior",
    )

    content = json.loads(stored.read_text())
    content["sentences"]["links_late"] = [[(0, 0)]]

    stored.write_text(json.dumps(content))
    metrics = alignment.count(EvalInputs(analysis=stored, data=data)).metrics
    assert metrics[-1] == "one_minus_aer_late"


def test_each_half_is_aligned_by_the_head_that_is_best_on_the_other_half(tmp_path: Path) -> None:
    right = [(0, 0), (1, 1)]
    wrong = [(0, 1), (1, 0)]
    # All heads are right in two of four sentences.
    heads = [
        {"first": wrong, "second": right, "third": wrong},
        {"first": right, "second": wrong, "third": wrong},
        {"first": wrong, "second": right, "third": right},
        {"first": right, "second": wrong, "third": right},
    ]
    stored = analyze(tmp_path / "a.json", 4, [right] * 4)
    content = json.loads(stored.read_text())
    content["sentences"]["links_heads"] = heads
    layers = [{"layer 1": right, "layer 2": wrong}] * 4
    content["sentences"]["links_shift_att"] = layers
    stored.write_text(json.dumps(content))
    data = gold_folder(tmp_path / "gold", [right] * 4, [right] * 4)
    counted = alignment.count(EvalInputs(analysis=stored, data=data))

    assert counted.details["heads"]["chosen"] == ["first", "second"]
    assert counted.details["heads"]["one_minus_aer"] == {"first": 0.5, "second": 0.5, "third": 0.5}
    metric = metric_of("one_minus_aer_head")
    assert float(metric.value(counted.units.total(metric.columns))) == 0.0
    shift_att = metric_of("one_minus_aer_shift_att")
    assert float(shift_att.value(counted.units.total(shift_att.columns))) == 1.0
    assert counted.details["shift_att"]["chosen"] == ["layer 1", "layer 1"]
    assert counted.metrics[-4:] == (
        "aer_head",
        "one_minus_aer_head",
        "aer_shift_att",
        "one_minus_aer_shift_att",
    )


def test_gold_scores_hold_both_ways_of_counting(tmp_path: Path) -> None:
    model_links, sure, possible = drawn(7)
    analysis = analyze(tmp_path / "a.json", len(model_links), model_links)
    data = gold_folder(tmp_path / "gold", sure, possible)
    out = tmp_path / "gold_scores.json"

    arguments = ["score", "--analysis", analysis, "--data", data, "--split", "gold", "--out", out]
    assert main([str(argument) for argument in arguments]) == 0

    scores = load(Scores, out)
    values = {name: value.value for name, value in scores.metrics.items()}

    assert values["aer"] + values["one_minus_aer"] == pytest.approx(1)
    assert values["aer_prior"] == pytest.approx(scores.details["aer_prior_nltk"])
    assert (scores.kind, scores.over, scores.metrics["aer"].n) == ("alignment", "sentences", 12)


@pytest.mark.parametrize(
    ("sure", "possible", "words"),
    [
        ([[(0, 0)]], [[(0, 0)]], "links of 2 sentences, gold links of 1"),
        ([[(0, 0)], []], [[(0, 0)]], "sure links of 2 sentences, possible ones of 1"),
        ([[(0, 0)], [(1, 1)]], [[(0, 0)], [(0, 1)]], "sentence 2: a sure link is not"),
    ],
)
def test_links_that_do_not_belong_together_are_named(
    sure: list[Links], possible: list[Links], words: str, tmp_path: Path
) -> None:
    inputs = EvalInputs(
        analysis=analyze(tmp_path / "a.json", 2),
        data=gold_folder(tmp_path / "gold", sure, possible),
    )
    with pytest.raises(UserError, match=words) as raised:
        alignment.count(inputs)
    assert raised.value.file and raised.value.hint


@pytest.mark.parametrize("content", ["", "[]", '{"sure": [[[1]]], "possible": [[[1, 2]]]}'])
def test_damaged_links_are_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_text(content)

    with pytest.raises(UserError) as raised:
        alignment.read_word_alignments(path)
    assert raised.value.file == str(path)


def test_alignments_need_an_analysis(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="scored from an analysis"):
        alignment.count(EvalInputs(data=tmp_path))


def test_changed_links_are_not_scored(tmp_path: Path) -> None:
    model_links, sure, possible = drawn(3)
    data = gold_folder(tmp_path / "gold", sure, possible)
    (data / "links.json").write_text(json.dumps({"sure": model_links, "possible": model_links}))

    analysis = analyze(tmp_path / "a.json", len(model_links), model_links)
    with pytest.raises(UserError, match="has changed since it was prepared"):
        alignment.count(EvalInputs(analysis=analysis, data=data))
