"""Score of query and encoder state, one after the other: the function that `mlp` is."""

from pam.fast.scores.mlp import COMPONENT, of_hypotheses, tensors

__all__ = ["COMPONENT", "of_hypotheses", "tensors"]
