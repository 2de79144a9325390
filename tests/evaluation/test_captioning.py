"""Scores of captions, by hand and beside coco-caption."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from pam.data.dataset import Prepared
from pam.data.languages import language
from pam.data.prepare import prepare
from pam.evaluation import meteor
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.metrics import metric_of
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import score_control
from pam.runtime.errors import UserError
from pam.tasks.captioning import counts as captioning
from pam.tasks.captioning.stages import read_captions
from tests.data.test_captioning import CAPTIONS, fetched, frames

MSRVTT = Path(__file__).parents[3] / "shared/corpora/msrvtt-1000-vgg16/videodatainfo.json"
TEXTS = {
    "clip3": ["A dog barks .", "a dog is barking loudly"],
    "clip4": ["Two men play chess .", "men are playing chess", "two men at a table"],
    "clip5": ["A car drives by .", "a red car drives past a house"],
}
OUTPUTS = {"clip4": "two men are playing chess", "clip5": "a dog drives a car"}


ENGLISH = captioning.ComparedText(language("en"))
WITHOUT_METEOR = meteor.unavailable()


@pytest.fixture(autouse=True)
def no_meteor(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR takes half a minute to start, whatever it is asked."""
    monkeypatch.setattr(meteor, "unavailable", lambda: "METEOR needs Java: install it")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A prepared folder, of which clip 0 of training looks as clip 5 of the test split does."""
    dataset, raw = fetched(tmp_path, CAPTIONS | TEXTS, clip0=frames(5) + 1e-3)
    prepare("mine", dataset, raw, tmp_path / "out")
    return tmp_path / "out"


def predicted(data: Path, outputs: dict[str, str]) -> EvalInputs:
    path = data / "predictions.tsv"
    rows = [
        captioning.Caption._fields,
        *((*row, outputs[row[0]]) for row in Prepared(data).rows("test")),
    ]
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")

    return EvalInputs([path], [5], data=data)


def values(data: Path, outputs: dict[str, str]) -> dict[str, float]:
    counts = captioning.count(predicted(data, outputs))
    by_name = {}
    for name in counts.metrics:
        metric = metric_of(name)
        by_name[name] = float(metric.value(counts.units.total(metric.columns)))

    return by_name


def test_bleu_is_that_of_coco_caption(data: Path) -> None:
    references = {clip: [ENGLISH.compared(text) for text in TEXTS[clip]] for clip in OUTPUTS}
    (*_, four), _ = Bleu(4).compute_score(
        references, {clip: [text] for clip, text in OUTPUTS.items()}, verbose=0
    )
    assert values(data, OUTPUTS)["bleu_coco"] == pytest.approx(100 * four, rel=1e-6)


def test_cider_weighs_ngrams_by_the_clips_that_have_them(data: Path) -> None:
    # Of two clips, what both have weighs log(2 / 2) = 0, all else log(2 / 1). A copy of the only
    # reference that shares words is worth 10 by that one, n-gram by n-gram, and all others nothing;
    # "a" is in both clips.
    copies = {"clip4": "men are playing chess", "clip5": "a red car drives past a house"}
    scores = values(data, copies)

    alone = values(data, copies | {"clip5": "nothing else"})
    assert 0 < alone["cider"] < scores["cider"]

    copied = captioning.coco(["x y z w", "p q r s"], [["x y z w"], ["p q r s"]])["cider"]
    assert copied == pytest.approx([10, 10])


def test_rouge_is_of_the_longest_words_in_order(data: Path) -> None:
    # clip4: precision 4/5 and recall 1 by "men are playing chess"; beta is 1.2.
    precision = 0.8
    recall = 1.0
    beta = 1.2**2
    first = (1 + beta) * precision * recall / (recall + beta * precision)

    scores = captioning.coco(
        [OUTPUTS["clip4"]], [[ENGLISH.compared(text) for text in TEXTS["clip4"]]]
    )
    assert scores["rouge_coco"] == pytest.approx([first])


def test_marks_and_capitals_are_not_compared() -> None:
    assert ENGLISH.compared("A T - shirt , 2 dogs 's .") == "a t shirt 2 dogs 's"


@pytest.mark.slow
@pytest.mark.skipif(WITHOUT_METEOR is not None, reason=str(WITHOUT_METEOR))
def test_words_are_nearly_those_of_coco_captions_tokenizer() -> None:
    if not MSRVTT.is_file():
        pytest.skip("the captions of MSR-VTT are not here")

    texts = [text for captions in list(read_captions(MSRVTT).values())[:100] for text in captions]
    split = PTBTokenizer().tokenize(
        {number: [{"caption": text}] for number, text in enumerate(texts)}
    )

    same = [
        ENGLISH.compared(text).split() == split[number][0].split()
        for number, text in enumerate(texts)
    ]
    assert np.mean(same) > 0.9


def control(name: str, data: Path) -> tuple[Scores, list[list[str]]]:
    path = data / f"{name}.tsv"
    scores = score_control(name, data, "test", path, "mine", "clips")
    return scores, [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_one_caption_for_all_is_the_most_frequent_one(data: Path) -> None:
    _, rows = control("constant", data)
    assert {row[2] for row in rows[1:]} == {"a cat"}


def test_the_nearest_clip_gives_its_caption(data: Path) -> None:
    _, rows = control("nearest", data)
    assert rows[2][0] == "clip5"
    assert rows[2][2] in [text.lower() for text in CAPTIONS["clip0"]]


def test_people_are_held_against_the_others(data: Path) -> None:
    scores, rows = control("people", data)
    assert rows[0][-1] == captioning.HELD_OUT
    assert [row[2] for row in rows[1:]] == ["two men play chess .", "a car drives by ."]

    copied = values(data, {"clip4": TEXTS["clip4"][0].lower(), "clip5": TEXTS["clip5"][0].lower()})
    assert scores.metrics["rouge_coco"].value < copied["rouge_coco"] == pytest.approx(1.0)


def test_people_are_left_out_where_a_clip_has_a_single_caption(tmp_path: Path) -> None:
    texts = TEXTS | {"clip5": ["A car drives by ."]}
    dataset, raw = fetched(tmp_path, CAPTIONS | texts, clip0=frames(5) + 1e-3)
    prepare("mine", dataset, raw, tmp_path / "out")

    scores, _ = control("people", tmp_path / "out")
    assert not scores.metrics
    (reason,) = [text for text in scores.details["left_out"] if "people" in text]
    assert "1 of 2 clips have a single caption" in reason
    assert control("nearest", tmp_path / "out")[0].metrics["rouge_coco"].value > 0


def test_people_are_compared_on_the_test_set_of_the_models(data: Path) -> None:
    models = captioning.count(predicted(data, OUTPUTS)).units.references
    assert {control(name, data)[0].references for name in ("constant", "nearest", "people")} == {
        models
    }


def test_an_empty_caption_is_worth_nothing(data: Path) -> None:
    scores = values(data, dict.fromkeys(OUTPUTS, ""))
    assert set(scores.values()) == {0.0}
    assert not any(map(math.isnan, scores.values()))


def test_references_of_another_kind_are_an_error(data: Path) -> None:
    inputs = predicted(data, OUTPUTS)
    path = data / "test.target.txt"

    path.write_text(json.dumps({"a": 1}) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="this file has changed since it was prepared"):
        captioning.count(inputs)


def test_there_is_no_other_control(data: Path) -> None:
    with pytest.raises(UserError, match="unknown control `lead`"):
        control("lead", data)


def test_captions_in_subwords_are_told_when_they_are_prepared_and_scored(tmp_path: Path) -> None:
    pieces = {clip: ["a do@@ g barks", "a c@@ at"] for clip in CAPTIONS | TEXTS}
    dataset, raw = fetched(tmp_path, pieces)
    summary = prepare("mine", dataset, raw, tmp_path / "out")
    (warning,) = [text for text in summary["warnings"] if "subwords" in text]
    assert "captions" in warning and "`@@`" in warning

    outputs = dict.fromkeys(pieces, "a do@@ g")
    notes = captioning.count(predicted(tmp_path / "out", outputs)).details["notes"]
    assert sum("hold subwords" in note for note in notes) == 2

    whole = dict.fromkeys(pieces, "a dog")
    (note,) = captioning.count(predicted(tmp_path / "out", whole)).details["notes"]
    assert "the references" in note
