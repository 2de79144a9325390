"""Parse words of the command line, and say what was meant by one that is not known."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from pam.runtime.errors import UserError, unknown

OTHERS_WORDS = (argparse.PARSER, argparse.REMAINDER)  # words that another parser reads
EXAMPLES = "examples:"  # how the end of a command's help begins


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Tells the default of an option that has one and does not tell it itself."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or "default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Keep the lines of examples, which are to be copied."""
        if text.startswith(EXAMPLES):
            return text
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Parses a command's words, and names the closest to one that it does not know.

    Args:
        passes_on: the words are for another program; they are kept in `words`.
    """

    def __init__(self, passes_on: bool = False, **settings: Any) -> None:
        super().__init__(formatter_class=Help, **settings)
        self.passes_on = passes_on

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check that a word is one of an option's choices."""
        if action.choices is not None and value not in action.choices:
            noun = "command" if action.dest == "command" else "choice"
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, str(unknown(noun, str(value), names)))

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse words, all of which have to be known unless they are passed on."""
        if self.passes_on and not {"-h", "--help"}.intersection(args or ()):
            parsed, _ = super().parse_known_args([], namespace)
            parsed.words = list(args or ())
            return parsed, []

        # Before argparse, which would first name the options that are missing.
        if not any(action.nargs in OTHERS_WORDS for action in self._actions):
            self._check_options(sys.argv[1:] if args is None else args)

        parsed, left = super().parse_known_args(args, namespace)
        for word in left:
            if word.startswith("-"):
                self._refuse(word)
        if left:
            self.error(f"`{left[0]}` is one word too many")
        return parsed, left

    def _check_options(self, words: Sequence[str]) -> None:
        """Check that every word that is a long option exists, if perhaps by its beginning."""
        for word in takewhile(lambda word: word != "--", words):
            name = word.partition("=")[0]
            is_known = any(option.startswith(name) for option in self._option_string_actions)
            if name.startswith("--") and " " not in word and not is_known:
                self._refuse(word)

    def _refuse(self, word: str) -> None:
        """Stop, since there is no such option, and name the closest."""
        known = [name for name in self._option_string_actions if name.startswith("--")]
        closest = difflib.get_close_matches(word.partition("=")[0], known, n=1)
        hint = f"did you mean `{closest[0]}`?" if closest else f"`{self.prog} --help` lists all"
        self.error(str(UserError(f"unknown option `{word}`", hint=hint)))
