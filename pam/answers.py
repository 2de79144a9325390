"""Which answers a question has, and which options an answer, told from their source alone.

So a configuration is checked before any work begins, and without the seconds that torch takes to
be imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pam.fingerprint import PACKAGE, QUESTIONS, file_of, tree
from pam.io import unknown


def answers(question: str) -> list[str]:
    """Names of the components that answer a question, as a model's file writes them."""
    files = (PACKAGE / "models" / f"{question}s").glob("[a-z]*.py")
    return sorted(file.stem.replace("_", "-") for file in files)


def options_of(question: str, kind: str) -> list[str]:
    """Names of the options that an answer takes: the keywords that it is made with, after what
    every answer to that question is given."""
    module = f"pam.models.{question}s.{kind.replace('-', '_')}"
    for node in tree(file_of(module)).body:
        if isinstance(node, ast.FunctionDef) and node.name == "build":
            return _arguments(node)[4:]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            (target,) = node.targets
            if isinstance(target, ast.Name) and target.id == "COMPONENT":
                return _of_class(module, node.value.id)
    return []


def asked(architecture: str) -> tuple[str, ...]:
    """The questions that an architecture asks: all, unless its module names them in `ASKS`."""
    for node in tree(file_of(f"pam.models.architectures.{architecture.replace('-', '_')}")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ASKS":
            return ("architecture", *ast.literal_eval(node.value))
    return QUESTIONS


def check_options(question: str, kind: str, options: Iterable[str]) -> None:
    """Checks the names of options that an answer is given.

    Raises:
        UserError: it has no such option.
    """
    known = options_of(question, kind)
    for name in options:
        if name not in known:
            raise unknown(f"option of {question} `{kind}`", name, known)


def _of_class(module: str, name: str) -> list[str]:
    """Options of a class of a module, be its `__init__` its own or that of a class it extends."""
    body = tree(file_of(module)).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module and name in _imported(node):
            return _of_class(node.module, name)
        if isinstance(node, ast.ClassDef) and node.name == name:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    return _arguments(part)[2:]
            return _of_class(module, next(b.id for b in node.bases if isinstance(b, ast.Name)))
    return []


def _imported(node: ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names]


def _arguments(made: ast.FunctionDef) -> list[str]:
    """Of a component the first two are itself and its sizes, of an architecture's `build` the
    first four are components, network and vocabularies; the others are options."""
    return [argument.arg for argument in (*made.args.args, *made.args.kwonlyargs)]
