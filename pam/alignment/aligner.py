"""The links of pairs of texts, by one model or by two of opposite directions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pam.alignment.links import WordLink, word_probabilities
from pam.alignment.pair_models import PairModel
from pam.alignment.symmetrization import (
    DEFAULT,
    NAMES,
    NONE,
    ONE_DIRECTION,
    PRODUCT,
    Directions,
    as_matrix,
)
from pam.alignment.words import ReadText, Word, words_between_spaces
from pam.data.text_files import cleaned
from pam.evaluation.metrics import Floats
from pam.models.interfaces import Smoothing
from pam.runtime.devices import enough_for
from pam.runtime.errors import UserError, unknown
from pam.runtime.numbers import is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 1000
"""Symbols of a text from which on a pair is too long, as memory grows with their product."""

CELLS = 2**17
"""Pairs of a source symbol and a target symbol that are worked on at once."""

SMOOTHING = {
    Smoothing.EXACT: "smoothing is exact, as its positions are a Markov chain given the target",
    Smoothing.INDEPENDENT: "smoothing changes nothing, as positions of different target words are"
    " independent given the target",
    Smoothing.APPROXIMATE: "smoothing is an approximation, as the posterior is not handed on whole",
    Smoothing.NONE: "smoothing changes nothing, as positions have no likelihoods",
}
"""What is said of the kinds of smoothing."""

BATCHES = 20
"""Batches that are read together, so that similar lengths are side by side."""

HINT = "lower --batch-size, or --longest"


@dataclass(frozen=True)
class Settings:
    """What decides links.

    Attributes:
        symmetrize: one of `symmetrization.NAMES`; `none`: links of the first direction alone; None:
            of two directions with posteriors `product`, of others `symmetrization.DEFAULT`.
        threshold: the least probability of a link; None: each target word is linked to its most
            probable source word, if that is more probable than none.
        smooth: whether the posterior is given the whole target; see `Model.align`.
        tokenized: whether words are those of the model's tokenizer; else those between spaces.
        longest: symbols of a text that are read at most.
        batch_size: pairs that are worked on side by side.
    """

    symmetrize: str | None = None
    threshold: float | None = None
    smooth: bool = False
    tokenized: bool = False
    longest: int = LONGEST
    batch_size: int = 64

    def check(self, *, is_two_way: bool) -> None:
        """Check all settings; a UserError names one that is wrong."""
        if self.symmetrize in (None, NONE):
            pass
        elif self.symmetrize not in NAMES:
            raise unknown("symmetrization", str(self.symmetrize), [*NAMES, NONE])
        elif not is_two_way:
            raise UserError(
                f"`{self.symmetrize}` needs the links of two directions",
                hint="name a model of the opposite direction: --reverse",
            )
        if self.threshold is not None and not (
            is_number(self.threshold) and 0 < self.threshold <= 1
        ):
            hint = "use a probability above 0 and at most 1"
            raise UserError(f"a threshold of {self.threshold}", hint=hint)
        for name, value in (("longest", self.longest), ("batch_size", self.batch_size)):
            if value < 1:
                raise UserError(f"`{name}` is {value}", hint="use a whole number, at least 1")


@dataclass(frozen=True, eq=False)
class WordAlignment:
    """The links of a pair of texts.

    Attributes:
        source: the words of the source.
        target: the words of the target.
        links: links, sorted; each has its probability.
        probabilities: (source words, target words) P(i | j) of source word i for target word j, by
            the model; a column lacks to one the probability that the word has no link. Of two
            directions it is the mean of both P(i | j) and P(j | i), or by `product` the geometric
            mean.
        problem: why there are no links, where the pair cannot be aligned; else empty.
        is_blank: whether a side of the pair is blank.
        directions: what the links were read from; None where there is nothing to read.
    """

    source: list[Word]
    target: list[Word]
    links: list[WordLink]
    probabilities: Floats
    problem: str = ""
    directions: Directions | None = None
    is_blank: bool = False

    @classmethod
    def of(
        cls, source: list[Word], target: list[Word], directions: Directions, reading: str
    ) -> WordAlignment:
        """Read the links of a pair in one of the ways of its directions."""
        pairs = directions.links(reading)
        if directions.has_probabilities:
            probabilities = directions.probabilities(reading)
        else:
            probabilities = as_matrix(pairs, directions.ahead.shape)
        links = [WordLink(i, j, float(probabilities[i, j])) for i, j in sorted(pairs)]
        return cls(source, target, links, probabilities, directions=directions)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the probabilities as a heat map, with a frame around each link.

        Args:
            axes: where to draw; None: a new figure.
        """
        import matplotlib.pyplot as plt
        from matplotlib.patches import Rectangle

        from pam.reporting import map_drawing

        if axes is None:
            size = (1.5 + 0.35 * len(self.target), 1.5 + 0.3 * len(self.source))
            _, axes = plt.subplots(figsize=size, layout="constrained")

        source = [word.text for word in self.source]
        target = [word.text for word in self.target]
        map_drawing.draw(axes, self.probabilities, source, target)
        for link in self.links:
            corner = (link.target - 0.5, link.source - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="black"))

        return axes


BLANK = WordAlignment([], [], [], np.zeros((0, 0)), is_blank=True)


@dataclass(frozen=True)
class _Pair:
    """A pair of texts with its words, as one model reads it."""

    source: ReadText
    target: ReadText
    source_words: list[Word]
    target_words: list[Word]

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of symbols, with end symbols."""
        return len(self.source.symbols) + 1, len(self.target.symbols) + 1


class Aligner:
    """A model, or two of opposite directions, that links the words of two texts.

    Args:
        model: reads sources and writes targets.
        reverse: reads targets and writes sources; None: what was trained beside `model` for
            agreement, if anything was.
        settings: what decides links.

    Raises:
        UserError: a setting is wrong, or the two models are not of opposite directions.
    """

    def __init__(
        self, model: PairModel, reverse: PairModel | None = None, settings: Settings | None = None
    ) -> None:
        self.settings = settings or Settings()
        if reverse is None:
            reverse = model.opposite()
        self.settings.check(is_two_way=reverse is not None)
        if self.settings.symmetrize == NONE:
            reverse = None

        self.model = model
        self.reverse = reverse
        if reverse is not None:
            model.check_opposite(reverse)
        if self.settings.tokenized and not model.has_words:
            raise UserError(
                f"the symbols of {model.label} have no places in a text",
                hint="leave out --offsets, or take a model of sentences",
            )

    @property
    def reading(self) -> str:
        """The name of the way in which links are read."""
        if self.reverse is None:
            return ONE_DIRECTION
        if self.settings.symmetrize is not None:
            return self.settings.symmetrize
        if self.model.gives_positions and self.reverse.gives_positions:
            return PRODUCT
        return DEFAULT

    def notes(self) -> list[str]:
        """Say what the settings mean for these models, where that is not plain."""
        notes = []
        for model in (self.model, self.reverse):
            if model is not None and not model.gives_positions:
                notes.append(
                    f"{model.label} has no posterior over positions; its links are those of"
                    " its attention, which is often not on the word that is translated"
                )
            if model is not None and self.settings.smooth:
                notes.append(f"{model.label}: {SMOOTHING[model.smoothing]}")
        return list(dict.fromkeys(notes))

    def stream(self, pairs: Iterable[tuple[str, str]]) -> Iterator[WordAlignment]:
        """Yield the links of any number of pairs of texts, some batches at a time."""
        rest = iter(pairs)
        while block := list(islice(rest, BATCHES * self.settings.batch_size)):
            yield from self(block)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[WordAlignment]:
        """Align pairs of texts, similar lengths side by side; blank texts have no links.

        What is wrong with a pair is in its `problem`.
        """
        alignments: list[WordAlignment] = []
        readable: list[int] = []
        read_pairs: list[_Pair] = []
        reverse_pairs: list[_Pair] = []
        for number, (source, target) in enumerate(pairs):
            alignment = BLANK
            if cleaned(source) and cleaned(target):
                try:
                    pair, reverse_pair = self._read(source, target)
                except UserError as error:
                    alignment = WordAlignment([], [], [], np.zeros((0, 0)), error.message)
                else:
                    readable.append(number)
                    read_pairs.append(pair)
                    if reverse_pair is not None:
                        reverse_pairs.append(reverse_pair)
            elif cleaned(source) or cleaned(target):
                side = "target" if cleaned(source) else "source"
                problem = f"the {side} is blank"
                alignment = replace(BLANK, problem=problem)
            alignments.append(alignment)

        ahead = _probabilities(self.model, read_pairs, self.settings)
        back: list[Floats | None] = [None] * len(read_pairs)
        if self.reverse is not None:
            back = [
                of_pair.T for of_pair in _probabilities(self.reverse, reverse_pairs, self.settings)
            ]
        for number, pair, of_model, of_reverse in zip(
            readable, read_pairs, ahead, back, strict=True
        ):
            directions = Directions(of_model, of_reverse, self.settings.threshold)
            alignments[number] = WordAlignment.of(
                pair.source_words, pair.target_words, directions, self.reading
            )
        return alignments

    def _read(self, source: str, target: str) -> tuple[_Pair, _Pair | None]:
        """Read a pair by both models; a UserError says why it cannot be aligned."""
        longest = self.settings.longest
        read_source = self.model.read(source, "source", "source", longest)
        read_target = self.model.read(target, "target", "target", longest)
        if self.settings.tokenized or not self.model.has_words:
            source_words = read_source.own_words()
            target_words = read_target.own_words()
        else:
            source_words = words_between_spaces(source)
            target_words = words_between_spaces(target)
        pair = _Pair(read_source, read_target, source_words, target_words)
        if self.reverse is None:
            return pair, None

        reverse_pair = _Pair(
            source=self.reverse.read(target, "source", "target", longest),
            target=self.reverse.read(source, "target", "source", longest),
            source_words=target_words,
            target_words=source_words,
        )
        return pair, reverse_pair


def _probabilities(model: PairModel, pairs: Sequence[_Pair], settings: Settings) -> list[Floats]:
    """Compute P(i | j) of the words of pairs, (source words, target words), by one model."""
    results: list[Floats] = [np.zeros((0, 0))] * len(pairs)
    for batch in _batches([pair.size for pair in pairs], settings.batch_size):
        with enough_for(f"aligning {len(batch)} pairs side by side", HINT):
            texts = [(pairs[index].source, pairs[index].target) for index in batch]
            alignments = model.align(texts, settings.smooth)

        for index, alignment in zip(batch, alignments, strict=True):
            pair = pairs[index]
            results[index] = word_probabilities(
                alignment=alignment,
                source_words=pair.source.word_indices(pair.source_words),
                target_words=pair.target.word_indices(pair.target_words),
                shape=(len(pair.source_words), len(pair.target_words)),
            )
    return results


def _batches(sizes: Sequence[tuple[int, int]], batch_size: int) -> Iterator[list[int]]:
    """Yield the indices of pairs that are worked on side by side, similar lengths together."""
    batch: list[int] = []
    longest_source = 0
    longest_target = 0
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index][::-1]):
        source, target = sizes[index]
        longest_source = max(longest_source, source)
        longest_target = max(longest_target, target)
        cells = (len(batch) + 1) * longest_source * longest_target
        if batch and (len(batch) == batch_size or cells > CELLS):
            yield batch
            batch = []
            longest_source = source
            longest_target = target
        batch.append(index)
    if batch:
        yield batch
