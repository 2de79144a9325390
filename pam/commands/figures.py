"""`figures`: one figure, as SVG and PNG."""

from __future__ import annotations

import argparse

HELP = "draw one figure, as SVG and PNG"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", help="quality, curves, attention and others; a wrong one names all")
    # Read later, by the kind: importing all that draws would slow down every command.
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="options; `KIND --help` lists them")


def run(args: argparse.Namespace) -> int:
    from pam.reporting.figures import draw

    draw.write(args.kind, args.rest, f"python -m pam figures {args.kind}")
    return 0
