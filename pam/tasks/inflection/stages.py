"""Morphological inflection: from features and a lemma's characters to those of the form."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, product
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from pam.data.annotated import different_words
from pam.data.dataset import Prepared, write_split
from pam.data.groups import GROUPS, no_group, write_groups
from pam.data.languages import INVISIBLE, visible
from pam.data.overlaps import Overlaps, overlaps
from pam.data.prepare import (
    ADD_SYMBOLS,
    FEWEST_SYMBOLS,
    MOST_UNKNOWN,
    Stage,
    Symbols,
    Task,
    TaskFormat,
    class_names,
    strange_warnings,
)
from pam.data.reading import Faults, Files
from pam.data.sampling import Divide, drawn_groups, splits_of
from pam.data.subword_marks import MarkedLines
from pam.data.text_files import Line, cells_of, check_plain, cleaned, lines_of
from pam.data.vocabulary import Vocabulary, vocabularies_of
from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write
from pam.tasks.inflection.aligner import CharacterAligner
from pam.tasks.inflection.codec import (
    InflectionCodec,
    InflectionSettings,
    order_of_features,
    split_features,
)

SEPARATORS = (",", ";", "|", "+", " ")  # that people write between two features
# Share of a column's different cells that the other one has at most, if the other is the lemma.
CLEARLY = 0.8
OTHER_ORDERS = (
    "training has the same features in several orders, so that each row is read in its own order:"
    " write features in one order, as models take another order for other features"
)
# the columns of CoNLL-U, as `columns` names them
OF_CONLLU = ["-", "form", "lemma", "-", "-", "features", "-", "-", "-", "-"]
LEFT_OUT = "-"  # in place of a column's name: the column is not read
ALIGNED = ("train", "dev")  # splits whose alignments are given: those that training may look at


class InflectionFormat(TaskFormat):
    """Keys that a data set of lemmas, features and forms may have under `format`."""

    # An ending is no letter of the lemma: what writes it attends to the lemma's end.
    source_eos: bool = Field(
        True, description="whether sources end in an end symbol, which can be attended to"
    )
    # Left out where it is not given, as in formats from before there was this key.
    scores_by: str | None = Field(
        None,
        min_length=1,
        description=(
            "name in `columns` of the column that holds the group of each row, such as `category`:"
            " dev and test have scores of each group"
        ),
        exclude_if=lambda name: name is None,
    )
    columns: list[str] = Field(
        list(InflectionCodec.columns),
        description="order of the columns; `-` for each column that is not read",
    )
    separator: str = Field(
        ",", min_length=1, description="separator of features, outside of brackets"
    )
    delimiter: str = Field(
        "\t",
        min_length=1,
        max_length=1,
        description="separator of columns, a tab or another character",
    )
    quotes: bool = Field(False, description="whether columns may be in double quotes, as in CSV")
    heading: bool = Field(False, description="whether the first line names the columns")
    blank_lines: Literal["refuse", "drop"] = Field(
        "refuse",
        description=(
            "`refuse`: an error that counts blank lines and names the first ones; `drop`: leave"
            " them out"
        ),
    )
    divide: Divide | None = Field(
        None,
        description=(
            "divide one file by lemmas into all splits: `{dev: N, test: N, seed: 1}` in rows;"
            " without `test`, divide the training file into train and dev"
        ),
    )

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: list[str], info: ValidationInfo) -> list[str]:
        expected = list(InflectionCodec.columns)
        if info.data.get("scores_by"):
            expected.append(info.data["scores_by"])
        read = [name for name in columns if name != LEFT_OUT]
        if sorted(read) != sorted(expected):
            names = ", ".join(expected)
            raise ValueError(f"name each of {names} once, and other columns `{LEFT_OUT}`")
        return columns

    @property
    def read_columns(self) -> list[str]:
        """The columns that models read; the one of the groups is none of them."""
        return [LEFT_OUT if name == self.scores_by else name for name in self.columns]

    def codec(self) -> InflectionCodec:
        names = ("separator", "delimiter", "quotes")
        settings = {name: getattr(self, name) for name in names}
        return InflectionCodec(InflectionSettings(**settings, columns=self.read_columns))


class Row(NamedTuple):
    """One checked row; features are separated as in the data's files."""

    lemma: str
    features: str
    form: str
    group: str = ""  # whose scores it is part of; empty: none


class Index(Stage[InflectionFormat]):
    """The one stage: checks the text of each split and writes a prepared folder."""

    keys = tuple(InflectionFormat.model_fields)

    def run(self) -> dict[str, Any]:
        """Write all files; count the symbols of vocabularies, rows, and lemmas in two splits."""
        rows, left_out, warnings = self._sampled_rows()
        codec = self.layout.codec()
        if self.origin is not None:
            # Symbols are those of other models, so rows are written as theirs were.
            codec = InflectionCodec.load(self.origin)
            rows = {split: self._rewritten(rows[split], codec) for split in rows}

        bundles = {
            split: [split_features(row.features, codec.settings.separator) for row in rows[split]]
            for split in rows
        }
        if self.origin is None:
            order = order_of_features(bundles["train"])
            if order is None:
                warnings.append(OTHER_ORDERS)
            else:
                codec = codec.with_order(order)

        sources = {split: [codec.source_symbols(row[:2]) for row in rows[split]] for split in rows}
        targets = {split: [codec.target_symbols(row.form) for row in rows[split]] for split in rows}

        source, target = self._vocabularies(sources, targets)
        for split in rows:
            self._check_known(split, _features_of(rows[split], sources[split]), source)

        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")
        codec.save(self.out)
        self._write_groups(rows)

        self._write_splits(rows, sources, targets, (source, target))

        counts: dict[str, dict[str, Any]] = {}
        if self.base is not None:
            base_counts = Prepared(self.base).summary["splits"]
            counts |= {split: base_counts[split] for split in ("train", "dev")}
        for split in rows:
            counts[split] = {
                **_counts(rows[split]),
                **left_out[split],
                "unseen_source": _unseen(sources[split], source),
                "unseen_target": _unseen(targets[split], target),
                "reordered": sum(codec.ordered(bundle) != bundle for bundle in bundles[split]),
            }
            if counts[split]["reordered"]:
                warnings.append(
                    f"{split} has features in another order than training in"
                    f" {counts[split]['reordered']} rows; they are read in the order of training"
                )

        if self.model is not None:
            sides = (("source", sources, source), ("target", targets, target))
            for split, (side, symbols, vocabulary) in product(rows, sides):
                warnings += strange_warnings(
                    split=split,
                    side=side,
                    rows=symbols[split],
                    vocabulary=vocabulary,
                    model=self.model,
                    adds_symbols=self.layout.add_symbols,
                )

        shared = self._shared_lemmas(rows)
        warnings += shared.warnings
        return {
            "source_symbols": len(source),
            "target_symbols": len(target),
            "splits": counts,
            "lemmas_in_two_splits": shared.counts,
            "warnings": warnings,
        }

    def _sampled_rows(self) -> tuple[dict[str, list[Row]], dict[str, dict[str, int]], list[str]]:
        """Read the rows that are used; return with them counts of those left out, and warnings."""
        rows, counts, warnings = self._read()
        left_out = {}
        for split in rows:
            drawn, not_drawn = self.layout.sample.of(split, rows[split])
            rows[split] = list(drawn)
            warnings += _subword_warnings(split, rows[split])
            left_out[split] = {"not_in_sample": not_drawn, **counts[split]}
        return rows, left_out, warnings

    def _read(self) -> tuple[dict[str, list[Row]], dict[str, dict[str, int]], list[str]]:
        """Read the rows of each split; return with them counts of what is left out, and warnings.

        No lemma is in two splits where rows are divided. A UserError counts the faulty lines of all
        files.
        """
        rows = {}
        counts = {}
        faults = Faults()
        for split, path in self.files.items():
            if not isinstance(path, Path):
                hint = "name one file of three columns"
                raise UserError(f"split {split} has several files", hint=hint)
            needs_group = self.layout.scores_by is not None and split != "train"
            rows[split], counts[split] = _read_rows(path, self.layout, faults, needs_group)

        faults.check()

        for split, path in self.files.items():
            if not rows[split]:
                hint = "write some, or fetch it again"
                raise UserError("the file has no rows", file=str(path), hint=hint)

        if self.layout.divide is None or self.layout.divide.divided not in rows:
            return rows, counts, []

        key = self.layout.divide.divided
        divided, warnings = _divided(rows.pop(key), self.layout.divide)
        # What one file lacks is counted with the first split.
        file_counts = counts.pop(key)
        counts_of_none = dict.fromkeys(file_counts, 0)
        divided_counts = dict.fromkeys(divided, counts_of_none) | {"train": file_counts}
        return divided | rows, divided_counts | counts, warnings

    def _rewritten(self, rows: Sequence[Row], codec: InflectionCodec) -> list[Row]:
        """Write the features of rows with the separator of another codec."""
        separator = codec.settings.separator
        rewritten = []
        for row in rows:
            features = split_features(row.features, self.layout.separator)
            rewritten.append(row._replace(features=separator.join(features)))
        return rewritten

    def _vocabularies(
        self, sources: Mapping[str, Sequence[list[str]]], targets: Mapping[str, Sequence[list[str]]]
    ) -> tuple[Vocabulary, Vocabulary]:
        """Return both vocabularies: all symbols of training, or those of other models.

        Symbols of training may be added to those of other models, the most frequent first.
        """
        if self.origin is None:
            return Vocabulary.of(sources["train"]), Vocabulary.of(targets["train"])

        source, target = vocabularies_of(self.origin)
        if not self.layout.add_symbols:
            return source, target

        of_sources = Vocabulary.by_frequency(Counter(chain.from_iterable(sources["train"])))
        of_targets = Vocabulary.by_frequency(Counter(chain.from_iterable(targets["train"])))
        return source.with_new(of_sources.symbols), target.with_new(of_targets.symbols)

    def _write_splits(
        self,
        rows: Mapping[str, Sequence[Row]],
        sources: Mapping[str, Sequence[list[str]]],
        targets: Mapping[str, Sequence[list[str]]],
        vocabularies: tuple[Vocabulary, Vocabulary],
    ) -> None:
        """Write texts, ids and alignments of the splits, and copy the dev split of other data."""
        alignments = self._alignments(rows, sources)
        if self.base is not None:
            self._copy_dev(self.base)

        for split in rows:
            write_split(
                folder=self.out,
                name=split,
                rows=[row[:3] for row in rows[split]],
                symbols=(sources[split], targets[split]),
                vocabularies=vocabularies,
                alignment=alignments.get(split),
                source_eos=self.layout.source_eos,
            )

    def _write_groups(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Write the name of the group of each row of a scored split, where all rows have one."""
        for split in rows:
            if split != "train":
                groups = [row.group for row in rows[split] if row.group]
                write_groups(self.out, split, groups, rows=len(rows[split]))

    @staticmethod
    def _alignments(
        rows: Mapping[str, Sequence[Row]], sources: Mapping[str, Sequence[list[str]]]
    ) -> dict[str, list[list[int]]]:
        """Align the characters of forms with source positions, for train and dev."""
        if "train" not in rows:
            return {}

        aligner = CharacterAligner.fit([(row.lemma, row.form) for row in rows["train"]])
        alignments: dict[str, list[list[int]]] = {}
        for split in ALIGNED:
            lemma_positions = aligner.align([(row.lemma, row.form) for row in rows[split]])
            alignments[split] = []
            for row, symbols, positions in zip(
                rows[split], sources[split], lemma_positions, strict=True
            ):
                # In a source row the lemma comes last, after the features.
                offset = len(symbols) - len(row.lemma)
                alignments[split].append([offset + position for position in positions])
        return alignments

    def _copy_dev(self, base: Path) -> None:
        """Copy the dev split of other data, by which a model's length penalty is chosen."""
        names = ["dev.tsv", "dev.safetensors"]
        groups = GROUPS.format(split="dev")
        if groups in Prepared(base).summary["outputs_sha256"]:
            names.append(groups)
        for name in names:
            with atomic_write(self.out / name) as temporary:
                shutil.copyfile(Prepared(base).file(name), temporary)

    def _shared_lemmas(self, rows: Mapping[str, Sequence[Row]]) -> Overlaps:
        """Count the lemmas that two splits have, those of other data included."""
        lemmas = {split: {row.lemma for row in rows[split]} for split in rows}
        if self.base is not None:
            of_base = {
                split: {row[0] for row in _rows_of_base(self.base, split)}
                for split in ("train", "dev")
            }
            lemmas = of_base | lemmas

        return overlaps("lemmas", {split: lemmas[split].copy for split in lemmas})

    def _check_known(
        self, split: str, features: Sequence[Sequence[str]], vocabulary: Vocabulary
    ) -> None:
        """Refuse a split most of whose features training lacks, as with columns swapped."""
        symbols = list(chain.from_iterable(features))
        seen = sum(symbol in vocabulary for symbol in symbols)
        if len(symbols) < FEWEST_SYMBOLS or seen >= (1 - MOST_UNKNOWN) * len(symbols):
            return

        # The file may have its columns in another order than the format says.
        path = self.files.get(split)
        if path is None and self.layout.divide is not None:
            path = self.files[self.layout.divide.divided]
        assert isinstance(path, Path)
        cells = [cells for _, cells in read_cells(path, self.layout)]
        guessed, separator = guess_columns(cells, self.layout.read_columns)
        columns = [
            own if own == self.layout.scores_by else name
            for own, name in zip(self.layout.columns, guessed, strict=True)
        ]
        hint = "check that it is of the same language and has the same features as train"
        if (columns, separator) != (self.layout.columns, self.layout.separator):
            order = f'`format: {{columns: [{", ".join(columns)}], separator: "{separator}"}}`'
            hint = (
                f"the columns look like {', '.join(columns)}, with `{separator}` between two"
                f" features: write {order}"
            )

        if self.model is not None and not self.layout.add_symbols:
            hint += f", or write {ADD_SYMBOLS}"

        knows = "training has" if self.model is None else f"`{self.model.name}` knows"
        message = f"{split}: {knows} {seen} of {len(symbols)} features"
        raise UserError(message, file=path, hint=hint)


def _subword_warnings(split: str, rows: Sequence[Row]) -> list[str]:
    """Warn of lemmas and of forms that are written in subwords."""
    lemmas = MarkedLines(row.lemma for row in rows)
    forms = MarkedLines(row.form for row in rows)
    return [*lemmas.warnings(f"the lemmas of {split}"), *forms.warnings(f"the forms of {split}")]


def _divided(rows: list[Row], divide: Divide) -> tuple[dict[str, list[Row]], list[str]]:
    """Divide rows into splits, those of a lemma together; return them with warnings.

    A UserError says that there are too few lemmas.
    """
    # Scores on forms of lemmas that training has would be too good.
    groups = defaultdict(list)
    for number, row in enumerate(rows):
        groups[row.lemma].append(number)

    drawn = drawn_groups(groups, divide.sizes, divide.seed)
    if not all(drawn.values()):
        raise divide.too_few(len(groups), "lemmas")

    warnings = [
        f"{split} has {len(drawn[split])} rows and not {size}, as rows of a lemma stay together"
        for split, size in divide.sizes.items()
        if len(drawn[split]) != size
    ]
    divided = {split: [rows[number] for number in numbers] for split, numbers in drawn.items()}
    return divided, warnings


def _rows_of_base(base: Path, split: str) -> Iterator[list[str]]:
    return (line.text.split("\t") for line in lines_of(Prepared(base).file(f"{split}.tsv")))


def _features_of(rows: Sequence[Row], sources: Sequence[list[str]]) -> list[list[str]]:
    """Return the source symbols of each row that stand before the characters of its lemma."""
    return [
        symbols[: len(symbols) - len(row.lemma)] for row, symbols in zip(rows, sources, strict=True)
    ]


def _unseen(rows: Sequence[list[str]], vocabulary: Vocabulary) -> dict[str, int]:
    """Count the symbols of rows that a vocabulary lacks."""
    unseen = Counter(symbol for row in rows for symbol in row if symbol not in vocabulary)
    return dict(sorted(unseen.items()))


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    """Count rows, lemmas, repeated rows, and cells of paradigms with several forms."""
    different_rows = {row[:3] for row in rows}
    forms_of_cells = Counter((lemma, features) for lemma, features, _ in different_rows)
    return {
        "rows": len(rows),
        "lemmas": len({row.lemma for row in rows}),
        "duplicate_rows": len(rows) - len(different_rows),
        "cells_with_several_forms": sum(forms > 1 for forms in forms_of_cells.values()),
    }


class Inflection(Task[InflectionFormat]):
    """The kind of task; the only one whose characters are aligned, as pointer actions need it."""

    Format = InflectionFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {"index": Index}
    tests_alone = True
    has_actions = True
    has_features = True

    def splits(self, layout: InflectionFormat) -> tuple[str, ...]:
        return splits_of(layout.divide)

    def headings(self, layout: InflectionFormat) -> tuple[str, ...]:
        return InflectionCodec.columns

    def symbols(self, layout: InflectionFormat) -> dict[str, Any]:
        return {"source_eos": layout.source_eos}

    def in_symbols_of(self, layout: InflectionFormat, model: Symbols) -> InflectionFormat:
        return layout.model_copy(update={"source_eos": model.source_eos})

    def first_rows(
        self, files: Files, layout: InflectionFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        rows: dict[str, list[tuple[str, ...]]] = {}
        for split, path in files.items():
            if isinstance(path, Path):
                rows[split] = [row[:3] for row in islice(rows_of(path, layout), count)]
        return rows

    def modules(self, stage: str, layout: InflectionFormat) -> list[str]:
        if stage == "codec":
            return class_names(InflectionCodec)
        return class_names(self.STAGES[stage])


def read_cells(path: Path, layout: InflectionFormat) -> Iterator[tuple[Line, list[str]]]:
    """Yield lines with their columns; errors are those of `rows_of`."""
    for line in _lines(path, layout):
        if cleaned(line.text) or layout.blank_lines == "refuse":
            yield line, _cells(line, layout)


def _lines(path: Path, layout: InflectionFormat) -> Iterator[Line]:
    """Return the lines of a file without its heading; of CoNLL-U, those of words."""
    lines = islice(lines_of(path), int(layout.heading), None)
    if layout.columns == OF_CONLLU:
        return different_words(lines, [OF_CONLLU.index(name) for name in InflectionCodec.columns])
    return lines


def _cells(line: Line, layout: InflectionFormat) -> list[str]:
    """Return the columns of a line, without invisible characters."""
    check_plain(line)
    plain = line._replace(text=visible(line.text))
    cells = [cell.strip() for cell in cells_of(plain, layout.delimiter, layout.quotes)]
    if len(cells) == len(layout.columns):
        return cells

    # The line is refused: say how columns are to be written.
    between = "one tab" if layout.delimiter == "\t" else f"`{layout.delimiter}`"
    hint = f"write {', '.join(layout.columns)}, with {between} between two columns"
    if cleaned(line.text):
        raise line.error(f"{len(cells)} columns instead of {len(layout.columns)}", hint)
    hint = f"{hint}, or leave it out: `format: {{blank_lines: drop}}`"
    raise line.error("the line is blank", hint)


def guess_columns(
    rows: Sequence[Sequence[str]], names: Sequence[str] = InflectionCodec.columns
) -> tuple[list[str], str]:
    """Guess the order of three columns, and what separates two features.

    Columns that have the name `-` are left out. Features are what repeats most, split by the
    likeliest separator. Of the others, the lemma is what clearly repeats more, or the first, as
    where there are no features.
    """
    columns = list(zip(*rows, strict=True))
    numbers = [number for number, name in enumerate(names) if name != LEFT_OUT]

    def novelty(choice: tuple[int, str]) -> float:
        """Share of different features, if this column has features with this separator."""
        column, separator = choice
        features: list[str] = []
        for cell in columns[column]:
            features += split_features(cell, separator) or [""]
        return len(set(features)) / len(features)

    features, separator = min(product(numbers, SEPARATORS), key=novelty)
    first, second = sorted(set(numbers) - {features})
    second_repeats = len(set(columns[second])) < CLEARLY * len(set(columns[first]))
    # Without features, each lemma has one form, and what repeats says nothing.
    if any(columns[features]) and second_repeats:
        guessed = {features: "features", second: "lemma", first: "form"}
    else:
        guessed = {features: "features", first: "lemma", second: "form"}
    return [guessed.get(number, LEFT_OUT) for number in range(len(names))], separator


def rows_of(path: Path, layout: InflectionFormat) -> Iterator[Row]:
    """Yield the rows of a file of columns, in Unicode's composed form (NFC).

    A UserError names the line of a wrong number of columns, of an empty lemma or form, of a control
    character, or as `lines_of`.
    """
    return (_row(line, cells, layout) for line, cells in read_cells(path, layout))


def _row(line: Line, cells: Sequence[str], layout: InflectionFormat) -> Row:
    named = dict(zip(layout.columns, cells, strict=True))
    for name in ("lemma", "form"):
        if not named[name]:
            raise line.error(f"the {name} is empty", "complete the line or delete it")

    features = split_features(named["features"], layout.separator)
    return Row(
        lemma=named["lemma"],
        features=layout.separator.join(features),
        form=named["form"],
        group=cleaned(named.get(layout.scores_by or "", "")),
    )


def read_rows(path: Path, layout: InflectionFormat) -> list[Row]:
    """Read all rows of a file, as `rows_of`.

    A UserError counts all faulty lines and names the first ones.
    """
    faults = Faults()
    rows, _ = _read_rows(path, layout, faults)
    faults.check()
    return rows


def _read_rows(
    path: Path, layout: InflectionFormat, faults: Faults, needs_group: bool = False
) -> tuple[list[Row], dict[str, int]]:
    """Read all rows of a file; count blank lines, if they are left out, and invisible characters.

    Faulty lines are added to `faults`, also those without a group where each row needs one.
    """
    rows = []
    counts = {"invisible_characters": 0}
    if layout.blank_lines == "drop":
        counts["blank_lines"] = 0

    for line in _lines(path, layout):
        if layout.blank_lines == "drop" and not cleaned(line.text):
            counts["blank_lines"] += 1
            continue
        counts["invisible_characters"] += bool(INVISIBLE.search(line.text))

        try:
            row = _row(line, _cells(line, layout), layout)
            if needs_group and not row.group:
                raise no_group(line)
            rows.append(row)
        except UserError as error:
            faults.add(error)
    return rows, counts
