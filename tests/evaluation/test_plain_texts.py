"""Outputs in plain text files, whatever system wrote them, are scored as translations are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, CHRF

from pam.evaluation.plain_texts import METRIC_NAMES, score_texts
from pam.io import UserError
from tests.evaluation.translations import OUTPUTS, REFERENCES, TARGETS, WORSE, text_of, write

TEXTS = [text_of(output) for output in OUTPUTS]
WORSE_TEXTS = [text_of(output) for output in WORSE]


@pytest.fixture
def references(tmp_path: Path) -> Path:
    return write(tmp_path / "references.txt", REFERENCES)


@pytest.fixture
def hypotheses(tmp_path: Path) -> Path:
    return write(tmp_path / "hypotheses.txt", TEXTS)


def test_scores_are_those_of_sacrebleu_and_have_intervals(
    hypotheses: Path, references: Path
) -> None:
    scores = score_texts(hypotheses, [references], code="en")
    words = BLEU(tokenize="none", smooth_method="none", force=True)

    expected = {
        "bleu": words.corpus_score(TEXTS, [REFERENCES]).score,
        "sacrebleu": BLEU().corpus_score(TEXTS, [REFERENCES]).score,
        "chrf": CHRF().corpus_score(TEXTS, [REFERENCES]).score,
    }
    assert tuple(scores.metrics) == METRIC_NAMES
    for name, value in expected.items():
        assert scores.metrics[name].value == pytest.approx(value)

    for value in scores.metrics.values():
        assert value.low <= value.value <= value.high and value.n == len(REFERENCES)

    assert scores.metrics["exact_match"].value == 0 and scores.metrics["exact_match"].unit == "%"
    assert "|tok:13a|smooth:exp|" in scores.signatures["sacrebleu"]
    assert not scores.left_out and not scores.baseline and not scores.gains


def test_error_rates_and_exact_matches_count_words_and_characters(tmp_path: Path) -> None:
    hypotheses = write(tmp_path / "h", ["a b c d", "x y"])
    references = write(tmp_path / "r", ["a b c d", "x z"])
    scores = score_texts(hypotheses, [references], metrics=["exact_match", "wer", "cer", "ser"])

    values = {name: value.value for name, value in scores.metrics.items()}
    assert values == pytest.approx({"exact_match": 50, "wer": 100 / 6, "cer": 10, "ser": 50})


def test_several_references_of_a_line_count_and_one_may_be_empty(
    hypotheses: Path, references: Path, tmp_path: Path
) -> None:
    further = [""] * len(TEXTS)
    further[1] = TEXTS[1]
    second = write(tmp_path / "second.txt", further)
    scores = score_texts(hypotheses, [references, second])
    streams = [REFERENCES, [text or None for text in further]]

    expected = BLEU().corpus_score(TEXTS, streams).score
    assert scores.metrics["sacrebleu"].value == pytest.approx(expected)
    assert scores.metrics["exact_match"].value == pytest.approx(100 / 6)
    assert "nrefs:var" in scores.signatures["sacrebleu"]

    swapped = score_texts(hypotheses, [second, references])
    assert swapped.metrics["sacrebleu"].value == pytest.approx(expected)


def test_a_line_without_any_reference_is_named(hypotheses: Path, tmp_path: Path) -> None:
    references = write(tmp_path / "r.txt", ["", *REFERENCES[1:]])
    with pytest.raises(UserError, match="no reference") as raised:
        score_texts(hypotheses, [references])
    assert (raised.value.file, raised.value.line) == (str(references), 1)


def test_compressed_files_are_read(hypotheses: Path, references: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(references.read_bytes()))
    assert score_texts(hypotheses, [packed]) == score_texts(hypotheses, [references])


def test_gains_over_a_baseline_are_paired_and_positive_where_better(tmp_path: Path) -> None:
    references = write(tmp_path / "r.txt", REFERENCES)
    better = write(tmp_path / "better.txt", REFERENCES[:5] + ["No."])
    worse = write(tmp_path / "worse.txt", WORSE_TEXTS)
    scores = score_texts(better, [references], baseline=worse)
    for name in METRIC_NAMES:
        gain = scores.gains[name]
        difference = scores.metrics[name].value - scores.baseline[name].value
        assert gain.value == pytest.approx(abs(difference)), name
        assert 0 < gain.low <= gain.value <= gain.high and gain.p < 0.05, name

    alone = score_texts(worse, [references])
    assert scores.baseline == alone.metrics


def test_the_same_outputs_do_not_differ(hypotheses: Path, references: Path) -> None:
    scores = score_texts(hypotheses, [references], baseline=hypotheses)
    for gain in scores.gains.values():
        assert (gain.value, gain.low, gain.high, gain.p) == (0, 0, 0, 1)


@pytest.mark.parametrize("which", ["references", "baseline"])
def test_different_numbers_of_lines_are_told(
    which: str, hypotheses: Path, references: Path, tmp_path: Path
) -> None:
    short = write(tmp_path / "short.txt", TARGETS[:4])
    further = [short] if which == "references" else []

    baseline = short if which == "baseline" else None
    with pytest.raises(UserError, match="4 lines, but the hypotheses have 6") as raised:
        score_texts(hypotheses, [references, *further], baseline=baseline)
    assert raised.value.file == str(short) and raised.value.hint


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_refused(content: str, references: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text(content)
    with pytest.raises(UserError, match="empty"):
        score_texts(empty, [references])


def test_a_metric_that_a_language_cannot_have_is_left_out(tmp_path: Path) -> None:
    lines = ["我们明天去北京看我们的老朋友", "今天的天气非常好"]
    path = write(tmp_path / "zh.txt", lines)

    scores = score_texts(path, [path], baseline=path, code="zh")
    assert "wer" not in scores.metrics and "wer" not in scores.gains
    assert "not defined for phrases: Chinese" in scores.left_out["wer"]
    assert "|tok:zh|" in scores.signatures["sacrebleu"]
    assert scores.metrics["cer"].value == 0 and scores.metrics["sacrebleu"].value == 100


def test_short_references_have_no_bleu(tmp_path: Path) -> None:
    path = write(tmp_path / "words.txt", ["eins", "zwei"])
    scores = score_texts(path, [path], metrics=["bleu", "chrf"])
    assert list(scores.metrics) == ["chrf"] and "four words" in scores.left_out["bleu"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"code": "english"}, "unknown language"), ({"metrics": ["blue"]}, "unknown metric `blue`")],
)
def test_names_that_there_are_not_are_told(
    options: dict[str, object], message: str, hypotheses: Path, references: Path
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        score_texts(hypotheses, [references], **options)  # type: ignore[arg-type]
    assert raised.value.hint
