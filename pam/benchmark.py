"""Speed, measured side by side: models take turns, so that what slows one slows all."""

from __future__ import annotations

import datetime
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch

from pam.config import Decoding, ModelConfig, Network, load_model
from pam.data.dataset import Batch, Examples, Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import find_dataset
from pam.decoding.search import search
from pam.io import UserError, parse, write_json
from pam.models.build import build
from pam.models.model import Model
from pam.run_folder import command_line
from pam.training import devices

Work = Callable[[Batch], object]


@dataclass(frozen=True)
class Plan:
    """What is measured: each model has its turn `rounds` times, with so many `batches`."""

    network: Network
    batch_size: int
    rounds: int
    batches: int
    warm_up: int  # untimed batches before: attention that has found its focus is cheaper than with random weights
    beams: list[int]  # of each search that is timed
    precision: str  # of a training
    threads: int  # of each process


@dataclass
class Runner:
    """One model at one kind of work on batches of the same rows for all."""

    label: str
    batches: Sequence[Batch]
    work: Work
    rates: list[float] = field(default_factory=list)  # examples per second, of each turn
    tokens: list[float] = field(default_factory=list)  # target tokens per second, of each turn
    gpu_mb: float = 0.0  # the most that turns have held of a CUDA device

    def turn(self, first: int, count: int) -> tuple[int, int]:
        """Works on `count` batches from number `first` on; how many examples and target tokens."""
        chosen = [self.batches[(first + place) % len(self.batches)] for place in range(count)]
        for batch in chosen:
            self.work(batch)
        return sum(len(batch.rows) for batch in chosen), sum(int(b.mask.sum()) for b in chosen)


def clock(device: torch.device) -> float:
    """The clock of a device: CPU seconds of this process, or wall seconds once CUDA is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def training(model: Model, plan: Plan) -> Work:
    """A step of training: likelihood, gradient, clipping and Adam, as `pam train` does them."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    model.use_bf16(plan.precision == "bf16")

    def work(batch: Batch) -> None:
        model.train()
        optimizer.zero_grad()
        objective = model.objective(batch.source, batch.lengths, batch.target)
        (-objective[batch.mask].mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return work


def decode(model: Model, actions: bool, beam: int, batch: Batch) -> None:
    model.eval()
    search(model, batch.source, batch.lengths, Decoding(beam=beam), actions)


def take_turns(runners: Sequence[Runner], what: str, plan: Plan, device: torch.device) -> list[dict[str, Any]]:
    """Times all runners, a turn each per round, on the same rows; `time_vs_first` is the median of rounds' ratios."""
    for runner in runners:
        runner.turn(0, plan.warm_up)
    for number in range(plan.rounds):
        for runner in runners:
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)
            began = clock(device)
            examples, tokens = runner.turn(number * plan.batches, plan.batches)
            spent = clock(device) - began
            runner.rates.append(examples / spent)
            runner.tokens.append(tokens / spent)
            runner.gpu_mb = max(runner.gpu_mb, devices.peak_gpu_memory_mb(device) or 0.0)
    rows = []
    for runner in runners:
        ratios = [a / b for a, b in zip(runners[0].rates, runner.rates, strict=True)]
        row = {"what": what, "model": runner.label, **_spread("per_second", runner.rates)}
        row |= {"tokens_per_second": round(median(runner.tokens), 1), "time_vs_first": round(median(ratios), 3)}
        rows.append(row | ({"gpu_mb": round(runner.gpu_mb)} if runner.gpu_mb else {}))
    return rows


def _spread(name: str, rates: Sequence[float]) -> dict[str, float]:
    """Median, least and most of some rates."""
    return {name: round(median(rates), 1), "lowest": round(min(rates), 1), "highest": round(max(rates), 1)}


def measure(models: dict[str, ModelConfig], data: Prepared, plan: Plan, device: torch.device) -> list[dict[str, Any]]:
    """Times training, then, as models have learned where outputs end, greedy search and beam search of each model."""
    batches = {components.targets: batches_of(data, components, plan, device) for components in models.values()}
    made = {name: fresh(components, data, plan, device) for name, components in models.items()}
    targets = {name: components.targets for name, components in models.items()}
    runners = [Runner(name, batches[targets[name]], training(model, plan)) for name, model in made.items()]
    rows = take_turns(runners, "training, examples", plan, device)
    for beam in plan.beams:
        works = {name: partial(decode, model, targets[name] == "actions", beam) for name, model in made.items()}
        runners = [Runner(name, batches[targets[name]], work) for name, work in works.items()]
        how = "greedy" if beam == 1 else f"beam {beam}"
        rows += take_turns(runners, f"decoding ({how}), sentences", plan, device)
    return rows


def fresh(components: ModelConfig, data: Prepared, plan: Plan, device: torch.device) -> Model:
    """A model with fresh weights, the same for the same components."""
    torch.manual_seed(1)
    return build(components, plan.network, len(data.source), len(data.target)).to(device)


def batches_of(data: Prepared, components: ModelConfig, plan: Plan, device: torch.device) -> list[Batch]:
    examples = Examples(data.split("train"), components.targets)
    order = examples.shuffled(plan.batch_size, seed=1, epoch=0)
    return [examples.batch(rows).to(device) for rows in order]


def named_model(name: str) -> ModelConfig:
    """A model by its name; `NAME:K` cuts its sum over positions to the top K."""
    stem, _, top_k = name.partition(":")
    components = load_model(stem)
    if not top_k:
        return components
    if not top_k.isdigit():
        raise UserError(f"model `{name}`", hint="write NAME or NAME:K, K a whole number")
    summed = components.marginalization
    cut = dict.fromkeys(("top_k", "q_top_k") if summed.kind == "bound" else ("top_k",), int(top_k))
    return parse(ModelConfig, components.model_dump() | {"marginalization": summed.model_dump() | cut})


def beside(components: ModelConfig, data: Prepared, plan: Plan, jobs: int) -> dict[str, Any]:
    """Times so many trainings, each a process on the CPU, at once and in turn, round by round.

    The result, in medians over rounds: `at_once` and `in_turn` are examples per wall second of all trainings together,
    `time_ratio` is the time at once over that in turn, 1 / `jobs` where there are cores enough.
    """
    batches_of(data, components, plan, torch.device("cpu"))  # raises what is wrong before other processes meet it
    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(jobs):
        here, there = context.Pipe()
        context.Process(target=_train_in_turns, args=(there, components, data.folder, plan), daemon=True).start()
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
    found = _spread("at_once", at_once) | {"in_turn": round(median(in_turn), 1)}
    return {"jobs": jobs, **found, "time_ratio": round(median(ratios), 3)}


def _timed(pipes: Sequence[Connection], number: int) -> tuple[float, int]:
    """Wall seconds until all of these have had their turn, and the examples in it."""
    began = time.perf_counter()
    for pipe in pipes:
        pipe.send(number)
    examples = sum(pipe.recv() for pipe in pipes)
    return time.perf_counter() - began, examples


def _train_in_turns(pipe: Connection, components: ModelConfig, folder: Path, plan: Plan) -> None:
    """A training that does the turn whose number it is given, until it is given none."""
    devices.keep_heap()
    torch.set_num_threads(plan.threads)
    data, device = Prepared(folder), torch.device("cpu")
    work = training(fresh(components, data, plan, device), plan)
    runner = Runner("", batches_of(data, components, plan, device), work)
    runner.turn(0, plan.warm_up)
    while (number := pipe.recv()) is not None:
        examples, _ = runner.turn(number * plan.batches, plan.batches)
        pipe.send(examples)


def run(names: list[str], plan: Plan, folder: Path | None, device_name: str, jobs: int | None, out: Path) -> None:
    """Measures models, prints the figures and writes them to `out` with all that they depend on.

    Without a folder of prepared data it takes the German nouns; with `jobs` it times so many trainings at once instead.
    """
    devices.keep_heap()
    torch.set_num_threads(plan.threads)
    device = devices.choose_device(device_name)
    devices.use_precision(plan.precision)
    models = {name: named_model(name) for name in names}
    with tempfile.TemporaryDirectory() as place:
        if folder is None:
            folder, raw = Path(place, "data"), Path(place, "raw")
            nouns = find_dataset(["config/datasets.yaml"], "de-noun")
            fetch("de-noun", nouns, raw)
            prepare("de-noun", nouns, raw, folder)
        data = Prepared(folder)
        if jobs:
            rows = [{"model": name, **beside(one, data, plan, jobs)} for name, one in models.items()]
        else:
            rows = measure(models, data, plan, device)
    record: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command_line(),
        "data": data.summary["dataset"],
        "clock": "wall seconds" if device.type == "cuda" or jobs else "CPU seconds",
        "threads": plan.threads,
        "network": plan.network.model_dump(),
        "batch_size": plan.batch_size,
        "precision": plan.precision,
        "vocabulary": {"source": len(data.source), "target": len(data.target)},
        "hardware": devices.hardware(device),
        "versions": devices.versions(),
        "peak_memory_mb": round(devices.peak_memory_mb()),
        "rows": rows,
    }
    machine, clock_name = record["hardware"], record["clock"].removesuffix("s")
    sys.stdout.write(
        f"{machine['gpu'] or machine['cpu']}, {plan.threads} thread(s), torch {record['versions']['torch']}, "
        f"{record['date']}; {record['data']}, batch {plan.batch_size}; rates per {clock_name}"
        f"{', of all trainings together' if jobs else ''}\n{pd.DataFrame(rows).to_string(index=False)}\n"
    )
    write_json(out, record)
    sys.stdout.write(f"written to {out}\n")
