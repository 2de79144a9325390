"""Talks as the WIT3 archives hold them (Cettolo et al. 2012), read in the usual way.

Lines of `train.tags.*` without the talk's address, number and keywords are training text, titles
and descriptions too; segments of the `.xml` files, one set after another, are the test text, with
plain apostrophes. Development text is cut from training text later (`dev_every`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from pydantic import Field

from pam.data.archives import extract_all
from pam.data.readers import Pair
from pam.data.readers.lines import side_by_side
from pam.data.tasks import Files
from pam.data.text import Line, lines_of
from pam.io import Strict, UserError

ALL = "all"
"""The one file: the archive."""

ABOUT = ("<url>", "<talkid>", "<keywords>")
"""Lines of training files that are not text."""

_TITLES = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')


class Options(Strict):
    """Which files of the archive are read."""

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


def splits(options: Options) -> tuple[str, ...]:
    """The archive."""
    return (ALL,)


def read(
    files: Files, languages: tuple[str, str], options: Options
) -> Iterator[tuple[str, Iterator[Pair]]]:
    """Train and test; see `Reader.read`."""
    archive = files[ALL]
    if not isinstance(archive, Path):
        raise UserError(f"split {ALL} has several files", hint="name the archive alone")
    with tempfile.TemporaryDirectory(prefix="pam-") as folder:
        extract_all(archive, Path(folder))
        talks = Talks(archive, Path(folder))

        def pairs(name: str, text: Callable[[Iterator[Line]], Iterator[Line]]) -> Iterator[Pair]:
            source, target = (name.format(language) for language in languages)
            return side_by_side(
                text(talks.lines(source)),
                text(talks.lines(target)),
                (archive / source, archive / target),
            )

        yield "train", pairs(f"train.tags.{options.pair}.{{}}", _training)
        tests = [f"{name}.{options.pair}.{{}}.xml" for name in options.test]
        yield "test", chain.from_iterable(pairs(test, _segments) for test in tests)


class Talks:
    """The files of an extracted archive, by their names without folders."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive = archive
        self._files = {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}

    def lines(self, name: str) -> Iterator[Line]:
        """Lines of a file; in messages it stands under the archive.

        Raises:
            UserError: there is no such file, or as `lines_of`.
        """
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


def _training(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if not any(tag in line.text for tag in ABOUT):
            yield line._replace(text=_TITLES.sub("", line.text))


def _segments(lines: Iterator[Line]) -> Iterator[Line]:
    for line in lines:
        if "<seg id" in line.text:
            yield line._replace(text=_SEGMENT.sub("", line.text).replace("’", "'"))
