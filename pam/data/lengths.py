"""Lengths of pairs, and the limit of length by which a search ends an output.

An output for a source of m symbols has at most `max_ratio` m + `max_extra` symbols, its end symbol
included, and at most `max_length`. Where `max_ratio` is null, the limit follows the pairs that the
model was trained on (`following`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pam.data.dataset import Split
from pam.experiments.settings import Decoding

LEAST_RATIO = 3.0  # of the limit where `max_ratio` is null
MARGIN = 1.5  # by which the limit exceeds the longest targets of training, where it is raised
LEAST_SHARE = 0.01  # of targets beyond the default limit of which preparing warns
RATIO_STEP = 0.5  # between the values of `max_ratio` that are tried

Lengths = NDArray[Any]  # of whole numbers


@dataclass(frozen=True)
class PairLengths:
    """The lengths of N pairs as a model reads and writes them.

    Attributes:
        source: (N,) symbols of each source, its end symbol included if models read that.
        target: (N,) symbols to write for each, the end symbol and a pointer's steps included.
    """

    source: Lengths
    target: Lengths

    @classmethod
    def of(cls, split: Split, actions: bool = False) -> PairLengths:
        """Measure the rows of a prepared split for a model that writes symbols or `actions`."""
        return cls.written(split.sources.lengths, split.targets.lengths, actions)

    @classmethod
    def written(cls, source: Lengths, target: Lengths, actions: bool) -> PairLengths:
        """Add the steps of a pointer, which goes from the first source position to the last."""
        steps = np.maximum(source - 1, 0) if actions else 0
        return cls(source, target + steps)

    def beyond(self, decoding: Decoding) -> NDArray[np.bool_]:
        """Boolean mask (N,) of the targets that no output can be as long as."""
        return np.asarray(self.target > longest_outputs(self.source, decoding))


def longest_outputs(source: Lengths, decoding: Decoding) -> Lengths:
    """Return the length of the longest output for sources of these lengths: (N,).

    The numbers are those of `pam.decoding.hypotheses.longest`, which computes in float32.
    """
    read = np.minimum(source, decoding.max_source or np.inf)
    ratio = np.float32(decoding.max_ratio or LEAST_RATIO)
    limits = (read.astype(np.float32) * ratio).astype(np.int64) + decoding.max_extra
    limits = np.maximum(limits, decoding.min_length + 1)
    return np.minimum(limits, decoding.max_length or np.inf).astype(np.int64)


def following(decoding: Decoding, train: PairLengths) -> Decoding:
    """Return settings whose limit of length has room for every target of training.

    A `max_ratio` that is a number stays. Where it is null and the least limit, 3 m + `max_extra`,
    cuts no target of training, it is that one. Else both keys are raised: of the lines that exceed
    all targets by `MARGIN`, the one is taken that is lowest at the mean length of sources. So long
    targets everywhere raise the ratio, and one odd pair raises `max_extra` alone.
    """
    if decoding.max_ratio is not None:
        return decoding

    least = decoding.model_copy(update={"max_ratio": LEAST_RATIO})
    if not train.beyond(least.model_copy(update={"max_length": None})).any():
        return least

    read = np.minimum(train.source, decoding.max_source or np.inf)
    source, groups = np.unique(read, return_inverse=True)
    longest = np.zeros(len(source))
    np.maximum.at(longest, groups, MARGIN * train.target)

    ratios = np.arange(LEAST_RATIO, (longest / source).max() + RATIO_STEP, RATIO_STEP)
    extras = [max(decoding.max_extra, ceil((longest - ratio * source).max())) for ratio in ratios]
    lowest = np.argmin(ratios * read.mean() + extras)
    update = {"max_ratio": float(ratios[lowest]), "max_extra": extras[lowest]}
    return decoding.model_copy(update=update)


def warnings_of_lengths(train: Path, folder: Path, splits: Sequence[str]) -> list[str]:
    """Warn of splits many of whose targets are longer than outputs are by default.

    Args:
        train: the prepared folder that has the training split.
        folder: the prepared folder that has the other `splits`.
    """
    decoding = following(Decoding(), PairLengths.of(Split.load(train, "train")))
    warnings = []
    for name in splits:
        is_beyond = PairLengths.of(Split.load(folder, name)).beyond(decoding)
        if is_beyond.mean() >= LEAST_SHARE:
            warnings.append(
                f"{is_beyond.sum():,} of {len(is_beyond):,} targets of {name} are longer than"
                f" outputs are by default ({limit_in_words(decoding)}), as those of training are"
                " shorter: set `decoding.max_ratio`"
            )
    return warnings


def limit_in_words(decoding: Decoding) -> str:
    """Return the limit of length as a formula for people; m is the length of the source."""
    ratio = decoding.max_ratio or LEAST_RATIO
    text = f"{ratio:g} m + {decoding.max_extra} symbols for a source of m"
    if decoding.max_length is not None:
        text += f", at most {decoding.max_length}"
    return text
