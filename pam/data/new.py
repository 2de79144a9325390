"""Registry entries for files of one's own: what they hold is guessed, to be looked at and
corrected.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from pam.data.dataset import SPLITS
from pam.data.inflection import InflectionFormat, guess_columns
from pam.data.readers import ALL
from pam.data.registry import Dataset, load_registries
from pam.data.text_files import MARKUP, SUFFIXES, Line, cells_of, lines_of
from pam.data.tokenizers import InflectionCodec, split_features
from pam.data.translation import SIDE
from pam.io import UserError, atomic_write, read_yaml

LOOKED_AT = 2000  # lines from which columns are guessed
DELIMITERS = ("\t", ";", ",", " ||| ")
HEADINGS = {
    "lemma",
    "form",
    "features",
    "feature",
    "tag",
    "tags",
    "inflected",
    "source",
    "target",
    "src",
    "tgt",
}
SYNONYMS = {"feature": "features", "tag": "features", "tags": "features", "inflected": "form"}

# Words in files' names that say which split they are.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "trn", "training", "trainset"), "train"),
    **dict.fromkeys(
        ("dev", "devel", "development", "devset", "newsdev", "valid", "validation", "val"), "dev"
    ),
    **dict.fromkeys(("test", "tst", "testing", "testset", "newstest", "gold"), "test"),
}
# Ends of names that say what kind of file it is, and not whose language.
GENERIC = {"txt", "text", "tsv", "csv", "dat", "raw", "tok", "sgm", "sgml", "xml", *SPLIT_NAMES}
LEFT_OUT = "-"  # in place of a column's name: the column is not read
FIRST = 5  # rows that are shown
ALIKE = 0.5  # share of a form's letters that its lemma has too, at least, in inflection
REPEATED = 0.8  # share of features that are different ones, at most, in inflection
EXAMPLES = (
    "--kind inflection --columns lemma features form, or --kind translation --columns en de -"
)


@dataclass(frozen=True)
class Choices:
    """What is not to be guessed, as a person has said it; None is not said."""

    kind: str | None = None
    languages: Sequence[str] | None = None  # names of source and target
    columns: Sequence[str] | None = None  # names of the columns of a table, in their order
    header: bool | None = None  # whether the first line of a table names the columns
    splits: Sequence[str] | None = None  # of the files, in their order


@dataclass(frozen=True)
class Guess:
    """An entry for files, with what in it is not sure."""

    task: str
    splits: dict[str, Any]
    format: dict[str, Any]
    notes: tuple[str, ...] = ()  # how to say otherwise what was guessed


@dataclass(frozen=True)
class Table:
    """The first lines of a file of columns, without their heading."""

    delimiter: str
    quotes: bool
    heading: list[str]
    rows: list[list[str]]

    @classmethod
    def of(cls, path: Path, choices: Choices) -> Table:
        """With the delimiter that gives most lines the same number of columns; a UserError if all
        have one.
        """
        lines = list(islice(lines_of(path), LOOKED_AT))
        if lines[0].text.lstrip().startswith("{"):
            hint = (
                "write the entry by hand, with `read: jsonl` and the keys as `source` and `target`"
                " (docs/data.md)"
            )
            raise UserError("these are JSON lines, which have no columns", file=path, hint=hint)
        for delimiter in DELIMITERS:
            quotes = delimiter in (";", ",") or _is_quoted(lines, delimiter)
            rows = [_cells(line, delimiter, quotes) for line in lines]
            ((width, count),) = Counter(map(len, rows)).most_common(1)
            if width > 1 and count > 0.9 * len(rows):
                named = _names_columns(rows, choices)
                heading = [cell.strip() for cell in rows[0]] if named else []
                return cls(
                    delimiter, quotes, heading, [row for row in rows[named:] if len(row) == width]
                )
        hint = (
            "separate columns by tabs (TSV) or commas (CSV), or name two files, line n of one"
            " translating line n"
        )
        raise UserError("no columns were found", file=path, hint=hint)

    @property
    def width(self) -> int:
        return len(self.rows[0])

    def format(self, delimiter: str) -> dict[str, Any]:
        """Keys by which a reader reads it so, that of the delimiter by its name."""
        layout: dict[str, Any] = {} if self.delimiter == "\t" else {delimiter: self.delimiter}
        if self.quotes:
            layout["quotes"] = True
        if self.heading:
            layout["heading"] = True
        return layout


def _is_quoted(lines: Sequence[Line], delimiter: str) -> bool:
    """Whether columns are in quotes: some are as a whole, and no line has quotes that would be
    wrong then.
    """
    cells = [cell for line in lines for cell in line.text.split(delimiter) if cell.startswith('"')]
    if len(delimiter) > 1 or not any(len(cell) > 1 and cell.endswith('"') for cell in cells):
        return False
    try:
        for line in lines:
            cells_of(line, delimiter, quotes=True)
    except UserError:
        return False
    return True


def _cells(line: Line, delimiter: str, quotes: bool) -> list[str]:
    try:
        return cells_of(line, delimiter, quotes)
    except UserError:
        return [line.text]


def _names_columns(rows: Sequence[Sequence[str]], choices: Choices) -> bool:
    """Whether the first line is a heading: as it was said, or since it has the names of columns or
    languages.
    """
    if choices.header is not None:
        return choices.header
    names = [cell.strip() for cell in rows[0]]
    if len(rows) == 1:
        return False
    if choices.languages is not None and set(choices.languages) <= set(names):
        return True
    lowered = [name.lower() for name in names]
    codes = all(re.fullmatch("[a-z]{2}", name) for name in lowered) and len(set(lowered)) == len(
        lowered
    )
    return codes or len(HEADINGS.intersection(lowered)) > 1


def plain_name(path: Path) -> Path:
    """A path without what says that it is compressed."""
    return path.with_suffix("") if path.suffix in SUFFIXES else path


def by_split(files: Sequence[Path], named: Sequence[str] | None = None) -> dict[str, list[Path]]:
    """Files by the split that is `named`, or that their names say, all in one if they say none.

    A UserError says which splits are missing, and how to name them.
    """
    if named is not None and len(named) != len(files):
        hint = f"name one of {', '.join((*SPLITS, ALL))} for each file, in their order"
        raise UserError(f"{len(named)} splits for {len(files)} files", hint=hint)
    by_name = defaultdict(list)
    for path, split in zip(files, named or map(_split_of, files), strict=True):
        if split not in (*SPLITS, ALL):
            raise UserError(f"--splits {split}", hint=f"choose of {', '.join((*SPLITS, ALL))}")
        by_name[split].append(path)

    counts = {len(paths) for paths in by_name.values()}
    if set(by_name) in ({ALL}, set(SPLITS)) and len(counts) == 1 and counts.pop() <= 2:
        return dict(by_name)
    listed = "; ".join(
        f"{split}: {', '.join(path.name for path in paths)}" for split, paths in by_name.items()
    )
    hint = "name one file or a pair, or as many of each of train, dev and test"
    missing = [split for split in SPLITS if split not in by_name]
    message = f"these files make no data set ({listed})"
    if missing and by_name.keys() & set(SPLITS):
        message = f"no file is known as {' or '.join(missing)} ({listed})"
        hint = f"{hint}; one file for all splits is `--splits {ALL}`"
    if ALL in by_name and len(by_name) > 1:
        others = ", ".join(path.name for path in by_name[ALL])
        message = f"the names of some files do not say which split they are: {others}"
    example = " ".join(split if split in SPLITS else "train" for split in map(_split_of, files))
    raise UserError(
        message, hint=f"{hint}; say which is which in their order, as by `--splits {example}`"
    )


def _split_of(path: Path) -> str:
    words = re.split(r"[^a-z]+", plain_name(path).name.lower())
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), ALL)


def guess(files: Sequence[Path], choices: Choices) -> Guess:
    """`task`, `splits` and `format` of an entry, files by their names; a UserError if they cannot
    be guessed.
    """
    splits = by_split(files, choices.splits)
    first = next(iter(splits.values()))
    divide = {"divide": _sizes(first[0])} if ALL in splits else {}
    if len(first) == 2:
        if choices.kind == "inflection":
            hint = "name one file of lemma, features and form for each split"
            raise UserError("no columns for a task of inflection", file=first[0], hint=hint)
        return _pair_of_files(splits, choices, divide)
    table = Table.of(first[0], choices)
    named: dict[str, Any] = {split: paths[0].name for split, paths in splits.items()}
    kind, notes = _kind(table, first[0], choices)
    if table.heading:
        notes += (f"the first line is a heading: {', '.join(table.heading)} (or --no-header)",)
    elif choices.header is None:
        notes += ("the first line is a row (or --header)",)
    guessed = _inflection if kind == "inflection" else _columns
    made = guessed(table, first[0], choices, divide)
    return replace(made, splits=named, notes=(*notes, *made.notes))


def _kind(table: Table, path: Path, choices: Choices) -> tuple[str, tuple[str, ...]]:
    """The kind of task of a table, and how to say another; a UserError if both are as likely."""
    names = {name for name in choices.columns or () if name != LEFT_OUT}
    kind = choices.kind
    if kind is None and names:
        kind = "inflection" if names == set(InflectionCodec.columns) else "translation"
    if kind is None and choices.languages is not None:
        kind = "translation"
    if kind == "inflection" and table.width != len(InflectionCodec.columns):
        hint = (
            "name one file of lemma, features and form, or, with --kind translation, of two"
            " languages"
        )
        raise UserError(f"{table.width} columns for a task of inflection", file=path, hint=hint)
    if kind is not None:
        return kind, ()
    if table.width != len(InflectionCodec.columns):
        return "translation", ()
    lowered = [SYNONYMS.get(name.lower(), name.lower()) for name in table.heading]
    if sorted(lowered) == sorted(InflectionCodec.columns) or _is_inflection(table.rows):
        return "inflection", ("the kind of task is inflection (if it is not: --kind translation)",)
    message = (
        "three columns, which may be words and their forms, or a pair of texts and something else"
    )
    raise UserError(message, file=path, hint=f"say what they are: {EXAMPLES}")


def _is_inflection(rows: Sequence[Sequence[str]]) -> bool:
    """Whether three columns are surely a lemma, features that repeat, and a form that shares
    letters with it.
    """
    order, separator = guess_columns(rows)
    columns = dict(zip(order, zip(*rows, strict=True), strict=True))
    if sum(" " in cell.strip() for cell in columns["form"]) > len(rows) / 10:
        return False
    features = [
        feature for cell in columns["features"] for feature in split_features(cell, separator)
    ]
    if features and not 1 < len(set(features)) <= REPEATED * len(features):
        return False
    shared = 0
    letters = 0
    for lemma, form in zip(columns["lemma"], columns["form"], strict=True):
        shared += (Counter(lemma) & Counter(form)).total()
        letters += len(form)
    return shared >= ALIKE * letters


def _inflection(table: Table, path: Path, choices: Choices, divide: dict[str, Any]) -> Guess:
    """The entry of a table of lemmas, features and forms."""
    if len(table.delimiter) > 1:
        hint = "separate columns by one character, such as a tab"
        raise UserError(f"columns are separated by `{table.delimiter}`", file=path, hint=hint)
    order, separator = guess_columns(table.rows)
    named = [SYNONYMS.get(name.lower(), name.lower()) for name in table.heading]
    notes: tuple[str, ...] = ()
    if choices.columns is not None:
        if sorted(choices.columns) != sorted(order):
            hint = "name lemma, features and form once each, in the order of the columns"
            raise UserError(f"--columns {' '.join(choices.columns)}", hint=hint)
        order = list(choices.columns)
        number_of_features = order.index("features")
        separator = guess_columns(
            [
                [row[number_of_features], str(number), str(number)]
                for number, row in enumerate(table.rows)
            ]
        )[1]
    elif sorted(named) == sorted(order):
        order = named
    else:
        notes = (
            f"the columns are {' '.join(order)} (or --columns, with these names in another order)",
        )
    layout = {"columns": order, "separator": separator} | table.format("delimiter") | divide
    default = InflectionFormat().model_dump()
    return Guess(
        "inflection",
        {},
        {key: value for key, value in layout.items() if value != default[key]},
        notes,
    )


def _columns(table: Table, path: Path, choices: Choices, divide: dict[str, Any]) -> Guess:
    """The entry of a table of two languages, and other columns that are not read."""
    names = choices.columns
    notes: tuple[str, ...] = ()
    if names is None:
        names, notes = _names_of_columns(table, path, choices)
    places = {name: number for number, name in enumerate(names) if name != LEFT_OUT}
    sides = list(choices.languages or places)
    if len(sides) != 2 or not set(sides) <= places.keys() or len(names) > table.width:
        listed = " ".join(names)
        hint = (
            f"name two of {table.width} columns, with `{LEFT_OUT}` for others, such as --columns en"
            " de -"
        )
        raise UserError(
            f"--columns {listed} does not say which are source and target", file=path, hint=hint
        )
    source, target = sides
    read: dict[str, Any] = {"kind": "columns", "columns": {name: places[name] for name in sides}}
    layout = {"source": source, "target": target, "read": read | table.format("separator") | divide}
    return Guess("translation", {}, layout, notes)


def _names_of_columns(
    table: Table, path: Path, choices: Choices
) -> tuple[list[str], tuple[str, ...]]:
    """Names of the columns that hold source and target, and how to say others: those of the
    heading, else the first two that are no numbers.
    """
    if choices.languages is not None and set(choices.languages) <= set(table.heading):
        return [name if name in choices.languages else LEFT_OUT for name in table.heading], ()
    if choices.languages is None and len(table.heading) == 2:
        return _sides([name.lower() for name in table.heading]), ()
    if choices.languages is None:
        hint = "name both: --languages de en"
        if table.width > 2:
            hint = (
                "name source and target, and `-` for other columns, in their order: --columns en"
                " de -"
            )
        raise UserError("which languages these are is not known", file=path, hint=hint)
    texts = [
        place
        for place in range(table.width)
        if not _are_numbers([row[place] for row in table.rows])
    ]
    if len(texts) < 2:
        hint = (
            "name source and target, and `-` for other columns, in their order: --columns en de -"
        )
        raise UserError("two columns of text are not there", file=path, hint=hint)
    names = [LEFT_OUT] * table.width
    for place, language in zip(texts, choices.languages, strict=False):
        names[place] = language
    if table.width == 2:
        return names, ()
    return names, (
        (
            f"the columns are {' '.join(names)} (or --columns, with `{LEFT_OUT}` for one that is"
            " not read)"
        ),
    )


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(re.fullmatch(r"[\d.,:/-]*", cell.strip()) for cell in cells)


def _pair_of_files(
    splits: Mapping[str, Sequence[Path]], choices: Choices, divide: dict[str, Any]
) -> Guess:
    """The entry of files of lines, or of segments, one for each language."""
    first = next(iter(splits.values()))
    source, target = choices.languages or _sides([_end_of_name(path) for path in first])
    read: dict[str, Any] = {"kind": "segments" if any(map(_is_markup, first)) else "lines"}
    named = {
        split: {source: paths[0].name, target: paths[1].name} for split, paths in splits.items()
    }
    notes = (
        ()
        if choices.languages
        else (f"the first file is {source}, the second {target} (or --languages)",)
    )
    return Guess(
        "translation", named, {"source": source, "target": target, "read": read | divide}, notes
    )


def _is_markup(path: Path) -> bool:
    return any(MARKUP.match(line.text) for line in islice(lines_of(path), LOOKED_AT))


def _end_of_name(path: Path) -> str:
    """The end of a file's name that may be a language: `de` of `train.de.txt.gz`."""
    ends = [end for end in plain_name(path).name.split(".")[1:] if end.lower() not in GENERIC]
    return ends[-1] if ends else ""


def _sides(names: Sequence[str]) -> list[str]:
    """Names of source and target; a UserError if they are not choices apart."""
    if len(set(names)) != 2 or not all(re.fullmatch(SIDE, name) for name in names):
        raise UserError(
            "which languages these are is not known", hint="name both: --languages de en"
        )
    return list(names)


def _sizes(file: Path) -> dict[str, int]:
    """A tenth of all lines each for development and for testing, 500 at most."""
    lines = sum(1 for _ in lines_of(file))
    size = max(1, min(500, lines // 10))
    return {"dev": size, "test": size}


@dataclass(frozen=True)
class Written:
    """An entry that was added to a registry."""

    text: str  # as YAML
    dataset: Dataset
    rows: list[tuple[str, ...]]  # the first ones, as they are read
    notes: tuple[str, ...]  # what was guessed, and how to say otherwise


def write_entry(name: str, files: Sequence[Path], registry: Path, choices: Choices) -> Written:
    """Adds an entry to a registry, which is made if it is not there.

    A UserError says what is wrong with the files, or that the name is taken; nothing is written
    then.
    """
    for path in files:
        if not path.is_file():
            raise UserError("no such file", file=path, hint="check the name")
    folder = registry.parent
    paths = {path.name: {"path": os.path.relpath(path, folder)} for path in files}
    if len(paths) < len(files):
        raise UserError("two of the files have one name", hint="rename one")
    guessed = guess(files, choices)
    entry = {
        "task": guessed.task,
        "title": name,
        "files": paths,
        "splits": guessed.splits,
        "format": guessed.format,
    }
    text = yaml.safe_dump(
        {name: entry}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )
    before = ""
    if registry.exists():
        content = read_yaml(registry)
        if name in (content if isinstance(content, dict) else {}):
            raise UserError(
                f"`{name}` is in this registry already", file=registry, hint="give another --name"
            )
        before = registry.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
    with atomic_write(registry) as temporary:
        temporary.write_text(before + text, encoding="utf-8")
        try:
            dataset = load_registries([temporary])[name]
        except UserError as error:
            # The file is one that nobody will find.
            file = registry if error.file == str(temporary) else error.file
            raise UserError(error.message, file=file, hint=error.hint) from error
        located = {split: _located(paths, own, folder) for split, own in dataset.splits.items()}
        rows = dataset.kind.first_rows(located, dataset.layout, FIRST)
    return Written(text, dataset, next(iter(rows.values())), guessed.notes)


def _located(
    paths: dict[str, dict[str, str]], own: str | dict[str, str], folder: Path
) -> Path | dict[str, Path]:
    """The files of a split."""
    if isinstance(own, str):
        return folder / paths[own]["path"]
    return {what: folder / paths[name]["path"] for what, name in own.items()}
