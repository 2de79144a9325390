"""Text to symbols and back, with the files that a model carries."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam.data.codecs import Settings, SideCodec, SideSettings, load_codec
from pam.data.dataset import Prepared
from pam.data.tokenizers import learn_merges, load_tokenizer
from pam.runtime.errors import UserError
from pam.tasks.inflection.codec import InflectionCodec
from pam.tasks.translation.codec import TranslationCodec

from .pairs import SENTENCES, many, ready

WORDS = st.lists(st.text(st.sampled_from("abcäß@<w>/"), min_size=1, max_size=8), max_size=6)


def subwords(merges: list[str]) -> SideCodec:
    return SideCodec(SideSettings(language="de", tokenize="none", lowercase=False, merges=merges))


MERGES = subwords(learn_merges({"aba": 5, "abba": 3, "ca": 2, "@@a": 4}, 6))


@given(WORDS)
def test_subwords_join_to_the_words_that_they_came_from(words: list[str]) -> None:
    symbols = MERGES.symbols(words)
    # A word that ends like a subword is written in another way.
    expected = [word[:-2] + "＠＠" if word.endswith("@@") else word for word in words]
    assert MERGES.joined(symbols) == expected

    numbers = MERGES.numbers(symbols)
    assert sorted(set(numbers)) == list(range(len(words)))
    assert numbers == sorted(numbers) and len(numbers) == len(symbols)


def test_merges_are_those_of_the_most_frequent_pairs() -> None:
    merges = learn_merges({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 3)
    assert merges == ["s t</w>", "e st</w>", "l o"]

    symbols = subwords(["s t</w>", "e st</w>"]).symbols(["best", "low"])
    assert symbols == ["b@@", "est", "l@@", "o@@", "w"]


def test_an_output_that_stops_within_a_word_is_still_words() -> None:
    assert MERGES.joined(["ab@@", "c", "d@@"]) == ["abc", "d"]


def test_a_codec_of_subwords_turns_sentences_into_symbols_and_back(tmp_path: Path) -> None:
    codec = Prepared(ready(tmp_path, subwords={"merges": 12}, lowercase=True)).codec
    (column,) = codec.typed_source("  Das ist ein Hund, oder? ")
    assert column == "das ist ein hund , oder ?"

    symbols = codec.source_symbols([column])
    assert len(symbols) > 7 and codec.words(symbols, "source")[-1] == 6

    target = codec.target_symbols("this is n't a cat .")
    assert codec.target_text(target) == "this is n't a cat ."
    assert codec.readable("this isn 't a cat .") == "this isn't a cat."
    assert codec.words(target, "target")[-1] == 5


def settings(folder: Path) -> Settings:
    return TranslationCodec.load(folder).settings


def test_separate_and_joint_merges(tmp_path: Path) -> None:
    apart = settings(ready(tmp_path / "a", subwords={"merges": 9}))
    joint = settings(ready(tmp_path / "b", subwords={"merges": 9, "joint": True}))
    assert apart.source.merges != apart.target.merges
    assert joint.source.merges == joint.target.merges


def test_merges_come_from_training_text_alone(tmp_path: Path) -> None:
    same_training = SENTENCES | {"dev": many(50)["dev"], "test": many(50)["test"]}
    first = settings(ready(tmp_path / "a", subwords={"merges": 9}))
    assert settings(ready(tmp_path / "b", same_training, subwords={"merges": 9})) == first


def test_text_without_pairs_of_characters_has_no_merges(tmp_path: Path) -> None:
    letters = {split: [("a b", "c d")] for split in SENTENCES}
    with pytest.raises(UserError, match="no pair of characters occurs twice"):
        ready(tmp_path, letters, subwords={"merges": 2})


@pytest.mark.parametrize("line", ["", " \t ", "\u00a0"])
def test_a_typed_line_without_words_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(UserError, match="expected a sentence"):
        TranslationCodec.load(ready(tmp_path)).typed_source(line)


@pytest.mark.parametrize("content", ["", "{}", '{"source": 3}', "\xff"])
def test_a_damaged_codec_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "codec.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match="not a codec of this kind of task"):
        TranslationCodec.load(tmp_path)


def test_a_missing_codec_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file") as caught:
        TranslationCodec.load(tmp_path)
    assert caught.value.file == str(tmp_path / "codec.json")


def test_the_codec_of_inflection_needs_no_files(tmp_path: Path) -> None:
    codec = load_codec("inflection", tmp_path)
    assert codec.columns == InflectionCodec.columns
    assert codec.typed_source("Haus\tcase=dative") == ("Haus", "case=dative")

    symbols = codec.source_symbols(("Haus", "case=dative"))
    assert symbols == ["case=dative", "H", "a", "u", "s"]
    assert codec.words(symbols, "source") == [0, 1, 2, 3, 4]
    assert codec.readable(codec.target_text(codec.target_symbols("Häusern"))) == "Häusern"
    with pytest.raises(UserError, match="a lemma, a tab and features"):
        codec.typed_source("Haus")


@pytest.mark.parametrize(
    ("name", "language", "text", "words"),
    [
        ("moses", "en", "It's 3,000.5 & more!", ["It", "'s", "3,000.5", "&", "more", "!"]),
        ("moses", "de", "Am 7. Mai, z.B. um 9.", ["Am", "7.", "Mai", ",", "z.B.", "um", "9."]),
        ("moses", "vi", "Xin chào\u00a0bạn!", ["Xin", "chào", "bạn", "!"]),
        ("unidic", "ja", "私はテニスです。", ["私", "は", "テニス", "です", "。"]),
        ("none", "de", "so wie es\u2003ist . ", ["so", "wie", "es", "ist", "."]),
    ],
)
def test_tokenizers_split_as_their_languages_want(
    name: str, language: str, text: str, words: list[str]
) -> None:
    assert load_tokenizer(name, language).tokens(text) == words


def test_japanese_is_joined_without_spaces_but_latin_words_keep_theirs() -> None:
    words = ["Linux", "kernel", "を", "使う", "。"]
    assert load_tokenizer("unidic", "ja").text(words) == "Linux kernelを使う。"


def test_the_japanese_dictionary_is_for_japanese() -> None:
    with pytest.raises(UserError, match="unidic is for Japanese"):
        load_tokenizer("unidic", "de")


def test_an_unknown_tokenizer_names_the_closest() -> None:
    with pytest.raises(UserError, match=r"unknown tokenizer `mose`.*\n.*did you mean `moses`"):
        load_tokenizer("mose", "de")


@pytest.mark.parametrize(("name", "language"), [("moses", "de"), ("unidic", "ja"), ("none", "en")])
def test_a_tokenizer_can_be_copied_and_pickled(name: str, language: str) -> None:
    tokenizer = load_tokenizer(name, language)
    text = "猫が好きです。" if language == "ja" else "A cat, a dog."
    unpickled = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 -- made on this line
    assert copy.deepcopy(tokenizer).tokens(text) == tokenizer.tokens(text)
    assert unpickled.tokens(text) == tokenizer.tokens(text)
