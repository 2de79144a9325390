"""Trainings in double precision by groups of processes, quick to start: forked as in `runs`."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed import TCPStore
from torch.nn.parallel import DistributedDataParallel

from pam.experiments.run_config import RunConfig
from pam.models.checkpoint import load_tensors, save_tensors
from pam.runtime.files import read_json, write_json
from pam.training.distributed import joined
from pam.training.logging import Reporter
from tests.training.runs import CONTEXT
from tests.training.trainers import trainer


@dataclass(frozen=True)
class Outcome:
    """The outcome of a training.

    Attributes:
        weights: the resulting weights, of the main process.
        history: rows without times.
        last: for each process, its weights after the last step.
    """

    weights: dict[str, Tensor]
    history: list[dict[str, Any]]
    last: list[dict[str, Tensor]]


def train(run: RunConfig, data: Path, out: Path, processes: int) -> Outcome:
    """Train by so many processes, with gloo where there are several."""
    # As torchrun's, it is held until all have ended: a port that is merely free may be taken before
    # it is bound again.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    out.mkdir(exist_ok=True)
    started = [
        CONTEXT.Process(target=_work, args=(rank, processes, store.port, run, data, out))
        for rank in range(processes)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    codes = [process.exitcode for process in started]  # None: it hangs

    assert codes == [0] * processes, f"processes ended with {codes}"

    weights, _ = load_tensors(out / "best")
    last = [load_tensors(out / f"last{rank}")[0] for rank in range(processes)]

    return Outcome(weights, read_json(out / "history.json"), last)


def _work(rank: int, size: int, port: int, run: RunConfig, data: Path, out: Path) -> None:
    if size > 1:
        # As torchrun sets it.
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": "test",
        }

    with joined("cpu") as group:
        training = trainer(run, data, out, reporter=Reporter("", None), group=group)
        training.model.double()
        weights, progress = training.run()
        left = [part for part in gc.get_objects() if isinstance(part, DistributedDataParallel)]
        assert not left, "what shares gradients outlives the group, which may then hang"

    save_tensors(out / f"last{rank}", training.model.state_dict(), {})
    if rank == 0:
        save_tensors(out / "best", weights, {})
        rows = [
            {name: value for name, value in row.items() if name not in ("wall_s", "cpu_s")}
            for row in progress.history
        ]
        write_json(out / "history.json", rows)
    sys.stdout.flush()
