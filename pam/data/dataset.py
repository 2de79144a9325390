"""Prepared data on disk, and the batches that are drawn from it.

A prepared folder holds `{train,dev,test}.{tsv,safetensors}`, `{source,target}.vocab`, the files of
its codec, and `summary.json`. Each tensor file has the name of its split and digests of its arrays,
the vocabularies and its text, the summary has those of all files and of itself: a damaged or
foreign file is found when it is read.
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

from pam.data.features import ClipRows, Table
from pam.data.text_rows import TextRows
from pam.data.tokenizers import Codec, load_codec
from pam.data.vocabulary import EOS, PAD, UNK, Vocabulary, ended, to_actions
from pam.io import UserError, atomic_write, read_json, sha256_of, whole_files, write_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SPLITS = ("train", "dev", "test")
SUMMARY = (
    "summary.json"  # in a prepared folder: its counts, and the hashes of its files; written last
)
RECORD = "record.json"  # the same in the folder of a stage before the last
HINT = "delete the folder and prepare the data again"
CHECKSUM = "content_sha256"
Numbers = Iterable[Sequence[int]]  # rows of ids or of positions
# symbols of source and target that are read of a longer one; None: all
Limits = tuple[int | None, int | None]
Ids = NDArray[np.int32]
Rows = NDArray[np.int64]  # numbers of rows, or places where they begin


@contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """A UTF-8 file with LF line ends to write to; it is whole, or as it was."""
    with (
        atomic_write(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


# JSON with a digest of its own content, so that damage is found when it is read.


def write_checksummed(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Writes keys and values as JSON, whole or not at all; returns what was written, the digest
    included.
    """
    written = dict(content) | {CHECKSUM: _digest(content)}
    write_json(path, written)
    return written


def read_checksummed(path: Path, what: str, hint: str) -> dict[str, Any]:
    """Reads what `write_checksummed` wrote; a UserError if it is missing, damaged or not `what` it
    should be.
    """
    content = read_json(path)
    if not isinstance(content, dict) or CHECKSUM not in content:
        raise UserError(f"not {what}", file=path, hint=hint)
    if content[CHECKSUM] != _digest(content):
        raise UserError("the file is damaged", file=path, hint=hint)
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Of keys and values, whatever their order and the layout of the file."""
    own = {key: value for key, value in content.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


# Ids of a split.


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths in one array, to save memory: row i is `values[offsets[i]:offsets[i
    + 1]]`.
    """

    values: Ids  # int32, all rows, one after another
    offsets: Rows  # int64, rows + 1 places from 0

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Rows that are taken one by one, so that no list holds them all."""
        values, offsets = array("i"), array("q", [0])
        for row in rows:
            values.extend(row)
            offsets.append(len(values))
        # Without copies, of which a large corpus would fill the memory.
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

    def known(self, read: Callable[[int], Sequence[int]]) -> Ragged:
        """The same, but rows with an unknown symbol are `read` by their numbers, as many ids of
        each as there were.
        """
        values = self.values.copy()
        unknown = np.logical_or.reduceat(values == UNK, self.offsets[:-1])
        for row in np.flatnonzero(unknown).tolist():
            first, last = self.offsets[row : row + 2].tolist()
            values[first:last] = read(row)[: last - first]
        return Ragged(values, self.offsets)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Whether each row, none of which is empty, ends with EOS."""
        return np.asarray(self.values[self.offsets[1:] - 1] == EOS)

    def is_sound(self) -> bool:
        """Whether the arrays fit together and all rows are ids, at least one each."""
        ids, offsets = self.values, self.offsets
        typed = ids.dtype == np.int32 and offsets.dtype == np.int64
        if not typed or offsets[0] != 0 or offsets[-1] != len(ids) or (self.lengths < 1).any():
            return False
        return bool((ids >= 0).all())


@dataclass(frozen=True)
class Split:
    """One split."""

    sources: Ragged  # ids of each row; all rows end with EOS, or none does: see `source_eos`
    targets: Ragged  # each row ends with EOS, but for those that were cut
    # For each target symbol but the EOS the source position to which it is monotonically aligned,
    # where that is known.
    alignments: Ragged | None
    # of the vocabularies (`source`, `target`) and the text (`text`) it belongs to
    digests: dict[str, str]
    vectors: ClipRows | None = (
        None  # of each row what a model reads in place of the ids of its source; None: these
    )

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
        """Rows of ids without EOS, which is added here, to sources if `source_eos`; `alignment` has
        the target's lengths. A UserError names the first source of which nothing would be left to
        attend to.

        Of a source only its first ids are taken, as many as its side's of `limits` says, if it
        does. A target that is longer than its limit, EOS included, is cut and has no EOS: it does
        not end there (See et
            al. 2017).
        """
        longest, last = limits
        sources = Ragged.of(ended(row[:longest], source_eos) for row in source)
        targets = Ragged.of(ended(row)[:last] for row in target)
        for row in np.flatnonzero(sources.lengths == 0)[:1]:
            message = f"the source of row {row + 1} is empty, and has no end symbol to attend to"
            raise UserError(
                message,
                hint="complete it or delete it, or prepare with `format: {source_eos: true}`",
            )
        return cls(sources, targets, None if alignment is None else Ragged.of(alignment), digests)

    @classmethod
    def load(cls, folder: Path | str, name: str) -> Split:
        """Reads `<folder>/<name>.safetensors`; a UserError if it is missing, damaged, or not
        written by `save`.
        """
        path = _existing(Path(folder) / f"{name}.safetensors")
        try:
            with safe_open(path, framework="numpy") as file:
                notes = json.loads((file.metadata() or {})["pam"])
                names = list(file.keys())
            arrays = {}
            for array_name in names:
                # Opened for one array alone: what was read before stays unmapped.
                with safe_open(path, framework="numpy") as file:
                    arrays[array_name] = file.get_tensor(array_name)
            sources, targets = (
                Ragged(arrays[side], arrays[f"{side}_offsets"]) for side in ("source", "target")
            )
            alignments = None
            if "alignment" in arrays:
                # Every row has one symbol less here than in `targets`.
                alignments = Ragged(
                    arrays["alignment"], targets.offsets - np.arange(len(targets.offsets))
                )
            split = cls(sources, targets, alignments, dict(notes["digests"]))
            intact = split.content == notes["content"] and split.is_sound()
            own = notes["split"]
        except (SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
            raise UserError("not a prepared split", file=path, hint=HINT) from error
        if not intact:
            raise UserError("the file is damaged", file=path, hint=HINT)
        if own != name:
            raise UserError(f"this is the split {own}, not {name}", file=path, hint=HINT)
        return split

    def save(self, folder: Path | str, name: str) -> None:
        """Writes `<folder>/<name>.safetensors`, whole or not at all, the same bytes each time."""
        notes = {"split": name, "content": self.content, "digests": self.digests}
        # In the order of safetensors, whose own `save` holds all arrays twice more.
        arrays = sorted(self._arrays.items(), key=lambda one: (-one[1].itemsize, one[0]))
        header: dict[str, Any] = {"__metadata__": {"pam": json.dumps(notes, sort_keys=True)}}
        first = 0
        for own, values in arrays:
            places = {"data_offsets": [first, first := first + values.nbytes]}
            header[own] = {
                "dtype": f"I{8 * values.itemsize}",
                "shape": list(values.shape),
                **places,
            }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with (
            atomic_write(Path(folder) / f"{name}.safetensors") as temporary,
            open(temporary, "wb") as file,
        ):
            file.write(len(text).to_bytes(8, "little") + text)
            for _, values in arrays:
                file.write(
                    np.ascontiguousarray(values)
                    .astype(values.dtype.newbyteorder("<"), copy=False)
                    .data
                )

    @cached_property
    def source_eos(self) -> bool:
        """Whether sources end with EOS, which can then be attended to. No other id of a source is
        EOS, so the rows themselves say it.
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
        """As they are on disk, where alignments need no offsets of their own."""
        arrays: dict[str, NDArray[Any]] = (
            {} if self.alignments is None else {"alignment": self.alignments.values}
        )
        for side, rows in (("source", self.sources), ("target", self.targets)):
            arrays |= {side: rows.values, f"{side}_offsets": rows.offsets}
        return arrays

    def is_sound(self) -> bool:
        """Whether the arrays fit together, whoever wrote them."""
        ids = None if self.alignments is None else self.alignments.values
        if ids is not None and (
            ids.dtype != np.int32 or len(ids) != len(self.targets.values) - len(self)
        ):
            return False
        if not (
            self.sources.is_sound() and self.targets.is_sound() and len(self.sources) == len(self)
        ):
            return False
        ends = self.targets.ended.sum() == (self.targets.values == EOS).sum()
        return bool(ends) and (self.source_eos or not self.sources.ended.any())

    def turned(self) -> Split:
        """The same rows from target to source, each side with the end symbols of the one that it
        takes the place of.
        """
        digests = self.digests | {
            "source": self.digests["target"],
            "target": self.digests["source"],
        }
        if self.source_eos:
            return Split(self.targets, self.sources, None, digests)
        read = (row[:-1].tolist() for row in self.targets)
        return Split.from_rows(
            read, (row.tolist() for row in self.sources), None, digests, source_eos=False
        )

    def symbol_counts(self) -> dict[str, dict[str, int]]:
        """By side, symbols but the ends of rows, how many are unknown, and the longest row's."""
        counts = {}
        for side, rows in (("source", self.sources), ("target", self.targets)):
            lengths, unknown = rows.lengths - rows.ended, int((rows.values == UNK).sum())
            counts[side] = {
                "symbols": int(lengths.sum()),
                "unknown": unknown,
                "longest": int(lengths.max()),
            }
        return counts

    def __len__(self) -> int:
        return len(self.targets)


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
    """Writes a split into a prepared folder: `rows` of columns of text, `symbols` and
    `vocabularies` of both sides; the rest as in `Split.from_rows`.
    """
    text = folder / f"{name}.tsv"
    with text_file(text) as tsv:
        tsv.writelines("\t".join(row) + "\n" for row in rows)
    source, target = vocabularies
    digests = {"source": source.digest, "target": target.digest, "text": sha256_of(text)}
    ids = map(source.encode, symbols[0]), map(target.encode, symbols[1])
    try:
        split = Split.from_rows(*ids, alignment, digests, source_eos, limits)
    except UserError as error:
        raise UserError(error.message, file=text, hint=error.hint) from error
    split.save(folder, name)
    return split


def write_summary(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Writes what was counted into a prepared folder, last of all, with digests of its files;
    returns what it wrote.
    """
    return write_checksummed(
        folder / SUMMARY, dict(content) | {"outputs_sha256": hashes_of(folder)}
    )


def hashes_of(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a folder but its own summary or record, by name."""
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
        # Without the frames, a clip's name would be taken for that of a file of the user's.
        for name in Table.FILES:
            if name in self.summary["outputs_sha256"]:
                _existing(self.folder / name)
        codec = load_codec(self.summary["task"], self.folder)
        prepared = [name for name in codec.optional_files if name in self.summary["outputs_sha256"]]
        for name in {*codec.files_in(self.folder), *prepared}:
            self.file(name)
        return codec

    def file(self, name: str) -> Path:
        """A file of the folder; a UserError if it is missing, or is not what was prepared."""
        path = _existing(self.folder / name)
        if sha256_of(path) != self.summary["outputs_sha256"].get(name):
            raise UserError("this is not what was prepared", file=path, hint=HINT)
        return path

    def split(self, name: str, extended: bool = False) -> Split:
        """The ids of a split; a UserError if they are damaged, or vocabularies or summary were not
        made with them.

        If `extended`, symbols that a vocabulary lacks have the ids that `Vocabulary.encode` gives
        them by their source, made from the split's text.
        """
        split = Split.load(self.folder, name)
        for side, vocabulary in (("source", self.source), ("target", self.target)):
            if split.digests.get(side) != vocabulary.digest:
                message = f"this is not the vocabulary that {name}.safetensors was made with"
                raise UserError(message, file=self.folder / f"{side}.vocab", hint=HINT)
        self.file(f"{name}.safetensors")
        if self.codec.clips is not None:
            return replace(split, vectors=self._of_clips(self.codec.clips, name))
        if not extended:
            return split
        rows, codec = self._text(name, split), self.codec

        def of_source(place: int) -> list[int]:
            symbols = codec.source_symbols(rows[place][:-1])
            return ended(self.source.encode(symbols, symbols), split.source_eos)

        def of_target(place: int) -> list[int]:
            symbols = codec.target_symbols(rows[place][-1])
            return ended(self.target.encode(symbols, codec.source_symbols(rows[place][:-1])))

        return replace(
            split, sources=split.sources.known(of_source), targets=split.targets.known(of_target)
        )

    def _of_clips(self, clips: Table, name: str) -> ClipRows:
        """The frames of each row of a split; a UserError if they are not what was prepared."""
        for file in Table.FILES:
            self.file(file)
        return ClipRows(clips, [clip for clip, _ in self.rows(name)])

    def rows(self, name: str) -> TextRows:
        """The text of a split, a tuple of columns per row; a UserError if the ids were not made
        from it.
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
        """(B, n) true at real target positions."""
        return self.target != PAD

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        moved = (x.to(device, non_blocking=True) for x in (self.source, self.lengths, self.target))
        return Batch(self.rows, *moved)


def padded(rows: Sequence[Tensor]) -> Tensor:
    """Rows of ids (m,) or of vectors (m, units) as (B, m) or (B, m, units), PAD or zeros at the
    end.
    """
    from torch.nn.utils.rnn import pad_sequence

    whole = pad_sequence(list(rows), batch_first=True, padding_value=PAD)
    return whole if whole.is_floating_point() else whole.long()


class Examples:
    """The rows of a split as a model takes them: targets are `symbols`, or `actions` of a pointer
    (`to_actions`).

    Args:
        size: target symbols, where ids are extended: what is greater is a position of the source.
    """

    def __init__(
        self, split: Split, targets: Literal["symbols", "actions"], size: int | None = None
    ) -> None:
        self.sources, self.targets, self.written, self.size = (
            split.sources,
            split.targets,
            targets,
            size,
        )
        self.vectors = split.vectors
        # symbols of source and target that are read
        self.longest: tuple[int | None, int | None] = (None, None)
        if targets == "actions":
            if split.alignments is None:
                hint = "use `targets: symbols`, or a split that is aligned (train, dev)"
                raise UserError(
                    "this split has no alignment, from which step actions are made", hint=hint
                )
            rows = zip(split.targets, split.alignments, self.sources.lengths.tolist(), strict=True)
            self.targets = Ragged.of(
                to_actions(ids.tolist(), own.tolist(), length) for ids, own, length in rows
            )
        self.source_lengths = self.sources.lengths
        self.target_lengths = self.targets.lengths

    def __len__(self) -> int:
        return len(self.sources)

    def cut(self, source: int | None, target: int | None) -> Examples:
        """The same of which so many symbols are read, end symbols included; None: all. What is cut
        off is as if it were not there: targets do not end, and what they have of the rest of the
        source is unknown. A
            UserError says that actions, which belong to all of a source, cannot be cut.
        """
        if self.written == "actions" and (source or target):
            hint = "leave out `source` and `target` of `training.phases`, or use `targets: symbols`"
            raise UserError("pointer actions cannot be cut", hint=hint)
        other = copy(self)
        other.longest = source, target
        sides = (self.source_lengths, source), (self.target_lengths, target)
        other.source_lengths, other.target_lengths = (
            own if n is None else np.minimum(own, n) for own, n in sides
        )
        return other

    def batch(self, rows: Rows) -> Batch:
        """The given rows, padded; longest target first, so that ended rows are at the end."""
        import torch  # here, so that reading and preparing data go without it

        rows = rows[np.argsort(-self.target_lengths[rows], kind="stable")]
        read = self.sources if self.vectors is None else self.vectors
        source, target = (
            padded([torch.from_numpy(own[row][:n]) for row in rows])
            for own, n in zip((read, self.targets), self.longest, strict=True)
        )
        if self.size is not None and self.longest[0] is not None:
            target = target.masked_fill(target >= self.size + self.longest[0], UNK)
        return Batch(rows, source, torch.from_numpy(self.source_lengths[rows]), target)

    def in_order(self, size: int) -> Iterator[Batch]:
        """All rows, similar lengths in a batch: for decoding and evaluation."""
        order = np.lexsort((self.target_lengths, self.source_lengths))
        for first in range(0, len(order), size):
            yield self.batch(order[first : first + size])

    def shuffled(self, size: int, seed: int, epoch: int) -> list[Rows]:
        """Batches of one epoch: rows shuffled, grouped by source length, groups shuffled.

        They depend on the arguments alone: a position in the data is an epoch and a number of
        batches, no generator.
        """
        generator = np.random.default_rng([seed, epoch])
        order = generator.permutation(len(self))
        order = order[np.argsort(self.source_lengths[order], kind="stable")]
        batches = [order[first : first + size] for first in range(0, len(order), size)]
        return [batches[number] for number in generator.permutation(len(batches))]
