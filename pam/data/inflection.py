"""Morphological inflection: features and the characters of a lemma give the characters of an inflected form."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from pam.data.dataset import SPLITS, write_split
from pam.data.prepare import FEWEST_SYMBOLS, MOST_UNKNOWN, Stage, Task, TaskFormat, class_names
from pam.data.readers import ALL, Files, Line, cells_of, plain_lines
from pam.data.sampling import Divide, drawn_groups
from pam.data.tokenizers import InflectionCodec
from pam.data.vocabulary import Vocabulary
from pam.io import UserError

SEPARATORS = (",", ";", "|", "+", " ")  # that people write between two features
ALIGNED = ("train", "dev")  # splits whose alignments are given: those that training may look at


class InflectionFormat(TaskFormat):
    """How the columns of a data set's files are to be read."""

    # An ending is no letter of the lemma: what writes it attends to the lemma's end.
    source_eos: bool = Field(True, description="whether sources end in an end symbol, which can be attended to")
    columns: list[str] = Field(list(InflectionCodec.columns), description="order of the columns")
    separator: str = Field(",", min_length=1, description="separates two features")
    delimiter: str = Field("\t", min_length=1, max_length=1, description="separates two columns")
    quotes: bool = Field(False, description="columns may be in double quotes, as in CSV")
    heading: bool = Field(False, description="the first line names the columns, and is no row")
    divide: Divide | None = Field(None, description="null: each split has its own file; else all rows are in one")

    @field_validator("columns")
    @classmethod
    def _each_once(cls, columns: list[str]) -> list[str]:
        if sorted(columns) != sorted(InflectionCodec.columns):
            raise ValueError(f"name each of {', '.join(InflectionCodec.columns)} once")
        return columns


class Row(NamedTuple):
    """One checked row; features are separated by commas."""

    lemma: str
    features: str
    form: str


class Index(Stage[InflectionFormat]):
    """The one stage: checks the text of each split and writes a prepared folder."""

    keys = tuple(InflectionFormat.model_fields)

    def run(self) -> dict[str, Any]:
        """Sizes of the vocabularies; by split its rows, and its symbols that training lacks; lemmas in two splits."""
        rows, left_out, codec = self._read(), {}, InflectionCodec()
        for name, own in rows.items():
            drawn, left_out[name] = self.layout.sample.of(name, own)
            rows[name] = list(drawn)
        sources = {name: [codec.source_symbols(row[:2]) for row in own] for name, own in rows.items()}
        targets = {name: [codec.target_symbols(row.form) for row in own] for name, own in rows.items()}
        source, target = Vocabulary.of(sources["train"]), Vocabulary.of(targets["train"])
        for name in rows:
            features = [
                symbols[: len(symbols) - len(row.lemma)] for symbols, row in zip(sources[name], rows[name], strict=True)
            ]
            self._check_known(name, features, source)
        source.save(self.out / "source.vocab")
        target.save(self.out / "target.vocab")
        aligner = CharacterAligner.fit([(row.lemma, row.form) for row in rows["train"]])
        counts: dict[str, dict[str, Any]] = {}
        for name, own in rows.items():
            alignment = None
            if name in ALIGNED:
                aligned = aligner.align([(row.lemma, row.form) for row in own])
                # In a source row the lemma comes last, after the features.
                offsets = [len(symbols) - len(row.lemma) for symbols, row in zip(sources[name], own, strict=True)]
                alignment = ([first + at for at in each] for first, each in zip(offsets, aligned, strict=True))
            given = own, (sources[name], targets[name]), (source, target), alignment
            write_split(self.out, name, *given, self.layout.source_eos)
            cells = Counter((row.lemma, row.features) for row in set(own))
            counts[name] = {"rows": len(own), "lemmas": len({row.lemma for row in own})}
            counts[name]["not_in_sample"] = left_out[name]
            counts[name]["duplicate_rows"] = len(own) - len(set(own))
            counts[name]["cells_with_several_forms"] = sum(forms > 1 for forms in cells.values())
            for side, symbols, vocabulary in (("source", sources[name], source), ("target", targets[name], target)):
                unseen = Counter(symbol for row in symbols for symbol in row if symbol not in vocabulary)
                counts[name][f"unseen_{side}"] = dict(sorted(unseen.items()))
        lemmas, shared, warnings = {name: {row.lemma for row in own} for name, own in rows.items()}, {}, []
        for one, other in combinations(lemmas, 2):
            if both := sorted(lemmas[one] & lemmas[other]):
                names, examples = f"{one} and {other}", both[:5]
                shared[names] = {"count": len(both), "examples": examples}
                found = f"{names} share lemmas: {len(both)}, for example {', '.join(examples)}"
                warnings.append(f"{found}; scores on them are too good")
        sizes = {"source_symbols": len(source), "target_symbols": len(target)}
        return {**sizes, "splits": counts, "lemmas_in_two_splits": shared, "warnings": warnings}

    def _read(self) -> dict[str, list[Row]]:
        """The rows of each split; where they are divided, no lemma is in two."""
        rows = {}
        for name, path in self.files.items():
            if not isinstance(path, Path):
                raise UserError(f"split {name} has several files", hint="name one file of three columns")
            rows[name] = read_rows(path, self.layout)
        if (divide := self.layout.divide) is None:
            return rows
        (together,), groups = rows.values(), defaultdict(list)
        for number, row in enumerate(together):
            groups[row.lemma].append(number)
        drawn = drawn_groups(groups, {"test": divide.test, "dev": divide.dev}, divide.seed)
        if not all(drawn.values()):
            message = f"{len(groups)} lemmas are too few for {divide.dev} rows of dev and {divide.test} of test"
            raise UserError(message, hint="ask for fewer in `divide`")
        return {split: [together[number] for number in numbers] for split, numbers in drawn.items()}

    def _check_known(self, split: str, features: Sequence[Sequence[str]], known: Vocabulary) -> None:
        """Refuses a split most of whose features training lacks, as where columns are read in a wrong order."""
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
            hint = f"the columns look like {', '.join(columns)}, with `{separator}` between two features: write {order}"
        message = f"{split}: training has {seen} of {len(all_of_them)} features"
        raise UserError(message, file=path, hint=hint)


class Inflection(Task[InflectionFormat]):
    """The kind of task; the only one whose characters are aligned, as pointer actions need it."""

    Format = InflectionFormat
    STAGES: ClassVar[Mapping[str, type[Stage[Any]]]] = {"index": Index}
    has_actions = True

    def splits(self, layout: InflectionFormat) -> tuple[str, ...]:
        return SPLITS if layout.divide is None else (ALL,)

    def first_rows(self, files: Files, layout: InflectionFormat, count: int) -> dict[str, list[tuple[str, ...]]]:
        paths = {split: path for split, path in files.items() if isinstance(path, Path)}
        return {split: [tuple(row) for row in islice(rows_of(path, layout), count)] for split, path in paths.items()}

    def modules(self, stage: str, layout: InflectionFormat) -> list[str]:
        """The stage's class, or the codec's."""
        return class_names(InflectionCodec if stage == "codec" else self.STAGES[stage])


def read_cells(path: Path, layout: InflectionFormat) -> Iterator[tuple[Line, list[str]]]:
    """Lines with their three columns; errors are those of `rows_of`."""
    for line in plain_lines(path):
        if line.number == 1 and layout.heading:
            continue
        composed = line._replace(text=unicodedata.normalize("NFC", line.text))
        cells = [cell.strip() for cell in cells_of(composed, layout.delimiter, layout.quotes)]
        if len(cells) != len(layout.columns):
            message = f"{len(cells)} columns instead of 3" if line.text.strip() else "the line is blank"
            between = "one tab" if layout.delimiter == "\t" else f"`{layout.delimiter}`"
            raise line.error(message, f"write {', '.join(layout.columns)}, with {between} between two columns")
        yield line, cells


def guess_columns(rows: Sequence[Sequence[str]]) -> tuple[list[str], str]:
    """The likely order of three columns, and what is between two features.

    Features are what repeats most, split by the likeliest separator; of the others, the lemma is what repeats more, or
    the first.
    """
    columns = list(zip(*rows, strict=True))

    def novelty(choice: tuple[int, str]) -> float:
        parts = [part.strip() for cell in columns[choice[0]] for part in cell.split(choice[1])]
        return len(set(parts)) / len(parts)

    features, separator = min(((place, one) for place in range(3) for one in SEPARATORS), key=novelty)
    lemma, form = sorted({0, 1, 2} - {features}, key=lambda place: (len(set(columns[place])), place))
    names = {features: "features", lemma: "lemma", form: "form"}
    return [names[place] for place in range(3)], separator


def rows_of(path: Path, layout: InflectionFormat) -> Iterator[Row]:
    """Rows of a file of three columns, in Unicode's composed form (NFC).

    A UserError names the line of a wrong number of columns, of an empty lemma or form, or as `plain_lines`.
    """
    for line, cells in read_cells(path, layout):
        named = dict(zip(layout.columns, cells, strict=True))
        for name in ("lemma", "form"):
            if not named[name]:
                raise line.error(f"the {name} is empty", "complete the line or delete it")
        features = (feature.strip() for feature in named["features"].split(layout.separator))
        yield Row(named["lemma"], ",".join(filter(None, features)), named["form"])


def read_rows(path: Path, layout: InflectionFormat) -> list[Row]:
    """All rows of a file, as `rows_of`."""
    return list(rows_of(path, layout))


# Monotone character alignments by the memoryless stochastic transducer of Ristad and Yianilos (1998, section 2): a pair
# of strings is made by independent operations, each of which writes a pair (a, b) of symbols, a source symbol alone
# (deletion) or a target symbol alone (insertion). EM learns one probability per operation; the alignment is that of the
# most likely sequence of operations.

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
    log_probs: Floats  # (source codes, target codes) of operations: insertions in row, deletions in column EPSILON

    @classmethod
    def fit(cls, pairs: Sequence[Pair], iterations: int = 8) -> CharacterAligner:
        """Learns from `pairs` of non-empty strings. The start is uniform: the result depends on nothing but them."""
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
        """For each pair, the source position of every target symbol, never decreasing; insertions repeat it, from 0."""
        positions: dict[Pair, list[int]] = {}
        for group in self._groups(pairs):
            positions.update(zip(group.pairs, _best_positions(self.log_probs, group).tolist(), strict=True))
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
                groups.append(Group(members, source, target, np.array([float(counts[pair]) for pair in members])))
        return groups


def _log_probs(counts: Floats) -> Floats:
    counts[EPSILON, EPSILON] = 0.0  # every operation writes a symbol
    with np.errstate(divide="ignore"):
        log_probs: Floats = np.log(counts / counts.sum())
    return log_probs


def _operations(log_probs: Floats, group: Group) -> tuple[Floats, Floats, Floats]:
    """Log probabilities of substitution (n, m, N), deletion (n, N) and insertion (m, N)."""
    source, target = group.source.T, group.target.T
    return (log_probs[source[:, None], target[None]], log_probs[source, EPSILON], log_probs[EPSILON, target])


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
        above = np.logaddexp(forward[i - 1, :-1] + substitution[i - 1], forward[i - 1, 1:] + deletion[i - 1])
        for j in range(1, m + 1):
            np.logaddexp(above[j - 1], forward[i, j - 1] + insertion[j - 1], out=forward[i, j])
    return forward


def _best_positions(log_probs: Floats, group: Group) -> Ints:
    """Source positions (N, m) on the most likely path (Viterbi); of equals substitution wins, then deletion."""
    substitution, deletion, insertion = _operations(log_probs, group)
    n, m, pairs = substitution.shape
    best = np.zeros((n + 1, m + 1, pairs))
    choice = np.zeros((n + 1, m + 1, pairs), np.int8)
    best[1:, 0], choice[1:, 0] = np.cumsum(deletion, axis=0), 1
    best[0, 1:], choice[0, 1:] = np.cumsum(insertion, axis=0), 2
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            substituted = best[i - 1, j - 1] + substitution[i - 1, j - 1]
            ways = np.stack((substituted, best[i - 1, j] + deletion[i - 1], best[i, j - 1] + insertion[j - 1]))
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
