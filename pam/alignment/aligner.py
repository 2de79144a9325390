"""The links of pairs of texts, by one model or by two of opposite directions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pam.alignment.links import WordLink, word_probabilities
from pam.alignment.symmetrization import (
    DEFAULT,
    NAMES,
    NONE,
    ONE_DIRECTION,
    PRODUCT,
    Directions,
    as_matrix,
)
from pam.alignment.words import ReadText, Word, read_text, words_between_spaces
from pam.data.codecs import Side
from pam.data.text_files import cleaned
from pam.data.vocabulary import Vocabulary
from pam.evaluation.metrics import Floats
from pam.models.agreement import Agreement
from pam.models.checkpoint import SavedModel
from pam.models.interfaces import Smoothing
from pam.runtime.devices import enough_for
from pam.runtime.errors import UserError, unknown
from pam.tasks.translation.codec import TranslationCodec

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
        if self.threshold is not None and not 0 < self.threshold <= 1:
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
        directions: what the links were read from; None where there is nothing to read.
    """

    source: list[Word]
    target: list[Word]
    links: list[WordLink]
    probabilities: Floats
    problem: str = ""
    directions: Directions | None = None

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
        UserError: a setting is wrong, a model writes pointer actions, or the two models are not of
            opposite directions.
    """

    def __init__(
        self, model: SavedModel, reverse: SavedModel | None = None, settings: Settings | None = None
    ) -> None:
        self.settings = settings or Settings()
        if reverse is None:
            reverse = _opposite(model)
        self.settings.check(is_two_way=reverse is not None)
        if self.settings.symmetrize == NONE:
            reverse = None

        self.model = model
        self.reverse = reverse
        for used in (model, reverse):
            if used is not None and used.run.components.targets == "actions":
                raise UserError(
                    f"{used.run.label} writes pointer actions, which a text does not contain",
                    hint="choose a model with `targets: symbols`",
                )
        if reverse is not None:
            _check_opposite(model, reverse)
        if self.settings.tokenized and not model.codec.has_words:
            raise UserError(
                f"the symbols of {model.run.label} have no places in a text",
                hint="leave out --offsets, or take a model of sentences",
            )

    @property
    def reading(self) -> str:
        """The name of the way in which links are read."""
        if self.reverse is None:
            return ONE_DIRECTION
        if self.settings.symmetrize is not None:
            return self.settings.symmetrize
        if self.model.network.gives_positions and self.reverse.network.gives_positions:
            return PRODUCT
        return DEFAULT

    def notes(self) -> list[str]:
        """Say what the settings mean for these models, where that is not plain."""
        notes = []
        for model in (self.model, self.reverse):
            if model is not None and not model.network.gives_positions:
                notes.append(
                    f"{model.run.label} has no posterior over positions; its links are those of"
                    " its attention, which is often not on the word that is translated"
                )
            if model is not None and self.settings.smooth:
                notes.append(f"{model.run.label}: {SMOOTHING[model.network.smoothing]}")
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
            alignment = WordAlignment([], [], [], np.zeros((0, 0)))
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
                alignment = WordAlignment([], [], [], np.zeros((0, 0)), problem)
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
        read_source = self._read_side(self.model, source, "source", "source")
        read_target = self._read_side(self.model, target, "target", "target")
        if self.settings.tokenized or not self.model.codec.has_words:
            source_words = read_source.own_words()
            target_words = read_target.own_words()
        else:
            source_words = words_between_spaces(source)
            target_words = words_between_spaces(target)
        pair = _Pair(read_source, read_target, source_words, target_words)
        if self.reverse is None:
            return pair, None

        reverse_pair = _Pair(
            source=self._read_side(self.reverse, target, "source", "target"),
            target=self._read_side(self.reverse, source, "target", "source"),
            source_words=target_words,
            target_words=source_words,
        )
        return pair, reverse_pair

    def _read_side(self, model: SavedModel, text: str, side: Side, name: Side) -> ReadText:
        """Read a text as `side` of a model, and name it by `name` in errors."""
        read = read_text(model.codec, text, side)
        vocabulary = model.source if side == "source" else model.target
        longest = self.settings.longest
        if side == "source" and model.run.decoding.max_source is not None:
            # The end symbol counts.
            longest = min(longest, model.run.decoding.max_source - model.source_eos)

        length = len(read.symbols)
        if side == "source":
            length += model.codec.unread(text)
        if length > longest:
            raise UserError(
                f"the {name} is too long: {length} symbols, of which {longest} are read"
            )
        if length == 0:
            raise UserError(f"the {name} has no symbol that {model.run.label} reads")
        if not model.codec.units or side == "target":
            _check_seen(read.symbols, vocabulary, name)
        return read


def _probabilities(model: SavedModel, pairs: Sequence[_Pair], settings: Settings) -> list[Floats]:
    """Compute P(i | j) of the words of pairs, (source words, target words), by one model."""
    results: list[Floats] = [np.zeros((0, 0))] * len(pairs)
    for batch in _batches([pair.size for pair in pairs], settings.batch_size):
        sources = [pairs[index].source.symbols for index in batch]
        targets = [pairs[index].target.symbols for index in batch]
        work = enough_for(f"aligning {len(batch)} pairs side by side", HINT)
        with work, model.network.evaluating():
            tensors = model.pairs(sources, targets)
            alignments = model.network.align(*tensors, smooth=settings.smooth)
        alignments_of_rows = alignments.double().cpu().numpy()

        for index, alignment in zip(batch, alignments_of_rows, strict=True):
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


def _check_seen(symbols: Sequence[str], vocabulary: Vocabulary, name: Side) -> None:
    """Check that a model knows a symbol of a text, other than marks if the text has words."""
    of_words = [symbol for symbol in symbols if any(map(str.isalnum, symbol))]
    if not any(symbol in vocabulary for symbol in of_words or symbols):
        raise UserError(f"no symbol of the {name} was seen in training")


def _opposite(model: SavedModel) -> SavedModel | None:
    """Return the model of the opposite direction that a model was trained with for agreement."""
    if not isinstance(model.network, Agreement) or type(model.codec) is not TranslationCodec:
        return None

    settings = model.codec.settings
    turned = {"source": settings.target, "target": settings.source}
    return replace(
        model,
        source=model.target,
        target=model.source,
        codec=TranslationCodec(settings.model_copy(update=turned)),
        network=model.network.back,
    )


def _check_opposite(model: SavedModel, reverse: SavedModel) -> None:
    """Check that a model translates what another one translates, in the opposite direction."""
    hint = "name a model that was trained from the target to the source: --reverse"
    if model.task != reverse.task or not isinstance(model.codec, TranslationCodec):
        message = f"models of `{model.task}` and `{reverse.task}` are not opposite directions"
        raise UserError(message, hint=hint)

    assert isinstance(reverse.codec, TranslationCodec)
    languages = _languages(model.codec)
    reverse_languages = _languages(reverse.codec)
    if languages != reverse_languages[::-1]:
        message = (
            f"{' to '.join(languages)} and {' to '.join(reverse_languages)} are not opposite"
            " directions"
        )
        raise UserError(message, hint=hint)


def _languages(codec: TranslationCodec) -> tuple[str, str]:
    """Return the languages of the source and the target."""
    return codec.settings.source.language, codec.settings.target.language
