"""Prepared data on disk, and the batches that are drawn from it.

A prepared folder holds `{train,dev,test}.{tsv,safetensors}`, `{source,target}.vocab`, the files of
its codec, and `summary.json`. Each tensor file has the name of its split and digests of its arrays,
of the vocabularies and of its text. The summary has digests of all files and of itself. So a
damaged or foreign file is found when it is read.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from pam.data.codecs import Codec, load_codec
from pam.data.features import ClipRows, Table
from pam.data.text_rows import TextRows
from pam.data.vocabulary import EOS, PAD, UNK, Vocabulary, ended, to_actions
from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write, read_json, sha256_of, whole_files, write_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SPLITS = ("train", "dev", "test")
# the counts of a prepared folder and the hashes of its files, written last
SUMMARY = "summary.json"
# the same in the folder of a stage before the last
RECORD = "record.json"
HINT = "delete the folder and prepare the data again"
CHECKSUM = "content_sha256"

Numbers = Iterable[Sequence[int]]  # rows of ids or of positions
# numbers of symbols of source and target that are read of a longer one; None: all
Limits = tuple[int | None, int | None]
Ids = NDArray[np.int32]
Rows = NDArray[np.int64]  # numbers of rows, or the offsets at which they begin


@contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """Open a UTF-8 file with LF line ends to write to; it is whole, or as it was."""
    with (
        atomic_write(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


# JSON with a digest of its own content, so that damage is found when it is read.


def write_checksummed(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write keys and values as JSON, whole or not at all.

    Returns what was written, the digest included.
    """
    written = dict(content) | {CHECKSUM: _digest(content)}
    write_json(path, written)
    return written


def read_checksummed(path: Path, content_name: str, hint: str) -> dict[str, Any]:
    """Read a file of `write_checksummed`.

    A UserError says that it is missing, damaged, or not what messages call `content_name`.
    """
    content = read_json(path)
    if not isinstance(content, dict) or CHECKSUM not in content:
        raise UserError(f"not {content_name}", file=path, hint=hint)
    if content[CHECKSUM] != _digest(content):
        raise UserError("the file is damaged", file=path, hint=hint)
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of keys and values, whatever their order and the file's layout."""
    checked = {key: value for key, value in content.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(checked, sort_keys=True).encode()).hexdigest()


# Ids of a split.


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths in one array, to save memory.

    Row i is `values[offsets[i]:offsets[i + 1]]`.
    """

    values: Ids  # int32, all rows, one after another
    offsets: Rows  # int64, rows + 1 offsets from 0

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Store rows that are taken one by one, so that no list holds them all."""
        values = array("i")
        offsets = array("q", [0])
        for row in rows:
            values.extend(row)
            offsets.append(len(values))

        # Without copies, which would fill the memory for a large corpus.
        return cls(np.asarray(values), np.asarray(offsets))

    @property
    def lengths(self) -> Rows:
        return np.diff(self.offsets)

    def __getitem__(self, row: int) -> Ids:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[Ids]:
        return (self[row] for row in range(len(self)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def reread_unknown(self, read: Callable[[int], Sequence[int]]) -> Ragged:
        """Replace the rows that have an unknown symbol by what `read` returns for their numbers.

        Of each row as many ids are taken as it had.
        """
        values = self.values.copy()
        has_unknown = np.logical_or.reduceat(values == UNK, self.offsets[:-1])
        for row in np.flatnonzero(has_unknown).tolist():
            first, last = self.offsets[row : row + 2].tolist()
            values[first:last] = read(row)[: last - first]
        return Ragged(values, self.offsets)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Boolean mask of the rows that end with EOS; no row may be empty."""
        return np.asarray(self.values[self.offsets[1:] - 1] == EOS)

    def is_sound(self) -> bool:
        """Check that the arrays fit together and all rows are ids, at least one each."""
        values = self.values
        offsets = self.offsets
        if values.dtype != np.int32 or offsets.dtype != np.int64:
            return False
        if offsets[0] != 0 or offsets[-1] != len(values) or (self.lengths < 1).any():
            return False
        return bool((values >= 0).all())


@dataclass(frozen=True)
class Split:
    """The ids of one split, with digests of the files that it belongs to."""

    sources: Ragged  # ids of each row; all rows end with EOS, or none does: see `source_eos`
    targets: Ragged  # each row ends with EOS, but for those that were cut

    # For each target symbol but the EOS the source position to which it is monotonically aligned,
    # where that is known.
    alignments: Ragged | None

    # of the vocabularies (`source`, `target`) and of the text (`text`)
    digests: dict[str, str]

    # vectors that a model reads in place of the ids of the sources; None: it reads the ids
    vectors: ClipRows | None = None

    @classmethod
    def from_rows(
        cls,
        source: Numbers,
        target: Numbers,
        alignment: Numbers | None,
        digests: dict[str, str],
        source_eos: bool = True,
        limits: Limits = (None, None),
    ) -> Split:
        """Make a split of rows of ids without EOS, which is added here.

        Sources get it if `source_eos`; `alignment` has the target's lengths. A UserError names the
        first source of which nothing would be left to attend to.

        Of a source only the first `limits[0]` ids are taken. A target that is longer than
        `limits[1]`, EOS included, is cut and has no EOS: it does not end there (See et al. 2017).
        """
        source_limit, target_limit = limits
        sources = Ragged.of(ended(row[:source_limit], source_eos) for row in source)
        targets = Ragged.of(ended(row)[:target_limit] for row in target)

        # A softmax over no positions is not defined.
        empty_rows = np.flatnonzero(sources.lengths == 0)
        if len(empty_rows) > 0:
            number = empty_rows[0] + 1
            message = f"the source of row {number} is empty, and has no end symbol to attend to"
            hint = "complete it or delete it, or prepare with `format: {source_eos: true}`"
            raise UserError(message, hint=hint)

        alignments = None if alignment is None else Ragged.of(alignment)
        return cls(sources, targets, alignments, digests)

    @classmethod
    def load(cls, folder: Path | str, name: str) -> Split:
        """Read `<folder>/<name>.safetensors`.

        A UserError says that it is missing, damaged, or not written by `save`.
        """
        path = _existing(Path(folder) / f"{name}.safetensors")
        try:
            notes, arrays = _read_tensors(path)
            split = cls._from_arrays(arrays, dict(notes["digests"]))
            intact = split.content == notes["content"] and split.is_sound()
            stored_name = notes["split"]
        except (SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
            raise UserError("not a prepared split", file=path, hint=HINT) from error

        if not intact:
            raise UserError("the file is damaged", file=path, hint=HINT)
        if stored_name != name:
            raise UserError(f"this is the split {stored_name}, not {name}", file=path, hint=HINT)
        return split

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, NDArray[Any]], digests: dict[str, str]) -> Split:
        """Return the split that `_arrays` gave."""
        sources = Ragged(arrays["source"], arrays["source_offsets"])
        targets = Ragged(arrays["target"], arrays["target_offsets"])

        alignments = None
        if "alignment" in arrays:
            # Every row has one symbol less here than in `targets`.
            offsets = targets.offsets - np.arange(len(targets.offsets))
            alignments = Ragged(arrays["alignment"], offsets)

        return cls(sources, targets, alignments, digests)

    def save(self, folder: Path | str, name: str) -> None:
        """Write `<folder>/<name>.safetensors`, whole or not at all, the same bytes each time."""
        notes = {"split": name, "content": self.content, "digests": self.digests}

        # In the order of safetensors, whose own `save` holds all arrays twice more.
        arrays = sorted(self._arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
        header: dict[str, Any] = {"__metadata__": {"pam": json.dumps(notes, sort_keys=True)}}
        begin = 0
        for array_name, values in arrays:
            end = begin + values.nbytes
            header[array_name] = {
                "dtype": f"I{8 * values.itemsize}",
                "shape": list(values.shape),
                "data_offsets": [begin, end],
            }
            begin = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)

        path = Path(folder) / f"{name}.safetensors"
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, values in arrays:
                little_endian = values.dtype.newbyteorder("<")
                file.write(np.ascontiguousarray(values).astype(little_endian, copy=False).data)

    @cached_property
    def source_eos(self) -> bool:
        """True if sources end with EOS, which can then be attended to.

        No other id of a source is EOS, so the rows themselves say it.
        """
        return bool(self.sources.ended.all())

    @cached_property
    def content(self) -> str:
        """SHA-256 over all arrays."""
        digest = hashlib.sha256()
        for name, values in sorted(self._arrays.items()):
            digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()

    @property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays as they are on disk, where alignments need no offsets of their own."""
        arrays: dict[str, NDArray[Any]] = {}
        if self.alignments is not None:
            arrays["alignment"] = self.alignments.values
        for side, rows in (("source", self.sources), ("target", self.targets)):
            arrays |= {side: rows.values, f"{side}_offsets": rows.offsets}
        return arrays

    def is_sound(self) -> bool:
        """Check that the arrays fit together, whoever wrote them."""
        if self.alignments is not None:
            positions = self.alignments.values
            expected = len(self.targets.values) - len(self)
            if positions.dtype != np.int32 or len(positions) != expected:
                return False

        if not self.sources.is_sound() or not self.targets.is_sound():
            return False
        if len(self.sources) != len(self):
            return False

        # EOS may only stand at the end of targets, and of all sources or of none.
        if self.targets.ended.sum() != (self.targets.values == EOS).sum():
            return False
        return self.source_eos or not self.sources.ended.any()

    def turned(self) -> Split:
        """Return the same rows from target to source.

        Each side gets the end symbols of the side that it takes the place of.
        """
        digests = self.digests | {
            "source": self.digests["target"],
            "target": self.digests["source"],
        }
        if self.source_eos:
            return Split(self.targets, self.sources, None, digests)

        # Targets become sources, which have no EOS here.
        return Split.from_rows(
            source=(row[:-1].tolist() for row in self.targets),
            target=(row.tolist() for row in self.sources),
            alignment=None,
            digests=digests,
            source_eos=False,
        )

    def symbol_counts(self) -> dict[str, dict[str, int]]:
        """Count by side: symbols without the ends of rows, unknown ones, the longest row's."""
        counts = {}
        for side, rows in (("source", self.sources), ("target", self.targets)):
            lengths = rows.lengths - rows.ended
            counts[side] = {
                "symbols": int(lengths.sum()),
                "unknown": int((rows.values == UNK).sum()),
                "longest": int(lengths.max()),
            }
        return counts

    def __len__(self) -> int:
        return len(self.targets)


def _read_tensors(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the notes and the arrays of a tensor file."""
    with safe_open(path, framework="numpy") as file:
        notes = json.loads((file.metadata() or {})["pam"])
        names = list(file.keys())

    arrays = {}
    for name in names:
        # Opened for one array alone: what was read before stays unmapped.
        with safe_open(path, framework="numpy") as file:
            arrays[name] = file.get_tensor(name)
    return notes, arrays


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UserError("no such file", file=path, hint="prepare the data first")
    return path


def write_split(
    folder: Path,
    name: str,
    rows: Iterable[Sequence[str]],
    symbols: tuple[Iterable[Sequence[str]], Iterable[Sequence[str]]],
    vocabularies: tuple[Vocabulary, Vocabulary],
    alignment: Iterable[Sequence[int]] | None = None,
    source_eos: bool = True,
    limits: Limits = (None, None),
) -> Split:
    """Write a split into a prepared folder.

    `rows` are columns of text, `symbols` and `vocabularies` are those of source and target; the
    rest is as in `Split.from_rows`.
    """
    text = folder / f"{name}.tsv"
    with text_file(text) as tsv:
        tsv.writelines("\t".join(row) + "\n" for row in rows)

    source, target = vocabularies
    source_symbols, target_symbols = symbols
    digests = {"source": source.digest, "target": target.digest, "text": sha256_of(text)}
    # Symbols are encoded row by row, so that no list holds them all.
    try:
        split = Split.from_rows(
            source=map(source.encode, source_symbols),
            target=map(target.encode, target_symbols),
            alignment=alignment,
            digests=digests,
            source_eos=source_eos,
            limits=limits,
        )
    except UserError as error:
        raise UserError(error.message, file=text, hint=error.hint) from error

    split.save(folder, name)
    return split


def write_summary(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write counts into a prepared folder, last of all, with digests of its files.

    Returns what it wrote.
    """
    summary = dict(content) | {"outputs_sha256": hashes_of(folder)}
    return write_checksummed(folder / SUMMARY, summary)


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder but its own summary or record, by name."""
    return {
        path.name: sha256_of(path)
        for path in whole_files(folder)
        if path.name not in (SUMMARY, RECORD)
    }


@dataclass(frozen=True)
class Prepared:
    """A folder made by `prepare`; its parts are checked to belong together."""

    folder: Path

    @cached_property
    def source(self) -> Vocabulary:
        return Vocabulary.load(self.folder / "source.vocab")

    @cached_property
    def target(self) -> Vocabulary:
        return Vocabulary.load(self.folder / "target.vocab")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Counts of `prepare`; `summary["task"]` is the kind of task."""
        path = self.folder / SUMMARY
        summary = read_checksummed(path, "the summary of a prepared data set", HINT)
        if not {"task", "outputs_sha256"} <= summary.keys():
            raise UserError("not the summary of a prepared data set", file=path, hint=HINT)
        return summary

    @cached_property
    def codec(self) -> Codec:
        """Text to symbols and back, as the data was prepared."""
        prepared_files = self.summary["outputs_sha256"]

        # Without the frames, a clip's name would be taken for that of a file of the user's.
        for name in Table.FILES:
            if name in prepared_files:
                _existing(self.folder / name)

        codec = load_codec(self.summary["task"], self.folder)
        optional = [name for name in codec.optional_files if name in prepared_files]
        for name in {*codec.files_in(self.folder), *optional}:
            self.file(name)
        return codec

    def file(self, name: str) -> Path:
        """Return the path of a file; a UserError if it is missing or not what was prepared."""
        path = _existing(self.folder / name)
        if sha256_of(path) != self.summary["outputs_sha256"].get(name):
            raise UserError("this file has changed since it was prepared", file=path, hint=HINT)
        return path

    def split(self, name: str, extended: bool = False) -> Split:
        """Read the ids of a split.

        A UserError says that they are damaged, or that vocabularies or summary were not made with
        them. If `extended`, symbols that a vocabulary lacks have the ids that `Vocabulary.encode`
        gives them by their source, made from the split's text.
        """
        split = Split.load(self.folder, name)
        for side, vocabulary in (("source", self.source), ("target", self.target)):
            if split.digests.get(side) != vocabulary.digest:
                message = f"this is not the vocabulary that {name}.safetensors was made with"
                raise UserError(message, file=self.folder / f"{side}.vocab", hint=HINT)
        # Last, as the messages above say more.
        self.file(f"{name}.safetensors")

        if self.codec.clips is not None:
            return replace(split, vectors=self._of_clips(self.codec.clips, name))
        if extended:
            return self._extended(name, split)
        return split

    def _extended(self, name: str, split: Split) -> Split:
        """Return a split with the ids of symbols that the vocabularies lack."""
        rows = self._text(name, split)
        codec = self.codec

        def encode_source(row: int) -> list[int]:
            symbols = codec.source_symbols(rows[row][:-1])
            return ended(self.source.encode(symbols, symbols), split.source_eos)

        def encode_target(row: int) -> list[int]:
            *source_columns, target = rows[row]
            symbols = codec.target_symbols(target)
            return ended(self.target.encode(symbols, codec.source_symbols(source_columns)))

        return replace(
            split,
            sources=split.sources.reread_unknown(encode_source),
            targets=split.targets.reread_unknown(encode_target),
        )

    def _of_clips(self, clips: Table, name: str) -> ClipRows:
        """Return the frames of each row; a UserError if they are not what was prepared."""
        for file in Table.FILES:
            self.file(file)
        return ClipRows(clips, [clip for clip, _ in self.rows(name)])

    def rows(self, name: str) -> TextRows:
        """Return the text of a split, a tuple of columns per row.

        A UserError says that the ids were not made from it.
        """
        return self._text(name, Split.load(self.folder, name))

    def _text(self, name: str, split: Split) -> TextRows:
        path = _existing(self.folder / f"{name}.tsv")
        if sha256_of(path) != split.digests.get("text"):
            raise UserError(
                f"this is not the text that {name}.safetensors was made from", file=path, hint=HINT
            )
        return TextRows.of(path)


# Bucketed batches, the same for a seed and an epoch wherever and whenever they are drawn.


@dataclass(frozen=True)
class Batch:
    """Rows of a split as padded tensors."""

    rows: Rows  # (B,) row numbers in the split
    source: Tensor  # (B, m) ids, PAD at the end; or (B, m, units) vectors, zeros at the end
    lengths: Tensor  # (B,) real source lengths
    target: Tensor  # (B, n) ids ending with EOS, PAD at the end

    @property
    def mask(self) -> Tensor:
        """Boolean mask (B, n), true at real target positions."""
        return self.target != PAD

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        return Batch(
            rows=self.rows,
            source=self.source.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            target=self.target.to(device, non_blocking=True),
        )


def padded(rows: Sequence[Tensor]) -> Tensor:
    """Pad rows of ids (m,) or of vectors (m, units) to (B, m) or (B, m, units).

    PAD or zeros come at the end.
    """
    from torch.nn.utils.rnn import pad_sequence

    padded_rows = pad_sequence(list(rows), batch_first=True, padding_value=PAD)
    return padded_rows if padded_rows.is_floating_point() else padded_rows.long()


def unread_as_unknown(target: Tensor, size: int, longest: int | None) -> Tensor:
    """Make target symbols unknown that stand in the unread part of the source alone.

    Args:
        target: extended ids, as `Vocabulary.encode` gives them; those from `size` on are positions
            of the source.
        size: number of target symbols.
        longest: number of symbols of a source that are read; None: all.
    """
    if longest is None:
        return target
    return target.masked_fill(target >= size + longest, UNK)


class Examples:
    """The rows of a split as a model takes them.

    Args:
        targets: `symbols`, or `actions` of a pointer (`to_actions`).
        size: number of target symbols, where ids are extended: a greater id is a position of the
            source.
    """

    def __init__(
        self, split: Split, targets: Literal["symbols", "actions"], size: int | None = None
    ) -> None:
        self.sources = split.sources
        self.targets = split.targets
        self.written = targets
        self.size = size
        self.vectors = split.vectors
        # numbers of symbols of source and target that are read; None: all
        self.longest: Limits = (None, None)

        if targets == "actions":
            self.targets = _actions_of(split)

        self.source_lengths = self.sources.lengths
        self.target_lengths = self.targets.lengths

    def __len__(self) -> int:
        return len(self.sources)

    def cut(self, source: int | None, target: int | None) -> Examples:
        """Return the same rows, of which so many symbols are read, end symbols included.

        None means all. What is cut off is as if it were not there: targets do not end, and what
        they have of the rest of the source is unknown. A UserError says that actions, which belong
        to all of a source, cannot be cut.
        """
        if self.written == "actions" and (source or target):
            hint = "leave out `source` and `target` of `training.phases`, or use `targets: symbols`"
            raise UserError("pointer actions cannot be cut", hint=hint)

        # Rows stay whole in memory, and are cut in `batch`.
        shortened = copy(self)
        shortened.longest = (source, target)
        if source is not None:
            shortened.source_lengths = np.minimum(self.source_lengths, source)
        if target is not None:
            shortened.target_lengths = np.minimum(self.target_lengths, target)
        return shortened

    def batch(self, rows: Rows) -> Batch:
        """Pad the given rows; longest target first, so that ended rows are at the end."""
        import torch  # here, so that reading and preparing data go without it

        rows = rows[np.argsort(-self.target_lengths[rows], kind="stable")]
        source_limit, target_limit = self.longest
        sources = self.sources if self.vectors is None else self.vectors
        source = padded([torch.from_numpy(sources[row][:source_limit]) for row in rows])
        target = padded([torch.from_numpy(self.targets[row][:target_limit]) for row in rows])

        if self.size is not None:
            target = unread_as_unknown(target, self.size, source_limit)

        lengths = torch.from_numpy(self.source_lengths[rows])
        return Batch(rows=rows, source=source, lengths=lengths, target=target)

    def in_order(self, size: int) -> Iterator[Batch]:
        """Yield all rows, similar lengths in a batch: for decoding and evaluation."""
        order = np.lexsort((self.target_lengths, self.source_lengths))
        for first in range(0, len(order), size):
            yield self.batch(order[first : first + size])

    def shuffled(self, size: int, seed: int, epoch: int) -> list[Rows]:
        """Return the batches of an epoch: rows shuffled, grouped by source length, groups shuffled.

        They depend on the arguments alone: a position in the data is an epoch and a number of
        batches, no generator.
        """
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(self))
        order = order[np.argsort(self.source_lengths[order], kind="stable")]
        batches = [order[first : first + size] for first in range(0, len(order), size)]
        return [batches[number] for number in generator.permutation(len(batches))]


def _actions_of(split: Split) -> Ragged:
    """Return the targets of an aligned split as a pointer's actions; a UserError if it is not."""
    if split.alignments is None:
        hint = "use `targets: symbols`, or a split that is aligned (train, dev)"
        raise UserError("this split has no alignment, from which step actions are made", hint=hint)

    source_lengths = split.sources.lengths.tolist()
    return Ragged.of(
        to_actions(ids.tolist(), positions.tolist(), length)
        for ids, positions, length in zip(
            split.targets, split.alignments, source_lengths, strict=True
        )
    )
