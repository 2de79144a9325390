"""Stage `extract`: whatever a data set's files are, to one line for each sentence."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pam.config import kind_of
from pam.data.dataset import SPLITS
from pam.data.readers import Pair, load_reader
from pam.data.tasks import Files
from pam.data.text import CONTROL
from pam.data.translation.folder import told, writing
from pam.data.translation.format import Format
from pam.io import UserError

NAME = "extract"


def extract(files: Files, layout: Format, out: Path) -> dict[str, Any]:
    """Writes `extract/{train,dev,test}.{source,target}`, of the splits that the files give.

    Lines are in Unicode's composed form (NFC), with one space where white space was, also where
    control characters were.

    Returns:
        for each split its pairs and those left out, and in how many lines control characters
        became spaces.
    """
    kind, options = kind_of(layout.read)
    reader = load_reader(kind)
    languages = (layout.source, layout.target)
    counts: dict[str, dict[str, Any]] = {}
    for split, pairs in reader.read(files, languages, reader.Options.model_validate(options)):
        seen: Counter[str] = Counter()
        with writing(out / NAME, split) as writer:
            for texts in _cleaned(pairs, seen, refuse=layout.blank_lines == "refuse"):
                writer.write(*texts)
        counts[split] = {
            **told(split, writer.count, Counter({"a blank line": seen["blank"]})),
            "control_characters": seen["control"],
        }
    return {"splits": [counts[name] for name in SPLITS if name in counts]}


def _cleaned(pairs: Iterator[Pair], seen: Counter[str], *, refuse: bool) -> Iterator[list[str]]:
    for pair in pairs:
        texts = []
        for line in pair:
            text = unicodedata.normalize("NFC", line.text)
            if CONTROL.search(text):
                seen["control"] += 1
                text = CONTROL.sub(" ", text)
            texts.append(" ".join(text.split()))
        if all(texts):
            yield texts
        elif refuse:
            blank = pair[0] if not texts[0] else pair[1]
            raise blank.fault(
                "the line is blank",
                "delete it together with the same line of the other language, "
                "or write `format: {blank_lines: drop}`",
            )
        else:
            seen["blank"] += 1


def splits_of(folder: Path) -> list[str]:
    """Names of the splits that were extracted into a prepared folder."""
    found = [split for split in SPLITS if (folder / NAME / f"{split}.source").is_file()]
    if not found:
        raise UserError("no extracted text", file=folder / NAME, hint="prepare the data again")
    return found
