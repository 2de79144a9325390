"""Outputs for a file of sources, one source a line, with what they attended to and copied."""

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
from pam.data.text_files import Line, cleaned, given_lines
from pam.data.vocabulary import END, ended
from pam.decoding.generator import HINT, Generator, Hypothesis
from pam.models.checkpoint import SavedModel
from pam.runtime.devices import enough_for
from pam.runtime.errors import UserError

BATCHES = 20  # that are read together, so that similar lengths are side by side
DRAWN = 12  # lines of a file whose attention is shown in one picture
WEIGHT_DIGITS = 4  # of attention in JSON


@dataclass(frozen=True)
class Answer:
    """A line of the file with its outputs, the best one first; a blank line has none."""

    line: Line
    source: list[str]
    outputs: list[Hypothesis]

    def text(self) -> str:
        """Return the best output for people to read."""
        if not self.outputs:
            return ""
        return self.outputs[0].text

    def json(self, reading: Reading | None = None) -> str:
        """Return all outputs with their scores, and with their `reading`, as a line of JSON."""
        record: dict[str, Any] = {"line": self.line.number, "source": self.line.text}
        if reading is not None:
            record["source_tokens"] = reading.source

        outputs: list[dict[str, Any]] = []
        for rank, hypothesis in enumerate(self.outputs, 1):
            outputs.append(
                {
                    "rank": rank,
                    "text": hypothesis.text,
                    "complete": hypothesis.output.complete,
                    "score": _number(hypothesis.output.score),
                    "log_prob": _number(hypothesis.output.log_prob),
                }
            )
        if reading is not None:
            for output, output_reading in zip(outputs, reading.outputs, strict=True):
                output |= output_reading.rounded()

        record["outputs"] = outputs
        return json.dumps(record, ensure_ascii=False)


def _number(value: float) -> float | None:
    """Round a number for JSON, which has no infinity: None where no output was found."""
    return round(value, 6) if math.isfinite(value) else None


def answers(generator: Generator, path: Path) -> Iterator[Answer]:
    """Decode a file, which may be compressed, many lines at once.

    A UserError names a faulty line of it: before the first answer, unless the file can be read only
    once.
    """
    if path.is_file():
        for line in given_lines(path):
            _symbols(line, generator)
    lines = given_lines(path)
    first = 0
    while block := list(islice(lines, BATCHES * generator.decoding.batch_size)):
        sources = [_symbols(line, generator) for line in block]

        # Blank lines are not decoded.
        nonempty = [source for source in sources if source]
        work = f"the decoding of {generator.decoding.batch_size} sources side by side"
        with enough_for(work, HINT):
            outputs = iter(generator(nonempty, first))
        first += len(nonempty)

        for line, source in zip(block, sources, strict=True):
            answer = Answer(line, source, outputs=next(outputs) if source else [])
            _warn(answer, generator)
            yield answer


def _symbols(line: Line, generator: Generator) -> list[str]:
    """Return the symbols of the source in a line, none if it is blank."""
    codec = generator.model.codec
    if not cleaned(line.text):
        return []

    try:
        return codec.source_symbols(codec.typed_source(line.text))
    except UserError as error:
        raise line.error(error.message, error.hint or "") from error


def _warn(answer: Answer, generator: Generator) -> None:
    """Write what is to be said of the outputs of a line."""
    location = f"{answer.line.file}:{answer.line.number}"
    if answer.outputs:
        unread = generator.model.codec.unread(answer.line.text)
        for text in generator.told(answer.source, answer.outputs, unread):
            sys.stderr.write(f"{location}: {text}\n")


@dataclass(frozen=True)
class ReadOutput:
    """An output of n tokens under teacher forcing; its end symbol counts if it was written."""

    tokens: list[str]
    attention: list[list[float]]  # n x m, the alignment handed on
    p_gen: list[float] | None  # n, of models that copy; as `TeacherForced` has it
    # n, whether it is more probable that the token was copied than generated
    copied: list[bool] | None

    def rounded(self) -> dict[str, Any]:
        """Return it for JSON; models that do not copy have no `p_gen` and no `copied`."""
        attention = [[round(weight, WEIGHT_DIGITS) for weight in row] for row in self.attention]
        record: dict[str, Any] = {"tokens": self.tokens, "attention": attention}
        if self.p_gen is not None:
            record["p_gen"] = [_number(value) for value in self.p_gen]
            record["copied"] = self.copied
        return record


@dataclass(frozen=True)
class Reading:
    """The outputs of a line under teacher forcing, and their source."""

    source: list[str]  # m tokens, as many as the model reads
    outputs: list[ReadOutput]


def check_symbols(model: SavedModel) -> None:
    """Raise a UserError if outputs of the model cannot be read again, symbol by symbol."""
    if model.run.components.targets == "actions":
        raise UserError(
            f"{model.run.label} writes pointer actions, whose attention is their pointer",
            hint="leave out --attention and --weights, or choose a model with `targets: symbols`",
        )


@torch.no_grad()
def read_again(generator: Generator, answer: Answer) -> Reading:
    """Read the outputs of a line again, by teacher forcing, all at once."""
    if not answer.outputs:
        return Reading([], [])

    model = generator.model
    most = generator.decoding.max_source
    device = next(model.network.parameters()).device
    source = model.read(answer.source)[:most].to(device)
    outputs = [hypothesis.output for hypothesis in answer.outputs]
    count = len(outputs)
    target = padded([torch.tensor(ended(output.symbols)) for output in outputs]).to(device)
    with enough_for(f"reading {count} outputs side by side again", HINT):
        forced = model.network.teacher_force(
            source[None].expand(count, *source.shape),
            torch.full((count,), len(source), device=device),
            target,
        )

    read_outputs = []
    for row, output in enumerate(outputs):
        tokens = model.target.spell(output.symbols, answer.source)
        if output.complete:
            tokens = [*tokens, END]
        n = len(tokens)

        # Models that do not copy have neither.
        p_gen = None
        copied = None
        if forced.p_gen is not None and forced.copied is not None:
            p_gen = forced.p_gen[row, :n].tolist()
            copied = (forced.copied[row, :n] > 0.5).tolist()
        attention = forced.alignment[row, :n].tolist()
        read_outputs.append(ReadOutput(tokens, attention, p_gen, copied))

    return Reading(model.spelled(answer.source, most), read_outputs)


def attended(generator: Generator, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the alignments of best outputs, target x source, for a figure.

    The record is like that of `heat_maps`, which has the alignments of given targets.
    """
    rows = []
    for answer in answers:
        reading = read_again(generator, replace(answer, outputs=answer.outputs[:1]))
        best = reading.outputs[0]
        if best.tokens:
            rows.append(
                {"source": reading.source, "target": best.tokens, "alignment": best.attention}
            )
    if not rows:
        raise UserError(
            "no line to draw the attention of", hint="write sources into the file of --input"
        )
    run = generator.model.run
    return {"model": run.model, "label": run.label, "rows": rows}
