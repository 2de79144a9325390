"""The parts of torch that are private, or not in its documentation: all that this package uses.

Torch may change such a part from one version to the next. So each one is behind a function here,
which says what happens where the part is missing. `tests/test_torch_internals.py` fails where torch
has changed it. No other module of the package names a private part of torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, distributed

aten: Any = torch.ops.aten  # torch's operators by their names in `native_functions.yaml`


# Float32 products by oneDNN.


@cache  # asked before every product
def can_choose_onednn() -> bool:
    """Check whether torch lets a program choose the precision of oneDNN's products.

    Written for torch 2.9 and later. Where the setting is missing, `onednn_float32` changes nothing.
    """
    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    return hasattr(matmul, "fp32_precision")


@contextmanager
def onednn_float32() -> Iterator[None]:
    """Let oneDNN take float32 products inside this context.

    oneDNN is allowed bfloat16 for them, and takes it if the processor has AMX.

    Written for torch 2.9 and later; torch's type stubs do not have the setting. Where it is
    missing, products are taken as torch takes them by itself, by MKL as a rule.
    """
    if not can_choose_onednn():
        yield
        return

    # This allows bfloat16, and it makes torch prefer oneDNN to MKL.
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


# Products in bfloat16.


def says_bfloat16_is_fast() -> bool | None:
    """Return whether oneDNN says that the processor has instructions for bfloat16.

    Written for torch 2.13. Where the operator is missing, nothing is known: None.
    """
    operator = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(operator()) if operator is not None else None


# Operators.

_HAS_FUSED_LSTM_CELL = hasattr(aten, "_thnn_fused_lstm_cell") and hasattr(
    aten, "_thnn_fused_lstm_cell_backward_impl"
)
_HAS_TANH_BACKWARD = hasattr(aten, "tanh_backward")


def has_fused_lstm_cell(x: Tensor) -> bool:
    """Check whether torch has its fused kernel of an LSTM cell on the device of `x`.

    Written for torch 2.13, whose kernel is for CUDA alone. Where this is false, callers compute the
    cell by plain operators, with the same result and more launches of kernels.
    """
    return x.is_cuda and _HAS_FUSED_LSTM_CELL


def fused_lstm_cell(
    input_gates: Tensor, state_gates: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute h and c, (n, H) each, and the gates (n, 4H), all in one kernel.

    The gates are the sum of their two parts, (n, 4H) each, after their nonlinearities.

    Written for torch 2.13: `aten::_thnn_fused_lstm_cell`, the kernel behind `torch.nn.LSTMCell`.
    Call it only if `has_fused_lstm_cell`.
    """
    h, new_c, gates = aten._thnn_fused_lstm_cell(input_gates, state_gates, c)
    return h, new_c, gates


def fused_lstm_cell_backward(
    dh: Tensor, dc: Tensor, c: Tensor, new_c: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the gates' sums (n, 4H) and of `c` (n, H), all in one kernel.

    Written for torch 2.13: `aten::_thnn_fused_lstm_cell_backward_impl`, whose last argument says
    that biases have no gradient of their own. Call it only if `has_fused_lstm_cell`.
    """
    # The last result would be the gradient of the biases.
    dgates, dc_before, _ = aten._thnn_fused_lstm_cell_backward_impl(dh, dc, c, new_c, gates, False)
    return dgates, dc_before


def tanh_backward(grad: Tensor, output: Tensor) -> Tensor:
    """Compute the gradient of x, where `output` = tanh(x), in one pass over memory.

    Written for torch 2.13: `aten::tanh_backward`, which autograd uses itself. Where it is missing,
    the same is computed by three plain operators.
    """
    if not _HAS_TANH_BACKWARD:
        return grad * (1 - output * output)

    dx: Tensor = aten.tanh_backward(grad, output)
    return dx


def by_operator(
    formulas: Mapping[str, Callable[..., int]],
) -> dict[Any, Callable[..., int]]:
    """Return formulas that count operations, by operator in place of by its name.

    `torch.utils.flop_counter.FlopCounterMode` takes such a mapping. A formula gets the shapes of
    the operator's arguments, so it depends on their order.

    Written for torch 2.13. An operator that torch does not have is left out, so that what takes its
    place is not counted.
    """
    return {
        getattr(aten, name): formula for name, formula in formulas.items() if hasattr(aten, name)
    }


# CUDA graphs.

OLDEST_WITH_GRAPHS = (2, 11)  # the oldest version of torch by whose code CUDA graphs are written


def can_record_steps() -> bool:
    """Check whether this version of torch is one by which the recording of steps is written.

    Written for torch 2.11 and 2.13, which differ in how a generator is recorded.
    """
    return tuple(map(int, torch.__version__.split(".")[:2])) >= OLDEST_WITH_GRAPHS


def renew_generator(device: torch.device) -> None:
    """Let the default generator of a CUDA device draw, after a recording that has failed.

    Written for torch 2.11, where a generator goes on as if it was recorded: whatever draws then,
    such as dropout, raises an error. Its state is one object for all graphs, and a copy of it is
    not recorded. In torch 2.13 each recording has a state of its own, and a copy changes nothing.
    """
    with torch.cuda.device(device):
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
    generator.graphsafe_set_state(generator.clone_state())


# Errors that only their texts tell apart.

_OUT_OF_MEMORY = re.compile(
    "can't allocate memory|out of memory|bad_alloc|ALLOC_FAILED|ALLOCATION_FAILED"
    "|could not execute a primitive"
    # A descriptor that cannot be made is what the processor lacks, not a lack of memory.
    "|could not create a primitive(?! descriptor)"
)
"""Messages of errors that have no class: of the CPU, CUDA, C++, cuBLAS, cuDNN and oneDNN."""


def says_out_of_memory(error: BaseException) -> bool:
    """Check whether the message of an error of torch says that memory was short.

    Written for torch 2.13. Where torch words it otherwise, this is false, and the error is raised
    as torch raised it.
    """
    return bool(_OUT_OF_MEMORY.search(str(error)))


def says_lost_peer(error: RuntimeError) -> bool:
    """Check whether an error of torch says that another process of the group has gone.

    Written for torch 2.13. Gloo has no class for it; its messages begin with its source file. Where
    they do not, this is false, and the process ends with torch's traceback.
    """
    return isinstance(error, distributed.DistError) or "gloo/" in str(error)
