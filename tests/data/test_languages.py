"""Languages: codes, scripts, sentences, words, and text that tokenizers do not tear."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from unicodedata import normalize

import pytest
import regex

from pam.data.languages import (
    ENDS,
    compared_words,
    language,
    segmentation_hint,
    sentences_of,
    shown,
    words_of,
)
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.data.text_files import cleaned
from pam.data.tokenizers import load_tokenizer
from pam.runtime.errors import UserError

from .conftest import ROOT
from .pairs import dataset, prepared
from .test_captioning import CAPTIONS, fetched

# Three sentences each in the language's own marks, with their combining marks.
TEXTS = {
    "de": "Der Hund schläft. Ist das ein Märchen? Ja, natürlich!",
    "ru": "Мэр открыл школу. Дождь ещё идёт? Да, идёт!",
    "ar": "هَلْ فَتَحَ العُمْدَةُ المَدْرَسَةَ؟ نعم، فتحها اليوم. والمطر ينزل!",
    "he": "שָׁלוֹם עוֹלָם גדול. מה שלומך היום? הכול בסדר!",
    "hi": "हिन्दी में लिखा हुआ वाक्य। क्या यह सही है? हाँ, बिल्कुल सही है!",
    "bn": "বাংলাদেশের মানুষ ভালো আছেন। আপনি কেমন আছেন? আমি ভালো আছি!",
    "th": "สวัสดีครับผมชื่อสมชายครับ",
    "my": "မြန်မာစာ ရေးသည်။ ကောင်းပါသည်။ နေကောင်းလား။",
    "zh": "狗看见一只猫。他说：“很好！”猫在哪里？",
    "ja": "猫がとても好きだ。彼は「はい」と言った。どこですか？",
    "ko": "고양이가 아주 좋다. 이것은 무엇입니까? 정말 좋다!",
    "ka": "კატა ძალიან მიყვარს. ეს რა არის? ძალიან კარგი!",
    "tr": "İstanbul çok güzel bir şehir. Işık var mı? Evet, var!",
    "vi": "Tiếng Việt rất đẹp. Bạn có khỏe không? Tôi rất khỏe!",
    # Letters that have no composed form with their marks, and joiners within words.
    "yo": "Ẹ̀kọ́ dára púpọ̀. Ṣé ẹ wà dáadáa? Bẹ́ẹ̀ ni!",
    "fa": "می‌خواهم بروم. حالت چطور است؟ خوبم!",
}


@pytest.mark.parametrize(
    ("code", "tag", "script", "tokenizer"),
    [
        *[(code, "zh", "Hans", "zh") for code in ("zh", "zho", "cmn", "chi", "zh-CN", "zho_Hans")],
        ("zh-TW", "zh", "Hant", "zh"),
        ("zh-Hant", "zh", "Hant", "zh"),
        ("yue", "yue", "Hant", "zh"),
        ("jpn", "ja", "Jpan", "ja-mecab"),
        ("kor", "ko", "Kore", "ko-mecab"),
        ("th", "th", "Thai", "char"),
        ("tha", "th", "Thai", "char"),
        ("mya", "my", "Mymr", "char"),
        ("lo", "lo", "Laoo", "char"),
        ("khm", "km", "Khmr", "char"),
        ("bo", "bo", "Tibt", "char"),
        ("deu", "de", "Latn", "13a"),
        ("pt-BR", "pt", "Latn", "13a"),
        ("sr-Latn", "sr", "Latn", "13a"),
        # Sides of a pair may have any name.
        ("code", "", "", "13a"),
        ("anno", "", "", "13a"),
        ("my_text", "", "", "13a"),
        ("xx", "", "", "13a"),
        ("zh_text", "", "", "13a"),
        ("my_corpus", "", "", "13a"),
    ],
)
def test_codes_of_one_language_mean_the_same(
    code: str, tag: str, script: str, tokenizer: str
) -> None:
    lang = language(code)
    assert (lang.tag, lang.script, lang.bleu_tokenizers[0]) == (tag, script, tokenizer)


def test_ends_of_sentences_are_those_of_unicode() -> None:
    characters = map(chr, range(0x10000))
    terminal = {character for character in characters if regex.match(r"\p{STerm}", character)}
    # What divides a sentence, and two marks that Unicode has not assigned; Tibetan's end phrases
    # too.
    assert terminal - ENDS == {"၊", "\u2e60", "\u2e61"}
    assert ENDS - terminal == {"།", "༎"}


@pytest.mark.parametrize("tokenizer", ["moses", "wordpunct", "characters"])
@pytest.mark.parametrize("code", TEXTS)
def test_each_language_has_its_sentences(code: str, tokenizer: str) -> None:
    if code in ("zh", "ja") and tokenizer == "moses":
        pytest.skip("sacremoses takes seconds to start for these")
    lang = language(code)
    words = load_tokenizer(tokenizer, code).tokens(TEXTS[code])
    sentences = list(sentences_of(words, lang))

    assert len(sentences) == (3 if lang.has_sentence_marks else 1)
    assert "".join(map("".join, sentences)) == "".join(words)


@pytest.mark.parametrize(
    ("code", "text", "sentences"),
    [
        ("de", "Er kam . » Ja « , sagt er . „ Gut ! “ Sie ging .", 4),
        ("fr", "« Oui . » Il part . « Non ! »", 3),
        ("el", "Τι κάνεις ; Καλά .", 2),
        ("en", "Mr. X left . He runs 3.5 km .", 2),
        ("en", "M r . ▁ X ▁ r u n s ▁ 3 . 5 ▁ k m . ▁ Y e s .", 3),
        ("zh", "他说：「好。」猫来了。3.5元", 3),
    ],
)
def test_what_closes_belongs_to_its_sentence(code: str, text: str, sentences: int) -> None:
    assert len(list(sentences_of(text.split(), language(code)))) == sentences


@pytest.mark.parametrize("code", TEXTS)
def test_no_tokenizer_tears_a_letter_from_its_marks(code: str) -> None:
    # A word of marks alone is none, and joined words are the text again but for spaces.
    names = ["wordpunct"]
    if code not in ("zh", "ja"):  # for which sacremoses takes seconds to start
        names.append("moses")
    for name in names:
        for form in ("NFC", "NFD"):
            text = normalize(form, TEXTS[code])
            words = load_tokenizer(name, code).tokens(text)
            assert words_of(text) == [part for word in words for part in words_of(word)], name


@pytest.mark.parametrize("code", TEXTS)
def test_moses_gives_back_the_text_that_it_split(code: str) -> None:
    if code in ("zh", "ja"):
        pytest.skip(
            "Moses splits at some marks of these and not at others; sacreBLEU's tokenizers ignore"
            " spaces there"
        )

    tokenizer = load_tokenizer("moses", code)
    assert tokenizer.text(tokenizer.tokens(TEXTS[code])) == TEXTS[code]


@pytest.mark.parametrize("code", TEXTS)
def test_characters_give_back_the_text(code: str) -> None:
    tokenizer = load_tokenizer("characters", code)
    words = tokenizer.tokens(TEXTS[code])
    assert tokenizer.text(words) == TEXTS[code]
    assert {len(word) for word in words} == {1} and " ".join(words).split() == words
    assert tokenizer.text(tokenizer.tokens("a▁b")) == "a＿b"


def test_small_letters_are_those_of_the_language() -> None:
    assert language("tr").lower("Iİ") == "ıi"
    assert language("de").lower("IÄ") == "iä"


def test_words_without_spaces_are_compared_as_characters_with_their_marks() -> None:
    chinese = compared_words("狗看见iPhone 15", language("zh"), segmented=False)
    assert chinese == ["狗", "看", "见", "iphone", "15"]
    assert compared_words("ชื่อ", language("th"), segmented=False) == ["ชื่", "อ"]

    # Text that is split into words is compared by words.
    japanese = compared_words("猫 が 好き だ 。", language("ja"), segmented=True)
    assert japanese == ["猫", "が", "好き", "だ"]
    german = compared_words("Der Hund, a-b.", language("de"), segmented=False)
    assert german == ["der", "hund", "a", "b"]


def ready(folder: Path, code: str, **options: object) -> Path:
    """Prepare pairs of Chinese and English."""
    german = dataset(folder / "own", ZH, source=code, **options)
    splits = {}
    for split, names in german.splits.items():
        assert isinstance(names, dict)
        splits[split] = {code: names["de"], "en": names["en"]}
    return prepared(german.model_copy(update={"splits": splits}), folder)


def test_the_table_of_languages_is_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "workflow/scripts/make_languages.py"), run_name="made")
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    assert text == made["page"](text), "run: python workflow/scripts/make_languages.py"
    assert set(TEXTS) - {"yo"} <= set(made["CODES"])


ZH = {
    split: [(f"狗看见一只猫在房子里{row}{split}。", f"the dog {row} .") for row in range(12)]
    for split in ("train", "dev", "test")
}


def test_phrases_without_spaces_are_refused_with_what_segments_them(tmp_path: Path) -> None:
    for code in ("zh", "cmn", "zh-CN"):
        with pytest.raises(UserError, match="training has only 0% of the source symbols") as raised:
            ready(tmp_path / code, code)
        hint = str(raised.value.hint)
        assert "Chinese has no spaces" in hint
        assert f"`characters` for {code}" in hint and "subwords" in hint


@pytest.mark.parametrize("change", [{"tokenize": "characters"}, {"subwords": {"merges": 20}}])
def test_phrases_that_are_segmented_are_not_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    assert ready(tmp_path, "zh", **change)


def test_words_of_a_language_without_spaces_are_words() -> None:
    assert not segmentation_hint(["狗", "看见", "一只"], language("zh"), "none")
    assert not segmentation_hint(["Donaudampfschifffahrt"], language("de"), "none")


def test_captions_without_spaces_are_refused_too_and_composed(tmp_path: Path) -> None:
    texts = {clip: [f"狗看见一只猫在房子里{clip}"] for clip in CAPTIONS}
    dataset, raw = fetched(tmp_path, texts)
    chinese = dataset.with_format({"language": "zh"})

    with pytest.raises(UserError, match="training has only 0% of the words") as raised:
        prepare("mine", chinese, raw, tmp_path / "out")

    hint = str(raised.value.hint)
    assert "`characters` for zh" in hint and "subwords" not in hint

    prepare("mine", chinese.with_format({"tokenize": "characters"}), raw, tmp_path / "out")


def test_a_summary_is_divided_at_its_own_marks(tmp_path: Path) -> None:
    record = {"article": TEXTS["hi"], "summary": TEXTS["hi"]}
    (tmp_path / "all.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    dataset = Dataset(
        task="summarization",
        files={"all.jsonl": {"path": "x"}},
        splits=dict.fromkeys(("train", "dev", "test"), "all.jsonl"),
        format={"read": "jsonl", "language": "hin"},
    )
    prepare("mine", dataset, tmp_path, tmp_path / "o")

    lines = (tmp_path / "o/test.target.txt").read_text("utf-8").splitlines()
    ((reference,),) = [json.loads(line) for line in lines]

    assert len(reference) == 3


INVISIBLE = ["\u200b", "\u00ad", "\u200e", "\u2060", "\ufeff", "\u200f\u202a", "\u200d"]


@pytest.mark.parametrize("text", INVISIBLE)
def test_a_text_that_shows_nothing_is_empty(text: str) -> None:
    assert cleaned(f" {text} {text}") == ""


@pytest.mark.parametrize("character", INVISIBLE[:-1])
def test_what_is_invisible_is_not_text(character: str) -> None:
    assert cleaned(f"{character}Ir{character}land {character}") == "Irland"
    assert cleaned(f"u{character}\u0308") == "\u00fc"
    assert (
        cleaned(f"Ir{character}land", keep_invisible=True).strip("\ufeff") == f"Ir{character}land"
    )


def test_joiners_that_shape_letters_stay() -> None:
    for word in ("می\u200cخواهم", "क्\u200dष"):
        assert cleaned(word) == word
        assert shown(word) == word


def test_a_message_shows_what_is_invisible_by_its_number() -> None:
    assert [shown(symbol) for symbol in ("\u200d", "a\u00ad", "ä")] == ["U+200D", "aU+00AD", "ä"]
