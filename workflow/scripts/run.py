"""The front door: runs the workflow on all cores and says where the report is.

    python workflow/scripts/run.py [arguments of snakemake]

A plain `snakemake --cores all` does the same, but for what is said at the end.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pam.io import UserError, read_yaml  # noqa: E402

SNAKEMAKE = [sys.executable, "-m", "snakemake"]
PLACES = ("--cores", "-c", "--profile", "--jobs", "-j")


def report_of(arguments: list[str]) -> Path:
    """The report of the experiment that `arguments` name."""
    file = "config/config.yaml"
    for place, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option in ("--configfile", "--configfiles"):
            file = value or arguments[place + 1]
    content = read_yaml(file)
    name = content.get("experiment", "") if isinstance(content, dict) else ""
    return Path("results", str(name), "report.html")


def say(message: str) -> None:
    print(f"==> {message}", flush=True)


def modified(path: Path) -> float | None:
    return path.stat().st_mtime if path.is_file() else None


def main(arguments: list[str]) -> int:
    """Runs; the exit code is Snakemake's."""
    os.chdir(ROOT)
    try:
        report = report_of(arguments)
    except (UserError, IndexError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    before = modified(report)
    where = [] if any(one.split("=")[0] in PLACES for one in arguments) else ["--cores", "all"]
    code = subprocess.run([*SNAKEMAKE, *where, *arguments]).returncode
    if code == 0 and report.is_file():
        done = "everything is up to date" if modified(report) == before else "done"
        say(f"{done}: {report}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
