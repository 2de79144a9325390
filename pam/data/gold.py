"""Word alignments that people made, prepared for a task's models."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pam.data.dataset import Prepared, Split, write_summary
from pam.data.download import check_fetched
from pam.data.links import Links, parse_links
from pam.data.prepare import files_of, origin_of
from pam.data.readers.lines import aligned
from pam.data.registry import Dataset
from pam.data.tasks import alignment
from pam.data.text import Line
from pam.data.translation.codec import Codec, load_codec, save_codec
from pam.data.translation.index import side_counts
from pam.io import UserError, sha256_of, write_text

KIND = "alignment"


class Sentences(NamedTuple):
    """Words of a pair, with one space between two, and links between them."""

    source: str
    target: str
    links: Links


def prepare_gold(name: str, dataset: Dataset, raw: Path, data: Path, out: Path) -> dict[str, Any]:
    """Writes the folder `out`, a prepared folder of the one split `gold`, with `links.json`.

    Words stay as the data set has them, in small letters if the task's are, since the links count
    them; ids are those of the task. Where the task translates in the other direction, all is
    turned round.

    Args:
        name: the data set's name.
        dataset: word alignments, in the registry.
        raw: the folder that `fetch` filled.
        data: the task's prepared folder.
        out: the folder to write.

    Returns:
        The summary.

    Raises:
        UserError: other languages than the task's, files of different lengths, a blank line, a
            malformed link or one to a word that is not there; names file and line.
    """
    task = Prepared(data)
    if dataset.task != KIND or "languages" not in task.summary:
        raise UserError(
            f"`{name}` and the data in {data} are not word alignments and a task of translation",
            hint="name a data set with `task: alignment`",
        )
    hashes = check_fetched(dataset, raw)
    codec, flip = load_codec(data), _turned(name, dataset, task.summary["languages"])
    pairs = [_prepared(pair, codec, flip=flip) for pair in _read(dataset, raw)]
    counts = _write(pairs, task, codec, out)
    summary = {
        **origin_of(name, dataset, hashes),
        "languages": task.summary["languages"],
        **counts,
    }
    return write_summary(out, summary)


def _layout(dataset: Dataset) -> alignment.Format:
    return alignment.Format.model_validate(dataset.format)


def _turned(name: str, dataset: Dataset, languages: dict[str, str]) -> bool:
    """Whether the task translates in the other direction."""
    layout = _layout(dataset)
    own, wanted = (layout.source, layout.target), (languages["source"], languages["target"])
    if sorted(own) != sorted(wanted):
        raise UserError(
            f"`{name}` aligns {' and '.join(own)}, the task translates {' into '.join(wanted)}",
            hint="choose alignments of the task's languages",
        )
    return own != wanted


def _read(dataset: Dataset, raw: Path) -> Iterator[Sentences]:
    """The sentence pairs of the files as they stand."""
    layout = _layout(dataset)
    files = files_of(dataset, raw)[alignment.GOLD]
    wanted = (layout.source, layout.target, alignment.LINKS)
    if isinstance(files, Path) or not set(wanted) <= set(files):
        raise UserError(
            f"split {alignment.GOLD} needs three files",
            hint=f"name them in the registry: {{{': FILE, '.join(wanted)}: FILE}}",
        )
    source, target, links = (files[key] for key in wanted)
    # Both pairs of files have to be as long as each other; a pair at a time keeps memory small.
    for (line, other), (_, linked) in zip(
        aligned(source, target), aligned(source, links), strict=True
    ):
        words, others = _words(line), _words(other)
        yield Sentences(
            " ".join(words),
            " ".join(others),
            parse_links(linked, (len(words), len(others)), layout.first),
        )


def _words(line: Line) -> list[str]:
    words = unicodedata.normalize("NFC", line.text).split()
    if not words:
        raise line.fault("the line is blank", "complete it")
    return words


def _prepared(pair: Sentences, codec: Codec, *, flip: bool) -> Sentences:
    source, target, links = pair
    if flip:
        source, target, links = target, source, links.flipped()
    return Sentences(codec.source.cased(source), codec.target.cased(target), links)


def _write(pairs: list[Sentences], task: Prepared, codec: Codec, out: Path) -> dict[str, Any]:
    """Writes everything but the summary; returns counts for it."""
    task.source.save(out / "source.vocab")
    task.target.save(out / "target.vocab")
    save_codec(codec.settings, out)
    text = out / f"{alignment.GOLD}.tsv"
    write_text(text, "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))
    split = Split.from_rows(
        (task.source.encode(codec.source_symbols([pair.source])) for pair in pairs),
        (task.target.encode(codec.target_symbols(pair.target)) for pair in pairs),
        None,
        {
            "source": task.source.digest,
            "target": task.target.digest,
            "text": sha256_of(text),
        },
    )
    split.save(out, alignment.GOLD)
    links = {
        "sure": [pair.links.sure for pair in pairs],
        "possible": [pair.links.possible for pair in pairs],
    }
    write_text(out / "links.json", json.dumps(links) + "\n")
    return {
        "rows": len(pairs),
        "links": {kind: sum(map(len, own)) for kind, own in links.items()},
        "source": side_counts(split.source, split.source_offsets),
        "target": side_counts(split.target, split.target_offsets),
    }
