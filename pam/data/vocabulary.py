"""Symbols and their ids; the first five ids mean the same in every vocabulary.

One of them, STEP, is an action: targets of hard monotone attention (Aharoni and Goldberg 2017) are
actions of a pointer. It starts at source position 0, STEP moves it one position to the right,
and any other action writes that symbol at the pointer's position.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pam.runtime.errors import UserError
from pam.runtime.files import write_text

# padding, begin, end, unknown symbol, pointer step of hard monotone attention
PAD, BOS, EOS, UNK, STEP = range(5)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>", "<step>")  # how ids 0 to 4 are written
END = "</s>"  # how the end symbol is written for people

# characters that a vocabulary file writes in another way
ESCAPES = {"\\": "\\\\", " ": "\\s", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def escape(symbol: str) -> str:
    r"""Return a symbol as its line of a vocabulary file; `unescape` is the inverse.

    Characters of `ESCAPES` are escaped, others that do not print become ``\u{hex}``. A symbol that
    is spelled like a special one, such as ``<unk>`` in a text, gets a backslash in front.
    """
    if symbol in SPECIALS:
        return "\\" + symbol

    pieces = []
    for char in symbol:
        if char in ESCAPES:
            pieces.append(ESCAPES[char])
        elif char.isprintable():
            pieces.append(char)
        else:
            pieces.append(f"\\u{{{ord(char):x}}}")
    return "".join(pieces)


def unescape(line: str) -> str:
    """Return the symbol that `escape` wrote as `line`; a ValueError if it did not."""
    char_of = {escaped[1]: char for char, escaped in ESCAPES.items()}

    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:  # `u{hex}`
            return chr(int(code[2:-1], 16))
        return char_of.get(code, "")

    if line.startswith("\\<"):
        symbol = line[1:]
    else:
        symbol = re.sub(r"\\(u\{[0-9a-f]{1,6}\}|.)", replaced, line, flags=re.DOTALL)

    if not symbol or escape(symbol) != line:
        raise ValueError(f"not a vocabulary's line: {line!r}")
    return symbol


class Vocabulary:
    """Symbols in the order of their ids, each once, none empty.

    The first has id 5, after the five special ones.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, len(SPECIALS))}

        if len(self._ids) != len(self.symbols) or "" in self._ids:
            raise ValueError("a symbol of a vocabulary is empty or there twice")

    @classmethod
    def of(cls, rows: Iterable[Iterable[str]]) -> Vocabulary:
        """Collect all symbols of `rows`, in code point order, whatever the order of rows."""
        return cls(sorted({symbol for row in rows for symbol in row}))

    @classmethod
    def by_frequency(
        cls, counts: Mapping[str, int], size: int | None = None, min_count: int = 1
    ) -> Vocabulary:
        """Collect the `size` most frequent symbols that occur `min_count` times or more.

        Ties are in code point order.
        """
        frequent = [symbol for symbol, count in counts.items() if count >= min_count]
        return cls(sorted(frequent, key=lambda symbol: (-counts[symbol], symbol))[:size])

    def with_new(self, symbols: Iterable[str]) -> Vocabulary:
        """Append the symbols that it lacks, in their order; what it has keeps its id."""
        return Vocabulary([*self.symbols, *(symbol for symbol in symbols if symbol not in self)])

    def extends(self, other: Vocabulary) -> bool:
        """Return whether it begins with all symbols of another one, with their ids."""
        return self.symbols[: len(other.symbols)] == other.symbols

    @classmethod
    def load(cls, path: Path | str) -> Vocabulary:
        """Read a file written by `save`; a UserError names the line if it is no vocabulary."""
        hint = "prepare the data again, or take the file from where the model was made"
        try:
            lines = Path(path).read_text(encoding="utf-8").split("\n")
        except FileNotFoundError as error:
            raise UserError("no such file", file=path, hint=hint) from error
        except UnicodeDecodeError as error:
            raise UserError("this is not a vocabulary", file=path, hint=hint) from error

        for number, special in enumerate(SPECIALS):
            if lines[number : number + 1] != [special]:
                message = f"this is not a vocabulary: `{special}` must stand here"
                raise UserError(message, file=path, line=number + 1, hint=hint)
        if lines.pop() != "":
            raise UserError("the last line is cut short", file=path, hint=hint)

        # A dict keeps their order, and finds symbols that are there twice.
        symbols: dict[str, None] = {}
        for number, line in enumerate(lines[len(SPECIALS) :], len(SPECIALS) + 1):
            try:
                symbol = unescape(line)
            except ValueError as error:
                raise UserError(str(error), file=path, line=number, hint=hint) from error
            if symbol in symbols:
                raise UserError(
                    f"symbol `{line}` is there twice", file=path, line=number, hint=hint
                )
            symbols[symbol] = None

        return cls(symbols)

    def save(self, path: Path | str) -> None:
        """Write one symbol a line, whole or not at all."""
        write_text(path, self._text)

    @cached_property
    def _text(self) -> str:
        return "\n".join([*SPECIALS, *map(escape, self.symbols)]) + "\n"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file that `save` writes."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    def encode(self, symbols: Iterable[str], source: Sequence[str] = ()) -> list[int]:
        """Return the ids of `symbols`; a symbol that is not in the vocabulary becomes UNK.

        With a source that symbols are copied from, the vocabulary is extended by it (See et al.
        2017): a symbol that is not in the vocabulary becomes its size + the first position at which
        the source has the symbol, UNK if it has not.
        """
        extended_ids: dict[str, int] = {}
        for extended_id, symbol in enumerate(source, len(self)):
            if symbol not in self._ids:
                extended_ids.setdefault(symbol, extended_id)

        # No symbol has id 0, which is PAD.
        return [self._ids.get(symbol) or extended_ids.get(symbol, UNK) for symbol in symbols]

    def spell(self, ids: Sequence[int], source: Sequence[str] = ()) -> list[str]:
        """Return the symbols of `ids`, special ones as `<eos>`; `source` as in `encode`."""
        spellings = (*SPECIALS, *self.symbols, *source)
        return [spellings[int(number)] for number in ids]

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._ids

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.symbols)


def vocabularies_of(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """Read the vocabularies of source and target of a prepared folder, or of a model's."""
    return Vocabulary.load(folder / "source.vocab"), Vocabulary.load(folder / "target.vocab")


def ended(ids: Iterable[int], end: bool = True) -> list[int]:
    """Return a row of ids as a model reads or writes it: with EOS at its end, if `end`."""
    if end:
        return [*ids, EOS]
    return list(ids)


def to_actions(
    target_ids: Sequence[int], alignment: Sequence[int], source_length: int
) -> list[int]:
    """Insert STEPs so that each symbol is written where it is aligned.

    `target_ids` are m symbols, the last of them EOS; `alignment` has the source positions of the
    first m - 1. EOS is written at the last of the `source_length` positions, be that the source's
    own EOS or its last symbol. That makes m + source_length - 1 actions. A ValueError says that
    positions decrease or leave the source.
    """
    if len(alignment) != len(target_ids) - 1:
        raise ValueError("every target symbol but the last needs a position")

    actions: list[int] = []
    pointer = 0
    # EOS, the last symbol, is written at the last position.
    for symbol, position in zip(target_ids, [*alignment, source_length - 1], strict=True):
        if not pointer <= position < source_length:
            raise ValueError(f"position {position} after {pointer} of {source_length}")

        actions.extend([STEP] * int(position - pointer))
        actions.append(int(symbol))
        pointer = position
    return actions


def strip(ids: Iterable[int]) -> list[int]:
    """Return the symbols that actions write: all but the STEPs."""
    return [int(number) for number in ids if number != STEP]
