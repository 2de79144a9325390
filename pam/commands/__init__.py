"""The commands of `pam`: options, checks of options, and a call of the package behind.

What decides a result is in the packages, not here, so that a new option runs nothing again.
Imports that take long, of torch above all, are inside the functions that need them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Option = tuple[str, dict[str, Any]]  # an option's name, and the rest of what argparse takes
WRITES = "writes"  # in an option's settings: the command writes the file


@dataclass(frozen=True)
class Command:
    """One command: its help in one line, the function that returns the exit code, its options.

    `examples` are calls of it. `passes_on` says that its words are handed to another program: its
    options are there for the help alone, and `words` has what was given.
    """

    help: str
    run: Callable[[argparse.Namespace], int]
    options: tuple[Option | list[Option], ...]
    examples: Sequence[str]
    passes_on: bool

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        for option in self.options:
            if isinstance(option, list):
                group = parser.add_mutually_exclusive_group()
                for name, settings in option:
                    group.add_argument(name, **_of_argparse(settings))
            else:
                name, settings = option
                parser.add_argument(name, **_of_argparse(settings))

        parser.set_defaults(call=self.call)

    def call(self, args: argparse.Namespace) -> int:
        """Run the command, once it is clear that the files that it writes can be written.

        A UserError says that one cannot, or that it is another file that the command writes or
        reads.
        """
        from pam.runtime.errors import UserError
        from pam.runtime.files import are_one, check_place

        files = list(self._files(args))
        for number, (name, path, is_written) in enumerate(files):
            if not is_written:
                continue
            check_place(path)
            for other, other_path, is_written_too in files[:number] + files[number + 1 :]:
                if are_one(path, other_path):
                    what = "write the same file" if is_written_too else "are the same file"
                    raise UserError(f"{name} and {other} {what}", file=path, hint="name another")
        return self.run(args)

    def _files(self, args: argparse.Namespace) -> Iterator[tuple[str, Path, bool]]:
        """Yield the files that are named: the option, the path, and whether it is written."""
        for option in self.options:
            for name, settings in option if isinstance(option, list) else [option]:
                if settings.get("type") is not Path:
                    continue
                named = getattr(args, settings.get("dest", name.lstrip("-").replace("-", "_")))
                for path in named if isinstance(named, list) else [named]:
                    if path is not None:
                        yield name, Path(path), WRITES in settings


def _of_argparse(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != WRITES}


def command(
    help: str,  # noqa: A002 -- argparse's name
    *options: Option | list[Option],
    examples: Sequence[str],
    passes_on: bool = False,
) -> Callable[[Callable[[argparse.Namespace], int]], Command]:
    """Make a command of the function below it. Of the options in a list only one may be given."""
    return lambda run: Command(help, run, options, examples, passes_on)


# `help` is argparse's name (A002).
def option(name: str, help: str | None = None, **settings: Any) -> Option:  # noqa: A002
    """Declare an option, with the arguments of argparse."""
    return name, {"help": help, **settings}


def path(name: str, help: str, metavar: str = "FILE", **settings: Any) -> Option:  # noqa: A002
    """Declare an option that names a file."""
    return option(name, help, type=Path, metavar=metavar, **settings)


def output(name: str, help: str, **settings: Any) -> Option:  # noqa: A002
    """Declare an option that names a file that the command writes."""
    return path(name, help, **settings, writes=True)


def folder(name: str, help: str, **settings: Any) -> Option:  # noqa: A002
    """Declare an option that names a folder."""
    return path(name, help, "DIR", **settings)


def run_with(files: str, required: bool = True) -> Option:
    """Declare the option that names a run, whose folder has `files`."""
    return folder(
        "--run",
        f"folder of a run, results/EXPERIMENT/TASK/MODEL/seedK, with {files}",
        required=required,
    )


def import_plugins(args: argparse.Namespace) -> None:
    """Import the modules that `PLUGIN` names."""
    from pam.experiments.keys import import_plugin

    for module in args.plugin or ():
        import_plugin(module)


PLUGIN = option(
    "--plugin",
    "your own module to import, which adds a kind of task; may be repeated",
    action="append",
    metavar="MODULE",
)
CONFIG = option("--config", "the run's configuration (default: its run.yaml)", metavar="YAML")
SPLITS = ("train", "dev", "test")
DATA = folder("--data", "prepared data (default: the data of the run's task)")
DEVICE = option("--device", choices=("auto", "cpu", "cuda"), default="auto")
