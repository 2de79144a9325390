"""Captioning: what is known of the frames of a clip gives a sentence. A clip has several captions.

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
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from pam.data.dataset import SPLITS, write_split
from pam.data.features import Table, clips_in, spaced, write_table
from pam.data.languages import LANGUAGE, composed, language, segmentation_hint
from pam.data.prepare import MOST_UNKNOWN, Stage, Task, TaskFormat, class_names
from pam.data.readers import ALL, Files
from pam.data.text_files import cleaned, lines_of
from pam.data.tokenizers import TOKENIZERS, CaptioningCodec, CaptioningSettings, SideSettings
from pam.data.translation import REFERENCES, SCORED, VocabularyFormat, pair_writer, read_pairs
from pam.data.vocabulary import Vocabulary
from pam.io import Strict, UserError, atomic_write

# what the registry names the files by, below the split `all`
CAPTIONS, FEATURES = ("captions", "features")


class FramesFormat(Strict):
    """Which frames of a clip are read."""

    first: int | None = Field(None, ge=1, description="only so many, from the first on; null: all")
    spaced: int | None = Field(
        None, ge=2, description="of these so many, equally spaced; null: all"
    )


class ClipsFormat(Strict):
    """How many clips each split has, in the order of the captions' file; clips after the last are
    left out.
    """

    train: int = Field(ge=1, description="clips to train with, the first ones")
    dev: int = Field(ge=1, description="clips for development, those that follow")
    test: int = Field(ge=1, description="clips to test with, after these")


class CaptioningFormat(TaskFormat):
    """Keys that a data set of clips and captions may have under `format`."""

    clips: ClipsFormat = Field(
        description="how many clips each split has, in the order of the captions' file"
    )
    frames: FramesFormat = Field(FramesFormat(), description="which frames of a clip are read")
    unmatched: Literal["refuse", "drop"] = Field(
        "refuse",
        description=(
            "`drop` leaves out clips without captions, and captions of clips without features"
        ),
    )
    language: str = Field(
        "en", pattern=LANGUAGE, description="code of the language of the captions"
    )
    tokenize: str = Field("wordpunct", description="tokenizer (pam.data.tokenizers)")
    lowercase: bool = Field(False, description="all letters small")
    vocabulary: VocabularyFormat = Field(
        VocabularyFormat(), description="which words of the captions have ids"
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
        target = SideSettings(
            language=self.language, tokenize=self.tokenize, lowercase=self.lowercase
        )
        frames = self.frames
        return CaptioningCodec(
            CaptioningSettings(units=units, first=frames.first, spaced=frames.spaced, target=target)
        )


def read_captions(path: Path) -> dict[str, list[str]]:
    """The captions of each clip, in the file's order; a UserError says what is wrong with the file.

    It is JSON, in one of three forms: an object of clips, each with a list of captions; a list of
    objects with `id` and `caption`; or MSR-VTT's object, whose `sentences` have a `video_id`
    and a `caption` each, in the order of `videos`.
    """
    content = _read_json(path)
    found: dict[str, list[str]] = defaultdict(list)
    records: Any = content
    if isinstance(content, dict):
        if "sentences" not in content:
            records = [{"id": clip, "caption": captions} for clip, captions in content.items()]
        else:
            records = content["sentences"]
            listed = [
                own.get("video_id") for own in content.get("videos", ()) if isinstance(own, dict)
            ]
            found |= {clip: [] for clip in listed if isinstance(clip, str)}
    if not isinstance(records, list) or not records:
        hint = (
            'write {"clip": ["caption", ...], ...}, or a list of {"id": "clip", "caption":'
            ' ["caption", ...]}'
        )
        raise UserError("these are not captions of clips", file=path, hint=hint)
    for number, record in enumerate(records, 1):
        own = record if isinstance(record, dict) else {}
        clip, captions = own.get("video_id", own.get("id")), own.get("caption")
        texts = [captions] if isinstance(captions, str) else captions
        if (
            not isinstance(clip, str)
            or not isinstance(texts, list)
            or not all(isinstance(own, str) for own in texts)
        ):
            hint = "give it the name of a clip, and a caption or a list of captions, as text"
            raise UserError(f"record {number} has no clip with captions", file=path, hint=hint)
        if any(c in clip for c in "\t\n"):
            raise UserError(
                f"the clip {clip!r} has a tab or a line end in its name",
                file=path,
                hint="rename it",
            )
        found[clip] += texts
    return dict(found)


def _read_json(path: Path) -> Any:
    """The content of a user's JSON, also compressed; a UserError names the line that is none."""
    try:
        return json.loads("\n".join(line.text for line in lines_of(path)))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise UserError(
            f"this is not valid JSON: {error}", file=path, line=line, hint="correct the file"
        ) from error


class Extract(Stage[CaptioningFormat]):
    """Files to clips with their frames, and one line a caption:
    `extract/{train,dev,test}.{source,target}`.
    """

    keys = ("clips", "frames", "unmatched", "sample")

    def run(self) -> dict[str, Any]:
        """For each split its captions, and how many clips had no captions or no features."""
        own = self.files[ALL]
        if isinstance(own, Path) or set(own) != {CAPTIONS, FEATURES}:
            hint = (
                f"name both in the registry: `splits: {{{ALL}: {{{CAPTIONS}: FILE, {FEATURES}:"
                " FILE}}`"
            )
            raise UserError(f"split {ALL} is not two files", hint=hint)
        captions = read_captions(own[CAPTIONS])
        with clips_in(own[FEATURES]) as (names, read):
            clips = self._matched(captions, names, own)
            divided = self._divided(clips, own[CAPTIONS])
            used = [clip for split in divided.values() for clip in split]
            frames = self.layout.frames
            write_table(
                self.out / "extract",
                used,
                lambda clip: spaced(read(clip), frames.first, frames.spaced),
            )
        counts = [self._write(split, divided[split], captions, own[CAPTIONS]) for split in SPLITS]
        counts[0]["dropped"] |= self._left_out(captions, names, len(clips) - len(used))
        return {"splits": counts}

    def _matched(
        self, captions: Mapping[str, Sequence[str]], names: list[str], own: Mapping[str, Path]
    ) -> list[str]:
        """The clips that have both, in the captions' order; a UserError names one that lacks one of
        them.
        """
        known = set(names)
        if self.layout.unmatched == "refuse":
            hint = "complete the files, or write `format: {unmatched: drop}`"
            for clip in [clip for clip in captions if clip not in known][:1]:
                raise UserError(
                    f"the clip `{clip}` has captions but no features", file=own[FEATURES], hint=hint
                )
            for clip in [name for name in names if not captions.get(name)][:1]:
                raise UserError(
                    f"the clip `{clip}` has features but no captions", file=own[CAPTIONS], hint=hint
                )
        return [clip for clip, texts in captions.items() if clip in known and texts]

    def _left_out(
        self, captions: Mapping[str, Sequence[str]], names: list[str], beyond: int
    ) -> dict[str, int]:
        known = set(names)
        found = {
            "clips without features": sum(clip not in known for clip in captions),
            "clips without captions": sum(not captions.get(name) for name in names),
            "clips of no split": beyond,
        }
        return {reason: count for reason, count in found.items() if count}

    def _divided(self, clips: list[str], path: Path) -> dict[str, list[str]]:
        wanted = {split: int(getattr(self.layout.clips, split)) for split in SPLITS}
        if sum(wanted.values()) > len(clips):
            message = (
                f"{len(clips)} clips are too few for {' + '.join(map(str, wanted.values()))} of"
                " `clips`"
            )
            raise UserError(message, file=path, hint="ask for fewer in `format: {clips: ...}`")
        remaining = iter(clips)
        return {split: [next(remaining) for _ in range(count)] for split, count in wanted.items()}

    def _write(
        self, split: str, clips: list[str], captions: Mapping[str, list[str]], path: Path
    ) -> dict[str, Any]:
        """Training has a line for each caption, of which a sample may be drawn; other splits one
        for each clip.
        """
        with pair_writer(self.out / "extract", split) as writer:
            texts_of = {
                clip: [cleaned(composed(text)) for text in captions[clip]] for clip in clips
            }
            for clip, texts in texts_of.items():
                if not all(texts):
                    hint = "complete it or delete it"
                    raise UserError(
                        f"caption {texts.index('') + 1} of the clip `{clip}` is empty",
                        file=path,
                        hint=hint,
                    )
            rows = [(clip, text) for clip in clips for text in texts_of[clip]]
            if split in SCORED:
                rows = [(clip, json.dumps(texts_of[clip], ensure_ascii=False)) for clip in clips]
            drawn, writer.dropped["not in the sample"] = self.layout.sample.of(split, iter(rows))
            for row in drawn:
                writer.write(*row)
        return writer.stats(split)


class Tokenize(Stage[CaptioningFormat]):
    """Captions to words, `tokenize/{train,dev,test}.{source,target}`, and references in
    `{dev,test}.target.txt`.
    """

    keys = ("language", "tokenize", "lowercase")

    def run(self) -> dict[str, Any]:
        """For each split its captions and their words."""
        counts = []
        for split in SPLITS:
            scored = split in SCORED
            with pair_writer(self.out / "tokenize", split, references=scored) as writer:
                for clip, text in read_pairs(self.out / "extract", split):
                    texts = [
                        self._words(clip, one) for one in (json.loads(text) if scored else [text])
                    ]
                    writer.write(
                        clip, texts[0], readable=partial(json.dumps, texts, ensure_ascii=False)
                    )
            counts.append(writer.stats(split, "words"))
        return {"splits": counts}

    def _words(self, clip: str, text: str) -> str:
        words = " ".join(self._codec.target.words(text))
        if not words:
            raise UserError(
                f"a caption of the clip `{clip}` has no words: {text!r}", hint="delete the caption"
            )
        return words

    @cached_property
    def _codec(self) -> CaptioningCodec:
        return self.layout.codec(1)


class Index(Stage[CaptioningFormat]):
    """Words to numbers: texts, vocabularies, ids, the codec and the frames, in the prepared folder
    itself.

    The source's vocabulary is that of the numbers of frames: those of the longest clip of training.
    """

    keys = ("vocabulary", "source_eos")

    def run(self) -> dict[str, Any]:
        """Sizes of the vocabularies; by split rows, frames and words, and unknown ones."""
        for name in Table.FILES:
            with atomic_write(self.out / name) as temporary:
                shutil.copyfile(self.out / "extract" / name, temporary)
        table = Table.load(self.out)
        rows = {split: list(read_pairs(self.out / "tokenize", split)) for split in SPLITS}
        longest = max(len(self._frames(table, clip)) for clip, _ in rows["train"])
        words = Counter(word for _, caption in rows["train"] for word in caption.split())
        size = self.layout.vocabulary.size
        if isinstance(size, dict):
            raise UserError(
                "captions have one vocabulary", hint="write `vocabulary: {size: NUMBER}`"
            )
        made = (
            Vocabulary(map(str, range(1, longest + 1))),
            Vocabulary.by_frequency(words, size, self.layout.vocabulary.min_count),
        )
        for side, vocabulary in zip(("source", "target"), made, strict=True):
            vocabulary.save(self.out / f"{side}.vocab")
        counts = {}
        for split in SPLITS:
            symbols = (
                (self._frames(table, clip) for clip, _ in rows[split]),
                (text.split() for _, text in rows[split]),
            )
            split_made = write_split(self.out, split, rows[split], symbols, made, source_eos=False)
            counts[split] = {"rows": len(split_made), **split_made.symbol_counts()}
            self._check_known(split, counts[split], rows[split])
        for split in SCORED:
            name = REFERENCES.format(split=split)
            with atomic_write(self.out / name) as temporary:
                shutil.copyfile(self.out / "tokenize" / name, temporary)
        self.layout.codec(table.frames.shape[1]).save(self.out)
        shared = self._shared(table, rows)
        warning = "{} clips of {} are in train too, by their frames; scores on them are too good"
        return {
            "languages": {"source": "frames", "target": self.layout.language},
            "source_symbols": len(made[0]),
            "target_symbols": len(made[1]),
            "units": table.frames.shape[1],
            "splits": counts,
            "pairs_in_train_too": shared,
            "warnings": [warning.format(count, split) for split, count in shared.items() if count],
        }

    def _check_known(
        self, split: str, counted: Mapping[str, Any], rows: list[tuple[str, str]]
    ) -> None:
        """Refuse captions whose words are whole phrases, which training mostly lacks, in a language
        without spaces.
        """
        unknown = counted["target"]["unknown"] / max(1, counted["target"]["symbols"])
        words = [word for _, caption in rows for word in caption.split()]
        hint = segmentation_hint(
            words, language(self.layout.language), self.layout.tokenize, subwords=False
        )
        if hint and unknown > MOST_UNKNOWN:
            raise UserError(f"{split}: training has only {1 - unknown:.0%} of the words", hint=hint)

    @staticmethod
    def _frames(table: Table, clip: str) -> list[str]:
        begin, end = table.places[clip]
        return list(map(str, range(1, end - begin + 1)))

    @staticmethod
    def _shared(table: Table, rows: Mapping[str, list[tuple[str, str]]]) -> dict[str, int]:
        """How many clips of dev and test have the very frames of one of train."""
        seen = {table[clip].tobytes() for clip in {clip for clip, _ in rows["train"]}}
        return {
            split: sum(table[clip].tobytes() in seen for clip, _ in rows[split]) for split in SCORED
        }


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
        own = files[ALL]
        if isinstance(own, Path) or CAPTIONS not in own:
            return {}
        captions = read_captions(own[CAPTIONS])
        rows: list[tuple[str, ...]] = [
            (clip, texts[0]) for clip, texts in captions.items() if texts
        ]
        return {ALL: rows[:count]}

    def modules(self, stage: str, layout: CaptioningFormat) -> list[str]:
        own = self.STAGES.get(stage, CaptioningCodec)
        return (
            class_names(own, TOKENIZERS[layout.tokenize])
            if own is not Extract
            else class_names(own)
        )
