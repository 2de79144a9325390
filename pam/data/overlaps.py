"""What two splits of a data set have both: scores on it say little of data that are new.

Each kind of task says what its rows are told apart by, such as their pairs and their sources, and
calls `overlaps` for each; counts and warnings are made here, in the same words for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 5  # shared items that a summary shows
LONGEST_EXAMPLE = 60  # characters of one in a message
EXAMPLES_TOLD = re.compile(r", for example .*; ", flags=re.DOTALL)  # of shared items, in a warning


@dataclass(frozen=True)
class Overlaps:
    """What splits share: `{"train and test": {count, of, examples}, ...}`, and warnings of it."""

    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def count(self, first: str, second: str) -> int:
        """Return how many items of the second split the first one has too."""
        record = self.counts.get(f"{first} and {second}")
        if record is None:
            return 0
        return int(record["count"])


def overlaps(
    noun: str,
    splits: Mapping[str, Callable[[], Iterable[str]]],
    least: float = 0.0,
    told: Overlaps | None = None,
) -> Overlaps:
    """Count the items of each split that an earlier one has too.

    Args:
        noun: what the items are called, such as `pairs`.
        splits: split to a function that reads its items; training comes first.
        least: share of a split's items up to which nobody is warned.
        told: what is warned of already: there are warnings of what is shared beyond that.
    """
    found = Overlaps()
    names = list(splits)
    for number, first in enumerate(names[:-1], 1):
        # Numbers in place of texts, as training may be large.
        in_first = set(map(hash, splits[first]()))
        for second in names[number:]:
            items = list(splits[second]())
            shared = [item for item in items if hash(item) in in_first]
            if not shared:
                continue

            examples = sorted(set(shared))[:EXAMPLES]
            record = {"count": len(shared), "of": len(items), "examples": examples}
            found.counts[f"{first} and {second}"] = record
            already = 0
            if told is not None:
                already = told.count(first, second)
            if len(shared) - already > least * len(items):
                found.warnings.append(_warning(first, second, noun, record))
    return found


def _warning(first: str, second: str, noun: str, record: Mapping[str, Any]) -> str:
    """Word what two splits share, with a few short examples."""
    listed = ", ".join(_short(example) for example in record["examples"])
    share = f"{first} and {second} share {noun}: {record['count']}"
    if record["count"] == record["of"]:
        share += f", all of {second}"
    return f"{share}, for example {listed}; scores on them are too good"


def without_examples(warning: str) -> str:
    """Take the examples out of a warning of what two splits share; any other stays as it is."""
    return EXAMPLES_TOLD.sub("; ", warning)


def _short(example: str) -> str:
    text = example.replace("\t", " / ")
    if len(text) <= LONGEST_EXAMPLE:
        return text
    return f"{text[:LONGEST_EXAMPLE]}..."
