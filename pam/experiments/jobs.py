"""What jobs of the workflow run in: their environment, their log, and GPUs of their own.

`python -m pam.experiments.jobs cuda COMMAND ...` runs a command on a GPU of its own. Several jobs
on one machine, of one run or of many, each take as many free GPUs as they want and hold them by
locks (`pam.runtime.gpus`). The command is this process, which has the locks, so the kernel frees
the GPUs when the command ends, however it ends. Where a scheduler has given this job its GPUs
already, only those are looked at; where there is no GPU the command runs as it is, and after `cpu`
in place of `cuda`, or if it wants none, it sees none.
"""

from __future__ import annotations

import argparse
import getpass
import os
import runpy
import sys

from pam.runtime.errors import UserError
from pam.runtime.gpus import SHARING, VISIBLE, take_gpus, visible

# Before each rule's command, for Snakemake's `shell.prefix`: `logged FILE COMMAND ...`. The lock is
# that of `pam.runtime.job_lock`; the shell and the command hold it until both have ended. A command
# that fails shows the end of its log, unless Ctrl-C has stopped it. A log on a full disk may hold
# none: the `echo` fails then too, and bash says why.
LOGGED = """
logged() {
  local log="$1" lock=".snakemake/runs/jobs/$1"
  shift
  mkdir -p "${lock%/*}" && exec {held}>>"$lock" || return 1
  python -Sm pam.runtime.job_lock "$held" "$log" || return 1
  "$@" >>"$log" 2>&1 || {
    [ $? = 130 ] || tail -n 20 "$log" >&2
    echo >>"$log"
    return 1
  }
}
""".replace("{", "{{").replace("}", "}}")


def set_environment(basedir: str, mirror: str | None, jobs_per_gpu: int) -> None:
    """Let jobs use the Python that runs Snakemake, this package, the mirror, and shared GPUs.

    Raises:
        UserError: jobs, which call `python`, would not find it.
    """
    name_user()
    os.environ[SHARING] = str(jobs_per_gpu)
    folder = os.path.dirname(sys.executable)
    python = os.path.join(folder, "python")
    if not (os.path.exists(python) and os.path.samefile(python, sys.executable)):
        problem = f"jobs call `python`, and {folder} has none that is {sys.executable}"
        hint = f"use a virtual environment: {sys.executable} -m venv .venv"
        raise UserError(problem, hint=hint)

    for name, first in (("PATH", folder), ("PYTHONPATH", basedir)):
        os.environ[name] = os.pathsep.join(filter(None, [first, os.environ.get(name)]))
    if mirror:
        os.environ["PAM_MIRROR"] = mirror


def name_user() -> None:
    """Give a user who has a number and no name, as in some containers, a name.

    Snakemake asks for it, after it has read the workflow, and fails without one.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = f"user{os.getuid()}"


def main(device: str, command: list[str], gpus: int = 1) -> None:
    """Make this process `command`, with `gpus` GPUs of its own where there are any."""
    if device == "cpu" or gpus == 0:
        os.environ[VISIBLE] = ""
    elif devices := visible():
        if len(devices) < gpus:
            hint = "  hint: lower `resources.processes`, or set `device: cpu`"
            sys.exit(
                f"error: {gpus} GPUs are needed, but this job may use only {len(devices)}\n{hint}"
            )

        sharing = int(os.environ.get(SHARING, "1"))
        os.environ[VISIBLE] = ",".join(take_gpus(devices, gpus, sharing=sharing))

    if command[:3] == ["python", "-m", "pam"]:
        # In this process, as another Python would take 0.15 s to come as far as this one.
        sys.argv = ["pam", *command[3:]]
        runpy.run_module("pam", run_name="__main__", alter_sys=True)

    os.execvp(command[0], command)  # noqa: S606 -- a list of arguments, no shell


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m pam.experiments.jobs", description=__doc__)
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="how many it wants")
    parser.add_argument("device", choices=("auto", "cpu", "cuda"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("a command is missing")
    main(arguments.device, arguments.command, arguments.gpus)
