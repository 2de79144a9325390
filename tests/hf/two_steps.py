"""Two steps of `Trainer`: `python -m torch.distributed.run ... -m tests.hf.two_steps OUT HEAD`.

All processes together see the same batch, four rows, at each step. The first process writes the
weights that it began with and ended with, and the losses, into the file OUT.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from tests.hf.test_training import ROWS, trainer_of
from tests.hf.tiny import aligned


def without_dropout(model: Any) -> Any:
    """Leave no unit out in training."""
    for module in model.modules():
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model


def main(out: Path, components: dict[str, Any]) -> None:
    model = without_dropout(aligned("marian", **components))
    before = copy.deepcopy(model.state_dict())
    trainer = trainer_of(
        model,
        out.parent,
        per_device_train_batch_size=len(ROWS) // int(os.environ["WORLD_SIZE"]),
        max_steps=2,
        optim="sgd",
        max_grad_norm=0.0,
        learning_rate=1.0,
        lr_scheduler_type="constant",
        ddp_backend="gloo",
    )
    trainer.train()

    if trainer.is_world_process_zero():
        losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        weights = {"before": before, "after": model.state_dict()}
        torch.save({"losses": [float(loss) for loss in losses], **weights}, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
