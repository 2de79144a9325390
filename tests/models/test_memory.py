"""The distributions of a step do not pile up over time, however large the vocabulary."""

from __future__ import annotations

import subprocess
import sys

import pytest

VOCABULARY = 20_000
ROWS = 16
TOP_K = 6

MEASURE = """
import resource, sys, torch
from pam.config import ModelConfig, Network, load_model
from pam.models.build import build
name, length, vocabulary, rows, top_k = sys.argv[1], *map(int, sys.argv[2:])
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
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_mb(name: str, length: int) -> float:
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, name, *map(str, (length, VOCABULARY, ROWS, TOP_K))],
        capture_output=True,
        check=True,
    )
    return int(process.stdout) / 2**10


@pytest.mark.parametrize("name", ["soft", "prior-joint", "postr-joint", "variational"])
def test_memory_does_not_grow_with_vocabulary_times_length(name: str) -> None:
    short = 20
    long = 60
    # What all distributions of the additional steps would take, in float32.
    positions = 1 if name == "soft" else TOP_K
    piled_up_mb = ROWS * positions * VOCABULARY * (long - short) * 4 / 2**20
    assert peak_mb(name, long) - peak_mb(name, short) < 0.3 * piled_up_mb
