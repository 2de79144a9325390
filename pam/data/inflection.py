"""Morphological inflection: features and the characters of a lemma give the characters of an
inflected form.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from pam.data.dataset import SPLITS, Prepared, write_split
from pam.data.languages import composed
from pam.data.prepare import FEWEST_SYMBOLS, MOST_UNKNOWN, Stage, Task, TaskFormat, class_names
from pam.data.readers import ALL, Faults, Files
from pam.data.sampling import Divide, drawn_groups
from pam.data.text_files import Line, cells_of, check_plain, cleaned, lines_of
from pam.data.tokenizers import InflectionCodec, InflectionSettings, split_features
from pam.data.vocabulary import Vocabulary
from pam.io import UserError, atomic_write

SEPARATORS = (",", ";", "|", "+", " ")  # that people write between two features
# share of a column's different cells that the other one has at most, if the other is the lemma
CLEARLY = 0.8
ALIGNED = ("train", "dev")  # splits whose alignments are given: those that training may look at


class InflectionFormat(TaskFormat):
    """How the columns of a data set's files are to be read."""

    # An ending is no letter of the lemma: what writes it attends to the lemma's end.
    source_eos: bool = Field(
        True, description="whether sources end in an end symbol, which can be attended to"
    )
    columns: list[str] = Field(list(InflectionCodec.columns), description="order of the columns")
    separator: str = Field(
        ",", min_length=1, description="separates two features, outside of brackets"
    )
    delimiter: str = Field("\t", min_length=1, max_length=1, description="separates two columns")
    quotes: bool = Field(False, description="columns may be in double quotes, as in CSV")
    heading: bool = Field(False, description="the first line names the columns, and is no row")
    blank_lines: Literal["refuse", "drop"] = Field(
        "refuse", description="`drop` leaves out lines without text"
    )
    divide: Divide | None = Field(
        None, description="null: each split has its own file; else all rows are in one"
    )

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: list[str]) -> list[str]:
        if sorted(columns) != sorted(InflectionCodec.columns):
            raise ValueError(f"name each of {', '.join(InflectionCodec.columns)} once")
        return columns

    def codec(self) -> InflectionCodec:
        names = ("separator", "delimiter", "quotes", "columns")
        return InflectionCodec(InflectionSettings(**{name: getattr(self, name) for name in names}))


class Row(NamedTuple):
    """One checked row; features are separated as in the data's files."""

    lemma: str
    features: str
    form: str


class Index(Stage[InflectionFormat]):
    """The one stage: checks the text of each split and writes a prepared folder."""

    keys = tuple(InflectionFormat.model_fields)

    def run(self) -> dict[str, Any]:
        """Sizes of the vocabularies; by split its rows, and its symbols that training lacks; lemmas
        in two splits.
        """
        rows, dropped, warnings = self._read()
        left_out = {}
        for name in rows:
            drawn, left_out[name] = self.layout.sample.of(name, rows[name])
            rows[name] = list(drawn)
        codec = self.layout.codec()
        if self.base is not None:
            # Symbols are those of the models that are tested, so that rows are written as theirs
            # were.
            codec = InflectionCodec.load(self.base)
            separator = self.layout.separator
            for name in rows:
                rows[name] = [
                    row._replace(features=_joined(row.features, separator, codec))
                    for row in rows[name]
                ]

        sources = {name: [codec.source_symbols(row[:2]) for row in rows[name]] for name in rows}
        targets = {name: [codec.target_symbols(row.form) for row in rows[name]] for name in rows}
        source, target = self._vocabularies(sources, targets)
        for name in rows:
            paired = zip(sources[name], rows[name], strict=True)
            features = [symbols[: len(symbols) - len(row.lemma)] for symbols, row in paired]
            self._check_known(name, features, source)
        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")
        codec.save(self.out)

        alignments = self._alignments(rows, sources)
        counts: dict[str, dict[str, Any]] = {}
        if self.base is not None:
            self._copy_dev(self.base)
            counts |= {
                split: Prepared(self.base).summary["splits"][split] for split in ("train", "dev")
            }
        for name in rows:
            write_split(
                self.out,
                name,
                rows[name],
                (sources[name], targets[name]),
                (source, target),
                alignments.get(name),
                self.layout.source_eos,
            )
            counts[name] = _counts(rows[name]) | {"not_in_sample": left_out[name]}
            if self.layout.blank_lines == "drop":
                counts[name]["blank_lines"] = dropped[name]
            for side, symbols, vocabulary in (
                ("source", sources[name], source),
                ("target", targets[name], target),
            ):
                unseen = Counter(
                    symbol for row in symbols for symbol in row if symbol not in vocabulary
                )
                counts[name][f"unseen_{side}"] = dict(sorted(unseen.items()))
        shared = self._shared_lemmas(rows)
        for names, lemmas in shared.items():
            examples = ", ".join(lemmas["examples"])
            warnings.append(
                f"{names} share lemmas: {lemmas['count']}, for example {examples}; scores on them"
                " are too good"
            )
        sizes = {"source_symbols": len(source), "target_symbols": len(target)}
        return {**sizes, "splits": counts, "lemmas_in_two_splits": shared, "warnings": warnings}

    def _read(self) -> tuple[dict[str, list[Row]], dict[str, int], list[str]]:
        """The rows of each split, how many blank lines were left out, and warnings; no lemma is in
        two splits where rows are divided. A UserError counts the faulty lines of all files.
        """
        rows = {}
        dropped = {}
        faults = Faults()
        for name, path in self.files.items():
            if not isinstance(path, Path):
                raise UserError(
                    f"split {name} has several files", hint="name one file of three columns"
                )
            rows[name], dropped[name] = _read_rows(path, self.layout, faults)
        faults.check()
        for name, path in self.files.items():
            if not rows[name]:
                raise UserError(
                    "the file has no rows", file=str(path), hint="write some, or fetch it again"
                )
        divide = self.layout.divide
        if divide is None:
            return rows, dropped, []

        (together,) = rows.values()
        groups = defaultdict(list)
        for number, row in enumerate(together):
            groups[row.lemma].append(number)
        sizes = {"test": divide.test, "dev": divide.dev}
        drawn = drawn_groups(groups, sizes, divide.seed)
        if not all(drawn.values()):
            message = (
                f"{len(groups)} lemmas are too few for {divide.dev} rows of dev and {divide.test}"
                " of test"
            )
            raise UserError(message, hint="ask for fewer in `divide`")
        warnings = []
        for split, size in sizes.items():
            if len(drawn[split]) != size:
                warnings.append(
                    f"{split} has {len(drawn[split])} rows and not {size}, as rows of a lemma stay"
                    " together"
                )
        divided = {
            split: [together[number] for number in numbers] for split, numbers in drawn.items()
        }
        return divided, dict.fromkeys(divided, 0) | {"train": dropped[ALL]}, warnings

    def _vocabularies(
        self, sources: Mapping[str, Sequence[list[str]]], targets: Mapping[str, Sequence[list[str]]]
    ) -> tuple[Vocabulary, Vocabulary]:
        """Vocabularies of both sides: all symbols of training, or those of the data that trained
        the models.
        """
        if self.base is None:
            return Vocabulary.of(sources["train"]), Vocabulary.of(targets["train"])
        base = Prepared(self.base)
        return base.source, base.target

    @staticmethod
    def _alignments(
        rows: Mapping[str, Sequence[Row]], sources: Mapping[str, Sequence[list[str]]]
    ) -> dict[str, list[list[int]]]:
        """Source positions of the characters of forms, for the splits that training may look at."""
        if "train" not in rows:
            return {}
        aligner = CharacterAligner.fit([(row.lemma, row.form) for row in rows["train"]])
        alignments = {}
        for name in ALIGNED:
            aligned = aligner.align([(row.lemma, row.form) for row in rows[name]])
            # In a source row the lemma comes last, after the features.
            offsets = [
                len(symbols) - len(row.lemma)
                for symbols, row in zip(sources[name], rows[name], strict=True)
            ]
            alignments[name] = [
                [offset + position for position in positions]
                for offset, positions in zip(offsets, aligned, strict=True)
            ]
        return alignments

    def _copy_dev(self, base: Path) -> None:
        """Take over the development split of other data, by which a model's length penalty and
        others are chosen.
        """
        for name in ("dev.tsv", "dev.safetensors"):
            with atomic_write(self.out / name) as temporary:
                shutil.copyfile(Prepared(base).file(name), temporary)

    def _shared_lemmas(self, rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, Any]]:
        """Lemmas that two splits have, counted, with examples."""
        lemmas = {name: {row.lemma for row in rows[name]} for name in rows}
        if self.base is not None:
            lemmas = {"train": {row[0] for row in _rows_of_base(self.base, "train")}} | lemmas
        shared = {}
        for first, second in combinations(lemmas, 2):
            if both := sorted(lemmas[first] & lemmas[second]):
                shared[f"{first} and {second}"] = {"count": len(both), "examples": both[:5]}
        return shared

    def _check_known(
        self, split: str, features: Sequence[Sequence[str]], known: Vocabulary
    ) -> None:
        """Refuses a split most of whose features training lacks, as where columns are read in a
        wrong order.
        """
        all_of_them = list(chain.from_iterable(features))
        seen = sum(symbol in known for symbol in all_of_them)
        if len(all_of_them) < FEWEST_SYMBOLS or seen >= (1 - MOST_UNKNOWN) * len(all_of_them):
            return
        path = self.files.get(split, self.files.get(ALL))
        assert isinstance(path, Path)
        columns, separator = guess_columns([cells for _, cells in read_cells(path, self.layout)])
        hint = "check that it is of the same language and has the same features as train"
        if (columns, separator) != (self.layout.columns, self.layout.separator):
            order = f'`format: {{columns: [{", ".join(columns)}], separator: "{separator}"}}`'
            hint = (
                f"the columns look like {', '.join(columns)}, with `{separator}` between two"
                f" features: write {order}"
            )
        message = f"{split}: training has {seen} of {len(all_of_them)} features"
        raise UserError(message, file=path, hint=hint)


def _joined(features: str, separator: str, codec: InflectionCodec) -> str:
    """Write features with the separator of a codec."""
    return codec.settings.separator.join(split_features(features, separator))


def _rows_of_base(base: Path, split: str) -> Iterator[list[str]]:
    return (line.text.split("\t") for line in lines_of(Prepared(base).file(f"{split}.tsv")))


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    """Numbers of rows, lemmas, repeated rows, and cells of paradigms with several forms."""
    cells = Counter((row.lemma, row.features) for row in set(rows))
    return {
        "rows": len(rows),
        "lemmas": len({row.lemma for row in rows}),
        "duplicate_rows": len(rows) - len(set(rows)),
        "cells_with_several_forms": sum(forms > 1 for forms in cells.values()),
    }


class Inflection(Task[InflectionFormat]):
    """The kind of task; the only one whose characters are aligned, as pointer actions need it."""

    Format = InflectionFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {"index": Index}
    tests_alone = True
    has_actions = True

    def splits(self, layout: InflectionFormat) -> tuple[str, ...]:
        return SPLITS if layout.divide is None else (ALL,)

    def symbols(self, layout: InflectionFormat) -> dict[str, Any]:
        return {"source_eos": layout.source_eos}

    def first_rows(
        self, files: Files, layout: InflectionFormat, count: int
    ) -> dict[str, list[tuple[str, ...]]]:
        paths = {split: path for split, path in files.items() if isinstance(path, Path)}
        return {
            split: [tuple(row) for row in islice(rows_of(path, layout), count)]
            for split, path in paths.items()
        }

    def modules(self, stage: str, layout: InflectionFormat) -> list[str]:
        """The stage's class, or the codec's."""
        return class_names(InflectionCodec if stage == "codec" else self.STAGES[stage])


def read_cells(path: Path, layout: InflectionFormat) -> Iterator[tuple[Line, list[str]]]:
    """Lines with their three columns; errors are those of `rows_of`."""
    for line in _lines(path, layout):
        if cleaned(line.text) or layout.blank_lines == "refuse":
            yield line, _cells(line, layout)


def _lines(path: Path, layout: InflectionFormat) -> Iterator[Line]:
    """Lines of a file without its heading."""
    return islice(lines_of(path), int(layout.heading), None)


def _cells(line: Line, layout: InflectionFormat) -> list[str]:
    """The three columns of a line, in Unicode's composed form (NFC)."""
    check_plain(line)
    whole = line._replace(text=composed(line.text))
    cells = [cell.strip() for cell in cells_of(whole, layout.delimiter, layout.quotes)]
    if len(cells) == len(layout.columns):
        return cells
    between = "one tab" if layout.delimiter == "\t" else f"`{layout.delimiter}`"
    hint = f"write {', '.join(layout.columns)}, with {between} between two columns"
    if line.text.strip():
        raise line.error(f"{len(cells)} columns instead of 3", hint)
    raise line.error(
        "the line is blank", f"{hint}, or leave it out: `format: {{blank_lines: drop}}`"
    )


def guess_columns(rows: Sequence[Sequence[str]]) -> tuple[list[str], str]:
    """The likely order of three columns, and what is between two features.

    Features are what repeats most, split by the likeliest separator; of the others, the lemma is
    what clearly repeats more, or the first, as where there are no features.
    """
    columns = list(zip(*rows, strict=True))

    def novelty(choice: tuple[int, str]) -> float:
        column, separator = choice
        parts = [
            part for cell in columns[column] for part in split_features(cell, separator) or [""]
        ]
        return len(set(parts)) / len(parts)

    features, separator = min(
        ((place, one) for place in range(3) for one in SEPARATORS), key=novelty
    )
    lemma, form = sorted({0, 1, 2} - {features})
    if any(columns[features]) and len(set(columns[form])) < CLEARLY * len(set(columns[lemma])):
        lemma, form = form, lemma
    names = {features: "features", lemma: "lemma", form: "form"}
    return [names[place] for place in range(3)], separator


def rows_of(path: Path, layout: InflectionFormat) -> Iterator[Row]:
    """Rows of a file of three columns, in Unicode's composed form (NFC).

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
    return Row(named["lemma"], layout.separator.join(features), named["form"])


def read_rows(path: Path, layout: InflectionFormat) -> list[Row]:
    """All rows of a file, as `rows_of`; a UserError counts all faulty lines and names the first
    ones.
    """
    faults = Faults()
    rows, _ = _read_rows(path, layout, faults)
    faults.check()
    return rows


def _read_rows(path: Path, layout: InflectionFormat, faults: Faults) -> tuple[list[Row], int]:
    """All rows of a file, and how many blank lines were left out; faulty lines are added to
    `faults`.
    """
    rows = []
    dropped = 0
    for line in _lines(path, layout):
        if layout.blank_lines == "drop" and not cleaned(line.text):
            dropped += 1
            continue
        try:
            rows.append(_row(line, _cells(line, layout), layout))
        except UserError as error:
            faults.add(error)
    return rows, dropped


# Monotone character alignments by the memoryless stochastic transducer of Ristad and Yianilos
# (1998, section 2): a pair of strings is made by independent operations, each of which writes a
# pair (a, b) of symbols, a source symbol alone (deletion) or a target symbol alone (insertion). EM
# learns one probability per operation; the alignment is that of the most likely sequence of
# operations.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[str, str]

EPSILON, OTHER = 0, 1  # codes of 'no symbol' and of one that training did not contain
PRIOR_COUNT = 0.01  # added to the expected count of every operation: unseen ones stay possible
LARGEST = 4096  # pairs in a group, so that memory is bounded by their lengths alone


@dataclass(frozen=True)
class Group:
    """N pairs of the same lengths, in one array, so that arrays need no padding."""

    pairs: list[Pair]
    source: Ints  # (N, n) codes
    target: Ints  # (N, m) codes
    weight: Floats  # (N,) how often each pair occurs


@dataclass(frozen=True)
class CharacterAligner:
    """Aligns pairs of strings; made by `fit`."""

    source: dict[str, int]  # codes of the symbols that training contained
    target: dict[str, int]
    # (source codes, target codes) of operations: insertions in row, deletions in column EPSILON
    log_probs: Floats

    @classmethod
    def fit(cls, pairs: Sequence[Pair], iterations: int = 8) -> CharacterAligner:
        """Learns from `pairs` of non-empty strings.

        The start is uniform: the result depends on nothing but them.
        """
        source, target = (
            {char: code for code, char in enumerate(sorted(set().union(*strings)), OTHER + 1)}
            for strings in zip(*pairs, strict=True)
        )
        shape = len(source) + 2, len(target) + 2
        aligner = cls(source, target, _log_probs(np.ones(shape)))
        groups = aligner._groups(pairs)
        for _ in range(iterations):
            counts = np.full(shape, PRIOR_COUNT)
            for group in groups:
                counts += _expected_counts(aligner.log_probs, group)
            aligner = cls(source, target, _log_probs(counts))
        return aligner

    def align(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """For each pair, the source position of every target symbol, never decreasing; insertions
        repeat it, from 0.
        """
        positions: dict[Pair, list[int]] = {}
        for group in self._groups(pairs):
            positions.update(
                zip(group.pairs, _best_positions(self.log_probs, group).tolist(), strict=True)
            )
        return [positions[pair] for pair in pairs]

    def _groups(self, pairs: Sequence[Pair]) -> list[Group]:
        """Distinct pairs by their lengths, in a fixed order."""
        counts = Counter(pairs)
        by_lengths: dict[tuple[int, int], list[Pair]] = defaultdict(list)
        for pair in sorted(counts):
            by_lengths[len(pair[0]), len(pair[1])].append(pair)
        groups = []
        for _, same in sorted(by_lengths.items()):
            for members in (same[at : at + LARGEST] for at in range(0, len(same), LARGEST)):
                source = np.array([[self.source.get(c, OTHER) for c in a] for a, _ in members])
                target = np.array([[self.target.get(c, OTHER) for c in b] for _, b in members])
                groups.append(
                    Group(
                        members, source, target, np.array([float(counts[pair]) for pair in members])
                    )
                )
        return groups


def _log_probs(counts: Floats) -> Floats:
    counts[EPSILON, EPSILON] = 0.0  # every operation writes a symbol
    with np.errstate(divide="ignore"):
        log_probs: Floats = np.log(counts / counts.sum())
    return log_probs


def _operations(log_probs: Floats, group: Group) -> tuple[Floats, Floats, Floats]:
    """Log probabilities of substitution (n, m, N), deletion (n, N) and insertion (m, N)."""
    source, target = group.source.T, group.target.T
    return (
        log_probs[source[:, None], target[None]],
        log_probs[source, EPSILON],
        log_probs[EPSILON, target],
    )


def _expected_counts(log_probs: Floats, group: Group) -> Floats:
    """Expected uses of each operation, by forward-backward (their Algorithm 'expectation')."""
    substitution, deletion, insertion = _operations(log_probs, group)
    forward = _forward(substitution, deletion, insertion)
    # The backward quantities are the forward ones of the reversed strings.
    backward = _forward(substitution[::-1, ::-1], deletion[::-1], insertion[::-1])[::-1, ::-1]
    total = forward[-1, -1] - np.log(group.weight)
    counts = np.zeros(log_probs.size)
    source, target = group.source.T[:, None] * log_probs.shape[1], group.target.T[None]
    for cells, uses in (
        (source + target, forward[:-1, :-1] + substitution + backward[1:, 1:]),
        (source, forward[:-1] + deletion[:, None] + backward[1:]),
        (target, forward[:, :-1] + insertion[None] + backward[:, 1:]),
    ):
        spread = np.broadcast_to(cells, uses.shape).ravel()
        counts += np.bincount(spread, np.exp(uses - total).ravel(), counts.size)
    return counts.reshape(log_probs.shape)


def _forward(substitution: Floats, deletion: Floats, insertion: Floats) -> Floats:
    """Log probability of all ways to write the first i and j symbols: (n + 1, m + 1, N)."""
    n, m, pairs = substitution.shape
    forward = np.empty((n + 1, m + 1, pairs))
    forward[0, 0] = 0.0
    forward[1:, 0] = np.cumsum(deletion, axis=0)
    forward[0, 1:] = np.cumsum(insertion, axis=0)
    for i in range(1, n + 1):
        # Without the insertion, which needs the cell to the left in the same row.
        above = np.logaddexp(
            forward[i - 1, :-1] + substitution[i - 1], forward[i - 1, 1:] + deletion[i - 1]
        )
        for j in range(1, m + 1):
            np.logaddexp(above[j - 1], forward[i, j - 1] + insertion[j - 1], out=forward[i, j])
    return forward


def _best_positions(log_probs: Floats, group: Group) -> Ints:
    """Source positions (N, m) on the most likely path (Viterbi); of equals substitution wins, then
    deletion.
    """
    substitution, deletion, insertion = _operations(log_probs, group)
    n, m, pairs = substitution.shape
    best = np.zeros((n + 1, m + 1, pairs))
    choice = np.zeros((n + 1, m + 1, pairs), np.int8)
    best[1:, 0], choice[1:, 0] = np.cumsum(deletion, axis=0), 1
    best[0, 1:], choice[0, 1:] = np.cumsum(insertion, axis=0), 2
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            substituted = best[i - 1, j - 1] + substitution[i - 1, j - 1]
            ways = np.stack(
                (substituted, best[i - 1, j] + deletion[i - 1], best[i, j - 1] + insertion[j - 1])
            )
            choice[i, j] = ways.argmax(axis=0)
            best[i, j] = ways.max(axis=0)
    # The operations are read back from the end: 0 substitutes, 1 deletes, 2 inserts.
    aligned = np.zeros((pairs, m), np.int64)
    every = np.arange(pairs)
    row, column = np.full(pairs, n), np.full(pairs, m)
    for _ in range(n + m):
        step = choice[row, column, every]
        pair = (step == 0) & (row > 0)
        aligned[every[pair], column[pair] - 1] = row[pair] - 1
        row = row - ((step != 2) & (row > 0))
        column = column - ((step != 1) & (column > 0))
    # Substituted positions grow, so the running maximum hands each one on to the insertions.
    return np.maximum.accumulate(aligned, axis=1)
