"""Alignment distributions: scores to probabilities of source positions."""
