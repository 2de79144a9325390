"""Translation: a sentence gives its translation.

A row's columns hold words with one space between two; its symbols are those words, or subwords.
Four stages prepare them: `extract` (files to sentences), `tokenize` (sentences to words), `segment` (words to symbols)
and `index` (symbols to ids).
"""

from __future__ import annotations

import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from pam.data.dataset import SPLITS, text_file, write_split
from pam.data.prepare import Stage, Task, class_names
from pam.data.readers import CONTROL, Pair, Reader, lines_of, load_reader
from pam.data.tokenizers import (
    SIDES,
    TOKENIZERS,
    Settings,
    Side,
    SideSettings,
    TranslationCodec,
    learn_merges,
    unescape_moses,
)
from pam.data.vocabulary import Vocabulary
from pam.io import Strict, UserError, atomic_write

LANGUAGE = r"^[a-z]{2,3}$"

REFERENCES = "{split}.target.txt"  # sentences of the target language as people write them, line by line with the pairs
SCORED = ("dev", "test")  # splits whose outputs are compared with references


class SubwordsFormat(Strict):
    """Byte pair encoding."""

    merges: int = Field(ge=1, description="merges that are learned, on each side or for both")
    joint: bool = Field(False, description="learn one list of merges from both languages")


class VocabularyFormat(Strict):
    """Which symbols of the training text have an id; the others are unknown."""

    size: int | dict[str, int] | None = Field(None, description="so many of the most frequent, or so many by language")
    min_count: int = Field(1, ge=1, description="only those that occur so often")

    @field_validator("size")
    @classmethod
    def _positive(cls, size: int | dict[str, int] | None) -> int | dict[str, int] | None:
        if any(number is not None and number < 1 for number in (size.values() if isinstance(size, dict) else [size])):
            raise ValueError("a vocabulary has at least one word")
        return size

    def size_for(self, language: str) -> int | None:
        return self.size.get(language) if isinstance(self.size, dict) else self.size


class TranslationFormat(Strict):
    """Keys that a data set of sentence pairs may have under `format`."""

    source: str = Field(pattern=LANGUAGE, description="code of the language translated from")
    target: str = Field(pattern=LANGUAGE, description="code of the language translated to")
    read: Annotated[SerializeAsAny[Reader], BeforeValidator(load_reader)] = Field(
        "lines", description="how the files hold pairs, see pam.data.readers", validate_default=True
    )
    blank_lines: Literal["refuse", "drop"] = Field("refuse", description="`drop` leaves out pairs without words")
    tokenize: str | dict[str, str] = Field("moses", description="tokenizer, or one by language (pam.data.tokenizers)")
    tokenized: bool = Field(False, description="the files hold words already, split as `tokenize` would")
    lowercase: bool = Field(False, description="all letters small")
    train_pairs: int | None = Field(None, ge=1, description="train on so many pairs, the first ones; null: all")
    max_length: int | None = Field(None, ge=1, description="words of the longest training sentence")
    max_ratio: float | None = Field(None, ge=1, description="of a training pair's longer to its shorter, in words")
    dev_every: int | None = Field(None, ge=2, description="every n-th training pair becomes development data")
    subwords: SubwordsFormat | None = Field(None, description="byte pair encoding; null: whole words")
    vocabulary: VocabularyFormat = Field(VocabularyFormat(), description="which symbols have ids")

    @model_validator(mode="after")
    def _serves_its_languages(self) -> TranslationFormat:
        if self.source == self.target:
            raise ValueError("source and target are the same language")
        for name in map(self.tokenizer_for, self.languages):
            if name not in TOKENIZERS:
                raise ValueError(f"no tokenizer `{name}`; known: {', '.join(sorted(TOKENIZERS))}")
        return self

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source, self.target

    def tokenizer_for(self, language: str) -> str:
        return self.tokenize if isinstance(self.tokenize, str) else self.tokenize.get(language, "none")

    def codec_settings(self) -> Settings:
        """The codec without merges."""
        source, target = (
            SideSettings(language=one, tokenize=self.tokenizer_for(one), lowercase=self.lowercase, merges=None)
            for one in self.languages
        )
        return Settings(source=source, target=target)


# Pairs of lines on disk, from stage to stage.


@dataclass
class PairWriter:
    """Writes pairs of lines, none of them empty, into two files, and counts them."""

    files: tuple[IO[str], IO[str]]
    count: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # pairs left out, by the reason in words

    def write(self, *texts: str) -> None:
        for file, text in zip(self.files, texts, strict=True):
            if not text or "\n" in text:
                raise ValueError(f"not a line of text: {text!r}")
            file.write(f"{text}\n")
        self.count += 1

    def stats(self, split: str) -> dict[str, Any]:
        dropped = {reason: count for reason, count in sorted(self.dropped.items()) if count}
        pairs_in = self.count + self.dropped.total()
        return {"split": split, "pairs_in": pairs_in, "pairs_out": self.count, "dropped": dropped}


@contextmanager
def pair_writer(folder: Path, split: str) -> Iterator[PairWriter]:
    """Writes `<folder>/<split>.{source,target}`, whole or as they were; a UserError if nothing was written."""
    with text_file(folder / f"{split}.source") as source, text_file(folder / f"{split}.target") as target:
        writer = PairWriter((source, target))
        yield writer
        if writer.count == 0:
            raise UserError(f"no sentence pairs are left for {split}", hint="give more data")


def read_pairs(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    """The pairs of a split that `pair_writer` wrote."""
    source, target = (lines_of(folder / f"{split}.{side}") for side in SIDES)
    for line, other in zip(source, target, strict=True):
        yield line.text, other.text


class Extract(Stage[TranslationFormat]):
    """Whatever a data set's files are, to one line for each sentence.

    Writes `extract/{train,dev,test}.{source,target}`, of the splits that the files give. Lines are in Unicode's
    composed form (NFC), with one space where white space was, also where control characters were.
    """

    keys = ("source", "target", "read", "blank_lines")

    def run(self) -> dict[str, Any]:
        """For each split its pairs and those left out, and in how many lines control characters became spaces."""
        counts: dict[str, dict[str, Any]] = {}
        for split, pairs in self.layout.read.read(self.files, self.layout.languages):
            with pair_writer(self.out / "extract", split) as writer:
                control = sum(self._write(pair, writer) for pair in pairs)
            counts[split] = writer.stats(split) | {"control_characters": control}
        return {"splits": [counts[name] for name in SPLITS if name in counts]}

    def _write(self, pair: Pair, writer: PairWriter) -> int:
        """Writes a pair of lines, cleaned; returns how many of the two had control characters."""
        lines = [unicodedata.normalize("NFC", line.text) for line in pair]
        texts = [" ".join(CONTROL.sub(" ", line).split()) for line in lines]
        if all(texts):
            writer.write(*texts)
        elif self.layout.blank_lines == "refuse":
            hint = "delete it together with the same line of the other language, or write"
            raise pair[texts.index("")].error("the line is blank", f"{hint} `format: {{blank_lines: drop}}`")
        else:
            writer.dropped["a blank line"] += 1
        return sum(CONTROL.search(line) is not None for line in lines)


class Words(NamedTuple):
    """One pair: words with one space between two, and the target as people write it, on demand."""

    source: str
    target: str
    readable: Callable[[], str]


@dataclass
class TokenizedSplit:
    """A split that is being written, and its counts."""

    writer: PairWriter
    references: IO[str] | None
    words: Counter[str] = field(default_factory=Counter)

    def put(self, words: Words) -> None:
        self.writer.write(words.source, words.target)
        self.words.update(source_words=words.source.count(" ") + 1, target_words=words.target.count(" ") + 1)
        if self.references is not None:
            self.references.write(f"{words.readable()}\n")


class Tokenize(Stage[TranslationFormat]):
    """Sentences to words; training pairs that are not worth learning are left out.

    Writes `tokenize/{train,dev,test}.{source,target}` and `tokenize/{dev,test}.target.txt`. Only training pairs are
    left out for their lengths; what is scored stays whole.
    """

    keys = ("tokenize", "tokenized", "lowercase", "train_pairs", "max_length", "max_ratio", "dev_every")

    def run(self) -> dict[str, Any]:
        """For each split its pairs, its words, and the pairs left out."""
        codec = TranslationCodec(self.layout.codec_settings())
        counts = []
        folder = self.out / "extract"
        extracted = [split for split in SPLITS if (folder / f"{split}.source").is_file()]
        if not extracted:
            raise UserError("no extracted text", file=folder, hint="prepare the data again")
        for split in extracted:
            holds_out = split == "train" and self.layout.dev_every is not None
            names = ["train", "dev"] if holds_out else [split]
            with ExitStack() as stack:
                outputs = [stack.enter_context(self._writing(name)) for name in names]
                for source, target in read_pairs(folder, split):
                    self._put(self._words(source, target, codec), outputs, train=split == "train")
            for name, own in zip(names, outputs, strict=True):
                counts.append(own.writer.stats(name) | own.words)
        return {"splits": counts}

    @contextmanager
    def _writing(self, split: str) -> Iterator[TokenizedSplit]:
        folder = self.out / "tokenize"
        references = text_file(folder / REFERENCES.format(split=split)) if split in SCORED else nullcontext()
        with pair_writer(folder, split) as writer, references as file:
            yield TokenizedSplit(writer, file)

    def _words(self, source: str, target: str, codec: TranslationCodec) -> Words:
        if self.layout.tokenized:
            words = codec.target.cased(unescape_moses(target))
            return Words(codec.source.cased(unescape_moses(source)), words, partial(codec.readable, words))
        words = " ".join(codec.target.words(target))
        return Words(" ".join(codec.source.words(source)), words, partial(codec.target.cased, target))

    def _put(self, words: Words, outputs: list[TokenizedSplit], *, train: bool) -> None:
        """Adds a pair to the first output, or, if every n-th is held out, to the second."""
        layout = self.layout
        why = None if words.source and words.target else "a sentence without words"
        if train and why is None:
            why = self._reason_to_drop(words)
            beyond = f"not of the first {layout.train_pairs}"
            count = sum(output.writer.count for output in outputs) + outputs[0].writer.dropped[beyond] + 1
            if why is None and layout.dev_every is not None and count % layout.dev_every == 0:
                outputs[1].put(words)
                why = "kept for development"
            if why is None and outputs[0].writer.count == layout.train_pairs:
                why = beyond
        if why is None:
            outputs[0].put(words)
        else:
            outputs[0].writer.dropped[why] += 1

    def _reason_to_drop(self, words: Words) -> str | None:
        layout = self.layout
        shorter, longer = sorted((len(words.source.split()), len(words.target.split())))
        if layout.max_length is not None and longer > layout.max_length:
            return f"more than {layout.max_length} words"
        if layout.max_ratio is not None and longer > layout.max_ratio * shorter:
            return f"one more than {layout.max_ratio:g} times as long as the other"
        return None


class Segment(Stage[TranslationFormat]):
    """Words to the symbols that a model reads and writes.

    Writes `segment/{train,dev,test}.{source,target}` and the codec with its merges, which are learned from training
    text alone. Without subwords, symbols are words.
    """

    keys = ("subwords",)

    def run(self) -> dict[str, Any]:
        """For each split its pairs and symbols, and how many merges were learned."""
        codec = TranslationCodec(self._settings())
        counts = []
        for split in SPLITS:
            symbols: Counter[str] = Counter()
            with pair_writer(self.out / "segment", split) as writer:
                for words, others in read_pairs(self.out / "tokenize", split):
                    source, target = codec.source_symbols([words]), codec.target_symbols(others)
                    symbols.update(source_symbols=len(source), target_symbols=len(target))
                    writer.write(" ".join(source), " ".join(target))
            counts.append(writer.stats(split) | symbols)
        codec.save(self.out / "segment")
        merges = {side: len(getattr(codec.settings, side).merges or ()) for side in SIDES}
        return {"merges": merges, "splits": counts}

    def _settings(self) -> Settings:
        """Those of the codec, merges included."""
        settings, subwords = self.layout.codec_settings(), self.layout.subwords
        if subwords is None:
            return settings
        counts = [Counter[str](), Counter[str]()]
        for pair in read_pairs(self.out / "tokenize", "train"):
            for count, text in zip(counts, pair, strict=True):
                count.update(text.split(" "))
        if subwords.joint:
            counts = [counts[0] + counts[1]]
        learned = [learn_merges(words, subwords.merges) for words in counts]
        if not all(learned):
            message = "no two characters stand side by side twice in the training text"
            raise UserError(message, hint="leave out `subwords`, or give more data")
        source = settings.source.model_copy(update={"merges": learned[0]})
        return Settings(source=source, target=settings.target.model_copy(update={"merges": learned[-1]}))


class Index(Stage[TranslationFormat]):
    """Symbols to numbers: texts, vocabularies, ids and the codec, in the prepared folder itself."""

    keys = ("vocabulary",)

    def run(self) -> dict[str, Any]:
        """Sizes of the vocabularies; by split rows, symbols and unknown ones, and pairs that training has too."""
        source, target = self._vocabulary("source"), self._vocabulary("target")
        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")
        counts = {}
        for split in SPLITS:
            rows = read_pairs(self.out / "tokenize", split)
            symbols = self._symbols(split, "source"), self._symbols(split, "target")
            made = write_split(self.out, split, rows, symbols, (source, target))
            counts[split] = {"rows": len(made), **made.symbol_counts()}
        references = [f"tokenize/{REFERENCES}".format(split=split) for split in SCORED]
        for copied in (*(f"segment/{name}" for name in TranslationCodec.files), *references):
            with atomic_write(self.out / Path(copied).name) as temporary:
                shutil.copyfile(self.out / copied, temporary)
        shared = self._seen_in_training()
        warning = "{} pairs of {} are in train too; scores on them are too good"
        return {
            "languages": dict(zip(SIDES, self.layout.languages, strict=True)),
            "source_symbols": len(source),
            "target_symbols": len(target),
            "splits": counts,
            "pairs_in_train_too": shared,
            "warnings": [warning.format(count, split) for split, count in shared.items() if count],
        }

    def _symbols(self, split: str, side: Side) -> Iterator[list[str]]:
        place = SIDES.index(side)
        return (pair[place].split(" ") for pair in read_pairs(self.out / "segment", split))

    def _vocabulary(self, side: Side) -> Vocabulary:
        words, language = self.layout.vocabulary, self.layout.languages[SIDES.index(side)]
        counts = Counter(chain.from_iterable(self._symbols("train", side)))
        return Vocabulary.by_frequency(counts, words.size_for(language), words.min_count)

    def _seen_in_training(self) -> dict[str, int]:
        """How many pairs of the other splits training holds word for word."""
        folder = self.out / "tokenize"
        seen = {hash(pair) for pair in read_pairs(folder, "train")}
        return {split: sum(hash(pair) in seen for pair in read_pairs(folder, split)) for split in SCORED}


class Translation(Task[TranslationFormat]):
    """The kind of task."""

    Format = TranslationFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {
        "extract": Extract, "tokenize": Tokenize, "segment": Segment, "index": Index,
    }  # fmt: skip

    def splits(self, layout: TranslationFormat) -> tuple[str, ...]:
        """What the reader needs; without dev, if that is cut from train."""
        return tuple(name for name in layout.read.splits if name != "dev" or layout.dev_every is None)

    def modules(self, stage: str, layout: TranslationFormat) -> list[str]:
        """The stage's class or the codec's, with the reader or the tokenizers that it uses."""
        own = TranslationCodec if stage == "codec" else self.STAGES[stage]
        if stage == "extract":
            return class_names(own, type(layout.read))
        names = {layout.tokenizer_for(language) for language in layout.languages}
        return class_names(own, *(TOKENIZERS[name] for name in sorted(names)))
