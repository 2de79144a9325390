"""Words and marks, as the Moses tokenizer splits them, joined to a text as people write it.

sacremoses joins few marks of languages other than English: its output has spaces around guillemets
and inside of words with an apostrophe. So marks inside of words stay there when a text is split
(`hide_marks`), and every other mark has its own rule for the spaces around it (`joined`). Where
words do not say whether there was a space, as in `and / or`, the usual spelling is taken.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from pam.data.languages import COMMAS, ENDS, HAN, Language, has_word

# Marks that open, each with those that may close it.
CLOSED_BY = {
    "„": "“”",
    "‚": "‘’",
    "“": "”",
    "‘": "’",
    "«": "»",
    "»": "«»",
    "‹": "›",
    "›": "‹›",
    "”": "”",
    "’": "’",
    '"': '"',
    "'": "'",
    "`": "`'",
}
APOSTROPHES = frozenset("'’")
QUOTES = frozenset('"«“')
AFTER_WORD = re.compile(rf"[{re.escape(''.join(sorted(ENDS)) + COMMAS)}.,!?:;%٪‰)\]}}…\u0f0b]+")
BEFORE_WORD = re.compile(r"[(\[{¿¡]+")
# between two words, without spaces
BETWEEN_WORDS = frozenset("/־")
# marks of Chinese and Japanese, which have no spaces around them
WIDE = re.compile(r"[\u3000-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65“”‘’…—·]")
# in French after a space, as «» are inside of them
FRENCH = frozenset("?!:;%»")
# German and others: what follows an apostrophe in a word that Moses tore at it
ENDINGS = frozenset(
    {"s", "n", "ne", "nen", "nem", "ner", "m", "t", "re", "ve", "ll", "d", "sche", "schen", "scher"}
)
EXCLAIMED = frozenset("?!")
BEGINNINGS = frozenset({"d", "l", "o"})
# Languages that write a percent sign before the number.
PERCENT_FIRST = frozenset({"tr", "az", "eu", "ku"})
# Languages whose endings follow a colon, as in `EU:n`.
COLON_IN_WORD = frozenset({"fi", "sv"})
# Particles of Korean that follow a mark without a space.
PARTICLES = frozenset(
    ("라고", "이라고", "라는", "이라는", "하고", "고", "은", "는", "이", "가", "을", "를", "의")
    + ("에", "에서", "에게", "와", "과", "로", "으로", "도", "만", "까지", "부터", "입니다", "이다")
)
# Moses splits words of these languages at apostrophes, and so are texts that others have published.
TORN = frozenset({"de", "en", "ro", "vi"})
# Words of these are split after what is elided: `l'home` becomes `l' home`.
ELIDED = frozenset({"ca", "co", "fr", "fur", "it", "lij", "lmo", "oc", "pms", "sc", "scn", "vec"})
# Marks inside of words of any language, and of some.
OF_ALL_LANGUAGES = "'’·‧‐‑_"
MARKS_IN_WORDS = {"he": '"״׳', "yi": '"״׳', "bo": "་", "dz": "་", "hy": "՞՜՛"}
# Marks inside of words while Moses splits a text, which takes these for letters.
AS_LETTERS = {mark: chr(0xE000 + number) for number, mark in enumerate("'’·‧‐‑_\"״׳་՞՜՛")}
WORD = re.compile(r"\w")


def hide_marks(text: str, lang: Language) -> str:
    """Return a text whose marks inside of words are letters of nobody's, as Moses splits at marks.

    `shown_marks` turns them back. What is elided before a word gets a space after it.
    """
    marks = OF_ALL_LANGUAGES + MARKS_IN_WORDS.get(lang.tag, "")
    pieces = []
    for index, character in enumerate(text):
        before = text[index - 1] if index > 0 else " "
        after = text[index + 1 : index + 2]
        if character not in marks or not has_word(before):
            pieces.append(character)
        elif character in APOSTROPHES and lang.tag in ELIDED:
            follows = has_word(after) or after in QUOTES
            pieces.append(f"{AS_LETTERS[character]} " if follows else character)
        elif (has_word(after) and not after.isdigit()) or _may_end_word(character, lang):
            pieces.append(AS_LETTERS[character])
        else:
            pieces.append(character)
    return "".join(pieces)


def shown_marks(text: str) -> str:
    """Return a text with the marks that `hide_marks` hid."""
    for mark, letter in AS_LETTERS.items():
        text = text.replace(letter, mark)
    return text


def _may_end_word(mark: str, lang: Language) -> bool:
    """Tell whether a mark ends words: an elided word of Greek, an abbreviation of Hebrew."""
    return mark == "׳" or (lang.tag == "el" and mark in APOSTROPHES)


def joined(words: Sequence[str], lang: Language) -> str:
    """Return the text that words of a language other than English are of."""
    # For each space between two words: whether it is left out.
    glued = [False] * (len(words) + 1)
    opened: list[str] = []

    for index, word in enumerate(words):
        before = words[index - 1] if index > 0 else ""
        after = words[index + 1] if index + 1 < len(words) else ""
        left, right = _glue(word, before, after, lang)

        if word in CLOSED_BY or any(word in CLOSED_BY[mark] for mark in opened):
            left, right = _glue_quote(word, before, after, words[index + 1 :], opened, lang)
        glued[index] = glued[index] or left
        glued[index + 1] = right

    pieces: list[str] = []
    for word, is_glued in zip(words, glued, strict=False):
        pieces.append(word if is_glued or not pieces else f" {word}")
    return "".join(pieces)


def _glue(word: str, before: str, after: str, lang: Language) -> tuple[bool, bool]:
    """Return whether a mark or word has no space before it, and none after it."""
    if lang.script in HAN or lang.tag == "ja":
        is_wide = bool(WIDE.fullmatch(word))
        if is_wide or (_is_wide(word[0]) and before and _is_wide(before[-1])):
            return True, is_wide
        if AFTER_WORD.fullmatch(word) or BEFORE_WORD.fullmatch(word):
            left = bool(AFTER_WORD.fullmatch(word)) or _is_wide(before[-1:])
            return left, bool(BEFORE_WORD.fullmatch(word)) or _is_wide(after[:1])

    between_digits = before[-1:].isdigit() and after[:1].isdigit()
    if word in BETWEEN_WORDS or (word in ("–", ":") and between_digits):
        return True, True
    if word == ":" and lang.tag in COLON_IN_WORD and after[:1].islower():
        return True, True
    if word == "%" and lang.tag in PERCENT_FIRST and after[:1].isdigit():
        return False, True
    if word in FRENCH and lang.tag == "fr":
        return before in EXCLAIMED and word in EXCLAIMED, False
    if AFTER_WORD.fullmatch(word):
        return True, lang.tag == "ko" and after in PARTICLES
    if BEFORE_WORD.fullmatch(word):
        return False, True
    if len(word) == 1 and _is_currency(word):
        return False, after[:1].isdigit() and not before[-1:].isdigit()

    is_elided = lang.tag in ELIDED and len(word) > 1 and word[-1] in APOSTROPHES
    return False, is_elided and (bool(WORD.match(after)) or after in CLOSED_BY)


def _glue_quote(
    word: str, before: str, after: str, rest: Sequence[str], opened: list[str], lang: Language
) -> tuple[bool, bool]:
    """Return the same as `_glue` for a quotation mark or an apostrophe; note what it opens."""
    is_spaced = lang.tag == "fr" and word in "«»"

    closes = bool(opened) and word in CLOSED_BY[opened[-1]]
    if not closes and word in APOSTROPHES and lang.tag in TORN and _is_in_word(before, after):
        return True, True
    if closes:
        opened.pop()
        return not is_spaced, lang.tag == "ko" and after in PARTICLES

    if any(mark in CLOSED_BY.get(word, "") for mark in rest):
        opened.append(word)
        return False, not is_spaced

    # Nothing closes it: it ends a word, as in `5"` and `students'`, or nothing is before it.
    return bool(before), not before


def _is_in_word(before: str, after: str) -> bool:
    """Tell whether an apostrophe between two words is inside of one that was torn at it."""
    if not (before[-1:].isalnum() and after[:1].isalpha()):
        return False
    return after.lower().rstrip(".") in ENDINGS or before.lower() in BEGINNINGS


def _is_wide(character: str) -> bool:
    """Tell whether a character, or nothing, is one of Chinese or Japanese."""
    return "\u3040" <= character <= "\u9fff" or bool(WIDE.match(character))


def _is_currency(character: str) -> bool:
    return unicodedata.category(character) == "Sc"
