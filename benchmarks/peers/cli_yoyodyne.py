"""Run yoyodyne's own command line, without wandb, whose place an empty module takes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

wandb: Any = ModuleType("wandb")
wandb.run = None  # it looks whether a run is logged there
sys.modules["wandb"] = wandb

from yoyodyne.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
