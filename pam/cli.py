"""The command line: `python -m pam COMMAND`, each a step of the pipeline without Snakemake."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence

from pam.commands import align, bench, data, evaluate, train
from pam.io import UserError, storage_error, write_utf8

COMMANDS = {  # in the order in which a user meets them
    "data": data.data,
    "check": data.check,
    "fetch": data.fetch,
    "prepare": data.prepare,
    "word-alignments": data.word_alignments,
    "train": train.train,
    "ensemble": train.ensemble,
    "reuse": train.reuse,
    "length-penalty": train.length_penalty,
    "predict": train.predict,
    "export": train.export,
    "align": align.align,
    "analyze": evaluate.analyze,
    "attention": evaluate.attention,
    "score": evaluate.score,
    "control": evaluate.control,
    "compare": evaluate.compare,
    "significance": evaluate.significance,
    "tables": evaluate.tables,
    "figures": evaluate.figures,
    "bench": bench.bench,
}


class WithDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Tells the default of an option that has one and does not tell it itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or "default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m pam", description=__doc__)
    parsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command_parser = parsers.add_parser(
            name, help=command.help, description=command.help, formatter_class=WithDefaults
        )
        command.add_to(command_parser)

    return top


def _fill_closed_streams() -> bool:
    """Open nothing in place of closed streams, so that no file gets their numbers.

    Return whether standard output is open. Python has None for a stream that is closed; standard
    input stays None, so that who reads it can say so.
    """
    is_heard = sys.stdout is not None
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 -- until the end
    return is_heard


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    That is 0, or 2 after an error that the user can correct, printed in one message. After an
    interruption it is what a shell would give, 128 and the signal's number.
    """
    is_heard = _fill_closed_streams()
    write_utf8()
    if not is_heard:
        sys.stderr.write("error: standard output is closed; send it somewhere, as by >FILE\n")
        return 2
    args = parser().parse_args(arguments)

    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True
    )

    try:
        return int(args.call(args))
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
