"""Every metric in every script: a reference is best, a wrong word costs, forms of Unicode agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

from pam.data.codecs import Settings, SideSettings
from pam.data.dataset import Prepared, write_summary
from pam.data.languages import composed, language, sentences_of
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.data.tokenizers import TOKENIZERS as TOKENIZER_NAMES
from pam.data.tokenizers import load_tokenizer
from pam.evaluation import meteor
from pam.evaluation.edits import Edits, edit_distance, fewest_edits
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.metrics import METRICS
from pam.evaluation.plain_texts import score_texts
from pam.evaluation.scores import Scores
from pam.evaluation.scoring import make, score_control
from pam.tasks.captioning import counts as captioning
from pam.tasks.inflection import counts as inflection
from pam.tasks.summarization import counts as summarization
from pam.tasks.summarization.counts import Summary
from pam.tasks.translation import counts as translation
from pam.tasks.translation.codec import TranslationCodec
from tests.data.test_captioning import CAPTIONS, fetched

from .translations import write

# Two sentences in the language's own marks, a word of them, and one in its place.
TEXTS = {
    "de": ("Der Hund schläft im Haus. Ist das ein Märchen?", "schläft", "bellt"),
    "ru": ("Мэр сегодня открыл новую школу. Дождь ещё идёт?", "идёт", "кончился"),
    "ar": (
        "هَلْ فَتَحَ العُمْدَةُ المَدْرَسَةَ الجَدِيدَةَ؟ نعم، فتحها اليوم.",
        "المَدْرَسَةَ",
        "البَابَ",
    ),
    "he": ("שָׁלוֹם עוֹלָם גדול ויפה. מה שלומך היום?", "עוֹלָם", "חָבֵר"),
    "hi": ("हिन्दी में लिखा हुआ वाक्य। क्या यह सही है?", "वाक्य", "शब्द"),
    "bn": ("বাংলাদেশের মানুষ খুব ভালো আছেন। আপনি কেমন আছেন?", "মানুষ", "পাখি"),
    "th": ("สวัสดีครับผมชื่อสมชายครับผม", "สมชาย", "สมหญิง"),
    "my": ("မြန်မာစာကိုကောင်းစွာရေးသည်။ နေကောင်းပါသလားခင်ဗျာ။", "ရေး", "ဖတ်"),
    "zh": ("狗看见一只猫。他说：“很好！”", "猫", "鸟"),
    "ja": ("猫がとても好きだ。どこですか？", "猫", "犬"),
    "ko": ("고양이가 아주 많이 좋다. 이것은 무엇입니까?", "고양이가", "강아지가"),
    "ka": ("კატა ძალიან მიყვარს დღესაც. ეს რა არის?", "კატა", "ძაღლი"),
    "tr": ("İstanbul çok güzel bir şehir. Işık var mı?", "Işık", "Su"),
    "vi": ("Tiếng Việt rất đẹp và hay. Bạn có khỏe không?", "đẹp", "khó"),
}
TOKENIZERS = {"zh": "none", "th": "none", "ja": "unidic"}  # others: moses
BEST = {"wer": 0.0, "cer": 0.0, "ser": 0.0, "chrf": 100.0, "bleu": 100.0, "sacrebleu": 100.0}
BEST |= {"exact_match": 100.0}


def decomposed(text: str) -> str:
    return normalize("NFD", text)


def perfect(folder: Path, code: str, tokenizer_name: str, texts: Sequence[str]) -> Scores:
    """Score outputs that are the words of the references, joined as those of models are."""
    folder.mkdir()
    side = SideSettings(language=code, tokenize=tokenizer_name, lowercase=False)
    codec = TranslationCodec(Settings(source=side, target=side))
    codec.save(folder)

    targets = [" ".join(codec.target.words(text)) for text in texts]
    write(folder / "test.tsv", [f"a b\t{target}" for target in targets])
    write(folder / "test.target.txt", texts)
    languages = {"source": "en", "target": code}
    layout = {"tokenize": {code: tokenizer_name}}
    write_summary(folder, {"task": "translation", "languages": languages, "format": layout})

    rows = [("a b", target, target, codec.readable(target)) for target in targets]
    write(folder / "p.tsv", ["source\ttarget\tpredicted\ttext", *map("\t".join, rows)])
    counts = translation.count(EvalInputs([folder / "p.tsv"], [None], data=folder))
    return make("translation", counts, {}, {}, {})


def translated(
    folder: Path, code: str, outputs: Sequence[str], references: Sequence[str], **layout: bool
) -> Scores:
    """Score outputs against references, both as people write them."""
    folder.mkdir()
    tokenizer = load_tokenizer(TOKENIZERS.get(language(code).tag, "moses"), code)
    targets = [" ".join(tokenizer.tokens(text)) for text in references]
    write(folder / "test.tsv", [f"a b\t{target}" for target in targets])
    write(folder / "test.target.txt", references)
    languages = {"source": "en", "target": code}
    write_summary(folder, {"task": "translation", "languages": languages, "format": layout})
    rows = [
        ("a b", target, " ".join(tokenizer.tokens(composed(text))), text)
        for target, text in zip(targets, outputs, strict=True)
    ]
    write(folder / "p.tsv", ["source\ttarget\tpredicted\ttext", *map("\t".join, rows)])
    counts = translation.count(EvalInputs([folder / "p.tsv"], [None], data=folder))

    return make("translation", counts, {}, {}, {})


def values(scores: Scores) -> dict[str, float]:
    return {name: value.value for name, value in scores.metrics.items()}


@pytest.mark.parametrize("code", TEXTS)
def test_translations_are_scored_in_every_script(code: str, tmp_path: Path) -> None:
    text, word, wrong_word = TEXTS[code]
    same = values(translated(tmp_path / "a", code, [text], [text]))

    assert same == pytest.approx({name: BEST[name] for name in same})
    # Word error rates alone are not defined for phrases.
    assert set(BEST) - set(same) == ({"wer"} if code in ("th", "zh", "my") else set())
    assert values(translated(tmp_path / "b", code, [decomposed(text)], [text])) == pytest.approx(
        same
    )

    wrong = values(translated(tmp_path / "c", code, [text.replace(word, wrong_word)], [text]))
    assert wrong.pop("exact_match") == 0
    for name, value in wrong.items():
        assert value > 0 and value != pytest.approx(same[name]), name
        assert (value > same[name]) == METRICS[name].lower_is_better, name


@pytest.mark.parametrize("code", ["zho", "cmn", "jpn", "th", "tha", "my", "mya", "lo", "km", "bo"])
def test_languages_without_spaces_are_scored_by_characters_whatever_their_code(code: str) -> None:
    metrics = translation.sacre_metrics(translation.Target(language(code)))
    kind = {"zho": "tok:zh", "cmn": "tok:zh"}.get(code, "tok:char")

    statistics = translation.statistics(metrics["sacrebleu"], ["ກຂຄງຈ"], ["ກຂຄງສ"])
    # Matches of single characters.
    assert statistics[0, 2] == (0 if code in ("zho", "cmn") else 4)
    assert kind in str(metrics["sacrebleu"].get_signature())


@pytest.mark.parametrize("code", ["zh", "th", "ko"])
@pytest.mark.parametrize("side", ["tgt", "answer"])
def test_scores_do_not_depend_on_the_names_of_the_sides(
    code: str, side: str, tmp_path: Path
) -> None:
    """`tgt` is a code of a language too, which is written in Latin letters."""
    text, word, wrong_word = TEXTS[code]
    outputs = [text.replace(word, wrong_word)]
    named = translated(tmp_path / "named", code, outputs, [text])
    keyed = translated(tmp_path / "keyed", side, outputs, [text])

    # The words of the task are those of a tokenizer that goes by the name.
    for name in ("sacrebleu", "chrf", "cer", "ser"):
        assert keyed.metrics[name] == named.metrics[name]
    for name in ("sacrebleu", "chrf"):
        assert keyed.details["signatures"][name] == named.details["signatures"][name]
    (note,) = set(keyed.details["notes"]) - set(named.details.get("notes", ()))
    assert f"`{side}`" in note and language(code).name in note


def test_words_that_are_phrases_are_counted_by_their_characters(tmp_path: Path) -> None:
    text = TEXTS["zh"][0]
    scores = translated(tmp_path / "a", "zho", [text.replace("猫", "鸟")], [text])

    assert "tok:char" in scores.details["signatures"]["bleu"]
    assert 20 < scores.metrics["bleu"].value < 100
    assert any("Chinese has no spaces" in reason for reason in scores.details["left_out"])


@pytest.mark.parametrize("code", TEXTS)
@pytest.mark.parametrize("tokenizer_name", TOKENIZER_NAMES)
def test_a_perfect_output_has_the_best_value_in_each_metric_that_is_shown(
    code: str, tokenizer_name: str, tmp_path: Path
) -> None:
    if tokenizer_name == "unidic" and code != "ja":
        pytest.skip("a tokenizer of Japanese")
    scores = perfect(tmp_path / "a", code, tokenizer_name, [TEXTS[code][0]])

    # BLEU by our sums, chrF and exact matches of a perfect output are there whatever the tokenizer.
    assert {"bleu", "chrf", "exact_match"} <= set(scores.metrics)
    for name, value in values(scores).items():
        best = 0.0 if METRICS[name].lower_is_better else 100.0
        assert value == pytest.approx(best), name

    left_out = {"sacrebleu", "cer"} - set(scores.metrics)
    reasons = [text for text in scores.details.get("left_out", ()) if "tokenizer" in text]
    assert len(reasons) == len(left_out)


def test_what_a_perfect_output_reaches_is_told_where_few_texts_are_not_restored(
    tmp_path: Path,
) -> None:
    texts = [TEXTS["de"][0]] * 40 + ["Der Hund schläft hier , heute ."]
    scores = perfect(tmp_path / "a", "de", "moses", texts)

    assert 0 < scores.metrics["cer"].value < 1
    (note,) = scores.details["notes"]
    assert f"{scores.metrics['cer'].value:.2f}" in note


def test_words_that_are_characters_are_scored_as_the_words_that_they_spell(tmp_path: Path) -> None:
    text, word, wrong_word = TEXTS["de"]
    folder = tmp_path / "a"
    perfect(folder, "de", "characters", [text])
    wrong = text.replace(word, wrong_word)
    characters = " ".join(load_tokenizer("characters", "de").tokens(wrong))
    row = [*(folder / "test.tsv").read_text(encoding="utf-8").rstrip("\n").split("\t")]
    lines = ["source\ttarget\tpredicted\ttext", "\t".join([*row, characters, wrong])]
    write(folder / "p.tsv", lines)

    counts = translation.count(EvalInputs([folder / "p.tsv"], [None], data=folder))
    scores = values(make("translation", counts, {}, {}, {}))
    alone = score_texts(write(tmp_path / "o", [wrong]), [write(tmp_path / "r", [text])], code="de")
    for name in ("bleu", "wer", "cer", "exact_match", "sacrebleu"):
        assert scores[name] == pytest.approx(alone.metrics[name].value), name

    assert scores["bleu_characters"] > scores["bleu"]
    assert "characters" in METRICS["bleu_characters"].label


def test_errors_of_phonemes_are_called_so(tmp_path: Path) -> None:
    scores = values(perfect(tmp_path / "a", "phonemes", "none", ["k æ t s", "d ɔ g z"]))
    assert scores["per"] == 0 and "wer" not in scores
    assert "Phoneme" in METRICS["per"].label


def test_signatures_say_that_references_are_in_small_letters(tmp_path: Path) -> None:
    text = TEXTS["de"][0].lower()
    cased = translated(tmp_path / "cased", "de", [text], [text])
    lowercased = translated(tmp_path / "lowercased", "de", [text], [text], lowercase=True)

    assert values(lowercased) == values(cased)
    signatures = lowercased.details["signatures"].values()
    assert all("|case:lc|" in signature for signature in signatures)
    assert not any("|case:lc|" in signature for signature in cased.details["signatures"].values())
    assert any("not comparable" in note for note in lowercased.details["notes"])


def test_bleu_of_references_that_are_too_short_is_left_out(tmp_path: Path) -> None:
    scores = translated(tmp_path / "a", "de", ["Ein Hund"], ["Ein Hund"])
    assert "bleu" not in scores.metrics and "sacrebleu" not in scores.metrics
    assert scores.metrics["chrf"].value == scores.metrics["ser"].value + 100
    reasons = scores.details["left_out"]
    assert sum("none of which has four words" in reason for reason in reasons) == 2


@pytest.mark.parametrize("code", TEXTS)
def test_summaries_are_scored_in_every_script(code: str) -> None:
    text, word, wrong_word = TEXTS[code]
    tokenizer = load_tokenizer(TOKENIZERS.get(language(code).tag, "moses"), code)
    compared = summarization.ComparedText(language(code), tokenizer.segments)

    def rouge(output: str, form: Callable[[str], str] = composed) -> dict[str, float]:
        words = " ".join(tokenizer.tokens(output))
        sentences = sentences_of(tokenizer.tokens(text), compared.language)
        reference = [" ".join(sentence) for sentence in sentences]
        values = summarization.rouge([Summary("x", "x", form(words))], [[reference]], compared)

        return {name: float(value[0]) for name, value in values.items()}

    assert rouge(text) == pytest.approx(dict.fromkeys(("rouge1", "rouge2", "rougeL"), 1.0))
    assert rouge(text, decomposed) == pytest.approx(rouge(text))
    assert all(0 < value < 1 for value in rouge(text.replace(word, wrong_word)).values())


@pytest.mark.parametrize("code", TEXTS)
def test_captions_are_scored_in_every_script(code: str) -> None:
    text, word, wrong_word = TEXTS[code]
    tokenizer = load_tokenizer(TOKENIZERS.get(code, "wordpunct"), code)
    compared = captioning.ComparedText(language(code), tokenizer.segments)

    def scored(output: str, form: Callable[[str], str] = composed) -> list[float]:
        words = [" ".join(tokenizer.tokens(sentence)) for sentence in (output, text)]
        output, reference = (compared.compared(sentence) for sentence in (form(words[0]), words[1]))
        scores = captioning.coco([output, "ab cd"], [[reference], ["ab cd"]])
        counts = captioning.bleu([output], [[reference]])
        bleu = METRICS["bleu_coco"].value(np.array([*counts.values()]).T)

        return [float(scores["cider"][0]), float(scores["rouge_coco"][0]), float(bleu[0])]

    best = scored(text)
    assert best == pytest.approx([10.0, 1.0, 100.0])
    assert scored(text, decomposed) == pytest.approx(best)

    wrong = scored(text.replace(word, wrong_word))
    assert all(low < high for low, high in zip(wrong, best, strict=True)) and min(wrong[:2]) > 0


@pytest.mark.parametrize("code", TEXTS)
def test_forms_are_scored_in_every_script(code: str) -> None:
    _, word, wrong_word = TEXTS[code]

    def errors(predicted: str) -> float:
        units = inflection.count_lemmas([inflection.Prediction("x", "y", word, predicted)])
        return float(METRICS["form_cer"].value(units.total(METRICS["form_cer"].columns)))

    assert errors(word) == errors(decomposed(word)) == 0 < errors(wrong_word)
    assert errors("") == 100


def test_meteor_is_left_out_of_other_languages_with_the_reason() -> None:
    for code in TEXTS:
        assert f"not defined for {language(code).name}" in str(
            meteor.reason_left_out(language(code))
        )
    assert meteor.reason_left_out(language("eng")) == meteor.unavailable()


# From files to scores.


def summaries(folder: Path, code: str, text: str, summary: str, **options: Any) -> Path:
    folder.mkdir()
    record = {"article": text, "summary": summary}
    (folder / "all.jsonl").write_text(f"{json.dumps(record)}\n" * 2, encoding="utf-8")
    splits = dict.fromkeys(("train", "dev", "test"), "all.jsonl")
    layout = {"read": "jsonl", "language": code, "lead": 1} | options
    files = {"all.jsonl": {"path": "x"}}
    dataset = Dataset(task="summarization", files=files, splits=splits, format=layout)
    prepare("mine", dataset, folder, folder / "out")

    return folder / "out"


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("rus", {}),
        ("hi", {}),
        ("th", {"tokenize": "none"}),
        ("zho", {"tokenize": "none"}),
        ("zh", {"tokenize": "characters"}),
        ("ru", {"tokenize": "characters"}),
    ],
)
def test_a_reference_in_any_script_has_all_points_and_the_lead_some(
    code: str, options: dict[str, Any], tmp_path: Path
) -> None:
    text, word, wrong_word = TEXTS[language(code).tag]
    data = summaries(tmp_path / "a", code, text, text.replace(word, wrong_word), **options)

    scores = {
        name: score_control(name, data, "test", tmp_path / name, "x", "y")
        for name in ("lead", "reference")
    }
    for name in ("rouge1", "rouge2", "rougeL"):
        assert scores["reference"].metrics[name].value == pytest.approx(100)
        assert 0 < scores["lead"].metrics[name].value < 100

    assert "METEOR" in scores["lead"].details["left_out"][0]

    if code == "th":
        assert "the whole text" in str(scores["lead"].label)
    else:
        assert scores["lead"].label == "Lead-1"


@pytest.mark.parametrize("code", ["zh", "th"])
def test_summaries_whose_language_is_not_named_are_scored_by_their_script(
    code: str, tmp_path: Path
) -> None:
    text, word, wrong_word = TEXTS[code]
    summary = text.replace(word, wrong_word)
    of_code, of_en = (
        score_control(
            "reference",
            summaries(tmp_path / name, name, text, summary, tokenize="none"),
            "test",
            tmp_path / f"{name}.tsv",
            "x",
            "y",
        )
        for name in (code, "en")
    )

    for name in ("rouge1", "rouge2", "rougeL"):
        assert of_en.metrics[name] == of_code.metrics[name]
        assert of_en.metrics[name].value == pytest.approx(100)
    assert language(code).name in str(of_en.details["notes"])
    assert "METEOR" in of_en.details["left_out"][0] and "notes" not in of_code.details


def test_rouge_of_titles_of_one_word_leaves_out_bigrams(tmp_path: Path) -> None:
    data = summaries(tmp_path / "a", "ru", "Мэр открыл школу.", "Школа")
    scores = score_control("reference", data, "test", tmp_path / "p", "x", "y")

    assert "rouge2" not in scores.metrics and scores.metrics["rouge1"].value == 100
    assert any("ROUGE-2" in reason for reason in scores.details["left_out"])


def clips(folder: Path, captions: dict[str, list[str]], **options: Any) -> Path:
    dataset, raw = fetched(folder, captions)
    prepare("mine", dataset.with_format({"language": "de"} | options), raw, folder / "out")
    return folder / "out"


def test_cider_of_one_clip_is_left_out(tmp_path: Path) -> None:
    data = clips(tmp_path, CAPTIONS, clips={"train": 3, "dev": 1, "test": 1})
    scores = score_control("constant", data, "test", tmp_path / "p", "x", "y")

    assert "cider" not in scores.metrics and scores.metrics["rouge_coco"].value > 0
    assert any("CIDEr is not defined here" in reason for reason in scores.details["left_out"])


def test_captions_whose_language_is_not_named_are_scored_by_their_script(
    tmp_path: Path,
) -> None:
    texts = {clip: [f"狗看见{clip}一只猫", f"狗看见{clip}一只鸟"] for clip in CAPTIONS}
    data = clips(tmp_path, texts, language="en", tokenize="none")

    scores = score_control("people", data, "test", tmp_path / "p", "x", "y")
    assert 0 < scores.metrics["rouge_coco"].value < 1
    assert "Chinese" in str(scores.details["notes"]) and "meteor_coco" not in scores.metrics


def test_captions_in_two_forms_of_unicode_are_the_same(tmp_path: Path) -> None:
    texts = {
        clip: [normalize("NFD", f"Märchen für {clip} heute"), f"Märchen für {clip} heute"]
        for clip in CAPTIONS
    }
    data = clips(tmp_path, texts)

    assert Prepared(data).rows("train")[0] == Prepared(data).rows("train")[1]

    scores = score_control("people", data, "test", tmp_path / "p", "x", "y")
    assert scores.metrics["rouge_coco"].value == scores.metrics["bleu_coco"].value / 100 == 1


# Edits.


@pytest.mark.parametrize("seed", range(20))
def test_edit_distances_are_those_of_the_table(seed: int) -> None:
    generator = np.random.default_rng(seed)
    output, reference = (
        "".join(generator.choice(list("abc"), size=generator.integers(0, 90))) for _ in "xy"
    )
    row = list(range(len(reference) + 1))
    for output_length, symbol in enumerate(output, 1):
        above = row
        row = [output_length]
        for column, reference_symbol in enumerate(reference, 1):
            row.append(
                min(
                    above[column] + 1, row[-1] + 1, above[column - 1] + (symbol != reference_symbol)
                )
            )
    assert edit_distance(output, reference) == row[-1]


def test_the_reference_that_needs_the_fewest_edits_counts() -> None:
    assert fewest_edits(["a", "b"], [["c"], ["a", "x"]]) == Edits(1, 2)
