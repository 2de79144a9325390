"""The model of examples/own_loop.py, before any training: what it writes depends on its source."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def own_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    yield importlib.import_module("own_loop")
    sys.modules.pop("own_loop", None)


@pytest.mark.parametrize("coupling", ["none", "proximity"])
def test_outputs_depend_neither_on_the_batch_nor_on_padding(own_loop: Any, coupling: str) -> None:
    torch.manual_seed(1)
    model = own_loop.Inflector(source=12, target=15, coupling=coupling).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    source = torch.tensor([[2, 3, 4, 5, 6], [7, 8, 9, 0, 0], [11, 10, 0, 0, 0]])

    symbols, log_probs = model(source)
    padded_symbols, padded_log_probs = model(nn.functional.pad(source, (0, 10)))
    assert torch.equal(padded_symbols, symbols)
    torch.testing.assert_close(padded_log_probs, log_probs)

    for row, length in enumerate((5, 3, 2)):
        alone_symbols, alone_log_probs = model(source[row : row + 1, :length])
        assert torch.equal(alone_symbols[0], symbols[row])
        torch.testing.assert_close(alone_log_probs[0], log_probs[row])
    assert len({tuple(row) for row in symbols.tolist()}) == 3
