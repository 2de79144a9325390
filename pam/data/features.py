"""Clips as arrays (frames, units), from a user's files to a model's input.

A unit is one of the numbers that are known of a frame. Files are trusted no more than texts: no
pickles, no arrays of another shape, no numbers that are not finite.
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
from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write, read_json, scratch_folder, write_json

Vectors = NDArray[np.float32]  # (frames, units) of a clip
# the first bytes of a file that holds an array for each clip, by its name
HDF5 = b"\x89HDF\r\n\x1a\n"
# the end of the name of a file that holds the array of the clip that it is named for
ARRAY = ".npy"
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
# bytes of an array for each byte of a compressed file: more than deflate can pack
MOST_PACKED = 1100


class Frames(list[str]):
    """A clip as a source.

    Its symbols are the numbers of its frames, from 1; `vectors` are what a model reads of them.
    """

    def __init__(self, vectors: Vectors) -> None:
        super().__init__(map(str, range(1, len(vectors) + 1)))
        self.vectors = vectors


def read_array(path: Path, named: Path | str | None = None) -> Vectors:
    """Read a clip's array from a `.npy` file; a UserError calls a wrong one `named`."""
    location = str(named or path)
    try:
        array = np.array(_mapped(path))  # pickled objects are refused
    except FileNotFoundError as error:
        hint = "name a `.npy` file of the clip's frames"
        raise UserError("no such file", file=location, hint=hint) from error
    except DAMAGED as error:
        hint = (
            "save it by `numpy.save(path, array)`, an array of numbers: pickled objects are not"
            " read"
        )
        raise UserError("this is not an array of numbers", file=location, hint=hint) from error

    return checked(array, location)


def _mapped(path: Path) -> NDArray[Any]:
    """Open the array of a `.npy` file on disk; raises one of `DAMAGED` if it cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of headers that numpy had to guess at
        return np.lib.format.open_memmap(path, mode="r")


def checked(array: Any, location: str, units: int | None = None) -> Vectors:
    """Return an array as vectors of `units` numbers; a UserError names its `location`."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise UserError(
            "this is not an array of numbers", file=location, hint="save floating point numbers"
        )
    if array.ndim != 2 or 0 in array.shape:
        shape = " x ".join(map(str, array.shape)) or "a single number"
        message = f"an array of {shape} is not a clip of frames x units"
        raise UserError(message, file=location, hint="save one row of units for each frame")
    if units is not None and array.shape[1] != units:
        message = f"frames of {array.shape[1]} units, where others have {units}"
        hint = "make the features of all clips by the same network"
        raise UserError(message, file=location, hint=hint)

    # After the conversion, as numbers that float32 does not hold are not finite in it.
    with np.errstate(over="ignore"):
        vectors = np.ascontiguousarray(array, dtype=np.float32)

    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        frame = int(np.flatnonzero(~finite)[0]) + 1
        message = f"frame {frame} has numbers that are not finite"
        raise UserError(message, file=location, hint="leave the clip out")
    return vectors


@contextmanager
def clips_in(path: Path) -> Iterator[tuple[list[str], Callable[[str], Vectors]]]:
    """Give the names of the clips of a file, and a function that reads one.

    The file is HDF5, or an archive of `.npy` files. A UserError says that the file holds none, or
    names the clip that is not as it should be.
    """
    with open(path, "rb") as file:
        is_hdf5 = file.read(len(HDF5)) == HDF5
    opened = _hdf5(path) if is_hdf5 else _archive(path)

    with opened as (names, read):
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
        array_of: dict[str, Path] = {}
        for array in sorted(folder.rglob(f"*{ARRAY}")):
            # macOS leaves a file of notes, `._clip.npy`, beside each file `clip.npy`.
            is_companion = array.name.startswith("._")
            if is_companion and array.with_name(array.name.removeprefix("._")).is_file():
                continue

            name = array.name.removesuffix(ARRAY)
            if name in array_of:
                names = [str(file.relative_to(folder)) for file in (array_of[name], array)]
                message = f"two arrays for the clip `{name}`: {' and '.join(names)}"
                raise UserError(message, file=path, hint="leave one of them out")
            array_of[name] = array

        def read(name: str) -> Vectors:
            return read_array(array_of[name], named=path / array_of[name].relative_to(folder))

        yield list(array_of), read


@contextmanager
def _hdf5(path: Path) -> Iterator[tuple[list[str], Callable[[str], Vectors]]]:
    try:
        import h5py  # optional: features are mostly files of their own
    except ModuleNotFoundError as error:
        hint = "pip install h5py"
        raise UserError("HDF5 needs the package h5py", file=path, hint=hint) from error

    def read(name: str) -> Vectors:
        location = f"{path}/{name}"
        try:
            stored = content[name]
            # A header may ask for more memory than the machine has.
            if stored.nbytes > MOST_PACKED * stored.id.get_storage_size():
                raise EOFError
            array = stored[()]
        except DAMAGED as error:
            hint = "write the file again"
            raise UserError("this array is damaged", file=location, hint=hint) from error
        return checked(array, location)

    try:
        content = h5py.File(path, "r")
        names = [name for name, item in content.items() if isinstance(item, h5py.Dataset)]
    except DAMAGED as error:
        message = "this is not an HDF5 file, or it is damaged"
        raise UserError(message, file=path, hint="write it again") from error

    with content:
        yield names, read


def spaced(vectors: Vectors, first: int | None, count: int | None) -> Vectors:
    """Return `count` frames, spaced equally over the `first` ones (Yao et al. 2015).

    Of a clip that has fewer, all are returned.
    """
    begin = vectors[:first]
    if count is None or len(begin) <= count:
        return begin

    frames = np.linspace(0, len(begin) - 1, count).round().astype(int)
    chosen: Vectors = begin[frames]
    return chosen


@dataclass(frozen=True)
class Table:
    """The clips of a prepared folder.

    All frames are in one file, of which only those that are asked for are read.
    """

    # frames, and where those of each clip begin
    FILES: ClassVar[tuple[str, str]] = ("features.npy", "clips.json")

    frames: Vectors  # (all frames, units), on disk
    # clip to the rows of its first frame and of that after its last
    places: Mapping[str, tuple[int, int]]

    @classmethod
    def load(cls, folder: Path) -> Table:
        """Read what `write_table` wrote; a UserError if it is missing or damaged."""
        frames_path, places_path = (folder / name for name in cls.FILES)
        try:
            frames = _mapped(frames_path)
            places = {}
            for clip, (begin, end) in read_json(places_path).items():
                places[clip] = (int(begin), int(end))
        except DAMAGED as error:
            message = "these are not prepared features"
            raise UserError(message, file=frames_path, hint="prepare the data again") from error

        return cls(frames, places)

    def __getitem__(self, clip: str) -> Vectors:
        begin, end = self.places[clip]

        # A copy, as torch takes no array that cannot be written to.
        return np.array(self.frames[begin:end])


@dataclass(frozen=True)
class ClipRows:
    """Vectors of the clip of each row of a split; a clip occurs as often as it has captions."""

    table: Table
    clips: list[str]

    def __getitem__(self, row: int) -> Vectors:
        return self.table[self.clips[row]]


def write_table(
    folder: Path, clips: Sequence[str], read: Callable[[str], Vectors]
) -> dict[str, int]:
    """Write the clips into a folder, each file whole or not at all.

    Returns how many frames each has. A UserError names the clip whose frames have another width
    than those of the first.
    """
    lengths: dict[str, int] = {}
    places: dict[str, tuple[int, int]] = {}
    units = 0
    total = 0
    for clip in clips:
        vectors = read(clip)
        units = units or vectors.shape[1]
        checked(vectors, clip, units)
        lengths[clip] = len(vectors)
        places[clip] = (total, total + len(vectors))
        total += len(vectors)

    # Clips are read a second time, so that no more than one is in memory.
    frames_path, places_path = (folder / name for name in Table.FILES)
    with atomic_write(frames_path) as temporary:
        frames = np.lib.format.open_memmap(
            temporary, mode="w+", dtype=np.float32, shape=(total, units)
        )
        for clip, (begin, end) in places.items():
            frames[begin:end] = read(clip)
        frames.flush()
        del frames

    write_json(places_path, {clip: list(ends) for clip, ends in places.items()})
    return lengths
