"""Outputs as symbols: unknown ones replaced by the source word that was attended."""

from __future__ import annotations

import pytest

from pam.data.codecs import Settings, SideSettings
from pam.data.vocabulary import STEP, UNK, Vocabulary
from pam.decoding.generator import detokenize
from pam.decoding.hypotheses import Output
from pam.tasks.inflection.codec import InflectionCodec as Letters
from pam.tasks.translation.codec import TranslationCodec

TARGET = Vocabulary(["a", "house", "in", "st@@", "reet"])
A = 5
HOUSE = 6
IN = 7


def codec(merges: list[str] | None = None) -> TranslationCodec:
    side = SideSettings(language="de", tokenize="none", lowercase=False, merges=merges)
    return TranslationCodec(Settings(source=side, target=side))


def output(symbols: list[int], attended: list[int]) -> Output:
    return Output(symbols, -1.0, True, -1.0, attended)


def test_unknown_words_become_the_source_words_attended() -> None:
    source = ["ein", "Haus", "in", "Bremen"]
    words = detokenize(output([A, HOUSE, IN, UNK], [0, 1, 2, 3]), TARGET, source, codec())
    assert words == (["a", "house", "in", "Bremen"], 1)


def test_they_stay_unknown_where_nobody_asked() -> None:
    words = detokenize(output([A, UNK], []), TARGET, ["ein", "Haus"], codec())
    assert words == (["a", "<unk>"], 0)


def test_the_last_one_of_an_output_that_was_cut_short_stays_unknown() -> None:
    words = detokenize(output([UNK, UNK], [1]), TARGET, ["ein", "Haus"], codec())
    assert words == (["Haus", "<unk>"], 1)


def test_a_source_without_words_replaces_nothing() -> None:
    assert detokenize(output([UNK], [0]), TARGET, [], codec()) == (["<unk>"], 0)


@pytest.mark.parametrize("position", [1, 2])
def test_a_whole_word_is_taken_whichever_of_its_subwords_was_attended(position: int) -> None:
    subwords = codec(["B r", "e n</w>"])
    source = ["in", "Brem@@", "en", "."]
    symbols, count = detokenize(output([IN, UNK], [0, position]), TARGET, source, subwords)

    assert (symbols, count) == (["in", "Bremen"], 1)
    assert subwords.target_text(symbols) == "in Bremen"


def test_steps_of_a_pointer_are_left_out() -> None:
    vocabulary = Vocabulary(["H", "a"])
    words = detokenize(
        output([5, STEP, STEP, UNK, 6], [0, 0, 1, 2, 2]), vocabulary, "Haß", Letters()
    )

    assert words == (["H", "ß", "a"], 1)
