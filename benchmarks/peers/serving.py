"""The task that all servers are given, and the protocol by which the driver asks for turns.

A server is a process with one model. It reads a line of JSON for each turn, a `Turn`, and answers
with one: what it did and the CPU seconds that it took. It imports torch alone, so that it runs
beside any version of a peer.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

DEVICE = torch.device(os.environ.get("PEERS_DEVICE", "cpu"))  # where models are and batches go
PAD, BOS, EOS, UNK, STEP = range(5)  # ids of both vocabularies; words or characters follow
LONGEST = 40  # symbols of an output where the task forces no length

Rows = list[list[int]]
# takes the number of a batch; returns how many examples and target symbols it had
Work = Callable[[int], tuple[int, int]]
# takes the number of a batch; returns what else an answer says, untimed
Notes = Callable[[int], dict[str, float]]


@dataclass(frozen=True)
class Task:
    """Sizes of a model, and batches of ids; every source and target ends with EOS."""

    source: int  # words or characters of the source's vocabulary
    target: int
    embedding: int
    encoder: int  # LSTM units of each direction
    decoder: int
    layers: int  # of encoder and decoder
    dropout: float
    # steps of every decoding, whatever the model has learned; None: until the outputs end
    steps: int | None
    beam: int  # hypotheses of every decoding
    symbols: list[tuple[Rows, Rows]]  # batches of sources and targets
    # the same, targets being a pointer's actions; none where there is no alignment
    actions: list[tuple[Rows, Rows]]


@dataclass(frozen=True)
class Turn:
    """Work on batches `first` to `first + count - 1`.

    Where there are no more batches, it goes on from the first one.
    """

    work: str  # training, decoding by beam search, or greedy decoding
    setting: str  # how products are taken, see `use_setting`
    first: int
    count: int


def use_setting(setting: str) -> None:
    """Set how products are taken: `float32`, `tf32` or `medium`.

    `tf32` is for GPUs, cuDNN's products included. `medium` lets torch round float32 products.
    Whether it does so, and to what, depends on the processor.
    """
    precisions = {"float32": "highest", "tf32": "high", "medium": "medium"}
    if setting not in precisions:
        raise ValueError(f"unknown setting: {setting}")
    torch.set_float32_matmul_precision(precisions[setting])
    torch.backends.cudnn.allow_tf32 = setting != "float32"


def arguments(*models: str) -> tuple[argparse.Namespace, Task]:
    """Read a server's command line, and the task from its file."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--task", type=Path, required=True, help="JSON file that the driver has written"
    )
    parser.add_argument("--model", choices=models or None, required=True)
    parser.add_argument(
        "--encoder", type=int, help="LSTM units of each direction, in place of the task's"
    )
    parser.add_argument(
        "--weights", type=Path, help="weights.safetensors of a trained model, for ours alone"
    )
    args = parser.parse_args()

    content = json.loads(args.task.read_text(encoding="utf-8"))
    if args.encoder:
        content["encoder"] = args.encoder

    torch.set_num_threads(1)
    torch.manual_seed(1)
    return args, Task(**content)


def serve(
    train: Work,
    decode: Work | None,
    use: Callable[[str], None] = use_setting,
    notes: Notes = lambda number: {},
    greedy: Work | None = None,
) -> None:
    """Do turns until the driver closes the pipe.

    What a peer prints itself goes to standard error.
    """
    # Answers have a channel that no peer prints into.
    channel = sys.stdout
    sys.stdout = sys.stderr
    channel.write(json.dumps({"ready": True}) + "\n")
    channel.flush()

    for line in sys.stdin:
        turn = Turn(**json.loads(line))
        use(turn.setting)
        work = {"training": train, "decoding": decode, "greedy": greedy}[turn.work]
        if work is None:
            raise ValueError(f"this server does no {turn.work}")

        # A device works on after a call has returned, so its work is waited for.
        wait_for_device()
        cpu_began = time.process_time()
        wall_began = time.perf_counter()
        done = [work(number) for number in range(turn.first, turn.first + turn.count)]
        wait_for_device()
        cpu_s = time.process_time() - cpu_began
        wall_s = time.perf_counter() - wall_began

        answer = {
            "cpu_s": cpu_s,
            "wall_s": wall_s,
            "count": turn.count,
            "examples": sum(examples for examples, _ in done),
            "symbols": sum(symbols for _, symbols in done),
            "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
            **notes(turn.first),
        }
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


def wait_for_device() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize(DEVICE)


def padded(rows: Sequence[Sequence[int]], padding: int = PAD) -> Tensor:
    """Return rows of ids as a tensor (B, longest), with `padding` at the end."""
    longest = max(map(len, rows))

    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows], device=DEVICE)


def longest_first(sources: Rows, targets: Rows) -> tuple[Rows, Rows]:
    """Sort pairs by falling source length, as packed sequences of older code need them."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))

    return [sources[row] for row in order], [targets[row] for row in order]


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take the gradient, clip it and do the optimizer's step, the same for all."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
