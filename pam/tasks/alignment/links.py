"""Word alignments that people made: the words of two sentences, and links between them.

They are no task that a model learns. They are prepared for a task of translation, whose
vocabularies and subwords they take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from pam.data.dataset import Prepared, Split, write_split, write_summary
from pam.data.download import check_fetched
from pam.data.languages import composed
from pam.data.prepare import Stage, Task, class_names, files_of, origin_of
from pam.data.reading import Files, aligned
from pam.data.text_files import Line, text_lines
from pam.data.tokenizers import TOKENIZERS
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.runtime.files import write_text
from pam.tasks.translation.codec import TranslationCodec
from pam.tasks.translation.format import SIDE

if TYPE_CHECKING:
    from pam.data.registry import Dataset

GOLD = "gold"  # the one split
LINKS = "links"  # with the two languages, the key of the file that holds the links

Link = tuple[int, int]


class AlignmentFormat(Strict):
    """Keys that a data set of word alignments may have under `format`."""

    source: str = Field(pattern=SIDE, description="language of the first number of a link")
    target: str = Field(pattern=SIDE, description="language of the second number of a link")
    first: int = Field(1, ge=0, le=1, description="number of a sentence's first word, 0 or 1")
    unmatched: Literal["refuse", "drop"] = Field(
        "refuse",
        description=(
            "links to words that do not exist: `refuse`: an error that names one; `drop`: leave"
            " them out"
        ),
    )


class WordAlignments(Task[AlignmentFormat]):
    """The kind of data. It has no stages, as no model learns it."""

    Format = AlignmentFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {}

    def splits(self, layout: AlignmentFormat) -> tuple[str, ...]:
        return (GOLD,)

    def first_rows(
        self, files: Files, layout: AlignmentFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        """Return the first pairs of sentences, as for other kinds.

        All links are read: a fault in them would show once models are trained.
        """
        rows = [(source, target) for source, target, _, _ in _read(files, layout)]
        return {GOLD: list(rows[:count])}

    def modules(self, stage: str, layout: AlignmentFormat) -> list[str]:
        if stage == "codec":
            return class_names(TranslationCodec)

        # What prepares them has no class of its own.
        return class_names(WordAlignments)


@dataclass(frozen=True)
class Links:
    """Links of one sentence pair (Och and Ney 2003).

    A link is (source word, target word), numbered from 0; links are sorted.
    """

    sure: tuple[Link, ...]  # those that an alignment must have
    possible: tuple[Link, ...]  # those that it may have; the sure ones are among them

    def flipped(self) -> Links:
        """Return the links from target to source."""
        sure = sorted((target, source) for source, target in self.sure)
        possible = sorted((target, source) for source, target in self.possible)
        return Links(tuple(sure), tuple(possible))


def parse_links(
    line: Line, lengths: tuple[int, int], first: int, unmatched: str = "refuse"
) -> tuple[Links, int]:
    """Read links `i-j` (sure) and `ipj` (possible), words numbered from `first`.

    Returns also how many were left out, as `unmatched` says, since their words are not there. A
    UserError names a link that cannot be.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    left_out = 0
    for text in line.text.split():
        match = re.fullmatch(r"(\d+)([-p])(\d+)", text)
        if match is None:
            hint = "write SOURCE-TARGET where it is sure, else SOURCEpTARGET"
            raise line.error(f"`{text}` is not a link", hint)

        link = (int(match[1]) - first, int(match[3]) - first)
        beyond = _beyond(link, lengths)
        if beyond is not None and unmatched == "refuse":
            side, number, length = beyond
            message = f"link `{text}`: the {side} sentence has no word {number + first}"
            hint = (
                f"its words are {first} to {length - 1 + first}; or write `format: {{unmatched:"
                " drop}`"
            )
            raise line.error(message, hint)
        if beyond is not None:
            left_out += 1
            continue

        # Sure links are possible ones too.
        possible.add(link)
        if match[2] == "-":
            sure.add(link)

    return Links(tuple(sorted(sure)), tuple(sorted(possible))), left_out


def _beyond(link: Link, lengths: tuple[int, int]) -> tuple[str, int, int] | None:
    """Name the side of a link without its word, the word's number and the sentence's length."""
    for side, number, length in zip(("source", "target"), link, lengths, strict=True):
        if not 0 <= number < length:
            return side, number, length
    return None


def prepare_word_alignments(
    name: str, dataset: Dataset, raw: Path, data: Path, out: Path
) -> dict[str, Any]:
    """Make the prepared folder `out` from the fetched files in `raw`, for the task in `data`.

    It has one split, and the links in `links.json`. Words stay as they are, in small letters if the
    task's are, since the links count them; ids are those of the task, and sources end as they do
    there. Where the task translates in the other direction, all is turned round. Returns the
    summary. A UserError names what does not fit, with file and line.
    """
    task = Prepared(data)
    if not isinstance(dataset.kind, WordAlignments) or "languages" not in task.summary:
        message = (
            f"`{name}` and the data in {data} are not word alignments and a task of translation"
        )
        raise UserError(message, hint="name a data set with `task: alignment`")

    hashes = check_fetched(dataset, raw)
    layout = AlignmentFormat.model_validate(dataset.format)
    codec = TranslationCodec.load(data)
    languages = task.summary["languages"]
    _check_fits(name, layout, languages, codec)

    pairs = []
    links = []
    left_out = 0
    turn = layout.source != languages["source"]
    for source, target, pair_links, unmatched in _pairs_of_task(
        files_of(dataset, raw), layout, codec, turn=turn
    ):
        pairs.append((source, target))
        links.append(pair_links)
        left_out += unmatched

    split = _write(out, task, codec, pairs)
    links_by_kind = {
        "sure": [pair_links.sure for pair_links in links],
        "possible": [pair_links.possible for pair_links in links],
    }
    write_text(out / "links.json", json.dumps(links_by_kind) + "\n")

    counts: dict[str, Any] = {
        "rows": len(pairs),
        "links": {kind: sum(map(len, by_pair)) for kind, by_pair in links_by_kind.items()},
    }
    if layout.unmatched == "drop":
        counts["unmatched_links"] = left_out

    origin = origin_of(name, dataset, hashes)
    return write_summary(out, {**origin, "languages": languages, **counts, **split.symbol_counts()})


def _write(
    out: Path, task: Prepared, codec: TranslationCodec, pairs: list[tuple[str, str]]
) -> Split:
    """Write the one split into a folder, with the vocabularies and the codec of a task."""
    task.source.save(out / "source.vocab")
    task.target.save(out / "target.vocab")
    codec.save(out)
    return write_split(
        folder=out,
        name=GOLD,
        rows=pairs,
        symbols=(
            (codec.source_symbols([source]) for source, _ in pairs),
            (codec.target_symbols(target) for _, target in pairs),
        ),
        vocabularies=(task.source, task.target),
        source_eos=task.split("train").source_eos,
    )


def _check_fits(
    name: str, layout: AlignmentFormat, languages: Mapping[str, str], codec: TranslationCodec
) -> None:
    """Check that links between words of a data set can be used for a task of translation."""
    aligned_languages = (layout.source, layout.target)
    task_languages = (languages["source"], languages["target"])
    if sorted(aligned_languages) != sorted(task_languages):
        message = (
            f"`{name}` aligns {' and '.join(aligned_languages)}, but the task translates"
            f" {' into '.join(task_languages)}"
        )
        raise UserError(message, hint="choose alignments of the task's languages")

    sides = (codec.settings.source, codec.settings.target)
    if any(TOKENIZERS[side.tokenize].spells for side in sides):
        message = f"the links of `{name}` count words, and the words of the task are characters"
        raise UserError(message, hint="choose another `tokenize`, or leave out `word_alignments`")


def _pairs_of_task(
    files: Files, layout: AlignmentFormat, codec: TranslationCodec, *, turn: bool
) -> Iterator[tuple[str, str, Links, int]]:
    """Yield what `_read` does with words in the task's case, the sides turned round if `turn`."""
    for source, target, links, left_out in _read(files, layout):
        if turn:
            yield codec.source.cased(target), codec.target.cased(source), links.flipped(), left_out
        else:
            yield codec.source.cased(source), codec.target.cased(target), links, left_out


def _read(files: Files, layout: AlignmentFormat) -> Iterator[tuple[str, str, Links, int]]:
    """Yield source and target, their links, and how many of these were left out.

    Words have one space between two.
    """
    gold_files = files[GOLD]
    keys = (layout.source, layout.target, LINKS)
    if not isinstance(gold_files, Mapping) or not set(keys) <= set(gold_files):
        hint = f"name them in the registry: {{{': FILE, '.join(keys)}: FILE}}"
        raise UserError(f"split {GOLD} needs three files", hint=hint)

    # Both pairs of files must have the same length; a pair at a time keeps memory small.
    source_file, target_file, links_file = (gold_files[key] for key in keys)
    sentences = aligned(source_file, target_file, text_lines)
    for (source, target), (_, line_of_links) in zip(
        sentences, aligned(source_file, links_file), strict=True
    ):
        source_words = composed(source.text).split()
        target_words = composed(target.text).split()

        if not source_words:
            raise source.error("the line is blank", "complete it")
        if not target_words:
            raise target.error("the line is blank", "complete it")

        links, left_out = parse_links(
            line=line_of_links,
            lengths=(len(source_words), len(target_words)),
            first=layout.first,
            unmatched=layout.unmatched,
        )
        yield " ".join(source_words), " ".join(target_words), links, left_out
