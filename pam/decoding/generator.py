"""Text from a trained model: any number of sources, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pam.config import Decoding
from pam.data.dataset import Prepared
from pam.data.tokenizers import Codec
from pam.data.vocabulary import EOS, PAD, SPECIALS, UNK, Vocabulary
from pam.decoding import length_prior
from pam.decoding.beam_search import beam_search
from pam.decoding.hypotheses import Output
from pam.decoding.length_prior import LengthPrior
from pam.decoding.sampling import Sampling, sample
from pam.io import UserError
from pam.models.checkpoint import SavedModel
from pam.models.ensemble import Ensemble
from pam.models.interfaces import Latent
from pam.models.latents import NoLatent
from pam.models.model import Model

SEED = 2019
"""Of draws of latent vectors: the same sources in the same batches give the same outputs."""

UNKNOWN = SPECIALS[UNK]
"""How a symbol that the vocabulary lacks is written."""


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


class Generator:
    """Sources as symbols to outputs as text.

    Args:
        folder: where the model was read from, for the table of lengths.
        n_best: outputs per source.
        sampling: draws outputs; None: searches for the best.

    Raises:
        UserError: settings that this model, or this beam, does not allow.
    """

    def __init__(
        self, model: SavedModel, folder: Path, decoding: Decoding, n_best: int = 1, sampling: Sampling | None = None
    ) -> None:
        self.model, self.decoding, self.n_best, self.sampling = model, decoding, n_best, sampling
        self.actions = model.run.components.targets == "actions"
        if sampling is None and n_best > decoding.beam:
            raise UserError(
                f"{n_best} outputs of a beam of {decoding.beam}",
                hint=f"widen the beam to {n_best} or more, or draw outputs with --sample",
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
        self, sources: Sequence[Sequence[str]], first: int = 0, on_progress: Callable[[int], None] = lambda _: None
    ) -> list[list[Hypothesis]]:
        """Decodes sources.

        Args:
            sources: symbols without end symbols.
            first: number of the first source; sampling depends on a source's number.
            on_progress: called now and then with the number of sources that are done.

        Returns:
            For each source its outputs, the best first.
        """
        found = decode(
            self.model.network,
            [self.model.source.encode(source) for source in sources],
            self.decoding,
            self.actions,
            n_best=self.n_best,
            prior=self.prior,
            sampling=self.sampling,
            first=first,
            on_progress=on_progress,
        )
        return [
            [self._answer(output, source) for output in outputs] for source, outputs in zip(sources, found, strict=True)
        ]

    def _answer(self, output: Output, source: Sequence[str]) -> Hypothesis:
        codec = self.model.codec
        symbols, replaced = detokenize(output, self.model.target, source, codec)
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


def decode(
    model: Model,
    sources: Sequence[Sequence[int]],
    decoding: Decoding,
    actions: bool = False,
    *,
    n_best: int = 1,
    prior: LengthPrior | None = None,
    sampling: Sampling | None = None,
    first: int = 0,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[list[Output]]:
    """Decodes sources of any length, similar lengths side by side.

    Args:
        model: in evaluation mode.
        sources: ids without the end symbol, which is added here.
        decoding: beam, ranking, limits, and how many are decoded side by side.
        actions: whether the model writes pointer actions.
        n_best: outputs per source.
        prior: of target lengths, for `decoding.length_prior`.
        sampling: draws outputs instead of searching for the best.
        first: number of the first source; sampling depends on a source's number.
        on_progress: called after each batch with the number of sources that are done.

    Returns:
        For each source, in the order given, its outputs: the best first, or as drawn.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    outputs: dict[int, list[Output]] = {}
    for start in range(0, len(order), decoding.batch_size):
        rows = order[start : start + decoding.batch_size]
        batch = _padded([sources[row] for row in rows], device)
        with sampling_latents(model, decoding.latent_samples) as one:
            if sampling is None:
                found = beam_search(one, *batch, decoding, n_best, actions, prior)
            else:
                numbers = [first + row for row in rows]
                found = sample(one, *batch, decoding, sampling, numbers, n_best, actions)
        outputs |= dict(zip(rows, found, strict=True))
        on_progress(len(outputs))
    return [outputs[row] for row in range(len(sources))]


def _padded(sources: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids with end symbols, (B, m), and lengths, (B,)."""
    ended = [torch.tensor([*source, EOS]) for source in sources]
    lengths = torch.tensor([len(source) for source in ended], device=device)
    return pad_sequence(ended, batch_first=True, padding_value=PAD).to(device), lengths


@contextmanager
def sampling_latents(model: Model, samples: int) -> Iterator[Model]:
    """A model as the mean distribution of so many draws of its latent vectors, each of which goes
    on with vectors of its own; the model itself where there are none, or for no draws."""
    parts = (part for part in model.modules() if isinstance(part, Latent))
    latents = [part for part in parts if not isinstance(part, NoLatent)]
    if samples == 0 or not latents:
        yield model
        return
    for latent in latents:
        latent.sampling = True
    try:
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            yield Ensemble([model] * samples).eval()
    finally:
        for latent in latents:
            latent.sampling = False


def prepared_for(model: SavedModel, folder: Path) -> Prepared:
    """A prepared folder whose ids mean to the model what they mean there.

    Raises:
        UserError: it was prepared with other vocabularies.
    """
    data = Prepared(folder)
    for side, vocabulary in (("source", model.source), ("target", model.target)):
        if getattr(data, side).digest != vocabulary.digest:
            raise UserError(
                f"this vocabulary is not the one that {model.run.label} was trained with",
                file=folder / f"{side}.vocab",
                hint="name the prepared data of the model's own task",
            )
    return data


def detokenize(output: Output, target: Vocabulary, source: Sequence[str], codec: Codec) -> tuple[list[str], int]:
    """Symbols of an output, pointer steps left out.

    An unknown symbol becomes the source word that was attended most when it was written; where
    that was not recorded, or the output was cut short right after it, it is written `<unk>`.

    Args:
        source: symbols of the source, without the end symbol.

    Returns:
        the symbols, and how many of them replace unknown ones.
    """
    symbols, count = [], 0
    words = target.spell(output.symbols)
    for number, word, position in zip_longest(output.symbols, words, output.attended):
        if number == UNK and position is not None and position < len(source):
            symbols.append(_word_around(position, source, codec))
            count += 1
        elif number == UNK or number >= len(SPECIALS):
            symbols.append(word)
    return symbols, count


def _word_around(position: int, source: Sequence[str], codec: Codec) -> str:
    """The whole source word of which the symbol at `position` is a part."""
    words = codec.words(source, "source")
    parts = [part for part, word in zip(source, words, strict=True) if word == words[position]]
    return codec.target_text(parts)
