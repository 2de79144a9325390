"""Who takes large float32 products: oneDNN where it is exact and pays, and the same in a training that goes on."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import torch

from pam.models.kernels import Products, SharedLinear, padded_size
from pam.training import devices
from pam.training.preemption import Stop, Stopped
from tests.training import small
from tests.training.trainers import trained


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends as it began: the choice is that of the whole process."""
    monkeypatch.setattr(Products, "by_onednn", False)
    yield
    assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"  # type: ignore[attr-defined]


def on(maker: str | None, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor of this maker, whose products by oneDNN are exact or not."""
    monkeypatch.setattr(devices, "cpu_maker", lambda: maker)
    monkeypatch.setattr(devices, "onednn_is_exact", lambda: exact)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")


@pytest.mark.parametrize(
    ("maker", "exact", "saved", "found"),
    [
        ("AuthenticAMD", True, None, "onednn"),
        ("AuthenticAMD", False, None, "default"),
        ("GenuineIntel", True, None, "default"),
        (None, True, None, "default"),
        ("AuthenticAMD", True, "default", "default"),
        ("GenuineIntel", True, "onednn", "onednn"),
        ("GenuineIntel", False, "onednn", "default"),
    ],
)
def test_onednn_is_taken_where_it_is_exact_and_pays_or_did_so_before(
    maker: str | None, exact: bool, saved: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(maker, exact, monkeypatch)
    assert devices.use_precision("float32", saved) == found
    assert Products.by_onednn == (found == "onednn")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="oneDNN's instruction sets are those of x86")
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE", "DEFAULT"])
def test_the_probe_tells_exact_products_from_rounded_ones(isa: str) -> None:
    """In a process of its own, as oneDNN chooses its instructions once; the last is what this machine has."""
    code = (
        "import torch\n"
        "from pam.models.kernels import onednn_float32\n"
        "from pam.training.devices import onednn_is_exact\n"
        "a, b = torch.randn(300, 700), torch.randn(700, 200)\n"
        "with onednn_float32(): c = a @ b\n"
        "d = a.double() @ b.double(); print(onednn_is_exact(), float((c - d).abs().mean() / d.abs().mean()))"
    )
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": isa}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    exact, error = done.stdout.split()
    assert (exact == "True") == (float(error) < devices.EXACT)
    if isa != "DEFAULT":
        assert exact == "True"  # without tiles of bfloat16 there is nothing to round to


def test_a_probe_that_finds_rounding_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def rounding() -> Iterator[None]:
        matmul = torch.Tensor.__matmul__
        monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: matmul(a.bfloat16(), b.bfloat16()).float())
        yield
        monkeypatch.setattr(torch.Tensor, "__matmul__", matmul)

    monkeypatch.setattr(devices, "onednn_float32", rounding)
    assert not devices.onednn_is_exact()


def test_padded_sizes_are_few_and_near() -> None:
    sizes = [padded_size(rows, bf16=True) for rows in range(1, 20_000)]
    assert all(rows <= size <= max(rows + 15, rows * 17 // 16) for rows, size in enumerate(sizes, start=1))
    assert all(len({size for size in sizes if low < size <= 2 * low}) <= 16 for low in (64, 512, 1024, 4096))
    assert [padded_size(size, bf16=True) for size in sizes] == sizes
    assert padded_size(13, bf16=False) == 13


def test_rows_of_padding_change_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, bias = torch.randn(24, 40, dtype=torch.double), torch.randn(24, dtype=torch.double)
    x = torch.randn(13, 40, dtype=torch.double)
    plain = SharedLinear(weight, bias)(x)
    monkeypatch.setattr(Products, "by_onednn", True)
    assert SharedLinear(weight, bias)(x).shape == plain.shape
    torch.testing.assert_close(SharedLinear(weight, bias)(x), plain, rtol=1e-14, atol=1e-14)


def test_a_training_by_onednn_that_was_stopped_goes_on_by_it_to_the_same_result(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = small.run("postr-joint", epochs=2, batch_size=30, state_every_s=60.0)
    on("AuthenticAMD", True, monkeypatch)
    whole, progress = trained(run, data, tmp_path / "whole")
    assert progress.products == "onednn"
    calls = count(1)
    with pytest.raises(Stopped) as stopped:
        trained(run, data, tmp_path / "again", Stop(lambda: next(calls) >= 3))
    assert stopped.value.code == 128 + signal.SIGTERM
    on("GenuineIntel", True, monkeypatch)
    caplog.set_level("INFO")
    weights, progress = trained(run, data, tmp_path / "again")
    assert (progress.resumed, progress.products) == (1, "onednn")
    assert "float32 products: onednn" in caplog.text
    assert all(torch.equal(weights[name], value) for name, value in whole.items())
