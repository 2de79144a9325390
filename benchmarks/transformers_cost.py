"""Measure what an alignment head costs in a model of `transformers`, as ratios to the same model.

    python benchmarks/transformers_cost.py [--units 256 --symbols 8000 --source 40 --target 40]

It needs `pip install '.[hf]'` and no network. A Marian with fresh weights, as it is
and with heads, takes steps of training, computes log p of every symbol of given targets, and
decodes greedily and by beam search. Each model has a process of its own, and models take turns.
Times are CPU seconds, the least of all turns; memory is what the work needs beyond the model. The
result is printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEADS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "head": {"coupling": "proximity"},
    "nucleus": {"coupling": "proximity", "marginalization": {"kind": "output", "mass": 0.99}},
}
WORK = ("step", "log_probs", "greedy", "beam4")


def model_of(name: str, args: argparse.Namespace) -> Any:
    """Make a Marian of fresh weights, as it is or with a head."""
    import torch
    import transformers

    from pam.hf import with_posterior_attention

    torch.manual_seed(1)
    sizes = {
        f"{part}_{size}": value
        for part in ("encoder", "decoder")
        for size, value in (("layers", 3), ("attention_heads", 4), ("ffn_dim", 4 * args.units))
    }
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=args.symbols,
            d_model=args.units,
            max_position_embeddings=512,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            **sizes,
        )
    )
    components = HEADS[name]
    if components is not None:
        model = with_posterior_attention(model, **components)
        torch.nn.init.normal_(model.posterior_attention.of_values.weight, std=0.05)
    return model


def work_of(kind: str, model: Any, args: argparse.Namespace) -> Callable[[], Any]:
    """Return a function that does the work once."""
    import torch

    source = torch.randint(3, args.symbols, (args.sentences, args.source))
    given = {"input_ids": source, "attention_mask": torch.ones_like(source)}
    labels = torch.randint(3, args.symbols, (args.sentences, args.target))

    def step() -> None:
        model.train()
        model.zero_grad()
        model(**given, labels=labels).loss.backward()

    @torch.no_grad()
    def log_probs() -> None:
        model.eval()
        model(**given, labels=labels)

    def search(beam: int) -> None:
        model.eval()
        steps = {"max_new_tokens": args.steps, "min_new_tokens": args.steps}
        model.generate(**given, num_beams=beam, **steps)

    if kind == "step":
        return step
    if kind == "log_probs":
        return log_probs
    return lambda: search(4 if kind == "beam4" else 1)


def peak_kb(forget: bool = False) -> int:
    """Return the peak of this process's memory; with `forget`, of this moment alone (Linux)."""
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def measure(name: str, kind: str, args: argparse.Namespace) -> dict[str, float]:
    """Do the work of a kind by a model, in this process."""
    import torch

    torch.set_num_threads(1)
    model = model_of(name, args)
    work = work_of(kind, model, args)
    before = peak_kb(forget=True)
    work()
    peak = peak_kb()
    start = time.process_time()
    work()
    return {"cpu_s": time.process_time() - start, "mb": (peak - before) / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--symbols", type=int, default=8000)
    parser.add_argument("--sentences", type=int, default=8)
    parser.add_argument("--source", type=int, default=40, help="symbols of a source")
    parser.add_argument("--target", type=int, default=40, help="symbols of a target")
    parser.add_argument("--steps", type=int, default=20, help="symbols that a search writes")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        name, kind = args.one
        sys.stdout.write(json.dumps(measure(name, kind, args)))
        return

    costs: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in args.work}
    for _ in range(args.turns):
        for kind in args.work:
            for name in HEADS:
                command = [sys.executable, *sys.argv, "--one", name, kind]
                printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
                measured = json.loads(printed)
                least = costs[kind].setdefault(name, measured)
                costs[kind][name] = {key: min(least[key], measured[key]) for key in least}

    for kind, of_models in costs.items():
        plain = of_models["plain"]
        for name, cost in of_models.items():
            ratios = {f"{key}_over_plain": round(cost[key] / plain[key], 2) for key in plain}
            rounded = {key: round(value, 3) for key, value in cost.items()}
            row = {"work": kind, "model": name, **rounded, **ratios}
            sys.stdout.write(f"{json.dumps(row)}\n")


if __name__ == "__main__":
    main()
