"""Several processes for one training, started by torchrun, each with its part of every batch."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    get_error_handler,
)

from pam.runtime.devices import choose_device
from pam.runtime.errors import UserError
from pam.runtime.torch_internals import says_lost_peer

# a process waits for others as long as they live: for a lock, a slow disk
TIMEOUT = timedelta(days=365)
CPU = torch.device("cpu")
OTHERS_FAILED = 3  # exit code of a process that lost the others; one of those reports what is wrong


@dataclass(frozen=True)
class ProcessGroup:
    """The `size` processes that share a training, by default one.

    `rank` is the number of this process, from 0, and `device` is its device.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def is_main(self) -> bool:
        """True in the process that reads, writes and reports for all."""
        return self.rank == 0

    def gather(self, *values: float) -> list[tuple[float, ...]]:
        """Return for each value a tuple with those of all processes, which call this together."""
        if self.size == 1:
            return [(value,) for value in values]

        of_this_process = torch.tensor(values, dtype=torch.float64, device=self.device)
        of_processes = [torch.empty_like(of_this_process) for _ in range(self.size)]
        distributed.all_gather(of_processes, of_this_process)
        return list(zip(*(tensor.tolist() for tensor in of_processes), strict=True))


def step_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of what a process draws in a step.

    So no state of a generator is saved, and any number of processes can go on.
    """
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])


@contextmanager
def joined(device: str | torch.device) -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started, or else stay alone.

    An error in this context goes to torchrun, which ends the other processes; so it is printed
    once. For `device` see `choose_device`; on CUDA, each process has a GPU of its own.
    """
    if not distributed.is_torchelastic_launched():
        yield ProcessGroup(device=choose_device(device))
        return

    rank = int(os.environ["RANK"])
    size = int(os.environ["WORLD_SIZE"])
    local_rank = int(os.environ["LOCAL_RANK"])
    if rank > 0:
        logging.getLogger().setLevel(logging.ERROR)

    try:
        chosen_device = choose_device(device, local_rank)
        backend = "nccl" if chosen_device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=TIMEOUT)
        yield ProcessGroup(rank, size, chosen_device)
        distributed.destroy_process_group()
    except UserError as error:
        get_error_handler().record_exception(error)
        sys.exit(2)
    except RuntimeError as error:
        if not says_lost_peer(error):
            raise
        sys.exit(OTHERS_FAILED)


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `python -m pam ARGUMENTS` in several processes of this machine, as torchrun does.

    They share the threads of this process's environment. A process that fails ends the others; the
    exit code is its own, and a UserError says what went wrong in it, or that it was killed.
    """
    # Not through torchrun's command line, which takes `--run` for an option of its own.
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    threads = os.environ.get("OMP_NUM_THREADS", "")
    threads_of_process = int(threads) // processes if threads.isdecimal() else 1
    os.environ["OMP_NUM_THREADS"] = str(max(1, threads_of_process))
    # What went wrong is reported here, once.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)

    with tempfile.TemporaryDirectory() as logs:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=processes,
            logs_specs=DefaultLogsSpecs(log_dir=logs),
            run_id=str(uuid.uuid4()),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
        )
        try:
            elastic_launch(config, sys.executable)("-u", "-m", "pam", *arguments)
        except SignalException as stopped:
            return 128 + stopped.sigval
        except ChildFailedError as failed:
            return _first_failure(failed.failures, processes)

    return 0


def _first_failure(failures: dict[int, ProcessFailure], processes: int) -> int:
    """Return the exit code of the process that failed first, or raise its UserError.

    Processes that ended only because of it do not count.
    """
    for failure in failures.values():
        message: Any = failure.message  # a text, if the process left none itself
        if isinstance(message, dict):
            raise UserError(message["message"].removeprefix(f"{UserError.__name__}: "))

    codes = {rank: failure.exitcode for rank, failure in failures.items()}
    consequences = (OTHERS_FAILED, -signal.SIGTERM)
    rank = next((rank for rank, code in codes.items() if code not in consequences), min(codes))

    # A negative code is the number of the signal that killed the process.
    if codes[rank] < 0:
        message = (
            f"process {rank + 1} of {processes} of this training was killed"
            f" ({failures[rank].signal_name()})"
        )
        memory = "lower `training.batch_size` or raise `training.accumulate` first"
        hint = (
            "run it again: it resumes from its last state; if the machine ran out of memory,"
            f" {memory}"
        )
        raise UserError(message, hint=hint)
    return codes[rank]
