"""Which models the faster paths compute; the reference computes every model."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from types import ModuleType
from typing import TypeGuard

from torch import nn

from pam.models.couplings.none import NoCoupling
from pam.models.couplings.pointer import Pointer
from pam.models.distributions.softmax import Softmax
from pam.models.input_feedings.posterior import Posterior
from pam.models.input_feedings.prior import Prior
from pam.models.marginalizations.input import Input
from pam.models.marginalizations.output import Output
from pam.models.model import Model
from pam.models.projection import Projection
from pam.models.relative import RelativeCoupling
from pam.models.seq2seq import Seq2Seq
from pam.models.windows.none import NoWindow


def covers(model: Model, draws: bool) -> TypeGuard[Seq2Seq]:
    """Whether likelihoods of given targets have a faster path at all.

    Args:
        draws: whether what training draws is drawn.
    """
    if not isinstance(model, Seq2Seq):
        return False
    return points(model) or recurs(model, draws) or not model.feedback.needs_positions


def points(model: Seq2Seq) -> bool:
    """Whether the targets say where a pointer stands, so that nothing feeds back, and where it
    stands is all that counts."""
    return (
        isinstance(model.coupling, Pointer)
        and isinstance(model.marginalization, Input | Output)
        and not model.inference.infers
        and not model.latent.draws
    )


def recurs(model: Seq2Seq, draws: bool) -> bool:
    """Whether `pam.fast.recurrence` computes its steps, in which nothing is drawn."""
    return isinstance(model.feedback, Prior | Posterior) and attends(model, draws)


def attends(model: Seq2Seq, draws: bool) -> bool:
    """Whether this package makes priors of states and of the alignment before."""
    coupled = isinstance(model.coupling, RelativeCoupling)
    free = isinstance(model.coupling, NoCoupling)
    return (
        mirror(model.score) is not None
        and isinstance(model.window, NoWindow)
        and not (draws and model.latent.draws)
        and (
            (isinstance(model.distribution, Softmax) and (free or coupled))
            or (isinstance(model.distribution, Projection) and free)
        )
    )


def mirror(part: nn.Module) -> ModuleType | None:
    """The module of this package that computes what a component defines, if there is one."""
    return _module(type(part).__module__.replace("pam.models.", "pam.fast.", 1))


@cache
def _module(name: str) -> ModuleType | None:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
