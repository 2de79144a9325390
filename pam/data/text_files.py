"""Text files as lines that know their places.

What a file holds is decided by its content, never by its name: whether it is compressed, how it is
encoded, how its lines end, and whether it is markup.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, cast

from pam.data.forms import form_of
from pam.data.languages import JOINERS, composed, visible
from pam.runtime.errors import UserError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Characters that show nothing and that other readers take for the end of a line or file.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MARK = "\ufeff"  # a byte order mark, as a character

# The first bytes of compressed files, none of which begins a text; how their names end; what opens
# them.
COMPRESSED: tuple[tuple[re.Pattern[bytes], str, Callable[[Any], Any]], ...] = (
    (re.compile(rb"\x1f\x8b"), ".gz", gzip.open),
    (re.compile(rb"\xfd7zXZ\x00"), ".xz", lzma.open),
    (re.compile(rb"\x28\xb5\x2f\xfd"), ".zst", zstd.open),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"), ".bz2", bz2.open),
)
SUFFIXES = frozenset(suffix for _, suffix, _ in COMPRESSED)
DAMAGED = (gzip.BadGzipFile, lzma.LZMAError, zstd.ZstdError, EOFError, zlib.error)

# bytes of a line that are no ASCII from which its encoding is guessed
FEWEST_BYTES = 8
# bytes at a file's beginning by which its encoding and the ends of its lines are told
HEAD = 2**16
# Share of NUL bytes above which a text without a mark is UTF-16: those of its spaces, digits and
# line ends.
NULS = 0.04

# Marks of encodings other than UTF-8; those of UTF-32 first, as one of them begins as that of
# UTF-16.
ENCODING_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)

# Elements that hold the segments of test sets (SGML of NIST and WMT, XML of WMT and IWSLT, TMX,
# XLIFF).
SEGMENT = re.compile(r"<seg\b[^<>]*>", re.IGNORECASE)
CONTAINERS = "doc|srcset|refset|tstset|hypset|mteval|dataset|collection|tmx|xliff|html"
MARKUP = re.compile(
    r"\s*(?:<\?xml\b|<!doctype\b|<seg\b[^<>]*>|<s snum="
    rf"|<(?:{CONTAINERS})\b[^<>]*>\s*$|</(?:{CONTAINERS})>\s*$)",
    re.IGNORECASE,
)


# What JSON writes with a backslash: a pair of surrogates, half of one with its number, all else.
ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


TAKE_OUT = "take the texts out of their tags"


class Line(NamedTuple):
    """A line and its place."""

    text: str
    file: Path
    number: int
    # further texts that say the same, as a text may have several references
    more: tuple[str, ...] = ()
    # name of the group whose scores this row is part of; empty: none
    group: str = ""

    def error(self, message: str, hint: str) -> UserError:
        return UserError(message, file=self.file, line=self.number, hint=hint)


def cleaned(text: str, *, keep_invisible: bool = False, keep_indentation: bool = False) -> str:
    """Return the text as models read it.

    It is in composed form, without invisible characters unless they are kept, and has one space
    where white space or control characters were, none at an end. A text that shows nothing becomes
    empty. Indentation that is kept has four spaces for a tab.
    """
    text = composed(text) if keep_invisible else visible(text)
    words = CONTROL.sub(" ", text).split()
    if not any(word.strip(JOINERS) for word in words):
        return ""
    clean = " ".join(words).strip(f"{MARK} ")
    if not keep_indentation:
        return clean

    indented = text.expandtabs(4)
    return " " * (len(indented) - len(indented.lstrip(" "))) + clean


def read_lines(path: Path | str) -> list[str]:
    """Return the lines of a UTF-8 file without their ends; a UserError as `plain_lines`."""
    return [line.text for line in plain_lines(Path(path))]


def plain_lines(path: Path, may_be_blank: bool = False) -> Iterator[Line]:
    """Yield lines as `lines_of`; a control character in one is a UserError too."""
    for line in lines_of(path, may_be_blank):
        check_plain(line)
        yield line


def check_plain(line: Line) -> None:
    """Refuse a line with a control character."""
    if control := CONTROL.search(line.text):
        message = f"control character U+{ord(control[0]):04X} in the text"
        raise line.error(message, "delete it; a line ends with LF or CR LF")


def lines_of(path: Path, may_be_blank: bool = False) -> Iterator[Line]:
    """Yield the lines of a UTF-8 file, also compressed (gzip, xz, zstd or bzip2), one by one.

    Ends of lines and byte order marks at their beginnings are dropped. Lines end with LF or CR LF,
    or with CR in a file that has nothing else. All other characters, such as U+2028, belong to the
    text. A UserError names the line of a file that is missing, empty, damaged, or not UTF-8. A file
    of blank lines alone is empty too, unless it `may_be_blank`.
    """
    empty = True
    number = 0

    try:
        with _opened(path) as (head, lines):
            check_encoding(head, path)
            for number, raw in enumerate(lines, 1):
                text = raw.decode("utf-8").removesuffix("\n").removesuffix("\r").lstrip(MARK)
                empty = empty and not (may_be_blank or text.strip())
                yield Line(text, path, number)
    except UnicodeDecodeError as error:
        _refuse_encoding(path, number, error)
    except (FileNotFoundError, IsADirectoryError) as error:
        hint = "check its name, or fetch the data set first"
        raise UserError("no such file", file=path, hint=hint) from error
    except PermissionError as error:
        hint = "change its permissions"
        raise UserError("no permission to read this file", file=path, hint=hint) from error
    except (*DAMAGED, OSError) as error:
        # Of other errors of the system, this is how bzip2 says that a file is damaged.
        if not isinstance(error, DAMAGED) and "Invalid data stream" not in str(error):
            raise
        message = "the compressed file is damaged or cut short"
        hint = "delete it and fetch the data set again"
        raise UserError(message, file=path, hint=hint) from error

    if empty:
        raise UserError("the file is empty", file=path, hint="write it, or fetch it again")


def text_lines(path: Path) -> Iterator[Line]:
    """Yield lines as `lines_of`; markup in one is a UserError too."""
    for line in lines_of(path):
        refuse_markup(line, f"write `read: segments` if it has `<seg>` elements, else {TAKE_OUT}")
        yield line


def given_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a text that is given to a model, as `text_lines`; all may be blank."""
    for line in lines_of(path, may_be_blank=True):
        refuse_markup(line)
        yield line


def refuse_markup(line: Line, hint: str = TAKE_OUT) -> None:
    """Refuse a line that shows that its file is markup, whose tags would be read as words."""
    # Most lines have no tag at all, which is seen faster than what tag it is.
    if "<" in line.text and (tag := MARKUP.match(line.text)):
        message = f"markup in a file that is read as lines: `{tag[0].strip()[:60]}`"
        raise line.error(message, hint)


def refuse_half_characters(line: Line) -> None:
    """Refuse a line of JSON with one of the two numbers that write one character.

    Such a half is valid JSON, but no text: it cannot be written as UTF-8.
    """
    if "\\u" not in line.text:
        return

    for escape in ESCAPES.finditer(line.text):
        if escape[1]:
            message = f"half a character (U+{escape[1].upper()})"
            hint = "write the whole character, write \\ufffd in its place, or delete it"
            raise line.error(message, hint)


def cells_of(line: Line, delimiter: str, quotes: bool = False) -> list[str]:
    """Return the columns of a line.

    With `quotes`, a column in quotes may hold the delimiter (RFC 4180), but no line end.
    """
    if not quotes:
        return line.text.split(delimiter)

    # An article is longer than what the module takes for the longest column.
    csv.field_size_limit(max(csv.field_size_limit(), len(line.text) + 1))

    try:
        return next(csv.reader([line.text], delimiter=delimiter, strict=True), [""])
    except csv.Error as error:
        hint = "end each quoted column in its line, and double quotes in it"
        raise line.error(f"wrong quotes: {error}", hint) from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[bytes, Iterator[bytes]]]:
    """Open a file and give its first bytes, unpacked, and its lines with their ends.

    It is opened once, so that a pipe can be read too.
    """
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(open(path, "rb", buffering=HEAD))
        begin = cast(io.BufferedReader, file).peek(HEAD)

        # The content says whether a file is compressed, not its name.
        for mark, _, opens in COMPRESSED:
            if mark.match(begin):
                unpacked = stack.enter_context(opens(file))
                file = stack.enter_context(io.BufferedReader(unpacked, HEAD))
                begin = cast(io.BufferedReader, file).peek(HEAD)
                break

        if b"\r" in begin and b"\n" not in begin:
            yield begin, _ended_by_cr(file, path)
        else:
            yield begin, file


def _ended_by_cr(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield lines that end with CR; a UserError names the first one that ends with LF."""
    number = 0
    tail = b""

    while piece := file.read(HEAD):
        # A line may go on in the next piece.
        *lines, tail = (tail + piece).split(b"\r")
        if b"\n" in tail:
            lines.append(tail)

        for line in lines:
            number += 1
            if b"\n" in line:
                hint = "write it with one kind of line ends, LF"
                raise UserError(
                    "some lines end with CR and others with LF", file=path, line=number, hint=hint
                )
            yield line

    if tail:
        yield tail


def check_encoding(head: bytes, path: Path) -> None:
    """Refuse a file whose first bytes say that it is no UTF-8 text."""
    form = form_of(head)
    if form is not None:
        raise form.error(path)

    name = next((name for mark, name in ENCODING_MARKS if head.startswith(mark)), None)
    if name is None and head.count(0) > NULS * len(head):
        name = "UTF-16"

    if name is not None:
        message = f"this is not UTF-8 text, but looks like {name}"
        raise UserError(message, file=path, line=1, hint=_conversion(name))


def _refuse_encoding(path: Path, number: int, error: UnicodeDecodeError) -> NoReturn:
    """Raise the error for a line that is not UTF-8.

    It has the encoding that the line may have, and what the line then says.
    """
    line = error.object
    hint = "save the file as UTF-8"

    name = _likely_encoding(line)
    if name is not None:
        text = cleaned(line.decode(name, errors="replace"))
        hint = f"it looks like {name}, in which the line reads `{text[:60]}`: {_conversion(name)}"

    message = f"this is not UTF-8 text: byte 0x{line[error.start]:02x}"
    raise UserError(message, file=path, line=number, hint=hint) from error


def _likely_encoding(line: bytes) -> str | None:
    """Guess the encoding of a line by its share of letters that are not ASCII.

    If most are ASCII, it is Latin-1, else that of a script.
    """
    ascii_letters = sum(chr(byte).isalpha() and byte < 128 for byte in line)
    other_bytes = sum(byte >= 128 for byte in line)
    if other_bytes <= ascii_letters:
        # Latin-1 has only control characters there.
        if any(0x80 <= byte < 0xA0 for byte in line):
            return "Windows-1252"
        return "ISO-8859-1"

    try:
        from charset_normalizer import from_bytes  # comes with requests
    except ModuleNotFoundError:
        return None

    # So few bytes may be anything.
    if other_bytes < FEWEST_BYTES:
        return None
    best = from_bytes(line).best()
    if best is None:
        return None
    return str(best.encoding)


def _conversion(name: str) -> str:
    return f"save the file as UTF-8, as by `iconv -f {name} -t UTF-8 FILE > NEW`"
