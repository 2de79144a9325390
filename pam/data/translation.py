"""Translation: a sentence gives its translation.

A row's columns hold words with one space between two; its symbols are those words, or subwords.
Four stages prepare
them: `extract` (files to sentences), `tokenize` (to words), `segment` (to symbols) and `index` (to
    ids).
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from pam.data.dataset import SPLITS, Prepared, text_file, write_split
from pam.data.languages import composed, language, segmentation_hint
from pam.data.prepare import FEWEST_SYMBOLS, MOST_UNKNOWN, Stage, Task, TaskFormat, class_names
from pam.data.readers import DividingReader, Faults, Files, Pair, Reader, load_reader
from pam.data.text_files import CONTROL, cleaned, lines_of
from pam.data.tokenizers import (
    SIDES,
    TOKENIZERS,
    Settings,
    Side,
    SideSettings,
    TranslationCodec,
    learn_merges,
)
from pam.data.vocabulary import Vocabulary
from pam.io import Strict, UserError, atomic_write

# Names of the two sides of a pair: codes of languages, or others, such as those of a program and of
# what it does.
SIDE = r"^[A-Za-z][A-Za-z0-9_-]*$"

# Between two references of one text from stage to stage. Cleaned text has no such character.
REFERENCE = "\x1e"

# sentences of the target language as people write them, line by line with the pairs
REFERENCES = "{split}.target.txt"
OTHER_REFERENCES = (  # further references where some pairs have several, line by line too
    "{split}.references.jsonl"
)
SCORED = ("dev", "test")  # splits whose outputs are compared with references


class SubwordsFormat(Strict):
    """Byte pair encoding."""

    merges: int = Field(ge=1, description="merges that are learned, on each side or for both")
    joint: bool = Field(False, description="learn one list of merges from both languages")


class VocabularyFormat(Strict):
    """Which symbols of the training text have an id; the others are unknown."""

    joint: bool = Field(False, description="one vocabulary, of both sides' symbols, for both")

    size: int | dict[str, int] | None = Field(
        None, description="so many of the most frequent, or so many by language"
    )
    min_count: int = Field(1, ge=1, description="only those that occur so often")

    @field_validator("size")
    @classmethod
    def _positive(cls, size: int | dict[str, int] | None) -> int | dict[str, int] | None:
        if any(
            number is not None and number < 1
            for number in (size.values() if isinstance(size, dict) else [size])
        ):
            raise ValueError("a vocabulary has at least one word")
        return size


class PairsFormat(TaskFormat):
    """Keys under `format` of every kind of task whose rows are two texts, each side with a name and
    a language.
    """

    source: str
    target: str
    read: Annotated[SerializeAsAny[Reader], BeforeValidator(load_reader)] = Field(
        "lines", description="how the files hold pairs, see pam.data.readers", validate_default=True
    )
    blank_lines: Literal["refuse", "drop"] = Field(
        "refuse", description="`drop` leaves out pairs without words"
    )
    tokenize: str | dict[str, str] = Field(
        "moses", description="tokenizer, or one by language (pam.data.tokenizers)"
    )
    tokenized: bool = Field(
        False, description="the files hold words already, split as `tokenize` would"
    )
    lowercase: bool = Field(False, description="all letters small")
    train_pairs: int | None = Field(
        None, ge=1, description="train on so many pairs, the first ones; null: all"
    )
    subwords: SubwordsFormat | None = Field(
        None, description="byte pair encoding; null: whole words"
    )
    vocabulary: VocabularyFormat = Field(VocabularyFormat(), description="which symbols have ids")

    @property
    def fields(self) -> tuple[str, str]:
        """What a reader knows source and target by."""
        return self.source, self.target

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source, self.target

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Symbols of source and target that are read of a longer one; None: all."""
        return None, None

    def tokenizer_for(self, language: str) -> str:
        return (
            self.tokenize if isinstance(self.tokenize, str) else self.tokenize.get(language, "none")
        )

    @model_validator(mode="after")
    def _serves_its_languages(self) -> PairsFormat:
        for name in map(self.tokenizer_for, self.languages):
            if name not in TOKENIZERS:
                raise ValueError(f"no tokenizer `{name}`; known: {', '.join(sorted(TOKENIZERS))}")
        return self

    def sides(self, merges: Sequence[list[str]]) -> dict[Side, SideSettings]:
        """How a codec treats source and target, with their merges, or without."""
        own = zip(SIDES, self.languages, merges or (None, None), strict=True)
        return {
            side: SideSettings(
                language=one,
                tokenize=self.tokenizer_for(one),
                lowercase=self.lowercase,
                merges=learned,
            )
            for side, one, learned in own
        }

    def codec(self, *merges: list[str]) -> TranslationCodec:
        """The codec, with merges of source and target if they are given."""
        return TranslationCodec(Settings(**self.sides(merges)))


class TranslationFormat(PairsFormat):
    """Keys that a data set of sentence pairs may have under `format`."""

    source: str = Field(
        pattern=SIDE,
        description="code of the language translated from, or another name of that side",
    )
    target: str = Field(
        pattern=SIDE, description="code of the language translated to, or another name of that side"
    )
    max_length: int | None = Field(None, ge=1, description="words of the longest training sentence")
    max_ratio: float | None = Field(
        None, ge=1, description="of a training pair's longer to its shorter, in words"
    )
    dev_every: int | None = Field(
        None, ge=2, description="every n-th training pair becomes development data"
    )

    @model_validator(mode="after")
    def _has_two_languages(self) -> TranslationFormat:
        if self.source == self.target:
            raise ValueError("source and target are the same language")
        return self


# Pairs of lines on disk, from stage to stage.


@dataclass
class PairWriter:
    """Write pairs of lines, none of them empty, into two files, and count them and their words."""

    files: tuple[IO[str], IO[str]]
    references: IO[str] | None  # where targets are written as people write them
    count: int = 0
    words: Counter[str] = field(default_factory=Counter)  # by side
    dropped: Counter[str] = field(default_factory=Counter)  # pairs left out, by the reason in words
    # further references of each pair, if any has some
    others: list[list[dict[str, str]]] = field(default_factory=list)

    def write(
        self, *texts: str, readable: Callable[[], str] = str, others: Sequence[dict[str, str]] = ()
    ) -> None:
        """Writes source and target; `readable` is called for the reference, if there are
        references, and `others` are further ones, as text and in words.
        """
        for side, file, text in zip(SIDES, self.files, texts, strict=True):
            if not text or "\n" in text:
                raise ValueError(f"not a line of text: {text!r}")
            file.write(f"{text}\n")
            self.words[side] += text.count(" ") + 1
        if self.references is not None:
            self.references.write(f"{readable()}\n")
            if others or self.others:
                # Pairs before the first with several references have no further ones.
                missing = self.count - len(self.others)
                self.others += [[] for _ in range(missing)] + [list(others)]
        self.count += 1

    def stats(self, split: str, unit: str = "") -> dict[str, Any]:
        """Pairs, and how many words there are of each side, by the name of their `unit` if there is
        one.
        """
        dropped = {reason: count for reason, count in sorted(self.dropped.items()) if count}
        units = {f"{side}_{unit}": count for side, count in self.words.items() if unit}
        pairs_in = self.count + self.dropped.total()
        return {
            "split": split,
            "pairs_in": pairs_in,
            "pairs_out": self.count,
            "dropped": dropped,
            **units,
        }


@contextmanager
def pair_writer(folder: Path, split: str, *, references: bool = False) -> Iterator[PairWriter]:
    """Writes `<folder>/<split>.{source,target}`, whole or as they were; a UserError if nothing was
    written.
    """
    first, second = (text_file(folder / f"{split}.{side}") for side in SIDES)
    third = text_file(folder / REFERENCES.format(split=split)) if references else nullcontext()
    with first as source, second as target, third as written:
        writer = PairWriter((source, target), written)
        yield writer
        if writer.count == 0:
            raise UserError(f"no sentence pairs are left for {split}", hint="give more data")
        further = folder / OTHER_REFERENCES.format(split=split)
        if writer.others:
            with text_file(further) as file:
                file.writelines(f"{json.dumps(own, ensure_ascii=False)}\n" for own in writer.others)
        else:
            further.unlink(missing_ok=True)


def read_pairs(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    """The pairs of a split that `pair_writer` wrote."""
    source, target = (lines_of(folder / f"{split}.{side}") for side in SIDES)
    for line, other in zip(source, target, strict=True):
        yield line.text, other.text


class Extract(Stage[PairsFormat]):
    """A data set's files to one line a sentence: `extract/{train,dev,test}.{source,target}`, of the
    splits they give.

    Lines are in Unicode's composed form (NFC), with one space where white space or control
    characters were.
    """

    keys = ("source", "target", "read", "blank_lines", "sample")
    blank = "the line is blank"  # said of a text without words; `{}` is what a reader knows it by
    hint = "delete it together with the same line of the other language"

    def run(self) -> dict[str, Any]:
        """For each split its pairs and those left out, and in how many lines control characters
        became spaces.
        """
        counts: dict[str, dict[str, Any]] = {}
        warnings: list[str] = []
        for split, pairs in self.layout.read.read(self.files, self.layout.fields):
            with pair_writer(self.out / "extract", split) as writer:
                drawn, writer.dropped["not in the sample"] = self.layout.sample.of(split, pairs)
                control = self._write(drawn, writer)
            counts[split] = writer.stats(split) | {"control_characters": control}
            warnings += self._other_size(split, counts[split]["pairs_in"])
        return {"splits": [counts[name] for name in SPLITS if name in counts], "warnings": warnings}

    def _write(self, pairs: Iterable[Pair], writer: PairWriter) -> int:
        """Write pairs; return the number of lines with control characters.

        A UserError counts all blank lines.
        """
        control = 0
        faults = Faults()
        for pair in pairs:
            whole = [[composed(text) for text in (line.text, *line.more)] for line in pair]
            control += sum(any(map(CONTROL.search, texts)) for texts in whole)
            texts = [[cleaned(text) for text in one_side] for one_side in whole]
            if all(map(all, texts)):
                writer.write(*map(REFERENCE.join, texts))
            elif self.layout.blank_lines == "drop":
                writer.dropped["a blank line"] += 1
            else:
                blank = next(number for number, one_side in enumerate(texts) if not all(one_side))
                hint = f"{self.hint}, or write `format: {{blank_lines: drop}}`"
                faults.add(pair[blank].error(self.blank.format(self.layout.fields[blank]), hint))
        faults.check()
        return control

    def _other_size(self, split: str, pairs: int) -> list[str]:
        """Warn that a split drawn from all pairs has not the size that was asked for."""
        divide = self.layout.read.divide if isinstance(self.layout.read, DividingReader) else None
        asked = getattr(divide, split, pairs)
        if pairs == asked:
            return []
        return [
            f"{split} has {pairs} pairs and not {asked}, as pairs that belong together stay"
            " together"
        ]


class Tokenize(Stage[TranslationFormat]):
    """Sentences to words: `tokenize/{train,dev,test}.{source,target}`, and references in
    `{dev,test}.target.txt`.

    Only training pairs are left out for their lengths; what is scored stays whole.
    """

    keys = (
        "tokenize",
        "tokenized",
        "lowercase",
        "train_pairs",
        "max_length",
        "max_ratio",
        "dev_every",
    )

    def run(self) -> dict[str, Any]:
        """For each split its pairs, its words, and the pairs left out."""
        codec, counts = self.layout.codec(), []
        sides, folder = (codec.source, codec.target), self.out / "extract"
        extracted = [split for split in SPLITS if (folder / f"{split}.source").is_file()]
        if not extracted:
            raise UserError("no extracted text", file=folder, hint="prepare the data again")
        for split in extracted:
            holds_out = split == "train" and self.layout.dev_every is not None
            names = ["train", "dev"] if holds_out else [split]
            with ExitStack() as stack:
                writers = (
                    pair_writer(self.out / "tokenize", name, references=name in SCORED)
                    for name in names
                )
                outputs = [stack.enter_context(writer) for writer in writers]
                for source, target in read_pairs(folder, split):
                    first, *others = target.split(REFERENCE)
                    words = [
                        " ".join(side.words(text, tokenized=self.layout.tokenized))
                        for side, text in zip(sides, (source, first), strict=True)
                    ]
                    readable = partial(self._readable, codec, first, words[1])
                    further = [self._reference(codec, text) for text in others]
                    self._put(words, readable, further, outputs, train=split == "train")
            counts += [own.stats(name, "words") for name, own in zip(names, outputs, strict=True)]
        return {"splits": counts}

    def _readable(self, codec: TranslationCodec, text: str, words: str) -> str:
        """A reference as people write it: as it was given, or, if it was given in words, with these
        joined.
        """
        return codec.readable(words) if self.layout.tokenized else codec.target.cased(text)

    def _reference(self, codec: TranslationCodec, text: str) -> dict[str, str]:
        """A further reference, as people write it and in words."""
        words = " ".join(codec.target.words(text, tokenized=self.layout.tokenized))
        return {"text": self._readable(codec, text, words), "words": words}

    def _put(
        self,
        words: list[str],
        readable: Callable[[], str],
        others: list[dict[str, str]],
        outputs: list[PairWriter],
        *,
        train: bool,
    ) -> None:
        """Adds a pair to the first output, or, if every n-th is held out, to the second."""
        layout, first = self.layout, outputs[0]
        shorter, longer = sorted(len(text.split()) for text in words)
        beyond, why = f"not of the first {layout.train_pairs}", None
        count = sum(output.count for output in outputs) + first.dropped[beyond] + 1
        if shorter == 0:
            why = "a sentence without words"
        elif train and layout.max_length is not None and longer > layout.max_length:
            why = f"more than {layout.max_length} words"
        elif train and layout.max_ratio is not None and longer > layout.max_ratio * shorter:
            why = f"one more than {layout.max_ratio:g} times as long as the other"
        elif train and layout.dev_every is not None and count % layout.dev_every == 0:
            outputs[1].write(*words, readable=readable, others=others)
            why = "kept for development"
        elif train and first.count == layout.train_pairs:
            why = beyond
        if why is None:
            first.write(*words, readable=readable, others=others)
        else:
            first.dropped[why] += 1


class Segment(Stage[PairsFormat]):
    """Words to a model's symbols: `segment/{train,dev,test}.{source,target}`, and the codec.

    Its merges are learned from training text alone; without subwords, symbols are words.
    """

    keys: ClassVar[tuple[str, ...]] = ("subwords",)

    def run(self) -> dict[str, Any]:
        """For each split its pairs and symbols, and how many merges were learned."""
        subwords = self.layout.subwords
        if self.base is not None:
            codec = TranslationCodec.load(self.base)
        else:
            codec = (
                self.layout.codec()
                if subwords is None
                else self.layout.codec(*self._learn(subwords))
            )
        counts = []
        for split in self.splits:
            with pair_writer(self.out / "segment", split) as writer:
                for source, target in read_pairs(self.out / "tokenize", split):
                    symbols = (
                        codec.source.symbols(source.split(" ")),
                        codec.target.symbols(target.split(" ")),
                    )
                    writer.write(*map(" ".join, symbols))
            counts.append(writer.stats(split, "symbols"))
        if self.base is None:
            codec.save(self.out / "segment")
        merges = {side: len(getattr(codec.settings, side).merges or ()) for side in SIDES}
        return {"merges": merges, "splits": counts}

    def _learn(self, subwords: SubwordsFormat) -> tuple[list[str], list[str]]:
        """Merges of source and target."""
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
        return learned[0], learned[-1]


class Index(Stage[PairsFormat]):
    """Symbols to numbers: texts, vocabularies, ids and the codec, in the prepared folder itself."""

    keys: ClassVar[tuple[str, ...]] = ("vocabulary", "source_eos")

    def run(self) -> dict[str, Any]:
        """Sizes of the vocabularies; by split rows, symbols and unknown ones, and pairs that
        training has too.
        """
        source, target = vocabularies = self._vocabularies()
        counts: dict[str, dict[str, Any]] = {}
        tokenized = self.out / "tokenize"
        if self.base is not None:
            counts |= {
                split: Prepared(self.base).summary["splits"][split] for split in ("train", "dev")
            }
        for split in self.splits:
            symbols = self.symbols(split, "source"), self.symbols(split, "target")
            given = read_pairs(tokenized, split), symbols, vocabularies
            made = write_split(
                self.out,
                split,
                *given,
                source_eos=self.layout.source_eos,
                limits=self.layout.limits,
            )
            counts[split] = {"rows": len(made), **made.symbol_counts()}
            if split != "train":
                self._check_known(split, counts[split], counts["train"], vocabularies)
        scored = [split for split in SCORED if split in self.splits]
        references = [tokenized / REFERENCES.format(split=split) for split in scored]
        for split in SCORED:
            # What an earlier preparation left there goes.
            further = OTHER_REFERENCES.format(split=split)
            (self.out / further).unlink(missing_ok=True)
            if split in scored and (tokenized / further).is_file():
                references.append(tokenized / further)
        for copied in (*references, *self._copied()):
            with atomic_write(self.out / copied.name) as temporary:
                shutil.copyfile(copied, temporary)
        seen = {hash(pair) for pair in self._trained_pairs()}
        shared = {
            split: sum(hash(pair) in seen for pair in read_pairs(tokenized, split))
            for split in scored
        }
        warning = "{} pairs of {} are in train too; scores on them are too good"
        return {
            "languages": dict(zip(SIDES, self.layout.languages, strict=True)),
            "source_symbols": len(source),
            "target_symbols": len(target),
            "splits": counts,
            "pairs_in_train_too": shared,
            "warnings": [warning.format(count, split) for split, count in shared.items() if count],
        }

    def _copied(self) -> list[Path]:
        """Files that come into the folder as they are: the codec, and the development split of
        other data.
        """
        if self.base is None:
            return [self.out / "segment" / name for name in TranslationCodec.files]
        base = Prepared(self.base)
        names = [
            *TranslationCodec.files,
            "dev.tsv",
            "dev.safetensors",
            REFERENCES.format(split="dev"),
        ]
        further = OTHER_REFERENCES.format(split="dev")
        if further in base.summary["outputs_sha256"]:
            names.append(further)
        return [base.file(name) for name in names]

    def _trained_pairs(self) -> Iterator[tuple[str, ...]]:
        """Pairs of words that models are trained on."""
        if self.base is None:
            return read_pairs(self.out / "tokenize", "train")
        return (
            tuple(line.text.split("\t")) for line in lines_of(Prepared(self.base).file("train.tsv"))
        )

    def _check_known(
        self,
        split: str,
        counted: Mapping[str, Any],
        train: Mapping[str, Any],
        vocabularies: Sequence[Vocabulary],
    ) -> None:
        """Refuse a split in which far more symbols are unknown than in training, as where its files
        are swapped.

        Words that are whole phrases, in a language without spaces, are refused in the smallest data
        too.
        """
        for side, code, other in zip(
            SIDES, self.layout.languages, reversed(vocabularies), strict=True
        ):
            unknown, usual = (
                own[side]["unknown"] / max(1, own[side]["symbols"]) for own in (counted, train)
            )
            if unknown - usual <= MOST_UNKNOWN:
                continue

            symbols = list(chain.from_iterable(self.symbols(split, side)))
            hint = ""
            if self.layout.subwords is None:
                hint = segmentation_hint(symbols, language(code), self.layout.tokenizer_for(code))
            if not hint and len(symbols) < FEWEST_SYMBOLS:
                continue
            if sum(symbol in other for symbol in symbols) > len(symbols) / 2:
                hint = (
                    "name its files the other way round in `splits`, or swap the columns of `read`"
                )
            hint = hint or f"check that the text is {code}, and tokenized as that of train"
            raise UserError(
                f"{split}: training has only {1 - unknown:.0%} of the {side} symbols", hint=hint
            )

    def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Count both sides' vocabularies, which may be one, in the training text and save them."""
        if self.base is not None:
            known = Prepared(self.base)
            for side, own in zip(SIDES, (known.source, known.target), strict=True):
                own.save(self.out / f"{side}.vocab")
            return known.source, known.target
        words, counted = self.layout.vocabulary, list[Counter[str]]()
        for side in SIDES:
            counted.append(Counter(chain.from_iterable(self.symbols("train", side))))
        if words.joint:
            counted = [counted[0] + counted[1]] * 2
        made = []
        for side, code, count in zip(SIDES, self.layout.languages, counted, strict=True):
            size = words.size.get(code) if isinstance(words.size, dict) else words.size
            made.append(Vocabulary.by_frequency(count, size, words.min_count))
            made[-1].save(self.out / f"{side}.vocab")
        return made[0], made[1]

    def symbols(self, split: str, side: Side) -> Iterator[list[str]]:
        """Symbols of each row of a split, whole."""
        return (line.text.split(" ") for line in lines_of(self.out / "segment" / f"{split}.{side}"))


class Translation(Task[TranslationFormat]):
    """The kind of task."""

    Format = TranslationFormat
    tests_alone = True
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {
        "extract": Extract,
        "tokenize": Tokenize,
        "segment": Segment,
        "index": Index,
    }

    def splits(self, layout: TranslationFormat) -> tuple[str, ...]:
        """What the reader needs; without dev, if that is cut from train."""
        return tuple(
            name for name in layout.read.splits if name != "dev" or layout.dev_every is None
        )

    def symbols(self, layout: TranslationFormat) -> dict[str, Any]:
        return pair_symbols(layout)

    def first_rows(
        self, files: Files, layout: TranslationFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        reader, languages = layout.read, layout.fields
        pairs: Iterator[tuple[str, Iterator[Pair]]]
        if isinstance(reader, DividingReader):  # which would read all files before it divides them
            pairs = ((split, reader.pairs(split, own, languages)) for split, own in files.items())
        else:
            pairs = reader.read(files, languages)
        return {
            split: [tuple(line.text for line in pair) for pair in islice(own, count)]
            for split, own in pairs
        }

    def modules(self, stage: str, layout: TranslationFormat) -> list[str]:
        return pair_modules(self.STAGES.get(stage, TranslationCodec), layout)


def pair_symbols(layout: PairsFormat) -> dict[str, Any]:
    """What of a format decides which symbols a pair of texts becomes."""
    tokenizers = [layout.tokenizer_for(language) for language in layout.languages]
    own = {
        name: getattr(layout, name)
        for name in ("lowercase", "subwords", "vocabulary", "source_eos")
    }
    return {"language": layout.languages, "tokenize": tokenizers} | own


def pair_modules(own: type, layout: PairsFormat) -> list[str]:
    """A stage's class or a codec's, with the reader or the tokenizers that it uses."""
    if issubclass(own, Extract):
        return class_names(own, type(layout.read))
    names = {layout.tokenizer_for(language) for language in layout.languages}
    return class_names(own, *(TOKENIZERS[name] for name in sorted(names)))
