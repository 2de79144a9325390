"""Posterior attention models for sequence-to-sequence learning (Shankar & Sarawagi 2019).

`pam.load` opens a trained model, `pam.pretrained` lists the models that come with the package; see
`pam.library.api`. `pam.PosteriorAttention` is the attention for a model of your own; see
`pam.models.posterior_attention`. `pam.hf` gives it to models of Hugging Face. What is wrong with an
input raises a `pam.UserError`, whose `hint` says what to do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pam.version import __version__

if TYPE_CHECKING:
    from pam.library.api import TrainedModel, load, pretrained
    from pam.library.pairs import train
    from pam.library.results import AttentionMap, InputWarning, Prediction, Score
    from pam.models.posterior_attention import PosteriorAttention
    from pam.runtime.errors import UserError

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

LIBRARY = {
    "AttentionMap": "pam.library.results",
    "InputWarning": "pam.library.results",
    "PosteriorAttention": "pam.models.posterior_attention",
    "Prediction": "pam.library.results",
    "Score": "pam.library.results",
    "TrainedModel": "pam.library.api",
    "UserError": "pam.runtime.errors",
    "load": "pam.library.api",
    "pretrained": "pam.library.api",
    "train": "pam.library.pairs",
}
__all__ = [
    "AttentionMap",
    "InputWarning",
    "PosteriorAttention",
    "Prediction",
    "Score",
    "TrainedModel",
    "UserError",
    "__version__",
    "load",
    "pretrained",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import the library when it is first used: commands that need no torch start without it."""
    if name == "hf":
        return import_module("pam.hf")
    if name in LIBRARY:
        return getattr(import_module(LIBRARY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the library too, for `dir`, `help` and completion."""
    return sorted({*globals(), *__all__})
