"""Word alignments that people made: the words of two sentences, and links between them.

They are no task that a model learns. They are prepared for a task of translation, whose
vocabularies and subwords they take.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from pam.data import class_names
from pam.data.dataset import Prepared, write_split
from pam.data.readers import aligned
from pam.data.tasks import Stage, Task
from pam.data.text import Files, Line, lines_of
from pam.data.tokenizers import TranslationCodec
from pam.data.translation import LANGUAGE
from pam.io import Strict, UserError, write_text

GOLD = "gold"
"""The one split."""

LINKS = "links"
"""With the two languages, the key of the file that holds the links."""

Link = tuple[int, int]

_LINK = re.compile(r"(\d+)([-p])(\d+)")


class AlignmentFormat(Strict):
    """Keys that a data set of word alignments may have under `format`."""

    source: str = Field(pattern=LANGUAGE, description="language of a link's first number")
    target: str = Field(pattern=LANGUAGE, description="language of a link's second number")
    first: int = Field(1, ge=0, le=1, description="number of a sentence's first word")


@dataclass(frozen=True)
class Links:
    """Links of one sentence pair as (source word, target word), numbered from 0 and sorted.

    Attributes:
        sure: those that an alignment must have.
        possible: those that it may have; the sure ones are among them (Och and Ney 2003).
    """

    sure: tuple[Link, ...]
    possible: tuple[Link, ...]

    def flipped(self) -> Links:
        """The links in the other direction."""
        sure, possible = (tuple(sorted((j, i) for i, j in links)) for links in (self.sure, self.possible))
        return Links(sure, possible)


def parse_links(line: Line, lengths: tuple[int, int], first: int) -> Links:
    """Reads `i-j` (sure) and `ipj` (possible), separated by spaces.

    Args:
        lengths: words of the source and of the target sentence.
        first: number of the first word, 0 or 1.

    Raises:
        UserError: a link is malformed, or a sentence has no such word; names the link.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for written in line.text.split():
        match = _LINK.fullmatch(written)
        if match is None:
            raise line.error(f"`{written}` is not a link", "write SOURCE-TARGET where it is sure, else SOURCEpTARGET")
        link = int(match[1]) - first, int(match[3]) - first
        for side, number, length in zip(("source", "target"), link, lengths, strict=True):
            if not 0 <= number < length:
                raise line.error(
                    f"link `{written}`: the {side} sentence has no word {number + first}",
                    f"its words are {first} to {length - 1 + first}",
                )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Links(tuple(sorted(sure)), tuple(sorted(possible)))


class AlignedPair(NamedTuple):
    """Words of a pair, with one space between two, and links between them."""

    source: str
    target: str
    links: Links


class WordAlignments(Task[AlignmentFormat]):
    """The kind of data. It has no stages, as no model learns it."""

    Format = AlignmentFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {}

    def splits(self, layout: AlignmentFormat) -> tuple[str, ...]:
        """One."""
        return (GOLD,)

    def modules(self, stage: str, layout: AlignmentFormat) -> list[str]:
        """The codec, or what prepares them."""
        return class_names(TranslationCodec if stage == "codec" else WordAlignments)

    def prepare(self, name: str, files: Files, layout: AlignmentFormat, task: Prepared, out: Path) -> dict[str, Any]:
        """Writes all of a prepared folder of the one split but its summary, with `links.json`.

        Words stay as the data set has them, in small letters if the task's are, since the links count them; ids are
        those of the task. Where the task translates in the other direction, all is turned round.

        Args:
            name: the data set's name.
            files: the fetched files.
            task: the task's prepared folder.
            out: the folder to write.

        Returns:
            Counts for the summary.

        Raises:
            UserError: other languages than the task's, files of different lengths, a blank line, a malformed link or
                one to a word that is not there; names file and line.
        """
        codec = TranslationCodec.load(task.folder)
        flip = _is_flipped(name, layout, task.summary["languages"])
        pairs = []
        for source, target, links in _read(files, layout):
            if flip:
                source, target, links = target, source, links.flipped()
            pairs.append(AlignedPair(codec.source.cased(source), codec.target.cased(target), links))
        return _write(pairs, task, codec, out)


def _is_flipped(name: str, layout: AlignmentFormat, languages: Mapping[str, str]) -> bool:
    """Whether the task translates in the other direction."""
    own, wanted = (layout.source, layout.target), (languages["source"], languages["target"])
    if sorted(own) != sorted(wanted):
        raise UserError(
            f"`{name}` aligns {' and '.join(own)}, the task translates {' into '.join(wanted)}",
            hint="choose alignments of the task's languages",
        )
    return own != wanted


def _read(files: Files, layout: AlignmentFormat) -> Iterator[AlignedPair]:
    """The sentence pairs of the files as they are."""
    own = files[GOLD]
    wanted = (layout.source, layout.target, LINKS)
    if isinstance(own, Path) or not set(wanted) <= set(own):
        raise UserError(
            f"split {GOLD} needs three files", hint=f"name them in the registry: {{{': FILE, '.join(wanted)}: FILE}}"
        )
    source, target, links = (own[key] for key in wanted)
    # Both pairs of files must have the same length; a pair at a time keeps memory small.
    for (line, other), (_, linked) in zip(
        aligned(lines_of(source), lines_of(target), (source, target)),
        aligned(lines_of(source), lines_of(links), (source, links)),
        strict=True,
    ):
        words, others = _words(line), _words(other)
        yield AlignedPair(
            " ".join(words), " ".join(others), parse_links(linked, (len(words), len(others)), layout.first)
        )


def _words(line: Line) -> list[str]:
    words = unicodedata.normalize("NFC", line.text).split()
    if not words:
        raise line.error("the line is blank", "complete it")
    return words


def _write(pairs: list[AlignedPair], task: Prepared, codec: TranslationCodec, out: Path) -> dict[str, Any]:
    task.source.save(out / "source.vocab")
    task.target.save(out / "target.vocab")
    codec.save(out)
    split = write_split(
        out,
        GOLD,
        [pair[:2] for pair in pairs],
        (
            (codec.source_symbols([pair.source]) for pair in pairs),
            (codec.target_symbols(pair.target) for pair in pairs),
        ),
        (task.source, task.target),
    )
    links = {"sure": [pair.links.sure for pair in pairs], "possible": [pair.links.possible for pair in pairs]}
    write_text(out / "links.json", json.dumps(links) + "\n")
    return {
        "rows": len(pairs),
        "links": {kind: sum(map(len, own)) for kind, own in links.items()},
        **split.symbol_counts(),
    }
