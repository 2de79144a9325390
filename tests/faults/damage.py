"""Damage that files suffer: bits that flip, parts that go missing, and files of others."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[bytes, random.Random], bytes]


def _range(content: bytes, draw: random.Random) -> tuple[int, int]:
    """Draw the begin and the end of a range, most often a short one."""
    begin = draw.randrange(len(content))
    length = draw.choice([1, 1, 4, 64, 4096])

    return begin, min(len(content), begin + length)


def flipped(content: bytes, draw: random.Random) -> bytes:
    """Flip one bit."""
    changed = bytearray(content)
    changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)

    return bytes(changed)


def overwritten(content: bytes, draw: random.Random) -> bytes:
    """Write any bytes over a range."""
    begin, end = _range(content, draw)
    return content[:begin] + draw.randbytes(end - begin) + content[end:]


def zeroed(content: bytes, draw: random.Random) -> bytes:
    """Write zeros over a range, as a file system leaves them after a crash."""
    begin, end = _range(content, draw)
    return content[:begin] + bytes(end - begin) + content[end:]


def cut(content: bytes, draw: random.Random) -> bytes:
    """Cut the end off, or all."""
    return content[: draw.randrange(len(content))]


def holed(content: bytes, draw: random.Random) -> bytes:
    """Leave a range out."""
    begin, end = _range(content, draw)
    return content[:begin] + content[end:]


def doubled(content: bytes, draw: random.Random) -> bytes:
    """Write a range twice."""
    begin, end = _range(content, draw)
    return content[:end] + content[begin:]


def extended(content: bytes, draw: random.Random) -> bytes:
    """Append bytes that are no part of it."""
    return content + draw.choice([b"\0", b"\n", draw.randbytes(100), content])


def moved(content: bytes, draw: random.Random) -> bytes:
    """Move a range to the end."""
    begin, end = _range(content, draw)
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
    """Damage a file; return in words what was done."""
    content = path.read_bytes()
    done = draw.choice(DAMAGES)
    changed = done(content, draw)
    path.write_bytes(changed)

    return f"{path.name} {done.__name__}, {len(content)} to {len(changed)} bytes"
