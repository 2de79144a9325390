"""Text to symbols and back.

Tokenizers split sentences into words, byte pair encoding splits words into subwords. A codec joins
both: it is all that a model needs, with its vocabularies, to read and write text of its kind of
task.
"""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from typing import Any, ClassVar, Self

from pam.data.choices import Choices
from pam.data.joining import AS_LETTERS, TORN, hide_marks, joined, shown_marks
from pam.data.languages import COMMAS, ENDS, SPACE, combining_marks
from pam.data.languages import language as language_of
from pam.runtime.errors import UserError, unknown

INDENTATION = "␣"  # stands for a space at the beginning of a line, in a word of its own


class Tokenizer:
    """Words of the sentences of one language; this one splits and joins them at white space.

    Spaces at the beginning of a text, as in a program, are its first word.

    The language is a code such as `de`. Making a tokenizer raises a UserError if it cannot serve
    the language, or a package is missing.
    """

    segments: ClassVar[bool] = False  # whether it finds words, or their parts, where no spaces are
    spells: ClassVar[bool] = False  # whether its words are characters
    keeps_indentation: ClassVar[bool] = True  # whether spaces at the beginning are kept

    def __init__(self, language: str, *, whole_words: bool | None = None) -> None:
        self.language = language
        # None: as new data have them
        self.whole_words = self.keeps_words(language) if whole_words is None else whole_words

    @classmethod
    def keeps_words(cls, language: str) -> bool:
        """Tell whether words of a language with an apostrophe inside are whole in new data."""
        return False

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Make a copy anew, in this process or another: libraries' parts cannot be copied."""
        return type(self), (self.language,)

    def tokens(self, text: str) -> list[str]:
        """Split a sentence into words and marks, none with white space inside."""
        spaces = len(text) - len(text.lstrip(" "))
        indentation = [INDENTATION * spaces] if spaces > 0 else []
        return [*indentation, *text.split()]

    def text(self, tokens: Sequence[str]) -> str:
        """Join words to a sentence as people write it."""
        if tokens and not tokens[0].strip(INDENTATION):
            return " " * len(tokens[0]) + " ".join(tokens[1:])
        return " ".join(tokens)


# how Moses escapes marks; `&` last, so that nothing is taken back twice
MOSES_ENTITIES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}


class Moses(Tokenizer):
    """The Moses tokenizer (Koehn et al. 2007), in its Python port sacremoses.

    Marks are not escaped as `&apos;` and the like. A language without a list of abbreviations is
    split as English is. Letters are not torn from the marks that combine with them, as they are by
    Moses in Thai, Burmese or Yoruba, nor words at an apostrophe inside of them, but for languages
    whose published texts are torn there. After an elided word, as in `l'home`, they are split.
    """

    keeps_indentation = False

    # Marks of scripts other than Latin, which Moses leaves with a space before them.
    AFTER_WORDS = re.compile(rf" (?=[{re.escape(''.join(sorted(ENDS - set('.!?'))) + COMMAS)}])")

    def __init__(self, language: str, *, whole_words: bool | None = None) -> None:
        super().__init__(language, whole_words=whole_words)

        sacremoses = library("sacremoses")
        tag = language_of(language).tag or language
        self._tokenizer = sacremoses.MosesTokenizer(lang=tag)
        self._detokenizer = sacremoses.MosesDetokenizer(lang=tag)

        letters = self._tokenizer.IsAlnum + combining_marks() + "".join(AS_LETTERS.values())
        self._tokenizer.PAD_NOT_ISALNUM = re.compile(rf"([^{letters}\s\.'\`\,\-])"), r" \1 "

    def tokens(self, text: str) -> list[str]:
        if self.whole_words:
            text = hide_marks(text, language_of(self.language))
        # Its words may hold spaces that are not ASCII, such as U+00A0.
        words = " ".join(self._tokenizer.tokenize(text, escape=False))
        return shown_marks(words).split()

    @classmethod
    def keeps_words(cls, language: str) -> bool:
        return language_of(language).tag not in TORN

    def text(self, tokens: Sequence[str]) -> str:
        lang = language_of(self.language)
        if lang.tag != "en":
            return joined(tokens, lang)
        return self.AFTER_WORDS.sub("", str(self._detokenizer.detokenize(tokens, unescape=False)))


def unescape_moses(text: str) -> str:
    """Return a text with the marks that the Moses tokenizer escaped as they were."""
    for entity, mark in MOSES_ENTITIES.items():
        text = text.replace(entity, mark)
    return text


class UniDic(Tokenizer):
    """Short unit words of Japanese: MeCab with the dictionary unidic-lite, through fugashi."""

    segments = True
    keeps_indentation = False

    def __init__(self, language: str, *, whole_words: bool | None = None) -> None:
        super().__init__(language, whole_words=whole_words)

        if language_of(language).tag != "ja":
            message = f"the tokenizer unidic is for Japanese (ja), not for `{language}`"
            raise UserError(message, hint="use `moses`, `characters` or `none` for this language")

        self._tagger = library("fugashi").Tagger("-Owakati")

    def tokens(self, text: str) -> list[str]:
        return str(self._tagger.parse(text)).split()

    def text(self, tokens: Sequence[str]) -> str:
        # Of the spaces only those stay that are between two words in Latin letters or digits.
        return re.sub(r"(?<![!-~]) | (?![!-~])", "", " ".join(tokens))


class WordPunct(Tokenizer):
    """NLTK's `wordpunct`: letters and digits in a row are a word, as are other marks in a row."""

    keeps_indentation = False

    def __init__(self, language: str, *, whole_words: bool | None = None) -> None:
        super().__init__(language, whole_words=whole_words)
        self._tokenizer = library("nltk.tokenize").WordPunctTokenizer()

    def tokens(self, text: str) -> list[str]:
        return list(self._tokenizer.tokenize(text))

    def text(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


class Characters(Tokenizer):
    """Characters, with `▁` for a space.

    That sign itself, which hardly occurs, becomes the wide `＿`.
    """

    segments = True
    spells = True

    def tokens(self, text: str) -> list[str]:
        spaces = len(text) - len(text.lstrip(" "))
        return list(SPACE * spaces + SPACE.join(text.replace(SPACE, "＿").split()))

    def text(self, tokens: Sequence[str]) -> str:
        text = "".join(tokens).replace(SPACE, " ")
        spaces = len(text) - len(text.lstrip(" "))
        return " " * spaces + " ".join(text.split())


TOKENIZERS: Choices[Tokenizer] = {
    "characters": Characters,
    "moses": Moses,
    "none": Tokenizer,
    "unidic": UniDic,
    "wordpunct": WordPunct,
}


def load_tokenizer(name: str, language: str, *, whole_words: bool | None = None) -> Tokenizer:
    """Make a tokenizer by its name; a UserError if there is none, or as `Tokenizer`."""
    if name not in TOKENIZERS:
        raise unknown("tokenizer", name, sorted(TOKENIZERS))
    return TOKENIZERS[name](language, whole_words=whole_words)


def library(module: str) -> Any:
    """Import a module of a package that only those who use it need."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"the package {str(error.name).replace('_', '-')} is not installed"
        hint = "pip install sacremoses fugashi unidic-lite subword-nmt nltk"
        raise UserError(message, hint=hint) from error


# Words to subwords by byte pair encoding (Sennrich et al. 2016), through subword-nmt.

# the end of each subword but the last one of a word
CONTINUES = "@@"
# the head of subword-nmt's list of merges: the end of a word belongs to its last character
BPE_VERSION = "#version: 0.2"


def learn_merges(words: Mapping[str, int], merges: int) -> list[str]:
    """Learn the most frequent merges, `left right` each, in the order in which they were found.

    `words` says how often each word occurs. There are fewer merges if the words have no more pairs
    that occur twice.
    """
    if all(len(word) == 1 for word in words):
        return []

    # Ties are in code point order, so that merges do not depend on the order of the text.
    by_frequency = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    word_list = io.StringIO("".join(f"{unmarked(word)} {count}\n" for word, count in by_frequency))
    merge_list = io.StringIO()
    # It draws a bar of its progress, which only a terminal could show.
    with redirect_stderr(io.StringIO()):
        library("subword_nmt.learn_bpe").learn_bpe(word_list, merge_list, merges, is_dict=True)
    return merge_list.getvalue().splitlines()[1:]


def unmarked(word: str) -> str:
    """Return a word that cannot be taken for a subword: `@@` at its end becomes wide signs."""
    if word.endswith(CONTINUES):
        return word[: -len(CONTINUES)] + "＠＠"
    return word
