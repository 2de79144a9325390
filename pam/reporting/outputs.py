"""Compare outputs with their references, and name the kinds of their errors."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import pandas as pd

from pam.tasks.summarization.counts import ADOPTED, NOVEL, ORIGINS

MOST_BYTES = 1_500_000  # of all rows of a test split, as the page holds them

Piece = tuple[str, str]  # `same`, `missing` or `added`, and the text
Marked = tuple[str, str, str]  # as a piece, with `novel`, `adopted` or nothing in between


def examples(data: pd.DataFrame, labels: Mapping[str, str], letters: bool) -> list[dict[str, Any]]:
    """Return each row of a test split with the outputs beside the reference.

    Several references: each output stands beside the nearest one. Words are marked by their origin.
    """
    if ORIGINS not in data.columns:
        data = data.assign(**{ORIGINS: ""})

    parts = []
    for (task, number), rows in data.groupby(["task", "sentence"], sort=False):
        # The source and the references are of no model.
        is_input = rows["model"] == ""
        inputs = rows.loc[is_input, ["label", "text"]].itertuples(index=False, name=None)
        source, *references = list(inputs)

        outputs = []
        for label, text, origins in rows.loc[~is_input, ["label", "text", ORIGINS]].itertuples(
            index=False
        ):
            candidates = [pieces(reference, text, letters) for _, reference in references]
            nearest = min(candidates, key=_differing_characters)
            outputs.append((label, marked(nearest, origins.split())))

        compared = [of_model for _, of_model in outputs]
        part = {
            "task": labels[str(task)],
            "kinds": kinds_of(compared),
            "difference": max(map(_differing_characters, compared), default=0),
            "number": number,
            "given": [source, *references],
            "outputs": outputs,
            "letters": letters,
            "marked": rows[ORIGINS].any(),
            "nearest": len(references) > 1,
        }
        parts.append(part)

    return parts


class Packed(NamedTuple):
    """The rows of a test split as the page holds them, which unpacks them when it is asked to."""

    rows: int
    every: int  # 1: all rows; else one of so many, as all would make the page too large
    content: str  # JSON, by gzip and base64


def packed(parts: Sequence[Mapping[str, Any]], most_bytes: int = MOST_BYTES) -> Packed:
    """Pack the rows that `examples` returns, in less than about `most_bytes`."""
    content = _packed(parts)
    every = 1
    while len(content) > most_bytes:
        every = max(every + 1, -(-every * len(content) // most_bytes))
        content = _packed(parts[::every])
    return Packed(len(parts[::every]), every, content)


def _packed(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of rows as base64."""
    keys = ("task", "number", "kinds", "difference", "given", "outputs")
    rows = [[part[key] for key in keys] for part in parts]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _differing_characters(compared: Sequence[Piece | Marked]) -> int:
    """Count the characters that an output adds to its reference or lacks."""
    return sum(len(piece[-1]) for piece in compared if piece[0] != "same")


FILTERS = {
    "disagree": "some models are right, some wrong",
    "all-wrong": "all models are wrong",
    "all-right": "all models are right",
    "replaced": "something is replaced",
    "missing": "something is missing",
    "added": "something is added",
    "novel": "a word is novel",
    "adopted": "a word is copied",
    "empty": "an output is empty",
}
"""The kinds of rows by which a reader chooses, in words."""


def kinds_of(outputs: Sequence[Sequence[Marked]]) -> list[str]:
    """Return the kinds of a row, of `FILTERS`, by what its outputs differ in."""
    kinds = set()
    right = [all(kind == "same" for kind, _, _ in output) for output in outputs]
    if all(right):
        kinds.add("all-right")
    elif any(right):
        kinds.add("disagree")
    else:
        kinds.add("all-wrong")

    for output in outputs:
        kinds.update(mark for _, mark, _ in output if mark)
        if all(kind == "missing" for kind, _, _ in output):
            kinds.add("empty")
        kinds.update(_errors_of([kind for kind, _, _ in output]))
    return [kind for kind in FILTERS if kind in kinds]


def _errors_of(kinds: Sequence[str]) -> set[str]:
    """Return `replaced`, `missing` and `added`, as far as an output's pieces show them."""
    errors = set()
    # What is added right after something missing replaces it.
    for previous, kind in pairwise(["same", *kinds, "same"]):
        if (previous, kind) == ("missing", "added"):
            errors.add("replaced")
        elif previous == "missing":
            errors.add("missing")
        elif kind == "added" and previous != "added":
            errors.add("added")
    return errors


def pieces(reference: str, output: str, letters: bool) -> list[Piece]:
    """Compare an output with a reference, by letters or by words."""
    if letters:
        separator = ""
        old = list(reference)
        new = list(output)
    else:
        separator = " "
        old = reference.split()
        new = output.split()

    compared: list[Piece] = []
    # `autojunk` would not match what is frequent in long outputs.
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        missing = separator.join(old[old_start:old_end])
        added = separator.join(new[new_start:new_end])

        if kind == "equal":
            compared.append(("same", added))
            continue
        if old_end > old_start:
            compared.append(("missing", missing))
        if new_end > new_start:
            compared.append(("added", added))

    return compared


def marked(compared: Sequence[Piece], origins: Sequence[str]) -> list[Marked]:
    """Divide pieces where words of another origin begin.

    Args:
        origins: one for each word of the output; if there are none, the pieces stay whole.
    """
    divided: list[Marked] = []
    remaining_origins = iter(origins)
    for kind, text in compared:
        if kind == "missing" or not origins:
            divided.append((kind, "", text))
            continue

        words = [(next(remaining_origins), word) for word in text.split()]
        for origin, of_origin in groupby(words, key=itemgetter(0)):
            mark = origin if origin in (NOVEL, ADOPTED) else ""
            divided.append((kind, mark, " ".join(word for _, word in of_origin)))

    return divided
