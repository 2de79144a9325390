"""Readers of sentence pairs, one for each way in which files hold them.

A reader's fields are what one can choose, in `read: {kind: NAME, field: value, ...}`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializeAsAny, field_validator

from pam.data.annotated import M2, Conllu
from pam.data.archives import extract_all
from pam.data.choices import Choices
from pam.data.dataset import SPLITS
from pam.data.reading import FURTHER, DividingReader, Files, GroupingReader, Reader, aligned
from pam.data.records import JsonLines, Table
from pam.data.sampling import ALL, Languages, Pair
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
from pam.data.tmx import Tmx, Xliff
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import scratch_folder

SEPARATORS = ("\t", ";", ",", "|")  # that people write between two columns
COMPLETE = "complete the line or delete it, or correct `read` in the registry"
LOOKED_AT = 1000  # lines by which a file of segments is told from one of lines
MARKUP_SUFFIXES = frozenset({".sgm", ".sgml", ".xml"})

# texts of several languages
OF_SEVERAL = re.compile(r"<(?:src|ref|hyp|tuv)\b[^<>]*\blang\s*=[^<>]*>", re.IGNORECASE)


class Columns(GroupingReader):
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
    # Left out where it is not given, as in formats from before there was this key.
    further_columns: Literal["refuse", "drop"] = Field(
        "refuse",
        description="`drop` reads lines with more columns than the first row as if they had none",
        exclude_if=lambda further: further == "refuse",
    )
    group: int | None = Field(
        None, description="column of what `divide` keeps together, such as a pair's article"
    )

    def groups(self, files: Any) -> list[str] | None:
        if self.group is None:
            return None
        return [cells[self.group] for _, cells in self._rows(files, [self.group])]

    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        for language in languages:
            if language not in self.columns:
                hint = f"write read: {{kind: columns, columns: {{{language}: NUMBER, ...}}}}"
                raise UserError(f"no column is given for the language `{language}`", hint=hint)
        if not isinstance(files, Path):
            raise UserError(f"split {split} has several files", hint="name one with columns")

        source, target = (self.columns[language] for language in languages)
        read = [source, target]
        group = self._group_column()
        # Training needs no groups.
        if group is not None and split != "train":
            read.append(group)

        for line, cells in self._rows(files, read):
            source_line = line._replace(text=cells[source])
            if group is not None and -len(cells) <= group < len(cells):
                source_line = source_line._replace(group=cells[group])
            yield source_line, line._replace(text=cells[target])

    def _group_column(self) -> int | None:
        """Return the column that holds the group of each pair; None: there is none."""
        if self.scores_by is None:
            return None
        if self.scores_by not in self.columns:
            hint = f"write read: {{kind: columns, columns: {{{self.scores_by}: NUMBER, ...}}}}"
            raise UserError(f"no column is given for the groups, `{self.scores_by}`", hint=hint)
        return self.columns[self.scores_by]

    def _rows(self, path: Path, columns: list[int]) -> Iterator[tuple[Line, list[str]]]:
        """Yield lines with their cells.

        A UserError names a line that lacks one of `columns`, or that has more columns than the
        first row: one of its texts may hold the separator. Columns counted from the end may follow
        any number of others.
        """
        first: Line | None = None
        width = 0
        for line in islice(lines_of(path), int(self.heading), None):
            cells = cells_of(line, self.separator, self.quotes)
            if not cleaned(line.text):
                # Faulty or left out, as the format's `blank_lines` says.
                yield line, [""] * (max(map(abs, columns)) + 1)
                continue

            # Counted from the end, one cell of a short line may stand for two columns.
            present = {
                column % len(cells) for column in columns if -len(cells) <= column < len(cells)
            }
            if len(present) < len(set(columns)):
                message = f"{len(cells)} columns are too few"
                raise line.error(message, f"{self._other_separator(line)}{COMPLETE}")

            if first is None:
                first = line
                width = len(cells)
            if len(cells) > width and min(columns) >= 0 and self.further_columns == "refuse":
                message = f"{len(cells)} columns, but line {first.number} has {width}"
                hint = "delete the separator in a text, quote it (`quotes: true`), or write"
                raise line.error(message, f"{hint} `further_columns: drop` to read none of them")
            yield line, cells

    def _other_separator(self, line: Line) -> str:
        """Begin a hint with what may separate the columns of a line, if `separator` does not."""
        if self.separator in line.text:
            return ""
        for separator in SEPARATORS:
            if separator in line.text:
                return f"if columns are separated by {separator!r}, write `separator`; "
        return ""


class Lines(GroupingReader):
    """A file for each language, in which line n of one translates line n of the other."""

    blank = "the line is blank"
    blank_hint = "delete it together with the same line of the other file"

    kind: Literal["lines"] = "lines"
    markup: Literal["refuse", "keep"] = Field(
        "refuse", description="`keep` reads tags, such as `<doc>`, as text"
    )
    # Left out where it is not given, as in formats from before there was this key.
    both: SerializeAsAny[DividingReader] | None = Field(
        None,
        description=(
            "reader of those parts of a split that are one file with both texts, such as `tmx` or"
            " `{kind: columns, columns: {en: 0, de: 1}}`"
        ),
        exclude_if=lambda reader: reader is None,
    )

    @field_validator("both")
    @classmethod
    def _divides_nothing(cls, reader: DividingReader | None) -> DividingReader | None:
        if reader is not None and reader.divide is not None:
            raise ValueError("write `divide` beside `both`, as all parts are divided together")
        return reader

    @property
    def readers(self) -> tuple[Reader, ...]:
        if self.both is None:
            return (self,)
        return (self, self.both)

    def reader_of(self, pair: Pair) -> Reader:
        source, target = pair
        if self.both is not None and source.file == target.file:
            return self.both
        return self

    def groups(self, files: Any) -> list[str] | None:
        if self.both is not None and isinstance(files, Path):
            return self.both.groups(files)
        return None

    def pairs(self, split: str, files: Any, languages: Languages) -> Iterator[Pair]:
        if self.both is not None and isinstance(files, Path):
            return self.both.pairs(split, files, languages)

        for language in languages:
            if isinstance(files, Path) or language not in files:
                hint = f"name it in the registry: {split}: {{{language}: FILE, ...}}"
                if isinstance(files, Path):
                    hint = f"{_fitting_reader(files)}, or {hint}"
                raise UserError(
                    f"split {split} has no file for the language `{language}`", hint=hint
                )

        source, target = languages
        if FURTHER.format(source, 2) in files:
            hint = "name one file for it; only a target may have several references"
            raise UserError(f"split {split} has several files of {source}", hint=hint)
        pairs = aligned(files[source], files[target], self.lines)
        if FURTHER.format(target, 2) in files:
            pairs = self._with_references(files, source, target)
        if self.scores_by is None:
            return pairs
        return self._with_groups(pairs, split, files, source)

    def _with_references(
        self, files: Mapping[str, Path], source: str, target: str
    ) -> Iterator[Pair]:
        """Yield pairs whose targets have several references; a blank line is none."""
        roles = [role for role in files if role == target or role.startswith(f"{target} ")]
        readings = [aligned(files[source], files[role], self.lines) for role in roles]
        for pairs in zip(*readings, strict=True):
            references = [target for _, target in pairs if cleaned(target.text)]
            source_line, target_line = pairs[0]
            if references:
                more = tuple(reference.text for reference in references[1:])
                target_line = references[0]._replace(more=more)
            yield source_line, target_line

    def _with_groups(
        self, pairs: Iterator[Pair], split: str, files: Mapping[str, Path], source: str
    ) -> Iterator[Pair]:
        """Yield pairs with the names of their groups; training needs none."""
        role = str(self.scores_by)
        if role not in files:
            if split != "train":
                hint = f"name it in the registry: {split}: {{{role}: FILE, ...}}"
                message = f"split {split} has no file for the groups, `{role}`"
                raise UserError(message, hint=hint)
            yield from pairs
            return

        groups = aligned(files[source], files[role], self.lines)
        for (source_line, target_line), (_, group) in zip(pairs, groups, strict=True):
            yield source_line._replace(group=group.text), target_line

    def lines(self, path: Path) -> Iterator[Line]:
        if self.markup == "refuse":
            return text_lines(path)
        return lines_of(path)


def _fitting_reader(path: Path) -> str:
    """Name the reader for a file that holds both texts, as the first of its lines shows."""
    line = next((line for line in lines_of(path) if line.text.strip()), None)
    if line is not None and line.text.lstrip().startswith("{"):
        return "write `read: jsonl`, as the file has JSON lines"
    return "write `read: {kind: columns, columns: {NAME: NUMBER, ...}}` for a file of both"


class Mails(Reader):
    """Mails of the AESLC archive (Zhang and Tetreault 2019), with the keys `body` and `subject`.

    A file is a mail: its body, then its subject below a line `@subject`. Subjects that people wrote
    for the mails of dev and test, below `@ann0` and so on, are left out.
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
                paths = sorted(folder.rglob(f"{split}/*.subject"))
                yield split, self._mails(paths, archive, folder, languages)

    def _mails(
        self, paths: Sequence[Path], archive: Path, folder: Path, languages: Languages
    ) -> Iterator[Pair]:
        """Yield the pairs of mails, each read when it is asked for."""
        for path in paths:
            yield self._mail(path, archive / path.relative_to(folder), languages)

    def _mail(self, path: Path, shown_path: Path, languages: Languages) -> Pair:
        """Return the body and the subject of a file, each in one line.

        Messages name the file by `shown_path`, its place in the archive.
        """
        texts = {"body": "", "subject": ""}
        part = "body"
        for line in lines_of(path):
            if line.text.startswith("@"):
                part = line.text.strip().removeprefix("@")
            elif part in texts:
                texts[part] += f"{line.text} "

        source, target = (Line(texts[name], shown_path, 1) for name in languages)
        return source, target


class Segments(Lines):
    """A file for each language, as `lines`, or of `<seg>` elements, as SGML and XML of test sets.

    The content of a file says which of both it is. Elements begin and end in a line; their text is
    escaped.
    """

    kind: Literal["segments"] = "segments"  # type: ignore[assignment]

    def lines(self, path: Path) -> Iterator[Line]:
        """Return the sentences of a file.

        A UserError says that a segment does not end in its line, that text stands outside of
        segments, or that a file which is markup by its content or its name has no segment.
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
    """Yield the texts of the segments of a file of markup."""
    count = 0
    for line in lines:
        # As a TMX file, or the XML of WMT, holds source and references together.
        if OF_SEVERAL.search(line.text):
            hint = (
                "write the segments of each language into a file of its own, or, for a translation"
                " memory, `read: tmx`"
            )
            raise line.error("segments of several languages or of several texts in one file", hint)

        texts = re.findall(r"<seg\b[^<>]*>\s*(.*?)\s*</seg\s*>", line.text, re.IGNORECASE)
        if len(texts) != len(SEGMENT.findall(line.text)):
            hint = "fetch the file again, or write each segment on one line"
            raise line.error("a segment that does not end in its line", hint)
        # Elements in which a line has text and no segment, such as a title, are left out.
        if not texts and line.text.strip() and not line.text.lstrip().startswith("<"):
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
    """Return the end of a file's name, without the suffix that says that it is compressed."""
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower()


class Wit3(Reader):
    """Talks as the WIT3 archives hold them (Cettolo et al. 2012), read in the usual way.

    Lines of `train.tags.*` without the talk's address, number and keywords are training text,
    titles and descriptions too. Segments of the `.xml` files, one set after another, are the test
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
            # Files are found by their names, in whatever folder of the archive they are.
            talks = {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}

            def paired(name: str) -> Iterator[Pair]:
                source, target = (
                    archive / name.format(f"{self.pair}.{language}") for language in languages
                )
                return aligned(source, target, partial(_talk_lines, archive, talks))

            yield "train", paired("train.tags.{}")
            yield "test", chain.from_iterable(paired(f"{name}.{{}}.xml") for name in self.test)


def _talk_lines(archive: Path, talks: Mapping[str, Path], path: Path) -> Iterator[Line]:
    """Yield the sentences of the extracted file; messages name it by `path`."""
    if path.name not in talks:
        hint = "fetch the data set again, or correct `read` in the registry"
        raise UserError(f"the archive has no file `{path.name}`", file=archive, hint=hint)

    is_training = path.name.startswith("train.tags.")
    try:
        for line in lines_of(talks[path.name]):
            text = _training_text(line.text) if is_training else _test_text(line.text)
            if text is not None:
                yield line._replace(text=text, file=path)
    except UserError as error:
        raise UserError(error.message, file=path, line=error.line, hint=error.hint) from error


def _training_text(line: str) -> str | None:
    """Return the text of a line of `train.tags.*`; None if it is about the talk."""
    if any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
        return None
    return re.sub(r"</?(title|description)>", "", line)


def _test_text(line: str) -> str | None:
    """Return the text of a line of an `.xml` file, with plain apostrophes; None if it has none."""
    if "<seg id" not in line:
        return None
    return re.sub(r'<seg id="[0-9]*">\s*|\s*</seg>\s*', "", line).replace("’", "'")


READERS: Choices[Reader] = {
    "columns": Columns,
    "conllu": Conllu,
    "jsonl": JsonLines,
    "lines": Lines,
    "m2": M2,
    "mails": Mails,
    "segments": Segments,
    "table": Table,
    "tmx": Tmx,
    "wit3": Wit3,
    "xliff": Xliff,
}


def load_reader(choice: Any) -> Reader:
    """Return the reader that a registry names, as `lines` or `{kind: lines, divide: ...}`.

    A ValueError says that there is none.
    """
    if isinstance(choice, Reader):
        return choice

    options = {"kind": choice} if isinstance(choice, str) else choice
    if not isinstance(options, dict) or not isinstance(options.get("kind"), str):
        raise ValueError("a choice without `kind`: add `kind: name`")
    if options["kind"] not in READERS:
        raise ValueError(str(unknown("reader", options["kind"], sorted(READERS))))
    if options.get("both") is not None:
        part_reader = load_reader(options["both"])
        if not isinstance(part_reader, DividingReader):
            raise ValueError(f"`{part_reader.kind}` reads an archive, and no part of a split")
        options = options | {"both": part_reader}
    return READERS[options["kind"]].model_validate(options)
