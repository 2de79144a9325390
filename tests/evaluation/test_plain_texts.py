"""Outputs in plain text files, whatever system wrote them, are scored as translations are."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
from itertools import permutations
from pathlib import Path

import pytest
from nltk.translate.gleu_score import corpus_gleu
from sacrebleu.metrics import BLEU, CHRF

from pam.evaluation.plain_texts import METRIC_NAMES, score_texts
from pam.runtime.errors import UserError
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


CHINESE = ["我们明天去北京看我们的老朋友", "今天的天气非常好"]
IN_SCRIPTS = {
    "zh": CHINESE,
    "ja": ["猫がとても好きだと言いました", "今日はとても天気がいいです"],
    "ko": ["고양이가 아주 많이 좋다", "오늘은 날씨가 아주 좋다"],
    "th": ["สวัสดีครับผมชื่อสมชาย", "วันนี้อากาศดีมาก"],
    "lo": ["ສະບາຍດີຂ້ອຍຊື່ສົມໄຊ", "ມື້ນີ້ອາກາດດີຫຼາຍ"],
    "km": ["សួស្តីខ្ញុំឈ្មោះសុខា", "ថ្ងៃនេះអាកាសធាតុល្អណាស់"],
    "my": ["မြန်မာစာကိုကောင်းစွာရေးသည်", "ဒီနေ့ရာသီဥတုကောင်းတယ်"],
    "bo": ["བཀྲ་ཤིས་བདེ་ལེགས།", "དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག"],
    "ar": ["هل فتحت المدرسة الجديدة اليوم", "نعم فتحها اليوم مبكرا"],
    "hi": ["हिन्दी में लिखा हुआ वाक्य सही है", "क्या यह वाक्य सही है"],
}


@pytest.mark.parametrize("code", IN_SCRIPTS)
@pytest.mark.parametrize("other_code", ["", "src", "en"])
def test_a_language_without_a_right_name_is_told_by_its_script(
    code: str, other_code: str, tmp_path: Path
) -> None:
    references = write(tmp_path / "r.txt", IN_SCRIPTS[code])
    outputs = write(tmp_path / "o.txt", [line[:-2] + line[0] for line in IN_SCRIPTS[code]])

    named = score_texts(outputs, [references], code=code)
    told = score_texts(outputs, [references], code=other_code)

    assert (told.metrics, told.signatures) == (named.metrics, named.signatures)
    assert told.left_out == named.left_out
    # Where the script decides how words are found, it is said.
    told_notes = set(told.notes) - set(named.notes)
    assert len(told_notes) == (0 if code in ("ar", "hi") else 1)


def test_latin_text_under_the_code_of_a_language_without_spaces_has_words(
    hypotheses: Path, references: Path
) -> None:
    scores = score_texts(hypotheses, [references], code="my")
    assert scores.metrics["wer"] == score_texts(hypotheses, [references]).metrics["wer"]


SUBWORDS = {
    "@@": lambda line: line.replace("house", "hou@@ se"),
    "▁": lambda line: "▁" + line.replace(" ", " ▁").replace("house", "hou se"),
    "##": lambda line: line.replace("house", "hou ##se"),
    "￭": lambda line: line.replace("house", "hou￭ se"),
    "</w>": lambda line: line.replace(" ", "</w> ").replace("house", "hou se") + "</w>",
}


@pytest.mark.parametrize("mark", SUBWORDS)
def test_subwords_are_told_and_joined_as_the_command_that_is_named_joins_them(
    mark: str, tmp_path: Path
) -> None:
    lines = ["the old house is red", "we see a house today", "it is a nice day"] * 2
    references = write(tmp_path / "r.txt", lines)
    pieces = write(tmp_path / "pieces.txt", [SUBWORDS[mark](line) for line in lines])

    scores = score_texts(pieces, [references], metrics=["bleu", "wer"])
    (note,) = scores.notes
    assert f"`{mark}`" in note and pieces.name in note
    assert scores.metrics["bleu"].value < 100

    joined = score_texts(pieces, [references], metrics=["bleu", "wer"], join_subwords=True)
    assert (joined.metrics["bleu"].value, joined.metrics["wer"].value) == (100, 0)
    assert not joined.notes

    (command,) = re.findall(r"`(sed .*) FILE > NEW`", note)
    done = subprocess.run(
        [*shlex.split(command), str(pieces)], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout.splitlines() == lines


def test_text_with_such_signs_is_no_text_in_subwords(tmp_path: Path) -> None:
    lines = ["see issue #12 of @@me", "## a heading", "a < b > c", "mail me @home"] * 3
    path = write(tmp_path / "text.txt", lines)
    scores = score_texts(path, [path], metrics=["bleu"], join_subwords=True)
    assert not scores.notes and scores.metrics["bleu"].value == 100


def test_blank_outputs_are_counted(references: Path, tmp_path: Path) -> None:
    outputs = write(tmp_path / "o.txt", [*REFERENCES[:4], "", " "])
    scores = score_texts(outputs, [references], baseline=references)
    (note,) = scores.notes
    assert "2 of 6" in note and outputs.name in note


def test_the_order_of_references_does_not_count_and_copies_are_harmless(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a", REFERENCES),
        write(tmp_path / "b", ["", *WORSE_TEXTS[1:]]),
        write(tmp_path / "c", ["A man.", "", "A girl is here now and then.", "", "", "Nothing."]),
    ]
    outputs = write(tmp_path / "o", [*TEXTS[:4], "Unlike all", ""])
    scores = score_texts(outputs, files, metrics=[*METRIC_NAMES, "ser", "length_ratio"])

    for order in permutations(files):
        permuted = score_texts(outputs, order, metrics=[*METRIC_NAMES, "ser", "length_ratio"])
        assert permuted.metrics == scores.metrics

    # A copy of a file changes nothing but the number of references in signatures.
    copied = score_texts(
        outputs, [*files, files[1]], metrics=[*METRIC_NAMES, "ser", "length_ratio"]
    )
    assert copied.metrics == scores.metrics


@pytest.mark.parametrize("sign", ["\u200b", "\u00ad", "\u200e", "\ufeff", "\u2060"])
def test_characters_that_show_nothing_do_not_count(
    sign: str, hypotheses: Path, references: Path, tmp_path: Path
) -> None:
    expected = score_texts(hypotheses, [references])
    for spoiled in (lambda line: sign + line + sign, lambda line: line.replace("a", f"a{sign}")):
        outputs = write(tmp_path / "o", map(spoiled, TEXTS))
        others = write(tmp_path / "r", map(spoiled, REFERENCES))

        assert score_texts(outputs, [references]).metrics == expected.metrics
        assert score_texts(hypotheses, [others]).metrics == expected.metrics
    assert "are blank" in str(score_texts(outputs, [references]).notes)


def test_joiners_that_shape_letters_count(tmp_path: Path) -> None:
    references = write(tmp_path / "r", ["می\u200cخواهم به خانه بروم"])
    outputs = write(tmp_path / "o", ["میخواهم به خانه بروم"])
    assert score_texts(outputs, [references]).metrics["cer"].value > 0


def test_groups_of_lines_are_scored_as_they_would_be_alone(
    hypotheses: Path, references: Path, tmp_path: Path
) -> None:
    names = ["seen", "unseen", "seen", "unseen", "seen", "short"]
    groups = write(tmp_path / "groups", names)
    scores = score_texts(hypotheses, [references], groups=groups)

    assert list(scores.groups) == ["seen", "unseen", "short"]
    for group in ("seen", "unseen"):
        chosen = [index for index, name in enumerate(names) if name == group]
        outputs = write(tmp_path / "o", [TEXTS[index] for index in chosen])
        of_group = write(tmp_path / "r", [REFERENCES[index] for index in chosen])
        assert scores.groups[group] == score_texts(outputs, [of_group]).metrics
    # BLEU is not defined for references of two words.
    assert "bleu" not in scores.groups["short"] and "chrf" in scores.groups["short"]


def test_a_line_without_a_group_is_named(
    hypotheses: Path, references: Path, tmp_path: Path
) -> None:
    groups = write(tmp_path / "groups", ["a", "a", " ", "a", "a", "a"])
    with pytest.raises(UserError, match="no group") as raised:
        score_texts(hypotheses, [references], groups=groups)
    assert (raised.value.file, raised.value.line) == (str(groups), 3)


def test_gleu_is_that_of_nltk_and_does_not_depend_on_the_order_of_references(
    hypotheses: Path, references: Path, tmp_path: Path
) -> None:
    further = [f"{line} indeed" for line in REFERENCES[:-1]] + [""]
    second = write(tmp_path / "second", further)
    texts = [
        [text.split() for text in pair if text] for pair in zip(REFERENCES, further, strict=True)
    ]
    expected = 100 * corpus_gleu(texts, [text.split() for text in TEXTS])

    scores = score_texts(hypotheses, [references, second], metrics=["gleu"])
    value = scores.metrics["gleu"]
    assert value.value == pytest.approx(expected)
    assert value.low < value.value < value.high
    assert score_texts(hypotheses, [second, references], metrics=["gleu"]) == scores
    assert score_texts(references, [references], metrics=["gleu"]).metrics["gleu"].value == 100
    # In a language without spaces characters are compared, as by BLEU.
    chinese = write(tmp_path / "zh", ["我们今天去看电影", "他们昨天在家里"])
    outputs = write(tmp_path / "outputs", ["我们今天去看书", "他们昨天在家里"])
    assert 0 < score_texts(outputs, [chinese], metrics=["gleu"]).metrics["gleu"].value < 100
