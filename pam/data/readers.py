"""A reader for each way in which files hold sentence pairs.

A reader's fields are what one can choose, in `read: {kind: NAME, field: value, ...}`.
"""

from __future__ import annotations

import html
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from pam.data.archives import extract_all
from pam.data.dataset import SPLITS
from pam.data.sampling import Divide, divided
from pam.data.text_files import (
    MARKUP,
    SEGMENT,
    SUFFIXES,
    Line,
    cells_of,
    cleaned,
    lines_of,
    refuse_markup,
    text_lines,
)
from pam.data.text_files import read_lines as read_lines
from pam.io import Strict, UserError, scratch_folder, unknown

# split to its file, or to its files by what they hold, as a language
Files = Mapping[str, Path | Mapping[str, Path]]
ALL = "all"  # the one split, in a registry, of pairs that a reader divides into train, dev and test
Languages = tuple[str, str]  # names of source and target: codes of languages, or fields of a record
Pair = tuple[Line, Line]  # a sentence and its translation
SEPARATORS = ("\t", ";", ",", "|")  # that people write between two columns
COMPLETE = "complete the line or delete it, or correct `read` in the registry"
LOOKED_AT = 1000  # lines by which a file of segments is told from one of lines
MARKUP_SUFFIXES = frozenset({".sgm", ".sgml", ".xml"})
SHOWN = 5  # faulty lines whose places are said
# texts of several languages
OF_SEVERAL = re.compile(r"<(?:src|ref|hyp|tuv)\b[^<>]*\blang\s*=[^<>]*>", re.IGNORECASE)


def aligned(
    one: Path, other: Path, read: Callable[[Path], Iterator[Line]] = lines_of
) -> Iterator[Pair]:
    """Lines of two files in pairs; a UserError names both counts if one has more."""
    lines, others = read(one), read(other)
    for number, (line, partner) in enumerate(zip_longest(lines, others), 1):
        if line is None or partner is None:
            # the longer one to its end
            count = number + sum(1 for _ in (others if line is None else lines))
            counts = (number - 1, count) if line is None else (count, number - 1)
            hint = "line n of one file must translate line n of the other"
            raise UserError(f"{counts[0]} lines, but {other} has {counts[1]}", file=one, hint=hint)
        yield line, partner


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
            places = ", ".join(
                f"{Path(str(error.file)).name}:{error.line}" for error in self.errors
            )
            more = ", ..." if self.count > len(self.errors) else ""
            message = f"{message}; {self.count} lines are faulty: {places}{more}"
        raise UserError(message, file=first.file, line=first.line, hint=first.hint)


class Reader(Strict):
    """Reads sentence pairs; its fields are its options."""

    kind: str

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that the registry has to give files for."""
        return SPLITS

    @abstractmethod
    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        """Names of splits (train, dev, test), each with its pairs, which are read before the next
        is requested.

        `files` has what the registry gives for each of `splits`; a fault in one is a UserError once
        its pairs are read.
        """


class DividingReader(Reader):
    """A reader of files that hold one split each, or all pairs to be divided."""

    divide: Divide | None = Field(
        None, description="null: each split has its own files; else all pairs are in one"
    )

    @property
    def splits(self) -> tuple[str, ...]:
        return SPLITS if self.divide is None else (ALL,)

    def read(self, files: Files, languages: Languages) -> Iterator[tuple[str, Iterator[Pair]]]:
        for split, own in files.items():
            pairs = self.pairs(split, own, languages)
            if self.divide is None:
                yield split, pairs
            else:
                for name, drawn in divided(
                    list(pairs), languages, self.divide, self.groups(own)
                ).items():
                    yield name, iter(drawn)

    def groups(self, own: Any) -> list[str] | None:
        """For each pair the name of what stays together when pairs are divided; None: what shares a
        sentence.
        """
        return None

    @abstractmethod
    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        """The pairs of the files that the registry gives as `split`."""


class Columns(DividingReader):
    """One file that holds a sentence pair a line, in columns."""

    kind: Literal["columns"] = "columns"
    columns: dict[str, int] = Field(
        description="language to its column, counted from 0, or from -1 backwards"
    )
    separator: str = Field("\t", min_length=1, description="separates two columns")
    quotes: bool = Field(
        False,
        description="columns may be in double quotes, as in CSV; the separator is one character",
    )
    heading: bool = Field(False, description="the first line names the columns, and is no pair")
    group: int | None = Field(
        None, description="column of what `divide` keeps together, such as a pair's article"
    )

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
            inside = [place for place in places if -len(cells) <= place < len(cells)]
            # Counted from the end, one column of a short line may be both.
            if len({place % len(cells) for place in inside}) < len(set(places)):
                message = (
                    f"{len(cells)} columns are too few"
                    if line.text.strip()
                    else "the line is blank"
                )
                raise line.error(message, f"{self._other_separator(line)}{COMPLETE}")
            yield line, cells

    def _other_separator(self, line: Line) -> str:
        """Begin a hint with what may separate the columns of a line, where `separator` is not in
        it.
        """
        if self.separator in line.text:
            return ""
        other = next((mark for mark in SEPARATORS if mark in line.text), None)
        return (
            "" if other is None else f"if columns are separated by {other!r}, write `separator`; "
        )


class Lines(DividingReader):
    """A file for each language, in which line n of one translates line n of the other."""

    kind: Literal["lines"] = "lines"
    markup: Literal["refuse", "keep"] = Field(
        "refuse", description="`keep` reads tags, such as `<doc>`, as text"
    )

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        files = {} if isinstance(own, Path) else own
        for language in languages:
            if language not in files:
                hint = f"name it in the registry: {split}: {{{language}: FILE, ...}}"
                if isinstance(own, Path):
                    hint = f"{_fitting_reader(own)}, or {hint}"
                raise UserError(
                    f"split {split} has no file for the language `{language}`", hint=hint
                )
        return aligned(files[languages[0]], files[languages[1]], self.lines)

    def lines(self, path: Path) -> Iterator[Line]:
        return text_lines(path) if self.markup == "refuse" else lines_of(path)


def _fitting_reader(path: Path) -> str:
    """Name the reader for a file that holds both texts, as the first of its lines shows."""
    line = next((line for line in lines_of(path) if line.text.strip()), None)
    if line is not None and line.text.lstrip().startswith("{"):
        return "write `read: jsonl`, as the file has JSON lines"
    return "write `read: {kind: columns, columns: {NAME: NUMBER, ...}}` for a file of both"


class JsonLines(DividingReader):
    """A JSON object a line, of which two keys hold source and target: those that the format calls
    so.

    A list in place of a target has several references, of which the first is learned. A list of
    pieces of one text, such as its words, is named in `joined`.
    """

    kind: Literal["jsonl"] = "jsonl"
    joined: list[str] = Field(
        [], description="keys whose lists are one text in pieces, such as words or sentences"
    )
    only: dict[str, dict[str, str]] = Field(
        {},
        description=(
            "split to the records that it takes: key to a regular expression of its whole value"
        ),
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
                    raise ValueError(
                        f"`{expression}` of `{key}` is no regular expression: {error}"
                    ) from error
        return only

    def pairs(self, split: str, own: Any, languages: Languages) -> Iterator[Pair]:
        if not isinstance(own, Path):
            raise UserError(f"split {split} has several files", hint="name one with JSON lines")
        wanted = {
            key: re.compile(expression) for key, expression in self.only.get(split, {}).items()
        }
        for line in lines_of(own):
            record = _record(line, (*languages, *wanted))
            if all(expression.fullmatch(str(record[key])) for key, expression in wanted.items()):
                source = self._text(line, languages[0], record[languages[0]])
                if source.more:
                    hint = (
                        f"write `read: {{kind: jsonl, joined: [{languages[0]}]}}` if it is one text"
                        " in pieces"
                    )
                    raise line.error(f"`{languages[0]}` is a list, and a source is one text", hint)
                yield source, self._text(line, languages[1], record[languages[1]])

    def _text(self, line: Line, key: str, value: Any) -> Line:
        """The text, or the several, of a key; a UserError says that it is none."""
        texts = value if isinstance(value, list) else [value]
        if key in self.joined and isinstance(value, list):
            nested = (
                value if value and all(isinstance(pieces, list) for pieces in value) else [value]
            )
            texts = [self._joined(line, key, pieces) for pieces in nested]
        if not all(isinstance(text, str) for text in texts):
            hint = "write a string there, in quotes, or a list of strings"
            raise line.error(f"`{key}` is not text", hint)
        # None of several references may be empty, as nothing can be compared with it.
        if not all(cleaned(text) for text in texts):
            texts = [""]
        first, *others = texts or [""]
        return line._replace(text=first, more=tuple(others))

    @staticmethod
    def _joined(line: Line, key: str, pieces: list[Any]) -> str:
        if not all(isinstance(piece, str) for piece in pieces):
            raise line.error(
                f"`{key}` is not a list of pieces of text", "write a list of strings there"
            )
        return " ".join(pieces)


def _record(line: Line, keys: Sequence[str]) -> dict[str, Any]:
    """What a line of JSON holds; a UserError if that is no object with these keys."""
    try:
        record = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        raise line.error(
            f"this is not JSON: {error}", "write one object a line, or delete the line"
        ) from error
    if not isinstance(record, dict):
        raise line.error("this is not an object", 'write {"key": "text", ...} on each line')
    for key in keys:
        if key not in record:
            listed = ", ".join(f"`{name}`" for name in record) or "none"
            raise line.error(
                f"no key `{key}`", f"keys of this line: {listed}; correct `format` in the registry"
            )
    return record


class Mails(Reader):
    """Mails as the AESLC archive holds them (Zhang and Tetreault 2019), as records with a `body`
    and a `subject`.

    A file is a mail: its body, then its subject below a line `@subject`; what people wrote as
    subjects of the mails of dev and test, below `@ann0` and so on, is left out.
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
            raise UserError(
                "a mail has a body and a subject",
                hint="write `format: {source: body, target: subject}`",
            )
        with scratch_folder() as folder:
            extract_all(archive, folder)
            for split in SPLITS:
                mails = sorted(folder.rglob(f"{split}/*.subject"))
                yield (
                    split,
                    (
                        self._mail(path, archive / path.relative_to(folder), languages)
                        for path in mails
                    ),
                )

    def _mail(self, path: Path, named: Path, languages: Languages) -> Pair:
        """Body and subject of a file, each in one line; messages name it by its place in the
        archive.
        """
        texts, part = {"body": "", "subject": ""}, "body"
        for line in lines_of(path):
            if line.text.startswith("@"):
                part = line.text.strip().removeprefix("@")
            elif part in texts:
                texts[part] += f"{line.text} "
        source, target = (Line(texts[name], named, 1) for name in languages)
        return source, target


class Segments(Lines):
    """A file for each language, as `lines`, or of `<seg>` elements, as SGML and XML of test sets,
    escaped.

    Which of both a file is, its content says. Elements begin and end in a line.
    """

    kind: Literal["segments"] = "segments"  # type: ignore[assignment]

    def lines(self, path: Path) -> Iterator[Line]:
        """The sentences of a file; a UserError for a segment that does not end in its line, text
        outside of segments, or no segment in what is markup by its content or its name.
        """
        lines = lines_of(path)
        head = list(islice(lines, LOOKED_AT))
        lines = chain(head, lines)
        if any(MARKUP.match(line.text) or SEGMENT.search(line.text) for line in head):
            return _segments(lines, path)
        if _plain_suffix(path) in MARKUP_SUFFIXES:
            raise UserError(
                "no segments",
                file=path,
                hint="name a file with `<seg>`, or call a file of lines otherwise",
            )
        return map(self._checked, lines)

    def _checked(self, line: Line) -> Line:
        if self.markup == "refuse":
            refuse_markup(line)
        return line


def _segments(lines: Iterator[Line], path: Path) -> Iterator[Line]:
    """The texts of the segments of a file of markup."""
    count = 0
    for line in lines:
        if OF_SEVERAL.search(line.text):
            hint = "write the segments of each language into a file of its own"
            raise line.error("segments of several languages or of several texts in one file", hint)
        texts = re.findall(r"<seg\b[^<>]*>\s*(.*?)\s*</seg\s*>", line.text, re.IGNORECASE)
        if len(texts) != len(SEGMENT.findall(line.text)):
            hint = "fetch the file again, or write each segment on one line"
            raise line.error("a segment that does not end in its line", hint)
        if not texts and line.text.strip() and "<" not in line.text:
            hint = (
                "put each sentence into `<seg>` and `</seg>`, or name a file of lines without tags"
            )
            raise line.error("text outside of segments, in a file of markup", hint)
        count += len(texts)
        for text in texts:
            yield line._replace(text=html.unescape(text))
    if not count:
        raise UserError(
            "no segments", file=path, hint="name a file with `<seg>`, or one of lines without tags"
        )


def _plain_suffix(path: Path) -> str:
    """How a file's name ends, but for what says that it is compressed."""
    return (path.with_suffix("") if path.suffix in SUFFIXES else path).suffix.lower()


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
            *(f"IWSLT14.TED.tst{year}" for year in (2010, 2011, 2012)),
        ],
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
        with scratch_folder() as folder:
            extract_all(archive, folder)
            talks = {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}

            def paired(name: str) -> Iterator[Pair]:
                source, target = (
                    archive / name.format(f"{self.pair}.{language}") for language in languages
                )
                return aligned(source, target, partial(_talk_lines, archive, talks))

            yield "train", paired("train.tags.{}")
            yield "test", chain.from_iterable(paired(f"{name}.{{}}.xml") for name in self.test)


def _talk_lines(archive: Path, talks: Mapping[str, Path], path: Path) -> Iterator[Line]:
    """Yield sentences of the extracted file; messages name it by `path`."""
    if path.name not in talks:
        hint = "fetch the data set again, or correct `read` in the registry"
        raise UserError(f"the archive has no file `{path.name}`", file=archive, hint=hint)
    training = path.name.startswith("train.tags.")
    try:
        for line in lines_of(talks[path.name]):
            if training and not any(
                tag in line.text for tag in ("<url>", "<talkid>", "<keywords>")
            ):
                yield line._replace(
                    text=re.sub(r"</?(title|description)>", "", line.text), file=path
                )
            elif not training and "<seg id" in line.text:
                text = re.sub(r'<seg id="[0-9]*">\s*|\s*</seg>\s*', "", line.text).replace("’", "'")
                yield line._replace(text=text, file=path)
    except UserError as error:
        raise UserError(error.message, file=path, line=error.line, hint=error.hint) from error


READERS: dict[str, type[Reader]] = {
    "columns": Columns,
    "jsonl": JsonLines,
    "lines": Lines,
    "mails": Mails,
    "segments": Segments,
    "wit3": Wit3,
}


def load_reader(choice: Any) -> Reader:
    """The reader that a registry names, as `lines` or `{kind: lines, divide: ...}`; a ValueError if
    there is none.
    """
    if isinstance(choice, Reader):
        return choice
    options = {"kind": choice} if isinstance(choice, str) else choice
    if not isinstance(options, dict) or not isinstance(options.get("kind"), str):
        raise ValueError("a choice without `kind`: add `kind: name`")
    if options["kind"] not in READERS:
        raise ValueError(str(unknown("reader", options["kind"], sorted(READERS))))
    return READERS[options["kind"]].model_validate(options)
