"""`tables`: what was measured of all runs to one table in four formats."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "make a table of an experiment: CSV, Markdown, LaTeX, HTML"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        required=True,
        metavar="NAME",
        help="table1, table2, attentions, examples, costs and others: a wrong name is answered with all",
    )
    parser.add_argument(
        "--experiment", type=Path, required=True, help="the experiment's configuration (YAML)"
    )
    parser.add_argument(
        "--scores",
        type=Path,
        nargs="+",
        default=(),
        help="scores.json of every run; for table3, gold_scores.json",
    )
    parser.add_argument(
        "--predictions",
        type=Path,
        nargs="+",
        default=(),
        help="for examples: predictions.tsv of every run, in its folder beam<k>",
    )
    parser.add_argument(
        "--significance", type=Path, nargs="+", default=(), help="what `significance` wrote"
    )
    parser.add_argument(
        "--gold-scores",
        type=Path,
        nargs="+",
        default=(),
        help="for attentions: gold_scores.json of runs",
    )
    parser.add_argument(
        "--analyses", type=Path, nargs="+", default=(), help="for attentions: analysis.json of runs"
    )
    parser.add_argument(
        "--paper",
        type=Path,
        default=Path("config/paper_results.yaml"),
        help="the papers' results (%(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder; files are <table>.csv, ..."
    )


def run(args: argparse.Namespace) -> int:
    from pam.reporting import comparison, render, runs, tables

    inputs = tables.Inputs(
        experiment=runs.load_experiment(args.experiment),
        papers=comparison.load_papers(args.paper),
        scores=args.scores,
        predictions=args.predictions,
        significance=args.significance,
        gold_scores=args.gold_scores,
        analyses=args.analyses,
    )
    render.write(tables.build(args.table, inputs), args.out, args.table)
    return 0
