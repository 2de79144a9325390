"""The distributions of a step do not pile up over time, however large the vocabulary."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.warm import bin_folder

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("soft", "prior-joint", "postr-joint", "variational")

VOCABULARY = 20_000
ROWS = 16
TOP_K = 3

# From some 30 symbols on, pieces of logits are as large as they get.
SHORT = 34
LONG = 64


@pytest.fixture(scope="module")
def peaks_mb() -> dict[tuple[str, int], float]:
    """Measure the peak of memory of each model at both lengths."""
    question = json.dumps([NAMES, [SHORT, LONG], [VOCABULARY, ROWS, TOP_K]])
    command = [str(bin_folder() / "python"), "tests/models/peak_memory.py", question]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    return {(name, length): peak for name, length, peak in json.loads(done.stdout)}


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_vocabulary_times_length(
    name: str, peaks_mb: dict[tuple[str, int], float]
) -> None:
    # What all distributions of the additional steps would take, in float32.
    positions = 1 if name == "soft" else TOP_K
    piled_up_mb = ROWS * positions * VOCABULARY * (LONG - SHORT) * 4 / 2**20

    assert peaks_mb[name, LONG] - peaks_mb[name, SHORT] < 0.3 * piled_up_mb
