"""Captioning: the vectors of a clip's frames give a sentence. A clip has several captions.

A prepared row holds a clip's name and a caption, in words. Training has a row for each caption; dev
and test have one for each clip, with all of its captions as references in `{dev,test}.target.txt`,
a JSON list a line.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pam.data.codecs import SideSettings
from pam.data.dataset import SPLITS, write_split
from pam.data.features import Table, clips_in, spaced, write_table
from pam.data.languages import INVISIBLE, LANGUAGE, language, segmentation_hint
from pam.data.overlaps import Overlaps, overlaps
from pam.data.prepare import MOST_UNKNOWN, Stage, Task, TaskFormat, class_names
from pam.data.reading import Files
from pam.data.sampling import ALL
from pam.data.subword_marks import MarkedLines
from pam.data.text_files import cleaned, lines_of, refuse_half_characters
from pam.data.tokenizers import TOKENIZERS
from pam.data.vocabulary import Vocabulary
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write
from pam.tasks.captioning.codec import CaptioningCodec, CaptioningSettings
from pam.tasks.translation.files import REFERENCES, SCORED, pair_writer, read_pairs
from pam.tasks.translation.format import VocabularyFormat

# keys by which the registry names the files, below the split `all`
CAPTIONS = "captions"
FEATURES = "features"


class FramesFormat(Strict):
    """Choice of the frames of a clip that are read."""

    first: int | None = Field(None, ge=1, description="only so many, from the first on; null: all")
    spaced: int | None = Field(
        None, ge=2, description="of these so many, equally spaced; null: all"
    )


class ClipsFormat(Strict):
    """Numbers of clips of each split, in the order of the captions' file.

    Clips after the last are left out.
    """

    train: int = Field(ge=1, description="clips to train with, the first ones")
    dev: int = Field(ge=1, description="clips for development, those that follow")
    test: int = Field(ge=1, description="clips to test with, after these")


class CaptioningFormat(TaskFormat):
    """Keys that a data set of clips and captions may have under `format`."""

    source_eos: bool = Field(False, description="not allowed, as frames have no end symbol")
    clips: ClipsFormat = Field(
        description=(
            "clips of each split, in the order of the captions' file:"
            " `{train: 1200, dev: 100, test: 670}`"
        )
    )
    frames: FramesFormat = Field(
        FramesFormat(),
        description=(
            "frames that are read of a clip: `{first: 240, spaced: 24}` reads 24 equally spaced"
            " frames of the first 240"
        ),
    )
    unmatched: Literal["refuse", "drop"] = Field(
        "refuse",
        description=(
            "clips that lack captions or features: `refuse`: an error that names one; `drop`: leave"
            " them out"
        ),
    )
    language: str = Field(
        "en", pattern=LANGUAGE, description="code of the language of the captions"
    )
    tokenize: str = Field("wordpunct", description="as in translation; `wordpunct` is NLTK's")
    lowercase: bool = Field(False, description="whether to lowercase the captions")
    vocabulary: VocabularyFormat = Field(
        VocabularyFormat(), description="words in the vocabulary, as in translation"
    )

    @field_validator("tokenize")
    @classmethod
    def _known(cls, tokenize: str) -> str:
        if tokenize not in TOKENIZERS:
            raise ValueError(f"no tokenizer `{tokenize}`; known: {', '.join(sorted(TOKENIZERS))}")
        return tokenize

    @model_validator(mode="after")
    def _has_no_end(self) -> CaptioningFormat:
        if self.source_eos:
            raise ValueError("frames have no end symbol: leave out `source_eos`")
        return self

    def codec(self, units: int) -> CaptioningCodec:
        target = SideSettings.of_new_data(
            language=self.language, tokenize=self.tokenize, lowercase=self.lowercase
        )
        settings = CaptioningSettings(
            units=units, first=self.frames.first, spaced=self.frames.spaced, target=target
        )
        return CaptioningCodec(settings)


def read_captions(path: Path) -> dict[str, list[str]]:
    """Read the captions of each clip, in the file's order.

    The file is JSON, in one of three forms: an object of clips, each with a list of captions; a
    list of objects with `id` and `caption`; or MSR-VTT's object, whose `sentences` have a
    `video_id` and a `caption` each, in the order of `videos`. A UserError says what is wrong with
    it.
    """
    content = _read_json(path)
    captions: dict[str, list[str]] = defaultdict(list)
    records: Any = content
    if isinstance(content, dict) and "sentences" in content:
        # Clips come in the order of the videos, those without captions too.
        records = content["sentences"]
        for video in content.get("videos", ()):
            video_id = video.get("video_id") if isinstance(video, dict) else None
            if isinstance(video_id, str):
                captions[video_id] = []
    elif isinstance(content, dict):
        records = [{"id": clip, "caption": texts} for clip, texts in content.items()]

    if not isinstance(records, list) or not records:
        hint = (
            'write {"clip": ["caption", ...], ...}, or a list of {"id": "clip", "caption":'
            ' ["caption", ...]}'
        )
        raise UserError("these are not captions of clips", file=path, hint=hint)

    for number, record in enumerate(records, 1):
        fields: dict[str, Any] = record if isinstance(record, dict) else {}
        clip: Any = fields.get("video_id", fields.get("id"))
        texts: Any = fields.get("caption")
        if isinstance(texts, str):
            texts = [texts]

        is_clip = isinstance(clip, str) and isinstance(texts, list)
        if not is_clip or not all(isinstance(text, str) for text in texts):
            hint = "give it the name of a clip, and a caption or a list of captions, as text"
            raise UserError(f"record {number} has no clip with captions", file=path, hint=hint)
        if "\t" in clip or "\n" in clip:
            message = f"the clip {clip!r} has a tab or a line end in its name"
            raise UserError(message, file=path, hint="rename it")
        captions[clip] += texts

    return dict(captions)


def _read_json(path: Path) -> Any:
    """Parse a user's JSON file, also compressed; a UserError names the line of an error."""
    lines = list(lines_of(path))
    for text in lines:
        refuse_half_characters(text)

    try:
        return json.loads("\n".join(line.text for line in lines))
    except (ValueError, RecursionError) as error:
        message = f"this is not valid JSON: {error}"
        line = getattr(error, "lineno", None)
        raise UserError(message, file=path, line=line, hint="correct the file") from error


class Extract(Stage[CaptioningFormat]):
    """Files to clips with their frames, and one line a caption.

    Writes `extract/{train,dev,test}.{source,target}`.
    """

    keys = ("clips", "frames", "unmatched", "sample")

    def run(self) -> dict[str, Any]:
        """Write clips and captions; count captions, and clips that lack captions or features."""
        files = self.files[ALL]
        if not isinstance(files, Mapping) or set(files) != {CAPTIONS, FEATURES}:
            hint = (
                f"name both in the registry: `splits: {{{ALL}: {{{CAPTIONS}: FILE, {FEATURES}:"
                " FILE}}`"
            )
            raise UserError(f"split {ALL} is not two files", hint=hint)

        captions = read_captions(files[CAPTIONS])
        frames = self.layout.frames
        with clips_in(files[FEATURES]) as (names, read):
            clips = self._matched(captions, names, files)
            divided = self._divided(clips, files[CAPTIONS])
            # Frames of clips of no split are not stored.
            used = [clip for split_clips in divided.values() for clip in split_clips]
            write_table(
                folder=self.out / "extract",
                clips=used,
                read=lambda clip: spaced(read(clip), frames.first, frames.spaced),
            )

        counts = [self._write(split, divided[split], captions, files[CAPTIONS]) for split in SPLITS]
        # Whatever is in no split is counted with the first one.
        counts[0]["dropped"] |= self._left_out(captions, names, len(clips) - len(used))
        texts = MarkedLines(cleaned(text) for clip in used for text in captions[clip])
        return {"splits": counts, "warnings": texts.warnings("the captions")}

    def _matched(
        self, captions: Mapping[str, Sequence[str]], names: list[str], files: Mapping[str, Path]
    ) -> list[str]:
        """Return the clips that have captions and features, in the captions' order.

        A UserError names a clip that lacks one of them.
        """
        with_features = set(names)
        if self.layout.unmatched == "refuse":
            hint = "complete the files, or write `format: {unmatched: drop}`"
            for clip in captions:
                if clip not in with_features:
                    message = f"the clip `{clip}` has captions but no features"
                    raise UserError(message, file=files[FEATURES], hint=hint)
            for name in names:
                if not captions.get(name):
                    message = f"the clip `{name}` has features but no captions"
                    raise UserError(message, file=files[CAPTIONS], hint=hint)

        return [clip for clip, texts in captions.items() if clip in with_features and texts]

    def _left_out(
        self, captions: Mapping[str, Sequence[str]], names: list[str], beyond: int
    ) -> dict[str, int]:
        with_features = set(names)
        counts = {
            "clips without features": sum(clip not in with_features for clip in captions),
            "clips without captions": sum(not captions.get(name) for name in names),
            "clips of no split": beyond,
        }
        return {reason: count for reason, count in counts.items() if count}

    def _divided(self, clips: list[str], path: Path) -> dict[str, list[str]]:
        """Divide clips into splits, in their order; a UserError if there are too few."""
        sizes = {split: int(getattr(self.layout.clips, split)) for split in SPLITS}
        if sum(sizes.values()) > len(clips):
            listed = " + ".join(map(str, sizes.values()))
            message = f"{len(clips)} clips are too few for {listed} of `clips`"
            raise UserError(message, file=path, hint="ask for fewer in `format: {clips: ...}`")

        remaining = iter(clips)
        return {split: list(islice(remaining, size)) for split, size in sizes.items()}

    def _write(
        self, split: str, clips: list[str], captions: Mapping[str, list[str]], path: Path
    ) -> dict[str, Any]:
        """Write a line for each caption of train, of which a sample may be drawn, or for each clip.

        Dev and test have one line for each clip, with all of its captions.
        """
        invisible = 0
        with pair_writer(self.out / "extract", split) as writer:
            texts_of = {}
            for clip in clips:
                invisible += sum(bool(INVISIBLE.search(text)) for text in captions[clip])
                texts_of[clip] = [cleaned(text) for text in captions[clip]]
                if not all(texts_of[clip]):
                    number = texts_of[clip].index("") + 1
                    message = f"caption {number} of the clip `{clip}` is empty"
                    raise UserError(message, file=path, hint="complete it or delete it")

            # What is scored has one output a clip, which is compared with all captions.
            if split in SCORED:
                rows = [(clip, json.dumps(texts_of[clip], ensure_ascii=False)) for clip in clips]
            else:
                rows = [(clip, text) for clip in clips for text in texts_of[clip]]

            drawn, writer.dropped["not in the sample"] = self.layout.sample.of(split, iter(rows))
            for clip, text in drawn:
                writer.write(clip, text)

        return writer.stats(split) | {"invisible_characters": invisible}


class Tokenize(Stage[CaptioningFormat]):
    """Captions to words.

    Writes `tokenize/{train,dev,test}.{source,target}`, and references in `{dev,test}.target.txt`.
    """

    keys = ("language", "tokenize", "lowercase")

    def run(self) -> dict[str, Any]:
        """Write the words of each split; count captions and words."""
        counts = []
        for split in SPLITS:
            is_scored = split in SCORED
            with pair_writer(self.out / "tokenize", split, references=is_scored) as writer:
                for clip, text in read_pairs(self.out / "extract", split):
                    # Of scored splits a line has all captions of a clip.
                    texts = json.loads(text) if is_scored else [text]
                    captions = [self._words(clip, caption) for caption in texts]
                    readable = partial(json.dumps, captions, ensure_ascii=False)
                    writer.write(clip, captions[0], readable=readable)

            counts.append(writer.stats(split, "words"))
        return {"splits": counts}

    def _words(self, clip: str, text: str) -> str:
        words = " ".join(self._codec.target.words(text))
        if not words:
            message = f"a caption of the clip `{clip}` has no words: {text!r}"
            raise UserError(message, hint="delete the caption")
        return words

    @cached_property
    def _codec(self) -> CaptioningCodec:
        return self.layout.codec(1)


class Index(Stage[CaptioningFormat]):
    """Words to numbers: texts, vocabularies, ids, codec and frames, in the prepared folder itself.

    The source's vocabulary is that of the numbers of frames: those of the longest clip of training.
    """

    keys = ("vocabulary", "source_eos", "add_symbols")

    def run(self) -> dict[str, Any]:
        """Write the prepared folder; count symbols, and by split rows, frames and words."""
        for name in Table.FILES:
            self._copy(self.out / "extract" / name)
        table = Table.load(self.out)
        rows = {split: list(read_pairs(self.out / "tokenize", split)) for split in SPLITS}

        vocabularies = self._vocabularies(table, rows["train"])
        source, target = vocabularies
        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")

        counts = {}
        for split in SPLITS:
            written = write_split(
                folder=self.out,
                name=split,
                rows=rows[split],
                symbols=(
                    (self._frames(table, clip) for clip, _ in rows[split]),
                    (caption.split() for _, caption in rows[split]),
                ),
                vocabularies=vocabularies,
                source_eos=False,
            )
            counts[split] = {"rows": len(written), **written.symbol_counts()}
            self._check_known(split, counts[split], rows[split])

        for split in SCORED:
            self._copy(self.out / "tokenize" / REFERENCES.format(split=split))
        # The codec checks that other clips have as many units.
        units = table.frames.shape[1]
        self.layout.codec(units).save(self.out)

        shared = self._shared(table, rows)
        return {
            "languages": {"source": "frames", "target": self.layout.language},
            "source_symbols": len(source),
            "target_symbols": len(target),
            "units": units,
            "splits": counts,
            "pairs_in_train_too": {split: shared.count("train", split) for split in SCORED},
            "pairs_in_two_splits": shared.counts,
            "warnings": shared.warnings,
        }

    def _copy(self, path: Path) -> None:
        """Copy a file of an earlier stage into the prepared folder."""
        with atomic_write(self.out / path.name) as temporary:
            shutil.copyfile(path, temporary)

    def _vocabularies(
        self, table: Table, train_rows: list[tuple[str, str]]
    ) -> tuple[Vocabulary, Vocabulary]:
        """Make the vocabularies of frames and of words, from the rows of training."""
        longest = max(len(self._frames(table, clip)) for clip, _ in train_rows)
        word_counts = Counter(word for _, caption in train_rows for word in caption.split())

        size = self.layout.vocabulary.size
        if isinstance(size, dict):
            raise UserError(
                "captions have one vocabulary", hint="write `vocabulary: {size: NUMBER}`"
            )

        source = Vocabulary(map(str, range(1, longest + 1)))
        target = Vocabulary.by_frequency(word_counts, size, self.layout.vocabulary.min_count)
        return source, target

    def _check_known(
        self, split: str, counts: Mapping[str, Any], rows: list[tuple[str, str]]
    ) -> None:
        """Refuse captions whose words are whole phrases, in a language without spaces.

        Training mostly lacks such words.
        """
        unknown = counts["target"]["unknown"] / max(1, counts["target"]["symbols"])
        words = [word for _, caption in rows for word in caption.split()]
        hint = segmentation_hint(
            words, language(self.layout.language), self.layout.tokenize, subwords=False
        )
        if hint and unknown > MOST_UNKNOWN:
            raise UserError(f"{split}: training has only {1 - unknown:.0%} of the words", hint=hint)

    @staticmethod
    def _frames(table: Table, clip: str) -> list[str]:
        """Return the numbers of a clip's frames, from 1."""
        begin, end = table.places[clip]
        return list(map(str, range(1, end - begin + 1)))

    @staticmethod
    def _shared(table: Table, rows: Mapping[str, list[tuple[str, str]]]) -> Overlaps:
        """Count the clips of two splits that have the very same frames."""
        # Of clips with the same frames one name stands for all.
        names: dict[bytes, str] = {}
        clips: dict[str, list[str]] = {}
        for split in SPLITS:
            split_clips = dict.fromkeys(clip for clip, _ in rows[split])
            clips[split] = [names.setdefault(table[clip].tobytes(), clip) for clip in split_clips]
        return overlaps("clips, by their frames", {split: clips[split].copy for split in SPLITS})


class Captioning(Task[CaptioningFormat]):
    """The kind of task, whose sources are vectors."""

    Format = CaptioningFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {
        "extract": Extract,
        "tokenize": Tokenize,
        "index": Index,
    }
    packages = ("pycocoevalcap",)
    has_symbols = False

    def splits(self, layout: CaptioningFormat) -> tuple[str, ...]:
        return (ALL,)

    def first_rows(
        self, files: Files, layout: CaptioningFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        split_files = files[ALL]
        if not isinstance(split_files, Mapping) or CAPTIONS not in split_files:
            return {}

        captions = read_captions(split_files[CAPTIONS])
        rows: list[tuple[str, ...]] = [
            (clip, texts[0]) for clip, texts in captions.items() if texts
        ]
        return {ALL: rows[:count]}

    def modules(self, stage: str, layout: CaptioningFormat) -> list[str]:
        if stage == "extract":
            return class_names(Extract)

        stage_or_codec = self.STAGES.get(stage, CaptioningCodec)
        return class_names(stage_or_codec, TOKENIZERS[layout.tokenize])
