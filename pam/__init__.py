"""Posterior attention models for sequence-to-sequence learning (Shankar & Sarawagi 2019)."""

__version__ = "0.1.0"
