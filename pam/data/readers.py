"""Readers of parallel text: a class for each way in which files hold sentence pairs.

The fields of a class are what one can choose, in `read: {kind: NAME, field: value, ...}`.
"""

from __future__ import annotations

import hashlib
import html
import re
import tempfile
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from pam.data.archives import extract_all
from pam.data.dataset import SPLITS
from pam.data.text import Files, Line, Pair, lines_of
from pam.io import Strict, UserError, unknown

ALL = "all"
"""The one split, in a registry, of pairs that a reader divides into train, dev and test."""

Languages = tuple[str, str]
"""Codes of source and target."""

Splits = Iterator[tuple[str, Iterator[Pair]]]
"""Names of splits, each with its pairs in order, which are read before the next is requested."""


class Reader(Strict):
    """Reads sentence pairs; its fields are its options."""

    kind: str

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that the registry has to give files for."""
        return SPLITS

    @abstractmethod
    def read(self, files: Files, languages: Languages) -> Splits:
        """Each split (train, dev, test) with its pairs.

        Args:
            files: what the registry gives for each of `splits`.

        Raises:
            UserError: a fault in a file, while its pairs are read.
        """


class Divide(Strict):
    """Pairs for development and testing, drawn at random; the rest is for training."""

    dev: int = Field(ge=1, description="pairs for development")
    test: int = Field(ge=1, description="pairs for testing")
    seed: int = Field(1, description="another seed draws other pairs")


class DividingReader(Reader):
    """A reader of files that hold one split each, or all pairs to be divided."""

    divide: Divide | None = Field(None, description="null: each split has its own files; else all pairs are in one")

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, dev and test, or all in one."""
        return SPLITS if self.divide is None else (ALL,)

    def read(self, files: Files, languages: Languages) -> Splits:
        """Each split's pairs; see `Reader.read`."""
        for split, own in files.items():
            pairs = self.pairs(split, own, languages)
            if self.divide is None:
                yield split, pairs
            else:
                for name, drawn in divided(list(pairs), languages, self.divide).items():
                    yield name, iter(drawn)

    @abstractmethod
    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        """The pairs of the files that the registry gives as `split`."""


class Columns(DividingReader):
    """One file that holds a sentence pair a line, in columns."""

    kind: Literal["columns"] = "columns"
    columns: dict[str, int] = Field(description="language to its column, counted from 0, or from -1 backwards")
    separator: str = Field("\t", min_length=1, description="separates two columns")

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        """Two columns of each line."""
        for language in languages:
            if language not in self.columns:
                raise UserError(
                    f"no column is known for the language `{language}`",
                    hint=f"write read: {{kind: columns, columns: {{{language}: NUMBER, ...}}}}",
                )
        if not isinstance(own, Path):
            raise UserError(f"split {split} has several files", hint="name one with columns")
        places = [self.columns[language] for language in languages]
        for line in lines_of(own):
            cells = line.text.split(self.separator)
            if not all(-len(cells) <= place < len(cells) for place in places):
                blank = not line.text.strip()
                raise line.error(
                    "the line is blank" if blank else f"{len(cells)} columns are too few",
                    "complete the line or delete it, or correct `read` in the registry",
                )
            source, target = (line._replace(text=cells[place]) for place in places)
            yield source, target


class Lines(DividingReader):
    """A file for each language, in which line n of one translates line n of the other."""

    kind: Literal["lines"] = "lines"

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        """The lines of two files in pairs."""
        known = {} if isinstance(own, Path) else own
        for language in languages:
            if language not in known:
                raise UserError(
                    f"split {split} has no file for the language `{language}`",
                    hint=f"name it in the registry: {split}: {{{language}: FILE, ...}}",
                )
        source, target = known[languages[0]], known[languages[1]]
        return aligned(self.lines(source), self.lines(target), (source, target))

    def lines(self, path: Path) -> Iterator[Line]:
        """The sentences of a file."""
        return lines_of(path)


_WMT_SEGMENT = re.compile(r"<seg id=\"?\w+\"?>\s*(.*?)\s*</seg>", flags=re.IGNORECASE)


class Segments(Lines):
    """A file for each language, as `lines`; files that end in `.sgm` hold marked segments instead.

    The development and test sets of WMT are written like this: a segment
    `<seg id="1">...</seg>` a line, with marks of SGML escaped.
    """

    kind: Literal["segments"] = "segments"  # type: ignore[assignment]

    def lines(self, path: Path) -> Iterator[Line]:
        """The sentences of a file.

        Raises:
            UserError: a segment that does not end in its line, or no segment at all.
        """
        if path.suffix != ".sgm":
            yield from lines_of(path)
            return
        found = False
        for line in lines_of(path):
            if "<seg" in line.text.lower():
                segment = _WMT_SEGMENT.search(line.text)
                if segment is None:
                    raise line.error(
                        "a segment that does not end in its line",
                        "fetch the file again, or write each segment on one line",
                    )
                found = True
                yield line._replace(text=html.unescape(segment[1]))
        if not found:
            raise UserError("no segments", file=path, hint="name a file with `<seg>`, or one without `.sgm`")


class Wit3(Reader):
    """Talks as the WIT3 archives hold them (Cettolo et al. 2012), read in the usual way.

    Lines of `train.tags.*` without the talk's address, number and keywords are training text,
    titles and descriptions too; segments of the `.xml` files, one set after another, are the test
    text, with plain apostrophes. Development text is cut from training text later (`dev_every`).
    """

    kind: Literal["wit3"] = "wit3"
    pair: str = Field("de-en", description="languages in the names of the files")
    test: list[str] = Field(
        [
            "IWSLT14.TED.dev2010",
            "IWSLT14.TEDX.dev2012",
            "IWSLT14.TED.tst2010",
            "IWSLT14.TED.tst2011",
            "IWSLT14.TED.tst2012",
        ],
        min_length=1,
        description="sets that make up the test text, in this order",
    )

    @property
    def splits(self) -> tuple[str, ...]:
        """The archive."""
        return (ALL,)

    def read(self, files: Files, languages: Languages) -> Splits:
        """Train and test; see `Reader.read`."""
        archive = files[ALL]
        if not isinstance(archive, Path):
            raise UserError(f"split {ALL} has several files", hint="name the archive alone")
        with tempfile.TemporaryDirectory(prefix="pam-") as folder:
            extract_all(archive, Path(folder))
            talks = _Talks(archive, Path(folder), languages)
            yield "train", talks.pairs(f"train.tags.{self.pair}.{{}}", _talk_lines)
            tests = [f"{name}.{self.pair}.{{}}.xml" for name in self.test]
            yield "test", chain.from_iterable(talks.pairs(test, _talk_segments) for test in tests)


class _Talks:
    """The files of an extracted archive, by their names without folders."""

    def __init__(self, archive: Path, folder: Path, languages: Languages) -> None:
        self._archive = archive
        self._languages = languages
        self._files = {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}

    def pairs(self, name: str, text: Callable[[Iterator[Line]], Iterator[Line]]) -> Iterator[Pair]:
        """Pairs of the two files of a name with `{}` for the language; `text` picks lines."""
        source, target = (name.format(language) for language in self._languages)
        return aligned(
            text(self._lines(source)), text(self._lines(target)), (self._archive / source, self._archive / target)
        )

    def _lines(self, name: str) -> Iterator[Line]:
        """Lines of a file; messages name it below the archive."""
        if name not in self._files:
            raise UserError(
                f"the archive has no file `{name}`",
                file=self._archive,
                hint="fetch the data set again, or correct `read` in the registry",
            )
        shown = self._archive / name
        try:
            for line in lines_of(self._files[name]):
                yield line._replace(file=shown)
        except UserError as error:
            raise UserError(error.message, file=shown, line=error.line, hint=error.hint) from error


_TALK_TITLES = re.compile(r"</?(title|description)>")
_TALK_SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')


def _talk_lines(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if not any(tag in line.text for tag in ("<url>", "<talkid>", "<keywords>")):
            yield line._replace(text=_TALK_TITLES.sub("", line.text))


def _talk_segments(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if "<seg id" in line.text:
            yield line._replace(text=_TALK_SEGMENT.sub("", line.text).replace("’", "'"))


READERS: dict[str, type[Reader]] = {"columns": Columns, "lines": Lines, "segments": Segments, "wit3": Wit3}


def load_reader(choice: Any) -> Reader:
    """The reader that a registry names: `lines`, or `{kind: lines, divide: ...}`.

    Raises:
        ValueError: no such reader, or not its options.
    """
    if isinstance(choice, Reader):
        return choice
    options = {"kind": choice} if isinstance(choice, str) else choice
    if not isinstance(options, dict) or not isinstance(options.get("kind"), str):
        raise ValueError("a choice without `kind`: add `kind: name`")
    if options["kind"] not in READERS:
        raise ValueError(str(unknown("reader", options["kind"], sorted(READERS))))
    return READERS[options["kind"]].model_validate(options)


def aligned(lines: Iterator[Line], others: Iterator[Line], files: tuple[Path, Path]) -> Iterator[Pair]:
    """Lines of two `files` in pairs.

    Raises:
        UserError: one has more; names both counts.
    """
    for number, (line, other) in enumerate(zip_longest(lines, others), 1):
        if line is None or other is None:
            # The longer one is read to its end, for its count.
            count = number + sum(1 for _ in (others if line is None else lines))
            counts = (number - 1, count) if line is None else (count, number - 1)
            raise UserError(
                f"{counts[0]} lines, but {files[1]} has {counts[1]}",
                file=files[0],
                hint="line n of one file must translate line n of the other",
            )
        yield line, other


def divided(pairs: list[Pair], languages: Languages, divide: Divide) -> dict[str, list[Pair]]:
    """Splits that have no sentence in common, on either side; the same in both directions.

    Pairs that share a sentence, white space and case aside, stay together, and so do pairs that are linked through
    others. Groups are ranked by a hash of the seed and of their first sentence in order of code points, so that the
    draw depends on nothing else; test takes the first that fit, then dev. Within a split, pairs keep their order.

    Raises:
        UserError: there are fewer pairs than requested.
    """
    groups = _groups(pairs, languages)
    sizes = {"test": divide.test, "dev": divide.dev}
    taken: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    for group in (groups[name] for name in sorted(groups, key=partial(_rank, divide.seed))):
        fits = (name for name, size in sizes.items() if len(taken[name]) + len(group) <= size)
        taken[next(fits, "train")] += group
    if not taken["train"] or any(len(taken[name]) < size for name, size in sizes.items()):
        raise UserError(
            f"{len(pairs)} pairs are too few for {divide.dev} of dev and {divide.test} of test",
            hint="ask for fewer in `divide`",
        )
    return {name: [pairs[number] for number in sorted(taken[name])] for name in SPLITS}


def _groups(pairs: list[Pair], languages: Languages) -> dict[str, list[int]]:
    """Numbers of pairs that belong together, by the first of their sentences (union-find)."""
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while (higher := above.setdefault(node, node)) != node:
            above[node] = node = above[higher]
        return node

    keys = [
        tuple(
            f"{language} {' '.join(line.text.lower().split())}" for language, line in zip(languages, pair, strict=True)
        )
        for pair in pairs
    ]
    for one, other in keys:
        first, second = sorted((top(one), top(other)))
        above[second] = first
    groups: dict[str, list[int]] = defaultdict(list)
    for number, (one, _) in enumerate(keys):
        groups[top(one)].append(number)
    return groups


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()
