"""The precision of large products and their library, also in a training that goes on."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from pam.models.kernels.linear import SharedLinear
from pam.models.kernels.products import padded_size
from pam.runtime import devices, processor, torch_internals
from pam.runtime.processor import Products, Trial
from pam.training.preemption import Stop, Stopped
from tests.training import runs, small
from tests.training.trainers import trained


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the choice as it was: it is that of the whole process."""
    monkeypatch.setattr(Products, "by_onednn", False)
    yield
    assert torch.backends.mkldnn.matmul.fp32_precision != "bf16"  # type: ignore[attr-defined]


def on(maker: str | None, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for a processor of this maker, whose products by oneDNN are exact or not."""
    monkeypatch.setattr(processor, "maker", lambda: maker)
    monkeypatch.setattr(processor, "onednn_is_exact", lambda: exact)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")


@pytest.mark.parametrize(
    ("maker", "exact", "saved", "library"),
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
    maker: str | None, exact: bool, saved: str | None, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(maker, exact, monkeypatch)
    assert devices.use_precision("float32", saved) == library
    assert Products.by_onednn == (library == "onednn")


class Probed(NamedTuple):
    """What a processor was found to do: whether bfloat16 pays, and float32 by oneDNN is exact."""

    pays: bool
    exact: bool
    error: float  # of a product, relative


@cache
def probed(isa: str) -> Probed:
    """Probe a processor in a process of its own, as oneDNN chooses its instructions once."""
    return Probed(*runs.result_of(_probe, isa))


def _probe(isa: str) -> tuple[bool, bool, float]:
    os.environ["ONEDNN_MAX_CPU_ISA"] = isa
    pays = processor.try_bfloat16().pays

    a = torch.randn(300, 700)
    b = torch.randn(700, 200)
    with torch_internals.onednn_float32():
        product = a @ b
    exact = a.double() @ b.double()
    error = (product - exact).abs().mean() / exact.abs().mean()

    return pays, processor.onednn_is_exact(), float(error)


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="oneDNN's instruction sets are those of x86"
)
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE", "DEFAULT"])
def test_the_probe_tells_exact_products_from_rounded_ones(isa: str) -> None:
    """`DEFAULT` is what this machine has."""
    exact = probed(isa).exact

    assert exact == (probed(isa).error < processor.EXACT)

    if isa != "DEFAULT":
        assert exact  # without tiles of bfloat16 there is nothing to round to


def test_a_probe_that_finds_rounding_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def rounding() -> Iterator[None]:
        matmul = torch.Tensor.__matmul__
        monkeypatch.setattr(
            torch.Tensor, "__matmul__", lambda a, b: matmul(a.bfloat16(), b.bfloat16()).float()
        )
        yield
        monkeypatch.setattr(torch.Tensor, "__matmul__", matmul)

    monkeypatch.setattr(processor, "onednn_float32", rounding)
    assert not processor.onednn_is_exact()


def test_padded_sizes_are_few_and_near() -> None:
    sizes = [padded_size(rows, bf16=True) for rows in range(1, 20_000)]
    assert all(
        rows <= size <= max(rows + 15, rows * 17 // 16) for rows, size in enumerate(sizes, start=1)
    )
    assert all(
        len({size for size in sizes if low < size <= 2 * low}) <= 16
        for low in (64, 512, 1024, 4096)
    )
    assert [padded_size(size, bf16=True) for size in sizes] == sizes
    assert padded_size(13, bf16=False) == 13


@pytest.mark.processor
def test_rows_of_padding_change_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(24, 40, dtype=torch.double)
    bias = torch.randn(24, dtype=torch.double)
    x = torch.randn(13, 40, dtype=torch.double)
    plain = SharedLinear(weight, bias)(x)
    monkeypatch.setattr(Products, "by_onednn", True)

    assert SharedLinear(weight, bias)(x).shape == plain.shape
    torch.testing.assert_close(SharedLinear(weight, bias)(x), plain, rtol=1e-14, atol=1e-14)


@pytest.mark.processor
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


@pytest.mark.parametrize(
    ("content", "maker", "model"),
    [
        (
            "vendor_id\t: GenuineIntel\nmodel name\t: Some CPU @ 2 GHz\n",
            "GenuineIntel",
            "Some CPU @ 2 GHz",
        ),
        ("CPU implementer\t: 0x41\n", None, None),
        (None, None, None),
    ],
    ids=["x86", "Arm", "no such file"],
)
def test_a_processor_that_does_not_name_itself_is_known_by_its_architecture(
    content: str | None,
    maker: str | None,
    model: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "CPU_INFO", tmp_path / "cpuinfo")
    if content is not None:
        (tmp_path / "cpuinfo").write_text(content, encoding="utf-8")

    assert processor.maker() == maker
    assert processor.model_name() == (model or platform.processor() or platform.machine())
    assert devices.hardware(torch.device("cpu"))["cpu"] == processor.model_name()


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system has no affinity of processes to cores"
)
def test_cores_are_those_that_the_process_may_use() -> None:
    assert runs.result_of(_cores_of_a_bound_process) == 1


def _cores_of_a_bound_process() -> int:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return processor.usable_cores()


# bfloat16 where the processor has it.

SLOW = Trial(
    pays=False, reason="work in bfloat16 takes 9 times as long as in float32 on this processor"
)
FAST = Trial(
    pays=True, reason="work in bfloat16 takes 0.4 times as long as in float32 on this processor"
)


def _bfloat16_pays() -> bool:
    return processor.try_bfloat16().pays


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="oneDNN's instruction sets are those of x86"
)
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
def test_bfloat16_does_not_pay_on_processors_without_instructions_for_it(isa: str) -> None:
    assert not probed(isa).pays


def test_a_processor_gives_the_same_answer_at_each_start() -> None:
    answers = {runs.result_of(_bfloat16_pays) for _ in range(3)}
    assert answers == {processor.try_bfloat16().pays}


@pytest.mark.parametrize(("disturbed_turns", "pays"), [(30, True), (1000, False)])
def test_other_work_during_the_first_turns_changes_no_answer(
    disturbed_turns: int, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not processor.try_bfloat16().pays:
        pytest.skip(processor.try_bfloat16().reason)
    turns = []

    def seconds_beside_other_work(run: Callable[[], object]) -> float:
        assert isinstance(run, partial)
        turns.append(run.args[0])
        in_bfloat16 = run.args[0] == torch.bfloat16
        if turns.count(torch.bfloat16) <= disturbed_turns:
            return 1.5 if in_bfloat16 else 1.0
        return 0.4 if in_bfloat16 else 1.0

    monkeypatch.setattr(processor, "_cpu_seconds", seconds_beside_other_work)

    assert processor.try_bfloat16.__wrapped__().pays == pays
    assert len(turns) == 2 * min(disturbed_turns + 1, processor.MOST_TURNS)


def test_the_trial_draws_nothing_from_the_global_generator() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    processor.try_bfloat16.__wrapped__()

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("asked", "device", "trial", "training", "search"),
    [
        ("bf16", "cpu", FAST, "bf16", "bf16"),
        ("bf16", "cpu", SLOW, "float32", "float32"),
        ("bf16", "cuda", SLOW, "tf32", "bf16"),
        ("tf32", "cpu", FAST, "float32", "float32"),
        ("tf32", "cuda", FAST, "tf32", "float32"),
        ("float32", "cpu", FAST, "float32", "float32"),
    ],
)
def test_the_usable_precision_depends_on_the_device_and_the_trial(
    asked: str,
    device: str,
    trial: Trial,
    training: str,
    search: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "try_bfloat16", lambda: trial)
    assert processor.usable_precision(asked, torch.device(device)) == training
    assert processor.usable_search_precision(asked, torch.device(device)) == search


@pytest.mark.processor
def test_a_training_in_bf16_is_one_in_float32_where_bfloat16_does_not_pay(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processor, "try_bfloat16", lambda: SLOW)
    caplog.set_level("INFO")
    exact, _ = trained(small.run("soft", epochs=1), data, tmp_path / "float32")
    weights, progress = trained(
        small.run("soft", epochs=1, precision="bf16"), data, tmp_path / "bf16"
    )

    assert progress.precisions == ["float32"]
    assert all(torch.equal(weights[name], value) for name, value in exact.items())
    assert f"small: precision: float32 ({SLOW.reason}); float32 products: " in caplog.text


@pytest.mark.parametrize(
    ("first", "then", "used", "warned"),
    [
        (FAST, SLOW, ["bf16", "float32"], True),
        (SLOW, FAST, ["float32"], False),
        (SLOW, SLOW, ["float32"], False),
    ],
    ids=["it cannot keep to bf16", "it keeps to float32", "nothing changes"],
)
def test_a_training_that_goes_on_elsewhere_keeps_to_its_precision_or_says_why_not(
    first: Trial,
    then: Trial,
    used: list[str],
    warned: bool,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if first.pays and not processor.try_bfloat16().pays:
        pytest.skip("this processor has no LSTM in bfloat16")
    run = small.run("soft", epochs=1, precision="bf16")
    monkeypatch.setattr(processor, "try_bfloat16", lambda: first)
    calls = count(1)
    with pytest.raises(Stopped):
        trained(run, data, tmp_path, Stop(lambda: next(calls) >= 2))
    monkeypatch.setattr(processor, "try_bfloat16", lambda: then)
    _, progress = trained(run, data, tmp_path)

    assert progress.precisions == used

    warning = (
        f"this training began in bf16, which is not used here ({SLOW.reason}): it continues"
        " in float32"
    )

    assert (warning in caplog.text) == warned


@pytest.mark.processor
def test_the_record_of_a_training_names_its_precision(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small.run("soft", epochs=1, precision="bf16")
    done = runs.train_here(run, data, tmp_path, capsys)
    assert done.end() == 0, done.said()

    expected = "bf16" if processor.try_bfloat16().pays else "float32"
    assert runs.record_of(tmp_path)["precision"] == expected
    assert f"precision: {expected} (" in done.said()
