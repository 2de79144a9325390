"""Stage `segment`: words to the symbols that a model reads and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pam.data.dataset import SPLITS
from pam.data.subwords import count_words, learn_merges
from pam.data.tasks import Files
from pam.data.translation import tokenize
from pam.data.translation.codec import Codec, Settings, save_codec
from pam.data.translation.folder import SIDES, reading, told, writing
from pam.data.translation.format import Format, Subwords
from pam.data.translation.tokenize import settings_of
from pam.io import UserError

NAME = "segment"


def segment(files: Files, layout: Format, out: Path) -> dict[str, Any]:
    """Writes `segment/{train,dev,test}.{source,target}` and the codec with its merges.

    Merges are learned from training text alone. Without subwords, symbols are words.

    Returns:
        for each split its pairs and symbols, and how many merges were learned.
    """
    settings = settings_of(layout)
    if layout.subwords is not None:
        settings = _learned(settings, layout.subwords, out)
    codec = Codec(settings)
    counts = []
    for split in SPLITS:
        symbols = {"source": 0, "target": 0}
        with writing(out / NAME, split) as writer:
            for source, target in reading(out / tokenize.NAME, split):
                rows = codec.source_symbols([source]), codec.target_symbols(target)
                for side, row in zip(SIDES, rows, strict=True):
                    symbols[side] += len(row)
                writer.write(*(" ".join(row) for row in rows))
        counts.append(
            {
                **told(split, writer.count, Counter()),
                "source_symbols": symbols["source"],
                "target_symbols": symbols["target"],
            }
        )
    save_codec(settings, out / NAME)
    merges = {side: len(getattr(settings, side).merges or ()) for side in SIDES}
    return {"merges": merges, "splits": counts}


def _learned(settings: Settings, subwords: Subwords, out: Path) -> Settings:
    def sentences(side: int) -> Iterator[list[str]]:
        return (pair[side].split(" ") for pair in reading(out / tokenize.NAME, "train"))

    counts = [count_words(sentences(0)), count_words(sentences(1))]
    if subwords.joint:
        counts = [counts[0] + counts[1]]
    learned = [learn_merges(words, subwords.merges) for words in counts]
    if not all(learned):
        raise UserError(
            "no two characters stand side by side twice in the training text",
            hint="leave out `subwords`, or give more data",
        )
    source, target = learned[0], learned[-1]
    return Settings(
        source=settings.source.model_copy(update={"merges": source}),
        target=settings.target.model_copy(update={"merges": target}),
    )
