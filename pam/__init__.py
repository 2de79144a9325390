"""Posterior attention models for sequence-to-sequence learning (Shankar & Sarawagi 2019).

`pam.load` opens a trained model, `pam.pretrained` lists those that come with the package; see
`pam.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pam.version import __version__

if TYPE_CHECKING:
    from pam.api import AttentionMap, Prediction, Score, TrainedModel, load, pretrained

LIBRARY = ("AttentionMap", "Prediction", "Score", "TrainedModel", "load", "pretrained")
__all__ = [
    "AttentionMap",
    "Prediction",
    "Score",
    "TrainedModel",
    "__version__",
    "load",
    "pretrained",
]


def __getattr__(name: str) -> Any:
    """Import the library when it is first used: commands that need no torch start without it."""
    if name in LIBRARY:
        from pam import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
