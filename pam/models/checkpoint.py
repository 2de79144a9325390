"""A trained model as a folder: configuration, weights and vocabularies, no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pam.data.codecs import Codec, load_codec
from pam.data.dataset import padded, unread_as_unknown
from pam.data.features import Frames
from pam.data.vocabulary import END, Vocabulary, ended
from pam.decoding.hypotheses import LENGTHS, LengthPrior
from pam.experiments.parsing import dump_yaml
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import WEIGHTS
from pam.library.model_files import CARD, CONFIG, belongings, weights_file
from pam.models.build import build
from pam.models.copying import pointers_of
from pam.models.ensemble import Ensemble
from pam.models.model import Model, match
from pam.runtime.errors import UserError
from pam.runtime.files import atomic_write, sha256_of, whole_files, write_text

FORMAT = "pam-model-2"


def digest(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    """Compute SHA-256 over notes and over names, shapes, types and bytes of tensors."""
    sha256 = hashlib.sha256(json.dumps(dict(notes), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        sha256.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        content = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        sha256.update(content.numpy().data)
    return sha256.hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write tensors with notes and a digest, whole or not at all, the same bytes each time."""
    copies = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One metadata key: safetensors does not keep the order of several.
    metadata = json.dumps({"notes": dict(notes), "digest": digest(copies, notes)}, sort_keys=True)

    # Not `save_file`: code cannot recognize a full disk from its error.
    content = save(copies, {"pam": metadata})
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and notes of a file that `save_tensors` wrote.

    A UserError says that the file is missing, damaged, or of another kind.
    """
    if not path.is_file():
        raise UserError("no such file", file=path, hint="train the model first")

    hint = "delete it and train again, or copy it once more"
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get("pam", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes: dict[str, str] = dict(metadata.get("notes", {}))
            is_intact = metadata.get("digest") == digest(tensors, notes)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("not a safetensors file, or cut short", file=path, hint=hint) from error

    if not is_intact:
        raise UserError("the file is damaged, or was not written by pam", file=path, hint=hint)
    return tensors, notes


@dataclass(frozen=True)
class SavedModel:
    """A trained model with all that is needed to use it."""

    run: RunConfig
    task: str  # the kind of task, such as `inflection`
    source: Vocabulary
    target: Vocabulary
    codec: Codec  # from text to symbols and back, as the model learned them
    network: Model
    source_eos: bool = True  # whether the sources that it reads end in an end symbol
    lengths: LengthPrior | None = None  # of target lengths; None: the training counted none
    # for an export: what is noted with the weights, and the content of the other files by name
    notes: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def copies(self) -> bool:
        """True if the model copies symbols of the source.

        It then reads and writes the extended ids of `Vocabulary.encode`.
        """
        return bool(pointers_of(self.network))

    def read(self, source: Sequence[str]) -> Tensor:
        """Return a source as the model reads it.

        Symbols become ids (m,), with an end symbol if `source_eos`; frames become their vectors
        (m, units).
        """
        if isinstance(source, Frames):
            return torch.from_numpy(source.vectors)

        ids = self.source.encode(source, source if self.copies else ())
        return torch.tensor(ended(ids, self.source_eos), dtype=torch.long)

    def spelled(self, source: Sequence[str], longest: int | None = None) -> list[str]:
        """Return the symbols of a source as people see what `read` gives, at most `longest`."""
        symbols = list(source)
        if self.source_eos:
            symbols.append(END)
        return symbols[:longest]

    def unseen(self, source: Sequence[str]) -> list[str]:
        """List the symbols of a source that are not in the vocabulary; frames have none."""
        if isinstance(source, Frames):
            return []
        return [symbol for symbol in source if symbol not in self.source]

    def pairs(
        self,
        sources: Sequence[Sequence[str]],
        targets: Sequence[Sequence[str]],
        longest: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Make a batch for `Model.log_likelihood`.

        Args:
            sources: symbols of each source, without an end symbol, or frames.
            targets: symbols of each target, without an end symbol.
            longest: number of symbols of a source that are read; None: all.

        Returns: sources (B, m), their lengths (B,) and targets (B, T), on the model's device.
        """
        target_ids = [
            self.target_ids(target, source) for target, source in zip(targets, sources, strict=True)
        ]
        return self.batch(sources, target_ids, longest)

    def batch(
        self,
        sources: Sequence[Sequence[str]],
        target_ids: Sequence[Sequence[int]],
        longest: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Make a batch as `pairs` does, of targets that are ids without an end symbol."""
        device = next(self.network.parameters()).device
        source_ids = [self.read(source)[:longest] for source in sources]
        lengths = torch.tensor([len(ids) for ids in source_ids], device=device)

        target_rows = padded([torch.tensor(ended(ids)) for ids in target_ids])
        target_rows = unread_as_unknown(target_rows, len(self.target), longest)

        return padded(source_ids).to(device), lengths, target_rows.to(device)

    def target_ids(self, target: Sequence[str], source: Sequence[str]) -> list[int]:
        """Return the ids of a target's symbols, without an end symbol."""
        return self.target.encode(target, source if self.copies else ())


def save_model(
    folder: Path,
    run: RunConfig,
    task: str,
    origin: Path,
    weights: Mapping[str, Tensor],
    source_eos: bool = True,
) -> None:
    """Write a model folder.

    The weights are written last, as they complete it, together with the hashes of all files in the
    folder, including those that were there before.

    Args:
        folder: the folder to write.
        run: the configuration of the run that trained the model.
        task: the kind of task, such as `inflection`.
        origin: prepared data, or another model, whose vocabularies and codec files are copied.
        weights: the tensors of `Model.state_dict`.
        source_eos: whether the sources in training ended in an end symbol.
    """
    # A reversed model was trained on data whose sides it exchanged.
    renamed: dict[str, str] = {}
    if run.components.reversed:
        renamed = {"source.vocab": "target.vocab", "target.vocab": "source.vocab"}
    for name in belongings(task, origin):
        original = origin / renamed.get(name, name)
        write_text(folder / name, original.read_text(encoding="utf-8"))
    write_text(folder / CONFIG, dump_yaml(run))

    hashes = {path.name: sha256_of(path) for path in whole_files(folder) if path.name != WEIGHTS}
    notes = {"format": FORMAT, "task": task, "files": json.dumps(hashes)}

    # Without this note, sources end in an end symbol.
    if not source_eos:
        notes["source_eos"] = "false"
    save_tensors(folder / WEIGHTS, weights, notes)


def check_files(folder: Path, notes: Mapping[str, str]) -> None:
    """Check that the files of a model folder are those that the weights were saved with.

    A UserError names a file that is missing or another one.
    """
    for name, expected_hash in json.loads(notes.get("files", "{}")).items():
        path = folder / name
        message = None
        if not path.is_file():
            message = "no such file"
        elif sha256_of(path) != expected_hash:
            message = "this file does not belong to the model"
        if message is not None:
            raise UserError(message, file=path, hint="copy the whole model folder again")


def load_model(folder: Path, device: torch.device | None = None) -> SavedModel:
    """Read a model folder, ready to decode.

    A UserError names a file that is missing, damaged, or of another model.
    """
    if not folder.is_dir():
        raise UserError("no such model folder", file=folder, hint="train the model first")
    run = load_run(folder / CONFIG)
    if run.components.reversed:
        message = f"{run.label} translates from target to source, only to initialize other models"
        raise UserError(message, file=folder, hint="name a model that starts from it")

    source = Vocabulary.load(folder / "source.vocab")
    target = Vocabulary.load(folder / "target.vocab")

    weights = weights_file(folder)
    tensors, notes = load_tensors(weights)
    if notes.get("format") != FORMAT:
        raise UserError(
            f"not a model of this format (`{FORMAT}`)",
            file=weights,
            hint="take a model folder that `pam train` made",
        )
    check_files(folder, notes)
    codec = load_codec(notes["task"], folder)
    codec.know(frozenset(source.symbols), frozenset(target.symbols))

    lengths = None
    if (folder / LENGTHS).is_file():
        lengths = LengthPrior.load(folder / LENGTHS)

    network = _fresh_network(run, len(source), len(target), codec.units)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != {name: tensor.shape for name, tensor in network.state_dict().items()}:
        raise UserError(
            f"these weights do not fit the model that {CONFIG} describes",
            file=weights,
            hint="copy the whole model folder again",
        )

    network.load_state_dict(tensors)
    match(network, source, target)
    network.eval().to(device or torch.device("cpu"))

    return SavedModel(
        run=run,
        task=notes["task"],
        source=source,
        target=target,
        codec=codec,
        network=network,
        source_eos=notes.get("source_eos") != "false",
        lengths=lengths,
        notes=notes,
        files=_contents(folder, notes),
    )


def _contents(folder: Path, notes: Mapping[str, str]) -> dict[str, bytes]:
    """Read the files that were saved with the weights, and the card of an exported model."""
    names = [*json.loads(notes.get("files", "{}")), CARD]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


def _fresh_network(run: RunConfig, source: int, target: int, vectors: int) -> Model:
    """Make a run's model, or its ensemble, with fresh weights; sizes as in `build`."""
    if not run.members:
        return build(run.components, run.network, source, target, vectors=vectors)

    members = [
        build(member.components, member.network, source, target, vectors=vectors)
        for member in run.members
    ]
    return Ensemble(members)
