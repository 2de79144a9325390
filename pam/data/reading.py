"""What all readers of sentence pairs have in common: splits, pairs of lines, faulty lines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pam.data.dataset import SPLITS
from pam.data.sampling import Divide, Languages, Pair, divided, splits_of
from pam.data.text_files import Line, lines_of
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError

# a file, or files by what they hold, as a language
Part = Path | Mapping[str, Path]
# split to its files, or to a list of its parts, which are read one after the other
Files = Mapping[str, Part | Sequence[Part]]
FURTHER = "{} {}"  # what a further file of references holds, as `en 2`

SHOWN = 5  # number of faulty lines that a message names


def parts_of(files: Part | Sequence[Part]) -> Sequence[Part]:
    """Return the parts of a split; a split without a list is one part."""
    if isinstance(files, Path | Mapping):
        return [files]
    return files


def aligned(
    source: Path, target: Path, read: Callable[[Path], Iterator[Line]] = lines_of
) -> Iterator[Pair]:
    """Yield the lines of two files in pairs; a UserError names both counts if one has more."""
    source_lines = read(source)
    target_lines = read(target)
    for number, (source_line, target_line) in enumerate(zip_longest(source_lines, target_lines), 1):
        if source_line is not None and target_line is not None:
            yield source_line, target_line
            continue

        # The longer file is read to its end, to be counted.
        source_count = target_count = number - 1
        if source_line is None:
            target_count = number + sum(1 for _ in target_lines)
        else:
            source_count = number + sum(1 for _ in source_lines)
        message = f"{source_count} lines, but {target} has {target_count}"
        hint = "line n of one file must translate line n of the other"
        raise UserError(message, file=source, hint=hint)


class Faults:
    """Faulty lines of one or several files, of which all are counted and the first ones shown."""

    def __init__(self) -> None:
        self.errors: list[UserError] = []
        self.count = 0

    def add(self, error: UserError) -> None:
        self.count += 1
        if len(self.errors) < SHOWN:
            self.errors.append(error)

    def check(self) -> None:
        """Raise the first error, with the number of all and the places of the first ones."""
        if not self.errors:
            return

        first = self.errors[0]
        message = first.message
        if self.count > 1:
            locations = [f"{Path(str(error.file)).name}:{error.line}" for error in self.errors]
            if self.count > len(self.errors):
                locations.append("...")
            message = f"{message}; {self.count} lines are faulty: {', '.join(locations)}"
        raise UserError(message, file=first.file, line=first.line, hint=first.hint)


class Reader(Strict):
    """Reads sentence pairs; its fields are its options."""

    # what is said of a text without words, and what to do; `{}` is what the reader knows it by
    blank: ClassVar[str] = "`{}` is empty"
    blank_hint: ClassVar[str] = "complete the row or delete it"

    kind: str

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the registry has to give files for."""
        return SPLITS

    @property
    def readers(self) -> tuple[Reader, ...]:
        """Itself and the readers that it leaves parts of a split to."""
        return (self,)

    def reader_of(self, pair: Pair) -> Reader:
        """Return the one of `readers` that has read the pair."""
        return self

    @abstractmethod
    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        """Yield names of splits (train, dev, test), each with its pairs.

        The pairs of a split are read before the next one is requested. `files` has what the
        registry gives for each of `splits`; a fault in one is a UserError once its pairs are read.
        """


class DividingReader(Reader):
    """A reader of files that hold one split each, or all pairs to be divided."""

    divide: Divide | None = Field(
        None,
        description=(
            "null: each split has its own files; else all pairs are in one, or those of train and"
            " dev if `test` is left out"
        ),
    )

    @property
    def splits(self) -> tuple[str, ...]:
        return splits_of(self.divide)

    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        for split, split_files in files.items():
            parts = parts_of(split_files)
            pairs = chain.from_iterable(self.pairs(split, part, languages) for part in parts)
            if self.divide is None or split != self.divide.divided:
                yield split, pairs
                continue

            groups = self._groups_of_parts(parts)
            for drawn_split, drawn in divided(list(pairs), languages, self.divide, groups).items():
                yield drawn_split, iter(drawn)

    def _groups_of_parts(self, parts: Sequence[Part]) -> list[str] | None:
        groups = [self.groups(part) for part in parts]
        named = [group for group in groups if group is not None]
        if not named:
            return None
        if len(named) < len(groups):
            problem = "some parts say which pairs `divide` keeps together, and others do not"
            raise UserError(problem, hint="say it of all of them, or of none")
        return list(chain.from_iterable(named))

    def groups(self, files: Any) -> list[str] | None:
        """Return for each pair the name of what stays together when pairs are divided.

        None stands for what shares a sentence.
        """
        return None

    @abstractmethod
    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        """Return the pairs of the `files` that the registry gives as `split`, or a part of it."""


class GroupingReader(DividingReader):
    """A reader of files that may name the group of each pair, such as `seen` and `unseen`.

    Source lines have the name of the group, where there is one.
    """

    # Left out where it is not given, as in formats from before there was this key.
    scores_by: str | None = Field(
        None,
        min_length=1,
        description=(
            "column, key or file that holds the group of each pair, such as `category`: dev and"
            " test have scores of each group"
        ),
        exclude_if=lambda name: name is None,
    )
