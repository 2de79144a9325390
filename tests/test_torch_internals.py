"""The private parts of torch: they are as this package expects, or their fallbacks serve."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pam.measuring.benchmark import FORMULAS
from pam.runtime import processor, torch_internals
from tests.test_structure import FILES

# Operators with the beginning of their schemas, on whose order of arguments the package relies.
SCHEMAS = {
    "_thnn_fused_lstm_cell": (
        "(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias=None, Tensor?"
        " hidden_bias=None) -> (Tensor, Tensor, Tensor)"
    ),
    "_thnn_fused_lstm_cell_backward_impl": (
        "(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias)"
        " -> (Tensor, Tensor, Tensor)"
    ),
    "tanh_backward": "(Tensor grad_output, Tensor output) -> Tensor",
    "addmm_": "(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)",
    "mkldnn_rnn_layer": "(Tensor input, Tensor weight0, Tensor weight1, ",
    "mkldnn_rnn_layer_backward": "(Tensor input, Tensor weight1, Tensor weight2, ",
    "_cudnn_rnn": "(Tensor input, Tensor[] weight, ",
    "_cudnn_rnn_backward": "(Tensor input, Tensor[] weight, ",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_operator_takes_and_returns_what_the_package_expects(name: str) -> None:
    operator = getattr(torch.ops.aten, name, None)
    assert operator is not None, f"torch {torch.__version__} has no operator aten::{name}"

    schema = str(operator.default._schema)
    assert schema.startswith(f"aten::{name}{SCHEMAS[name]}"), f"torch has changed it: {schema}"


def test_every_formula_of_operations_has_its_operator() -> None:
    names = {str(operator).removeprefix("aten.") for operator in FORMULAS}
    assert names == SCHEMAS.keys() - {
        "tanh_backward",
        "_thnn_fused_lstm_cell",
        "_thnn_fused_lstm_cell_backward_impl",
    }


def test_formulas_of_operators_that_torch_does_not_have_are_left_out() -> None:
    formulas = {"addmm_": lambda *_: 1, "no_such_operator": lambda *_: 2}
    assert list(torch_internals.by_operator(formulas)) == [torch.ops.aten.addmm_]


# Float32 products by oneDNN.


def test_onednn_is_allowed_other_precisions_within_the_context_alone() -> None:
    assert torch_internals.can_choose_onednn()

    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    with torch_internals.onednn_float32():
        assert matmul.fp32_precision == "bf16"

    assert matmul.fp32_precision == before != "bf16"


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """Forget whether torch has the setting, before a test and after it."""
    torch_internals.can_choose_onednn.cache_clear()
    yield
    torch_internals.can_choose_onednn.cache_clear()


@pytest.mark.usefixtures("asked_anew")
def test_without_the_setting_of_onednn_products_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_setting = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setattr(torch.backends, "mkldnn", without_setting)
    a = torch.randn(8, 8)
    product = a @ a

    with torch_internals.onednn_float32():
        assert torch.equal(a @ a, product)

    assert not processor.onednn_is_exact()


# Products in bfloat16.


def test_onednn_says_whether_bfloat16_is_fast_and_without_the_operator_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert torch_internals.says_bfloat16_is_fast() in (True, False)
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    assert torch_internals.says_bfloat16_is_fast() is None


# Kernels.


def test_cells_are_fused_on_cuda_alone_and_where_torch_has_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_cuda = SimpleNamespace(is_cuda=True)
    assert torch_internals.has_fused_lstm_cell(on_cuda)  # type: ignore[arg-type]
    assert not torch_internals.has_fused_lstm_cell(torch.empty(0))

    monkeypatch.setattr(torch_internals, "_HAS_FUSED_LSTM_CELL", False)
    assert not torch_internals.has_fused_lstm_cell(on_cuda)  # type: ignore[arg-type]


@pytest.mark.parametrize("has_operator", [True, False])
def test_the_gradient_of_tanh_is_that_of_autograd(
    has_operator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_internals, "_HAS_TANH_BACKWARD", has_operator)
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(5, 7, dtype=torch.float64)
    output = torch.tanh(x)
    output.backward(grad)

    torch.testing.assert_close(torch_internals.tanh_backward(grad, output.detach()), x.grad)


# Errors.


def test_an_error_of_short_memory_is_told_by_its_text() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)

    assert torch_internals.says_out_of_memory(caught.value)
    for message in (
        "could not create a primitive",
        "could not execute a primitive",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    ):
        assert torch_internals.says_out_of_memory(RuntimeError(message))

    unsupported = "could not create a primitive descriptor for the LSTM forward propagation"
    for message in (unsupported, "sizes do not match"):
        assert not torch_internals.says_out_of_memory(RuntimeError(message))


def test_an_error_of_a_lost_peer_is_told_by_its_class_or_its_text() -> None:
    lost = RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:1] closed by peer")
    assert torch_internals.says_lost_peer(lost)
    assert torch_internals.says_lost_peer(torch.distributed.DistBackendError("lost"))
    assert not torch_internals.says_lost_peer(RuntimeError("sizes do not match"))


# Where private parts are used.

PRIVATE_FILE = Path(torch_internals.__file__).name


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_private_parts_of_torch_are_used_in_one_file(file: Path) -> None:
    private = private_parts(ast.parse(file.read_text(encoding="utf-8")))
    assert not private or file.name == PRIVATE_FILE, f"use {PRIVATE_FILE} for {private}"


def private_parts(tree: ast.AST) -> list[str]:
    """Return the names of private parts of torch, and of its operators, that a module uses."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.append(ast.unparse(node))
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]

    return [name for name in names if is_private(name)]


def is_private(name: str) -> bool:
    """Check whether a dotted name is one of torch with a private part, or one of its operators."""
    top, *parts = name.split(".")
    if top != "torch":
        return False

    return parts[:1] == ["ops"] or any(
        part.startswith("_") and not part.startswith("__") for part in parts
    )


def test_private_parts_are_found() -> None:
    assert private_parts(ast.parse("torch._C._get_mkldnn_enabled()"))
    assert private_parts(ast.parse("torch.ops.aten.mm(a, b)"))
    assert private_parts(ast.parse("from torch._dynamo import reset"))
    assert private_parts(ast.parse("from torch import _dynamo"))
    assert not private_parts(ast.parse("torch.nn.Linear(1, 2); self._step(); torch.__version__"))
