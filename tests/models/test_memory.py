"""The distributions of a step do not pile up over time, however large the vocabulary."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

VOCABULARY = 20_000
ROWS = 16
TOP_K = 6

SHORT = 20
LONG = 60
NAMES = ("soft", "prior-joint", "postr-joint", "variational")

# Each measurement has a process of its own, forked from one that has imported all.
MEASURE = """
import json, multiprocessing, resource, sys, torch
from pam.config import ModelConfig, Network, load_model
from pam.models.build import build

def measure(name, length, vocabulary, rows, top_k, answers):
    torch.set_num_threads(1)
    components = load_model(name)
    marginal = {
        "soft": "input", "variational": {"kind": "bound", "top_k": top_k, "q_top_k": top_k}
    }.get(name, {"kind": "output", "top_k": top_k})
    components = ModelConfig(**components.model_dump() | {"marginalization": marginal})
    model = build(components, Network(embedding=16, encoder=16, decoder=16), 50, vocabulary)
    source = torch.randint(5, 50, (rows, 10))
    target = torch.randint(5, vocabulary, (rows, length))
    lengths = torch.full((rows,), 10)
    for _ in range(2):
        (-model.objective(source, lengths, target).sum()).backward()
    answers.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

names, lengths, numbers = json.loads(sys.argv[1])
context = multiprocessing.get_context("fork")
peaks = []
for name in names:
    for length in lengths:
        answers = context.SimpleQueue()
        process = context.Process(target=measure, args=(name, length, *numbers, answers))
        process.start()
        process.join()
        assert process.exitcode == 0
        peaks.append([name, length, answers.get()])
print(json.dumps(peaks))
"""


@pytest.fixture(scope="module")
def peaks_mb() -> dict[tuple[str, int], float]:
    """Measure the peak of memory of each model at both lengths."""
    question = json.dumps([NAMES, [SHORT, LONG], [VOCABULARY, ROWS, TOP_K]])
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, question], capture_output=True, check=True
    )
    return {(name, length): peak / 2**10 for name, length, peak in json.loads(process.stdout)}


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_vocabulary_times_length(
    name: str, peaks_mb: dict[tuple[str, int], float]
) -> None:
    # What all distributions of the additional steps would take, in float32.
    positions = 1 if name == "soft" else TOP_K
    piled_up_mb = ROWS * positions * VOCABULARY * (LONG - SHORT) * 4 / 2**20
    assert peaks_mb[name, LONG] - peaks_mb[name, SHORT] < 0.3 * piled_up_mb
