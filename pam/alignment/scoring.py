"""AER, precision and recall of links, whoever made them, against links that people made.

With links A, sure gold links S and possible ones P, which include the sure ones (Och & Ney 2003):

    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)
    precision = |A & P| / |A|
    recall = |A & S| / |S|
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pam.alignment.formats import read_links
from pam.evaluation import bootstrap
from pam.evaluation.metrics import METRICS, Metric, share
from pam.evaluation.scores import Value
from pam.evaluation.scoring import values_of
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.tasks.alignment.counts import WordAlignments, count_links
from pam.tasks.alignment.links import Links

PRECISION = Metric(
    name="precision",
    label="Precision of links",
    of_outputs=(),
    shared=("possible_hit", "links"),
    value=share,
    decimals=3,
    span=(0.0, 1.0),
)
RECALL = Metric(
    name="recall",
    label="Recall of sure links",
    of_outputs=(),
    shared=("sure_hit", "sure"),
    value=share,
    decimals=3,
    span=(0.0, 1.0),
)


class LinkScores(Strict):
    """Scores of a file of links."""

    metrics: dict[str, Value]
    pairs: int = Field(description="pairs that are scored")
    links: int = Field(description="links in the file")
    sure: int = Field(description="sure gold links")
    possible: int = Field(description="possible gold links, sure ones included")
    notes: list[str] = Field([], description="what a reader of the scores has to know")
    bootstrap: dict[str, float] = Field(description="resamples, seed and level of the intervals")

    def report(self) -> str:
        """Return the scores as lines for people."""
        lines = [f"note: {note}" for note in self.notes]
        for name, value in self.metrics.items():
            interval = f"[{value.low:.3f}, {value.high:.3f}]"
            lines.append(f"{name}: {value.value:.3f} {interval} of {self.pairs} pairs")
        lines.append(
            f"{self.links} links, {self.sure} sure and {self.possible} possible gold links"
        )
        return "\n".join(lines) + "\n"


def score_links(alignments: Path, gold: Path, first: int = 0) -> LinkScores:
    """Score a file of links against gold links, with intervals over pairs.

    Args:
        alignments: links in any format of `formats`; all of them count alike.
        gold: links that people made, of the same pairs in the same order.
        first: the number of a text's first word in `gold`, if that is in the format Pharaoh.

    Raises:
        UserError: a file is faulty, has other pairs than the other, or there is no gold link.
    """
    of_file = read_links(alignments)
    of_gold = read_links(gold, first, pairs=len(of_file))
    if len(of_file) < len(of_gold):
        of_file = read_links(alignments, pairs=len(of_gold))
    if len(of_file) != len(of_gold):
        message = f"links of {len(of_file)} pairs, but {gold} has {len(of_gold)}"
        hint = "line n of one file must be of the same pair as line n of the other"
        raise UserError(message, file=alignments, hint=hint)
    if not any(links.possible for links in of_gold):
        raise UserError("no gold links", file=gold, hint="write SOURCE-TARGET for each link")

    return scores_of(of_file, of_gold, first)


def scores_of(of_file: list[Links], of_gold: list[Links], first: int = 0) -> LinkScores:
    """Score links of pairs against gold links of the same pairs; see `score_links`."""
    units = count_links([list(links.possible) for links in of_file], gathered(of_gold))
    metrics = [METRICS["aer"], PRECISION, RECALL]
    counted = [int(units.total([column])[0]) for column in ("links", "sure")]

    return LinkScores(
        metrics=values_of(units, metrics),
        pairs=len(of_gold),
        links=counted[0],
        sure=counted[1],
        possible=sum(len(links.possible) for links in of_gold),
        notes=_notes(of_file, of_gold, first),
        bootstrap=bootstrap.settings(len(of_gold)),
    )


def gathered(links: list[Links]) -> WordAlignments:
    """Return the links of pairs, sure ones and possible ones apart."""
    return WordAlignments(
        sure=[list(of_pair.sure) for of_pair in links],
        possible=[list(of_pair.possible) for of_pair in links],
    )


def _notes(of_file: list[Links], of_gold: list[Links], first: int) -> list[str]:
    """Say that words seem to be counted from another number, where one side has no word 0."""
    notes = []
    if _has_no_first_word(of_gold) and not _has_no_first_word(of_file) and first == 0:
        notes.append(
            "no gold link is of a first word: if the gold file counts words from 1, add --first 1"
        )
    empty = sum(not links.possible for links in of_file)
    if empty:
        notes.append(f"{empty:,} of {len(of_file):,} pairs have no links")
    without_gold = sum(not links.possible for links in of_gold)
    if without_gold:
        notes.append(f"{without_gold:,} of {len(of_gold):,} pairs have no gold links")
    return notes


def _has_no_first_word(links: list[Links]) -> bool:
    return not any(0 in link for of_pair in links for link in of_pair.possible)
