"""`tables`: scores of all cells to one table in four formats."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "make a table from the scores of an experiment's cells: CSV, Markdown, LaTeX, HTML"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        required=True,
        metavar="NAME",
        help="table2, table2_paradigms, either with _gains, costs, environment",
    )
    parser.add_argument(
        "--experiment", type=Path, required=True, help="the experiment's configuration (YAML)"
    )
    parser.add_argument(
        "--scores", type=Path, nargs="+", required=True, help="scores.json of every cell"
    )
    parser.add_argument(
        "--paper",
        type=Path,
        default=Path("config/paper_figures.yaml"),
        help="the papers' figures (%(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder; files are <table>.csv, ..."
    )


def run(args: argparse.Namespace) -> int:
    from pam.reporting import cells, paper, tables, typeset

    experiment = cells.load_experiment(args.experiment)
    sheet = tables.build(
        args.table,
        cells.load_cells(args.scores, experiment),
        experiment,
        paper.load(args.paper),
    )
    typeset.write(sheet, args.out, args.table)
    return 0
