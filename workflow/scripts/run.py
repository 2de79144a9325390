"""The front door: runs the workflow on all cores and says where the results are.

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
PLACES = ("--cores", "-c", "--profile", "--jobs", "-j")


def of_experiment(arguments: list[str]) -> dict[str, list[str]]:
    """The options, with their values, that say which experiment Snakemake runs."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", default=[])
    parser.add_argument("--config", "-C", nargs="*", default=[])
    return vars(parser.parse_known_args(arguments)[0])


def page_of(files: list[str], keys: list[str]) -> Path:
    """The page of results of the experiment that the last of these files names, or one of the keys
    `NAME=VALUE`.
    """
    content = read_yaml(files[-1] if files else "config/config.yaml")
    name = content.get("experiment", "") if isinstance(content, dict) else ""
    given = dict(key.partition("=")[::2] for key in keys)
    return Path("results", str(given.get("experiment", name)), "index.html")


def say(message: str) -> None:
    print(f"==> {message}", flush=True)


def modified(path: Path) -> float | None:
    return path.stat().st_mtime if path.is_file() else None


def main(arguments: list[str]) -> int:
    """Runs; the exit code is Snakemake's."""
    write_utf8()
    os.chdir(ROOT)
    chosen = of_experiment(arguments)
    try:
        check_configfiles(chosen["configfile"])
        page = page_of(chosen["configfile"], chosen["config"])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="pam-run-") as folder:
        return run(arguments, chosen, page, Path(folder, "expected.json"))


def run(arguments: list[str], chosen: dict[str, list[str]], page: Path, expected: Path) -> int:
    """Checks, then runs Snakemake, which is told in the file `expected` how long each training will
    take.
    """
    given = [word for option, words in chosen.items() if words for word in (f"--{option}", *words)]
    command = [*CHECK, "--expected", str(expected), *given]
    checked = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8")
    if checked.returncode == 2:  # it has said what is wrong
        return 2
    for line in checked.stdout.splitlines():
        say(line)
    before = modified(page)
    where = [] if any(one.split("=")[0] in PLACES for one in arguments) else ["--cores", "all"]
    # A line for each job (pam.progress); what Snakemake says of them is in its log. A dry run is
    # for reading that.
    environment = (
        os.environ
        if LOUD.intersection(arguments)
        else os.environ | {LINES: "lines", EXPECTED: str(expected)}
    )
    code = subprocess.run([*SNAKEMAKE, *where, *arguments], env=environment).returncode
    if code == 0 and page.is_file() and not DRY.intersection(arguments):
        done = "done" if modified(page) != before else "the page is as it was"
        say(f"{done}: {page}")
        say(f"how it was made, by rule and time: {page.with_name('report.html')}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
