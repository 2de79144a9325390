"""Trainings in the test's own process."""

from __future__ import annotations

from pathlib import Path

import torch

from pam.data.dataset import Examples, Prepared
from pam.experiments.run_config import RunConfig
from pam.models.build import build
from pam.training.checkpoint import Progress, StateFolder
from pam.training.distributed import ProcessGroup
from pam.training.graphs import Recorder
from pam.training.logging import Reporter
from pam.training.preemption import Stop
from pam.training.trainer import Trainer

Result = tuple[dict[str, torch.Tensor], Progress]


def trainer(
    run: RunConfig,
    data: Path,
    out: Path,
    *,
    reporter: Reporter | None = None,
    group: ProcessGroup | None = None,
    stop: Stop | None = None,
    recorder: Recorder | None = None,
) -> Trainer:
    """Make a training with its state and its curves in `out`.

    Args:
        reporter: by default one whose lines begin with `small:`.
        recorder: of steps that are replayed.
        group: each of its processes has weights of its own at first, which must not matter.
    """
    prepared = Prepared(data)
    group = group or ProcessGroup()
    train = Examples(prepared.split("train"), run.components.targets)
    dev = Examples(prepared.split("dev"), run.components.targets)

    torch.manual_seed(run.seed + group.rank)
    model = build(run.components, run.network, len(prepared.source), len(prepared.target))
    model = model.to(group.device)

    states = StateFolder(out / "state", "key")
    reporter = reporter or Reporter("small", out / "events")

    return Trainer(run, model, train, dev, states, reporter, group, stop or Stop(), recorder)


def trained(run: RunConfig, data: Path, out: Path, stop: Stop | None = None) -> Result:
    """Train; return the resulting weights, and how the training went."""
    return trainer(run, data, out, stop=stop).run()


def without_dropout(run: RunConfig) -> RunConfig:
    """Return the same run, in which nothing is drawn by dropout."""
    return run.model_copy(update={"network": run.network.model_copy(update={"dropout": 0.0})})
