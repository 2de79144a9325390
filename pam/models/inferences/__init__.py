"""Inference networks: alignments given the whole target, by which a bound is trained."""
