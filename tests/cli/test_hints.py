"""The commands and options that messages tell people to use are there."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from snakemake.cli import get_argument_parser

import pam
from pam import cli

OTHER_PROGRAMS = "libreoffice", "nvidia-smi", "squeue", "scontrol"


def _literal(node: ast.expr) -> str:
    """Return the text of a string of the source, with X for what is filled in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


def _texts() -> Iterator[tuple[str, str]]:
    """Return the strings of the package, each with its place; those of f-strings as one."""
    for path in sorted(Path(pam.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text or isinstance(node, ast.JoinedStr):
                yield f"{path.name}:{node.lineno}", _literal(node)


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Return all options of a command, with those of its own commands."""
    found = set()
    for action in parser._actions:
        found |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= _options(below)
    return found


def test_commands_in_messages_exist_with_their_options() -> None:
    subparsers = next(
        action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    options = {name: _options(parser) for name, parser in subparsers.choices.items()}
    checked = 0
    for place, text in _texts():
        for name, rest in re.findall(r"(?:`|-m )pam ([a-z][a-z-]*)([^`\n]*)", text):
            assert name in options, (place, text)
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest)) <= options[name], (
                place,
                text,
            )
            checked += 1
    assert checked > 0


def test_options_in_messages_exist() -> None:
    known = _options(cli.parser()) | _options(get_argument_parser())
    for place, text in _texts():
        if any(program in text for program in OTHER_PROGRAMS):
            continue
        named = set(re.findall(r"(?:with|by|or|fewer|use|--|`|,) ?(--[a-z][a-z-]+)", text))
        assert named <= known, (place, named - known)
