"""Restores runs from results/reference/ into an experiment's results, which goes on from there.

    snakemake --cores all data --configfile FILE
    python workflow/scripts/restore_reference.py results/reference/NAME results/NAME \
        --configfile FILE
    snakemake --cores all --configfile FILE

A run is restored if its data and its training configuration are those of FILE, whatever the
experiment is called; the others are trained. So a model, a seed or a table can be added without
training all the rest again. Weights are not stored:
what needs them, such as an ensemble or a heat map of another model, has its models trained.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.experiment import load_plan
from pam.io import UserError
from pam.reporting.reference import Name, restore, run_path


def listed(names: list[Name]) -> str:
    return "".join(f"\n  {run_path(name)}" for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stored", type=Path, help="folder under results/reference/")
    parser.add_argument("results", type=Path, help="folder of the experiment's results")
    parser.add_argument("--configfile", type=Path, required=True, help="its configuration")
    args = parser.parse_args()
    try:
        found = restore(args.stored, args.results, load_plan(files=[args.configfile]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(found.restored)} runs restored, {len(found.present)} already there")
    print(f"{len(found.missing)} not stored, to be trained{listed(found.missing)}")
    print(f"{len(found.differing)} configured otherwise, to be trained{listed(found.differing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
