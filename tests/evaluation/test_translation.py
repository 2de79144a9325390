"""Translation: BLEU and chrF are sacreBLEU's, perplexity is the analysis', faults are named."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from nltk.translate.bleu_score import corpus_bleu

from pam.cli import main
from pam.data.dataset import Prepared, write_summary
from pam.data.languages import language
from pam.evaluation import bootstrap
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.metrics import metric_of
from pam.evaluation.records import load
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import Scored, make, score
from pam.runtime.errors import UserError
from pam.tasks.translation import counts as translation
from pam.tasks.translation.lengths import by_length
from tests.evaluation.translations import (
    OUTPUTS,
    REFERENCES,
    TARGETS,
    WORSE,
    analyze,
    predict,
    prepare,
    shorten,
    text_of,
    write,
)


@pytest.fixture
def inputs(tmp_path: Path) -> EvalInputs:
    return EvalInputs(
        predictions=(
            predict(tmp_path / "beam4/predictions.tsv", OUTPUTS),
            predict(tmp_path / "beam10/predictions.tsv", WORSE),
        ),
        beams=(4, 10),
        analysis=analyze(tmp_path / "analysis.json", len(OUTPUTS)),
        data=prepare(tmp_path / "data"),
    )


def value(name: str, inputs: EvalInputs) -> float:
    units = translation.count(inputs).units
    metric = metric_of(name)
    return float(metric.value(units.total(metric.columns)))


def sacrebleu_says(folder: Path, outputs: list[str], references: list[str], *options: str) -> float:
    """Return the score that sacreBLEU's command line prints."""
    command = [sys.executable, "-m", "sacrebleu", str(write(folder / "reference", references))]
    command += ["--input", str(write(folder / "output", outputs)), "--width", "12", *options]
    done = subprocess.run([*command, "--score-only"], capture_output=True, text=True, check=True)

    return float(done.stdout)


@pytest.mark.parametrize(("beam", "outputs"), [(4, OUTPUTS), (10, WORSE)])
def test_scores_are_those_of_sacrebleus_command_line(
    inputs: EvalInputs, tmp_path: Path, beam: int, outputs: list[str]
) -> None:
    texts = [text_of(output) for output in outputs]
    words = ["--tokenize", "none", "--smooth-method", "none", "--force"]
    for name, theirs in (
        ("bleu", sacrebleu_says(tmp_path, outputs, TARGETS, *words)),
        ("sacrebleu", sacrebleu_says(tmp_path, texts, REFERENCES)),
        ("chrf", sacrebleu_says(tmp_path, texts, REFERENCES, "--metrics", "chrf")),
    ):
        assert value(f"{name}_b{beam}", inputs) == pytest.approx(theirs, abs=1e-9)
        assert theirs > 5


def test_bleu_on_words_is_nltks_too(inputs: EvalInputs) -> None:
    references = [[target.split()] for target in TARGETS]
    # nltk counts an empty output as if it were one word long, so the outputs without one.
    theirs = corpus_bleu(references, [output.split() for output in WORSE])
    assert value("bleu_b10", inputs) == pytest.approx(100 * float(theirs))


def test_perplexities_come_from_the_analysis(inputs: EvalInputs) -> None:
    assert value("ppl", inputs) == pytest.approx(math.exp(21 / 24))
    assert value("ppl_exact", inputs) == pytest.approx(math.exp(10.5 / 24))


def test_signatures_and_oddities_are_told(inputs: EvalInputs) -> None:
    counted = translation.count(inputs)
    assert counted.over == "sentences"
    assert counted.details["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:none|")
    assert "|tok:13a|smooth:exp|" in counted.details["signatures"]["sacrebleu"]

    oddities = ("unknown_words_b4", "empty_b4", "unknown_words_b10", "empty_b10")
    assert [counted.details[name] for name in oddities] == [1, 1, 1, 0]


def test_a_set_of_empty_outputs_scores_zero(tmp_path: Path) -> None:
    path = predict(tmp_path / "p.tsv", [""] * len(OUTPUTS))
    inputs = EvalInputs((path,), (None,), data=prepare(tmp_path / "data"))

    assert [value(name, inputs) for name in ("bleu", "sacrebleu", "chrf")] == [0, 0, 0]
    assert "ppl" not in translation.count(inputs).metrics


def test_a_single_sentence_is_scored_with_an_interval_of_no_width(tmp_path: Path) -> None:
    data = prepare(tmp_path / "data")
    shorten(data, 1, "test.tsv", "test.target.txt")
    path = predict(tmp_path / "p.tsv", OUTPUTS)
    write(path, path.read_text(encoding="utf-8").splitlines()[:2])
    out = tmp_path / "scores.json"

    arguments = ["score", "--predictions", path, "--data", data, "--out", out]
    assert main([str(argument) for argument in arguments]) == 0

    scores = load(Scores, out)
    bleu = scores.metrics["bleu"]
    assert bleu.low == bleu.high == pytest.approx(bleu.value) and bleu.n == 1


def test_blank_outputs_are_told_where_scores_are_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = prepare(tmp_path / "data")
    path = predict(tmp_path / "p.tsv", OUTPUTS)
    arguments = ["score", "--predictions", path, "--data", data, "--out", tmp_path / "scores.json"]
    assert main([str(argument) for argument in arguments]) == 0
    assert "1 of the outputs are blank" in capsys.readouterr().out


def test_a_reference_that_a_model_repeats_has_a_bleu_of_100(tmp_path: Path) -> None:
    path = predict(tmp_path / "p.tsv", TARGETS)
    inputs = EvalInputs((path,), (None,), data=prepare(tmp_path / "data"))
    assert value("bleu", inputs) == pytest.approx(100)


@pytest.fixture
def scores(inputs: EvalInputs, tmp_path: Path) -> Scores:
    decoding = []
    for beam in inputs.beams:
        path = tmp_path / f"beam{beam}/decoding.json"
        path.write_text(json.dumps({"beam": beam, "cpu_s": beam, "unseen": {"anstarrt": 1}}))
        decoding.append(path)

    training = tmp_path / "training.json"
    training.write_text(json.dumps({"cpu_s": 100.0}))
    arguments = ["score", "--predictions", *inputs.predictions, "--decoding", *decoding]
    arguments += ["--data", inputs.data, "--analysis", inputs.analysis]

    arguments += ["--training", training, "--out", tmp_path / "scores.json"]
    assert main([str(argument) for argument in arguments]) == 0

    return load(Scores, tmp_path / "scores.json")


def test_the_record_holds_every_beam_and_the_cost_of_the_first(scores: Scores) -> None:
    of_outputs = ("bleu", "sacrebleu", "chrf", "wer", "cer", "ser", "exact_match")
    assert set(scores.metrics) == {
        *(f"{name}_b4" for name in of_outputs),
        *(f"{name}_b10" for name in of_outputs),
        "ppl",
        "ppl_exact",
        "token_accuracy",
    }
    assert (scores.kind, scores.over) == ("translation", "sentences")
    assert list(scores.units) == ["1", "2", "3", "4", "5", "6"]
    assert scores.cost.cpu_s == 104
    assert list(scores.decoding) == ["4", "10"] and scores.unseen == {"anstarrt": 1}
    assert scores.metrics["ppl"].n == 24 and scores.metrics["bleu_b4"].n == 6

    low = scores.metrics["bleu_b4"].low
    high = scores.metrics["bleu_b4"].high
    assert low < scores.metrics["bleu_b4"].value < high


def test_bleu_by_length_takes_each_sentence_once(scores: Scores, inputs: EvalInputs) -> None:
    bins = by_length(scores.counts(), 4, edges=(5, 12))
    assert [(length_bin.low, length_bin.high, length_bin.sentences) for length_bin in bins] == [
        (0, 5, 1),
        (5, 12, 3),
        (12, None, 2),
    ]
    assert bins[0].value == 0.0  # its output is empty

    (whole,) = by_length(scores.counts(), 4, edges=())
    assert whole.value == pytest.approx(value("bleu_b4", inputs))

    shorter = by_length(scores.counts(), 10, edges=(100, 200))
    assert shorter[0].value == pytest.approx(value("bleu_b10", inputs))
    assert [length_bin.value for length_bin in shorter[1:]] == [None, None]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "data/test.target.txt").unlink(), "no such file"),
        (
            lambda folder: write(folder / "data/test.target.txt", REFERENCES[:5]),
            "has changed since it was prepared",
        ),
        (lambda folder: shorten(folder / "data", 5, "test.target.txt"), "5 reference"),
        (lambda folder: predict(folder / "beam10/predictions.tsv", OUTPUTS, 2), "12 predictions"),
        (lambda folder: analyze(folder / "analysis.json", 5), "an analysis of 5 sentences"),
        (
            lambda folder: write_summary(folder / "data", {"task": "inflection"}),
            "this data is not of translation",
        ),
    ],
)
def test_files_that_do_not_belong_together_are_named(
    inputs: EvalInputs, tmp_path: Path, damage: object, words: str
) -> None:
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(UserError, match=words) as raised:
        translation.count(inputs)
    assert raised.value.hint


def test_japanese_is_scored_without_its_splitter_too() -> None:
    metrics = translation.sacre_metrics(translation.Target(language("ja")))
    counts = translation.statistics(metrics["sacrebleu"], ["猫が好き"], ["猫が好きだ"])
    assert counts[0, 0] <= 4


def test_a_test_set_of_thousands_is_resampled_in_seconds() -> None:
    counts = np.random.default_rng(0).random((2, 6750, 40))
    assert bootstrap.resampled_sums(counts).shape == (2, 1000, 40)
    assert bootstrap.resamples_for(1000) == 10_000


def test_all_references_of_a_sentence_count(tmp_path: Path) -> None:
    """BLEU and chrF over several references are sacreBLEU's, for outputs of two beams."""
    data = prepare(tmp_path / "data")
    further = [[], [OUTPUTS[1]], [WORSE[2], OUTPUTS[2]], [], [WORSE[4]], ["no ."]]
    lines = [
        json.dumps([{"text": text_of(text), "words": text} for text in references])
        for references in further
    ]
    write(data / "test.references.jsonl", lines)
    write_summary(data, Prepared(data).summary)
    paths = [predict(tmp_path / "a.tsv", OUTPUTS), predict(tmp_path / "b.tsv", WORSE)]
    counts = translation.count(EvalInputs(paths, [1, 4], data=data))
    scores = make("translation", counts, {}, {}, {})
    in_text = translation.streams_of(
        REFERENCES, [[text_of(text) for text in references] for references in further]
    )
    in_words = translation.streams_of(TARGETS, further)
    for beam, outputs in ((1, OUTPUTS), (4, WORSE)):
        assert scores.metrics[f"ser_b{beam}"].value == 100 * sum(
            output not in (target, *references)
            for output, target, references in zip(outputs, TARGETS, further, strict=True)
        ) / len(outputs)
        for name, metric in translation.sacre_metrics(translation.Target(language("en"))).items():
            texts = [text_of(output) for output in outputs]
            compared = (outputs, in_words) if name == "bleu" else (texts, in_text)
            expected = metric.corpus_score(*compared).score
            assert scores.metrics[f"{name}_b{beam}"].value == pytest.approx(expected)
    assert "nrefs:var" in counts.details["signatures"]["sacrebleu"]

    alone = translation.count(EvalInputs(paths[:1], [None], data=prepare(tmp_path / "alone")))
    assert alone.units.references != counts.units.references


def test_groups_are_scored_as_if_they_were_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = prepare(tmp_path / "data")
    path = predict(tmp_path / "p.tsv", OUTPUTS)
    whole = tmp_path / "whole.json"
    arguments = ["score", "--predictions", str(path), "--data", str(data), "--out"]
    assert main([*arguments, str(whole)]) == 0
    assert "groups" not in whole.read_text(encoding="utf-8")

    write(data / "test.groups.txt", ["first"] * 3 + ["second"] * 2 + ["short"])
    write_summary(data, Prepared(data).summary)
    out = tmp_path / "scores.json"
    assert main([*arguments, str(out)]) == 0
    scores = load(Scores, out)
    assert scores.metrics == load(Scores, whole).metrics
    assert list(scores.groups) == ["first", "second", "short"]
    # sacreBLEU is not defined for a reference of three words.
    assert set(scores.metrics) - set(scores.groups["short"].metrics) == {"sacrebleu"}

    alone = prepare(tmp_path / "alone")
    shorten(alone, 3, "test.tsv", "test.target.txt")
    first = write(tmp_path / "first.tsv", path.read_text(encoding="utf-8").splitlines()[:4])
    expected = score(Scored([first], data=alone))
    assert scores.of_group("first").metrics == expected.metrics
    assert scores.of_group("first").counts().counts.tolist() == expected.counts().counts.tolist()

    capsys.readouterr()
    assert main(arguments[:-1]) == 0
    printed = capsys.readouterr().out
    assert "group second:" in printed and "2 sentences" in printed
