"""A recurrent model trained beside one of the opposite direction."""

from __future__ import annotations

from pam.config import ModelChoices, Network
from pam.errors import UserError
from pam.models.agreement import Agreement
from pam.models.architectures import recurrent
from pam.models.sizes import check_number


def build(
    choices: ModelChoices, network: Network, source: int, target: int, weight: float = 1.0
) -> Agreement:
    """Makes both directions, alike but for their vocabularies.

    Args:
        weight: of the trace, in nats.

    Raises:
        UserError: a choice that does not exist, or choices that do not fit together.
    """
    check_number("architecture option `weight`", weight)
    if choices.targets == "actions":
        raise UserError(
            f"model {choices.label}: a source holds no actions to be written",
            remedy="use `targets: symbols`",
        )
    ahead = recurrent.build(choices, network, source, target)
    return Agreement(ahead, recurrent.build(choices, network, target, source), weight)
