"""Dot product: the bilinear score whose keys are the encoder states themselves."""

from pam.fast.scores.general import COMPONENT, of_hypotheses, tensors

__all__ = ["COMPONENT", "of_hypotheses", "tensors"]
