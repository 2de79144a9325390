"""Forms of files that are no plain text, told by their content, with how to read or convert them.

A hint holds a command that works as it is; `{path}` in it is the file's path, quoted for a shell.
"""

from __future__ import annotations

import re
import shlex
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam.runtime.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

READ_AS_TABLE = "write `read: table` in the registry, or let `pam data new {path}` do it"
TO_TSV = "save its rows as TSV, as by `DataFrame.to_csv('rows.tsv', sep='\\t', index=False)`"
TO_XLSX = "convert it: `libreoffice --headless --convert-to xlsx {path}`"

HEAD = 2**16  # bytes by which a file is told
LFS_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/")


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_parquet(path, engine="pyarrow")


def _read_arrow(path: Path) -> pd.DataFrame:
    """Read Arrow's file format, or its stream, as data sets of Hugging Face are saved."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        try:
            reader = pa.ipc.open_file(file)
        except pa.ArrowInvalid:
            file.seek(0)
            reader = pa.ipc.open_stream(file)
        frame: pd.DataFrame = reader.read_pandas()
    return frame


def _read_excel(path: Path) -> pd.DataFrame:
    """Read the sheet of a workbook, each cell as the text that it shows.

    A UserError says that several sheets have rows.
    """
    import pandas as pd

    # Words such as `NA` and `nan` are text.
    options: dict[str, Any] = {"dtype": str, "keep_default_na": False, "engine": "openpyxl"}
    sheets = pd.read_excel(path, sheet_name=None, **options)
    with_rows = {name: sheet for name, sheet in sheets.items() if len(sheet)}
    if len(with_rows) > 1:
        names = ", ".join(map(str, with_rows))
        hint = "save the one that is meant as a workbook of its own, or as TSV"
        raise UserError(f"several sheets have rows: {names}", file=path, hint=hint)
    return next(iter((with_rows or sheets).values()))


@dataclass(frozen=True)
class Form:
    """What a file is, in words, and how to go on."""

    name: str
    hint: str
    # of a table that the reader `table` reads: the package that it needs, how pandas calls what
    # reads it, and how it is read
    package: str = ""
    reads: str = ""
    read_table: Callable[[Path], pd.DataFrame] | None = None

    def error(self, path: Path) -> UserError:
        """Make the error of a reader of text that got this file."""
        hint = self.hint.format(path=shlex.quote(str(path)))
        return UserError(f"this is {self.name}", file=path, hint=hint)


LFS = Form("a pointer of Git LFS, not the file", "fetch the file itself: `git lfs pull`")
TAR = Form("a tar archive", "unpack it: `tar xf {path}`, and name the files that it holds")
ZIP = Form("a zip archive", "unpack it: `python -m zipfile -e {path} .`, and name its files")
XLSX = Form("an Excel workbook", READ_AS_TABLE, "openpyxl", "read_excel", _read_excel)
PARQUET = Form("a Parquet file", READ_AS_TABLE, "pyarrow", "read_parquet", _read_parquet)
ARROW = Form("an Arrow file", READ_AS_TABLE, "pyarrow", "read_feather", _read_arrow)

# The first bytes of files that are no text. A zip archive may be an office document.
MARKS: tuple[tuple[re.Pattern[bytes], Form], ...] = (
    (LFS_POINTER, LFS),
    (re.compile(rb"PK\x03\x04.*xl/", re.DOTALL), XLSX),
    (re.compile(rb"PK\x03\x04.*application/vnd\.oasis", re.DOTALL), Form("a document", TO_XLSX)),
    (re.compile(rb"PK\x03\x04"), ZIP),
    (re.compile(rb"PAR1[\x00-\x1f]"), PARQUET),
    (re.compile(rb"ARROW1\x00|\xff{4}"), ARROW),
    (re.compile(rb"\xd0\xcf\x11\xe0"), Form("a document of an old Microsoft Office", TO_XLSX)),
    (
        re.compile(rb"\x80[\x02-\x05]"),
        Form("a pickle", f"it can run code, so it is not read; {TO_TSV}"),
    ),
    (re.compile(rb"\x93NUMPY"), Form("an array of numpy", TO_TSV)),
    (re.compile(rb"\x89HDF"), Form("an HDF5 file", TO_TSV)),
    (re.compile(rb"SQLite format 3\x00"), Form("an SQLite database", TO_TSV)),
    (re.compile(rb"%PDF-"), Form("a PDF", "convert it: `pdftotext {path}`")),
    (re.compile(rb"7z\xbc\xaf"), Form("a 7-Zip archive", "unpack it: `7z x {path}`")),
    (re.compile(rb"Rar!\x1a"), Form("a RAR archive", "unpack it: `unrar x {path}`")),
)


def form_of_file(path: Path) -> Form | None:
    """Return the form of a file as it is, without unpacking; None if it may be text."""
    with open(path, "rb") as file:
        return form_of(file.read(HEAD))


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is the short text that Git LFS leaves in place of a file."""
    with open(path, "rb") as file:
        return bool(LFS_POINTER.match(file.read(100)))


def form_of(head: bytes) -> Form | None:
    """Return the form of a file that begins with these bytes; None if they may be text."""
    for mark, form in MARKS:
        if mark.match(head):
            return form

    # Old archives have no mark, but each header has a checksum.
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None
    return TAR


# What a text is, by its first lines, if it is neither columns nor sentences.
JSON = re.compile(r'\s*(?:\[\s*)?(?:\{\s*"|\{\s*$|\[\s*$)')
PO = re.compile(r'msgid\s+"')
XLIFF = re.compile(r"<xliff\b")
TMX = re.compile(r"<tmx\b")
M2 = re.compile(r"A -?\d+ -?\d+\|\|\|")
CONLLU = re.compile(r"\d+(?:[-.]\d+)?(?:\t[^\t]+){9}$")
LANGUAGE = re.compile(r'"Language: ([\w-]+)')


def text_form(lines: Sequence[str]) -> str:
    """Return what a text is, by its first lines: the name of its reader, or `po`.

    It is empty of columns and of sentences.
    """
    filled = [line for line in lines if line.strip()]
    if filled and JSON.match(filled[0]):
        return "jsonl"

    for name, mark in (("tmx", TMX), ("xliff", XLIFF), ("po", PO)):
        if any(mark.search(line) for line in filled):
            return name
    if any(M2.match(line) for line in filled) and filled[0].startswith("S "):
        return "m2"

    words = [line for line in filled if not line.startswith("#")]
    if words and all(CONLLU.match(line) for line in words):
        return "conllu"
    return ""


def to_memory(path: Path, lines: Sequence[str]) -> UserError:
    """Make the error of a file of PO, with commands that make it a translation memory."""
    match = LANGUAGE.search("\n".join(lines))
    language = match[1] if match else "xx"
    convert = shlex.join(["po2tmx", "-l", language, str(path), str(path.with_suffix(".tmx"))])
    commands = f"pip install translate-toolkit && {convert}"
    hint = f"make it a translation memory, then name that: `{commands}`"
    return UserError("this is a catalogue of messages (PO)", file=path, hint=hint)
