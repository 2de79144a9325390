"""Trainings that start from the weights of trained models: `init_from` in a model's file."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import torch
from torch import Tensor

from pam.data.dataset import Prepared
from pam.data.vocabulary import Vocabulary
from pam.experiments.model import is_path
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.library.model_files import Description, opened, weights_file
from pam.models.checkpoint import check_files, load_tensors
from pam.models.model import Model
from pam.runtime.errors import UserError
from pam.runtime.files import sha256_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Start:
    """A trained model whose weights are taken over."""

    model: str  # its name, or its path
    file: Path
    digest: str  # SHA-256 of the file: with other weights it is another training
    # by the names that the parameters have in the model that starts from them
    weights: dict[str, Tensor]
    # sizes of vocabularies in the trained model and here, where symbols were added to them
    grown: frozenset[tuple[int, int]] = frozenset()

    def fits(self, name: str, shape: Sequence[int]) -> bool:
        """Return whether a trained parameter can be taken over by one of this shape.

        It has the same shape, or fewer rows: one for each symbol, before symbols were added.
        """
        trained_shape = tuple(self.weights[name].shape)
        if trained_shape == tuple(shape):
            return True
        return trained_shape[1:] == tuple(shape[1:]) and (trained_shape[0], shape[0]) in self.grown

    @property
    def origin(self) -> str:
        """The folder of the model, or the path of a model of other data."""
        return self.model if is_path(self.model) else str(self.file.parent)


def load_starts(folder: RunFolder, run: RunConfig, data: Prepared) -> list[Start]:
    """Read the weights that a run starts from.

    They are those of other models, trained on its task with its seed, in folders beside its own, or
    that of a model of other data at the path that `init_from` names. A UserError says that one is
    not trained, or was trained on other symbols than those of the prepared `data`.
    """
    starts = []
    if run.components.trained_start is not None:
        starts.append(_load_trained(run.components.trained_start, run, data))

    for prefix, model in run.components.starts().items():
        trained = folder.member(model)
        file = trained.weights
        if not file.is_file():
            raise UserError(
                f"`{run.model}` starts from `{model}`, which is not trained",
                file=file,
                hint=f"train it first: `pam train --run {quote(str(trained.path))}`",
            )

        tensors, notes = load_tensors(file)
        check_files(trained.model, notes)
        digests = json.loads(notes.get("files", "{}"))
        # Either the model that starts or the one that it takes as its opposite direction may be
        # reversed.
        trained_sides = ["source.vocab", "target.vocab"]
        is_turned = run.components.reversed != (prefix != "")
        sides = trained_sides[::-1] if is_turned else trained_sides
        for trained_side, side in zip(trained_sides, sides, strict=True):
            if digests.get(trained_side) != sha256_of(data.folder / side):
                raise UserError(
                    f"its symbols are not those of {data.folder / side}",
                    file=trained.model / trained_side,
                    hint=f"train `{model}` again on this data, in the direction that is taken over",
                )

        weights = {prefix + name: value for name, value in tensors.items()}
        starts.append(Start(model, file, sha256_of(file), weights))
    return starts


def _load_trained(path: str, run: RunConfig, data: Prepared) -> Start:
    """Read the weights of a trained model of other data.

    A UserError says that there is none, or that the prepared `data` have not its symbols.
    """
    with opened(path) as folder:
        model = Description.of(folder)
        tensors, notes = load_tensors(weights_file(folder))
        check_files(folder, notes)

        grown = set()
        for name, digest in model.digests().items():
            file = data.folder / name
            if file.is_file() and digest == sha256_of(file):
                continue
            if not _has_added(data, folder, name):
                raise UserError(
                    f"`{run.model}` starts from {path}, whose vocabularies differ",
                    file=file,
                    hint=f"prepare the data once more, with `--symbols-of {path}`",
                )
            grown.add((len(Vocabulary.load(folder / name)), len(Vocabulary.load(file))))

        return Start(
            model=path,
            file=Path(path),
            digest=sha256_of(weights_file(folder)),
            weights=tensors,
            grown=frozenset(grown),
        )


def _has_added(data: Prepared, model: Path, name: str) -> bool:
    """Return whether a file of prepared data is a model's vocabulary with symbols added to it."""
    if "added_symbols" not in data.summary or name not in ("source.vocab", "target.vocab"):
        return False
    return Vocabulary.load(data.folder / name).extends(Vocabulary.load(model / name))


def take_over(model: Model, starts: Sequence[Start]) -> None:
    """Give parameters the values of those that have the same name in a trained model.

    The other parameters stay fresh, and so do the rows of symbols that were added to the trained
    model's. A UserError says that one has another shape there, or that none has the same name.
    """
    fresh = dict(model.named_parameters())
    for start in starts:
        shared = [name for name in start.weights if name in fresh]
        for name in shared:
            trained_shape = tuple(start.weights[name].shape)
            shape = tuple(fresh[name].shape)
            if not start.fits(name, shape):
                raise UserError(
                    f"`{name}` of `{start.model}` has the shape {trained_shape}, where {shape} is"
                    " needed",
                    file=start.file,
                    hint="give both models the same sizes in `network`",
                )

        if not shared:
            raise UserError(
                f"`{start.model}` has no parameter of this model",
                file=start.file,
                hint=(
                    "start from a model that shares some, such as encoder and decoder, or leave out"
                    " `init_from`"
                ),
            )

        extended = []
        for name in shared:
            trained = start.weights[name]
            parameter = fresh.pop(name)
            with torch.no_grad():
                if parameter.shape == trained.shape:
                    parameter.copy_(trained)
                else:
                    extended.append(name)
                    parameter[: len(trained)].copy_(trained)

        if extended:
            log.info("new symbols have fresh rows in %s", _listed(extended))
        left = sorted(start.weights.keys() - set(shared))
        log.info(
            "starting from %s: copied %s; not used: %s",
            start.file,
            _listed(shared),
            _listed(left),
        )

    log.info("initialized: %s", _listed(list(fresh)))


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "nothing"
    return f"{len(names)} parameters ({', '.join(names)})"
