"""Clips as what is known of their frames: an array (frames, units) each, from a user's files to a
model's input.

Files are trusted no more than texts: no pickles, no arrays of another shape, no numbers that are
none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pam.data.archives import extract_all
from pam.io import UserError, atomic_write, read_json, scratch_folder, write_json

Vectors = NDArray[np.float32]  # (frames, units) of a clip
HDF5 = (  # the first bytes of a file that holds an array for each clip, by its name
    b"\x89HDF\r\n\x1a\n"
)
ARRAY = ".npy"  # how names of files end that hold the array of the clip that they are named for
# What numpy and h5py raise at headers that they cannot read, or that describe more than there is.
DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TokenError,
)
MOST_PACKED = (
    1100  # bytes of an array for each byte of a compressed file: more than deflate can pack
)


class Frames(list[str]):
    """A clip as a source: its symbols are the numbers of its frames, from 1, with what a model
    reads of each.
    """

    def __init__(self, vectors: Vectors) -> None:
        super().__init__(map(str, range(1, len(vectors) + 1)))
        self.vectors = vectors


def read_array(path: Path, named: Path | str | None = None) -> Vectors:
    """Read a clip's array from a `.npy` file; a UserError calls a wrong one `named`."""
    place = str(named or path)
    try:
        array = np.array(_mapped(path))  # pickled objects are refused
    except FileNotFoundError as error:
        raise UserError(
            "no such file", file=place, hint="name a `.npy` file of the clip's frames"
        ) from error
    except DAMAGED as error:
        hint = (
            "save it by `numpy.save(path, array)`, an array of numbers: pickled objects are not"
            " read"
        )
        raise UserError("this is not an array of numbers", file=place, hint=hint) from error
    return checked(array, place)


def _mapped(path: Path) -> NDArray[Any]:
    """The array of a `.npy` file, on disk; one of `DAMAGED` if it is none, or is cut short."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of headers that numpy had to guess at
        return np.lib.format.open_memmap(path, mode="r")


def checked(array: Any, place: str, units: int | None = None) -> Vectors:
    """Return an array as vectors of `units` numbers; a UserError says what is wrong at `place`."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise UserError(
            "this is not an array of numbers", file=place, hint="save floating point numbers"
        )
    shape = " x ".join(map(str, array.shape))
    if array.ndim != 2 or 0 in array.shape:
        hint = "save one row of units for each frame"
        raise UserError(
            f"an array of {shape or 'a single number'} is no clip of frames x units",
            file=place,
            hint=hint,
        )
    if units is not None and array.shape[1] != units:
        hint = "make the features of all clips by the same network"
        raise UserError(
            f"frames of {array.shape[1]} units, where others have {units}", file=place, hint=hint
        )
    # After the conversion, as numbers that float32 does not hold are not finite in it.
    with np.errstate(over="ignore"):
        vectors = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        frame = int(np.flatnonzero(~finite)[0]) + 1
        hint = "leave the clip out"
        raise UserError(f"frame {frame} has numbers that are not finite", file=place, hint=hint)
    return vectors


@contextmanager
def clips_in(path: Path) -> Iterator[tuple[list[str], Callable[[str], Vectors]]]:
    """The names of the clips of a file, and what reads one: of HDF5, or an archive of `.npy` files.

    A UserError says that the file holds none, or names the clip that is not as it should be.
    """
    with open(path, "rb") as file:
        opened = _hdf5 if file.read(len(HDF5)) == HDF5 else _archive
    with opened(path) as (names, read):
        if not names:
            hint = (
                "put a `.npy` file for each clip into the archive, or name an HDF5 file with an"
                " array for each"
            )
            raise UserError("no features of clips", file=path, hint=hint)
        yield names, read


@contextmanager
def _archive(path: Path) -> Iterator[tuple[list[str], Callable[[str], Vectors]]]:
    with scratch_folder() as folder:
        extract_all(path, folder)
        found = {own.name.removesuffix(ARRAY): own for own in sorted(folder.rglob(f"*{ARRAY}"))}
        yield (
            list(found),
            lambda name: read_array(found[name], path / found[name].relative_to(folder)),
        )


@contextmanager
def _hdf5(path: Path) -> Iterator[tuple[list[str], Callable[[str], Vectors]]]:
    try:
        import h5py  # optional: features are mostly files of their own
    except ModuleNotFoundError as error:
        raise UserError(
            "HDF5 needs the package h5py", file=path, hint="pip install h5py"
        ) from error

    def read(name: str) -> Vectors:
        place = f"{path}/{name}"
        try:
            stored = content[name]
            if stored.nbytes > MOST_PACKED * stored.id.get_storage_size():
                raise EOFError
            array = stored[()]
        except DAMAGED as error:
            raise UserError(
                "this array is damaged", file=place, hint="write the file again"
            ) from error
        return checked(array, place)

    try:
        content = h5py.File(path, "r")
        names = [name for name, own in content.items() if isinstance(own, h5py.Dataset)]
    except DAMAGED as error:
        raise UserError(
            "this is not an HDF5 file, or it is damaged", file=path, hint="write it again"
        ) from error
    with content:
        yield names, read


def spaced(vectors: Vectors, first: int | None, count: int | None) -> Vectors:
    """So many frames, spaced equally over the first ones (Yao et al.

    2015); all of a clip that has fewer.
    """
    begin = vectors[:first]
    if count is None or len(begin) <= count:
        return begin
    chosen: Vectors = begin[np.linspace(0, len(begin) - 1, count).round().astype(int)]
    return chosen


@dataclass(frozen=True)
class Table:
    """The clips of a prepared folder: all frames are in one file, of which only those that are
    asked for are read.
    """

    # frames, and where those of each clip begin
    FILES: ClassVar[tuple[str, str]] = ("features.npy", "clips.json")

    frames: Vectors  # (all frames, units), on disk
    # clip to the rows of its first frame and of that after its last
    places: Mapping[str, tuple[int, int]]

    @classmethod
    def load(cls, folder: Path) -> Table:
        """Reads what `write_table` wrote; a UserError if it is missing or damaged."""
        path, places = (folder / name for name in cls.FILES)
        try:
            frames = _mapped(path)
            found = {
                clip: (int(begin), int(end)) for clip, (begin, end) in read_json(places).items()
            }
        except DAMAGED as error:
            raise UserError(
                "these are not prepared features", file=path, hint="prepare the data again"
            ) from error
        return cls(frames, found)

    def __getitem__(self, clip: str) -> Vectors:
        begin, end = self.places[clip]
        # A copy, as torch takes no array that cannot be written to.
        return np.array(self.frames[begin:end])


@dataclass(frozen=True)
class ClipRows:
    """Of each row of a split what is known of its clip's frames; a clip is there as often as it has
    captions.
    """

    table: Table
    clips: list[str]

    def __getitem__(self, row: int) -> Vectors:
        return self.table[self.clips[row]]


def write_table(
    folder: Path, clips: Sequence[str], read: Callable[[str], Vectors]
) -> dict[str, int]:
    """Writes the clips into a folder, each file whole or not at all; returns how many frames each
    has.

    A UserError names the clip whose frames have another width than those of the first.
    """
    lengths, places, units, total = dict[str, int](), dict[str, tuple[int, int]](), 0, 0
    for clip in clips:
        vectors = read(clip)
        units = units or vectors.shape[1]
        checked(vectors, clip, units)
        lengths[clip] = len(vectors)
        places[clip] = total, total + len(vectors)
        total += len(vectors)
    path, where = (folder / name for name in Table.FILES)
    with atomic_write(path) as temporary:
        frames = np.lib.format.open_memmap(
            temporary, mode="w+", dtype=np.float32, shape=(total, units)
        )
        for clip, (begin, end) in places.items():
            frames[begin:end] = read(clip)
        frames.flush()
        del frames
    write_json(where, {clip: list(ends) for clip, ends in places.items()})
    return lengths
