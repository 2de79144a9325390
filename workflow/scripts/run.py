"""The front door: run the workflow on all cores and say where the results are.

    python workflow/scripts/run.py [arguments of snakemake]

A plain `snakemake --cores all` does the same, but for what is said before (`python -m pam check`)
and at the end.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pam.io import UserError, check_configfiles, read_yaml, write_utf8  # noqa: E402
from pam.progress import EXPECTED, LINES  # noqa: E402

CHECK = [sys.executable, "-m", "pam", "check", "--brief"]
SNAKEMAKE = [sys.executable, "-m", "snakemake"]
DRY = {"-n", "--dry-run", "--dryrun"}
LOUD = DRY | {"--verbose"}
# Options that say where jobs run; without any of them, on all cores.
WHERE = ("--cores", "-c", "--profile", "--jobs", "-j")


def of_experiment(arguments: list[str]) -> dict[str, list[str]]:
    """Return the options, with their values, that say which experiment Snakemake runs."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", default=[])
    parser.add_argument("--config", "-C", nargs="*", default=[])
    return vars(parser.parse_known_args(arguments)[0])


def page_of(files: list[str], keys: list[str]) -> Path:
    """Return the page of results of the experiment that is run.

    One of the keys `NAME=VALUE` names it, or the last of the files.
    """
    content = read_yaml(files[-1] if files else "config/config.yaml")
    name = content.get("experiment", "") if isinstance(content, dict) else ""
    for key in keys:
        option, _, value = key.partition("=")
        if option == "experiment":
            name = value

    return Path("results", str(name), "index.html")


def say(message: str) -> None:
    """Print a line that is told from those of Snakemake."""
    print(f"==> {message}", flush=True)


def modified(path: Path) -> float | None:
    """Return when a file was last written, None if there is none."""
    return path.stat().st_mtime if path.is_file() else None


def main(arguments: list[str]) -> int:
    """Run the workflow; the exit code is Snakemake's."""
    write_utf8()
    os.chdir(ROOT)
    options = of_experiment(arguments)

    try:
        check_configfiles(options["configfile"])
        page = page_of(options["configfile"], options["config"])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    with tempfile.TemporaryDirectory(prefix="pam-run-") as folder:
        return run(arguments, options, page, Path(folder, "expected.json"))


def run(arguments: list[str], options: dict[str, list[str]], page: Path, expected: Path) -> int:
    """Check, then run Snakemake, and return its exit code.

    The file `expected` tells it how long each training will take.
    """
    command = [*CHECK, "--expected", str(expected)]
    for option, words in options.items():
        if words:
            command += [f"--{option}", *words]

    checked = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8")
    if checked.returncode == 2:  # it has said what is wrong
        return 2

    for line in checked.stdout.splitlines():
        say(line)

    before = modified(page)
    command = [*SNAKEMAKE, *arguments]
    if not any(word.split("=")[0] in WHERE for word in arguments):
        command = [*SNAKEMAKE, "--cores", "all", *arguments]

    # A line for each job (pam.progress); what Snakemake says of them is in its log. A dry run is
    # for reading that.
    environment = dict(os.environ)
    if not LOUD.intersection(arguments):
        environment |= {LINES: "lines", EXPECTED: str(expected)}

    code = subprocess.run(command, env=environment).returncode

    if code == 0 and page.is_file() and not DRY.intersection(arguments):
        done = "done" if modified(page) != before else "the page is as it was"
        say(f"{done}: {page}")
        say(f"how it was made, by rule and time: {page.with_name('report.html')}")

    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
