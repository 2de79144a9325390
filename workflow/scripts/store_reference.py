"""Store what an experiment measured under results/reference/, small enough to be tracked.

    python workflow/scripts/store_reference.py results/paper results/reference/paper \
        --command 'snakemake ...' --commit COMMIT

Weights are not stored, and neither is text of data whose license does not let it pass on.
restore_reference.py is the way back.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.reporting.reference import store
from pam.runtime.errors import UserError
from pam.runtime.messages import write_utf8


def main() -> int:
    """Store what the command line names, and return the exit code."""
    write_utf8()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of an experiment that has run")
    parser.add_argument("out", type=Path, help="folder under results/reference/")
    parser.add_argument("--command", required=True, help="the command that made the results")
    parser.add_argument("--commit", required=True, help="the commit whose code made them")
    args = parser.parse_args()

    try:
        store(args.results, args.out, args.command, args.commit)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    return 0


if __name__ == "__main__":
    sys.exit(main())
