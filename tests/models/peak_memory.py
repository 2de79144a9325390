"""Measure the peak of memory of training steps, each in a process of its own.

python tests/models/peak_memory.py '[[MODEL, ...], [LENGTH, ...], [VOCABULARY, ROWS, TOP_K]]'

It prints a JSON list of [model, length, peak in MB].
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
from itertools import product
from typing import Any

import torch

from pam.experiments.model import ModelConfig, load_model
from pam.experiments.settings import Network
from pam.models.build import build


def measure(name: str, length: int, vocabulary: int, rows: int, top_k: int, answers: Any) -> None:
    """Put the peak of one training step on targets of a length into a queue."""
    torch.set_num_threads(1)
    marginalizations: dict[str, Any] = {
        "soft": "input",
        "variational": {"kind": "bound", "top_k": top_k, "q_top_k": top_k},
    }
    marginalization = marginalizations.get(name, {"kind": "output", "top_k": top_k})
    components = load_model(name).model_dump() | {"marginalization": marginalization}
    network = Network(embedding=16, encoder=16, decoder=16)
    model = build(ModelConfig(**components), network, 50, vocabulary)

    source = torch.randint(5, 50, (rows, 10))
    target = torch.randint(5, vocabulary, (rows, length))
    lengths = torch.full((rows,), 10)
    (-model.objective(source, lengths, target).sum()).backward()

    answers.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)


def main() -> None:
    names, lengths, sizes = json.loads(sys.argv[1])
    context = multiprocessing.get_context("fork")
    peaks = []
    for name, length in product(names, lengths):
        answers = context.SimpleQueue()
        process = context.Process(target=measure, args=(name, length, *sizes, answers))
        process.start()
        process.join()
        assert process.exitcode == 0
        peaks.append([name, length, answers.get()])

    sys.stdout.write(json.dumps(peaks))


if __name__ == "__main__":
    main()
