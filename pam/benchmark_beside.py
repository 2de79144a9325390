"""Trainings beside each other: whether they take less time than one after another."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from pam.benchmark import Plan, Runner, batches_of, fresh, training
from pam.config import ModelConfig
from pam.data.dataset import Prepared
from pam.training.devices import keep_heap


def beside(
    components: ModelConfig, data: Prepared, plan: Plan, jobs: int, threads: int
) -> dict[str, Any]:
    """Times so many trainings, each a process on the CPU, at once and in turn, round by round.

    Args:
        threads: of each training.

    Returns:
        `at_once` and `in_turn`: examples per wall second of all trainings together, medians over
        rounds; `lowest`, `highest`: of `at_once`; `time_ratio`: the median over rounds of the time
        at once over that in turn, which is 1 / `jobs` where there are cores enough.

    Raises:
        UserError: a fault in the data.
    """
    # A fault in the data is told here, before other processes meet it.
    batches_of(data, components, plan, torch.device("cpu"))
    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(jobs):
        here, there = context.Pipe()
        context.Process(
            target=_train, args=(there, components, data.folder, plan, threads), daemon=True
        ).start()
        pipes.append(here)
    _timed(pipes, 0)  # until all are ready
    at_once, in_turn, ratios = [], [], []
    for number in range(1, plan.rounds + 1):
        together, examples = _timed(pipes, number)
        apart = sum(_timed([pipe], number)[0] for pipe in pipes)
        at_once.append(examples / together)
        in_turn.append(examples / apart)
        ratios.append(together / apart)
    for pipe in pipes:
        pipe.send(None)
    return {
        "jobs": jobs,
        "at_once": round(statistics.median(at_once), 1),
        "lowest": round(min(at_once), 1),
        "highest": round(max(at_once), 1),
        "in_turn": round(statistics.median(in_turn), 1),
        "time_ratio": round(statistics.median(ratios), 3),
    }


def _timed(pipes: Sequence[Connection], number: int) -> tuple[float, int]:
    """Wall seconds until all of these have had their turn, and the examples in it."""
    began = time.perf_counter()
    for pipe in pipes:
        pipe.send(number)
    examples = sum(pipe.recv() for pipe in pipes)
    return time.perf_counter() - began, examples


def _train(
    pipe: Connection, components: ModelConfig, folder: Path, plan: Plan, threads: int
) -> None:
    """A training that does the turn whose number it is given, until it is given none."""
    keep_heap()
    torch.set_num_threads(threads)
    data, device = Prepared(folder), torch.device("cpu")
    model, batches = (
        fresh(components, data, plan, device),
        batches_of(data, components, plan, device),
    )
    runner = Runner("", batches, training(model, reference=False, narrow=plan.narrow))
    runner.turn(0, plan.warm_up)
    while (number := pipe.recv()) is not None:
        examples, _ = runner.turn(number * plan.batches, plan.batches)
        pipe.send(examples)
