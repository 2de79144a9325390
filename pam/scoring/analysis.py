"""`analysis.json`: what a model makes of given targets, under teacher forcing.

It holds likelihoods, and what the paper's section 4.3 looks at: how uncertain attention is and how
often the model is right then (Figure 3), how much of a sentence attention covers (Figure 4), and
which source word is attended most (Table 3).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from pam.files import write_text
from pam.parsing import Strict
from pam.scoring.record import read_made

Link = Annotated[tuple[int, int], Field(strict=False)]
"""A source word and a target word, both counted from 0; JSON has only lists."""

Links = list[Link]

COVERED = 0.5
"""A source word is covered once it was attended so much in all."""

ENTROPY_EDGES = [0.25 * number for number in range(17)]
COVERAGE_EDGES = [round(0.05 * number, 2) for number in range(21)]


class Sentences(Strict):
    """One entry per row of the split, in its order."""

    nll: list[float] = Field(description="- log p(target, end | source) in nats")
    nll_exact: list[float] = Field(description="the same with the sum over all source positions")
    tokens: list[int] = Field(description="target symbols, end symbol included")
    correct: list[int] = Field(description="of them, those that were the most probable symbol")
    source_words: list[int]
    coverage: list[float] = Field(
        description="mean over source words of the attention that they got in all, at most 1 each"
    )
    covered: list[float] = Field(description=f"share of source words that got {COVERED} or more")
    links: list[Links] = Field(
        description="for each target word the source word most attended, by the alignment that is "
        "handed on to the next step"
    )
    links_prior: list[Links] = Field(description="the same by the prior of the step")

    @model_validator(mode="after")
    def _equally_many(self) -> Sentences:
        if len({len(getattr(self, name)) for name in type(self).model_fields}) != 1:
            raise ValueError("lists of different lengths")
        return self


class Entropy(Strict):
    """How often attention was so uncertain, and how often the model was right then."""

    description: str = (
        "entropy of the prior over source positions, end symbol included, at each target symbol, "
        "end symbol included; correct: the most probable symbol is the reference's; what lies "
        "above the last edge is in the last bin"
    )
    unit: str = "nats"
    mean: float = Field(description="over all target symbols")
    edges: list[float] = ENTROPY_EDGES
    count: list[int]
    correct: list[int]


class Coverage(Strict):
    """How often a source word was attended so much, and a sentence covered so far."""

    description: str = (
        "words: attention that a source word got over all target symbols, at most 1; sentences: "
        f"share of the source words of a sentence that got {COVERED} or more; by the alignment "
        "that is handed on, end symbols excluded on both sides"
    )
    edges: list[float] = COVERAGE_EDGES
    words: list[int]
    sentences: list[int]


class Analysis(Strict):
    """The content of `analysis.json` and `gold_analysis.json`."""

    task: str
    model: str
    label: str
    seed: int
    split: str
    sentences: Sentences
    entropy: Entropy
    coverage: Coverage
    wall_s: float
    cpu_s: float
    gpu_s: float


def to_json(analysis: Analysis) -> str:
    """JSON with one line for each list, for people to read."""
    content = analysis.model_dump(mode="json")
    lines = [f"{json.dumps(key)}: {_section(value)}" for key, value in content.items()]
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def _section(value: object) -> str:
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    lines = [f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in value.items()]
    return "{\n    " + ",\n    ".join(lines) + "\n  }"


def save(analysis: Analysis, path: Path | str) -> None:
    """Writes it, whole or not at all."""
    write_text(path, to_json(analysis))


def load(path: Path | str) -> Analysis:
    """Reads it.

    Raises:
        UserError: missing, not JSON, or not an analysis.
    """
    return read_made(Analysis, path)
