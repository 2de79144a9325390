"""A trained model as a folder: configuration, weights and vocabularies, no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pam.config import RunConfig, load_run
from pam.data.dataset import padded
from pam.data.features import Frames
from pam.data.tokenizers import CODECS, Codec, load_codec
from pam.data.vocabulary import Vocabulary, ended
from pam.io import UserError, atomic_write, dump_yaml, sha256_of, whole_files, write_text
from pam.models.build import build
from pam.models.copying import match, pointers_of
from pam.models.ensemble import Ensemble
from pam.models.model import Model

FORMAT = "pam-model-2"
WEIGHTS, CONFIG = "weights.safetensors", "config.yaml"
EXPORTED_WEIGHTS = "model.safetensors"  # in an exported model, where model hubs look for it


def digest(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    """SHA-256 over notes and over names, shapes, types and bytes of tensors."""
    total = hashlib.sha256(json.dumps(dict(notes), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        content = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
        total.update(content.numpy().data)
    return total.hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Writes tensors with notes and a digest, whole or not at all, the same bytes each time."""
    copies = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One metadata key: safetensors does not keep the order of several.
    described = json.dumps({"notes": dict(notes), "digest": digest(copies, notes)}, sort_keys=True)
    # Not `save_file`, which tells of a full disk in words that only a person can tell apart.
    content = save(copies, {"pam": described})
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads what `save_tensors` wrote, with its notes; a UserError says if it is missing, no such
    file, or damaged.
    """
    if not path.is_file():
        raise UserError("no such file", file=path, hint="train the model first")
    again = "delete it and train again, or copy it once more"
    try:
        with safe_open(path, framework="pt") as file:
            described = json.loads((file.metadata() or {}).get("pam", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes: dict[str, str] = dict(described.get("notes", {}))
            intact = described.get("digest") == digest(tensors, notes)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("not a safetensors file, or cut short", file=path, hint=again) from error
    if not intact:
        raise UserError("the file is damaged, or not one of ours", file=path, hint=again)
    return tensors, notes


@dataclass(frozen=True)
class SavedModel:
    """A trained model with all that is needed to use it."""

    run: RunConfig
    task: str  # the kind of task, such as `inflection`
    source: Vocabulary
    target: Vocabulary
    codec: Codec  # text to symbols and back, as the model learned them
    network: Model
    source_eos: bool = True  # whether the sources that it reads end in an end symbol

    @property
    def copies(self) -> bool:
        """Whether it copies symbols of the source: then it reads and writes the extended ids of
        `Vocabulary.encode`.
        """
        return bool(pointers_of(self.network))

    def read(self, source: Sequence[str]) -> Tensor:
        """A source as the model reads it: ids (m,), an end symbol with them where sources have one;
        of frames their vectors (m, units).
        """
        if isinstance(source, Frames):
            return torch.from_numpy(source.vectors)
        ids = self.source.encode(source, source if self.copies else ())
        return torch.tensor(ended(ids, self.source_eos), dtype=torch.long)

    def unseen(self, source: Sequence[str]) -> list[str]:
        """List the symbols of a source that the vocabulary lacks; of frames there are none."""
        if isinstance(source, Frames):
            return []
        return [symbol for symbol in source if symbol not in self.source]

    def pairs(
        self,
        sources: Sequence[Sequence[str]],
        targets: Sequence[Sequence[str]],
        longest: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Make a batch of sources and targets, symbols without end symbols, as
        `Model.log_likelihood` takes it.

        Args:
            longest: symbols of a source that are read; None: all.

        Returns: sources (B, m), their lengths (B,) and targets (B, T), on the model's device.
        """
        device = next(self.network.parameters()).device
        read = [self.read(source)[:longest] for source in sources]
        lengths = torch.tensor([len(source) for source in read], device=device)
        ids = [
            torch.tensor(ended(self.target_ids(target, source)))
            for target, source in zip(targets, sources, strict=True)
        ]
        return padded(read).to(device), lengths, padded(ids).to(device)

    def target_ids(self, target: Sequence[str], source: Sequence[str]) -> list[int]:
        """Ids of a target's symbols, without an end symbol."""
        return self.target.encode(target, source if self.copies else ())


def save_model(
    folder: Path,
    run: RunConfig,
    task: str,
    origin: Path,
    weights: Mapping[str, Tensor],
    source_eos: bool = True,
) -> None:
    """Writes a model folder; the weights last, as they complete it, with the hashes of all files in
    the folder, those too that were there before.

    `origin` is prepared data, or another model: vocabularies and the files that this kind of task
    needs are copied. `source_eos`: whether the sources that it was trained with end in an end
    symbol.
    """
    sides = (
        {"source.vocab": "target.vocab", "target.vocab": "source.vocab"}
        if run.components.reversed
        else {}
    )
    for name in belongings(task, origin):
        write_text(folder / name, (origin / sides.get(name, name)).read_text(encoding="utf-8"))
    write_text(folder / CONFIG, dump_yaml(run))
    others = [path for path in whole_files(folder) if path.name != WEIGHTS]
    hashes = {path.name: sha256_of(path) for path in others}
    notes = {"format": FORMAT, "task": task, "files": json.dumps(hashes)}
    if not source_eos:  # a folder that does not say it is of a model whose sources end
        notes["source_eos"] = "false"
    save_tensors(folder / WEIGHTS, weights, notes)


def belongings(task: str, folder: Path) -> list[str]:
    """The files of a model folder, or of prepared data, that say what its symbols are."""
    return ["source.vocab", "target.vocab", *CODECS[task].files_in(folder)]


def weights_file(folder: Path) -> Path:
    """Return the path of a model folder's weights, which an exported model names differently."""
    exported = folder / EXPORTED_WEIGHTS
    return exported if exported.is_file() else folder / WEIGHTS


def check_files(folder: Path, notes: Mapping[str, str]) -> None:
    """Raise a UserError if a file of a model folder is missing, or is not the one that the weights
    were saved with.
    """
    for name, known in json.loads(notes.get("files", "{}")).items():
        path = folder / name
        message = None
        if not path.is_file():
            message = "no such file"
        elif sha256_of(path) != known:
            message = "this file does not belong to the model"
        if message is not None:
            raise UserError(message, file=path, hint="copy the whole model folder again")


def load_model(folder: Path, device: torch.device | None = None) -> SavedModel:
    """Reads a model folder, ready to decode; a UserError names a missing or damaged file, or one of
    another model.
    """
    if not folder.is_dir():
        raise UserError("no such model folder", file=folder, hint="train the model first")
    run = load_run(folder / CONFIG)
    if run.components.reversed:
        message = f"{run.label} learned from target to source, to start others"
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
    sizes = len(source), len(target)
    members = [build(one.components, one.network, *sizes, codec.units) for one in run.members]
    network = (
        Ensemble(members) if members else build(run.components, run.network, *sizes, codec.units)
    )
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
        run, notes["task"], source, target, codec, network, notes.get("source_eos") != "false"
    )
