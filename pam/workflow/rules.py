"""How rules call Python: errors that end the process, input functions, folders of files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pam.runtime.errors import UserError, storage_error
from pam.runtime.messages import write_utf8

Wildcards = Any  # Snakemake's: the names in a rule's pattern as attributes, all strings
Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def or_exit(function: Callable[..., Returned], *arguments: Any) -> Returned:
    """Return what `function` returns; a UserError ends the process with its message.

    Snakemake would print a traceback around it.
    """
    write_utf8()
    try:
        return function(*arguments)
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        worded = storage_error(error, error.filename or "a file")
        if not isinstance(worded, UserError):
            raise
        sys.exit(f"error: {worded}")


def per_job(
    method: Callable[Concatenate[Owner, Wildcards, Arguments], Returned],
) -> Callable[Concatenate[Owner, Arguments], Callable[[Wildcards], Returned]]:
    """Let a rule call a method without wildcards, which gives an input function.

    Snakemake calls the input function with the wildcards of each job.
    """

    @wraps(method)
    def in_rule(
        self: Owner, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Callable[[Wildcards], Returned]:
        return lambda wildcards: method(self, wildcards, *arguments, **named)

    return in_rule


def untracked(
    function: Callable[[Wildcards], Returned],
) -> Callable[[Wildcards, Any], Returned]:
    """Make a parameter of a rule no reason to run a job again when it changes.

    It takes the output as well, so that Snakemake holds the parameter for derived from that.
    """
    return lambda wildcards, output: function(wildcards)


def _folder_of(files: str | Sequence[str]) -> str:
    """Return the folder of a file, or of the first of several, wherever they are kept."""
    return os.path.dirname(files if isinstance(files, str) else files[0])


# Snakemake finds the arguments of a parameter's function by their names: `input`, `output`.


def output_folder(name: str) -> Callable[[Wildcards, Any], str]:
    """Make a rule's parameter: the folder of the first output of this name."""
    return lambda wildcards, output: _folder_of(output.get(name))


def input_folder(name: str, above: bool = False) -> Callable[[Wildcards, Any], str]:
    """Make a rule's parameter: the folder of the first input of this name, or the one above it."""

    def folder(wildcards: Wildcards, input: Any) -> str:  # noqa: A002
        path = _folder_of(input.get(name))
        return os.path.dirname(path) if above else path

    return folder


def input_folders(name: str, file: str) -> Callable[[Wildcards, Any], list[str]]:
    """Make a rule's parameter: the folders of all inputs of this name, each by one `file` in it."""

    def folders(wildcards: Wildcards, input: Any) -> list[str]:  # noqa: A002
        files = [path for path in input.get(name) if os.path.basename(path) == file]
        return [os.path.dirname(path) for path in files]

    return folders
