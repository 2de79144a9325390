"""German phrases and their translations: enough for a network of a few units to learn from."""

from __future__ import annotations

import json
import random
import shutil
from itertools import product
from pathlib import Path

from pam.data.dataset import Split, write_summary
from pam.runtime.files import write_text
from pam.tasks.translation.format import SubwordsFormat, TranslationFormat
from pam.tasks.translation.stages import Translation

NOUNS = {"Haus": "house", "Auto": "car", "Kind": "child", "Buch": "book", "Bild": "picture"}
COLOURS = {"rote": "red", "blaue": "blue", "alte": "old", "neue": "new"}
STATES = {"schön": "beautiful", "groß": "big", "klein": "small"}
PAIRS = [
    (f"Das {of} {noun} ist {state}.", f"The {colour} {thing} is {like}.")
    for (noun, thing), (of, colour), (state, like) in product(
        NOUNS.items(), COLOURS.items(), STATES.items()
    )
]
"""60 pairs, aligned word by word."""

random.Random(1).shuffle(PAIRS)

SPLITS = {
    "train": PAIRS[:48],
    "dev": PAIRS[48:54],
    "test": [*PAIRS[54:59], ("Das rote Boot ist klein.", "The red boat is small.")],
}


def prepare(folder: Path, subwords: int | None = None, source_eos: bool = True) -> Path:
    """Prepare a folder by the stages of translation."""
    raw = folder.parent / f"{folder.name} raw"
    files = {}
    for split, pairs in SPLITS.items():
        files[split] = {"de": raw / f"{split}.de", "en": raw / f"{split}.en"}
        for side, language in enumerate(("de", "en")):
            write_text(files[split][language], "".join(f"{pair[side]}\n" for pair in pairs))

    learned = None if subwords is None else SubwordsFormat(merges=subwords)
    layout = TranslationFormat(
        source="de", target="en", lowercase=True, subwords=learned, source_eos=source_eos
    )
    counts = {}
    for stage in Translation.STAGES.values():
        counts = stage(files, layout, folder).run()

    write_summary(folder, {"dataset": "small", "task": "translation", **counts})
    return folder


def gold(data: Path, folder: Path) -> Path:
    """Make the test split one with links, as prepared gold alignments are.

    Word i translates word i.
    """
    shutil.copytree(data, folder)
    (folder / "test.tsv").rename(folder / "gold.tsv")
    Split.load(folder, "test").save(folder, "gold")
    rows = (folder / "gold.tsv").read_text(encoding="utf-8").splitlines()
    links = [[[i, i] for i in range(len(row.split("\t")[0].split()))] for row in rows]
    write_text(folder / "links.json", json.dumps({"sure": links, "possible": links}))
    write_summary(folder, {"dataset": "gold", "task": "alignment"})

    return folder
