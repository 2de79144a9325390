"""The abilities of this machine's processor, found by trying them.

Names of instruction sets do not suffice. oneDNN, which computes in bfloat16, may be told by its
environment to use fewer than there are. What it cannot compute fast it computes slowly, or not at
all.
"""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import nn

from pam.runtime.torch_internals import (
    can_choose_onednn,
    onednn_float32,
    says_bfloat16_is_fast,
)

EXACT = 2e-6
"""The largest mean relative error of a product in float32.

It is some 3e-7 in float32, and 2e-3 in bfloat16.
"""

LARGEST_SHARE = 0.8
"""Work in bfloat16 is worth it if it takes at most this share of its time in float32.

The share is 0.3 to 0.5 on processors with instructions for bfloat16 and 1.5 on others with AVX-512.
Where there is no AVX-512, torch has no LSTM in bfloat16, and products alone have a share of 4 to
16.
"""

CPU_INFO = Path("/proc/cpuinfo")
TURNS = 5  # of which the fastest counts
MOST_TURNS = 60  # where the answer is not the one that oneDNN expects


def maker() -> str | None:
    """Return the maker of an x86 processor, as it names itself; None if it does not."""
    named = re.search(r"^vendor_id.*?:\s*(\S+)", _cpu_info(), re.MULTILINE)
    return named[1] if named else None


def model_name() -> str:
    """Return the processor's model, or else the architecture of the machine."""
    named = re.search(r"^model name.*?:(.*)$", _cpu_info(), re.MULTILINE)
    if named:
        return named[1].strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return how many cores this process may use.

    A scheduler or a container may have limited them.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))

    return os.cpu_count() or 1


def _cpu_info() -> str:
    with suppress(OSError):
        return CPU_INFO.read_text(encoding="utf-8")
    return ""


# Products in float32.


class Products:
    """The library that takes the float32 products of the models' kernels on a CPU.

    It is oneDNN, or torch's own choice, MKL as a rule. `devices.use_precision` decides it once for
    a process.
    """

    by_onednn = False


def onednn_is_exact() -> bool:
    """Check that oneDNN takes float32 products in float32, by some small ones against float64."""
    if not torch.backends.mkldnn.is_available() or not can_choose_onednn():
        return False

    # A generator of its own, so that a training draws the same with and without this check.
    generator = torch.Generator().manual_seed(1)
    for rows, inner, columns in ((16, 64, 64), (64, 512, 128), (128, 128, 1024)):
        a = torch.randn((rows, inner), generator=generator)
        b = torch.randn((inner, columns), generator=generator)
        with onednn_float32():
            product = a @ b
        exact_product = a.double() @ b.double()
        error = (product - exact_product).abs().mean() / exact_product.abs().mean()
        if float(error) > EXACT:
            return False

    return True


# Work in bfloat16.


@dataclass(frozen=True)
class Trial:
    """The answer whether work in bfloat16 is worth it on this processor, with its reason."""

    pays: bool
    reason: str


@cache
def try_bfloat16() -> Trial:
    """Run an LSTM and some products in float32 and in bfloat16, and compare the CPU time.

    The same processor gives the same answer at each start. Other work can slow down every turn of
    one precision; so the trial goes on for up to `MOST_TURNS` while its answer contradicts what
    oneDNN says of the processor. It takes some 50 ms, once in a process, and draws nothing from
    torch's global generator.
    """
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(1)
        work = _Work()

        # Once untimed: oneDNN compiles its programs when it first meets a shape.
        try:
            work.run(torch.bfloat16)
        except RuntimeError as error:
            message = str(error).partition("\n")[0].partition(". ")[0]
            return Trial(pays=False, reason=f"this processor has no LSTM in bfloat16 ({message})")

        work.run(torch.float32)
        expected = says_bfloat16_is_fast()
        fastest = {torch.float32: math.inf, torch.bfloat16: math.inf}
        for turn in range(1, MOST_TURNS + 1):
            for dtype in fastest:
                seconds = _cpu_seconds(partial(work.run, dtype))
                fastest[dtype] = min(fastest[dtype], seconds)

            share = fastest[torch.bfloat16] / fastest[torch.float32]
            pays = share <= LARGEST_SHARE
            if turn >= TURNS and expected in (None, pays):
                break

    reason = f"work in bfloat16 takes {share:.2g} times as long as in float32 on this processor"
    return Trial(pays=pays, reason=reason)


class _Work:
    """An LSTM with its gradient, and the products of a decoder's step and its output layer."""

    def __init__(self) -> None:
        self.lstm = nn.LSTM(input_size=64, hidden_size=64, bidirectional=True)
        self.embedded = torch.randn(10, 32, 64)
        shapes = ((64, 256, 1024), (256, 256, 2048))
        self.factors = [
            (torch.randn(rows, inner), torch.randn(columns, inner))
            for rows, inner, columns in shapes
        ]

    def run(self, dtype: torch.dtype) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            states, _ = self.lstm(self.embedded)
        states.float().sum().backward()

        for x, weight in 2 * self.factors:
            x.to(dtype) @ weight.to(dtype).t()


def _cpu_seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def usable_precision(asked: str, device: torch.device) -> str:
    """Return the precision of large products of a training on `device`, where `asked` is asked for.

    `bf16` is bfloat16 on a CPU where that is worth it, else float32. On CUDA it is TF32. `tf32` is
    float32 on a CPU.
    """
    if device.type == "cuda" and asked == "bf16":
        return "tf32"
    if device.type == "cuda":
        return asked

    if asked == "bf16" and try_bfloat16().pays:
        return "bf16"
    return "float32"


def usable_search_precision(asked: str, device: torch.device) -> str:
    """Return the precision of the output layer in search on `device`.

    It is `bf16` wherever that is asked for and worth it, CUDA included.
    """
    if asked == "bf16" and (device.type == "cuda" or try_bfloat16().pays):
        return "bf16"
    return "float32"
