"""`tables` and `figures`: what all runs of an experiment show."""

from __future__ import annotations

import argparse
from pathlib import Path

from pam.commands import Command

PAPER = Path("config/paper_results.yaml")


def add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        required=True,
        metavar="NAME",
        help="table1, table2, attentions, examples, costs, ...: a wrong name is answered with all",
    )
    parser.add_argument("--experiment", type=Path, required=True, help="the experiment's configuration (YAML)")
    for option, what in (
        ("--scores", "scores.json of every run; for table3, gold_scores.json"),
        ("--predictions", "for examples: predictions.tsv of every run, in its folder beam<k>"),
        ("--significance", "what the command of that name wrote"),
        ("--gold-scores", "for attentions: gold_scores.json of runs"),
        ("--analyses", "for attentions: analysis.json of runs"),
    ):
        parser.add_argument(option, type=Path, nargs="+", default=(), help=what)
    parser.add_argument("--paper", type=Path, default=PAPER, help="the papers' figures (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="folder; files are <table>.csv, ...")


def run_tables(args: argparse.Namespace) -> int:
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


def add_figures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", help="quality, gains, ...: a wrong one is answered with all")
    # Read later, by the module of that kind: importing all of them would slow down every command.
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="options; `KIND --help` lists them")


def run_figures(args: argparse.Namespace) -> int:
    from pam.reporting import figures

    figures.write(args.kind, args.rest, f"python -m pam figures {args.kind}")
    return 0


TABLES = Command("make a table of an experiment: CSV, Markdown, LaTeX, HTML", add_tables, run_tables)
FIGURES = Command("draw one figure, as SVG and PNG", add_figures, run_figures)
