"""Registry entries for files of one's own: what they hold is guessed, to be looked at and corrected."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from pam.data.dataset import SPLITS
from pam.data.inflection import InflectionFormat, guess_columns
from pam.data.readers import ALL
from pam.data.registry import Dataset, load_registries
from pam.data.text_files import SUFFIXES, Line, cells_of, lines_of
from pam.data.translation import LANGUAGE
from pam.io import UserError, atomic_write, read_yaml

LOOKED_AT = 2000  # lines from which columns are guessed
DELIMITERS = ("\t", ";", ",")
HEADINGS = {"lemma", "form", "features", "feature", "tag", "tags", "inflected", "source", "target", "src", "tgt"}
SPLIT_NAMES = {"train": "train", "training": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev",
               "test": "test", "tst": "test"}  # fmt: skip
FIRST = 5  # rows that are shown


@dataclass(frozen=True)
class Table:
    """The first lines of a file of columns, without their heading."""

    delimiter: str
    heading: list[str]
    rows: list[list[str]]

    @classmethod
    def of(cls, path: Path) -> Table:
        """With the delimiter that gives most lines the same number of columns; a UserError if all have one."""
        lines = list(islice(lines_of(path), LOOKED_AT))
        for delimiter in DELIMITERS:
            rows = [_cells(line, delimiter) for line in lines]
            (width, count), *_ = Counter(map(len, rows)).most_common(1)
            if width > 1 and count > 0.9 * len(rows):
                known = [cell.strip().lower() for cell in rows[0]]
                codes = all(re.fullmatch(LANGUAGE, cell) for cell in known)
                named = len(rows) > 1 and (codes or len(HEADINGS.intersection(known)) > 1)
                return cls(delimiter, known if named else [], [row for row in rows[named:] if len(row) == width])
        hint = "separate columns by tabs (TSV) or commas (CSV), or name two files, line n of one translating line n"
        raise UserError("no columns were found", file=path, hint=hint)

    def format(self) -> dict[str, Any]:
        """Keys by which a reader reads it so."""
        csv = {} if self.delimiter == "\t" else {"delimiter": self.delimiter, "quotes": True}
        return csv | ({"heading": True} if self.heading else {})


def _cells(line: Line, delimiter: str) -> list[str]:
    try:
        return cells_of(line, delimiter, quotes=delimiter != "\t")
    except UserError:
        return [line.text]


def plain_name(path: Path) -> Path:
    """A path without what says that it is compressed."""
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def by_split(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Files by the split that their names say, all in one if they say none; a UserError if some are missing."""
    found = defaultdict(list)
    for path in files:
        words = re.split(r"[^a-z]+", plain_name(path).name.lower())
        found[next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), ALL)].append(path)
    counts = {len(own) for own in found.values()}
    if set(found) not in ({ALL}, set(SPLITS)) or len(counts) > 1 or counts.pop() > 2:
        listed = "; ".join(f"{split}: {', '.join(path.name for path in own)}" for split, own in found.items())
        hint = "name one file or a pair, or as many of each of train, dev and test, with these words in their names"
        raise UserError(f"these files make no data set ({listed})", hint=hint)
    return dict(found)


def guess(files: Sequence[Path], kind: str | None, languages: Sequence[str] | None) -> dict[str, Any]:
    """`task`, `splits` and `format` of an entry, files by their names; a UserError if they cannot be guessed."""
    splits = by_split(files)
    first = next(iter(splits.values()))
    table = Table.of(first[0]) if len(first) == 1 else None
    columns = 0 if table is None else len(table.rows[0])
    kind = kind or ("inflection" if columns == 3 else "translation")
    if (kind == "inflection") != (columns == 3):
        hint = "name one file of lemma, features and form, or, with --kind translation, of two languages"
        raise UserError(f"{columns or 'no'} columns for a task of {kind}", file=first[0], hint=hint)
    divide = {"divide": _sizes(first[0])} if ALL in splits else {}
    named: dict[str, Any] = {split: own[0].name for split, own in splits.items()}
    if table is not None and kind == "inflection":
        order, separator = _order(table)
        layout = {"columns": order, "separator": separator} | table.format() | divide
        default = InflectionFormat().model_dump()
        return _entry(kind, named, {key: value for key, value in layout.items() if value != default[key]})
    source, target = languages or _languages(first, table)
    if table is None:
        named = {split: {source: own[0].name, target: own[1].name} for split, own in splits.items()}
        read: dict[str, Any] = {"kind": "lines"}
    else:
        read = {"kind": "columns", "columns": {source: 0, target: 1}} | table.format()
        read |= {"separator": read.pop("delimiter")} if "delimiter" in read else {}
    return _entry(kind, named, {"source": source, "target": target, "read": read | divide})


def _entry(task: str, splits: dict[str, Any], layout: dict[str, Any]) -> dict[str, Any]:
    return {"task": task, "splits": splits, "format": layout}


def _order(table: Table) -> tuple[list[str], str]:
    """Columns by their heading where it names all three, else by what they hold."""
    order, separator = guess_columns(table.rows)
    synonyms = {"feature": "features", "tag": "features", "tags": "features", "inflected": "form"}
    named = [synonyms.get(name, name) for name in table.heading]
    return (named if sorted(named) == sorted(order) else order), separator


def _languages(files: Sequence[Path], table: Table | None) -> tuple[str, str]:
    """Codes of source and target, by the ends of two files' names or by the heading of one."""
    ends = table.heading[:2] if table else [plain_name(path).suffix.removeprefix(".") for path in files]
    if len(set(ends)) != 2 or not all(re.fullmatch(LANGUAGE, end) for end in ends):
        raise UserError("which languages these are is not known", hint="name both: --languages de en")
    return ends[0], ends[1]


def _sizes(file: Path) -> dict[str, int]:
    """A tenth of all lines each for development and for testing, 500 at most."""
    lines = sum(1 for _ in lines_of(file))
    size = max(1, min(500, lines // 10))
    return {"dev": size, "test": size}


def write_entry(
    name: str, files: Sequence[Path], registry: Path, kind: str | None, languages: Sequence[str] | None
) -> tuple[str, Dataset, list[tuple[str, ...]]]:
    """Adds an entry to a registry, which is made if it is not there.

    Returns: the entry as YAML, as it is read, and its first rows. A UserError says what is wrong with the files, or
    that the name is taken; nothing is written then.
    """
    for path in files:
        if not path.is_file():
            raise UserError("no such file", file=path, hint="check the name")
    folder = registry.parent
    paths = {path.name: {"path": os.path.relpath(path, folder)} for path in files}
    if len(paths) < len(files):
        raise UserError("two of the files have one name", hint="rename one")
    guessed = guess(files, kind, languages)
    entry = {"task": guessed["task"], "title": name, "files": paths, **guessed}
    text = yaml.safe_dump({name: entry}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    before = ""
    if registry.exists():
        known = read_yaml(registry)
        if name in (known if isinstance(known, dict) else {}):
            raise UserError(f"`{name}` is in this registry already", file=registry, hint="give another --name")
        before = registry.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    with atomic_write(registry) as temporary:
        temporary.write_text(before + text, encoding="utf-8")
        dataset = load_registries([temporary])[name]
        read = {split: _located(paths, own, folder) for split, own in dataset.splits.items()}
        rows = dataset.kind.first_rows(read, dataset.layout, FIRST)
    return text, dataset, next(iter(rows.values()))


def _located(paths: dict[str, dict[str, str]], own: str | dict[str, str], folder: Path) -> Path | dict[str, Path]:
    """The files of a split."""
    if isinstance(own, str):
        return folder / paths[own]["path"]
    return {what: folder / paths[name]["path"] for what, name in own.items()}
