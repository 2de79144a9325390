"""Batches in few shapes: sizes of buckets, and how much of real corpora is padding."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from pam.data.buckets import SHARE, STEP, bucket_size, pad_to_bucket
from pam.data.dataset import Batch, Examples, Split
from pam.data.vocabulary import PAD

Lengths = list[tuple[int, int]]
ROWS = 15_000  # of a corpus that are taken
BATCH = 64  # rows of a batch
CUT = (400, 100)  # symbols of sources and targets that are read, as of summaries


@pytest.mark.parametrize(
    ("length", "size"),
    [(1, 8), (8, 8), (9, 16), (96, 96), (97, 104), (192, 192), (193, 208), (400, 416), (417, 448)],
)
def test_the_size_of_a_bucket_is_the_least_that_holds_a_length(length: int, size: int) -> None:
    assert bucket_size(length) == size


def test_buckets_are_multiples_and_long_ones_pad_a_twelfth_at_most() -> None:
    for length in range(1, 3000):
        size = bucket_size(length)
        assert size >= length
        assert size % STEP == 0
        assert size - length <= max(STEP, size / SHARE)
        assert bucket_size(size) == size


@pytest.mark.parametrize("units", [None, 3])
def test_rows_positions_and_steps_are_padded(units: int | None) -> None:
    source = torch.ones(3, 5, dtype=torch.long)
    if units is not None:
        source = torch.ones(3, 5, units)
    batch = Batch(np.arange(3), source, torch.tensor([5, 4, 5]), torch.ones(3, 9, dtype=torch.long))
    padded = pad_to_bucket(batch, 4)

    assert padded.source.shape == (4, 8, *source.shape[2:])
    assert padded.target.shape == (4, 16)
    assert padded.lengths.tolist() == [5, 4, 5, 1]
    assert torch.equal(padded.source[:3, :5], batch.source)
    assert torch.equal(padded.target[:3, :9], batch.target)
    assert padded.source.sum() == batch.source.sum()
    assert padded.mask.sum() == 27
    assert (padded.target[3] == PAD).all()


# Real lengths.


def of_words(source: str, target: str) -> Callable[[Path], Iterator[tuple[str, str]]]:
    """Read two files, line by line."""

    def read(corpora: Path) -> Iterator[tuple[str, str]]:
        texts = [
            (corpora / name).read_text(encoding="utf-8").splitlines() for name in (source, target)
        ]
        return zip(*texts, strict=True)

    return read


def of_kyoto(corpora: Path) -> Iterator[tuple[str, str]]:
    """Read Japanese, of which each character counts as a symbol, and English words."""
    with lzma.open(corpora / "kyoto-jaen/pairs.tsv.xz", "rt", encoding="utf-8") as file:
        for line in file:
            *_, japanese, english = line.rstrip("\n").split("\t")
            yield " ".join(japanese.replace(" ", "")), english


def of_titles(corpora: Path) -> Iterator[tuple[str, str]]:
    with lzma.open(corpora / "acl-titles/pairs.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield row["abstract"], row["title"]


CORPORA = {
    "multi30k": of_words(
        "multi30k-deen/tok/train.lc.norm.tok.de", "multi30k-deen/tok/train.lc.norm.tok.en"
    ),
    "iwslt14": of_words("iwslt14-deen-35k/train.de", "iwslt14-deen-35k/train.en"),
    "kyoto": of_kyoto,
    "titles": of_titles,
}
# the most shapes of an epoch, the largest share of padding
LIMITS = {"multi30k": (40, 0.45), "iwslt14": (70, 0.5), "kyoto": (100, 0.6), "titles": (100, 0.7)}


class Epoch(NamedTuple):
    """Shapes and padding of the batches of an epoch, in buckets and without."""

    shapes: int
    source_padding: float  # share of the positions
    target_padding: float  # share of the tokens
    batch_padding: float  # the same without buckets: rows are padded to the longest of the batch
    steps: float  # of the decoder, over those without buckets


def epoch_of(pairs: Iterator[tuple[str, str]]) -> Epoch:
    """Batch the first rows of a corpus, and measure shapes and padding."""
    sources = []
    targets = []
    longest_source, longest_target = CUT
    for source, target in islice(pairs, ROWS):
        # Symbols without the end, which is added.
        sources.append([5] * (min(len(source.split()) + 1, longest_source) - 1))
        targets.append([5] * (min(len(target.split()) + 1, longest_target) - 1))

    examples = Examples(Split.from_rows(sources, targets, None, {}), "symbols")

    batches = examples.shuffled(BATCH, 1, 0)
    longest = np.array(
        [
            (examples.source_lengths[rows].max(), examples.target_lengths[rows].max())
            for rows in batches
        ]
    )
    sizes = np.array([[bucket_size(length) for length in batch] for batch in longest.tolist()])
    tokens = examples.target_lengths.sum()
    rows = np.array([len(batch) for batch in batches])

    return Epoch(
        shapes=len({tuple(shape) for shape in sizes.tolist()}),
        source_padding=float(1 - examples.source_lengths.sum() / (BATCH * sizes[:, 0].sum())),
        target_padding=float(1 - tokens / (BATCH * sizes[:, 1].sum())),
        batch_padding=float(1 - tokens / (rows * longest[:, 1]).sum()),
        steps=float(sizes[:, 1].sum() / longest[:, 1].sum()),
    )


@pytest.mark.parametrize("name", CORPORA)
def test_real_corpora_have_few_shapes_and_little_padding(name: str, corpora: Path) -> None:
    """docs/history.md has the numbers."""
    epoch = epoch_of(CORPORA[name](corpora))
    most, share = LIMITS[name]
    assert epoch.shapes <= most
    assert max(epoch.source_padding, epoch.target_padding) <= share
    assert epoch.target_padding - epoch.batch_padding <= 0.25
    assert epoch.steps < 1.3
