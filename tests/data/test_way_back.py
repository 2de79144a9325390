"""Texts to words and back: joined words are the text, and where they are not, that is said."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest

from pam.data.codecs import SideCodec, SideSettings
from pam.data.dataset import SPLITS, Prepared
from pam.data.registry import Dataset
from pam.data.tokenizers import TOKENIZERS, load_tokenizer
from pam.tasks.translation.format import TranslationFormat

from .pairs import dataset, many, prepared, ready
from .test_translation import stages

TEXTS = [
    ("en", "It's \"fine\", he said (really): 50% of the dogs' bowls, don't ask."),
    (
        "de",
        "Er sagte: „Das geht's nicht!“ Die »Zeit« schreibt (leider) und/oder – 5,50 € pro Stück.",
    ),
    ("de", "Um 1990–2000 sagte man «so», Grimm'sche Märchen, 'nein', 3:30 und man’s."),
    ("ru", "«Да», — сказал он. Кот-д'Ивуар (1990–2000) и „Лев“, 50%."),
    ("uk", "П'ять м'ячів: «Так, об’єкт», — сказав. І 'тут' сім'я."),
    ("tr", "Ankara'da %50 \"indirim\" var, 2023'te de."),
    ("ca", "L'home d'ahir: s'ha d'anar-se'n, l'\"amic\", col·lecció i «llibre»."),
    ("fr", "« Oui », dit-il : l'homme n'est pas là ! L’ami ; 50 % ?!"),
    ("it", "L'uomo d'oggi dice: «Sì, è l'altro», dell’amico."),
    ("vi", "Anh ấy nói: “Tôi không biết!” (thật đấy) 50%."),
    ("ka", "„გამარჯობა“, თქვა მან (დღეს) 50% — ასეა."),
    ("el", "Είπε: «Τι κάνεις;» Απ' όλα (σ' αυτό) 50%."),
    ("ar", 'قال: «نعم، جئت اليوم»؛ هل "هذا" صحيح؟'),
    ("fa", "او گفت: «می\u200cخواهم بروم، خوب؟» ۵۰٪ از مردم."),
    ("he", 'צה"ל הודיע: "הכול בסדר!" בית־ספר וארה״ב, ג\'ירפה.'),
    ("hi", 'उसने कहा, "हाँ, ठीक है।" ‘नमस्ते’ (आज) 50% लोग।'),
    ("bn", "তিনি বললেন, “আমি ভালো আছি।” ৫০% মানুষ (আজ)।"),
    ("ko", '그는 "네, 좋아요."라고 말했다. (오늘) 50%입니다.'),
    ("th", 'เขาพูดว่า "ใช่ครับ" แล้วก็ไป 50% (วันนี้) เด็กๆ'),
    ("lo", 'ລາວເວົ້າວ່າ "ແມ່ນແລ້ວ" (ມື້ນີ້)'),
    ("my", "သူက “ဟုတ်ကဲ့။” လို့ ပြောတယ်။ ၅၀% (ဒီနေ့)၊ ပါ။"),
    ("km", "គាត់និយាយថា «បាទ»។ ៥០% (ថ្ងៃនេះ)"),
    ("bo", "བོད་སྐད་ཡིན། ཁོང་གིས་བཤད།"),
    ("fi", 'EU:n "paras" (50%) talo, sanoi hän: ”Kyllä.”'),
    ("hy", "«Այո», ասաց նա։ Ո՞ւր է։"),
]
UNSPACED = [
    ("zh", "他说：“很好！”猫在（这里），对吗？《红楼梦》——50%的人……"),
    ("ja", "彼は「はい、そうです。」と言った（昨日）。"),
]
# Its words are compared in scores, never a text that is joined.
OF_WORDS = {"wordpunct"}
# The texts that a tokenizer can serve, if not all.
SERVED = {"unidic": UNSPACED[1:], "moses": TEXTS}


@pytest.mark.parametrize("name", sorted(set(TOKENIZERS) - OF_WORDS))
def test_joined_words_are_the_text_in_every_language(name: str) -> None:
    for code, text in SERVED.get(name, TEXTS + UNSPACED):
        tokenizer = load_tokenizer(name, code)
        assert tokenizer.text(tokenizer.tokens(text)) == text, code


def test_a_codec_from_before_has_the_words_that_it_had() -> None:
    side: dict[str, Any] = {"language": "uk", "tokenize": "moses", "lowercase": False}
    before = SideSettings(**side)
    assert "whole_words" not in before.model_dump_json()
    assert SideCodec(before).words("П'ять") == ["П", "'", "ять"]

    new = SideSettings.model_validate_json(SideSettings.of_new_data(**side).model_dump_json())
    assert SideCodec(new).words("П'ять") == ["П'ять"]
    # Published texts of these languages are split there.
    assert SideSettings.of_new_data(**side | {"language": "de"}) == SideSettings(
        **side | {"language": "de"}
    )


@pytest.mark.parametrize("name", ["none", "characters"])
@pytest.mark.parametrize("text", ["    return x", "x = 1", " y"])
def test_spaces_at_the_beginning_are_kept(name: str, text: str) -> None:
    tokenizer = load_tokenizer(name, "code")
    words = tokenizer.tokens(text)
    assert tokenizer.text(words) == text
    assert " ".join(words).split() == words


PROGRAMS = ("SELECT t.a FROM t WHERE a>=3 ;", "    x = 1")


def programs(
    folder: Path, tokenize: str, side: str = "code", targets: Sequence[str] = PROGRAMS
) -> Path:
    """Prepare pairs whose targets are programs."""
    texts = {split: [("Satz eins", target) for target in targets] for split in SPLITS}
    entry = dataset(folder / "own", texts).model_dump()
    for split, files in entry["splits"].items():
        entry["splits"][split] = {"de": files["de"], side: files["en"]}
    entry["format"] |= {"target": side, "tokenize": tokenize}
    return prepared(Dataset.model_validate(entry), folder)


def test_targets_that_words_do_not_join_to_are_counted_and_told(tmp_path: Path) -> None:
    folder = programs(tmp_path / "moses", "moses")
    counts = stages(folder)["tokenize", "test"]["joined_again"]
    assert (counts["compared"], counts["differing"], counts["indented"]) == (2, 2, 1)

    (warning,) = [text for text in Prepared(folder).summary["warnings"] if "again" in text]
    assert "SELECT t.a" in warning and "`tokenize: none`" in warning
    assert "2 of 2 targets of test" in warning


def test_sentences_under_a_name_that_is_no_language_are_told(tmp_path: Path) -> None:
    warnings = Prepared(programs(tmp_path, "none", targets=("It is so.", "Why?"))).summary[
        "warnings"
    ]
    assert any("`tokenize: moses`" in text for text in warnings)


@pytest.mark.parametrize("tokenize", ["none", "characters"])
def test_programs_are_their_text_again(tmp_path: Path, tokenize: str) -> None:
    folder = programs(tmp_path, tokenize)
    assert stages(folder)["tokenize", "test"]["joined_again"] == {"compared": 2, "differing": 0}

    references = (folder / "test.target.txt").read_text(encoding="utf-8").splitlines()
    assert references == list(PROGRAMS)
    codec = Prepared(folder).codec
    for (_, target), reference in zip(Prepared(folder).rows("test"), references, strict=True):
        assert codec.typed_target(reference) == target
        assert codec.readable(codec.target_text(codec.target_symbols(target))) == reference


def test_indentation_that_a_language_loses_is_told(tmp_path: Path) -> None:
    summary = Prepared(programs(tmp_path, "none", side="en")).summary
    assert any("begin with spaces" in text for text in summary["warnings"])


def test_case_does_not_count_where_all_letters_are_small(tmp_path: Path) -> None:
    folder = ready(tmp_path, many(4), lowercase=True)
    counts = stages(folder)["tokenize", "test"]["joined_again"]
    # A space before the stop is lost.
    assert counts["text"] == "line test 0 ."


def test_a_side_that_is_no_language_is_split_at_spaces_alone(tmp_path: Path) -> None:
    layout = TranslationFormat(source="en", target="sql")
    assert [layout.tokenizer_for(side) for side in ("en", "sql")] == ["moses", "none"]
    chosen = TranslationFormat(source="en", target="sql", tokenize="moses")
    assert chosen.tokenizer_for("sql") == "moses"
    assert TranslationFormat(source="de", target="en").tokenize == "moses"


def test_characters_are_proposed_for_lines_of_one_word(tmp_path: Path) -> None:
    words = map("".join, product("abc", repeat=4))
    texts = {split: [(word, f"{word}a") for word in islice(words, 20)] for split in SPLITS}
    for tokenize, count in (("none", 2), ("characters", 0)):
        folder = ready(tmp_path / tokenize, texts, tokenize=tokenize)
        warnings = Prepared(folder).summary["warnings"]
        assert sum("`tokenize: characters`" in text for text in warnings) == count
