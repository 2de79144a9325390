"""Text to symbols and back.

Tokenizers split sentences into words, byte pair encoding splits words into subwords. A codec joins
both: it is all that a model needs, with its vocabularies, to read and write text of its kind of
task.
"""

from __future__ import annotations

import importlib
import io
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, ValidationError

from pam.data.features import Frames, Table, checked, read_array, spaced
from pam.data.joining import AS_LETTERS, TORN, hide_marks, joined, shown_marks
from pam.data.languages import COMMAS, ENDS, SPACE, combining_marks, visible
from pam.data.languages import language as language_of
from pam.data.text_files import Line, cells_of, cleaned
from pam.experiments.parsing import Section, Strict
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import write_text

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)


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

        sacremoses = _library("sacremoses")
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

        self._tagger = _library("fugashi").Tagger("-Owakati")

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
        self._tokenizer = _library("nltk.tokenize").WordPunctTokenizer()

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


TOKENIZERS: dict[str, type[Tokenizer]] = {
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


def _library(module: str) -> Any:
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
    word_list = io.StringIO("".join(f"{_unmarked(word)} {count}\n" for word, count in by_frequency))
    merge_list = io.StringIO()
    # It draws a bar of its progress, which only a terminal could show.
    with redirect_stderr(io.StringIO()):
        _library("subword_nmt.learn_bpe").learn_bpe(word_list, merge_list, merges, is_dict=True)
    return merge_list.getvalue().splitlines()[1:]


def _unmarked(word: str) -> str:
    """Return a word that cannot be taken for a subword: `@@` at its end becomes wide signs."""
    if word.endswith(CONTINUES):
        return word[: -len(CONTINUES)] + "＠＠"
    return word


class Codec(ABC):
    """Prepared text to symbols and back, and what a person types to prepared text."""

    # of a prepared text; the last one is the target
    columns: ClassVar[tuple[str, ...]]

    # whether a typed line is a source, or all that is typed
    by_line: ClassVar[bool] = True

    # length of the vectors that sources consist of, in place of symbols; 0: there are none
    units: int = 0

    # the vectors of the sources of a prepared folder
    clips: Table | None = None

    # whether columns are sentences, whose words consist of symbols; else symbols are the words
    has_words: ClassVar[bool] = False

    # files that it is stored in, in a prepared folder and a model folder alike
    files: ClassVar[tuple[str, ...]]

    # further files, of which a folder may have none
    optional_files: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Codec:
        """Load the codec of a prepared folder or a model folder.

        A UserError says that one of `files` is missing or damaged.
        """

    @abstractmethod
    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Return the symbols of a source (all columns but the last), without the end symbol.

        A UserError says that it is none.
        """

    @abstractmethod
    def target_symbols(self, target: str) -> list[str]:
        """Return the symbols of a target, without the end symbol."""

    @abstractmethod
    def typed_source(self, line: str) -> tuple[str, ...]:
        """Return the source columns that a typed line means; a UserError if it means none."""

    def typed_target(self, line: str) -> str:
        """Return the target column that a typed line means."""
        return line

    def unread(self, line: str) -> int:
        """Return how many symbols at the end of a typed source no model reads."""
        return 0

    @abstractmethod
    def target_text(self, symbols: Sequence[str]) -> str:
        """Return the target column that symbols spell."""

    @classmethod
    def files_in(cls, folder: Path) -> tuple[str, ...]:
        """Return the names of the codec's files that a folder has."""
        optional = [name for name in cls.optional_files if (folder / name).is_file()]
        return (*cls.files, *optional)

    def readable(self, target: str) -> str:
        """Return a target column as a person writes it."""
        return target

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        """Return for each symbol the index of the word that it is a part of, from 0."""
        return list(range(len(symbols)))


OPENING = "([{"
CLOSING = ")]}"


def split_features(text: str, separator: str) -> list[str]:
    """Split a bundle of features at separators outside of brackets.

    So `N;NOM(PL;PSS(1,PL))` has two. Where brackets do not match, they are characters as others
    are.
    """
    pieces = text.split(separator)
    nested: list[str] = []
    depth = 0
    for piece in pieces:
        if depth > 0:
            nested[-1] += separator + piece
        else:
            nested.append(piece)

        depth += sum((char in OPENING) - (char in CLOSING) for char in piece)
        if depth < 0:
            break

    # A bracket that is not closed, or never opened, is a character.
    features = nested if depth == 0 else pieces
    return [feature.strip() for feature in features if feature.strip()]


class InflectionSettings(Strict):
    """An inflection codec's file: how the data's files write a row, and the order of features."""

    separator: str = Field(",", min_length=1, description="separates two features")
    delimiter: str = Field("\t", min_length=1, max_length=1, description="separates two columns")
    quotes: bool = Field(False, description="columns may be in double quotes, as in CSV")
    columns: list[str] = Field(
        ["lemma", "features", "form"], description="order of the columns; `-` is not read"
    )
    order: list[str] = Field(
        [], description="features in the order of training, where all its rows have the same one"
    )


def order_of_features(bundles: Iterable[Sequence[str]]) -> list[str] | None:
    """Return the features in one order that every bundle has, or None if there is no such order.

    Features that are alone in their bundles are left out.
    """
    before: dict[str, set[str]] = {}
    for bundle in dict.fromkeys(map(tuple, bundles)):
        for first, second in pairwise(bundle):
            before.setdefault(first, set())
            before.setdefault(second, set()).add(first)

    sorter = TopologicalSorter({feature: before[feature] for feature in sorted(before)})
    try:
        sorter.prepare()
    except CycleError:
        return None

    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


class InflectionCodec(Codec):
    """Symbols of lemmas, features and forms.

    It has a file only where rows are not written in the usual way, or features have an order.
    """

    columns = ("lemma", "features", "form")
    files = ()
    optional_files = ("codec.json",)

    def __init__(self, settings: InflectionSettings | None = None) -> None:
        self.settings = settings or InflectionSettings()
        self._ranks = {feature: rank for rank, feature in enumerate(self.settings.order)}

    @classmethod
    def load(cls, folder: Path) -> InflectionCodec:
        files = cls.files_in(folder)
        if not files:
            return cls()

        return cls(load_settings(InflectionSettings, folder / files[0]))

    def save(self, folder: Path) -> None:
        """Write the settings into a folder if they are not those without a file.

        A file that another preparation left there is deleted.
        """
        path = folder / self.optional_files[0]

        if self.settings == InflectionSettings():
            path.unlink(missing_ok=True)
        else:
            write_text(path, self.settings.model_dump_json(indent=1) + "\n")

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Return the symbols of (lemma, features): each feature, then each character of the lemma.

        A feature of one character, such as `V`, becomes `feature=V`: it is not the letter.
        """
        separator = self.settings.separator
        if len(columns) != 2 or not columns[0].strip():
            example = separator.join(("case=dative", "number=plural"))
            raise UserError(
                "expected a lemma, a tab and features", hint=f"for example: Haus<TAB>{example}"
            )

        lemma, features = (visible(column).strip() for column in columns)
        names = self.ordered(split_features(features, separator))
        return [*(f"feature={name}" if len(name) == 1 else name for name in names), *lemma]

    def with_order(self, order: list[str]) -> InflectionCodec:
        """Return the codec that reads features in this order."""
        return InflectionCodec(self.settings.model_copy(update={"order": order}))

    def ordered(self, features: list[str]) -> list[str]:
        """Return the features of a bundle, which is a set, in the order that training has.

        Features that training lacks keep their places.
        """
        places = [place for place, feature in enumerate(features) if feature in self._ranks]
        known = sorted((features[place] for place in places), key=self._ranks.__getitem__)

        in_order = list(features)
        for place, feature in zip(places, known, strict=True):
            in_order[place] = feature
        return in_order

    def target_symbols(self, target: str) -> list[str]:
        return list(visible(target).strip())

    def typed_source(self, line: str) -> tuple[str, ...]:
        """Return lemma and features of a line, which may be a whole row of the data's files.

        Columns are separated by tabs or as in these files, features as in these files. A line
        without that separator may have commas in its place.
        """
        settings = self.settings
        line = visible(line)
        columns = tuple(line.split("\t"))
        if len(columns) == 1 and settings.delimiter in line:
            columns = tuple(cells_of(Line(line, Path(), 1), settings.delimiter, settings.quotes))

        # A whole row, with the form.
        if len(columns) == len(settings.columns):
            cells = dict(zip(settings.columns, columns, strict=True))
            columns = (cells["lemma"], cells["features"])

        if len(columns) == 2 and len(split_features(columns[1], settings.separator)) == 1:
            lemma, features = columns
            columns = (lemma, settings.separator.join(split_features(features, ",")))

        self.source_symbols(columns)  # refuses what is no source
        return columns

    def target_text(self, symbols: Sequence[str]) -> str:
        return "".join(symbols)


class SideSettings(Strict):
    """One side of a translation codec's file."""

    language: str
    tokenize: str = Field(description="name of a tokenizer")
    lowercase: bool
    merges: list[Annotated[str, Field(pattern=r"^[^ \n]+ [^ \n]+$")]] | None = Field(
        None, min_length=1, description="of byte pair encoding; null: words are symbols"
    )
    # Left out where it is false, as in files from before there was this key.
    whole_words: bool = Field(
        False,
        description="words with an apostrophe inside are not torn by Moses",
        exclude_if=lambda value: not value,
    )

    @classmethod
    def of_new_data(cls, **settings: Any) -> SideSettings:
        """Return the settings with which new data are made."""
        tokenizer = TOKENIZERS[settings["tokenize"]]
        return cls(**settings, whole_words=tokenizer.keeps_words(settings["language"]))


class Settings(Strict):
    """A translation codec's file."""

    source: SideSettings
    target: SideSettings


class SideCodec:
    """One side of a translation: sentences to words to symbols, and back.

    Symbols are subwords, or words if there are no merges.
    """

    def __init__(self, settings: SideSettings) -> None:
        self._settings = settings

        self._bpe = None
        if settings.merges is not None:
            merge_list = io.StringIO("\n".join([BPE_VERSION, *settings.merges, ""]))
            self._bpe = _library("subword_nmt.apply_bpe").BPE(merge_list, separator=CONTINUES)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(
            self._settings.tokenize,
            self._settings.language,
            whole_words=self._settings.whole_words,
        )

    def words(self, text: str, *, tokenized: bool = False) -> list[str]:
        """Return the words of a sentence.

        A `tokenized` text holds them already, with white space between.
        """
        if tokenized:
            return self.cased(unescape_moses(text)).split()
        return self.cased(" ".join(self.tokenizer.tokens(text))).split()

    def typed_words(self, line: str, *, is_target: bool = False) -> list[str]:
        """Return the words of a line that a person types.

        It is cleaned as training text is, whose targets keep their indentation in programs.
        """
        is_program = is_target and not language_of(self._settings.language).tag
        return self.words(cleaned(line, keep_indentation=is_program))

    def cased(self, text: str) -> str:
        """Return the text, in small letters if the task's text is."""
        if self._settings.lowercase:
            return language_of(self._settings.language).lower(text)
        return text

    def symbols(self, words: Sequence[str]) -> list[str]:
        """Return subwords, of which all but a word's last end in `@@`, or the words themselves."""
        if self._bpe is None:
            return list(words)
        return list(self._bpe.segment_tokens(map(_unmarked, words)))

    def joined(self, symbols: Sequence[str]) -> list[str]:
        """Return the words that symbols spell; an end that was left open is closed."""
        if self._bpe is None:
            return list(symbols)

        words = defaultdict[int, str](str)
        for word_index, symbol in zip(self.numbers(symbols), symbols, strict=True):
            words[word_index] += symbol.removesuffix(CONTINUES)
        return list(words.values())

    def numbers(self, symbols: Sequence[str]) -> list[int]:
        """Return for each symbol the index of its word, from 0."""
        word_indices = []
        word_index = 0
        for symbol in symbols:
            word_indices.append(word_index)
            if self._bpe is None or not symbol.endswith(CONTINUES):
                word_index += 1
        return word_indices


def load_settings(kind: type[Section], path: Path) -> Section:
    """Read a codec's file; a UserError if it is missing, or not of this kind."""
    hint = "prepare the data again, or take the file from where the model was made"
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError("no such file", file=path, hint=hint) from error
    except ValidationError as error:
        raise UserError("this is not a codec of this kind of task", file=path, hint=hint) from error


class TranslationCodec(Codec):
    """Both sides of a translation; a column holds words with one space between two."""

    columns = ("source", "target")
    files = ("codec.json",)
    has_words = True
    settings_type: ClassVar[type[Settings]] = Settings

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

        self.source = SideCodec(settings.source)
        self.target = SideCodec(settings.target)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(load_settings(cls.settings_type, folder / cls.files[0]))

    def save(self, folder: Path) -> None:
        """Write the settings into a folder, whole or not at all."""
        write_text(folder / self.files[0], self.settings.model_dump_json(indent=1) + "\n")

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        if len(columns) != 1 or not columns[0].strip():
            raise UserError("expected a sentence", hint="write one sentence a line, without tabs")

        return self.source.symbols(columns[0].split())

    def target_symbols(self, target: str) -> list[str]:
        return self.target.symbols(target.split())

    def typed_source(self, line: str) -> tuple[str, ...]:
        words = self.source.typed_words(line)
        if not words:
            raise UserError("expected a sentence", hint="write one sentence a line")

        return (" ".join(words),)

    def typed_target(self, line: str) -> str:
        return " ".join(self.target.typed_words(line, is_target=True))

    def target_text(self, symbols: Sequence[str]) -> str:
        return " ".join(self.target.joined(symbols))

    def readable(self, target: str) -> str:
        return self.target.tokenizer.text(target.split())

    def words(self, symbols: Sequence[str], side: Side) -> list[int]:
        side_codec = self.source if side == "source" else self.target
        return side_codec.numbers(symbols)


class SummarizationSettings(Settings):
    """A summarization codec's file."""

    longest: int | None = Field(
        None, ge=1, description="symbols of a source that are read; null: all"
    )


class SummarizationCodec(TranslationCodec):
    """Both sides of a summary.

    A column holds the whole text, of which a model reads the first symbols.
    """

    settings_type = SummarizationSettings
    settings: SummarizationSettings
    by_line = False

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        return super().source_symbols(columns)[: self.settings.longest]

    def unread(self, line: str) -> int:
        columns = self.typed_source(line)
        return len(super().source_symbols(columns)) - len(self.source_symbols(columns))


class CaptioningSettings(Strict):
    """A captioning codec's file."""

    units: int = Field(ge=1, description="of what is known of a frame")
    first: int | None = Field(
        None, description="frames that are read, from the first on; null: all"
    )
    spaced: int | None = Field(None, description="of these so many, equally spaced; null: all")
    target: SideSettings


class CaptioningCodec(Codec):
    """Clips to their frames, and words of captions.

    The codec of a prepared folder knows its clips by their names. That of a model reads the `.npy`
    file that a line names.
    """

    columns = ("source", "target")
    files = ("codec.json",)

    def __init__(self, settings: CaptioningSettings, clips: Table | None = None) -> None:
        self.settings = settings
        self.clips = clips
        self.units = settings.units

        self.target = SideCodec(settings.target)

    @classmethod
    def load(cls, folder: Path) -> CaptioningCodec:
        settings = load_settings(CaptioningSettings, folder / cls.files[0])
        if not (folder / Table.FILES[0]).is_file():
            return cls(settings)

        return cls(settings, Table.load(folder))

    def save(self, folder: Path) -> None:
        """Write the settings into a folder, whole or not at all."""
        write_text(folder / self.files[0], self.settings.model_dump_json(indent=1) + "\n")

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Return the clip's frames, as `Frames`."""
        (clip,) = columns
        if self.clips is not None and clip in self.clips.places:
            return Frames(self.clips[clip])

        try:
            vectors = checked(read_array(Path(clip)), clip, self.units)
        except UserError as error:
            # The error's file and line are those of the text that names the clip.
            raise UserError(f"{clip}: {error.message}", hint=error.hint) from error

        return Frames(spaced(vectors, self.settings.first, self.settings.spaced))

    def target_symbols(self, target: str) -> list[str]:
        return target.split()

    def typed_source(self, line: str) -> tuple[str, ...]:
        return (line.strip(),)

    def typed_target(self, line: str) -> str:
        return " ".join(self.target.typed_words(line))

    def target_text(self, symbols: Sequence[str]) -> str:
        return " ".join(symbols)

    def readable(self, target: str) -> str:
        return self.target.tokenizer.text(target.split())


# by kind of task; word alignments have that of the task they were prepared for
CODECS: dict[str, type[Codec]] = {
    "inflection": InflectionCodec,
    "translation": TranslationCodec,
    "alignment": TranslationCodec,
    "summarization": SummarizationCodec,
    "captioning": CaptioningCodec,
}


def load_codec(kind: str, folder: Path) -> Codec:
    """Load the codec of a prepared folder or a model folder.

    A UserError says that there is no such kind, or as `Codec.load`.
    """
    if kind not in CODECS:
        raise unknown("kind of task", kind, sorted(CODECS))
    return CODECS[kind].load(folder)
