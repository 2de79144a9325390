"""The notebook, with an epoch of each training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt

from tests.hf.tiny import transformers

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples/transformers.ipynb"
pytestmark = pytest.mark.slow


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate", reason="the package accelerate is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            code = code.replace("EPOCHS = 7", "EPOCHS = 1").replace("EPOCHS = 6", "EPOCHS = 1")
            exec(code, names)  # noqa: S102 -- the notebook's own cells
    plt.close("all")

    assert names["EPOCHS"] == names["MORE_EPOCHS"] == 1
    assert names["model"].config.posterior_attention
    assert isinstance(names["model"], transformers.MarianMTModel)
    assert 0 < names["scores"].metrics["aer"].value < 1
