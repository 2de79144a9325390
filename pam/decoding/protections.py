"""What keeps outputs from being as good as a model is, found alike for every kind of task.

Nothing here knows a kind of task. Each of `PROTECTIONS` is counted when a split is decoded, in
`decoding.json` and in the job's log; `predict` tells of it at a typed line; the page has it as a
caution. What can be known before anything is trained `of_data` tells in `pam check`. The limit of
length and its default are in `pam.data.lengths`, which warns while data are prepared too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pam.data.dataset import SPLITS, Prepared, Split
from pam.data.languages import shown
from pam.data.lengths import PairLengths, following, limit_in_words
from pam.data.vocabulary import UNK
from pam.experiments.run_config import RunConfig
from pam.experiments.settings import Phase

Record = Mapping[str, Any]  # the content of a `decoding.json`


@dataclass(frozen=True)
class Decoded:
    """A source with its best output, and with its reference if that is known."""

    source: int  # symbols of the source, its end symbol included if the model reads that
    read: int  # symbols of it that the model read
    unseen: Sequence[str]  # symbols of the source that training lacks
    limit: int  # symbols of the longest output for this source, its end symbol included
    symbols: Sequence[int]  # ids of the output, without its end symbol
    complete: bool  # false where the limit cut the output
    text: str  # the output as a target column has it
    reference: int | None = None  # symbols that the model had to write for the reference


@dataclass(frozen=True)
class Protection:
    """One thing that is counted, told of a line, and a caution on the page.

    Attributes:
        key: of the count in `decoding.json`.
        total: key of the number that it is a share of.
        count: returns how many of these an output has.
        line: returns what `predict` says of a typed line; nothing if that is empty.
        words: what log and page say; counts follow.
        least: the share from which they say it; 0: any.
        is_caution: whether it is one of the page; else the notes of the tables have it.
    """

    key: str
    total: str
    count: Callable[[Decoded], int]
    line: Callable[[Decoded], str]
    words: str
    least: float = 0.0
    is_caution: bool = True


def unseen_in_words(symbols: Sequence[str]) -> str:
    """Say which symbols of a source training lacks; nothing if there are none."""
    if not symbols:
        return ""
    return f"not seen in training: {' '.join(map(shown, symbols))}"


def _told_of_unseen(decoded: Decoded) -> str:
    return unseen_in_words(decoded.unseen)


def _told_of_unread(decoded: Decoded) -> str:
    if decoded.read == decoded.source:
        return ""
    return f"only the first {decoded.read} of {decoded.source} symbols are read"


def _told_of_cut(decoded: Decoded) -> str:
    if decoded.complete:
        return ""
    return f"cut short at {len(decoded.symbols)} symbols"


def _told_of_blank(decoded: Decoded) -> str:
    if decoded.text or not decoded.complete:
        return ""
    return "the output is blank"


PROTECTIONS = (
    Protection(
        key="unseen_total",
        total="source_symbols",
        count=lambda decoded: len(decoded.unseen),
        line=_told_of_unseen,
        words="symbols of test sources that training lacks",
        least=0.1,
    ),
    Protection(
        key="sources_cut",
        total="sentences",
        count=lambda decoded: int(decoded.read < decoded.source),
        line=_told_of_unread,
        words="sources that `decoding.max_source` cuts",
    ),
    Protection(
        key="cut_short",
        total="sentences",
        count=lambda decoded: int(not decoded.complete),
        line=_told_of_cut,
        words="outputs that the limit of length cuts (`decoding.max_ratio`, `max_length`)",
    ),
    Protection(
        key="references_beyond_limit",
        total="sentences",
        count=lambda decoded: int((decoded.reference or 0) > decoded.limit),
        line=lambda decoded: "",
        words="references that are longer than the limit of length lets outputs be",
    ),
    Protection(
        key="empty",
        total="sentences",
        count=lambda decoded: int(not decoded.text),
        line=_told_of_blank,
        words="blank outputs",
        is_caution=False,
    ),
    Protection(
        key="unknown",
        total="symbols",
        count=lambda decoded: list(decoded.symbols).count(UNK),
        line=lambda decoded: "",
        words="unknown symbols that are written",
        least=0.1,
    ),
)


def told_of_line(decoded: Decoded) -> list[str]:
    """Return what a person who typed a source should know of its output."""
    return [text for protection in PROTECTIONS if (text := protection.line(decoded))]


def counts(decoded: Sequence[Decoded]) -> dict[str, int]:
    """Count each protection over the outputs of a split, with the numbers they are shares of."""
    totals = {
        "sentences": len(decoded),
        "source_symbols": sum(row.source for row in decoded),
        "symbols": sum(len(row.symbols) + row.complete for row in decoded),
    }
    of_protections = {
        protection.key: sum(map(protection.count, decoded)) for protection in PROTECTIONS
    }
    return totals | of_protections


def cautions(records: Mapping[str, Sequence[Record]]) -> list[str]:
    """Return what the reader of a task's results should know of its outputs.

    Args:
        records: the records of decoding by the model's label, of all seeds and beams. Older ones
            lack some of the counts.
    """
    texts = []
    for protection in PROTECTIONS:
        shares = [
            f"{label} {share}"
            for label, of_model in records.items()
            if (share := _share(protection, of_model))
        ]
        if shares and protection.is_caution:
            texts.append(f"{protection.words}: {', '.join(shares)}")

    return texts


def in_words(record: Record) -> list[str]:
    """Return the counts of one decoding in words, for its log."""
    shares = [(_share(protection, [record]), protection.words) for protection in PROTECTIONS]
    return [f"{words}: {share}" for share, words in shares if share]


def _share(protection: Protection, records: Sequence[Record]) -> str:
    """Return how many there are in some records, such as `3 of 200`; empty if too few to tell."""
    counted = [record for record in records if {protection.key, protection.total} <= record.keys()]
    count = sum(record[protection.key] for record in counted)
    total = sum(record[protection.total] for record in counted)
    if not count or count < protection.least * total:
        return ""
    return f"{count:,} of {total:,}"


# Before anything is trained.


def of_data(run: RunConfig, data: Prepared, is_sample: bool) -> Iterator[str]:
    """Yield what stands between a run and the targets of its data.

    Args:
        run: whose model reads and writes them.
        data: all rows, or a sample, in which more symbols are unknown than in all rows.
    """
    splits = {name: Split.load(data.folder, name) for name in SPLITS}
    yield from _long_pairs(run, splits)
    yield from _cut_targets(run, splits)
    if not is_sample:
        yield from _unknown_symbols(splits)


def _long_pairs(run: RunConfig, splits: Mapping[str, Split]) -> Iterator[str]:
    """Yield counts of sources and targets beyond the limits of decoding."""
    actions = run.components.targets == "actions"
    pairs = {name: PairLengths.of(split, actions) for name, split in splits.items()}
    decoding = following(run.decoding, pairs["train"])
    for name in SPLITS[1:]:
        beyond = int(pairs[name].beyond(decoding).sum())
        if beyond:
            yield (
                f"{beyond:,} of {len(splits[name]):,} targets of {name} are longer than outputs may"
                f" be ({limit_in_words(decoding)}): raise `decoding.max_ratio` or"
                " `decoding.max_length`"
            )

        unread = 0
        if decoding.max_source is not None:
            unread = int((pairs[name].source > decoding.max_source).sum())
        if unread:
            yield (
                f"of {unread:,} of {len(splits[name]):,} sources of {name} only the first"
                f" {decoding.max_source} symbols are read (`decoding.max_source`)"
            )


def _cut_targets(run: RunConfig, splits: Mapping[str, Split]) -> Iterator[str]:
    """Yield counts of targets whose end no model learns or is measured on."""
    last_phase = (run.training.phases or [Phase()])[-1]
    for name, split in splits.items():
        cut = int((~split.targets.ended).sum())
        if cut:
            yield (
                f"{cut:,} of {len(split):,} targets of {name} are cut when they are prepared"
                " (`format.truncate`)"
            )

        unlearned = 0
        if last_phase.target is not None and name != "test":
            unlearned = int((split.targets.lengths > last_phase.target).sum())
        if unlearned:
            yield (
                f"of {unlearned:,} of {len(split):,} targets of {name} only the first"
                f" {last_phase.target} symbols count (`training.phases`)"
            )


def _unknown_symbols(splits: Mapping[str, Split]) -> Iterator[str]:
    """Yield shares of symbols that training lacks, where they are large."""
    least = {protection.key: protection.least for protection in PROTECTIONS}
    for name in SPLITS[1:]:
        for side in ("sources", "targets"):
            rows = getattr(splits[name], side)
            share = float(np.mean(rows.values == UNK))
            if share >= least["unknown"]:
                yield f"{share:.0%} of the symbols in {side} of {name} are unknown to models"
