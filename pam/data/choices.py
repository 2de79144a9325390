"""Dictionaries from which a configuration chooses a class by its name."""

from __future__ import annotations

from typing import TypeVar

Chosen = TypeVar("Chosen")

Choices = dict[str, type[Chosen]]
"""Classes by name. Code that names a dictionary of this annotation depends on nothing that it
lists: `pam.experiments.fingerprint` counts the class that was chosen, which the job names.
"""
