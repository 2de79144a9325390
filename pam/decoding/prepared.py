"""Prepared data that a model can be held to."""

from __future__ import annotations

from pathlib import Path

from pam.data.dataset import Prepared
from pam.io import UserError
from pam.models.saved import SavedModel


def prepared_for(model: SavedModel, folder: Path) -> Prepared:
    """A prepared folder whose ids mean to the model what they mean there.

    Raises:
        UserError: it was prepared with other vocabularies.
    """
    data = Prepared(folder)
    for side, vocabulary in (("source", model.source), ("target", model.target)):
        if getattr(data, side).digest != vocabulary.digest:
            raise UserError(
                f"this vocabulary is not the one that {model.run.label} was trained with",
                file=folder / f"{side}.vocab",
                hint="name the prepared data of the model's own task",
            )
    return data
