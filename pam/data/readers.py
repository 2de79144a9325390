"""Text files as lines with their places, and a reader for each way in which files hold sentence pairs.

A reader's fields are what one can choose, in `read: {kind: NAME, field: value, ...}`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import html
import json
import lzma
import re
import sys
import tempfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from pam.data.archives import extract_all
from pam.data.dataset import SPLITS
from pam.data.sampling import Divide, divided
from pam.io import Strict, UserError, unknown

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Characters that show nothing and that other readers take for the end of a line or file.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
REFERENCE = " <ref> "  # between two references of one text, in what a reader gives as its target
Files = Mapping[str, Path | Mapping[str, Path]]  # split to its file, or to its files by what they hold, as a language
ALL = "all"  # the one split, in a registry, of pairs that a reader divides into train, dev and test
# The first bytes of compressed files, none of which begins a text in UTF-8, how their names end, and what opens them.
COMPRESSED: tuple[tuple[bytes, str, Callable[[Path], Any]], ...] = (
    (b"\x1f\x8b", ".gz", gzip.open), (b"\xfd7zXZ\x00", ".xz", lzma.open), (b"\x28\xb5\x2f\xfd", ".zst", zstd.open),
)  # fmt: skip
DAMAGED = (gzip.BadGzipFile, lzma.LZMAError, zstd.ZstdError, EOFError, zlib.error)
Languages = tuple[str, str]  # names of source and target: codes of languages, or fields of a record


class Line(NamedTuple):
    """A line and its place."""

    text: str
    file: Path
    number: int

    def error(self, message: str, hint: str) -> UserError:
        return UserError(message, file=self.file, line=self.number, hint=hint)


Pair = tuple[Line, Line]  # a sentence and its translation


def read_lines(path: Path | str) -> list[str]:
    """Lines of a UTF-8 file without their ends; a UserError as `plain_lines`."""
    return [line.text for line in plain_lines(Path(path))]


def plain_lines(path: Path) -> Iterator[Line]:
    """Lines as `lines_of`; a control character in one is a UserError too."""
    for line in lines_of(path):
        if control := CONTROL.search(line.text):
            message = f"control character U+{ord(control[0]):04X} in the text"
            raise line.error(message, "delete it; a line ends with LF or CR LF")
        yield line


def lines_of(path: Path) -> Iterator[Line]:
    """Lines of a UTF-8 file, also compressed (gzip, xz or zstd), read one after another.

    Ends of lines (LF or CR LF) and a byte order mark are dropped. Only line feeds end lines: characters such as
    U+2028 belong to the text. A UserError names the line of a file that is missing, empty, damaged, or not UTF-8.
    """
    empty, number = True, 0
    try:
        with _opened(path) as file:
            for number, raw in enumerate(file, 1):
                content = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                empty = empty and not content.strip()
                yield Line(content.decode("utf-8").removesuffix("\n").removesuffix("\r"), path, number)
    except UnicodeDecodeError as error:
        message = f"this is not UTF-8 text: byte 0x{error.object[error.start]:02x}"
        raise UserError(message, file=path, line=number, hint="save the file as UTF-8") from error
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError("no such file", file=path, hint="check its name, or fetch the data set first") from error
    except PermissionError as error:
        raise UserError("no permission to read this file", file=path, hint="change its permissions") from error
    except DAMAGED as error:
        hint = "delete it and fetch the data set again"
        raise UserError("the compressed file is damaged or cut short", file=path, hint=hint) from error
    if empty:
        raise UserError("the file is empty", file=path, hint="write it, or fetch it again")


def _opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if its content or its name says that it is compressed."""
    with open(path, "rb") as file:
        begin = file.read(8)
    for mark, suffix, opens in COMPRESSED:
        if begin.startswith(mark) or path.suffix == suffix:
            opened: IO[bytes] = opens(path)
            return opened
    return open(path, "rb")


def cells_of(line: Line, delimiter: str, quotes: bool = False) -> list[str]:
    """The columns of a line; with `quotes`, one in quotes may hold the delimiter (RFC 4180), but no line end."""
    if not quotes:
        return line.text.split(delimiter)
    try:
        return next(csv.reader([line.text], delimiter=delimiter, strict=True), [""])
    except csv.Error as error:
        raise line.error(
            f"wrong quotes: {error}", "end each quoted column in its line, and double quotes in it"
        ) from error


def aligned(one: Path, other: Path, read: Callable[[Path], Iterator[Line]] = lines_of) -> Iterator[Pair]:
    """Lines of two files in pairs; a UserError names both counts if one has more."""
    lines, others = read(one), read(other)
    for number, (line, partner) in enumerate(zip_longest(lines, others), 1):
        if line is None or partner is None:
            count = number + sum(1 for _ in (others if line is None else lines))  # the longer one to its end
            counts = (number - 1, count) if line is None else (count, number - 1)
            hint = "line n of one file must translate line n of the other"
            raise UserError(f"{counts[0]} lines, but {other} has {counts[1]}", file=one, hint=hint)
        yield line, partner


class Reader(Strict):
    """Reads sentence pairs; its fields are its options."""

    kind: str

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that the registry has to give files for."""
        return SPLITS

    @abstractmethod
    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        """Names of splits (train, dev, test), each with its pairs, which are read before the next is requested.

        `files` has what the registry gives for each of `splits`; a fault in one is a UserError once its pairs are read.
        """


class DividingReader(Reader):
    """A reader of files that hold one split each, or all pairs to be divided."""

    divide: Divide | None = Field(None, description="null: each split has its own files; else all pairs are in one")

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS if self.divide is None else (ALL,)

    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        for split, own in files.items():
            pairs = self.pairs(split, own, languages)
            if self.divide is None:
                yield split, pairs
            else:
                for name, drawn in divided(list(pairs), languages, self.divide, self.groups(own)).items():
                    yield name, iter(drawn)

    def groups(self, own: Any) -> list[str] | None:
        """For each pair the name of what stays together when pairs are divided; None: what shares a sentence."""
        return None

    @abstractmethod
    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        """The pairs of the files that the registry gives as `split`."""


class Columns(DividingReader):
    """One file that holds a sentence pair a line, in columns."""

    kind: Literal["columns"] = "columns"
    columns: dict[str, int] = Field(description="language to its column, counted from 0, or from -1 backwards")
    separator: str = Field("\t", min_length=1, description="separates two columns")
    quotes: bool = Field(
        False, description="columns may be in double quotes, as in CSV; the separator is one character"
    )
    heading: bool = Field(False, description="the first line names the columns, and is no pair")
    group: int | None = Field(None, description="column of what `divide` keeps together, such as a pair's article")

    def groups(self, own: Any) -> list[str] | None:
        if self.group is None:
            return None
        return [cells[self.group] for _, cells in self._rows(own, [self.group])]

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        for language in languages:
            if language not in self.columns:
                hint = f"write read: {{kind: columns, columns: {{{language}: NUMBER, ...}}}}"
                raise UserError(f"no column is known for the language `{language}`", hint=hint)
        if not isinstance(own, Path):
            raise UserError(f"split {split} has several files", hint="name one with columns")
        places = [self.columns[language] for language in languages]
        for line, cells in self._rows(own, places):
            source, target = (line._replace(text=cells[place]) for place in places)
            yield source, target

    def _rows(self, path: Path, places: list[int]) -> Iterator[tuple[Line, list[str]]]:
        """Lines with their columns; a UserError names one that lacks one of `places`."""
        for line in islice(lines_of(path), int(self.heading), None):
            cells = cells_of(line, self.separator, self.quotes)
            if not all(-len(cells) <= place < len(cells) for place in places):
                message = f"{len(cells)} columns are too few" if line.text.strip() else "the line is blank"
                raise line.error(message, "complete the line or delete it, or correct `read` in the registry")
            yield line, cells


class Lines(DividingReader):
    """A file for each language, in which line n of one translates line n of the other."""

    kind: Literal["lines"] = "lines"

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        known = {} if isinstance(own, Path) else own
        for language in languages:
            if language not in known:
                hint = f"name it in the registry: {split}: {{{language}: FILE, ...}}"
                if isinstance(own, Path):
                    hint = f"{hint}; or say how the one file is read, such as `read: jsonl` or `read: columns`"
                raise UserError(f"split {split} has no file for the language `{language}`", hint=hint)
        return aligned(known[languages[0]], known[languages[1]], self.lines)

    def lines(self, path: Path) -> Iterator[Line]:
        return lines_of(path)


class JsonLines(DividingReader):
    """A JSON object a line, of which two keys hold source and target: those that the format calls so.

    A list in place of a text has several references, for tasks that know them.
    """

    kind: Literal["jsonl"] = "jsonl"
    only: dict[str, dict[str, str]] = Field(
        {}, description="split to the records that it takes: key to a regular expression of its whole value"
    )

    @field_validator("only")
    @classmethod
    def _expressions(cls, only: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for split, keys in only.items():
            if split not in (*SPLITS, ALL):
                raise ValueError(str(unknown("split", split, [*SPLITS, ALL])))
            for key, expression in keys.items():
                try:
                    re.compile(expression)
                except re.error as error:
                    raise ValueError(f"`{expression}` of `{key}` is no regular expression: {error}") from error
        return only

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        if not isinstance(own, Path):
            raise UserError(f"split {split} has several files", hint="name one with JSON lines")
        taken = {key: re.compile(expression) for key, expression in self.only.get(split, {}).items()}
        for line in lines_of(own):
            record = self._record(line, (*languages, *taken))
            if all(expression.fullmatch(str(record[key])) for key, expression in taken.items()):
                source, target = (line._replace(text=record[name]) for name in languages)
                yield source, target

    def _record(self, line: Line, keys: Sequence[str]) -> dict[str, Any]:
        """What a line holds; a UserError if that is no object with these keys, of which the first two hold text."""
        try:
            record = json.loads(line.text)
        except ValueError as error:
            raise line.error(f"this is not JSON: {error}", "write one object a line, or delete the line") from error
        if not isinstance(record, dict):
            raise line.error("this is not an object", 'write {"key": "text", ...} on each line')
        for key in keys:
            if key not in record:
                found = ", ".join(f"`{name}`" for name in record) or "none"
                raise line.error(f"no key `{key}`", f"keys of this line: {found}; correct `format` in the registry")
        for key in keys[:2]:
            texts = record[key] if isinstance(record[key], list) else [record[key]]
            if not all(isinstance(text, str) for text in texts):
                raise line.error(f"`{key}` is not text", "write a string there, in quotes, or a list of strings")
            record[key] = REFERENCE.join(texts)
        return record


class Mails(Reader):
    """Mails as the AESLC archive holds them (Zhang and Tetreault 2019), as records with a `body` and a `subject`.

    A file is a mail: its body, then its subject below a line `@subject`; what people wrote as subjects of the mails of
    dev and test, below `@ann0` and so on, is left out.
    """

    kind: Literal["mails"] = "mails"

    @property
    def splits(self) -> tuple[str, ...]:
        return (ALL,)

    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        archive = files[ALL]
        if not isinstance(archive, Path):
            raise UserError(f"split {ALL} has several files", hint="name the archive alone")
        if sorted(languages) != ["body", "subject"]:
            raise UserError("a mail has a body and a subject", hint="write `format: {source: body, target: subject}`")
        with tempfile.TemporaryDirectory(prefix="pam-") as folder:
            extract_all(archive, Path(folder))
            for split in SPLITS:
                mails = sorted(Path(folder).rglob(f"{split}/*.subject"))
                yield split, (self._mail(path, archive / path.relative_to(folder), languages) for path in mails)

    def _mail(self, path: Path, named: Path, languages: Languages) -> Pair:
        """Body and subject of a file, each in one line; messages name it by its place in the archive."""
        texts, part = {"body": "", "subject": ""}, "body"
        for line in lines_of(path):
            if line.text.startswith("@"):
                part = line.text.strip().removeprefix("@")
            elif part in texts:
                texts[part] += f"{line.text} "
        source, target = (Line(texts[name], named, 1) for name in languages)
        return source, target


class Segments(Lines):
    """A file for each language, as `lines`, or in `.sgm`, as WMT's, one `<seg id="1">...</seg>` a line, escaped."""

    kind: Literal["segments"] = "segments"  # type: ignore[assignment]

    def lines(self, path: Path) -> Iterator[Line]:
        """The sentences of a file; a UserError for a segment that does not end in its line, or no segment at all."""
        if path.suffix != ".sgm":
            yield from lines_of(path)
            return
        found = False
        for line in lines_of(path):
            if "<seg" in line.text.lower():
                segment = re.search(r"<seg id=\"?\w+\"?>\s*(.*?)\s*</seg>", line.text, re.IGNORECASE)
                if segment is None:
                    hint = "fetch the file again, or write each segment on one line"
                    raise line.error("a segment that does not end in its line", hint)
                found = True
                yield line._replace(text=html.unescape(segment[1]))
        if not found:
            raise UserError("no segments", file=path, hint="name a file with `<seg>`, or one without `.sgm`")


class Wit3(Reader):
    """Talks as the WIT3 archives hold them (Cettolo et al. 2012), read in the usual way.

    Lines of `train.tags.*` without the talk's address, number and keywords are training text, titles and descriptions
    too; segments of the `.xml` files, one set after another, are the test text, with plain apostrophes. Development
    text is cut from training text later (`dev_every`).
    """

    kind: Literal["wit3"] = "wit3"
    pair: str = Field("de-en", description="languages in the names of the files")
    test: list[str] = Field(
        ["IWSLT14.TED.dev2010", "IWSLT14.TEDX.dev2012", *(f"IWSLT14.TED.tst{year}" for year in (2010, 2011, 2012))],
        min_length=1,
        description="sets that make up the test text, in this order",
    )

    @property
    def splits(self) -> tuple[str, ...]:
        return (ALL,)

    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        archive = files[ALL]
        if not isinstance(archive, Path):
            raise UserError(f"split {ALL} has several files", hint="name the archive alone")
        with tempfile.TemporaryDirectory(prefix="pam-") as folder:
            extract_all(archive, Path(folder))
            talks = {path.name: path for path in sorted(Path(folder).rglob("*")) if path.is_file()}

            def paired(name: str) -> Iterator[Pair]:
                source, target = (archive / name.format(f"{self.pair}.{language}") for language in languages)
                return aligned(source, target, partial(_talk_lines, archive, talks))

            yield "train", paired("train.tags.{}")
            yield "test", chain.from_iterable(paired(f"{name}.{{}}.xml") for name in self.test)


def _talk_lines(archive: Path, talks: Mapping[str, Path], path: Path) -> Iterator[Line]:
    """Sentences of the extracted file that has the name of `path`, which is how messages name it."""
    if path.name not in talks:
        hint = "fetch the data set again, or correct `read` in the registry"
        raise UserError(f"the archive has no file `{path.name}`", file=archive, hint=hint)
    training = path.name.startswith("train.tags.")
    try:
        for line in lines_of(talks[path.name]):
            if training and not any(tag in line.text for tag in ("<url>", "<talkid>", "<keywords>")):
                yield line._replace(text=re.sub(r"</?(title|description)>", "", line.text), file=path)
            elif not training and "<seg id" in line.text:
                text = re.sub(r'<seg id="[0-9]*">\s*|\s*</seg>\s*', "", line.text).replace("’", "'")
                yield line._replace(text=text, file=path)
    except UserError as error:
        raise UserError(error.message, file=path, line=error.line, hint=error.hint) from error


READERS: dict[str, type[Reader]] = {
    "columns": Columns, "jsonl": JsonLines, "lines": Lines, "mails": Mails, "segments": Segments, "wit3": Wit3,
}  # fmt: skip


def load_reader(choice: Any) -> Reader:
    """The reader that a registry names, as `lines` or `{kind: lines, divide: ...}`; a ValueError if there is none."""
    if isinstance(choice, Reader):
        return choice
    options = {"kind": choice} if isinstance(choice, str) else choice
    if not isinstance(options, dict) or not isinstance(options.get("kind"), str):
        raise ValueError("a choice without `kind`: add `kind: name`")
    if options["kind"] not in READERS:
        raise ValueError(str(unknown("reader", options["kind"], sorted(READERS))))
    return READERS[options["kind"]].model_validate(options)
