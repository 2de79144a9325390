"""Registry entries for a user's own files.

What the files hold is guessed, to be looked at and corrected.
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
from pam.data.readers import ALL, Files
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
    """Choices of a person, which are not guessed; None: no choice."""

    kind: str | None = None  # of task
    languages: Sequence[str] | None = None  # names of source and target
    columns: Sequence[str] | None = None  # names of the columns of a table, in their order
    header: bool | None = None  # whether the first line of a table names the columns
    splits: Sequence[str] | None = None  # of the files, in their order


@dataclass(frozen=True)
class Guess:
    """An entry for files, with notes on what in it is not sure."""

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
        """Read the first lines with the delimiter that gives most of them as many columns.

        A UserError says that they have one column with each delimiter, or a heading alone.
        """
        lines = list(islice(lines_of(path), LOOKED_AT))
        if lines[0].text.lstrip().startswith("{"):
            hint = (
                "write the entry by hand, with `read: jsonl` and the keys as `source` and `target`"
                " (docs/data.md)"
            )
            raise UserError("these are JSON lines, which have no columns", file=path, hint=hint)

        for delimiter in DELIMITERS:
            # CSV may have quotes; with other delimiters they have to show.
            quotes = delimiter in (";", ",") or _is_quoted(lines, delimiter)
            rows = [_cells(line, delimiter, quotes) for line in lines]
            ((width, count),) = Counter(map(len, rows)).most_common(1)
            # Some lines may be faulty, which is said when all are read.
            if width > 1 and count > 0.9 * len(rows):
                heading = []
                if _names_columns(rows, choices):
                    heading = [cell.strip() for cell in rows.pop(0)]
                if not rows:
                    hint = "add rows; or say --no-header if this line is one"
                    raise UserError("the heading has no row below it", file=path, hint=hint)
                return cls(delimiter, quotes, heading, [row for row in rows if len(row) == width])

        hint = (
            "separate columns by tabs (TSV) or commas (CSV), or name two files, line n of one"
            " translating line n"
        )
        raise UserError("no columns were found", file=path, hint=hint)

    @property
    def width(self) -> int:
        return len(self.rows[0])

    def format(self, delimiter: str) -> dict[str, Any]:
        """Return the keys by which a reader reads it so; `delimiter` is the delimiter's key."""
        layout: dict[str, Any] = {}
        if self.delimiter != "\t":
            layout[delimiter] = self.delimiter
        if self.quotes:
            layout["quotes"] = True
        if self.heading:
            layout["heading"] = True
        return layout


def _is_quoted(lines: Sequence[Line], delimiter: str) -> bool:
    """Check whether columns are in quotes.

    Some are as a whole then, and no line has quotes that would be wrong.
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
    """Check whether the first line is a heading: as was chosen, or by names that it has.

    It is one if it names the chosen languages, if all cells are codes of languages, or if two cells
    are usual names of columns.
    """
    if choices.header is not None:
        return choices.header
    if len(rows) == 1:
        return False

    names = [cell.strip() for cell in rows[0]]
    if choices.languages is not None and set(choices.languages) <= set(names):
        return True

    lowered = [name.lower() for name in names]
    codes = all(re.fullmatch("[a-z]{2}", name) for name in lowered)
    codes = codes and len(set(lowered)) == len(lowered)
    return codes or len(HEADINGS.intersection(lowered)) > 1


def plain_name(path: Path) -> Path:
    """Return a path without the suffix that says that it is compressed."""
    if path.suffix in SUFFIXES:
        return path.with_suffix("")
    return path


def by_split(files: Sequence[Path], named: Sequence[str] | None = None) -> dict[str, list[Path]]:
    """Group files by the split that is `named`, or that their names say.

    If they say none, all are in the one split of all pairs. A UserError says which splits are
    missing, and how to name them.
    """
    if named is not None and len(named) != len(files):
        hint = f"name one of {', '.join((*SPLITS, ALL))} for each file, in their order"
        raise UserError(f"{len(named)} splits for {len(files)} files", hint=hint)

    splits = defaultdict(list)
    for path, split in zip(files, named or map(_split_of, files), strict=True):
        if split not in (*SPLITS, ALL):
            raise UserError(f"--splits {split}", hint=f"choose of {', '.join((*SPLITS, ALL))}")
        splits[split].append(path)

    # All splits or the one of all pairs, with a file each, or with a pair of files each.
    counts = {len(paths) for paths in splits.values()}
    if set(splits) in ({ALL}, set(SPLITS)) and counts in ({1}, {2}):
        return dict(splits)
    raise _incomplete(files, splits)


def _incomplete(files: Sequence[Path], splits: Mapping[str, list[Path]]) -> UserError:
    """Make the error for files that are not those of all splits."""
    listed = "; ".join(
        f"{split}: {', '.join(path.name for path in paths)}" for split, paths in splits.items()
    )
    message = f"these files make no data set ({listed})"
    hint = "name one file or a pair, or as many of each of train, dev and test"

    missing = [split for split in SPLITS if split not in splits]
    if missing and splits.keys() & set(SPLITS):
        message = f"no file is known as {' or '.join(missing)} ({listed})"
        hint = f"{hint}; one file for all splits is `--splits {ALL}`"
    if ALL in splits and len(splits) > 1:
        unclear = ", ".join(path.name for path in splits[ALL])
        message = f"the names of some files do not say which split they are: {unclear}"

    example = " ".join(map(_split_of, files)).replace(ALL, "train")
    return UserError(
        message, hint=f"{hint}; say which is which in their order, as by `--splits {example}`"
    )


def _split_of(path: Path) -> str:
    words = re.split(r"[^a-z]+", plain_name(path).name.lower())
    for word in words:
        if word in SPLIT_NAMES:
            return SPLIT_NAMES[word]
    return ALL


def guess(files: Sequence[Path], choices: Choices) -> Guess:
    """Guess `task`, `splits` and `format` of an entry, files by their names.

    A UserError says that they cannot be guessed.
    """
    splits = by_split(files, choices.splits)
    first, *partners = next(iter(splits.values()))
    divide: dict[str, Any] = {}
    if ALL in splits:
        divide["divide"] = _sizes(first)

    if partners:
        if choices.kind == "inflection":
            hint = "name one file of lemma, features and form for each split"
            raise UserError("no columns for a task of inflection", file=first, hint=hint)
        return _pair_of_files(splits, choices, divide)

    table = Table.of(first, choices)
    kind, notes = _kind(table, first, choices)
    if table.heading:
        notes += (f"the first line is a heading: {', '.join(table.heading)} (or --no-header)",)
    elif choices.header is None:
        notes += ("the first line is a row (or --header)",)

    if kind == "inflection":
        entry = _inflection(table, first, choices, divide)
    else:
        entry = _columns(table, first, choices, divide)
    file_names: dict[str, Any] = {split: paths[0].name for split, paths in splits.items()}
    return replace(entry, splits=file_names, notes=(*notes, *entry.notes))


def _kind(table: Table, path: Path, choices: Choices) -> tuple[str, tuple[str, ...]]:
    """Guess the kind of task of a table; return it with notes on how to say another.

    A UserError says that both kinds are as likely.
    """
    column_names = {name for name in choices.columns or () if name != LEFT_OUT}
    kind = choices.kind
    if kind is None and column_names:
        is_inflection = column_names == set(InflectionCodec.columns)
        kind = "inflection" if is_inflection else "translation"
    if kind is None and choices.languages is not None:
        kind = "translation"

    has_three_columns = table.width == len(InflectionCodec.columns)
    if kind == "inflection" and not has_three_columns:
        hint = (
            "name one file of lemma, features and form, or, with --kind translation, of two"
            " languages"
        )
        raise UserError(f"{table.width} columns for a task of inflection", file=path, hint=hint)
    if kind is not None:
        return kind, ()
    if not has_three_columns:
        return "translation", ()

    if sorted(_usual_names(table)) == sorted(InflectionCodec.columns) or _is_inflection(table.rows):
        note = "the kind of task is inflection (if it is not: --kind translation)"
        return "inflection", (note,)
    message = (
        "three columns, which may be words and their forms, or a pair of texts and something else"
    )
    raise UserError(message, file=path, hint=f"say what they are: {EXAMPLES}")


def _usual_names(table: Table) -> list[str]:
    """Return the names in a table's heading, each by the name that inflection has for it."""
    names = [name.lower() for name in table.heading]
    return [SYNONYMS.get(name, name) for name in names]


def _is_inflection(rows: Sequence[Sequence[str]]) -> bool:
    """Check whether three columns are surely lemmas, features that repeat, and forms.

    A form shares letters with its lemma.
    """
    order, separator = guess_columns(rows)
    columns = dict(zip(order, zip(*rows, strict=True), strict=True))
    # Forms are words, seldom of several parts.
    if sum(" " in cell.strip() for cell in columns["form"]) > len(rows) / 10:
        return False

    # Features come from a small set, and repeat.
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
    """Make the entry of a table of lemmas, features and forms."""
    if len(table.delimiter) > 1:
        hint = "separate columns by one character, such as a tab"
        raise UserError(f"columns are separated by `{table.delimiter}`", file=path, hint=hint)

    order, separator = guess_columns(table.rows)
    names = _usual_names(table)
    notes: tuple[str, ...] = ()
    if choices.columns is not None:
        if sorted(choices.columns) != sorted(order):
            hint = "name lemma, features and form once each, in the order of the columns"
            raise UserError(f"--columns {' '.join(choices.columns)}", hint=hint)
        order = list(choices.columns)
        separator = _guess_separator(table, order.index("features"))
    elif sorted(names) == sorted(order):
        order = names
    else:
        notes = (
            f"the columns are {' '.join(order)} (or --columns, with these names in another order)",
        )

    # Keys that are as by default are left out, so that the entry is short.
    layout = {"columns": order, "separator": separator} | table.format("delimiter") | divide
    default = InflectionFormat().model_dump()
    chosen = {key: value for key, value in layout.items() if value != default[key]}
    return Guess("inflection", splits={}, format=chosen, notes=notes)


def _guess_separator(table: Table, column: int) -> str:
    """Guess what separates two features in a column."""
    # In the other columns no two cells are alike, so that they are not taken for features.
    rows = [[row[column], str(number), str(number)] for number, row in enumerate(table.rows)]
    _, separator = guess_columns(rows)
    return separator


def _columns(table: Table, path: Path, choices: Choices, divide: dict[str, Any]) -> Guess:
    """Make the entry of a table of two languages, and other columns that are not read."""
    names = choices.columns
    notes: tuple[str, ...] = ()
    if names is None:
        names, notes = _names_of_columns(table, path, choices)

    # Without names of languages, the order of the columns says source and target.
    numbers = {name: number for number, name in enumerate(names) if name != LEFT_OUT}
    sides = list(choices.languages or numbers)
    if len(sides) != 2 or not set(sides) <= numbers.keys() or len(names) > table.width:
        message = f"--columns {' '.join(names)} does not say which are source and target"
        hint = (
            f"name two of {table.width} columns, with `{LEFT_OUT}` for others, such as --columns en"
            " de -"
        )
        raise UserError(message, file=path, hint=hint)

    source, target = sides
    columns = {name: numbers[name] for name in sides}
    read: dict[str, Any] = {"kind": "columns", "columns": columns}
    read |= table.format("separator") | divide
    layout = {"source": source, "target": target, "read": read}
    return Guess("translation", splits={}, format=layout, notes=notes)


def _names_of_columns(
    table: Table, path: Path, choices: Choices
) -> tuple[list[str], tuple[str, ...]]:
    """Name the columns that hold source and target; return notes on how to name others.

    They are those of the heading, else the first two that are no numbers.
    """
    if choices.languages is not None and set(choices.languages) <= set(table.heading):
        return [name if name in choices.languages else LEFT_OUT for name in table.heading], ()
    if choices.languages is None and len(table.heading) == 2:
        return _sides([name.lower() for name in table.heading]), ()

    how_to_name = (
        "name source and target, and `-` for other columns, in their order: --columns en de -"
    )
    if choices.languages is None:
        hint = how_to_name if table.width > 2 else "name both: --languages de en"
        raise UserError("which languages these are is not known", file=path, hint=hint)

    texts = [
        column
        for column in range(table.width)
        if not _are_numbers([row[column] for row in table.rows])
    ]
    if len(texts) < 2:
        raise UserError("two columns of text are not there", file=path, hint=how_to_name)

    names = [LEFT_OUT] * table.width
    # Columns that are left over keep the sign that they are not read.
    for column, language in zip(texts, choices.languages, strict=False):
        names[column] = language
    if table.width == 2:
        return names, ()
    note = (
        f"the columns are {' '.join(names)} (or --columns, with `{LEFT_OUT}` for one that is not"
        " read)"
    )
    return names, (note,)


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(re.fullmatch(r"[\d.,:/-]*", cell.strip()) for cell in cells)


def _pair_of_files(
    splits: Mapping[str, Sequence[Path]], choices: Choices, divide: dict[str, Any]
) -> Guess:
    """Make the entry of files of lines, or of segments, one for each language."""
    first = next(iter(splits.values()))
    source, target = choices.languages or _sides([_end_of_name(path) for path in first])
    notes: tuple[str, ...] = ()
    if not choices.languages:
        notes = (f"the first file is {source}, the second {target} (or --languages)",)

    kind = "segments" if any(map(_is_markup, first)) else "lines"
    read: dict[str, Any] = {"kind": kind, **divide}
    file_names = {}
    for split, (source_path, target_path) in splits.items():
        file_names[split] = {source: source_path.name, target: target_path.name}
    layout = {"source": source, "target": target, "read": read}
    return Guess("translation", splits=file_names, format=layout, notes=notes)


def _is_markup(path: Path) -> bool:
    return any(MARKUP.match(line.text) for line in islice(lines_of(path), LOOKED_AT))


def _end_of_name(path: Path) -> str:
    """Return the end of a file's name that may be a language: `de` of `train.de.txt.gz`."""
    ends = plain_name(path).name.split(".")[1:]
    for end in reversed(ends):
        if end.lower() not in GENERIC:
            return end
    return ""


def _sides(names: Sequence[str]) -> list[str]:
    """Return names of source and target; a UserError if they are not two that can be names."""
    if len(set(names)) != 2 or not all(re.fullmatch(SIDE, name) for name in names):
        raise UserError(
            "which languages these are is not known", hint="name both: --languages de en"
        )
    return list(names)


def _sizes(file: Path) -> dict[str, int]:
    """Return sizes of dev and test: a tenth of all lines each, 500 at most."""
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
    """Add an entry to a registry, which is made if it is not there.

    A UserError says what is wrong with the files, or that the name is taken; nothing is written
    then.
    """
    for path in files:
        if not path.is_file():
            raise UserError("no such file", file=path, hint="check the name")
    folder = registry.parent
    sources = {path.name: {"path": os.path.relpath(path, folder)} for path in files}
    if len(sources) < len(files):
        raise UserError("two of the files have one name", hint="rename one")

    guessed = guess(files, choices)
    entry = {
        "task": guessed.task,
        "title": name,
        "files": sources,
        "splits": guessed.splits,
        "format": guessed.format,
    }
    text = yaml.safe_dump(
        {name: entry}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )

    text_before = _text_before(registry, name)
    with atomic_write(registry) as temporary:
        temporary.write_text(text_before + text, encoding="utf-8")
        try:
            dataset = load_registries([temporary])[name]
        except UserError as error:
            # The temporary file is one that nobody will find.
            file = registry if error.file == str(temporary) else error.file
            raise UserError(error.message, file=file, hint=error.hint) from error

        # The files are where the user has them, as nothing has been fetched yet.
        paths = {file_name: folder / source["path"] for file_name, source in sources.items()}
        rows = dataset.kind.first_rows(_located(dataset, paths), dataset.layout, FIRST)

    return Written(text, dataset, next(iter(rows.values())), guessed.notes)


def _text_before(registry: Path, name: str) -> str:
    """Read what a new entry is written behind; a UserError if its name is taken."""
    if not registry.exists():
        return ""

    content = read_yaml(registry)
    if isinstance(content, dict) and name in content:
        message = f"`{name}` is in this registry already"
        raise UserError(message, file=registry, hint="give another --name")
    return registry.read_text(encoding="utf-8").rstrip("\n") + "\n\n"


def _located(dataset: Dataset, paths: Mapping[str, Path]) -> Files:
    """Return the files of each split by their `paths`."""
    located: dict[str, Path | dict[str, Path]] = {}
    for split, key in dataset.splits.items():
        if isinstance(key, str):
            located[split] = paths[key]
        else:
            located[split] = {language: paths[file_name] for language, file_name in key.items()}
    return located
