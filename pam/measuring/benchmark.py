"""Speed, measured side by side: models take turns, so that what slows one slows all."""

from __future__ import annotations

import datetime
import logging
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from pam.data.dataset import Batch, Examples, Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import find_dataset
from pam.decoding.search import search
from pam.experiments.loading import load_plan
from pam.experiments.model import ModelConfig, load_model
from pam.experiments.parsing import parse
from pam.experiments.run_folder import command_line
from pam.experiments.settings import Decoding, Network
from pam.models.build import build
from pam.models.model import Model, match
from pam.runtime import devices, processor
from pam.runtime.errors import UserError
from pam.runtime.files import write_json
from pam.runtime.torch_internals import by_operator, onednn_float32

Work = Callable[[Batch], object]
TURNS = 5  # of products, of which the fastest counts
TURN_S = 0.05  # seconds of such a turn at least
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """A plan of measurements: each model has its turn `rounds` times, with so many `batches`."""

    network: Network
    batch_size: int
    rounds: int
    batches: int
    # untimed batches before: attention that has found its focus is cheaper than with random weights
    warm_up: int
    beams: list[int]  # of each search that is timed
    precision: str  # of a training, and of search
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
    operations: float = 0.0  # of the products for one example, counted in a turn that is not timed

    def turn(self, first: int, count: int) -> tuple[int, int]:
        """Work on `count` batches from number `first` on; return their examples and tokens."""
        numbers = range(first, first + count)
        chosen = [self.batches[number % len(self.batches)] for number in numbers]
        for batch in chosen:
            self.work(batch)

        examples = sum(len(batch.rows) for batch in chosen)
        tokens = sum(int(batch.mask.sum()) for batch in chosen)
        return examples, tokens


def clock(device: torch.device) -> float:
    """Read a device's clock: CPU seconds of this process, or wall seconds once CUDA is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def training(model: Model, plan: Plan) -> Work:
    """Return the work of a training step, as `pam train` does it: gradient, clipping and Adam."""
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


def decode(model: Model, actions: bool, settings: Decoding, batch: Batch) -> None:
    """Search for the outputs of a batch."""
    model.eval()
    search(model, batch.source, batch.lengths, settings, actions)


def take_turns(
    runners: Sequence[Runner], work_name: str, plan: Plan, device: torch.device, fastest: float
) -> list[dict[str, Any]]:
    """Time all runners, a turn each per round, on the same rows.

    Returns a row of the table for each. `time_vs_first` is the median of the rounds' ratios.
    `gflop_s` is the rate of the operations in products, over the whole time, and `share` its ratio
    to the rate of the `fastest` product.
    """
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
            # Operations are counted halfway: a sum that is cut takes fewer as attention sharpens.
            if number == plan.rounds // 2:
                turn = partial(runner.turn, number * plan.batches, plan.batches)
                runner.operations = count_operations(turn) / examples

    return [_row(runner, runners[0], work_name, fastest) for runner in runners]


def _row(runner: Runner, first: Runner, work_name: str, fastest: float) -> dict[str, Any]:
    """Return the row of a runner, compared with the first one."""
    pairs = zip(first.rates, runner.rates, strict=True)
    ratios = [first_rate / rate for first_rate, rate in pairs]
    gflop_s = median(runner.rates) * runner.operations / 1e9
    row = {
        "what": work_name,
        "model": runner.label,
        **_spread("per_second", runner.rates),
        "tokens_per_second": round(median(runner.tokens), 1),
        "time_vs_first": round(median(ratios), 3),
        "gflop_s": round(gflop_s, 1),
        "share": round(gflop_s / fastest, 3),
    }
    if runner.gpu_mb:
        row["gpu_mb"] = round(runner.gpu_mb)
    return row


def _spread(name: str, rates: Sequence[float]) -> dict[str, float]:
    """Return the median, the least and the most of some rates."""
    return {
        name: round(median(rates), 1),
        "lowest": round(min(rates), 1),
        "highest": round(max(rates), 1),
    }


def measure(
    models: dict[str, ModelConfig], data: Prepared, plan: Plan, device: torch.device
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Time training, then greedy search and beam search of each model.

    Training comes first, so that models have learned where outputs end.

    Returns:
        The rows of the table, and the products by whose rate their `share` is taken.
    """
    # Models that read the same kind of batches share them.
    kinds = {}
    batches = {}
    for name, components in models.items():
        kinds[name] = (components.targets, components.copying.copies)
        batches[kinds[name]] = batches_of(data, components, plan, device)

    tokens = int(median(int(batch.mask.sum()) for batch in next(iter(batches.values()))))
    products = time_products(plan, tokens, len(data.target), device)
    fastest_rate = fastest(products, plan.precision)

    networks = {name: fresh(components, data, plan, device) for name, components in models.items()}
    runners = [
        Runner(name, batches[kinds[name]], training(network, plan))
        for name, network in networks.items()
    ]
    rows = take_turns(runners, "training, examples", plan, device, fastest_rate)

    # TF32 is a setting of the device's float32 products
    precision = "bf16" if plan.precision == "bf16" else "float32"
    for beam in plan.beams:
        settings = parse(Decoding, {"beam": beam, "precision": precision})
        runners = []
        for name, network in networks.items():
            work = partial(decode, network, models[name].targets == "actions", settings)
            runners.append(Runner(name, batches[kinds[name]], work))
        how = "greedy" if beam == 1 else f"beam {beam}"
        rows += take_turns(runners, f"decoding ({how}), sentences", plan, device, fastest_rate)

    return rows, products


def fresh(components: ModelConfig, data: Prepared, plan: Plan, device: torch.device) -> Model:
    """Make a model with fresh weights, the same for the same components."""
    torch.manual_seed(1)
    model = build(components, plan.network, len(data.source), len(data.target), data.codec.units)
    match(model, data.source, data.target)
    return model.to(device)


def batches_of(
    data: Prepared, components: ModelConfig, plan: Plan, device: torch.device
) -> list[Batch]:
    examples = Examples(data.split("train", components.copying.copies), components.targets)
    order = examples.shuffled(plan.batch_size, seed=1, epoch=0)
    return [examples.batch(rows).to(device) for rows in order]


def named_model(name: str, variants: Mapping[str, ModelConfig] | None = None) -> ModelConfig:
    """Read a model by the name of its file, or of one of `variants`.

    `NAME:K` sums over the top K positions, `NAME:0.99` over that nucleus, `NAME:0.99:K` over both.
    """
    parts = re.fullmatch(r"([^:]*)(?::(\d*\.\d+))?(?::(\d+))?", name, re.ASCII)
    if parts is None:
        hint = "write NAME, NAME:K (a whole number), NAME:MASS (such as 0.99) or NAME:MASS:K"
        raise UserError(f"model `{name}`", hint=hint)

    stem, mass, top_k = parts.groups()
    components = (variants or {}).get(stem) or load_model(stem)
    if mass is None and top_k is None:
        return components

    summed = components.marginalization.model_dump()
    summed |= {"top_k": top_k and int(top_k), "mass": mass and float(mass)}
    # The bound has a second distribution, which is cut alike.
    if summed["kind"] == "bound":
        summed["q_top_k"] = summed["top_k"]
    return parse(ModelConfig, components.model_dump() | {"marginalization": summed})


def beside(components: ModelConfig, data: Prepared, plan: Plan, jobs: int) -> dict[str, Any]:
    """Time so many trainings, each a process on the CPU, at once and in turn, round by round.

    The result, in medians over rounds: `at_once` and `in_turn` are examples per wall second of all
    trainings together, `time_ratio` is the time at once over that in turn, 1 / `jobs` where
    there are cores enough.
    """
    # raises what is wrong before other processes meet it
    batches_of(data, components, plan, torch.device("cpu"))

    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(jobs):
        here, there = context.Pipe()
        process = context.Process(
            target=_train_in_turns, args=(there, components, data.folder, plan), daemon=True
        )
        process.start()
        pipes.append(here)
    # The first turn is not timed: it waits until all are ready.
    _time_turns(pipes, 0)

    at_once = []
    in_turn = []
    ratios = []
    for number in range(1, plan.rounds + 1):
        together, examples = _time_turns(pipes, number)
        apart = sum(_time_turns([pipe], number)[0] for pipe in pipes)
        at_once.append(examples / together)
        in_turn.append(examples / apart)
        ratios.append(together / apart)
    for pipe in pipes:
        pipe.send(None)

    return {
        "jobs": jobs,
        **_spread("at_once", at_once),
        "in_turn": round(median(in_turn), 1),
        "time_ratio": round(median(ratios), 3),
    }


def _time_turns(pipes: Sequence[Connection], number: int) -> tuple[float, int]:
    """Return the wall seconds until all of these have had their turn, and the examples in it."""
    began = time.perf_counter()
    for pipe in pipes:
        pipe.send(number)
    examples = sum(pipe.recv() for pipe in pipes)
    return time.perf_counter() - began, examples


def _train_in_turns(pipe: Connection, components: ModelConfig, folder: Path, plan: Plan) -> None:
    """Train in the turns whose numbers come through the pipe, until None comes."""
    devices.keep_heap()
    torch.set_num_threads(plan.threads)
    devices.use_precision(plan.precision)

    data = Prepared(folder)
    device = torch.device("cpu")
    work = training(fresh(components, data, plan, device), plan)
    runner = Runner("", batches_of(data, components, plan, device), work)
    runner.turn(0, plan.warm_up)

    while (number := pipe.recv()) is not None:
        examples, _ = runner.turn(number * plan.batches, plan.batches)
        pipe.send(examples)


# Operations in products, and the rate at which the device does them.


def count_operations(work: Callable[[], object]) -> int:
    """Count the operations of all products of a piece of work.

    Gradients, hand-made kernels and the zeros that pad rows are included.
    """
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        work()
    return int(counter.get_total_flops())


def _lstm(states: Sequence[int], weights: Sequence[Sequence[int]]) -> int:
    """Count the operations of fused LSTMs over states (steps, batch, units).

    `weights` are the shapes of weights and biases; biases have no product.
    """
    return 2 * prod(states[:-1]) * sum(prod(shape) for shape in weights if len(shape) == 2)


# What torch's own counter leaves out: products in place and fused LSTMs. A backward pass is two
# products for each one.
FORMULAS = by_operator(
    {
        "addmm_": lambda _, left, right, **__: 2 * prod(left) * right[-1],
        "mkldnn_rnn_layer": lambda states, *weights, **_: _lstm(states, weights[:2]),
        "mkldnn_rnn_layer_backward": lambda states, *weights, **_: 2 * _lstm(states, weights[:2]),
        "_cudnn_rnn": lambda states, weights, *_, **__: _lstm(states, weights),
        "_cudnn_rnn_backward": lambda states, weights, *_, **__: 2 * _lstm(states, weights),
    }
)


def time_products(
    plan: Plan, tokens: int, vocabulary: int, device: torch.device
) -> list[dict[str, Any]]:
    """Measure the GFLOP/s of products (n, k) by (k, m).

    The products are those of a step of the decoder's LSTM, and of the output layer for a batch.
    They are taken in float32 as torch takes them by default, on a CPU also by oneDNN where it does
    not round, and in bf16 if that is trained.
    """
    kinds = [("float32", "default")]
    if plan.precision == "bf16":
        kinds.append(("bf16", "default"))
    # oneDNN may round float32 to bfloat16, which would be compared with exact products.
    if device.type == "cpu" and processor.onednn_is_exact():
        kinds.append(("float32", "oneDNN"))

    units = plan.network.decoder
    shapes = ((plan.batch_size, units, 4 * units), (tokens, units, vocabulary))
    rates = []
    for precision, library in kinds:
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        for shape in shapes:
            with onednn_float32() if library == "oneDNN" else nullcontext():
                rate = _product_rate(*shape, dtype, device)
            rates.append(
                {
                    "precision": precision,
                    "library": library,
                    "shape": " x ".join(map(str, shape)),
                    "gflop_s": round(rate, 1),
                }
            )
    return rates


def _product_rate(n: int, k: int, m: int, dtype: torch.dtype, device: torch.device) -> float:
    """Return the GFLOP/s of a product (n, k) by (k, m)."""
    left = torch.randn(n, k, device=device, dtype=dtype)
    right = torch.randn(m, k, device=device, dtype=dtype)
    out = left.new_empty(n, m)  # so that memory is not allocated in the time measured

    repeats = 1
    turns: list[float] = []  # seconds of one product in each
    while len(turns) < TURNS:
        began = clock(device)
        for _ in range(repeats):
            torch.mm(left, right.t(), out=out)
        spent = clock(device) - began
        # Too short a turn is noise.
        if spent < TURN_S:
            repeats *= 2
        else:
            turns.append(spent / repeats)

    return 2e-9 * n * k * m / min(turns)


def fastest(products: Sequence[dict[str, Any]], precision: str = "float32") -> float:
    """Return the highest rate of these products, in bf16 if that is the precision.

    Otherwise it is the highest in what torch takes float32 for, TF32 included.
    """
    wants_bf16 = precision == "bf16"
    rates = [
        product["gflop_s"] for product in products if (product["precision"] == "bf16") == wants_bf16
    ]
    return float(max(rates))


def run(
    names: list[str],
    plan: Plan,
    folder: Path | None,
    device_name: str,
    jobs: int | None,
    out: Path,
    experiment: Path | None = None,
) -> None:
    """Measure models, print the figures and write them to `out` with all that they depend on.

    The models are files of config/models/, or variants that the file of an experiment writes.
    Without a folder of prepared data it takes the German nouns; with `jobs` it times so many
    trainings at once instead.
    """
    devices.keep_heap()
    torch.set_num_threads(plan.threads)

    device = devices.choose_device(device_name)
    asked = plan.precision
    if device.type == "cpu":
        plan = replace(plan, precision=processor.usable_precision(asked, device))
    # What was asked for may not be worth it on this processor.
    if asked == "bf16" and plan.precision != "bf16":
        log.warning(f"in {plan.precision}: {processor.try_bfloat16().reason}")
    library = devices.use_precision(plan.precision, device=device)

    variants = None
    if experiment:
        variants = load_plan(files=[experiment]).components
    models = {name: named_model(name, variants) for name in names}

    with tempfile.TemporaryDirectory() as temporary:
        data = Prepared(folder or _prepare_nouns(Path(temporary)))
        if jobs:
            products: list[dict[str, Any]] = []
            rows = [
                {"model": name, **beside(components, data, plan, jobs)}
                for name, components in models.items()
            ]
        else:
            rows, products = measure(models, data, plan, device)

    clock_name = "wall seconds" if device.type == "cuda" or jobs else "CPU seconds"
    record = _conditions(plan, data, device, clock_name, library)
    record["products"] = products
    record["rows"] = rows

    sys.stdout.write(_text(record))
    write_json(out, record)
    sys.stdout.write(f"written to {out}\n")


def _conditions(
    plan: Plan, data: Prepared, device: torch.device, clock_name: str, library: str
) -> dict[str, Any]:
    """Return all that the figures depend on; `library` is that of float32 products."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command_line(),
        "data": data.summary["dataset"],
        "clock": clock_name,
        "threads": plan.threads,
        "network": plan.network.model_dump(),
        "batch_size": plan.batch_size,
        "precision": plan.precision,
        "float32_products": library,
        "vocabulary": {"source": len(data.source), "target": len(data.target)},
        "hardware": devices.hardware(device),
        "versions": devices.versions(),
        "peak_memory_mb": round(devices.peak_memory_mb()),
    }


def _prepare_nouns(folder: Path) -> Path:
    """Prepare the German nouns below `folder`; return the folder of the prepared data."""
    data = folder / "data"
    raw = folder / "raw"
    nouns = find_dataset(["config/datasets.yaml"], "de-noun")
    fetch("de-noun", nouns, raw)
    prepare("de-noun", nouns, raw, data)
    return data


def _text(record: dict[str, Any]) -> str:
    """Format a record for printing: the machine and its products, and the table of rows."""
    machine = record["hardware"]
    products = record["products"]
    unit = record["clock"].removesuffix("s")
    if not products:
        unit += ", of all trainings together"
    head = (
        f"{machine['gpu'] or machine['cpu']}, {record['threads']} thread(s), torch"
        f" {record['versions']['torch']}, {record['date']}; {record['data']}, batch"
        f" {record['batch_size']}; rates per {unit}\n"
    )
    if products:
        timed = pd.DataFrame(products).to_string(index=False)
        head += f"products n x k x m; `share` is of the fastest in its precision\n{timed}\n"
    return f"{head}{pd.DataFrame(record['rows']).to_string(index=False)}\n"
