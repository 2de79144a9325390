"""Outputs for a file of sources, a line each, and what was attended to when they were written."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from pam.data.readers import Line, lines_of
from pam.data.vocabulary import ended
from pam.decoding.generator import HINT, Generator, Hypothesis
from pam.io import UserError
from pam.models.checkpoint import SavedModel
from pam.training.devices import enough_for

BATCHES = 20  # that are read together, so that similar lengths are side by side
DRAWN = 12  # lines of a file whose attention one picture shows


@dataclass(frozen=True)
class Answer:
    """A line of the file with its outputs, the best first; a blank line has none."""

    line: Line
    source: list[str]
    outputs: list[Hypothesis]

    def text(self) -> str:
        """The best output for people to read."""
        return self.outputs[0].text if self.outputs else ""

    def json(self) -> str:
        """All outputs with their scores."""
        outputs = [
            {"rank": rank, "text": own.text, "complete": own.output.complete}
            | {name: _number(getattr(own.output, name)) for name in ("score", "log_prob")}
            for rank, own in enumerate(self.outputs, 1)
        ]
        return json.dumps({"line": self.line.number, "source": self.line.text, "outputs": outputs}, ensure_ascii=False)


def _number(value: float) -> float | None:
    """A number as JSON can have it: no infinity, where nothing was found."""
    return round(value, 6) if math.isfinite(value) else None


def answers(generator: Generator, path: Path) -> Iterator[Answer]:
    """Decodes a file, which may be compressed, many lines at once; a UserError names a faulty line of it."""
    lines, first = lines_of(path), 0
    while block := list(islice(lines, BATCHES * generator.decoding.batch_size)):
        sources = [_symbols(line, generator) for line in block]
        full = [source for source in sources if source]
        with enough_for(f"the decoding of {generator.decoding.batch_size} sources side by side", HINT):
            found = iter(generator(full, first))
        first += len(full)
        for line, source in zip(block, sources, strict=True):
            answer = Answer(line, source, next(found) if source else [])
            _warn(answer, generator)
            yield answer


def _symbols(line: Line, generator: Generator) -> list[str]:
    codec = generator.model.codec
    if not line.text.strip():
        return []
    try:
        return codec.source_symbols(codec.typed_source(line.text))
    except UserError as error:
        raise line.error(error.message, error.hint or "") from error


def _warn(answer: Answer, generator: Generator) -> None:
    place = f"{answer.line.file}:{answer.line.number}"
    if unseen := generator.unseen(answer.source):
        sys.stderr.write(f"{place}: not seen in training: {' '.join(unseen)}\n")
    for own in answer.outputs:
        if not own.output.complete:
            sys.stderr.write(f"{place}: cut short at {len(own.output.symbols)} symbols\n")


@torch.no_grad()
def attended(model: SavedModel, shown: Sequence[Answer]) -> dict[str, Any]:
    """The alignments of best outputs, as `heat_maps` has those of given ones: target x source, for a figure."""
    if model.run.components.targets == "actions":
        message = f"{model.run.label} writes pointer actions, whose attention is their pointer"
        raise UserError(message, hint="leave out --attention, or choose a model with `targets: symbols`")
    if not shown:
        raise UserError("no line to draw the attention of", hint="write sources into the file of --input")
    device, end, rows = next(model.network.parameters()).device, ["</s>"] if model.source_eos else [], []
    for answer in shown:
        symbols = answer.outputs[0].output.symbols
        source = model.read(answer.source)[None].to(device)
        target = torch.tensor([ended(symbols)], device=device)
        forced = model.network.teacher_force(source, torch.tensor([source.shape[1]], device=device), target)
        spelled = [*model.target.spell(symbols), "</s>"]
        rows.append({"source": answer.source + end, "target": spelled, "alignment": forced.alignment[0].tolist()})
    return {"model": model.run.model, "label": model.run.label, "rows": rows}
