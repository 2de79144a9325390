"""The command line: `pam COMMAND`, also called by `python -m pam COMMAND`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence

from pam.commands import Command, align, bench, completion, data, evaluate, run, train
from pam.runtime.errors import UserError, storage_error
from pam.runtime.messages import write_utf8
from pam.runtime.parser import EXAMPLES, Parser
from pam.version import __version__

DESCRIPTION = """\
Train, run and compare sequence-to-sequence models with posterior attention. `run` makes a whole
experiment; each other command is one step of it, without Snakemake."""

COMMANDS: dict[str, Command] = {  # in the order in which a user meets them
    "data": data.data,
    "check": data.check,
    "run": run.run,
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
    "aligners": align.aligners,
    "analyze": evaluate.analyze,
    "attention": evaluate.attention,
    "score": evaluate.score,
    "control": evaluate.control,
    "compare": evaluate.compare,
    "significance": evaluate.significance,
    "tables": evaluate.tables,
    "figures": evaluate.figures,
    "bench": bench.bench,
    "completion": completion.completion,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = Parser(prog="pam", description=DESCRIPTION)
    top.set_defaults(parser=top)
    top.add_argument("--version", action="version", version=f"pam {__version__}")
    parsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command_parser = parsers.add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog=_examples(command),
            passes_on=command.passes_on,
        )
        command.add_to(command_parser)

    return top


def _examples(command: Command) -> str:
    """Return the end of a command's help; argparse fills in what stands after a per cent sign."""
    lines = "\n".join(f"  {example}" for example in command.examples)
    return f"{EXAMPLES}\n{lines}".replace("%", "%%")


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
