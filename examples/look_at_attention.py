r"""What a trained model looks at while it writes: prints and draws the attention of one sentence.

    run=results/quick/cldr-de-en/prox-postr-joint/seed1
    python examples/look_at_attention.py $run 'In Peru leben 30 Millionen Menschen.' --out look.png
    python examples/look_at_attention.py results/quick/de-noun/soft/seed1 $'Haus\tcase=dative,number=plural'

Both runs are there after `make run`. Without `--target`, it is the model's own output that is looked at.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from pam.data.vocabulary import ended
from pam.decoding.generator import Generator
from pam.evaluation.analyze import load_writer_of_symbols
from pam.io import UserError
from pam.reporting import style
from pam.run_folder import RunFolder

END = "</s>"
TOP = 3  # source symbols printed for each target symbol
INCHES = 0.3  # of a row of the drawing


@dataclass(frozen=True)
class Look:
    """n target symbols, the end symbol included, and m source symbols; attention is (n, m), each row a distribution."""

    label: str
    source: list[str]
    target: list[str]
    prior: Tensor  # before the target symbol is seen
    alignment: Tensor  # what is fed to the next state: of Postr-Joint, the posterior


@torch.no_grad()
def look(run: Path, line: str, target: str | None = None) -> Look:
    """The attention of a trained run on a source, written as the command `predict` takes it.

    `target` has words, or the letters of a form; None: the model's output. A UserError says what is wrong with either.
    """
    folder = RunFolder(run).model
    model = load_writer_of_symbols(folder)
    source = model.codec.source_symbols(model.codec.typed_source(line))
    generator = Generator(model, folder, model.run.decoding)
    if unseen := generator.unseen(source):
        print(f"not seen in training: {' '.join(unseen)}", file=sys.stderr)
    if target is None:
        target = generator([source])[0][0].target
    written = model.codec.target_symbols(target)
    source_ids = model.read(source)[None]
    target_ids = torch.tensor([ended(model.target.encode(written))])
    forced = model.network.teacher_force(source_ids, torch.tensor([source_ids.shape[1]]), target_ids)
    attended = source + [END] * model.source_eos
    return Look(model.run.label, attended, [*written, END], forced.prior[0], forced.alignment[0])


def table(found: Look) -> str:
    """For each target symbol the source symbols that it attends to most, with percent."""
    rows = [("", "fed to the next state", "before the symbol is seen")]
    for symbol, fed, prior in zip(found.target, found.alignment, found.prior, strict=True):
        rows.append((symbol, _most(fed, found.source), _most(prior, found.source)))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{one:{widths[0]}}  {two:{widths[1]}}  {three}" for one, two, three in rows)


def _most(weights: Tensor, source: list[str]) -> str:
    best = weights.topk(min(TOP, len(source)))
    pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return ", ".join(f"{source[place]} {100 * weight:.0f}" for weight, place in pairs)


def draw(found: Look, out: Path) -> None:
    """A heat map, `.svg` and `.png`, its weights as `.csv`: source symbols downwards, target symbols to the right."""
    with style.styled():
        figure, (axes,) = style.panels(1, 1, 1.5 + INCHES * len(found.source))
        axes.imshow(found.alignment.T, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="none")
        axes.set_xticks(range(len(found.target)), found.target, rotation=90)
        axes.set_yticks(range(len(found.source)), found.source)
        axes.grid(visible=False)
        axes.set_title(found.label)
        weights = pd.DataFrame(found.alignment.numpy(), columns=found.source)
        weights.insert(0, "target", found.target)
        style.save(style.Drawing(figure, weights), out)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument("source", help="a sentence; or a lemma, a tab and features")
    parser.add_argument("--target", help="a translation in words, or a form (default: the model's output)")
    parser.add_argument("--out", type=Path, help="draw a heat map, .svg and .png, its weights as .csv")
    args = parser.parse_args(arguments)
    try:
        found = look(args.run, args.source, args.target)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(found))
    if args.out is not None:
        draw(found, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
