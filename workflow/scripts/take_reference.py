"""Puts what is kept under results/reference/ among a run's results, which goes on from there.

    snakemake --cores all data --configfile config/attentions.yaml
    python workflow/scripts/take_reference.py results/reference/attentions results/attentions \
        --configfile config/attentions.yaml
    snakemake --cores all --configfile config/attentions.yaml

A run is taken if the configuration has the same recipe for it; the others are trained by the run.
So a model, a seed or a table can be added without training all the rest again. Weights are not
kept: what needs them, such as an ensemble or a heat map of another model, has its models trained.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pam.experiment import load_plan
from pam.io import UserError
from pam.reporting.reference import Name, take


def listed(names: list[Name]) -> str:
    return "".join(f"\n  {task}/{model}/seed{seed}" for task, model, seed in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kept", type=Path, help="folder under results/reference/")
    parser.add_argument("results", type=Path, help="folder of the run's results")
    parser.add_argument("--configfile", type=Path, required=True, help="its configuration")
    args = parser.parse_args()
    try:
        found = take(args.kept, args.results, load_plan(files=[args.configfile]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(found.taken)} runs taken, {len(found.there)} there already")
    print(f"{len(found.missing)} not kept, to be trained{listed(found.missing)}")
    print(f"{len(found.other)} configured otherwise, to be trained{listed(found.other)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
