"""Translation: a sentence gives its translation.

A row's columns hold words with one space between two; its symbols are those words, or subwords.
Four stages prepare them: `extract` (files to sentences), `tokenize` (to words), `segment` (to
symbols) and `index` (to ids).
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice, product
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from pam.data.codecs import SIDES, Side, SideCodec
from pam.data.dataset import SPLITS, Prepared, write_split
from pam.data.groups import no_group, read_groups
from pam.data.languages import INVISIBLE, language, segmentation_hint
from pam.data.overlaps import overlaps
from pam.data.prepare import (
    ADD_SYMBOLS,
    FEWEST_SYMBOLS,
    MOST_UNKNOWN,
    Stage,
    Symbols,
    SymbolWarning,
    Task,
    class_names,
    strange_warnings,
)
from pam.data.reading import DividingReader, Faults, Files, GroupingReader, parts_of
from pam.data.sampling import ALL, Pair
from pam.data.subword_marks import MarkedLines
from pam.data.text_files import CONTROL, cleaned, lines_of
from pam.data.tokenizers import TOKENIZERS, learn_merges
from pam.data.vocabulary import Vocabulary, vocabularies_of
from pam.data.way_back import WayBack, way_back_warnings
from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write
from pam.tasks.translation.codec import TranslationCodec
from pam.tasks.translation.files import (
    OPTIONAL,
    REFERENCE,
    REFERENCES,
    SCORED,
    PairWriter,
    pair_writer,
    read_pairs,
)
from pam.tasks.translation.format import (
    PairsFormat,
    SubwordsFormat,
    TranslationFormat,
    pair_symbols,
    pair_symbols_of,
)

INDENTED = re.compile(r"(?: {2}|\t)\s*\S")
# Share of lines with indentation above which they are hardly by chance.
MOST_INDENTED = 0.02
# Share of the lines of a side above which they are taken for words rather than sentences.
MOST_ONE_WORD = 0.9
# Share of a split's sources, such as `Thank you.`, that another split may have with other targets.
MOST_SHARED_SOURCES = 0.05


# Pairs of lines on disk, from stage to stage.


class Extract(Stage[PairsFormat]):
    """A data set's files to one line a sentence.

    Writes `extract/{train,dev,test}.{source,target}`, of the splits that the files give. Lines are
    as `cleaned` returns them, those of targets with their indentation.
    """

    keys = ("source", "target", "read", "blank_lines", "invisible", "sample")

    def run(self) -> dict[str, Any]:
        """Write the pairs of each split; count them, and lines with characters left out."""
        counts: dict[str, dict[str, Any]] = {}
        warnings: list[str] = []
        for split, pairs in self.layout.read.read(self.files, self.layout.fields):
            with pair_writer(self.out / "extract", split) as writer:
                drawn, writer.dropped["not in the sample"] = self.layout.sample.of(split, pairs)
                marked_lines = (MarkedLines(), MarkedLines())
                characters = self._write(split, drawn, writer, marked_lines)

            counts[split] = writer.stats(split) | characters
            warnings += self._indentation(split, counts[split])
            warnings += self._other_size(split, counts[split]["pairs_in"])
            for name, lines in zip(self.layout.fields, marked_lines, strict=True):
                warnings += lines.warnings(f"the side `{name}` of {split}")

        return {"splits": [counts[name] for name in SPLITS if name in counts], "warnings": warnings}

    def _write(
        self,
        split: str,
        pairs: Iterable[Pair],
        writer: PairWriter,
        marked_lines: tuple[MarkedLines, MarkedLines],
    ) -> dict[str, int]:
        """Write pairs; count the lines with control characters, and with invisible ones.

        Marks of subwords are counted in `marked_lines`, of source and target. A UserError counts
        all blank lines.
        """
        counts = {"control_characters": 0, "invisible_characters": 0, "indentation_left_out": 0}
        clean = partial(cleaned, keep_invisible=self.layout.invisible == "keep")
        # Lines of programs begin with spaces that mean something.
        is_language = bool(language(self.layout.languages[1]).tag)
        clean_target = partial(clean, keep_indentation=not is_language)
        needs_group = self._needs_group(split)
        faults = Faults()
        for pair in pairs:
            raw_texts = [(line.text, *line.more) for line in pair]
            for name, characters in (("control", CONTROL), ("invisible", INVISIBLE)):
                found = [any(map(characters.search, texts)) for texts in raw_texts]
                counts[f"{name}_characters"] += sum(found)
            if is_language:
                counts["indentation_left_out"] += bool(INDENTED.match(raw_texts[1][0]))

            source = [clean(text) for text in raw_texts[0]]
            target = [clean_target(text) for text in raw_texts[1]]
            for marked, texts in zip(marked_lines, (source, target), strict=True):
                for text in texts:
                    marked.add(text)

            group = cleaned(pair[0].group)
            if all(source) and all(target):
                writer.write(REFERENCE.join(source), REFERENCE.join(target), group=group)
                if needs_group and not group:
                    faults.add(no_group(pair[0]))
            elif self.layout.blank_lines == "drop":
                writer.dropped["a blank line"] += 1
            else:
                blank_side = 1 if all(source) else 0
                reader = self.layout.read.reader_of(pair)
                message = reader.blank.format(self.layout.fields[blank_side])
                hint = f"{reader.blank_hint}, or write `format: {{blank_lines: drop}}`"
                faults.add(pair[blank_side].error(message, hint))

        faults.check()
        return counts

    def _needs_group(self, split: str) -> bool:
        """Tell whether each pair of a split must have a group, as scores are told by group.

        A development split that is drawn from training may have none.
        """
        reader = self.layout.read
        has_groups = isinstance(reader, GroupingReader) and reader.scores_by is not None
        return has_groups and split in SCORED and (split in self.files or ALL in self.files)

    def _indentation(self, split: str, counts: Mapping[str, Any]) -> list[str]:
        """Warn of lines whose spaces at the beginning are left out, if there are many."""
        indented = counts["indentation_left_out"]
        if indented <= MOST_INDENTED * counts["pairs_in"]:
            return []
        target = self.layout.fields[1]
        return [
            f"{indented} targets of {split} begin with spaces, which are left out: if they are"
            f" programs, call their side otherwise than `{target}`, which is a language, such as"
            " `code`"
        ]

    def _other_size(self, split: str, pairs: int) -> list[str]:
        """Warn that a split drawn from all pairs has not the size that was asked for."""
        reader = self.layout.read
        divide = reader.divide if isinstance(reader, DividingReader) else None
        asked = divide.sizes.get(split, pairs) if divide else pairs
        if pairs == asked:
            return []
        return [
            f"{split} has {pairs} pairs and not {asked}, as pairs that belong together stay"
            " together"
        ]


class Tokenize(Stage[TranslationFormat]):
    """Sentences to words.

    Writes `tokenize/{train,dev,test}.{source,target}`, and references in `{dev,test}.target.txt`.
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
        """Write the words of each split; count them, pairs, and the pairs left out."""
        codec = self.layout.codec()
        folder = self.out / "extract"
        extracted = [split for split in SPLITS if (folder / f"{split}.source").is_file()]
        if not extracted:
            raise UserError("no extracted text", file=folder, hint="prepare the data again")

        counts = []
        self.ways_back = {split: WayBack() for split in SCORED}
        for split in extracted:
            counts += self._tokenize(split, codec)

        return {"splits": counts, "warnings": self._warnings(codec)}

    def _warnings(self, codec: TranslationCodec) -> list[str]:
        """Warn of references that are not what their words are joined to."""
        target = codec.settings.target
        return way_back_warnings(
            splits=self.ways_back,
            tokenizer=target.tokenize,
            lang=language(target.language),
            lowercase=target.lowercase,
        )

    def _tokenize(self, split: str, codec: TranslationCodec) -> list[dict[str, Any]]:
        """Write the words of an extracted split; return counts of the splits that it becomes."""
        names = [split]
        if split == "train" and self.layout.dev_every is not None:
            names = ["train", "dev"]

        with ExitStack() as stack:
            outputs = []
            for name in names:
                writer = pair_writer(self.out / "tokenize", name, references=name in SCORED)
                outputs.append(stack.enter_context(writer))

            pairs = read_pairs(self.out / "extract", split)
            groups = read_groups(self.out / "extract", split)
            # Groups that there are not have no end.
            for (source, targets), group in zip(pairs, groups, strict=False):
                target, *other_targets = targets.split(REFERENCE)
                source_words = self._words(codec.source, source)
                target_words = self._words(codec.target, target)
                self._put(
                    words=(source_words, target_words),
                    readable=partial(self._reference_of, codec, target, target_words, names[-1]),
                    other_references=[self._reference(codec, text) for text in other_targets],
                    group=group,
                    outputs=outputs,
                    train=split == "train",
                )

        counts = []
        for name, output in zip(names, outputs, strict=True):
            counts.append(output.stats(name, "words"))
            if name in SCORED and not self.layout.tokenized:
                counts[-1]["joined_again"] = self.ways_back[name].counts()
        return counts

    def _words(self, side: SideCodec, text: str) -> str:
        return " ".join(side.words(text, tokenized=self.layout.tokenized))

    def _readable(self, codec: TranslationCodec, text: str, words: str) -> str:
        """Return a reference as people write it.

        That is its text, or, if the text is tokenized already, its words joined.
        """
        if self.layout.tokenized:
            return codec.readable(words)
        if not codec.target.tokenizer.keeps_indentation:
            text = text.strip()
        return codec.target.cased(text)

    def _reference_of(self, codec: TranslationCodec, text: str, words: str, split: str) -> str:
        """Return a reference as people write it; compare it with what its words are joined to."""
        if not self.layout.tokenized:
            self.ways_back[split].add(codec.target.cased(text), codec.readable(words))
        return self._readable(codec, text, words)

    def _reference(self, codec: TranslationCodec, text: str) -> dict[str, str]:
        """Return a further reference, as people write it and in words."""
        words = self._words(codec.target, text)
        return {"text": self._readable(codec, text, words), "words": words}

    def _put(
        self,
        words: tuple[str, str],
        readable: Callable[[], str],
        other_references: list[dict[str, str]],
        group: str,
        outputs: list[PairWriter],
        *,
        train: bool,
    ) -> None:
        """Add a pair to the first output, or, if every n-th is held out, to the second."""
        layout = self.layout
        output = outputs[0]
        beside: dict[str, Any] = {
            "readable": readable,
            "other_references": other_references,
            "group": group,
        }
        shorter, longer = sorted(len(text.split()) for text in words)

        # Every n-th is counted among the pairs that no limit of lengths leaves out.
        beyond = f"not of the first {layout.train_pairs}"
        count = sum(writer.count for writer in outputs) + output.dropped[beyond] + 1

        reason = None
        if shorter == 0:
            reason = "a sentence without words"
        elif train and layout.max_length is not None and longer > layout.max_length:
            reason = f"more than {layout.max_length} words"
        elif train and layout.max_ratio is not None and longer > layout.max_ratio * shorter:
            reason = f"one more than {layout.max_ratio:g} times as long as the other"
        elif train and layout.dev_every is not None and count % layout.dev_every == 0:
            outputs[1].write(*words, **beside)
            reason = "kept for development"
        elif train and output.count == layout.train_pairs:
            reason = beyond

        if reason is None:
            output.write(*words, **beside)
        else:
            output.dropped[reason] += 1


class Segment(Stage[PairsFormat]):
    """Words to a model's symbols: `segment/{train,dev,test}.{source,target}`, and the codec.

    Its merges are learned from training text alone; without subwords, symbols are words.
    """

    keys: ClassVar[tuple[str, ...]] = ("subwords",)

    def run(self) -> dict[str, Any]:
        """Write the symbols of each split; count them, pairs, and the merges that were learned."""
        codec = self._make_codec()

        counts = []
        for split in self.splits:
            with pair_writer(self.out / "segment", split) as writer:
                for source, target in read_pairs(self.out / "tokenize", split):
                    writer.write(
                        " ".join(codec.source.symbols(source.split(" "))),
                        " ".join(codec.target.symbols(target.split(" "))),
                    )
            counts.append(writer.stats(split, "symbols"))

        if self.base is None:
            codec.save(self.out / "segment")
        merges = {side: len(getattr(codec.settings, side).merges or ()) for side in SIDES}
        return {"merges": merges, "splits": counts}

    def _make_codec(self) -> TranslationCodec:
        """Make the codec of new merges or of words, or load that of other data."""
        if self.origin is not None:
            # Of its own kind: that of summaries says also how much of a text is read.
            return type(self.layout.codec()).load(self.origin)
        if self.layout.subwords is None:
            return self.layout.codec()

        source_merges, target_merges = self._learn(self.layout.subwords)
        return self.layout.codec(source_merges, target_merges)

    def _learn(self, subwords: SubwordsFormat) -> tuple[list[str], list[str]]:
        """Learn the merges of source and target."""
        counts = [Counter[str](), Counter[str]()]
        for pair in read_pairs(self.out / "tokenize", "train"):
            for count, text in zip(counts, pair, strict=True):
                count.update(text.split(" "))

        if subwords.joint:
            counts = [counts[0] + counts[1]]
        merges = [learn_merges(words, subwords.merges) for words in counts]
        if not all(merges):
            message = "no pair of characters occurs twice in the training text"
            raise UserError(message, hint="leave out `subwords`, or give more data")

        # A joint list is both the first and the last.
        return merges[0], merges[-1]


class Index(Stage[PairsFormat]):
    """Symbols to numbers: texts, vocabularies, ids and the codec, in the prepared folder itself."""

    keys: ClassVar[tuple[str, ...]] = ("vocabulary", "source_eos", "add_symbols")

    def run(self) -> dict[str, Any]:
        """Write the prepared folder; count symbols, and pairs that training has too."""
        vocabularies = self._vocabularies()
        source, target = vocabularies

        counts = self._write_splits(vocabularies)
        self._copy_files()

        pairs = overlaps("pairs", self._items("\t".join))
        sources = overlaps(
            noun="sources",
            splits=self._items(itemgetter(0)),
            least=MOST_SHARED_SOURCES,
            told=pairs,
        )
        return {
            "languages": dict(zip(SIDES, self.layout.languages, strict=True)),
            "source_symbols": len(source),
            "target_symbols": len(target),
            "splits": counts,
            "pairs_in_train_too": {split: pairs.count("train", split) for split in self.scored},
            "pairs_in_two_splits": pairs.counts,
            "sources_in_two_splits": sources.counts,
            "warnings": [
                *pairs.warnings,
                *sources.warnings,
                *self._one_word_warnings(),
                *self._strange_warnings(vocabularies),
            ],
        }

    def _write_splits(
        self, vocabularies: tuple[Vocabulary, Vocabulary]
    ) -> dict[str, dict[str, Any]]:
        """Write the ids of the splits; return rows, symbols and unknown ones of each."""
        counts: dict[str, dict[str, Any]] = {}
        if self.base is not None:
            base_counts = Prepared(self.base).summary["splits"]
            counts |= {split: base_counts[split] for split in ("train", "dev")}

        for split in self.splits:
            written = write_split(
                folder=self.out,
                name=split,
                rows=read_pairs(self.out / "tokenize", split),
                symbols=(self.symbols(split, "source"), self.symbols(split, "target")),
                vocabularies=vocabularies,
                source_eos=self.layout.source_eos,
                limits=self.layout.limits,
            )
            counts[split] = {"rows": len(written), **written.symbol_counts()}
            # The symbols of a model may be strange to training itself.
            if split != "train" or self.model is not None:
                self._check_known(split, counts[split], counts["train"], vocabularies)

        return counts

    def _copy_files(self) -> None:
        """Copy references, the codec, and files of other data into the prepared folder."""
        tokenized = self.out / "tokenize"
        copied = [tokenized / REFERENCES.format(split=split) for split in self.scored]
        for split, pattern in product(SCORED, OPTIONAL):
            # What an earlier preparation left there goes.
            name = pattern.format(split=split)
            (self.out / name).unlink(missing_ok=True)
            if split in self.scored and (tokenized / name).is_file():
                copied.append(tokenized / name)

        for path in (*copied, *self._kept_files()):
            with atomic_write(self.out / path.name) as temporary:
                shutil.copyfile(path, temporary)

    def _kept_files(self) -> list[Path]:
        """List files that are taken as they are: the codec, and the dev split of other data."""
        if self.base is None:
            return [self.out / "segment" / name for name in TranslationCodec.files]

        base = Prepared(self.base)
        names = [
            *TranslationCodec.files,
            "dev.tsv",
            "dev.safetensors",
            REFERENCES.format(split="dev"),
        ]
        optional = [pattern.format(split="dev") for pattern in OPTIONAL]
        names += [name for name in optional if name in base.summary["outputs_sha256"]]
        return [base.file(name) for name in names]

    @property
    def scored(self) -> list[str]:
        """The splits that are made here and whose outputs are compared with references."""
        return [split for split in SCORED if split in self.splits]

    def _one_word_warnings(self) -> list[SymbolWarning]:
        """Propose characters where most lines of a side are one word, of which many are unknown."""
        sides = self.layout.sides(())
        trained = {
            side: set(map(tuple, self.symbols("train", side))) for side in self._word_sides()
        }
        warnings: list[SymbolWarning] = []
        for side, known in trained.items():
            for split in self.scored[:1]:
                words = [tuple(symbols) for symbols in self.symbols(split, side)]
                single = [word for word in words if len(word) == 1]
                strange = sum(word not in known for word in single)
                if len(single) < MOST_ONE_WORD * len(words) or strange <= 0.05 * len(single):
                    continue
                text = (
                    f"{strange} of {len(single)} lines of {sides[side].language} in {split} are one"
                    " word that training lacks, and whole words are symbols: write `tokenize:"
                    " characters`, so that words are read and written letter by letter"
                )
                warnings.append(SymbolWarning(text))
        return warnings

    def _word_sides(self) -> list[Side]:
        """Return the sides whose symbols are whole words, and whose training is here."""
        if self.layout.subwords is not None or self.origin is not None:
            return []
        return [
            side
            for side, code in zip(SIDES, self.layout.languages, strict=True)
            if not TOKENIZERS[self.layout.tokenizer_for(code)].segments
        ]

    def _strange_warnings(self, vocabularies: Sequence[Vocabulary]) -> list[SymbolWarning]:
        """Warn of symbols that the model does not know whose symbols the data have."""
        if self.model is None:
            return []

        warnings = []
        for split in self.splits:
            for side, vocabulary in zip(SIDES, vocabularies, strict=True):
                warnings += strange_warnings(
                    split=split,
                    side=side,
                    rows=self.symbols(split, side),
                    vocabulary=vocabulary,
                    model=self.model,
                    adds_symbols=self.layout.add_symbols,
                )
        return warnings

    def _items(
        self, item_of: Callable[[tuple[str, ...]], str]
    ) -> dict[str, Callable[[], Iterator[str]]]:
        """Return for each split a function that reads what `item_of` takes of its pairs."""

        def items(split: str) -> Iterator[str]:
            return map(item_of, self._pairs(split))

        return {split: partial(items, split) for split in SPLITS}

    def _pairs(self, split: str) -> Iterator[tuple[str, ...]]:
        """Return the pairs of words of a split, which may be that of other data."""
        if self.base is None or split in self.splits:
            return read_pairs(self.out / "tokenize", split)
        rows = lines_of(Prepared(self.base).file(f"{split}.tsv"))
        return (tuple(row.text.split("\t")) for row in rows)

    def _check_known(
        self,
        split: str,
        counts: Mapping[str, Any],
        train_counts: Mapping[str, Any],
        vocabularies: Sequence[Vocabulary],
    ) -> None:
        """Refuse a split with far more unknown symbols than training, as where files are swapped.

        Words that are whole phrases, in a language without spaces, are refused in the smallest data
        too.
        """
        for side, code, other_vocabulary in zip(
            SIDES, self.layout.languages, reversed(vocabularies), strict=True
        ):
            unknown = _unknown_share(counts[side])
            expected = _unknown_share(train_counts[side]) if self.model is None else 0.0
            if unknown - expected <= MOST_UNKNOWN:
                continue

            # The split is suspect: find out why.
            symbols = list(chain.from_iterable(self.symbols(split, side)))
            hint = ""
            if self.layout.subwords is None:
                hint = segmentation_hint(symbols, language(code), self.layout.tokenizer_for(code))
            if not hint and len(symbols) < FEWEST_SYMBOLS:
                continue

            # Symbols that the other side has show that files are swapped.
            if sum(symbol in other_vocabulary for symbol in symbols) > len(symbols) / 2:
                hint = (
                    "name its files the other way round in `splits`, or swap the columns of `read`"
                )
            if not hint:
                hint = f"check that the text is {code}, and tokenized as that of train"
                if self.model is not None and not self.layout.add_symbols:
                    hint += f", or write {ADD_SYMBOLS}"
            knows = "training has" if self.model is None else f"`{self.model.name}` knows"
            raise UserError(
                f"{split}: {knows} only {1 - unknown:.0%} of the {side} symbols", hint=hint
            )

    def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Take both sides' vocabularies from training, a model or other data, and save them."""
        if self.origin is None:
            source, target = self._counted(joint=self.layout.vocabulary.joint)
        else:
            source, target = vocabularies_of(self.origin)
        if self.layout.add_symbols:
            # What is one vocabulary of both sides stays one.
            is_joint = source.symbols == target.symbols
            of_sources, of_targets = self._counted(joint=is_joint)
            source = source.with_new(of_sources.symbols)
            target = target.with_new(of_targets.symbols)

        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")
        return source, target

    def _counted(self, *, joint: bool) -> tuple[Vocabulary, Vocabulary]:
        """Count both sides' vocabularies, which may be one, in the training text."""
        layout = self.layout.vocabulary
        counts = [Counter(chain.from_iterable(self.symbols("train", side))) for side in SIDES]
        if joint:
            counts = [counts[0] + counts[1]] * 2

        # A size may be one number, or one for each language.
        vocabularies = []
        for code, side_counts in zip(self.layout.languages, counts, strict=True):
            size = layout.size.get(code) if isinstance(layout.size, dict) else layout.size
            vocabularies.append(Vocabulary.by_frequency(side_counts, size, layout.min_count))

        source, target = vocabularies
        return source, target

    def symbols(self, split: str, side: Side) -> Iterator[list[str]]:
        """Return the symbols of each row of a split, whole."""
        return (line.text.split(" ") for line in lines_of(self.out / "segment" / f"{split}.{side}"))


def _unknown_share(counts: Mapping[str, int]) -> float:
    """Return the share of the symbols of one side that are unknown."""
    return counts["unknown"] / max(1, counts["symbols"])


class Translation(Task[TranslationFormat]):
    """The kind of task."""

    Format = TranslationFormat
    tests_alone = True
    has_lists = True
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {
        "extract": Extract,
        "tokenize": Tokenize,
        "segment": Segment,
        "index": Index,
    }

    def splits(self, layout: TranslationFormat) -> tuple[str, ...]:
        """Return the splits that the reader needs; without dev, if that is cut from train."""
        splits = layout.read.splits
        if layout.dev_every is None:
            return splits
        return tuple(name for name in splits if name != "dev")

    def headings(self, layout: TranslationFormat) -> tuple[str, ...]:
        return layout.fields

    def symbols(self, layout: TranslationFormat) -> dict[str, Any]:
        return pair_symbols(layout)

    def in_symbols_of(self, layout: TranslationFormat, model: Symbols) -> TranslationFormat:
        codec = TranslationCodec.load(model.folder)
        changed = pair_symbols_of(layout, codec, model)
        sides = (codec.settings.source, codec.settings.target)
        tokenize = {side.language: side.tokenize for side in sides}
        if len(set(tokenize.values())) == 1 and layout.tokenize != tokenize:
            return layout.model_copy(update=changed | {"tokenize": sides[0].tokenize})
        return layout.model_copy(update=changed | {"tokenize": tokenize})

    def first_rows(
        self, files: Files, layout: TranslationFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        return first_pairs(files, layout, count)

    def modules(self, stage: str, layout: TranslationFormat) -> list[str]:
        return pair_modules(self.STAGES.get(stage, TranslationCodec), layout)


def first_pairs(files: Files, layout: PairsFormat, count: int) -> dict[str, list[tuple[str, ...]]]:
    """Return the first `count` pairs of texts of each file of the registry, by split."""
    reader = layout.read
    parts: Iterator[tuple[str, Iterator[Pair]]]
    if isinstance(reader, DividingReader):
        # Its `read` would read all files before it divides them.
        parts = (
            (split, reader.pairs(split, part, layout.fields))
            for split, split_files in files.items()
            for part in parts_of(split_files)
        )
    else:
        parts = reader.read(files, layout.fields)

    rows: dict[str, list[tuple[str, ...]]] = {}
    for split, pairs in parts:
        first = [tuple(line.text for line in pair) for pair in islice(pairs, count)]
        rows.setdefault(split, []).extend(first)
    return rows


def pair_modules(stage_or_codec: type, layout: PairsFormat) -> list[str]:
    """Return `module:Class` of a stage or a codec, and of the reader or tokenizers that it uses."""
    if issubclass(stage_or_codec, Extract):
        return class_names(stage_or_codec, *map(type, layout.read.readers))

    names = {layout.tokenizer_for(language) for language in layout.languages}
    return class_names(stage_or_codec, *(TOKENIZERS[name] for name in sorted(names)))
