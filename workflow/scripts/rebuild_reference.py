"""Make comparisons and figures of stored experiments again, from their archives.

    python workflow/scripts/rebuild_reference.py                                  # all of them
    python workflow/scripts/rebuild_reference.py results/reference/table2 --draw gains cost

Neither data nor training is needed. Call it when the rule of verdicts or of intervals changes, or
how figures are drawn. Two things are no part of an archive and stay as they are stored: p by
sacreBLEU, and rows of no model, such as the first sentences of a text, whose gains get no interval.
A table of fewer runs than the archive has is left alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pam.reporting import figures, render, tables
from pam.reporting.catalogue import DRAWINGS, TABLES, kind_of, load_papers
from pam.reporting.comparison import Inputs
from pam.reporting.items import TableSpec
from pam.reporting.reference import ARCHIVE, EXPERIMENT, unpacked
from pam.reporting.runs import load_experiment
from pam.reporting.stored_tables import tested_by_sacrebleu, with_controls
from pam.runtime.files import scratch_folder, write_text
from pam.workflow.stored import StoredRuns

PAPERS = Path("config/paper_results.yaml")
STORED = Path("results/reference")
REBUILT = ("comparison", "gains", "attentions", "overhead")


def main() -> int:
    """Make again what the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "stored",
        type=Path,
        nargs="*",
        help=f"folders with an archive (default: all in {STORED})",
    )
    parser.add_argument(
        "--draw",
        nargs="*",
        choices=list(DRAWINGS),
        default=list(DRAWINGS),
        metavar="KIND",
        help="kinds of figures to draw again (default: all)",
    )
    parser.add_argument("--no-tables", action="store_true", help="leave the tables as they are")
    arguments = parser.parse_args()

    folders = arguments.stored or [path.parent for path in sorted(STORED.glob(f"*/{ARCHIVE}"))]
    for stored in folders:
        if not arguments.no_tables:
            with unpacked(stored) as runs:
                for page in sorted((stored / "tables").glob("*.md")):
                    if spec_of(page).builder in REBUILT:
                        print(page, rebuild(page, stored, runs), flush=True)

        if not arguments.draw:
            continue
        with scratch_folder() as results:
            restored = StoredRuns(stored, results)
            for picture in sorted((stored / "figures").glob("*.svg")):
                if kind_of(picture.stem) in arguments.draw:
                    print(picture, draw(picture, restored), flush=True)

    return 0


def spec_of(page: Path) -> TableSpec:
    """Return the entry of the catalogue for a stored table, by its name."""
    return TABLES.get(page.stem) or TABLES[page.stem.removesuffix("_gains")]


def rebuild(page: Path, stored: Path, runs: Path) -> str:
    """Write a table again, as CSV and Markdown, and say so."""
    before = render.read_csv(page.with_suffix(".csv"))
    spec = spec_of(page)
    experiment = load_experiment(stored / EXPERIMENT)
    file = spec.files["scores"].removeprefix("{run}/")
    scores: list[Path] = []
    for task in dict.fromkeys(before["task"]):
        scores += sorted(runs.glob(f"{task}/*/seed*/{file}"))

    more: dict[str, list[Path]] = {}
    if spec.builder == "attentions":
        more["gold_scores"] = sorted(runs.glob("*/*/seed*/gold_scores.json"))
        more["analyses"] = sorted(runs.glob("*/*/seed*/analysis.json"))
        if 0 < len(more["analyses"]) < len(scores):
            return "left alone: some analyses are missing"

    with TemporaryDirectory() as folder:
        if "p_sacrebleu" in before:
            files = Path(folder, "{task}-{seed}.json")
            more["significance"] = tested_by_sacrebleu(before, experiment.baseline, files)
        inputs = Inputs(experiment, load_papers(PAPERS), scores, **more)
        table = with_controls(tables.build(page.stem, inputs), before, page)

    write_text(page, render.to_markdown(table))
    write_text(page.with_suffix(".csv"), render.to_csv(table))
    return "made again"


def draw(picture: Path, restored: StoredRuns) -> str:
    """Draw a figure again, as SVG and PNG, and say so."""
    options = restored.figure_options(picture.stem)
    if not options:
        return "left alone: not all of its files are stored"

    with TemporaryDirectory() as folder:
        out = Path(folder) / picture.name
        figures.write(kind_of(picture.stem), [*options, "--out", str(out)])
        for path in (out, out.with_suffix(".png")):
            picture.with_suffix(path.suffix).write_bytes(path.read_bytes())

    return "drawn again"


if __name__ == "__main__":
    sys.exit(main())
