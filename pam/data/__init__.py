"""Data: from addresses and files to text, symbols and ids, in this order.

`registry` says what a data set is, `download` fetches it, `prepare` runs the stages of its kind of
task (`tasks`), and `dataset` reads what they wrote.
"""

from __future__ import annotations


def class_names(*classes: type) -> list[str]:
    """`module:Class` of each class, as `pam.fingerprint` takes them."""
    return [f"{own.__module__}:{own.__qualname__}" for own in classes]
