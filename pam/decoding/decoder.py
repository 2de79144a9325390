"""A trained model set up to decode text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pam.config import Decoding
from pam.data.vocabulary import UNK
from pam.decoding import length_prior
from pam.decoding.decode import decode
from pam.decoding.length_prior import LengthPrior
from pam.decoding.outputs import Output
from pam.decoding.sampling import Sampling
from pam.decoding.spelling import spelt
from pam.io import UserError
from pam.models.saved import SavedModel


@dataclass(frozen=True)
class Hypothesis:
    """One output as text.

    Attributes:
        target: a target column as prepared data has it; text: the same for people to read.
        log_prob: log p(output, end | source) in nats; score: what it was ranked by.
        symbols: how many were written, pointer steps included.
        complete: false where the length limit cut it short.
        unknown: unknown symbols that were written; replaced: how many of them became source words.
    """

    target: str
    text: str
    log_prob: float
    score: float
    symbols: int
    complete: bool
    unknown: int
    replaced: int


class Decoder:
    """Sources as symbols to outputs as text.

    Args:
        folder: where the model was read from, for the table of lengths.
        wanted: outputs per source.
        sampling: draws outputs; None: searches for the best.

    Raises:
        UserError: settings that this model, or this beam, does not allow.
    """

    def __init__(
        self,
        model: SavedModel,
        folder: Path,
        decoding: Decoding,
        wanted: int = 1,
        sampling: Sampling | None = None,
    ) -> None:
        self.model, self.decoding, self.wanted, self.sampling = model, decoding, wanted, sampling
        self.actions = model.run.components.targets == "actions"
        if sampling is None and wanted > decoding.beam:
            raise UserError(
                f"{wanted} outputs of a beam of {decoding.beam}",
                hint=f"widen the beam to {wanted} or more, or draw outputs with --sample",
            )
        self.prior: LengthPrior | None = None
        if decoding.length_prior > 0 and sampling is None:
            if self.actions:
                raise UserError(
                    f"{model.run.label} writes pointer actions, whose number has no prior",
                    hint="set decoding.length_prior to 0",
                )
            self.prior = LengthPrior.load(folder / length_prior.FILE)

    def __call__(
        self,
        sources: Sequence[Sequence[str]],
        first: int = 0,
        told: Callable[[int], None] = lambda _: None,
    ) -> list[list[Hypothesis]]:
        """Decodes sources.

        Args:
            sources: symbols without end symbols.
            first: number of the first source; sampling depends on a source's number.
            told: called now and then with the number of sources that are done.

        Returns:
            For each source its outputs, the best first.
        """
        found = decode(
            self.model.network,
            [self.model.source.encode(source) for source in sources],
            self.decoding,
            self.actions,
            wanted=self.wanted,
            prior=self.prior,
            sampling=self.sampling,
            first=first,
            told=told,
        )
        return [
            [self._answer(output, source) for output in outputs]
            for source, outputs in zip(sources, found, strict=True)
        ]

    def _answer(self, output: Output, source: Sequence[str]) -> Hypothesis:
        codec = self.model.codec
        symbols, replaced = spelt(output, self.model.target, source, codec)
        target = codec.target_text(symbols)
        return Hypothesis(
            target=target,
            text=codec.readable(target),
            log_prob=output.log_prob,
            score=output.score,
            symbols=len(output.symbols),
            complete=output.complete,
            unknown=output.symbols.count(UNK),
            replaced=replaced,
        )

    def unseen(self, source: Sequence[str]) -> list[str]:
        """Symbols of a source that the model's vocabulary lacks."""
        return [symbol for symbol in source if symbol not in self.model.source]
