"""`run`: the whole workflow by Snakemake, from addresses to a page of results."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pam.commands import command, option

DRY = {"-n", "--dry-run", "--dryrun"}
LOUD = DRY | {"--verbose"}
# Options that say where jobs run; without any of them, on all cores.
WHERE = {"--cores", "-c", "--profile", "--jobs", "-j"}
# How the shell names a program that Ctrl-C has ended.
INTERRUPTED = 128 + signal.SIGINT


@command(
    "run an experiment with Snakemake, from its data to a page of results; the same command goes"
    " on with a run that was stopped",
    option(
        "targets",
        "a stage (data, train, tables, figures or report) or files to make (default: the page)",
        nargs="*",
        metavar="TARGET",
    ),
    option(
        "--configfile",
        "the experiment, or several files, merged (default: config/config.yaml)",
        nargs="+",
        metavar="FILE",
    ),
    option("--config", "set single keys", nargs="+", metavar="KEY=VALUE"),
    option("--cores", "cores to use (default: all)", metavar="N"),
    option("--profile", "folder with options of Snakemake, such as cluster", metavar="NAME"),
    option("--dry-run", "list the jobs and run none", action="store_true"),
    option(
        "...",
        "all other options of Snakemake: see `snakemake --help`",
        nargs="*",
        metavar="...",
    ),
    examples=[
        "pam run",
        "pam run --configfile mine.yaml",
        "pam run data --configfile mine.yaml",
        "pam run --cores 4 --configfile mine.yaml --config 'seeds=[1, 2, 3]'",
    ],
    passes_on=True,
)
def run(args: argparse.Namespace) -> int:
    from pam.experiments.given import check_configfiles

    options = _of_experiment(args.words)
    check_configfiles(options["configfile"])
    page = _page_of(options["configfile"], options["config"])
    where = _where(args.words)

    with tempfile.TemporaryDirectory(prefix="pam-run-") as folder:
        expected = Path(folder, "expected.json")
        try:
            code = _check(options, where, expected)
        except KeyboardInterrupt:
            return _stopped()
        if code != 0:
            return code
        with _waiting() as interruptions:
            code = _run(args.words, page, expected)

    return _stopped() if interruptions else code


def _stopped() -> int:
    """Say how to go on after Ctrl-C, and return the exit code."""
    sys.stderr.write("stopped; the same command goes on from here\n")
    return INTERRUPTED


def _of_experiment(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the options, with their values, that say which experiment Snakemake runs."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", default=[])
    parser.add_argument("--config", "-C", nargs="*", default=[])
    return vars(parser.parse_known_args(words)[0])


def _where(words: Sequence[str]) -> list[str]:
    """Return the options that tell `pam check` where jobs will run."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--cores", "-c", "--jobs", "-j", default="")
    parser.add_argument("--profile", "--executor", "-e", dest="elsewhere")
    given = parser.parse_known_args(words)[0]
    if given.elsewhere:
        return ["--elsewhere"]
    return ["--cores", given.cores] if given.cores.isdecimal() else []


def _page_of(files: Sequence[str], keys: Sequence[str]) -> Path:
    """Return the page of results of the experiment that is run.

    One of the keys `NAME=VALUE` names it, or the last of the files that does.
    """
    from pam.experiments.yaml import read_yaml
    from pam.runtime.files import find_file
    from pam.workflow.settings import DEFAULT

    name = ""
    for file in files or [str(find_file(DEFAULT))]:
        content = read_yaml(file)
        if isinstance(content, dict):
            name = content.get("experiment", name)
    for key in keys:
        option, _, value = key.partition("=")
        if option == "experiment":
            name = value

    return Path("results", str(name), "index.html")


@contextmanager
def _waiting() -> Iterator[list[int]]:
    """Outlive Ctrl-C, which ends the programs that this process has started, and note it.

    A terminal sends it to them too. Snakemake stops its jobs before it ends.
    """
    interruptions: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interruptions.append(number))
    try:
        yield interruptions
    finally:
        signal.signal(signal.SIGINT, before)


def _say(message: str) -> None:
    """Print a line that is told from those of Snakemake."""
    sys.stdout.write(f"==> {message}\n")
    sys.stdout.flush()


def _modified(path: Path) -> float | None:
    """Return when a file was last written, None if there is none."""
    return path.stat().st_mtime if path.is_file() else None


def _check(options: dict[str, list[str]], where: Sequence[str], expected: Path) -> int:
    """Check the experiment, and return 2 if it cannot run: the check has said why.

    It writes to the file `expected` how long each training will take.
    """
    check = [sys.executable, "-m", "pam", "check", "--brief", "--expected", str(expected), *where]
    for name, values in options.items():
        if values:
            check += [f"--{name}", *values]

    # In a session of its own Ctrl-C does not reach the check, which this process ends itself.
    checked = subprocess.run(
        check, stdout=subprocess.PIPE, encoding="utf-8", check=False, start_new_session=True
    )
    if checked.returncode == 2:
        return 2
    for line in checked.stdout.splitlines():
        _say(line)
    return 0


def _run(words: Sequence[str], page: Path, expected: Path) -> int:
    """Run Snakemake, and return its exit code.

    The file `expected` tells it how long each training will take.
    """
    # A line for each job (pam.experiments.progress); what Snakemake says of them is in its log. A
    # dry run is for reading that.
    environment = dict(os.environ)
    if not LOUD.intersection(words):
        environment |= _lines(expected)

    before = _modified(page)
    code = subprocess.run([*_snakemake(words), *words], env=environment, check=False).returncode

    if code == 0 and page.is_file() and not DRY.intersection(words):
        done = "done" if _modified(page) != before else "the page is as it was"
        _say(f"{done}: {page}")
        _say(f"how it was made, by rule and time: {page.with_name('report.html')}")

    return code


def _lines(expected: Path) -> dict[str, str]:
    """Return what in the environment asks for a line for each job."""
    from pam.experiments.progress import EXPECTED, LINES

    return {LINES: "lines", EXPECTED: str(expected)}


def _snakemake(words: Sequence[str]) -> list[str]:
    """Return the call of Snakemake before the words that were given: on all cores, of our workflow.

    In the folder of a checkout Snakemake finds workflow and profile itself.
    """
    from pam.runtime.files import SHIPPED

    given = {word.split("=")[0] for word in words}
    given |= {word[:2] for word in words if not word.startswith("--")}  # as in -c4
    call = [sys.executable, "-m", "snakemake"]
    if Path.cwd() != SHIPPED:
        if not given & {"--snakefile", "-s"}:
            call += ["--snakefile", str(SHIPPED / "workflow/Snakefile")]
        if "--workflow-profile" not in given:
            call += ["--workflow-profile", str(SHIPPED / "profiles/default")]
    if not given & WHERE:
        call += ["--cores", "all"]
    return call
