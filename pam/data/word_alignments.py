"""Word alignments that people made: the words of two sentences, and links between them.

They are no task that a model learns: they are prepared for a task of translation, whose
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

from pam.data.dataset import Prepared, write_split, write_summary
from pam.data.download import check_fetched
from pam.data.languages import composed
from pam.data.prepare import Stage, Task, class_names, files_of, origin_of
from pam.data.readers import Files, aligned
from pam.data.text_files import Line, text_lines
from pam.data.tokenizers import TOKENIZERS, TranslationCodec
from pam.data.translation import SIDE
from pam.io import Strict, UserError, write_text

if TYPE_CHECKING:
    from pam.data.registry import Dataset

GOLD = "gold"  # the one split
LINKS = "links"  # with the two languages, the key of the file that holds the links

Link = tuple[int, int]


class AlignmentFormat(Strict):
    """Keys that a data set of word alignments may have under `format`."""

    source: str = Field(pattern=SIDE, description="language of a link's first number")
    target: str = Field(pattern=SIDE, description="language of a link's second number")
    first: int = Field(1, ge=0, le=1, description="number of a sentence's first word")
    unmatched: Literal["refuse", "drop"] = Field(
        "refuse", description="`drop` leaves out links to words that a sentence does not have"
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
        """As of other kinds, but all links are read: a fault in them would show once models are
        trained.
        """
        rows = [pair[:2] for pair in _read(files, layout)]
        return {GOLD: list(rows[:count])}

    def modules(self, stage: str, layout: AlignmentFormat) -> list[str]:
        """The codec, or what prepares them."""
        return class_names(TranslationCodec if stage == "codec" else WordAlignments)


@dataclass(frozen=True)
class Links:
    """Links of one sentence pair as (source word, target word), numbered from 0 and sorted (Och and
    Ney 2003).
    """

    sure: tuple[Link, ...]  # those that an alignment must have
    possible: tuple[Link, ...]  # those that it may have; the sure ones are among them

    def flipped(self) -> Links:
        sure, possible = (
            tuple(sorted((j, i) for i, j in links)) for links in (self.sure, self.possible)
        )
        return Links(sure, possible)


def parse_links(
    line: Line, lengths: tuple[int, int], first: int, unmatched: str = "refuse"
) -> tuple[Links, int]:
    """Read `i-j` (sure) and `ipj` (possible), words numbered from `first`; return also how many
    were left out, as `unmatched` says, since their words are not there. A UserError names a link
    that cannot be.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    left_out = 0
    for written in line.text.split():
        match = re.fullmatch(r"(\d+)([-p])(\d+)", written)
        if match is None:
            raise line.error(
                f"`{written}` is not a link",
                "write SOURCE-TARGET where it is sure, else SOURCEpTARGET",
            )
        link = int(match[1]) - first, int(match[3]) - first
        beyond = _beyond(link, lengths)
        if beyond is not None and unmatched == "refuse":
            side, number, length = beyond
            message = f"link `{written}`: the {side} sentence has no word {number + first}"
            hint = (
                f"its words are {first} to {length - 1 + first}; or write `format: {{unmatched:"
                " drop}`"
            )
            raise line.error(message, hint)
        if beyond is not None:
            left_out += 1
            continue
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
    """Makes the prepared folder `out` from the fetched files in `raw`, for the task prepared in
    `data`; the summary.

    It has one split, and the links in `links.json`. Words stay as they are, in small letters if the
    task's are, since the links count them; ids are those of the task, and sources end as they do
    there. Where the task translates in the other direction, all is turned round. A UserError names
    what does not fit, with file and line.
    """
    task = Prepared(data)
    if not isinstance(dataset.kind, WordAlignments) or "languages" not in task.summary:
        message = (
            f"`{name}` and the data in {data} are not word alignments and a task of translation"
        )
        raise UserError(message, hint="name a data set with `task: alignment`")
    hashes = check_fetched(dataset, raw)
    layout = AlignmentFormat.model_validate(dataset.format)
    languages, codec = task.summary["languages"], TranslationCodec.load(data)
    own, wanted = (layout.source, layout.target), (languages["source"], languages["target"])
    if sorted(own) != sorted(wanted):
        message = (
            f"`{name}` aligns {' and '.join(own)}, the task translates {' into '.join(wanted)}"
        )
        raise UserError(message, hint="choose alignments of the task's languages")
    sides = (codec.settings.source, codec.settings.target)
    if any(TOKENIZERS[side.tokenize].spells for side in sides):
        message = f"the links of `{name}` count words, and the words of the task are characters"
        raise UserError(message, hint="choose another `tokenize`, or leave out `word_alignments`")
    pairs = []
    left_out = 0
    for source, target, own_links, unmatched in _read(files_of(dataset, raw), layout):
        left_out += unmatched
        if own != wanted:
            source, target, own_links = target, source, own_links.flipped()
        pairs.append((codec.source.cased(source), codec.target.cased(target), own_links))
    task.source.save(out / "source.vocab")
    task.target.save(out / "target.vocab")
    codec.save(out)
    symbols = (
        (codec.source_symbols([pair[0]]) for pair in pairs),
        (codec.target_symbols(pair[1]) for pair in pairs),
    )
    given = (pair[:2] for pair in pairs), symbols, (task.source, task.target)
    split = write_split(out, GOLD, *given, source_eos=task.split("train").source_eos)
    links = {
        "sure": [own.sure for *_, own in pairs],
        "possible": [own.possible for *_, own in pairs],
    }
    write_text(out / "links.json", json.dumps(links) + "\n")
    counts: dict[str, Any] = {
        "rows": len(pairs),
        "links": {kind: sum(map(len, own)) for kind, own in links.items()},
    }
    if layout.unmatched == "drop":
        counts["unmatched_links"] = left_out
    origin = origin_of(name, dataset, hashes)
    return write_summary(out, {**origin, "languages": languages, **counts, **split.symbol_counts()})


def _read(files: Files, layout: AlignmentFormat) -> Iterator[tuple[str, str, Links, int]]:
    """Words of source and target, with one space between two, their links, and how many of these
    were left out.
    """
    own = files[GOLD]
    wanted = (layout.source, layout.target, LINKS)
    if isinstance(own, Path) or not set(wanted) <= set(own):
        hint = f"name them in the registry: {{{': FILE, '.join(wanted)}: FILE}}"
        raise UserError(f"split {GOLD} needs three files", hint=hint)
    source, target, links = (own[key] for key in wanted)
    # Both pairs of files must have the same length; a pair at a time keeps memory small.
    sentences = aligned(source, target, text_lines)
    for (line, other), (_, linked) in zip(sentences, aligned(source, links), strict=True):
        words, others = (composed(side.text).split() for side in (line, other))
        if not words or not others:
            raise (other if words else line).error("the line is blank", "complete it")
        read_links, left_out = parse_links(
            linked, (len(words), len(others)), layout.first, layout.unmatched
        )
        yield " ".join(words), " ".join(others), read_links, left_out
