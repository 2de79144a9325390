r"""Print and draw the attention of a trained model while it writes one sentence.

    run=results/quick/cldr-de-en/prox-postr-joint/seed1
    python examples/look_at_attention.py $run 'In Peru leben 30 Millionen Menschen.' --out look.png
    python examples/look_at_attention.py results/quick/de-noun/soft/seed1
    $'Haus\tcase=dative,number=plural'

`make run` makes both runs. Without `--target`, the model's own output is shown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt

import pam
from pam.runtime.errors import UserError

TOP = 3  # source symbols printed for each target symbol


def look(name: str, source: str, target: str | None = None) -> pam.AttentionMap:
    """Return the attention of a model on a source, written as the command `predict` takes it.

    Args:
        name: a run's folder, an exported file, or `pretrained:NAME`.
        target: a translation or a form; None: the model's own output.

    Raises:
        UserError: there is no such model, or a text is none for it.
    """
    model = pam.load(name)
    unseen = model.unseen(source)
    if unseen:
        print(f"not seen in training: {' '.join(unseen)}", file=sys.stderr)

    return model.attention(source, target)


def weights(attention: pam.AttentionMap, which: str) -> pd.DataFrame:
    """Return one kind of attention as a table.

    It has a row for each target symbol and a column for each source symbol.
    """
    table = pd.DataFrame(getattr(attention, which), columns=attention.source)
    table.insert(0, "target", attention.target)
    return table


def most_attended(row: pd.Series) -> str:
    """Name the source symbols with the largest weights of a row, with percent."""
    # The first cell is the target symbol.
    table = row.iloc[1:].astype(float).reset_index().set_axis(["symbol", "weight"], axis=1)
    largest = table.nlargest(TOP, "weight").itertuples(index=False)
    return ", ".join(f"{symbol} {100 * weight:.0f}" for symbol, weight in largest)


def print_table(attention: pam.AttentionMap) -> None:
    """Print, for each target symbol, the source symbols that it attends to most."""
    columns = {
        "": attention.target,
        "fed to the next state": weights(attention, "alignment").apply(most_attended, axis=1),
        "before the symbol is seen": weights(attention, "prior").apply(most_attended, axis=1),
    }
    lines = pd.DataFrame(columns)

    width = lines.iloc[:, 1].str.len().max()
    print(f"{'':8}  {'fed to the next state':{width}}  before the symbol is seen")
    for symbol, fed, prior in lines.itertuples(index=False):
        print(f"{symbol:8}  {fed:{width}}  {prior}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model", help="folder of a trained run, an exported file, or pretrained:NAME"
    )
    parser.add_argument("source", help="a sentence; or a lemma, a tab and features")
    parser.add_argument("--target", help="a translation, or a form (default: the model's output)")
    parser.add_argument(
        "--out", type=Path, help="draw a heat map, .svg and .png, its weights as .csv"
    )
    args = parser.parse_args(arguments)

    try:
        attention = look(args.model, args.source, args.target)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    print_table(attention)
    if args.out is not None:
        figure, axes = plt.subplots(layout="constrained")
        attention.plot(axes)
        for suffix in (".svg", ".png"):
            figure.savefig(args.out.with_suffix(suffix))
        plt.close(figure)
        weights(attention, "alignment").to_csv(args.out.with_suffix(".csv"), index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
