"""Given links of the training text, by which attention is guided: `training.guided`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pam.data.dataset import Batch, Prepared, Ragged
from pam.data.text_files import Line, plain_lines
from pam.experiments.run_config import RunConfig
from pam.experiments.settings import Guided
from pam.models.guide import Guide
from pam.runtime.errors import UserError
from pam.tasks.alignment.links import parse_links


@dataclass(frozen=True)
class GivenLinks:
    """The links of all rows of a training split, and the words that symbols are parts of."""

    settings: Guided
    source_words: Ragged  # for each source symbol the index of its word
    target_words: Ragged  # for each target symbol likewise
    links: Ragged  # of each row its links, source word and target word in turn

    @classmethod
    def read(cls, settings: Guided, data: Prepared) -> GivenLinks:
        """Read links for the rows of prepared data.

        Raises:
            UserError: the file is missing or faulty, has another number of lines than the data have
                rows, or links a word that a row does not have.
        """
        path = Path(settings.links)
        rows = data.rows("train")
        codec = data.codec
        numbers: dict[str, list[list[int]]] = {"source": [], "target": [], "links": []}

        lines = plain_lines(path)
        for index, row in enumerate(rows):
            line = next(lines, None)
            if line is None:
                raise _other_length(path, index, len(rows), data)

            source_words = codec.words(codec.source_symbols(row[:-1]), "source")
            target_words = codec.words(codec.target_symbols(row[-1]), "target")
            numbers["source"].append(source_words)
            numbers["target"].append(target_words)
            numbers["links"].append(list(_links(line, source_words, target_words)))

        further = sum(1 for _ in lines)
        if further:
            raise _other_length(path, len(rows) + further, len(rows), data)
        return cls(
            settings=settings,
            source_words=Ragged.of(numbers["source"]),
            target_words=Ragged.of(numbers["target"]),
            links=Ragged.of(numbers["links"]),
        )

    def of_batch(self, batch: Batch) -> Guide:
        """Return the links of a batch's rows, as far as their symbols are read."""
        count, length = batch.source.shape[:2]
        steps = batch.target.shape[1]
        words = max(int(self.source_words[row].max(initial=-1)) + 1 for row in batch.rows)

        positions = np.full((count, length), words, dtype=np.int64)
        links = np.zeros((count, steps, words), dtype=np.float32)
        for place, row in enumerate(batch.rows):
            source_words = self.source_words[row][:length]
            target_words = self.target_words[row][:steps]
            positions[place, : len(source_words)] = source_words

            # A word with several links shares itself among them.
            of_words = np.zeros((int(target_words.max(initial=-1)) + 1, words), dtype=np.float32)
            for source, target in self.links[row].reshape(-1, 2):
                if target < len(of_words) and source in source_words:
                    of_words[target, source] = 1.0
            of_words /= np.maximum(of_words.sum(1, keepdims=True), 1.0)
            links[place, : len(target_words)] = of_words[target_words]

        return Guide(
            words=torch.from_numpy(positions),
            links=torch.from_numpy(links),
            weight=self.settings.weight,
            of_posterior=self.settings.of == "posterior",
        )


def check_guided(run: RunConfig) -> None:
    """Check that a model can be guided.

    Raises:
        UserError: it cannot.
    """
    guided = run.training.guided
    if guided is None:
        return

    components = run.components
    reason = ""
    if components.architecture.kind == "transformer":
        reason = "has many heads and no alignment"
    elif components.targets == "actions":
        reason = "writes pointer actions"
    elif components.reversed:
        reason = "translates in the opposite direction of the links"
    elif components.marginalization.kind == "none":
        reason = "has no attention"
    elif guided.of == "posterior" and not components.marginalization.gives_positions:
        reason = "has no posterior over positions"
    if reason:
        raise UserError(
            f"`training.guided`: {components.label} {reason}",
            hint="choose a model with one attention to the source, or `of: prior`, or leave it out",
        )


def check_links(path: str) -> None:
    """Check that there is a file of links.

    Raises:
        UserError: there is none.
    """
    if not Path(path).is_file():
        hint = "write a line of links, such as `0-0 1-2`, for each pair of the training text"
        raise UserError("no such file of links", file=path, hint=hint)


def _links(line: Line, source_words: list[int], target_words: list[int]) -> Iterator[int]:
    """Yield the numbers of the links of a line, source word and target word in turn."""
    lengths = (max(source_words, default=-1) + 1, max(target_words, default=-1) + 1)
    links, _ = parse_links(line, lengths, first=0)
    for source, target in links.possible:
        yield source
        yield target


def _other_length(path: Path, lines: int, rows: int, data: Prepared) -> UserError:
    """Return the error for a file of links with too many or too few lines."""
    return UserError(
        f"{lines} lines, but the training text has {rows} pairs",
        file=path,
        hint=f"write a line for each line of {data.folder / 'train.tsv'}, whose words it links",
    )
