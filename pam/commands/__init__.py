"""The commands of `python -m pam`: options, checks of options, and a call of the package behind.

What decides a result is in the packages, not here, so that a new option runs nothing again.
Imports that take long, of torch above all, are inside the functions that need them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        help: what it does, in one line.
        add_arguments: declares its options.
        run: does it; returns the exit code.
    """

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
