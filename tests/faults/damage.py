"""Damage that files suffer: bits that flip, parts that go missing, and files of others."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[bytes, random.Random], bytes]


def _place(content: bytes, draw: random.Random) -> tuple[int, int]:
    """Begin and end of a range, most often a short one."""
    begin = draw.randrange(len(content))
    length = draw.choice([1, 1, 4, 64, 4096])
    return begin, min(len(content), begin + length)


def flipped(content: bytes, draw: random.Random) -> bytes:
    """One bit."""
    changed = bytearray(content)
    changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwritten(content: bytes, draw: random.Random) -> bytes:
    """A range of any bytes."""
    begin, end = _place(content, draw)
    return content[:begin] + draw.randbytes(end - begin) + content[end:]


def zeroed(content: bytes, draw: random.Random) -> bytes:
    """A range of zeros, as a file system leaves them after a crash."""
    begin, end = _place(content, draw)
    return content[:begin] + bytes(end - begin) + content[end:]


def cut(content: bytes, draw: random.Random) -> bytes:
    """The end is missing, or all."""
    return content[: draw.randrange(len(content))]


def holed(content: bytes, draw: random.Random) -> bytes:
    """A range is missing."""
    begin, end = _place(content, draw)
    return content[:begin] + content[end:]


def doubled(content: bytes, draw: random.Random) -> bytes:
    """A range stands twice."""
    begin, end = _place(content, draw)
    return content[:end] + content[begin:]


def extended(content: bytes, draw: random.Random) -> bytes:
    """Bytes follow that are none of it."""
    return content + draw.choice([b"\0", b"\n", draw.randbytes(100), content])


def moved(content: bytes, draw: random.Random) -> bytes:
    """A range stands at the end."""
    begin, end = _place(content, draw)
    return content[:begin] + content[end:] + content[begin:end]


DAMAGES: tuple[Damage, ...] = (
    flipped,
    flipped,
    overwritten,
    zeroed,
    cut,
    holed,
    doubled,
    extended,
    moved,
)
"""Flipped bits are the most frequent."""


def damage(path: Path, draw: random.Random) -> str:
    """Damages a file.

    Returns:
        What was done, in words.
    """
    content = path.read_bytes()
    done = draw.choice(DAMAGES)
    changed = done(content, draw)
    path.write_bytes(changed)
    return f"{path.name} {done.__name__}, {len(content)} to {len(changed)} bytes"
