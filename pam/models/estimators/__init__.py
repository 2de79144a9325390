"""Expectations over the alignment in a bound: enumerated, or estimated from a draw."""
