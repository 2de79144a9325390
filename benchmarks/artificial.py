"""Write text that is drawn at random, at the sizes of real data, where a machine has none.

    python benchmarks/artificial.py translation DIR [--rows N]
    python benchmarks/artificial.py summaries DIR [--rows N]

DIR gets two files of text and `registry.yaml` with the data set `artificial`, for `pam fetch` and
`pam prepare`. Lengths and vocabularies are those of IWSLT14 in 4,000 subwords, or of news cut to
200 words and summaries to 50, with 20,000 words. A step takes as long as with such data; what a
model learns means nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROWS = {"translation": 12000, "summaries": 6000}
REGISTRY = """\
artificial:
  task: {task}
  title: Words drawn at random
  files: {{text.source: {{path: text.source}}, text.target: {{path: text.target}}}}
  splits: {{all: {{source: text.source, target: text.target}}}}
  format:
    source: source
    target: target
    read: {{kind: lines, divide: {{dev: {held_out}, test: {held_out}}}}}
{more}"""
SUMMARIES = """\
    truncate: {source: 200, target: 50}
    vocabulary: {size: 20000, joint: true}
"""


def words(random: np.random.Generator, number: int, count: int) -> list[str]:
    """Draw `count` of `number` words; the few frequent ones make up most of the text."""
    ranks = np.exp(random.uniform(0, np.log(number + 1), size=count)).astype(int)
    return [f"w{rank}" for rank in ranks]


def translations(rows: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield pairs of about 23 words, at most 100."""
    random = np.random.default_rng(1)
    for _ in range(rows):
        length = np.clip(random.lognormal(3.0, 0.6), 2, 100)
        ratio = random.normal(1.0, 0.1)
        source_length = int(np.clip(length * ratio, 2, 100))
        yield words(random, 4000, source_length), words(random, 4000, int(length))


def summaries(rows: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield articles of 80 words and more, and summaries, of which half the words are copied."""
    random = np.random.default_rng(1)
    for _ in range(rows):
        article = words(random, 20000, int(random.integers(80, 400)))
        summary = words(random, 20000, int(random.integers(15, 60)))
        for position in range(0, len(summary), 2):
            summary[position] = article[int(random.integers(len(article)))]
        yield article, summary


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=list(ROWS))
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--rows", type=int, help="by default 12,000 pairs or 6,000 articles")
    args = parser.parse_args()

    rows = args.rows or ROWS[args.kind]
    drawn = translations(rows)
    task = "translation"
    more = ""
    if args.kind == "summaries":
        drawn = summaries(rows)
        task = "summarization"
        more = SUMMARIES

    args.folder.mkdir(parents=True, exist_ok=True)
    with (
        open(args.folder / "text.source", "w", encoding="utf-8") as sources,
        open(args.folder / "text.target", "w", encoding="utf-8") as targets,
    ):
        for source, target in drawn:
            sources.write(" ".join(source) + "\n")
            targets.write(" ".join(target) + "\n")

    registry = REGISTRY.format(task=task, held_out=max(8, rows // 20), more=more)
    (args.folder / "registry.yaml").write_text(registry, encoding="utf-8")


if __name__ == "__main__":
    main()
