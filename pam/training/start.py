"""Trainings that start from the weights of trained models: `init_from` in a model's file."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pam.config import RunConfig
from pam.data.dataset import Prepared
from pam.io import UserError, sha256_of
from pam.models.checkpoint import WEIGHTS, check_files, load_tensors
from pam.models.model import Model
from pam.run_folder import RunFolder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Start:
    """A trained model whose weights are taken over."""

    model: str
    file: Path
    digest: str  # SHA-256 of the file: with other weights it is another training
    # by the names that the parameters have in the model that starts from them
    weights: dict[str, Tensor]


def load_starts(folder: RunFolder, run: RunConfig, data: Prepared) -> list[Start]:
    """What a run starts from: runs of other models on its task with its seed, beside its own
    folder.

    A UserError says that one is not trained, or was trained on other symbols than those of the
    prepared `data`.
    """
    starts = []
    for prefix, model in run.components.starts().items():
        other = folder.member(model)
        file = other.model / WEIGHTS
        if not file.is_file():
            hint = f"train it first: python -m pam train --run {other.path}"
            raise UserError(
                f"`{run.model}` starts from `{model}`, which is not trained", file=file, hint=hint
            )
        tensors, notes = load_tensors(file)
        check_files(other.model, notes)
        known = json.loads(notes.get("files", "{}"))
        # Either the model that starts or the one that it takes as its opposite direction may be
        # reversed.
        sides = ["source.vocab", "target.vocab"]
        own = sides[::-1] if run.components.reversed != (prefix != "") else sides
        for side, name in zip(sides, own, strict=True):
            if known.get(side) != sha256_of(data.folder / name):
                hint = f"train `{model}` again on this data, in the direction that is taken over"
                raise UserError(
                    f"its symbols are not those of {data.folder / name}",
                    file=other.model / side,
                    hint=hint,
                )
        named = {prefix + name: value for name, value in tensors.items()}
        starts.append(Start(model, file, sha256_of(file), named))
    return starts


def take_over(model: Model, starts: Sequence[Start]) -> None:
    """Gives parameters the values of those that have the same name in a trained model; the others
    stay fresh.

    A UserError says that one has another shape there, or that none has the same name.
    """
    fresh = dict(model.named_parameters())
    for start in starts:
        shared = [name for name in start.weights if name in fresh]
        for name in shared:
            theirs, own = tuple(start.weights[name].shape), tuple(fresh[name].shape)
            if theirs != own:
                message = (
                    f"`{name}` of `{start.model}` has the shape {theirs}, where {own} is needed"
                )
                raise UserError(
                    message, file=start.file, hint="give both models the same sizes in `network`"
                )
        if not shared:
            hint = (
                "start from a model that shares some, such as encoder and decoder, or leave out"
                " `init_from`"
            )
            raise UserError(
                f"`{start.model}` has no parameter that is needed here", file=start.file, hint=hint
            )
        for name in shared:
            with torch.no_grad():
                fresh.pop(name).copy_(start.weights[name])
        left = sorted(start.weights.keys() - set(shared))
        log.info(
            "starting from %s: took over %s; left there: %s",
            start.file,
            _listed(shared),
            _listed(left),
        )
    log.info("starting afresh: %s", _listed(list(fresh)))


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} parameters ({', '.join(names)})" if names else "nothing"
