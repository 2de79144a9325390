"""Models that were trained by themselves and decode together."""

from __future__ import annotations

from typing import Any

from pam.config import ModelChoices, Network
from pam.errors import UserError
from pam.models.build import build as build_member
from pam.models.ensemble import Ensemble
from pam.parsing import parse


def build(
    choices: ModelChoices,
    network: Network,
    source: int,
    target: int,
    members: list[dict[str, Any]] | None = None,
) -> Ensemble:
    """Makes an ensemble; see `pam.verbs.join`, which gives it the members' weights.

    Args:
        members: of each its `choices` and `network`, which the experiment writes for the model's
            `members`.

    Raises:
        UserError: none, or one that is no model.
    """
    listed = isinstance(members, list) and all(isinstance(member, dict) for member in members)
    if not members or not listed:
        raise UserError(
            f"model {choices.label}: an ensemble without members",
            remedy="name them under `members:`, and leave `architecture` out",
        )
    made = []
    for member in members:
        own = parse(ModelChoices, member.get("choices"))
        size = parse(Network, member.get("network"))
        made.append(build_member(own, size, source, target))
    return Ensemble(made)
