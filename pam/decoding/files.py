"""Outputs for a file of sources, a line each; what was attended to when they were written, and what
was copied.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from pam.data.dataset import padded
from pam.data.text_files import Line, cleaned, text_lines
from pam.data.vocabulary import ended
from pam.decoding.generator import HINT, Generator, Hypothesis
from pam.io import UserError
from pam.models.checkpoint import SavedModel
from pam.runtime.devices import enough_for

BATCHES = 20  # that are read together, so that similar lengths are side by side
DRAWN = 12  # lines of a file whose attention one picture shows
END = "</s>"  # the end symbol in pictures and in JSON
WEIGHT_DIGITS = 4  # of attention in JSON


@dataclass(frozen=True)
class Answer:
    """A line of the file with its outputs, the best first; a blank line has none."""

    line: Line
    source: list[str]
    outputs: list[Hypothesis]

    def text(self) -> str:
        """The best output for people to read."""
        return self.outputs[0].text if self.outputs else ""

    def json(self, reading: Reading | None = None) -> str:
        """All outputs with their scores, and with what was read of them."""
        outputs = [
            {"rank": rank, "text": own.text, "complete": own.output.complete}
            | {name: _number(getattr(own.output, name)) for name in ("score", "log_prob")}
            for rank, own in enumerate(self.outputs, 1)
        ]
        found: dict[str, Any] = {"line": self.line.number, "source": self.line.text}
        if reading is not None:
            found["source_tokens"] = reading.source
            outputs = [
                own | read.rounded() for own, read in zip(outputs, reading.outputs, strict=True)
            ]
        return json.dumps(found | {"outputs": outputs}, ensure_ascii=False)


def _number(value: float) -> float | None:
    """A number as JSON can have it: no infinity, where nothing was found."""
    return round(value, 6) if math.isfinite(value) else None


def answers(generator: Generator, path: Path) -> Iterator[Answer]:
    """Decodes a file, which may be compressed, many lines at once; a UserError names a faulty line
    of it.
    """
    lines = text_lines(path)
    first = 0
    while block := list(islice(lines, BATCHES * generator.decoding.batch_size)):
        sources = [_symbols(line, generator) for line in block]
        full = [source for source in sources if source]
        with enough_for(
            f"the decoding of {generator.decoding.batch_size} sources side by side", HINT
        ):
            found = iter(generator(full, first))
        first += len(full)
        for line, source in zip(block, sources, strict=True):
            answer = Answer(line, source, next(found) if source else [])
            _warn(answer, generator)
            yield answer


def _symbols(line: Line, generator: Generator) -> list[str]:
    codec = generator.model.codec
    if not cleaned(line.text):
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


@dataclass(frozen=True)
class ReadOutput:
    """An output of n tokens, its end symbol with them if it was written, under teacher forcing."""

    tokens: list[str]
    attention: list[list[float]]  # n x m, the alignment handed on
    p_gen: list[float] | None  # n, of models that copy; as `TeacherForced` has it
    # n, whether it is more probable that the token was copied than generated
    copied: list[bool] | None

    def rounded(self) -> dict[str, Any]:
        """For JSON; models that do not copy say nothing of it."""
        attention = [[round(weight, WEIGHT_DIGITS) for weight in row] for row in self.attention]
        found: dict[str, Any] = {"tokens": self.tokens, "attention": attention}
        if self.p_gen is None:
            return found
        return found | {"p_gen": [_number(value) for value in self.p_gen], "copied": self.copied}


@dataclass(frozen=True)
class Reading:
    """What is known of a line's outputs once they are given."""

    source: list[str]  # m tokens, as many as the model reads
    outputs: list[ReadOutput]


def check_symbols(model: SavedModel) -> None:
    """A UserError says if outputs of the model cannot be read again, symbol by symbol."""
    if model.run.components.targets == "actions":
        message = f"{model.run.label} writes pointer actions, whose attention is their pointer"
        raise UserError(
            message,
            hint="leave out --attention and --weights, or choose a model with `targets: symbols`",
        )


@torch.no_grad()
def read_again(generator: Generator, answer: Answer) -> Reading:
    """The outputs of a line under teacher forcing, all at once."""
    model, most = generator.model, generator.decoding.max_source
    if not answer.outputs:
        return Reading([], [])
    device = next(model.network.parameters()).device
    read = model.read(answer.source)[:most].to(device)
    written = [own.output for own in answer.outputs]
    target = padded([torch.tensor(ended(output.symbols)) for output in written]).to(device)
    sources = read[None].expand(len(written), *read.shape)
    with enough_for(f"reading {len(written)} outputs side by side again", HINT):
        forced = model.network.teacher_force(
            sources, torch.full((len(written),), len(read), device=device), target
        )
    outputs = []
    for row, output in enumerate(written):
        tokens = [
            *model.target.spell(output.symbols, answer.source),
            *([END] if output.complete else []),
        ]
        n, p_gen, copied = len(tokens), None, None
        if forced.p_gen is not None and forced.copied is not None:
            p_gen, copied = forced.p_gen[row, :n].tolist(), (forced.copied[row, :n] > 0.5).tolist()
        outputs.append(ReadOutput(tokens, forced.alignment[row, :n].tolist(), p_gen, copied))
    source = [*answer.source, *([END] if model.source_eos else [])]
    return Reading(source[:most], outputs)


def attended(generator: Generator, shown: Sequence[Answer]) -> dict[str, Any]:
    """The alignments of best outputs, as `heat_maps` has those of given ones: target x source, for
    a figure.
    """
    read = [read_again(generator, replace(answer, outputs=answer.outputs[:1])) for answer in shown]
    best = [(one.source, one.outputs[0]) for one in read]
    rows = [
        {"source": source, "target": own.tokens, "alignment": own.attention}
        for source, own in best
        if own.tokens
    ]
    if not rows:
        raise UserError(
            "no line to draw the attention of", hint="write sources into the file of --input"
        )
    run = generator.model.run
    return {"model": run.model, "label": run.label, "rows": rows}
