"""`completion`: commands and options completed by the Tab key."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

from pam.commands import command, option


@command(
    "print a script by which a shell completes commands and options",
    option("shell", "for which shell", choices=["bash", "zsh"]),
    examples=[
        "pam completion bash > ~/.local/share/bash-completion/completions/pam",
        "pam completion zsh > ~/.zfunc/_pam",
    ],
)
def completion(args: Namespace) -> int:
    import shtab

    for action in _actions(args.parser):
        if action.type is Path:
            place = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
            action.complete = place  # type: ignore[attr-defined]

    sys.stdout.write(f"{shtab.complete(args.parser, args.shell)}\n")
    return 0


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    """Return what a parser and the parsers of its commands take."""
    for action in parser._actions:
        yield action
        if isinstance(action, _SubParsersAction):
            for command_parser in action.choices.values():
                yield from _actions(command_parser)
