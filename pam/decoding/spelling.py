"""Outputs as symbols of text, unknown ones replaced by what was attended (Luong et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from pam.data.tokenizers import Codec
from pam.data.vocabulary import SPECIALS, UNK, Vocabulary
from pam.decoding.outputs import Output

UNKNOWN = SPECIALS[UNK]
"""How a symbol that the vocabulary lacks is written."""


def spelt(
    output: Output, target: Vocabulary, source: Sequence[str], codec: Codec
) -> tuple[list[str], int]:
    """Symbols of an output, pointer steps left out.

    An unknown symbol becomes the source word that was attended most when it was written; where
    nobody noted that, or the output was cut short right after it, it is written `<unk>`.

    Args:
        source: symbols of the source, without the end symbol.

    Returns:
        the symbols, and how many of them replace unknown ones.
    """
    symbols, count = [], 0
    words = target.spell(output.symbols)
    for number, word, position in zip_longest(output.symbols, words, output.attended):
        if number == UNK and position is not None and position < len(source):
            symbols.append(_word_around(position, source, codec))
            count += 1
        elif number == UNK or number >= len(SPECIALS):
            symbols.append(word)
    return symbols, count


def _word_around(position: int, source: Sequence[str], codec: Codec) -> str:
    """The whole source word of which the symbol at `position` is a part."""
    words = codec.words(source, "source")
    parts = [part for part, word in zip(source, words, strict=True) if word == words[position]]
    return codec.target_text(parts)
