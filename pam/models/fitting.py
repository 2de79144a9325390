"""Whether models can be built as configured, seen before anything runs."""

from __future__ import annotations

import torch

from pam.experiment import Plan
from pam.io import UserError, place_of
from pam.models.build import build

_SYMBOLS = 10
"""Of either vocabulary; what fits does not hang on it."""


def check_fit(plan: Plan) -> None:
    """Builds every model with the sizes of every task, without memory for its weights.

    Raises:
        UserError: the components, options or sizes of one do not fit together.
    """
    for task in plan.experiment.tasks:
        for model in plan.experiment.models_of(task):
            if plan.members(model):
                continue
            run = plan.run(task, model, plan.experiment.seeds_of(task)[0])
            try:
                with torch.device("meta"):
                    build(run.components, run.network, _SYMBOLS, _SYMBOLS)
            except UserError as error:
                file, line = place_of(plan.files, ["tasks", task])
                message = f"model `{model}` of task `{task}`: {error.message}"
                raise UserError(message, file=file, line=line, hint=error.hint) from error
