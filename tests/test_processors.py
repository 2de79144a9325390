"""Tests that depend on the processor, once more as on processors without AVX-512 and without AVX2.

oneDNN and torch read from the environment which instructions they may use when they start, so each
is a process of its own. `ONEDNN_MAX_CPU_ISA=AVX2` takes the LSTM in bfloat16 away, as on most
laptops; `ATEN_CPU_CAPABILITY` changes how torch adds up, and so the last digits of sums.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "pytest.mark.processor"


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="these instruction sets are those of x86"
)
@pytest.mark.parametrize("capability", ["avx2", pytest.param("default", marks=pytest.mark.faults)])
def test_what_depends_on_the_processor_holds_on_others(capability: str) -> None:
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": capability}
    # Of the session that runs this test nothing is taken over.
    environment = {
        name: value for name, value in environment.items() if not name.startswith("PYTEST_")
    }
    files = [
        str(path)
        for path in sorted((ROOT / "tests").glob("*/test_*.py"))
        if MARK in path.read_text("utf-8")
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "processor",
        "-p",
        "no:cacheprovider",
        *files,
    ]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
