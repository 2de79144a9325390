"""Models that were trained by themselves and decode together."""

from __future__ import annotations

from typing import Any

from pam.config import ModelConfig, Network
from pam.io import UserError, parse
from pam.models.build import build as build_member
from pam.models.ensemble import Ensemble


def build(
    components: ModelConfig,
    network: Network,
    source: int,
    target: int,
    members: list[dict[str, Any]] | None = None,
) -> Ensemble:
    """Makes an ensemble; see `pam.commands.ensemble`, which gives it the members' weights.

    Args:
        members: of each its `components` and `network`, which the experiment writes for the model's
            `members`.

    Raises:
        UserError: none, or one that is no model.
    """
    listed = isinstance(members, list) and all(isinstance(member, dict) for member in members)
    if not members or not listed:
        raise UserError(
            f"model {components.label}: an ensemble without members",
            hint="name them under `members:`, and leave `architecture` out",
        )
    made = []
    for member in members:
        own = parse(ModelConfig, member.get("components"))
        size = parse(Network, member.get("network"))
        made.append(build_member(own, size, source, target))
    return Ensemble(made)
