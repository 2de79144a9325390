"""What one aligner did with a text: counts, time, and scores on sentences with gold links."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from pam.alignment.aligner import WordAlignment
from pam.alignment.scoring import LinkScores, gathered, scores_of
from pam.alignment.symmetrization import ONE_DIRECTION
from pam.data.text_files import plain_lines
from pam.experiments.parsing import Strict
from pam.experiments.run_folder import GOLD
from pam.runtime.errors import UserError
from pam.tasks.alignment.counts import count_links, read_word_alignments
from pam.tasks.alignment.links import Links

SMOOTHED = ", smoothed"
"""What the name of a reading ends in where later target words tell of earlier ones."""

Hits = list[int]
"""Counts of a sentence: sure hits, possible hits, links, sure gold links."""


class AlignerRecord(Strict):
    """The content of the file of `align --record`: a row of the table of aligners."""

    aligner: str = Field(description="name of the model or program")
    seed: int | None = Field(None, description="seed of the model; null for a program")
    directions: int = Field(description="1, or 2 whose links are joined")
    reading: str = Field(ONE_DIRECTION, description="how the links that were written are read")
    pairs: int = Field(description="pairs of lines, those with gold links not included")
    blank: int = Field(description="pairs of which a side is blank")
    problems: int = Field(description="pairs that could not be aligned")
    links: int
    wall_s: float
    cpu_s: float
    training_cpu_s: float | None = Field(
        None, description="CPU seconds of the models' trainings; null if unknown, or for a program"
    )
    scores: LinkScores | None = Field(None, description="of the sentences with gold links")
    readings: dict[str, list[Hits]] = Field(
        {}, description="counts of each sentence with gold links, by every way to read links"
    )
    reason: str = Field("", description="why the aligner was not run; else empty")


@dataclass
class GoldSentences:
    """Sentences with gold links, which are aligned after a text and scored."""

    pairs: list[tuple[str, str]]
    links: list[Links]
    alignments: list[WordAlignment] = field(default_factory=list)
    text_pairs: int = 0  # pairs of the text that an aligner has read so far
    readings: dict[str, list[Hits]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> GoldSentences:
        """Read a prepared folder of word alignments; a UserError says what is wrong with it."""
        gold = read_word_alignments(folder / "links.json")
        pairs = []
        for line in plain_lines(folder / f"{GOLD}.tsv"):
            source, _, target = line.text.partition("\t")
            pairs.append((source, target))
        if len(pairs) != len(gold.sure):
            problem = f"{len(pairs)} pairs, but links.json has links of {len(gold.sure)}"
            file = folder / f"{GOLD}.tsv"
            raise UserError(problem, file=file, hint="prepare the word alignments again")
        return cls(
            pairs=pairs,
            links=[
                Links(sure=tuple(sure), possible=tuple(possible))
                for sure, possible in zip(gold.sure, gold.possible, strict=True)
            ],
        )

    def after(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a text, then those with gold links."""
        for pair in pairs:
            self.text_pairs += 1
            yield pair
        yield from self.pairs

    def without(self, alignments: Iterable[WordAlignment]) -> Iterator[WordAlignment]:
        """Yield the alignments of the text, and keep those of the sentences with gold links."""
        for index, alignment in enumerate(alignments):
            if index < self.text_pairs:
                yield alignment
            else:
                self.alignments.append(alignment)

    def scores(self) -> LinkScores | None:
        """Score what was kept; None if the text was not aligned to its end."""
        if len(self.alignments) != len(self.links):
            return None

        aligned = []
        for alignment in self.alignments:
            links = tuple((source, target) for source, target, _ in alignment.links)
            aligned.append(Links(sure=links, possible=links))
        return scores_of(aligned, self.links)

    def count(self, alignments: Sequence[WordAlignment], suffix: str = "") -> None:
        """Count the links of all sentences by every way to read them.

        Args:
            alignments: of all sentences, in their order.
            suffix: what the names of readings end in.
        """
        directions = [alignment.directions for alignment in alignments]
        gold = gathered(self.links)
        names = next((each.readings for each in directions if each is not None), ())
        for name in names:
            links = [[] if each is None else sorted(each.links(name)) for each in directions]
            units = count_links(links, gold)
            self.readings[name + suffix] = units.counts[:, :4].astype(int).tolist()


class Seconds:
    """Wall and CPU seconds since it was made, those of programs that have ended included."""

    def __init__(self) -> None:
        self.wall = time.perf_counter()
        self.cpu = self._cpu()

    def spent(self) -> dict[str, float]:
        return {
            "wall_s": round(time.perf_counter() - self.wall, 3),
            "cpu_s": round(self._cpu() - self.cpu, 3),
        }

    def _cpu(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime
