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

from pam.config import Decoding, ModelConfig, Network, load_model
from pam.data.dataset import Batch, Examples, Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import find_dataset
from pam.decoding.search import search
from pam.experiment import load_plan
from pam.io import UserError, parse, write_json
from pam.models.build import build
from pam.models.copying import match
from pam.models.kernels import onednn_float32
from pam.models.model import Model
from pam.run_folder import command_line
from pam.runtime import devices, processor

Work = Callable[[Batch], object]
# of products: the fastest of so many turns counts, each of so many seconds at least
TURNS, TURN_S = (5, 0.05)
aten: Any = torch.ops.aten
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What is measured: each model has its turn `rounds` times, with so many `batches`."""

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


def decode(model: Model, actions: bool, settings: Decoding, batch: Batch) -> None:
    model.eval()
    search(model, batch.source, batch.lengths, settings, actions)


def take_turns(
    runners: Sequence[Runner], what: str, plan: Plan, device: torch.device, fastest: float
) -> list[dict[str, Any]]:
    """Times all runners, a turn each per round, on the same rows; `time_vs_first` is the median of
    rounds' ratios.

    `gflop_s` is the rate of the operations in products, by the whole time; `share` is that of the
    `fastest` product's.
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
            if (
                number == plan.rounds // 2
            ):  # halfway: a sum that is cut takes fewer as attention sharpens
                turn = partial(runner.turn, number * plan.batches, plan.batches)
                runner.operations = count_operations(turn) / examples
    rows = []
    for runner in runners:
        ratios = [a / b for a, b in zip(runners[0].rates, runner.rates, strict=True)]
        row = {"what": what, "model": runner.label, **_spread("per_second", runner.rates)}
        row |= {
            "tokens_per_second": round(median(runner.tokens), 1),
            "time_vs_first": round(median(ratios), 3),
        }
        gflop_s = median(runner.rates) * runner.operations / 1e9
        row |= {"gflop_s": round(gflop_s, 1), "share": round(gflop_s / fastest, 3)}
        rows.append(row | ({"gpu_mb": round(runner.gpu_mb)} if runner.gpu_mb else {}))
    return rows


def _spread(name: str, rates: Sequence[float]) -> dict[str, float]:
    """Median, least and most of some rates."""
    return {
        name: round(median(rates), 1),
        "lowest": round(min(rates), 1),
        "highest": round(max(rates), 1),
    }


def measure(
    models: dict[str, ModelConfig], data: Prepared, plan: Plan, device: torch.device
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Times training, then, as models have learned where outputs end, greedy search and beam search
    of each model.

    The rows of the table, and the products by whose rate their `share` is taken.
    """
    kinds = {
        name: (components.targets, components.copying.copies) for name, components in models.items()
    }
    batches = {
        kinds[name]: batches_of(data, components, plan, device)
        for name, components in models.items()
    }
    tokens = int(median(int(batch.mask.sum()) for batch in next(iter(batches.values()))))
    products = time_products(plan, tokens, len(data.target), device)
    made = {name: fresh(components, data, plan, device) for name, components in models.items()}
    runners = [
        Runner(name, batches[kinds[name]], training(model, plan)) for name, model in made.items()
    ]
    rows = take_turns(
        runners, "training, examples", plan, device, fastest(products, plan.precision)
    )
    # TF32 is a setting of the device's float32 products
    searched = "bf16" if plan.precision == "bf16" else "float32"
    for beam in plan.beams:
        settings = parse(Decoding, {"beam": beam, "precision": searched})
        works = {
            name: partial(decode, model, models[name].targets == "actions", settings)
            for name, model in made.items()
        }
        runners = [Runner(name, batches[kinds[name]], work) for name, work in works.items()]
        how = "greedy" if beam == 1 else f"beam {beam}"
        rows += take_turns(
            runners, f"decoding ({how}), sentences", plan, device, fastest(products, plan.precision)
        )
    return rows, products


def fresh(components: ModelConfig, data: Prepared, plan: Plan, device: torch.device) -> Model:
    """A model with fresh weights, the same for the same components."""
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
    """A model by the name of its file, or of one of `variants`.

    `NAME:K` sums over the top K positions, `NAME:0.99` over that nucleus, `NAME:0.99:K` over both.
    """
    found = re.fullmatch(r"([^:]*)(?::(\d*\.\d+))?(?::(\d+))?", name, re.ASCII)
    if found is None:
        hint = "write NAME, NAME:K (a whole number), NAME:MASS (such as 0.99) or NAME:MASS:K"
        raise UserError(f"model `{name}`", hint=hint)
    stem, mass, top_k = found.groups()
    components = (variants or {}).get(stem) or load_model(stem)
    if mass is None and top_k is None:
        return components
    summed = components.marginalization.model_dump()
    summed |= {"top_k": top_k and int(top_k), "mass": mass and float(mass)}
    if summed["kind"] == "bound":
        summed["q_top_k"] = summed["top_k"]
    return parse(ModelConfig, components.model_dump() | {"marginalization": summed})


def beside(components: ModelConfig, data: Prepared, plan: Plan, jobs: int) -> dict[str, Any]:
    """Times so many trainings, each a process on the CPU, at once and in turn, round by round.

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
        context.Process(
            target=_train_in_turns, args=(there, components, data.folder, plan), daemon=True
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
    devices.use_precision(plan.precision)
    data, device = Prepared(folder), torch.device("cpu")
    work = training(fresh(components, data, plan, device), plan)
    runner = Runner("", batches_of(data, components, plan, device), work)
    runner.turn(0, plan.warm_up)
    while (number := pipe.recv()) is not None:
        examples, _ = runner.turn(number * plan.batches, plan.batches)
        pipe.send(examples)


# Operations in products, and the rate at which the device does them.


def count_operations(work: Callable[[], object]) -> int:
    """Operations of all products of a piece of work, with gradients, hand-made kernels and the
    zeros that pad rows.
    """
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        work()
    return int(counter.get_total_flops())


def _lstm(states: Sequence[int], weights: Sequence[Sequence[int]]) -> int:
    """Of fused LSTMs over states (steps, batch, units), by the shapes of weights and biases, which
    have no product.
    """
    return 2 * prod(states[:-1]) * sum(prod(shape) for shape in weights if len(shape) == 2)


# What torch's own counter leaves out: products in place and fused LSTMs. A backward pass is two
# products for each one.
FORMULAS: dict[Any, Callable[..., int]] = {
    aten.addmm_: lambda _, left, right, **__: 2 * prod(left) * right[-1],
    aten.mkldnn_rnn_layer: lambda states, *weights, **_: _lstm(states, weights[:2]),
    aten.mkldnn_rnn_layer_backward: lambda states, *weights, **_: 2 * _lstm(states, weights[:2]),
    aten._cudnn_rnn: lambda states, weights, *_, **__: _lstm(states, weights),
    aten._cudnn_rnn_backward: lambda states, weights, *_, **__: 2 * _lstm(states, weights),
}


def time_products(
    plan: Plan, tokens: int, vocabulary: int, device: torch.device
) -> list[dict[str, Any]]:
    """GFLOP/s of a step of the decoder's LSTM and of the output layer for a batch, products (n, k)
    by (k, m).

    In float32 as torch takes them unasked, on a CPU also by oneDNN where it does not round; in bf16
    if that is trained.
    """
    kinds = [("float32", "default"), *([("bf16", "default")] if plan.precision == "bf16" else [])]
    if device.type == "cpu" and processor.onednn_is_exact():
        kinds.append(("float32", "oneDNN"))
    found, units = [], plan.network.decoder
    for precision, library in kinds:
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        for shape in ((plan.batch_size, units, 4 * units), (tokens, units, vocabulary)):
            with onednn_float32() if library == "oneDNN" else nullcontext():
                rate = _product_rate(*shape, dtype, device)
            size = " x ".join(map(str, shape))
            found.append(
                {
                    "precision": precision,
                    "library": library,
                    "shape": size,
                    "gflop_s": round(rate, 1),
                }
            )
    return found


def _product_rate(n: int, k: int, m: int, dtype: torch.dtype, device: torch.device) -> float:
    left, right = (torch.randn(rows, k, device=device, dtype=dtype) for rows in (n, m))
    out, repeats = left.new_empty(n, m), 1
    turns: list[float] = []  # seconds of one product in each
    while len(turns) < TURNS:
        began = clock(device)
        for _ in range(repeats):
            torch.mm(left, right.t(), out=out)
        if (spent := clock(device) - began) < TURN_S:
            repeats *= 2
        else:
            turns.append(spent / repeats)
    return 2e-9 * n * k * m / min(turns)


def fastest(products: Sequence[dict[str, Any]], precision: str = "float32") -> float:
    """The highest of such rates in bf16, or else in what torch takes float32 for, TF32 included."""
    return float(
        max(
            one["gflop_s"]
            for one in products
            if (one["precision"] == "bf16") == (precision == "bf16")
        )
    )


def run(
    names: list[str],
    plan: Plan,
    folder: Path | None,
    device_name: str,
    jobs: int | None,
    out: Path,
    experiment: Path | None = None,
) -> None:
    """Measures models, prints the figures and writes them to `out` with all that they depend on.

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
    if asked == "bf16" and plan.precision != "bf16":
        log.warning(f"in {plan.precision}: {processor.try_bfloat16().reason}")
    library = devices.use_precision(plan.precision, device=device)
    variants = load_plan(files=[experiment]).components if experiment else None
    models = {name: named_model(name, variants) for name in names}
    with tempfile.TemporaryDirectory() as place:
        if folder is None:
            folder, raw = Path(place, "data"), Path(place, "raw")
            nouns = find_dataset(["config/datasets.yaml"], "de-noun")
            fetch("de-noun", nouns, raw)
            prepare("de-noun", nouns, raw, folder)
        data = Prepared(folder)
        if jobs:
            products: list[dict[str, Any]] = []
            rows = [
                {"model": name, **beside(one, data, plan, jobs)} for name, one in models.items()
            ]
        else:
            rows, products = measure(models, data, plan, device)
    record: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command_line(),
        "data": data.summary["dataset"],
        "clock": "wall seconds" if device.type == "cuda" or jobs else "CPU seconds",
        "threads": plan.threads,
        "network": plan.network.model_dump(),
        "batch_size": plan.batch_size,
        "precision": plan.precision,
        "float32_products": library,
        "vocabulary": {"source": len(data.source), "target": len(data.target)},
        "hardware": devices.hardware(device),
        "versions": devices.versions(),
        "peak_memory_mb": round(devices.peak_memory_mb()),
        "products": products,
        "rows": rows,
    }
    sys.stdout.write(_text(record))
    write_json(out, record)
    sys.stdout.write(f"written to {out}\n")


def _text(record: dict[str, Any]) -> str:
    """What was measured, to be printed: the machine and its products, and the table of rows."""
    machine, clock_name, products = (
        record["hardware"],
        record["clock"].removesuffix("s"),
        record["products"],
    )
    head = (
        f"{machine['gpu'] or machine['cpu']}, {record['threads']} thread(s), torch"
        f" {record['versions']['torch']}, {record['date']}; {record['data']}, batch"
        f" {record['batch_size']}; rates per"
        f" {clock_name}{'' if products else ', of all trainings together'}\n"
    )
    if products:
        timed = pd.DataFrame(products).to_string(index=False)
        head += f"products n x k x m; `share` is of the fastest in its precision\n{timed}\n"
    return f"{head}{pd.DataFrame(record['rows']).to_string(index=False)}\n"
