"""What a kind of task consists of: one value that names its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`


@dataclass(frozen=True)
class TaskKind:
    """A kind of task: its facts, and the names of its parts.

    A part is named as `package.module:name`. It is imported when somebody needs it, as the workflow
    reads all kinds whenever it starts. The code fingerprints of jobs count these modules too.
    """

    name: str  # as `task:` of a data set says it
    title: str  # heading of its data in reports and documentation
    purpose: str  # what its models do, such as `translate a sentence`

    # a subclass of `pam.data.prepare.Task`: from files to a prepared folder
    data: str

    # a subclass of `pam.data.codecs.Codec`: from text to symbols and back
    codec: str

    # a function from `pam.evaluation.inputs.EvalInputs` to `Counts`
    counts: str

    # a tuple of `pam.evaluation.metrics.Metric`: what is computed from the counts
    metrics: str

    # dictionaries of `TableSpec` and `FigureSpec` of `pam.reporting.items`, by name
    tables: str = ""
    figures: str = ""

    # a function that makes outputs without a model, from the name of a control, prepared data and a
    # split to a label and rows of predictions
    controls: str = ""

    # a `pam.reporting.sizes.Sizes`: the columns of the table of its data
    sizes: str = ""

    # a function from source and reference to the source as an example shows it, or to None where
    # they are no good example
    example: str = ""

    # whether scores have the perplexity of an analysis under teacher forcing
    is_analyzed: bool = False

    # whether a length penalty can be chosen by BLEU
    chooses_length_penalty: bool = False

    # whether outputs are compared letter by letter, as words of a language and not as sentences
    by_letter: bool = False

    def entries(self, *parts: str) -> list[str]:
        """Return `package.module:name` of these parts, of those that the kind has."""
        named = [getattr(self, part) for part in parts]
        return [entry for entry in named if entry]

    def all_entries(self) -> Iterator[str]:
        """Yield `package.module:name` of every part."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("name", "title", "purpose") and isinstance(value, str) and value:
                yield value


def imported(entry: str) -> Any:
    """Import what `package.module:name` names."""
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)
