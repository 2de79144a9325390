"""Models that align the symbols of two texts, as the aligner asks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from pam.alignment.words import ReadText, read_text
from pam.data.codecs import Side
from pam.data.vocabulary import Vocabulary
from pam.evaluation.metrics import Floats
from pam.models.agreement import Agreement
from pam.models.checkpoint import SavedModel
from pam.models.interfaces import Smoothing
from pam.runtime.errors import UserError
from pam.tasks.translation.codec import TranslationCodec

OPPOSITE = "name a model that was trained from the target to the source: --reverse"


class PairModel(Protocol):
    """A model of targets given sources, with its reading of texts."""

    @property
    def label(self) -> str:
        """The model's name."""

    @property
    def has_words(self) -> bool:
        """Whether texts have words, whose parts symbols are; else symbols are the words."""

    @property
    def gives_positions(self) -> bool:
        """Whether its alignment is a posterior."""

    @property
    def smoothing(self) -> Smoothing:
        """How well the posterior given a whole target is known."""

    def read(self, text: str, side: Side, name: Side, longest: int) -> ReadText:
        """Read a text as `side` of this model; a UserError that names it by `name` says if not."""

    def align(self, pairs: Sequence[tuple[ReadText, ReadText]], smooth: bool) -> list[Floats]:
        """Compute the alignment of each pair of texts.

        Returns: for each pair a matrix with a row for each target symbol and a column for each
            source symbol. It may have more of both, of end symbols.
        """

    def opposite(self) -> PairModel | None:
        """Return the model of the opposite direction that was trained with this one, if any was."""

    def check_opposite(self, reverse: Any) -> None:
        """Check that another model has the opposite direction; a UserError says if not."""


class SavedPairModel:
    """A model folder of this package.

    Raises:
        UserError: the model writes pointer actions.
    """

    def __init__(self, model: SavedModel) -> None:
        if model.run.components.targets == "actions":
            raise UserError(
                f"{model.run.label} writes pointer actions, which a text does not contain",
                hint="choose a model with `targets: symbols`",
            )
        self.model = model
        self.label = model.run.label
        self.has_words = model.codec.has_words
        self.gives_positions = model.network.gives_positions
        self.smoothing = model.network.smoothing

    def read(self, text: str, side: Side, name: Side, longest: int) -> ReadText:
        model = self.model
        read = read_text(model.codec, text, side)
        vocabulary = model.source if side == "source" else model.target
        if side == "source" and model.run.decoding.max_source is not None:
            # The end symbol counts.
            longest = min(longest, model.run.decoding.max_source - model.source_eos)

        length = len(read.symbols)
        if side == "source":
            length += model.codec.unread(text)
        check_length(length, longest, name, self.label)
        if not model.codec.units or side == "target":
            _check_seen(read.symbols, vocabulary, name)
        return read

    def align(self, pairs: Sequence[tuple[ReadText, ReadText]], smooth: bool) -> list[Floats]:
        sources = [source.symbols for source, _ in pairs]
        targets = [target.symbols for _, target in pairs]
        with self.model.network.evaluating():
            tensors = self.model.pairs(sources, targets)
            alignments = self.model.network.align(*tensors, smooth=smooth)
        return list(alignments.double().cpu().numpy())

    def opposite(self) -> PairModel | None:
        model = self.model
        if not isinstance(model.network, Agreement) or type(model.codec) is not TranslationCodec:
            return None

        settings = model.codec.settings
        turned = {"source": settings.target, "target": settings.source}
        back = replace(
            model,
            source=model.target,
            target=model.source,
            codec=TranslationCodec(settings.model_copy(update=turned)),
            network=model.network.back,
        )
        return SavedPairModel(back)

    def check_opposite(self, reverse: Any) -> None:
        model = self.model
        other = getattr(reverse, "model", None)
        if not isinstance(other, SavedModel):
            raise UserError(f"{self.label} and {reverse.label} are of other kinds", hint=OPPOSITE)
        if model.task != other.task or not isinstance(model.codec, TranslationCodec):
            message = f"models of `{model.task}` and `{other.task}` are not opposite directions"
            raise UserError(message, hint=OPPOSITE)

        assert isinstance(other.codec, TranslationCodec)
        languages = _languages(model.codec)
        other_languages = _languages(other.codec)
        if languages != other_languages[::-1]:
            message = (
                f"{' to '.join(languages)} and {' to '.join(other_languages)} are not opposite"
                " directions"
            )
            raise UserError(message, hint=OPPOSITE)


def check_length(length: int, longest: int, name: Side, label: str) -> None:
    """Check that a text has symbols, and at most `longest`."""
    if length > longest:
        raise UserError(f"the {name} is too long: {length} symbols, of which {longest} are read")
    if length == 0:
        raise UserError(f"the {name} has no symbol that {label} reads")


def unseen(name: Side) -> UserError:
    """Return the error that says that a model knows no symbol of a text."""
    return UserError(f"no symbol of the {name} was seen in training")


def _check_seen(symbols: Sequence[str], vocabulary: Vocabulary, name: Side) -> None:
    """Check that a model knows a symbol of a text, other than marks if the text has words."""
    of_words = [symbol for symbol in symbols if any(map(str.isalnum, symbol))]
    if not any(symbol in vocabulary for symbol in of_words or symbols):
        raise unseen(name)


def _languages(codec: TranslationCodec) -> tuple[str, str]:
    """Return the languages of the source and the target."""
    return codec.settings.source.language, codec.settings.target.language
