"""A file for each language, as `lines`; files that end in `.sgm` hold marked segments instead.

So are the development and test sets of WMT written: a segment `<seg id="1">...</seg>` a line, with
marks of SGML escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from pam.data.divide import in_splits
from pam.data.readers import Pair
from pam.data.readers.lines import Options, known_files, side_by_side, splits
from pam.data.tasks import Files
from pam.data.text import Line, lines_of
from pam.io import UserError

__all__ = ["Options", "read", "splits"]

_SEGMENT = re.compile(r"<seg id=\"?\w+\"?>\s*(.*?)\s*</seg>", flags=re.IGNORECASE)


def read(
    files: Files, languages: tuple[str, str], options: Options
) -> Iterator[tuple[str, Iterator[Pair]]]:
    """Each split's pairs; see `Reader.read`."""
    for split, source, target in known_files(files, languages):
        pairs = side_by_side(_lines(source), _lines(target), (source, target))
        yield from in_splits(split, pairs, languages, options.divide)


def _lines(path: Path) -> Iterator[Line]:
    return _segments(path) if path.suffix == ".sgm" else lines_of(path)


def _segments(path: Path) -> Iterator[Line]:
    """Segments of a file.

    Raises:
        UserError: a segment that does not end in its line, or no segment at all.
    """
    found = False
    for line in lines_of(path):
        if "<seg" in line.text.lower():
            segment = _SEGMENT.search(line.text)
            if segment is None:
                raise UserError(
                    "a segment that does not end in its line",
                    file=path,
                    line=line.number,
                    hint="fetch the file again, or write each segment on one line",
                )
            found = True
            yield line._replace(text=html.unescape(segment[1]))
    if not found:
        raise UserError(
            "no segments", file=path, hint="name a file with `<seg>`, or one without `.sgm`"
        )
