"""Aligners that are programs: eflomal and fast_align, run beside models where they are installed.

They learn from the text that they align. Both directions are asked for, and joined as those of
models are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from pam.alignment.aligner import BLANK, WordAlignment
from pam.alignment.links import Link
from pam.alignment.symmetrization import (
    DEFAULT,
    IS_LINK,
    NONE,
    ONE_DIRECTION,
    SYMMETRIZATIONS,
    Directions,
    as_matrix,
)
from pam.alignment.words import words_between_spaces
from pam.runtime.errors import UserError
from pam.runtime.files import scratch_folder


class NotInstalledError(UserError):
    """A program that is not installed here."""


@dataclass(frozen=True)
class Program:
    """How an aligner is called."""

    name: str
    executable: str
    install: str  # what to do where it is absent
    commands: Callable[[str, Path], list[list[str]]]  # of the executable and a folder


def _eflomal(executable: str, folder: Path) -> list[list[str]]:
    """Return the call of eflomal by its defaults, for both directions at once."""
    files = {"-s": "source", "-t": "target", "-f": "ahead", "-r": "back"}
    options = [text for option, name in files.items() for text in (option, str(folder / name))]
    return [[executable, "-m", "3", *options, "--overwrite"]]


def _fast_align(executable: str, folder: Path) -> list[list[str]]:
    """Return the calls of fast_align as its manual has them, one for each direction."""
    call = [executable, "-i", str(folder / "both"), "-d", "-o", "-v"]
    return [call, [*call, "-r"]]


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            name="eflomal",
            executable="eflomal-align",
            install="pip install eflomal",
            commands=_eflomal,
        ),
        Program(
            name="fast_align",
            executable="fast_align",
            install="build https://github.com/clab/fast_align and add it to PATH",
            commands=_fast_align,
        ),
    )
}


class ProgramAligner:
    """An installed program that links words between spaces.

    Raises:
        UserError: it is not installed, or there is no such symmetrization for it.
    """

    def __init__(self, name: str, symmetrize: str | None = None) -> None:
        self.program = PROGRAMS[name]
        self.reading = symmetrize or DEFAULT
        if self.reading == NONE:
            self.reading = ONE_DIRECTION
        elif self.reading not in SYMMETRIZATIONS:
            raise UserError(
                f"{name} gives no probabilities, which `{self.reading}` needs",
                hint=f"use one of {', '.join(SYMMETRIZATIONS)}",
            )

        executable = self.program.executable
        # Beside the Python that runs this, whose environment need not be active.
        beside = Path(sys.executable).parent / executable
        path = shutil.which(executable) or (str(beside) if beside.is_file() else None)
        if path is None:
            raise NotInstalledError(f"{name} is not installed", hint=self.program.install)
        self.path = path

    def stream(self, pairs: Iterable[tuple[str, str]]) -> Iterator[WordAlignment]:
        """Yield the links of pairs of texts, once the program has read all of them."""
        with scratch_folder() as folder:
            is_blank = _write(pairs, folder)
            if not all(is_blank):
                self._run(folder)
            yield from self._read(folder, is_blank)

    def _run(self, folder: Path) -> None:
        """Run the program on the files in a folder."""
        names = ("ahead", "back")
        for name, command in zip(names, self.program.commands(self.path, folder), strict=False):
            with open(folder / name, "wb") as out, open(folder / "log", "wb") as log:
                code = subprocess.run(command, stdout=out, stderr=log, check=False).returncode
            if code:
                lines = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
                last = lines[-1] if lines else "it says nothing"
                message = f"{self.program.name} ended with exit code {code}: {last}"
                raise UserError(message, hint="try it by itself on the same text")

    def _read(self, folder: Path, is_blank: list[bool]) -> Iterator[WordAlignment]:
        """Yield the links that the program wrote, and none for blank pairs."""
        with ExitStack() as stack:
            names = ("source", "target", "ahead", "back")
            files: list[Iterable[str]] = [[], [], [], []]
            if not all(is_blank):
                files = [
                    stack.enter_context(open(folder / name, encoding="utf-8")) for name in names
                ]
            rows = zip_longest(*files, fillvalue="")
            for blank in is_blank:
                if blank:
                    yield BLANK
                    continue
                source, target, ahead, back = next(rows)
                source_words = words_between_spaces(source)
                target_words = words_between_spaces(target)
                shape = (len(source_words), len(target_words))
                directions = Directions(
                    ahead=as_matrix(_parsed(ahead), shape),
                    back=as_matrix(_parsed(back), shape),
                    threshold=IS_LINK,
                    has_probabilities=False,
                )
                yield WordAlignment.of(source_words, target_words, directions, self.reading)


def _write(pairs: Iterable[tuple[str, str]], folder: Path) -> list[bool]:
    """Write the texts of pairs as the programs read them; return which pairs are blank."""
    is_blank = []
    with ExitStack() as stack:
        source_file, target_file, both_file = (
            stack.enter_context(open(folder / name, "w", encoding="utf-8"))
            for name in ("source", "target", "both")
        )
        for source, target in pairs:
            source_text = " ".join(source.split())
            target_text = " ".join(target.split())
            is_blank.append(not source_text or not target_text)
            if not is_blank[-1]:
                source_file.write(f"{source_text}\n")
                target_file.write(f"{target_text}\n")
                # The sign between both texts would divide a line once more.
                texts = [text.replace("|||", "|_|") for text in (source_text, target_text)]
                both_file.write(f"{' ||| '.join(texts)}\n")
    return is_blank


def _parsed(text: str) -> set[Link]:
    """Return the links of a line, `0-0 1-2`."""
    links = set()
    for link in text.split():
        source, _, target = link.partition("-")
        links.add((int(source), int(target)))
    return links
