"""Measure training on one GPU: steps with and without CUDA graphs, an older version, and peers.

    python benchmarks/gpu.py --data DIR --summaries DIR --out results/gpu [--old TREE] [--peers DIR]

DIR are folders of prepared data, of translation and of summaries; TREE is a checkout of an older
version. Each model, in each way, is a process that holds the GPU, and they take turns, so that what
slows one slows all. Steps are recorded in turns too, by one process at a time. All take products in
the same precision.

It writes `gpu.json` and `gpu.md`, a table of Markdown, after each round and at the end, in less
than 8 minutes. `complete` says whether it came to its end. It leaves out what is not measured by
then, and what fails, and says so. On a CPU it runs too, at small sizes, where "graphs" are static
batches that are not recorded.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import IO, Any

from versions import first_there

ROOT = Path(__file__).resolve().parents[1]
PEERS = Path(__file__).resolve().parent / "peers"
TRANSLATION = ("soft", "prior-joint:0.99", "postr-joint:0.99", "mono-postr-joint:0.99", "acvi")
SUMMARIES = ("soft-pointer", "postr-joint-pointer:0.99:6")
# of each peer the folder of its packages
PEER_MODELS = {"joeynmt": "joeynmt", "opennmt": "opennmt"}
READY_S = 150.0  # seconds that a process has to make its model, and as many to record its steps
SMALLEST_TURN = 2  # steps
SAMPLE_MS = 200  # between two looks of `nvidia-smi`
SAID: list[str] = []  # what was left out, and why
BEGAN = time.monotonic()


@dataclass(frozen=True)
class Job:
    """The training of one process."""

    model: str
    way: str  # plain, graphs, old, or the name of a peer
    data: str
    units: int


@dataclass
class Worker:
    """A process that does turns."""

    job: Job
    process: subprocess.Popen[str]
    log: Path
    has_failed: bool = False
    prepared: dict[str, Any] | None = None
    turns: list[dict[str, Any]] = field(default_factory=list)
    busy: dict[str, Any] | None = None
    evaluated: dict[str, Any] | None = None

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Wait `seconds` for an answer; None, and a message, if there is none."""
        stdout = self.process.stdout
        assert stdout is not None
        readable, _, _ = select.select([stdout], [], [], max(0.0, seconds))
        line = stdout.readline() if readable else ""
        try:
            answer: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:  # no line, or a part of one
            self.fail(has_ended=bool(readable))
            return None
        return answer

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Ask the process to do something, and wait for its answer."""
        if self.has_failed:
            return None

        stdin = self.process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
        except OSError:
            self.fail(has_ended=True)
            return None
        return self.answer(seconds)

    def fail(self, has_ended: bool) -> None:
        """Leave the process out from here on, and say why."""
        self.has_failed = True
        reason = "no answer in time"
        if has_ended:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
            reason = f"it ended with status {self.process.poll()}"
        self.end()

        last = self.log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
        if last:
            reason = f"{reason}: {last}"
        say(f"left out: {self.job.model}, {self.job.way}: {reason}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            # What was not written any more is not missed.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


def say(message: str) -> None:
    SAID.append(message)
    sys.stderr.write(message + "\n")


# The driver.


def jobs_of(args: argparse.Namespace) -> list[Job]:
    """List the jobs: all models in all ways."""
    sets = [
        (args.models, args.data, args.units),
        (args.summary_models, args.summaries, args.summary_units),
    ]
    ways = ["plain", "graphs"]
    if args.old:
        ways.insert(0, "old")

    jobs = []
    for models, data, units in sets:
        if data is None:
            say(f"left out: {', '.join(models)}: no data are named")
            continue
        jobs += [Job(model, way, str(data.resolve()), units) for model in models for way in ways]

    if args.peers is not None:
        jobs += [Job("soft", name, str(args.data.resolve()), args.units) for name in PEER_MODELS]
    return jobs


def start(job: Job, args: argparse.Namespace) -> Worker | None:
    """Start the process of a job; None if it cannot be."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
    # Packages may be in folders that are named there alone.
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    settings = asdict(job) | {
        "device": args.device,
        "precision": args.precision,
        "batch_size": args.batch_size,
        "batches": args.batches,
    }

    if job.way in PEER_MODELS:
        folder = args.peers.resolve() / PEER_MODELS[job.way]
        if not folder.is_dir():
            say(f"left out: {job.model}, {job.way}: not in the folder of peers")
            return None
        task = args.out / f"{job.way}-task.json"
        write_peer_task(job, args, task)
        server = PEERS / f"server_{job.way}.py"
        command = [sys.executable, str(server), "--task", str(task.resolve()), "--model", job.model]
        environment["PEERS_DEVICE"] = args.device
    else:
        folder = args.old.resolve() if job.way == "old" else ROOT
        command = [sys.executable, str(Path(__file__).resolve()), "--worker", json.dumps(settings)]
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, named)])

    log = args.out / "logs" / f"{job.model}-{job.way}.log".replace(":", "_")
    log.parent.mkdir(exist_ok=True)
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    return Worker(job, process, log)


def write_peer_task(job: Job, args: argparse.Namespace, path: Path) -> None:
    """Write sizes and batches as peers read them; see benchmarks/peers/serving.py."""
    from pam.data.dataset import Examples, Prepared

    data = Prepared(Path(job.data))
    examples = Examples(data.split("train"), "symbols")
    symbols = []
    for rows in examples.shuffled(args.batch_size, seed=1, epoch=0)[: args.batches]:
        sources = [examples.sources[row].tolist() for row in rows]
        symbols.append((sources, [examples.targets[row].tolist() for row in rows]))

    task = {
        "source": len(data.source),
        "target": len(data.target),
        "embedding": job.units,
        "encoder": job.units // 2,
        "decoder": job.units,
        "layers": 1,
        "dropout": 0.3,
        "steps": None,
        "beam": 1,
        "symbols": symbols,
        "actions": [],
    }
    path.write_text(json.dumps(task), encoding="utf-8")


def question(worker: Worker, args: argparse.Namespace, number: int) -> dict[str, Any]:
    """Return what is asked of a worker in a turn."""
    if worker.job.way not in PEER_MODELS:
        return {"what": "steps", "seconds": args.seconds}

    count = args.peer_steps
    setting = {"work": "training", "setting": args.precision}
    return setting | {"first": number * count, "count": count}


def measure(args: argparse.Namespace, save: Callable[[Sequence[Worker]], None]) -> list[Worker]:
    """Start all workers and give them turns until there were enough, or the time is up.

    `save` gets the workers after each round and each other part.
    """
    deadline = BEGAN + args.limit
    workers: list[Worker] = []
    try:
        for job in jobs_of(args):
            worker = start(job, args)
            if worker is not None:
                workers.append(worker)
        for worker in workers:
            worker.answer(min(READY_S, deadline - time.monotonic()))

        # One after another, so that no recording waits for another process.
        ours = [worker for worker in workers if worker.job.way not in PEER_MODELS]
        for worker in ours:
            seconds = min(READY_S, deadline - time.monotonic())
            worker.prepared = worker.ask({"what": "prepare"}, seconds)
        save(workers)

        # The first round is not timed: peers have done no step yet.
        for number in range(args.rounds + 1):
            for worker in workers:
                if time.monotonic() > deadline - 2 * args.seconds:
                    say("the time is up: rounds are left out")
                    return workers
                answer = worker.ask(question(worker, args, number), deadline - time.monotonic())
                if answer is not None and number:
                    worker.turns.append(answer)
            save(workers)

        for worker in ours:
            if time.monotonic() < deadline - 4 * args.seconds:
                worker.busy = busy_shares(worker, args, deadline)
        save(workers)

        for worker in workers:
            if worker.job.way == "graphs" and time.monotonic() < deadline - 4 * args.seconds:
                asked = {"what": "evaluation", "seconds": args.seconds}
                worker.evaluated = worker.ask(asked, deadline - time.monotonic())
    finally:
        for worker in workers:
            worker.end()
    return workers


def busy_shares(worker: Worker, args: argparse.Namespace, deadline: float) -> dict[str, Any] | None:
    """Ask for how much of the time the GPU computes, by torch's profiler and by `nvidia-smi`."""
    busy = worker.ask({"what": "profile"}, deadline - time.monotonic())
    if busy is None or args.device != "cuda" or shutil.which("nvidia-smi") is None:
        return busy

    query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0"]
    with subprocess.Popen(
        ["nvidia-smi", *query, f"--loop-ms={SAMPLE_MS}"],  # noqa: S607 -- it is on the path
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as sampler:
        worker.ask({"what": "steps", "seconds": args.seconds}, deadline - time.monotonic())
        sampler.terminate()
        lines, _ = sampler.communicate()

    # The first sample is of the time before.
    samples = [int(line) for line in lines.split() if line.isdecimal()][1:]
    if samples:
        busy["busy_by_nvidia_smi"] = round(mean(samples) / 100, 3)
    return busy


def rows_of(workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """Return a row for each model: medians of its turns in each way, and their ratios."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for worker in workers:
        if worker.turns or worker.prepared is not None:
            row = rows.setdefault((worker.job.model, worker.job.data), {"model": worker.job.model})
            row[worker.job.way] = figures_of(worker)

    for row in rows.values():
        plain = row.get("plain", {}).get("steps_per_second")
        graphs = row.get("graphs", {}).get("steps_per_second")
        if plain and graphs:
            row["graphs_over_plain"] = round(graphs / plain, 2)
    return list(rows.values())


def figures_of(worker: Worker) -> dict[str, Any]:
    """Return the medians of a worker's turns, and what it said of its memory and its recordings."""
    figures = dict(worker.prepared or {})
    if not worker.turns:
        return figures

    step_rates = []
    token_rates = []
    for turn in worker.turns:
        steps = turn.get("steps") or turn["count"]
        tokens = turn.get("tokens") or turn["symbols"]
        step_rates.append(steps / turn["wall_s"])
        token_rates.append(tokens / turn["wall_s"])

    figures |= {
        "turns": len(worker.turns),
        "steps_per_second": round(median(step_rates), 2),
        "tokens_per_second": round(median(token_rates), 1),
    }
    memory = ("gpu_mb", "gpu_reserved_mb")
    figures |= {name: worker.turns[-1][name] for name in memory if name in worker.turns[-1]}

    if worker.busy is not None and worker.busy["busy_s_per_step"] is not None:
        busy = worker.busy["busy_s_per_step"] * figures["steps_per_second"]
        figures["busy"] = round(busy, 3)
        figures["busy_by_nvidia_smi"] = worker.busy.get("busy_by_nvidia_smi")

    if worker.evaluated is not None:
        figures |= worker.evaluated
        epoch_s = worker.evaluated["train_batches"] / figures["steps_per_second"]
        loss_s = worker.evaluated["dev_batches"] / worker.evaluated["losses_per_second"]
        figures["loss_share"] = round(loss_s / epoch_s, 3)
    return figures


def table_of(rows: Sequence[dict[str, Any]], record: dict[str, Any]) -> str:
    """Return the rows as Markdown."""
    ways = [
        way for way in ("old", "plain", "graphs", *PEER_MODELS) if any(way in row for row in rows)
    ]
    head = [
        "model",
        *(f"{way}, steps/s" for way in ways),
        "graphs / plain",
        "GPU busy, plain",
        "GPU busy, graphs",
        "the same by nvidia-smi",
        "GPU MB reserved, plain",
        "GPU MB reserved, graphs",
        "recording, s",
        "development loss / epoch's steps",
        "beam 4, batches/s",
        "looking each step",
    ]
    lines = [
        f"{record['hardware']['gpu'] or record['hardware']['cpu']}, {record['date']},"
        f" products in {record['precision']}",
        "",
        f"| {' | '.join(head)} |",
        f"| --- |{' --: |' * (len(head) - 1)}",
    ]
    for row in rows:
        plain = row.get("plain", {})
        graphs = row.get("graphs", {})
        cells = [
            row["model"],
            *(row.get(way, {}).get("steps_per_second", "") for way in ways),
            row.get("graphs_over_plain", ""),
            plain.get("busy", ""),
            graphs.get("busy", ""),
            graphs.get("busy_by_nvidia_smi", ""),
            plain.get("gpu_reserved_mb", ""),
            graphs.get("gpu_reserved_mb", ""),
            graphs.get("recording_s", ""),
            graphs.get("loss_share", ""),
            graphs.get("searches_per_second", ""),
            graphs.get("searches_looking_each_step_per_second", ""),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


# A worker: one model of this version, or of an older one.


def worker(settings: dict[str, Any]) -> None:
    """Make a model, and do the turns that are asked for.

    The ways `plain` and `old` use only what a version before this file has.
    """
    # Answers go to standard output; what else is printed goes to the log.
    channel = sys.stdout
    sys.stdout = sys.stderr
    import torch

    from pam.data.dataset import Examples, Prepared
    from pam.runtime import devices

    benchmark = first_there("pam.measuring.benchmark", "pam.benchmark")
    sections = first_there("pam.experiments.settings", "pam.experiments.config", "pam.config")

    # Without this an older version that lacks a module would be measured by another one that is
    # installed.
    if not Path(benchmark.__file__).is_relative_to(Path.cwd()):
        sys.exit(f"error: {Path.cwd()} has no benchmark.py of pam")

    devices.keep_heap()
    torch.set_num_threads(1)
    device = devices.choose_device(settings["device"])
    devices.use_precision(settings["precision"], None, device)

    units = settings["units"]
    network = sections.Network(embedding=units, encoder=units // 2, decoder=units, dropout=0.3)
    plan = benchmark.Plan(network, settings["batch_size"], 1, 0, 0, [], settings["precision"], 1)
    components = benchmark.named_model(settings["model"])
    data = Prepared(Path(settings["data"]))
    model = benchmark.fresh(components, data, plan, device)
    all_batches = benchmark.batches_of(data, components, plan, torch.device("cpu"))
    batches = all_batches[: settings["batches"]]

    reply(channel, {"ready": True})

    plain_step = benchmark.training(model, plan)

    def plain(batch: Any) -> None:
        plain_step(batch.to(device))

    work: Callable[[Any], None] = plain

    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "prepare":
            used_before = used_mb(device)
            began = time.perf_counter()
            answer: dict[str, Any] = {}
            if settings["way"] == "graphs":
                work, answer = recorded_steps(model, settings["batch_size"], batches, device)
            else:
                for batch in batches[:SMALLEST_TURN]:
                    work(batch)
            synchronize(device)
            answer["prepared_s"] = round(time.perf_counter() - began, 2)
            answer["gpu_taken_mb"] = round(used_mb(device) - used_before)
            reply(channel, answer)
        elif request["what"] == "profile":
            reply(channel, profile(work, batches, device))
        elif request["what"] == "evaluation":
            split = Examples(data.split("dev", components.copying.copies), components.targets)
            dev = list(split.in_order(settings["batch_size"]))
            answer = {"train_batches": len(all_batches), "dev_batches": len(dev)}
            reply(channel, answer | evaluation(model, dev, request["seconds"], device))
        else:
            reply(channel, turn(work, batches, request["seconds"], device))


def reply(channel: IO[str], answer: dict[str, Any]) -> None:
    channel.write(json.dumps(answer) + "\n")
    channel.flush()


def recorded_steps(
    model: Any, rows: int, batches: Sequence[Any], device: Any
) -> tuple[Callable[[Any], None], dict[str, Any]]:
    """Record the steps of all batches; return what replays them, and what recording took."""
    import torch

    from pam.training.graphs import CudaRecorder, PlainRecorder, StepGraphs

    recorder = CudaRecorder(device) if device.type == "cuda" else PlainRecorder()
    rate = torch.tensor(1e-3, device=device)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=rate, fused=True, capturable=recorder.capturable
    )
    graphs = StepGraphs(model=model, optimizer=optimizer, clip=5.0, rows=rows, recorder=recorder)

    def work(batch: Any) -> None:
        model.train()
        if not graphs.step(batch, int(batch.mask.sum()), seed=1):
            sys.exit(f"steps cannot be recorded: {graphs.reason}")

    began = time.perf_counter()
    for batch in batches:
        work(batch)
    sums = graphs.read()
    recording = {
        "shapes": sums.shapes,
        "recording_s": round(time.perf_counter() - began, 2),
        "padding": round(1 - sums.tokens / sums.places, 4),
    }
    # The second step of a shape is compared with a plain one too.
    for batch in batches:
        work(batch)

    return work, recording


def turn(
    work: Callable[[Any], None], batches: Sequence[Any], seconds: float, device: Any
) -> dict[str, Any]:
    """Train for `seconds`; return the steps, the tokens and the time."""
    from pam.runtime import devices

    synchronize(device)
    began = time.perf_counter()
    steps = tokens = 0
    while steps < SMALLEST_TURN or time.perf_counter() - began < seconds:
        batch = batches[steps % len(batches)]
        work(batch)
        steps += 1
        tokens += int(batch.mask.sum())
        # The device is never far behind, so that a turn does not end long after its time.
        if steps % 10 == 0:
            synchronize(device)
    synchronize(device)

    answer: dict[str, Any] = {
        "steps": steps,
        "tokens": tokens,
        "wall_s": time.perf_counter() - began,
    }
    memory = devices.peak_gpu_memory_mb(device)
    if memory is not None:
        import torch

        answer["gpu_mb"] = round(memory)
        answer["gpu_reserved_mb"] = round(torch.cuda.max_memory_reserved(device) / 2**20)
    return answer


def used_mb(device: Any) -> float:
    """Return how much memory of the GPU all processes use, in megabytes; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0

    import torch

    free, total = torch.cuda.mem_get_info(device)
    return (total - free) / 2**20


def profile(work: Callable[[Any], None], batches: Sequence[Any], device: Any) -> dict[str, Any]:
    """Measure for how many seconds of a step the GPU computes; None on a CPU."""
    if device.type != "cuda":
        return {"busy_s_per_step": None}

    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    count = min(6, len(batches))
    synchronize(device)
    with profiler(activities=[ProfilerActivity.CUDA]) as record:
        for batch in batches[:count]:
            work(batch)
        synchronize(device)

    kernels = [event for event in record.events() or [] if event.device_type == DeviceType.CUDA]
    spans = [(event.time_range.start, event.time_range.end) for event in kernels]
    return {"busy_s_per_step": covered(spans) / 1e6 / count}


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of what spans cover; what several of them cover counts once."""
    length = 0.0
    reached = float("-inf")
    for start_of_span, end_of_span in sorted(spans):
        length += max(0.0, end_of_span - max(start_of_span, reached))
        reached = max(reached, end_of_span)
    return length


def evaluation(model: Any, batches: Sequence[Any], seconds: float, device: Any) -> dict[str, float]:
    """Measure the development loss and beam search, in batches a second.

    A model that is not trained ends no output, so it writes as many symbols as its source has.
    """
    import torch

    from pam.decoding import search

    sections = first_there("pam.experiments.settings", "pam.experiments.config", "pam.config")
    decoding = sections.Decoding(beam=4, max_ratio=1.0, max_extra=1)

    def loss(batch: Any) -> None:
        with torch.no_grad():
            model.log_likelihood(batch.source, batch.lengths, batch.target)

    def write(batch: Any) -> None:
        search.search(model, batch.source, batch.lengths, decoding)

    model.eval()
    seldom = search.LOOK_EVERY
    figures = {
        "losses_per_second": rate_of(loss, batches, seconds, device),
        "searches_per_second": rate_of(write, batches, seconds, device),
    }
    search.LOOK_EVERY = 1
    figures["searches_looking_each_step_per_second"] = rate_of(write, batches, seconds, device)
    search.LOOK_EVERY = seldom
    return figures


def rate_of(
    work: Callable[[Any], None], batches: Sequence[Any], seconds: float, device: Any
) -> float:
    """Return how many batches a second are worked on."""
    work(batches[0].to(device))
    synchronize(device)
    began = time.perf_counter()
    count = 0
    while not count or time.perf_counter() - began < seconds:
        work(batches[count % len(batches)].to(device))
        synchronize(device)
        count += 1
    return round(count / (time.perf_counter() - began), 2)


def synchronize(device: Any) -> None:
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; a CPU computes in float32, and bf16 means TF32 on a GPU."""
    import torch

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="prepared data of translation")
    parser.add_argument("--summaries", type=Path, help="prepared data of summaries")
    parser.add_argument(
        "--out", type=Path, required=True, help="a folder for the record, the table and logs"
    )
    parser.add_argument("--old", type=Path, help="a checkout of an older version")
    parser.add_argument(
        "--peers", type=Path, help="a folder of peers, see benchmarks/peers/README.md"
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"), default="bf16")
    parser.add_argument("--models", nargs="+", default=list(TRANSLATION))
    parser.add_argument("--summary-models", nargs="+", default=list(SUMMARIES))
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--summary-units", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=24, help="of these many, over and over")
    parser.add_argument("--rounds", type=int, default=3, help="timed turns of each process")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn")
    parser.add_argument("--peer-steps", type=int, default=20, help="steps of a turn of a peer")
    parser.add_argument(
        "--limit",
        type=float,
        default=450.0,
        help="seconds from the start after which no turn begins",
    )

    args = parser.parse_args(words)
    if args.device == "cpu":
        args.precision = "float32"
    elif args.precision == "bf16":
        args.precision = "tf32"
    return args


def main(words: Sequence[str]) -> None:
    if words[:1] == ["--worker"]:
        worker(json.loads(words[1]))
        return

    sys.path.insert(0, str(ROOT))
    args = arguments(words)
    args.out.mkdir(parents=True, exist_ok=True)
    # A process that is asked to end ends its workers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: stopped before the end"))

    from pam.runtime import devices
    from pam.runtime.files import write_json, write_text

    facts = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": shlex.join(["python", "benchmarks/gpu.py", *words]),
        "hardware": devices.hardware(devices.choose_device(args.device)),
        "versions": devices.versions(),
        "batch_size": args.batch_size,
        "precision": args.precision,
    }

    def save(workers: Sequence[Worker], is_complete: bool = False) -> None:
        progress = {"complete": is_complete, "messages": SAID}
        record = facts | progress | {"rows": rows_of(workers)}
        write_json(args.out / "gpu.json", record)
        write_text(args.out / "gpu.md", table_of(record["rows"], record))

    workers = measure(args, save)
    save(workers, is_complete=True)
    sys.stdout.write((args.out / "gpu.md").read_text(encoding="utf-8"))
    if not any(worker.turns for worker in workers):
        sys.exit("error: nothing was measured, as is said above")


if __name__ == "__main__":
    main(sys.argv[1:])
