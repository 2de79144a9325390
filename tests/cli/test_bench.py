"""`bench` measures, and writes what it has measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pam.cli import main
from pam.experiments.settings import Network
from pam.measuring import benchmark
from pam.measuring.benchmark import count_operations, named_model
from pam.models.kernels.compute import Compute
from pam.models.kernels.lstm import LSTMCell
from pam.models.kernels.mixture import Mixture, mixture_log_likelihood
from pam.models.kernels.output_layer import OutputLayer
from pam.runtime.errors import UserError
from pam.runtime.files import read_json
from tests.training import runs, small
from tests.variants import model_named

LITTLE = ["--rounds", "2", "--batches", "2", "--warm-up", "1", "--encoder", "8", "--decoder", "8"]
ROWS = 16  # need no rows of zeros


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time products for a moment: no test asks how exact their rates are."""
    monkeypatch.setattr(benchmark, "TURN_S", 0.002)
    monkeypatch.setattr(benchmark, "TURNS", 2)


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("bf16", [False, True])
def test_operations_of_a_hand_made_cell_are_counted_with_its_gradient(bf16: bool) -> None:
    rows = ROWS
    x = 3
    h = 4

    def step() -> None:
        new = LSTMCell(leaf(4 * h, x), leaf(4 * h, h), bf16)(
            leaf(4 * h), leaf(rows, x), leaf(rows, h), leaf(rows, h)
        )
        torch.cat(new).sum().backward()

    assert count_operations(step) == 3 * 2 * rows * (x + h) * 4 * h


@pytest.mark.parametrize("bf16", [False, True])
def test_operations_of_the_hand_made_output_layer_are_counted_with_its_gradient(bf16: bool) -> None:
    rows = ROWS
    hidden = 3
    words = 7
    mixture = Mixture(
        torch.arange(rows) % words,
        torch.ones(rows, 1).bool(),
        torch.arange(rows),
        compute=Compute(bf16),
    )

    def likelihood() -> torch.Tensor:
        layer = [leaf(rows, hidden), torch.zeros(rows, 1), leaf(words, hidden), leaf(words)]
        return mixture_log_likelihood(None, *layer, mixture)

    product = 2 * rows * hidden * words

    bias = 2 * rows * words  # its gradient is a weighted sum of rows
    assert count_operations(lambda: likelihood().sum().backward()) == 3 * product + bias

    layer = OutputLayer(torch.randn(words, hidden), torch.randn(words))
    assert count_operations(lambda: layer.probs(torch.randn(rows, hidden))) == product


@pytest.mark.parametrize("sides", [1, 2])
def test_operations_of_a_fused_lstm_are_counted_with_its_gradient(sides: int) -> None:
    steps = 3
    batch = 2
    x = 5
    h = 4
    lstm = torch.nn.LSTM(x, h, bidirectional=sides == 2)

    forward = 2 * steps * batch * sides * 4 * h * (x + h)
    assert count_operations(lambda: lstm(leaf(steps, batch, x))) == forward
    assert count_operations(lambda: lstm(leaf(steps, batch, x))[0].sum().backward()) == 3 * forward


def test_rates_are_shares_of_that_of_products(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small.prepare(tmp_path / "nouns")
    out = tmp_path / "bench.json"

    models = ["--models", "soft", "hard-mono", "postr-joint:0.9", "--beams", "1"]
    options = [*models, *LITTLE, "--precision", "bf16", "--out", str(out)]
    assert main(["bench", "--data", str(data), *options]) == 0

    record = read_json(out)
    best = {}
    for product in record["products"]:
        best[product["precision"]] = max(product["gflop_s"], best.get(product["precision"], 0.0))

    for row in record["rows"]:
        highest = best[record["precision"]]  # training and search alike
        assert row["gflop_s"] > 0
        assert row["share"] == pytest.approx(row["gflop_s"] / highest, abs=0.001 + 0.06 / highest)

    head = capsys.readouterr().out
    assert "64 x 8 x 32" in head and "share" in head


def test_search_is_timed_beside_training_in_tf32(tmp_path: Path) -> None:
    data = small.prepare(tmp_path / "nouns")
    out = tmp_path / "bench.json"

    options = ["--models", "soft", "--beams", "1", *LITTLE, "--precision", "tf32"]
    assert main(["bench", "--data", str(data), *options, "--out", str(out)]) == 0
    assert [row["what"].split()[0].strip(",") for row in read_json(out)["rows"]] == [
        "training",
        "decoding",
    ]


@pytest.mark.parametrize(
    ("exact", "libraries"), [(True, {"default", "oneDNN"}), (False, {"default"})]
)
def test_a_library_that_rounds_gives_no_rate_in_float32(
    exact: bool, libraries: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark.processor, "onednn_is_exact", lambda: exact)
    plan = benchmark.Plan(Network(decoder=8), 8, 1, 1, 0, [], "bf16", 1)

    products = benchmark.time_products(plan, 8, 8, torch.device("cpu"))
    assert {
        product["library"] for product in products if product["precision"] == "float32"
    } == libraries
    assert {product["library"] for product in products if product["precision"] == "bf16"} == {
        "default"
    }


def test_a_sum_is_cut_by_what_follows_the_name() -> None:
    cuts = {
        name: named_model(name).marginalization.model_dump()
        for name in ("prior-joint:3", "prior-joint:0.9")
    }
    assert cuts["prior-joint:3"] | {"top_k": 3, "mass": None} == cuts["prior-joint:3"]
    assert cuts["prior-joint:0.9"] | {"top_k": None, "mass": 0.9} == cuts["prior-joint:0.9"]

    both = named_model("prior-joint:0.9:3").marginalization.model_dump()
    assert (both["top_k"], both["mass"]) == (3, 0.9)

    variants = {"mine": model_named("postr-joint-mass0.99")}
    again = named_model("mine:6", variants).marginalization.model_dump()

    assert (again["top_k"], again["mass"]) == (6, None)
    assert named_model("variational:4").marginalization.model_dump()["q_top_k"] == 4


@pytest.mark.parametrize(
    "name",
    [
        "prior-joint:",
        "prior-joint:x",
        "prior-joint:-1",
        "prior-joint:1e-3",
        "prior-joint:3:0.9",
        "prior-joint:3:3",
    ],
)
def test_what_is_no_cut_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"model `{name}`") as error:
        named_model(name)
    assert "NAME:MASS" in str(error.value)


@pytest.mark.parametrize(
    "name", ["prior-joint:0", "prior-joint:0.0", "prior-joint:1.5", "soft:0.9", "soft:3"]
)
def test_a_cut_that_a_model_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="marginalization"):
        named_model(name)


@pytest.mark.faults
def test_trainings_at_once_are_timed_against_trainings_in_turn(tmp_path: Path) -> None:
    data = small.prepare(tmp_path / "nouns")
    arguments = ["bench", "--beside", 2, "--data", data, "--models", "soft", *LITTLE]

    bench = runs.start([*arguments, "--out", tmp_path / "bench.json"], tmp_path / "log")
    assert bench.end() == 0, bench.said()

    (row,) = read_json(tmp_path / "bench.json")["rows"]
    assert (row["model"], row["jobs"]) == ("soft", 2)
    assert 0 < row["lowest"] <= row["at_once"] <= row["highest"]
    assert row["time_ratio"] == pytest.approx(row["in_turn"] / row["at_once"], rel=0.5)
