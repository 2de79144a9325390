"""The command line: `python -m pam VERB`, each verb a step of the pipeline without Snakemake."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence

from pam import commands as verbs
from pam.io import UserError, storage_error

ORDER = (
    "fetch", "prepare", "gold", "train", "join", "predict", "analyze", "attend", "score", "tables",
    "figures", "bench",
)  # fmt: skip
"""Verbs in the order in which a user meets them; others follow by name."""


def names() -> list[str]:
    """All verbs: the modules of `pam.commands`."""
    found = {module.name for module in pkgutil.iter_modules(verbs.__path__)}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs."""
    top = argparse.ArgumentParser(prog="python -m pam", description=__doc__)
    commands = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in names():
        verb = importlib.import_module(f"pam.commands.{name}")
        command = commands.add_parser(
            name.replace("_", "-"),
            help=verb.HELP,
            description=verb.HELP,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        verb.add_arguments(command)
        command.set_defaults(function=verb.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb.

    Returns:
        0; 2 after an error that the user can mend, which is printed in one message; after an
        interruption what a shell would give, 128 and the signal's number.
    """
    args = parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True
    )
    try:
        return int(args.function(args))
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` has. Python would flush once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except UserError as error:
        message = error
    except OSError as error:
        worded = storage_error(error, error.filename or "a file")
        if not isinstance(worded, UserError):
            raise
        message = worded
    sys.stderr.write(f"error: {message}\n")
    return 2
