"""A recurrent model trained beside one of the opposite direction."""

from __future__ import annotations

from pam.config import ModelConfig, Network
from pam.io import UserError
from pam.models.agreement import Agreement
from pam.models.architectures import recurrent
from pam.models.sizes import check_number


def build(
    components: ModelConfig, network: Network, source: int, target: int, weight: float = 1.0
) -> Agreement:
    """Makes both directions, alike but for their vocabularies.

    Args:
        weight: of the trace, in nats.

    Raises:
        UserError: a choice that does not exist, or components that do not fit together.
    """
    check_number("architecture option `weight`", weight)
    if components.targets == "actions":
        raise UserError(
            f"model {components.label}: a source holds no actions to be written",
            hint="use `targets: symbols`",
        )
    ahead = recurrent.build(components, network, source, target)
    return Agreement(ahead, recurrent.build(components, network, target, source), weight)
