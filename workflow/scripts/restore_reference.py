"""Restore runs from results/reference/ into an experiment's results, which goes on from there.

    pam run data --configfile FILE
    python workflow/scripts/restore_reference.py results/reference/NAME results/NAME \
        --configfile FILE
    pam run --configfile FILE

A run is restored if its data and its training configuration are those of FILE, whatever the
experiment is called; the others are trained. So a model, a seed or a table can be added without
training all the rest again. Weights are not stored, and neither are texts of some data. Tables and
figures that need them are left out of the page, and named here. Whoever asks Snakemake for one by
name has its models trained.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.experiments.check import check_experiment
from pam.experiments.restored import Name
from pam.reporting.reference import Outcome, restore, run_path
from pam.runtime.errors import UserError
from pam.runtime.messages import write_utf8
from pam.workflow import ReportFiles, WorkflowFiles


def listed(names: list[Name]) -> str:
    """Return the paths of runs, one a line."""
    return "".join(f"\n  {run_path(name)}" for name in names)


def report(outcome: Outcome, report_files: ReportFiles) -> None:
    """Say which runs were restored, which are trained, and what the page leaves out."""
    print(f"{len(outcome.restored)} runs restored, {len(outcome.present)} already there")
    print(f"{len(outcome.missing)} to be trained, as they are not stored{listed(outcome.missing)}")
    print(
        f"{len(outcome.differing)} to be trained, as their configuration"
        f" differs{listed(outcome.differing)}"
    )

    if outcome.again:
        print(
            f"{len(outcome.again)} to be trained again, as other models start from their"
            f" weights{listed(outcome.again)}"
        )

    texts = report_files.left_out_texts()
    if texts:
        print("Weights are not stored. Therefore the page lacks all or a part of:")
        print("".join(f"  {text}\n" for text in texts), end="")
        print(
            "Ask Snakemake for such a file by name: it then makes the file and trains the runs that"
            " the file needs."
        )


def main() -> int:
    """Restore what the command line names, and return the exit code."""
    write_utf8()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stored", type=Path, help="folder under results/reference/")
    parser.add_argument("results", type=Path, help="folder of the experiment's results")
    parser.add_argument("--configfile", type=Path, required=True, help="its configuration")
    args = parser.parse_args()

    try:
        plan, datasets = check_experiment(None, [str(args.configfile)])
        files = WorkflowFiles(plan, datasets, args.results)
        outcome = restore(args.stored, args.results, plan)
        report(outcome, ReportFiles(plan, files))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    return 0


if __name__ == "__main__":
    sys.exit(main())
