"""Trained models joined to one that decodes by the mean of their distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pam.decoding.length_prior import FILE as LENGTHS
from pam.io import UserError, sha256_of, write_json, write_text
from pam.models.build import parameters_of
from pam.models.checkpoint import SavedModel, belongings, load_model, save_model
from pam.run_folder import RunFolder, command_line
from pam.training.logging import Stopwatch, hardware, versions


def join(run: RunFolder) -> None:
    """Makes the model of an ensemble from the runs of its members, with the same task and seed.

    Raises:
        UserError: it has no members, one of them is not trained, or they write different symbols.
    """
    watch = Stopwatch(torch.device("cpu"))
    config = run.load()
    folders = [run.member(name).model for name in config.components.members]
    if not folders:
        raise UserError(
            f"`{config.model}` has a training of its own",
            file=run.config_file,
            hint="use `pam train`, or name `members` in the model's file",
        )
    members = [load_model(folder) for folder in folders]
    _check_symbols(folders, members)
    write_text(run.model / LENGTHS, (folders[0] / LENGTHS).read_text(encoding="utf-8"))
    save_model(run.model, config, members[0].task, folders[0], _weights(members))
    load_model(run.model)  # whether the run says of the members what they are
    write_json(run.training, _record(config.seed, folders, members, watch.restart()))


def _check_symbols(folders: list[Path], members: list[SavedModel]) -> None:
    """Checks that all read and write the same symbols.

    Raises:
        UserError: one does not; names it.
    """
    for folder, member in zip(folders[1:], members[1:], strict=True):
        for name in belongings(member.task):
            first = folders[0] / name
            if not first.is_file() or sha256_of(first) != sha256_of(folder / name):
                raise UserError(
                    f"its symbols are not those of {first}",
                    file=folder / name,
                    hint="join models that were trained on the same prepared data",
                )


def _weights(members: list[SavedModel]) -> dict[str, Tensor]:
    return {
        f"members.{place}.{name}": tensor
        for place, member in enumerate(members)
        for name, tensor in member.network.state_dict().items()
    }


def _record(
    seed: int, folders: list[Path], members: list[SavedModel], spent: tuple[float, float, float]
) -> dict[str, Any]:
    """Cost and origin. The cost is of joining: trainings count with the members, once."""
    return {
        **dict(zip(("wall_s", "cpu_s", "gpu_s"), spent, strict=True)),
        "device": "cpu",
        "hardware": hardware(torch.device("cpu")),
        "versions": versions(),
        "seed": seed,
        "parameters": sum(parameters_of(member.network) for member in members),
        "members": [str(folder) for folder in folders],
        "command": command_line(),
    }
