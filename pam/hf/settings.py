"""The components of an alignment head, as callers name them and as a model's config keeps them."""

from __future__ import annotations

from typing import Any

from pam.experiments.model import ModelConfig
from pam.experiments.parsing import parse
from pam.models.fitting import check_parts
from pam.runtime.errors import UserError, unknown

CHOICES = ("score", "distribution", "coupling", "marginalization", "input_feeding")
"""The components that a caller chooses; all others have their defaults."""

OUTPUTS = ("tied", "own")
"""Where W_o and b_o are: in the model's own output layer, or in a copy that the head has."""


def chosen_components(choices: dict[str, Any], values: int, queries: int) -> dict[str, Any]:
    """Return the components of a head by name, as plain data with all of their options.

    Args:
        choices: a kind of each component, or its kind and options; None: the default.
        values: units of an encoder state.
        queries: units of a decoder state.

    Raises:
        UserError: there is no such component, kind or option, or kinds do not fit together or into
            a decoder that runs over all steps at once.
    """
    for name in choices:
        if name not in CHOICES:
            raise unknown("component", name, list(CHOICES))

    named = {name: value for name, value in choices.items() if value is not None}
    named.setdefault("marginalization", "output")
    named["input_feeding"] = _input_feeding(named)

    head = {"label": "Head", "architecture": "aligned-transformer", **named}
    components = parse(ModelConfig, head)
    check_parts(components)
    _check_head(components, values, queries)
    return {name: getattr(components, name).model_dump() for name in CHOICES}


def _input_feeding(named: dict[str, Any]) -> Any:
    """Return the input feeding of the named components: no context is fed, see `Head`.

    By default the posterior is handed on to a coupling, and nothing where there is none.
    """
    is_coupled = named.get("coupling", "none") not in ("none", {"kind": "none"})
    feeding = named.get("input_feeding", "posterior" if is_coupled else "none")
    if feeding == "prior":
        return "none"
    if feeding == "posterior":
        return {"kind": "posterior", "context": False}
    if isinstance(feeding, dict) and feeding.get("kind") == "posterior":
        return {"context": False, **feeding}
    return feeding


def _check_head(components: ModelConfig, values: int, queries: int) -> None:
    """Check that a decoder of `transformers` can have this head; a UserError says what cannot."""
    if components.marginalization.kind != "output":
        raise UserError(
            f"marginalization `{components.marginalization.kind}` gives positions no likelihood,"
            " and so no posterior",
            hint='use `marginalization="output"`, with `top_k` or `mass` if you like',
        )

    feeding = components.input_feeding
    feeds_context = feeding.kind == "posterior" and getattr(feeding, "context", False)
    if feeds_context or feeding.kind not in ("posterior", "none"):
        raise UserError(
            f"input feeding `{feeding.kind}` feeds a context to the next decoder state, and a"
            " decoder of `transformers` takes none",
            hint='use "posterior" or "prior": the alignment that the next coupling starts from',
        )
    if components.score.kind == "dot" and values != queries:
        raise UserError(
            f"score `dot` multiplies a decoder state of {queries} units with an encoder state of"
            f" {values}",
            hint='use `score="general"`',
        )
