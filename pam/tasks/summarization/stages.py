"""Summarization: a text gives its summary, or its title. Rows and symbols are as in translation.

A prepared row holds both texts whole, as words. Of a long text a model reads only the first
symbols; the format's `truncate` says how many. References are stored sentence by sentence, as
ROUGE-L needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from pam.data.codecs import SIDES, Side
from pam.data.dataset import Limits
from pam.data.groups import read_groups
from pam.data.languages import LANGUAGE, language, sentences_of
from pam.data.prepare import Stage, Symbols, Task
from pam.data.reading import DividingReader, Files
from pam.experiments.parsing import Strict
from pam.tasks.summarization.codec import SummarizationCodec, SummarizationSettings
from pam.tasks.translation.files import REFERENCE, SCORED, PairWriter, pair_writer, read_pairs
from pam.tasks.translation.format import (
    PairsFormat,
    VocabularyFormat,
    pair_symbols,
    pair_symbols_of,
)
from pam.tasks.translation.stages import Extract, Index, Segment, first_pairs, pair_modules

# tags around each sentence, in See et al.'s files `<s>`, in OpenNMT's `<t>`
SENTENCE_TAGS = re.compile(r"</?[st]>")


class Truncate(Strict):
    """Numbers of symbols that are read of a longer text."""

    source: int | None = Field(None, ge=1, description="of a source; null: all")
    target: int | None = Field(
        None, ge=1, description="of a target, its end symbol included; null: all"
    )


class SummarizationFormat(PairsFormat):
    """Keys that a data set of texts and summaries may have under `format`."""

    source: str = Field(
        "article",
        min_length=1,
        description="what holds the text: a key of JSON lines or of the split",
    )
    target: str = Field("summary", min_length=1, description="what holds the summary, likewise")
    language: str = Field(
        "en", pattern=LANGUAGE, description="code of the language of text and summary"
    )
    tokenize: str = Field("moses", description="as in translation; one for both")
    vocabulary: VocabularyFormat = Field(
        VocabularyFormat(joint=True), description="words in the vocabulary, as in translation"
    )
    sentences: Literal["stops", "tags"] = Field(
        "stops",
        description=(
            "what ends a sentence of a summary: `stops` (the language's marks) or `tags` (`<s>`,"
            " `<t>`)"
        ),
    )
    truncate: Truncate = Field(
        Truncate(),
        description=(
            "number of symbols that are read of longer texts: `{source: 400, target: 100}`"
        ),
    )
    lead: int = Field(
        3, ge=1, description="number of sentences in the baselines of first and of random sentences"
    )

    @property
    def languages(self) -> tuple[str, str]:
        return self.language, self.language

    @property
    def limits(self) -> Limits:
        return self.truncate.source, self.truncate.target

    def codec(self, *merges: list[str]) -> SummarizationCodec:
        """Make the codec, with merges of source and target if they are given."""
        settings = SummarizationSettings(**self.sides(merges), longest=self.truncate.source)
        return SummarizationCodec(settings)


class TokenizeSummaries(Stage[SummarizationFormat]):
    """Texts to words.

    Writes `tokenize/{train,dev,test}.{source,target}`, and references in `{dev,test}.target.txt`.
    The target is the first of a text's references; a line of references is a JSON list of them,
    each a list of sentences.
    """

    keys = ("language", "tokenize", "tokenized", "lowercase", "train_pairs", "sentences")

    def run(self) -> dict[str, Any]:
        """Write the words of each split; count them, pairs, and the pairs left out."""
        counts = []
        for split in self.splits:
            with pair_writer(self.out / "tokenize", split, references=split in SCORED) as writer:
                pairs = read_pairs(self.out / "extract", split)
                groups = read_groups(self.out / "extract", split)
                # Groups that there are not have no end.
                for (source, targets), group in zip(pairs, groups, strict=False):
                    if split == "train" and writer.count == self.layout.train_pairs:
                        writer.dropped[f"not of the first {self.layout.train_pairs}"] += 1
                    else:
                        self._write(source, targets.split(REFERENCE), group, writer)

            counts.append(writer.stats(split, "words"))
        return {"splits": counts}

    def _write(self, source: str, targets: Sequence[str], group: str, writer: PairWriter) -> None:
        """Write the words of a text and its summaries; a text without words is left out."""
        words = self._codec.source.words(source, tokenized=self.layout.tokenized)
        references = [list(self._sentences(target)) for target in targets]

        if not words or not all(references):
            writer.dropped["a text without words"] += 1
            return

        readable = partial(json.dumps, references, ensure_ascii=False)
        writer.write(" ".join(words), " ".join(references[0]), readable=readable, group=group)

    @cached_property
    def _codec(self) -> SummarizationCodec:
        return self.layout.codec()

    def _sentences(self, text: str) -> Iterator[str]:
        """Yield the sentences of a summary, none empty, in words with one space between two."""
        words_of = partial(self._codec.target.words, tokenized=self.layout.tokenized)

        sentences: Iterator[list[str]]
        if self.layout.sentences == "tags":
            sentences = (words_of(sentence.strip()) for sentence in SENTENCE_TAGS.split(text))
        else:
            sentences = sentences_of(words_of(text), language(self.layout.language))

        for words in sentences:
            if words:
                yield " ".join(words)


class SegmentSummaries(Segment):
    """Words to symbols, and the codec, which says how many of a text are read."""

    keys = (*Segment.keys, "truncate")
    layout: SummarizationFormat


class IndexSummaries(Index):
    """Symbols to numbers; of a long text the first ones."""

    keys = (*Index.keys, "lead")

    def run(self) -> dict[str, Any]:
        """Write as for pairs; count also texts that are longer than what is read of them.

        Warnings tell of such texts.
        """
        counts = super().run()

        for split in self.splits:
            for side, limit in zip(SIDES, self.layout.limits, strict=True):
                cut = self._count_cut(split, side, limit)
                counts["splits"][split][side]["cut"] = cut
                if cut:
                    counts["warnings"].append(
                        f"{cut} {side}s of {split} are longer than {limit} symbols, and cut there"
                    )
        return counts

    def _count_cut(self, split: str, side: Side, limit: int | None) -> int:
        """Count the texts of one side of a split that are longer than what is read of them."""
        if limit is None:
            return 0

        # A target has an end symbol too.
        longest = limit - 1 if side == "target" else limit
        return sum(len(symbols) > longest for symbols in self.symbols(split, side))


class Summarization(Task[SummarizationFormat]):
    """The kind of task."""

    Format = SummarizationFormat
    tests_alone = True
    has_lists = True
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {
        "extract": Extract,
        "tokenize": TokenizeSummaries,
        "segment": SegmentSummaries,
        "index": IndexSummaries,
    }

    def headings(self, layout: SummarizationFormat) -> tuple[str, ...]:
        return layout.fields

    def symbols(self, layout: SummarizationFormat) -> dict[str, Any]:
        return pair_symbols(layout) | {"truncate": layout.truncate}

    def in_symbols_of(self, layout: SummarizationFormat, model: Symbols) -> SummarizationFormat:
        codec = SummarizationCodec.load(model.folder)
        changed = pair_symbols_of(layout, codec, model)
        truncate = layout.truncate.model_copy(update={"source": codec.settings.longest})
        changed |= {"tokenize": codec.settings.source.tokenize, "truncate": truncate}
        return layout.model_copy(update=changed)

    def splits(self, layout: SummarizationFormat) -> tuple[str, ...]:
        return layout.read.splits

    def first_rows(
        self, files: Files, layout: SummarizationFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        # Other readers unpack an archive first.
        if not isinstance(layout.read, DividingReader):
            return {}
        return first_pairs(files, layout, count)

    def modules(self, stage: str, layout: SummarizationFormat) -> list[str]:
        return pair_modules(self.STAGES.get(stage, SummarizationCodec), layout)
