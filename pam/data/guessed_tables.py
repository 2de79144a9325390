"""Entries for tables of text (TSV, CSV): which columns are what, and how they are separated."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pam.data.guesses import CHARACTERS, Choices, Guess, format_of_kind
from pam.data.text_files import Line, cells_of, cleaned, lines_of
from pam.runtime.errors import UserError
from pam.tasks.inflection.codec import InflectionCodec, split_features
from pam.tasks.inflection.stages import (
    CLEARLY,
    LEFT_OUT,
    OF_CONLLU,
    InflectionFormat,
    guess_columns,
)
from pam.tasks.translation.format import SIDE

LOOKED_AT = 2000  # lines from which columns are guessed
DELIMITERS = ("\t", ";", ",", " ||| ")
SYNONYMS = {"feature": "features", "tag": "features", "tags": "features", "inflected": "form"}
HEADINGS = {"source", "target", "src", "tgt", "word", *InflectionCodec.columns, *SYNONYMS}

ALIKE = 0.5  # share of a form's letters that its lemma has too, at least, in inflection
REPEATED = 0.8  # share of features that are different ones, at most, in inflection
TAGS = 0.3  # share of cells of tags that are different ones, at most
FEWEST = 10  # rows from which a column of tags is told
SPACES = 0.05  # share of pairs of words that have spaces, at most
TAG_SEPARATORS = (",", ";", "|", "+")
LEMMA_FOR_FORM = {"lemma": "form", "form": "lemma"}
SIDES = ("en", "de")  # names of two languages, in examples


@dataclass(frozen=True)
class Table:
    """The first lines of a file of columns, without their heading."""

    delimiter: str
    quotes: bool
    heading: list[str]
    rows: list[list[str]]
    blank_lines: bool  # whether some lines are blank, as between paradigms

    @classmethod
    def of(cls, path: Path, choices: Choices) -> Table:
        """Read the first lines with the delimiter that gives most of them as many columns.

        A UserError says that they have one column with each delimiter, or a heading alone.
        """
        all_lines = list(islice(lines_of(path), LOOKED_AT))
        lines = [line for line in all_lines if cleaned(line.text)]

        if not lines:
            raise UserError(
                f"the first {LOOKED_AT:,} lines show nothing", file=path, hint="delete blank lines"
            )

        faulty: UserError | None = None
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
                return cls(
                    delimiter=delimiter,
                    quotes=quotes,
                    heading=heading,
                    rows=[row for row in rows if len(row) == width],
                    blank_lines=len(lines) < len(all_lines),
                )

            if width > 1 and count > 0.5 * len(rows):
                index = next(index for index, row in enumerate(rows) if len(row) != width)
                message = f"{len(rows[index])} columns, and {width} in most other lines"
                hint = "complete the line, delete it, or quote a text that holds the separator"
                faulty = faulty or lines[index].error(message, hint)

        if faulty is not None:
            raise faulty
        hint = (
            "separate columns by tabs (TSV) or commas (CSV), or name two files, line n of one"
            " translating line n"
        )
        raise UserError("no columns were found", file=path, hint=hint)

    @property
    def width(self) -> int:
        return len(self.rows[0])

    def column(self, number: int) -> list[str]:
        return [row[number] for row in self.rows]

    def part(self, numbers: Sequence[int]) -> list[list[str]]:
        """Return the cells of some columns, row by row."""
        return [[row[number] for number in numbers] for row in self.rows]

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


def guess_table(path: Path, choices: Choices, divide: dict[str, Any]) -> Guess:
    """Make the entry of a table; a UserError asks for what is not sure."""
    table = Table.of(path, choices)
    kind, notes = _kind(table, path, choices)
    if table.heading:
        again = choices.instead(header=False)
        notes += (f"the first line is a heading: {', '.join(table.heading)} (or {again})",)
    elif choices.header is None:
        notes += (f"the first line is a row (or {choices.instead(header=True)})",)

    if kind == "inflection":
        entry = _inflection(table, path, choices, divide)
    else:
        entry = _columns(table, path, choices, divide)
    if table.blank_lines:
        entry.format["blank_lines"] = "drop"
        notes += ("blank lines are left out",)
    return replace(entry, notes=(*notes, *entry.notes))


def _kind(table: Table, path: Path, choices: Choices) -> tuple[str, tuple[str, ...]]:
    """Guess the kind of task of a table; return it with notes on how to say another.

    A UserError says that both kinds are as likely.
    """
    column_names = {name for name in choices.columns or () if name != LEFT_OUT}
    kind = choices.kind
    if kind == "summarization":
        hint = f"name files of both texts, or say {choices.command(kind='translation')}"
        raise UserError("a table is no file of texts and summaries", file=path, hint=hint)
    if kind == "lemmatization" and _has_features(table, choices):
        kind = "inflection"
    if kind is None and column_names:
        is_inflection = column_names == set(InflectionCodec.columns)
        kind = "inflection" if is_inflection else "translation"
    if kind is None and choices.languages is not None:
        kind = "translation"

    if kind == "inflection" and table.width < len(InflectionCodec.columns):
        again = choices.command(kind="translation", columns=None, languages=SIDES)
        hint = f"name a file of lemma, features and form, or, for a pair of texts, say {again}"
        raise UserError(f"{table.width} columns for a task of inflection", file=path, hint=hint)
    if kind is not None:
        return kind, ()
    if table.width < len(InflectionCodec.columns):
        return "translation", ()

    names = _usual_names(table)
    is_inflection = all(name in names for name in InflectionCodec.columns)
    pair_columns = _pair_columns(table)
    if is_inflection or _is_inflection(table.part(range(3))):
        pair = choices.instead(kind="translation", columns=pair_columns)
        return "inflection", (f"the kind of task is inflection (if it is not: {pair})",)

    message = (
        f"{table.width} columns, which may be words and their forms, or a pair of texts and"
        " something else"
    )
    words = choices.command(kind="inflection", columns=_order(table))
    pair = choices.command(kind="translation", columns=pair_columns)
    raise UserError(message, file=path, hint=f"say what they are: {words}, or {pair}")


def _has_features(table: Table, choices: Choices) -> bool:
    """Return whether a table of lemmas has features too, so that it is read as inflection is."""
    if choices.columns is not None:
        return "features" in choices.columns
    return table.width >= len(InflectionCodec.columns) and choices.languages is None


def _order(table: Table) -> list[str]:
    """Guess the names of all columns for inflection: its three are the first ones."""
    order, _ = guess_columns(table.part(range(3)))
    return order + [LEFT_OUT] * (table.width - len(order))


def _pair_columns(table: Table) -> list[str]:
    """Name the columns for a pair of texts: the first two that are no numbers."""
    names = [LEFT_OUT] * table.width
    texts = _text_columns(table)
    for number, name in zip(texts if len(texts) > 1 else range(2), SIDES, strict=False):
        names[number] = name
    return names


def _text_columns(table: Table) -> list[int]:
    """Return the numbers of the columns that are no numbers."""
    return [number for number in range(table.width) if not _are_numbers(table.column(number))]


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(re.fullmatch(r"[\d.,:/-]*", cell.strip()) for cell in cells)


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
    return _are_alike(columns["lemma"], columns["form"])


def _are_alike(lemmas: Sequence[str], forms: Sequence[str]) -> bool:
    """Return whether forms share letters with their lemmas."""
    shared = 0
    letters = 0
    for lemma, form in zip(lemmas, forms, strict=True):
        shared += (Counter(lemma) & Counter(form)).total()
        letters += len(form)
    return shared >= ALIKE * letters


def _inflection(table: Table, path: Path, choices: Choices, divide: dict[str, Any]) -> Guess:
    """Make the entry of a table of lemmas, features and forms."""
    if len(table.delimiter) > 1:
        tabs = shlex.join(["sed", f"s/{table.delimiter}/\\t/g".replace("|", "[|]"), str(path)])
        hint = f"separate columns by a tab, as by `{tabs} >{shlex.quote(path.stem)}.tsv`"
        raise UserError(f"columns are separated by `{table.delimiter}`", file=path, hint=hint)

    names = _usual_names(table)
    notes: tuple[str, ...] = ()
    if choices.columns is not None:
        order = _checked_order(table, path, choices)
    elif all(name in names for name in InflectionCodec.columns):
        order = [name if name in InflectionCodec.columns else LEFT_OUT for name in names]
    else:
        order = _order(table)
        notes = (f"the columns are {' '.join(order)} (or {_turned(order, choices)})",)
    if choices.kind == "lemmatization":
        order = [LEMMA_FOR_FORM.get(name, name) for name in order]
        notes = ("`lemma` names the column of what is read, `form` that of the lemma to write",)

    # Keys that are as by default are left out, so that the entry is short.
    separator = _guess_separator(table, order.index("features"))
    layout = {"columns": order, "separator": separator} | table.format("delimiter") | divide
    default = InflectionFormat().model_dump()
    chosen = {key: value for key, value in layout.items() if value != default[key]}
    return Guess("inflection", splits={}, format=chosen, notes=notes)


def _turned(order: Sequence[str], choices: Choices) -> str:
    """Return the command that takes lemma and form the other way round."""
    return choices.instead(columns=[LEMMA_FOR_FORM.get(name, name) for name in order])


def _checked_order(table: Table, path: Path, choices: Choices) -> list[str]:
    """Return the chosen names of columns; a UserError says that they do not fit."""
    order = list(choices.columns or ())
    read = [name for name in order if name != LEFT_OUT]
    if sorted(read) != sorted(InflectionCodec.columns) or len(order) != table.width:
        again = choices.command(columns=_order(table))
        hint = (
            f"name lemma, features and form once, and `{LEFT_OUT}` for each other of"
            f" {table.width} columns, as by {again}"
        )
        raise UserError(f"--columns {' '.join(order)}", file=path, hint=hint)

    columns = {name: table.column(order.index(name)) for name in InflectionCodec.columns}
    if not _are_tags(columns["form"]) or _are_tags(columns["features"]):
        return order

    exchanged = {"form": "features", "features": "form"}
    again = choices.command(columns=[exchanged.get(name, name) for name in order])
    message = f"the column of forms has tags, such as `{columns['form'][0]}`"
    raise UserError(message, file=path, hint=f"name the columns in their order, as by {again}")


def _are_tags(cells: Sequence[str]) -> bool:
    """Return whether a column has tags: few different cells, or cells of few different parts."""
    if len(cells) < FEWEST:
        return False
    if len(set(cells)) <= TAGS * len(cells):
        return True
    return any(
        sum(separator in cell for cell in cells) > (1 - TAGS) * len(cells)
        for separator in TAG_SEPARATORS
    )


def _guess_separator(table: Table, column: int) -> str:
    """Guess what separates two features in a column."""
    # In the other columns no two cells are alike, so that they are not taken for features.
    rows = [[cell, str(number), str(number)] for number, cell in enumerate(table.column(column))]
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
    if choices.languages is None and choices.kind in CHARACTERS:
        usual = CHARACTERS[choices.kind].sides
        sides = list(usual if set(usual) == numbers.keys() else sides)
    if len(sides) != 2 or not set(sides) <= numbers.keys() or len(names) > table.width:
        message = f"--columns {' '.join(names)} does not say which are source and target"
        again = choices.command(columns=_pair_columns(table), languages=None)
        hint = f"name two of {table.width} columns, with `{LEFT_OUT}` for others, as by {again}"
        raise UserError(message, file=path, hint=hint)

    source, target = sides
    columns = {name: numbers[name] for name in sides}
    read: dict[str, Any] = {"kind": "columns", "columns": columns}
    read |= table.format("separator") | divide
    layout: dict[str, Any] = {"source": source, "target": target, "read": read}
    layout |= format_of_kind(choices.kind, sides, table.column(columns[target]))
    if choices.kind is None:
        notes += words_note(table.part([columns[source], columns[target]]), choices)
    return Guess("translation", splits={}, format=layout, notes=notes)


def words_note(pairs: Sequence[Sequence[str]], choices: Choices) -> tuple[str, ...]:
    """Return a note if texts are single words, which models could only learn by heart."""
    spaces = sum(len(text.split()) > 1 for pair in pairs for text in pair)
    if spaces > SPACES * len(pairs) or choices.kind is not None:
        return ()
    again = choices.instead(kind="transliteration")
    return (f"each text is one word, and is read as one symbol; for characters: {again}",)


def _names_of_columns(
    table: Table, path: Path, choices: Choices
) -> tuple[list[str], tuple[str, ...]]:
    """Name the columns that hold source and target; return notes on how to name others.

    They are those of the heading, else the first two that are no numbers.
    """
    if choices.languages is not None and set(choices.languages) <= set(table.heading):
        return [name if name in choices.languages else LEFT_OUT for name in table.heading], ()

    languages = choices.languages
    if languages is None and choices.kind in CHARACTERS:
        languages = _sides_of_kind(table, choices.kind)
    elif languages is None and len(table.heading) == 2:
        return sides([name.lower() for name in table.heading], choices), ()

    if languages is None:
        if table.width > 2:
            again = choices.command(columns=_pair_columns(table))
            hint = f"name source and target, and `{LEFT_OUT}` for other columns, as by {again}"
        else:
            hint = f"name both, as by {choices.command(languages=SIDES)}"
        raise UserError("the languages are unknown", file=path, hint=hint)

    texts = _text_columns(table)
    if len(texts) < 2:
        again = choices.command(columns=_pair_columns(table), languages=None)
        hint = f"name source and target, and `{LEFT_OUT}` for other columns, as by {again}"
        raise UserError("there are no two columns of text", file=path, hint=hint)

    names = [LEFT_OUT] * table.width
    # Columns that are left over keep the sign that they are not read.
    for column, language in zip(texts, languages, strict=False):
        names[column] = language
    if table.width == 2 and choices.kind not in CHARACTERS:
        return names, ()
    others = dict(zip(languages, reversed(languages), strict=True))
    again = choices.instead(columns=[others.get(name, name) for name in names])
    return names, (f"the columns are {' '.join(names)} (or {again})",)


def _sides_of_kind(table: Table, kind: str) -> list[str]:
    """Return the sides of a kind of characters in the order of the columns, as it looks."""
    source, target = CHARACTERS[kind].sides
    texts = [table.column(number) for number in _text_columns(table)[:2]]
    turned = len(texts) == 2 and _is_turned(kind, *texts)
    if turned:
        return [target, source]
    return [source, target]


def _is_turned(kind: str, first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether the second column looks like the source."""
    if kind == "g2p":
        return sum(" " in text for text in first) > sum(" " in text for text in second)
    if kind == "lemmatization":
        # Lemmas repeat more than forms do.
        return len(set(first)) < CLEARLY * len(set(second))
    if kind == "diacritics":
        return _marks(first) > _marks(second)
    return False


def _marks(texts: Sequence[str]) -> int:
    """Count the marks of letters, such as accents."""
    return sum(map(bool, map(unicodedata.combining, unicodedata.normalize("NFD", "".join(texts)))))


def sides(names: Sequence[str], choices: Choices) -> list[str]:
    """Return names of source and target; a UserError if they are not two that can be names."""
    if len(set(names)) != 2 or not all(re.fullmatch(SIDE, name) for name in names):
        hint = f"name both, as by {choices.command(languages=SIDES)}"
        raise UserError("the languages are unknown", hint=hint)
    return list(names)


def guess_conllu(choices: Choices, divide: dict[str, Any]) -> Guess:
    """Make the entry of words of CoNLL-U: their lemmas, or forms of lemmas with features."""
    if choices.kind == "inflection":
        layout: dict[str, Any] = {"columns": OF_CONLLU, "separator": "|", **divide}
        return Guess("inflection", splits={}, format=layout)

    source, target = choices.languages or CHARACTERS["lemmatization"].sides
    read = {"kind": "conllu", **divide}
    layout = {"source": source, "target": target, "read": read}
    layout |= format_of_kind(choices.kind or "lemmatization", (source, target), [])
    notes = (f"forms give their lemmas (or {choices.instead(kind='inflection')})",)
    return Guess("translation", splits={}, format=layout, notes=notes)
