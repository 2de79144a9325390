"""Languages: their codes, scripts and sentence ends, and the tools that are right for them.

A code is ISO 639-1 (`zh`) or 639-3 (`zho`, `cmn`), and may have a script (ISO 15924) and a region:
`zh-Hant`, `pt-BR`, `zho_Hans`. A name that is no code, as the sides of a pair may have, stands for
a language with spaces between words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby

LANGUAGE = r"^[A-Za-z]{2,3}([-_][A-Za-z]{4})?([-_]([A-Za-z]{2}|[0-9]{3}))?$"

# Scripts without spaces between words (Unicode Standard Annex 14, classes ID, SA, AK and AS;
# Tibetan marks syllables).
UNSPACED = frozenset(
    {
        "Bali",
        "Hani",
        "Hans",
        "Hant",
        "Hira",
        "Java",
        "Jpan",
        "Kana",
        "Khmr",
        "Lana",
        "Laoo",
        "Mymr",
        "Tale",
        "Talu",
        "Tavt",
        "Thai",
        "Tibt",
    }
)
HAN = frozenset({"Hani", "Hans", "Hant"})
# Of these, scripts whose sentences end in a space or in nothing.
WITHOUT_SENTENCE_MARKS = frozenset({"Lana", "Laoo", "Tale", "Talu", "Tavt", "Thai"})

FULL_STOPS = ".．｡。․﹒︒"
# Unicode's property Sentence_Terminal in the basic plane, but for `၊`, which divides a sentence,
# and with the marks of Tibetan, which end phrases and sentences alike.
ENDS = frozenset(
    f"{FULL_STOPS}!?‼‽⁇⁈⁉！？﹖﹗︕︖։؝؞؟۔܀܁܂߹࠷࠹࠽࠾।॥།༎။።፧፨᙮᜵᜶។៕"
    "᠃᠉᥄᥅᪨᪩᪪᪫\u1b4e\u1b4f᭚᭛᭞᭟᭽᭾\u1b7f᰻᰼᱾᱿⳹⳺⳻⸮⸼⹓⹔꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫"
)
COMMAS = "،؛՝፣፤、，；：၊"  # marks other than ASCII's that follow a word without a space
MORE_ENDS = {"el": frozenset(";")}  # as Unicode composes the question mark of Greek
# Words that may follow an end and still belong to the sentence.
CLOSING = frozenset({"''", "'", "-rrb-"})
# Quotation marks that close in some languages and open in others, with those that open then.
OPENED_BY = {'"': '"', "“": "„", "«": "»", "‘": "‚", "‹": "›"}
# Languages that write »so« and not «so».
INWARD_QUOTES = frozenset({"bs", "cs", "da", "de", "hr", "hu", "sk", "sl", "sr"})

SPACE = "▁"  # stands for a space where characters are words
JOINERS = "\u200c\u200d"  # shape letters in the middle of words (Persian, Indic scripts)
DOTLESS = str.maketrans({"I": "ı", "İ": "i"})


@dataclass(frozen=True)
class Language:
    """A language and its script; fields that are not known are empty."""

    code: str  # as it was written
    tag: str = ""  # code of ISO 639-1, or of 639-3 where that has none
    script: str = ""  # code of ISO 15924

    @property
    def name(self) -> str:
        """The English name, or the code if the language is not known."""
        from babel import Locale

        return str(Locale("en").languages.get(self.tag, self.code))

    @property
    def is_spaced(self) -> bool:
        """True if words are separated by spaces."""
        return self.script not in UNSPACED

    @property
    def has_sentence_marks(self) -> bool:
        """True if marks end sentences, not spaces."""
        return self.script not in WITHOUT_SENTENCE_MARKS

    @property
    def ends(self) -> frozenset[str]:
        """Characters that end a sentence."""
        return ENDS | MORE_ENDS.get(self.tag, frozenset())

    @property
    def bleu_tokenizers(self) -> tuple[str, ...]:
        """Tokenizers of sacreBLEU, the best one first.

        The next ones are for where the package of the first is not installed.
        """
        if self.tag in ("ja", "ko"):
            return (f"{self.tag}-mecab", "char")
        if self.script in HAN:
            return ("zh",)
        if not self.is_spaced:
            return ("char",)
        return ("13a",)

    @property
    def has_rouge_stemmer(self) -> bool:
        """True if ROUGE may compare Porter's stems, which are of English."""
        return self.tag == "en"

    @property
    def has_meteor(self) -> bool:
        """True if METEOR is defined.

        Its weights, stems, synonyms and paraphrases that are at hand are of English.
        """
        return self.tag == "en"

    def lower(self, text: str) -> str:
        """Return the text in small letters; in Turkish and Azerbaijani, that of `I` has no dot."""
        if self.tag in ("tr", "az") and self.script == "Latn":
            text = text.translate(DOTLESS)
        return text.lower()


@cache
def language(code: str) -> Language:
    """Return the language of a code; of a name that is no code, one of which nothing is known."""
    match = re.fullmatch(
        r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{4}))?(?:[-_]([A-Za-z]{2}|[0-9]{3}))?", code
    )
    if match is None:
        return Language(code)

    from babel import Locale
    from babel.core import get_global

    written_tag = match[1].lower()
    script = (match[2] or "").title()
    region = (match[3] or "").upper()
    if script and script not in Locale("en").scripts:
        return Language(code)

    # An alias may imply a script, as `sh` does: `sr_Latn`.
    tag, *implied = get_global("language_aliases").get(written_tag, written_tag).split("_")
    likely_subtags = get_global("likely_subtags")
    likely = likely_subtags.get(f"{tag}_{region}") or likely_subtags.get(tag)
    if likely is None and tag not in Locale("en").languages:
        return Language(code)

    script = script or next((part for part in implied if len(part) == 4), "")
    if not script and likely is not None:
        script = likely.split("_")[1]
    return Language(code, tag, script)


# Letters, without marks, above which the mean word of a language without spaces is no word: Chinese
# words have 1.7, those of Thai or Burmese 3 to 4.
LONG_WORD = 3
LONG_WORD_OF_SYLLABLES = 5


def are_phrases(words: Sequence[str], lang: Language) -> bool:
    """Check whether the words of a language without spaces are whole phrases."""
    if lang.is_spaced:
        return False

    lengths = []
    for word in words:
        letters = sum(unicodedata.category(character)[0] == "L" for character in word)
        if letters > 0:
            lengths.append(letters)

    is_han = lang.script in HAN or lang.tag == "ja"
    longest = LONG_WORD if is_han else LONG_WORD_OF_SYLLABLES
    return bool(lengths) and sum(lengths) > longest * len(lengths)


def segmentation_hint(
    words: Sequence[str], lang: Language, tokenizer: str, *, subwords: bool = True
) -> str:
    """Return a hint for a language without spaces whose words are whole phrases, else nothing.

    It says what to write in the format; `subwords` says whether the format has them as a choice.
    """
    if not are_phrases(words, lang):
        return ""

    names = "`unidic` or `characters`" if lang.tag == "ja" else "`characters`"
    choice = f"write {names} for {lang.code} under `tokenize`"
    if subwords:
        choice += ", or `subwords: {merges: 8000}`"
    return (
        f"{lang.name} has no spaces between words, and the tokenizer {tokenizer} finds none inside"
        f" of a phrase: {choice}, or give text that is split into words"
    )


# Words and sentences.


@cache
def combining_marks() -> str:
    """Return all characters that combine with the one before them, and the joiners."""
    planes = chain(range(0x20000), range(0xE0100, 0xE01F0))
    return JOINERS + "".join(
        character for character in map(chr, planes) if unicodedata.category(character)[0] == "M"
    )


def composed(text: str) -> str:
    """Return the text in composed form (NFC), in which all texts are read and compared."""
    return unicodedata.normalize("NFC", text)


# Characters that show nothing and that nobody types: marks of direction, places where a line may
# break, byte order marks. The joiners are not among them, as they shape letters.
INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    """Return the text without what is invisible, in composed form."""
    return composed(INVISIBLE.sub("", text))


def shown(symbol: str) -> str:
    """Return a symbol for a message, with numbers for characters that show nothing."""
    is_joiner = not symbol.strip(JOINERS)
    pieces = []
    for character in symbol:
        is_seen = character.isprintable() or (character in JOINERS and not is_joiner)
        pieces.append(character if is_seen else f"U+{ord(character):04X}")
    return "".join(pieces)


def words_of(text: str) -> list[str]:
    """Return the runs of letters, digits and the marks that combine with them.

    All other characters separate words.
    """
    return ["".join(run) for is_word, run in groupby(text, key=_is_of_word) if is_word]


@cache
def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character in JOINERS


def has_word(text: str) -> bool:
    """Check whether there is a letter, a digit or a mark that combines with one."""
    return any(map(_is_of_word, text))


def compared_words(text: str, lang: Language, *, segmented: bool) -> list[str]:
    """Return the words that scores of summaries compare: small letters, no punctuation.

    If the language has no spaces between words and the text is not `segmented` into them,
    characters with their combining marks are compared.
    """
    words = words_of(lang.lower(composed(text)))
    if lang.is_spaced or segmented:
        return words
    return [piece for word in words for piece in _characters(word)]


def _characters(word: str) -> list[str]:
    """Split a word into characters, each with the marks that combine with it.

    Numbers, and names in scripts that have capitals, stay whole.
    """
    pieces: list[str] = []
    in_run = False
    for character in word:
        category = unicodedata.category(character)
        is_of_run = category[0] == "N" or category in ("Lu", "Ll", "Lt")
        combines = category[0] == "M" or character in JOINERS

        # A run of digits or of letters with case stays whole.
        if pieces and (combines or (is_of_run and in_run)):
            pieces[-1] += character
        else:
            pieces.append(character)
        in_run = is_of_run or (combines and in_run)

    return pieces


def sentences_of(words: Sequence[str], lang: Language) -> Iterator[list[str]]:
    """Yield words sentence by sentence.

    A sentence ends at a mark and what closes after it, or at the last word. A mark may be a word,
    or end one, or, where words have no spaces between them, be inside of one; but a full stop is a
    word, as a word that ends in one is an abbreviation.
    """
    if not lang.is_spaced:
        words = [piece for word in words for piece in _cut_at_ends(word, lang)]
    are_characters = SPACE in words

    sentence: list[str] = []
    ended = False
    for index, word in enumerate(words):
        ends = _ends(word, lang)
        if are_characters and word == ".":
            # `3.5` and `U.S.` have stops inside.
            following = words[index + 1] if index + 1 < len(words) else SPACE
            ends = following == SPACE or _closes(following, sentence, lang)

        # A further mark, as the second of `?!`, and what closes belong to the sentence.
        belongs = (ends and not has_word(word)) or _closes(word, sentence, lang)
        if ended and not belongs:
            yield sentence
            sentence = []
            ended = False
        sentence.append(word)
        ended = ended or ends

    if sentence:
        yield sentence


def _ends(word: str, lang: Language) -> bool:
    """Check whether a word is or has the mark that ends a sentence."""
    bare = word
    while bare and _may_close(bare[-1]):
        bare = bare[:-1]
    return bare == "." or (bare[-1:] != "." and bare[-1:] in lang.ends)


def _closes(word: str, sentence: Sequence[str], lang: Language) -> bool:
    """Check whether a word after the end of a sentence belongs to it.

    Brackets and quotation marks that close do.
    """
    text = "".join(sentence)
    if word in OPENED_BY:
        opening = OPENED_BY[word]
        if opening == word:
            return text.count(opening) % 2 == 1
        return text.count(opening) > text.count(word)

    if word == "»" and lang.tag in INWARD_QUOTES:
        return text.count("«") > text.count("»")
    if word in CLOSING:
        return True
    return all(unicodedata.category(character) in ("Pe", "Pf") for character in word)


def _may_close(character: str) -> bool:
    """Check whether a character can belong to a sentence's end, after the mark that ends it."""
    if character in OPENED_BY or character == "'":
        return True
    return unicodedata.category(character) in ("Pe", "Pf")


def _cut_at_ends(word: str, lang: Language) -> list[str]:
    """Cut a word after the marks in it that end sentences, and what closes after them."""
    pieces = [""]
    ended = False
    for character in word:
        ends = character != "." and character in lang.ends
        if ended and not ends and not _may_close(character):
            pieces.append("")
            ended = False

        pieces[-1] += character
        ended = ended or ends

    return pieces
