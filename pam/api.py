r"""The library: a trained model that reads and writes text, `pam.load(...)`.

    import pam

    model = pam.load("results/quick/de-noun/postr-joint/seed1")
    model.predict(["Haus\tcase=dative,number=plural"])
    model.score(["Haus\tcase=dative,number=plural"], ["Häusern"])
    model.attention("Haus\tcase=dative,number=plural").plot()

A source is what the command `predict` reads as one line: a sentence, a text to be summarized, a
lemma with its features behind a tab, or the name of a `.npy` file with the frames of a clip. A
target is a sentence or a form as people write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pam.config import Decoding, RunConfig
from pam.decoding.files import END
from pam.decoding.generator import HINT, Generator, sampling_of
from pam.decoding.search import Sampling
from pam.io import UserError, parse, scratch_folder
from pam.model_files import find, unpack
from pam.model_files import pretrained as pretrained
from pam.models.checkpoint import SavedModel, load_model
from pam.run_folder import RunFolder
from pam.runtime.devices import choose_device, enough_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES_PER_SYMBOL = 0.28

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """One output for a source.

    Attributes:
        text: the output as people write it.
        score: the number that ranks outputs of a source; `log_prob` without a length penalty.
        log_prob: log p(text | source) in nats, end symbol included.
        complete: False if the length limit cut the output short.
    """

    text: str
    score: float
    log_prob: float
    complete: bool


@dataclass(frozen=True)
class Score:
    """The likelihood of a target, symbol by symbol.

    Attributes:
        symbols: n target symbols, the end symbol included.
        log_probs: (n,) log p(y_t | y_<t, x) in nats.
    """

    symbols: list[str]
    log_probs: Floats

    @property
    def log_prob(self) -> float:
        """log p(target | source) in nats."""
        return float(self.log_probs.sum())

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood of a symbol."""
        return float(np.exp(-self.log_probs.mean()))


@dataclass(frozen=True)
class AttentionMap:
    """The attention of n target symbols over m source positions.

    The end symbol is one of the n. Each row sums to one.

    Attributes:
        label: the model's name in tables.
        source: m source symbols.
        target: n target symbols.
        prior: (n, m) attention before the target symbol is seen.
        alignment: (n, m) attention that is fed to the next decoder state: the posterior in
            Postr-Joint, the prior in Soft.
        posterior: (n, m) attention once the target symbol is seen; None in models like Soft.

    The posterior is equation 12 of Shankar and Sarawagi (2019). It needs a likelihood of each
    position, which models with `marginalization: output` have.
    """

    label: str
    source: list[str]
    target: list[str]
    prior: Floats
    alignment: Floats
    posterior: Floats | None

    def plot(self, axes: Axes | None = None, which: str = "alignment") -> Axes:
        """Draw a heat map: source symbols downwards, target symbols to the right.

        Args:
            axes: where to draw; None: a new figure.
            which: `prior`, `alignment` or `posterior`.

        Raises:
            UserError: the model has no such attention.
        """
        import matplotlib.pyplot as plt

        weights = None
        if which in ("prior", "alignment", "posterior"):
            weights = getattr(self, which)
        if weights is None:
            hint = "use `prior` or `alignment`, or a model with `marginalization: output`"
            raise UserError(f"{self.label} has no attention of the kind `{which}`", hint=hint)

        if axes is None:
            width = 1.5 + INCHES_PER_SYMBOL * len(self.target)
            height = 1.5 + INCHES_PER_SYMBOL * len(self.source)
            _, axes = plt.subplots(figsize=(width, height))

        axes.imshow(weights.T, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="none")
        axes.set_xticks(range(len(self.target)), self.target, rotation=90)
        axes.set_yticks(range(len(self.source)), self.source)
        axes.grid(visible=False)
        axes.set_title(f"{self.label}, {which}")

        return axes


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A trained model with its vocabularies, made by `pam.load`.

    Attributes:
        saved: the parts: `saved.network` is the PyTorch module, `saved.source` and `saved.target`
            the vocabularies.
        folder: the model folder that it was read from.
    """

    saved: SavedModel
    folder: Path
    _run: RunFolder | None = None
    _unpacked: ExitStack | None = None

    def __repr__(self) -> str:
        return f"TrainedModel({self.label!r}, task={self.task!r}, parameters={self.parameters:,})"

    @property
    def label(self) -> str:
        """The model's name in tables, such as `Postr-Joint`."""
        return self.saved.run.label

    @property
    def task(self) -> str:
        """The kind of task, such as `inflection` or `translation`."""
        return self.saved.task

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(parameter.numel() for parameter in self.saved.network.parameters())

    @cached_property
    def decoding(self) -> Decoding:
        """The settings of search, from the run's `run.yaml` or else from its training."""
        return self._config.decoding

    @cached_property
    def _config(self) -> RunConfig:
        """The run's configuration, whose decoding may differ from the one that it trained with."""
        if self._run is not None and self._run.config_file.is_file():
            return self._run.load()
        return self.saved.run

    def predict(
        self,
        sources: Sequence[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int | None = None,
        sample: bool = False,
        temperature: float = 1.0,
        seed: int = 1,
        **decoding: Any,
    ) -> list[Any]:
        r"""Write the most probable output for each source.

        Settings that are left out are those of the command `predict`. These are the run's
        configuration, and the length penalty that the run chose on its development split, if it
        had several to choose from.

        Args:
            sources: texts, any number of them; similar lengths are decoded side by side.
            beam: hypotheses that are followed; None: what the run's configuration says.
            length_penalty: log p is divided by length^this; None: the run's, or what it chose.
            n_best: outputs for each source; None: one, as a plain string.
            sample: draw outputs in place of searching for the best, with `temperature` and `seed`.
            decoding: further keys of the configuration's `decoding`, such as `length_prior`.

        Returns:
            A string for each source. With `n_best`, a list of `Prediction` for each source, the
            best first.

        Raises:
            UserError: a source or a setting is wrong, or no penalty was chosen for this beam.

        Example:
            >>> model = load("pretrained:nouns/postr-joint")
            >>> source = "Apfelbaum\tcase=nominative,number=plural"
            >>> model.predict([source])
            ['Apfelbäume']
            >>> (outputs,) = model.predict([source], beam=4, n_best=2)
            >>> [(output.text, round(output.score, 1)) for output in outputs]
            [('Apfelbäume', -0.2), ('Apfelbaume', -2.2)]
        """
        if beam is not None:
            decoding["beam"] = beam
        if length_penalty is not None:
            decoding["length_penalty"] = length_penalty
        settings = self._settings(decoding, sample)

        sampling = sampling_of(settings, self._config.seed)
        if sample:
            sampling = Sampling(temperature, seed)
        generator = Generator(
            self.saved, self.folder, settings, n_best=n_best or 1, sampling=sampling
        )

        source_symbols = [self._source_symbols(text, number) for number, text in enumerate(sources)]
        with enough_for(f"decoding {settings.batch_size} sources side by side", HINT):
            hypotheses = generator(source_symbols)

        if n_best is None:
            return [outputs[0].text for outputs in hypotheses]
        return [[_prediction(hypothesis) for hypothesis in outputs] for outputs in hypotheses]

    @torch.no_grad()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Score]:
        r"""Compute log p(target | source), symbol by symbol.

        Args:
            sources, targets: as many of one as of the other.

        Raises:
            UserError: the numbers differ, a text is wrong, or the model writes pointer actions.

        Example:
            >>> model = load("pretrained:nouns/postr-joint")
            >>> source = "Apfelbaum\tcase=nominative,number=plural"
            >>> umlaut, plain = model.score([source, source], ["Apfelbäume", "Apfelbaume"])
            >>> round(umlaut.log_prob, 1), round(plain.log_prob, 1)
            (-0.2, -2.2)
            >>> plain.symbols[plain.log_probs.argmin()]
            'a'
        """
        if len(sources) != len(targets):
            raise UserError(
                f"{len(sources)} sources and {len(targets)} targets",
                hint="give one target for each source",
            )
        self._check_writes_symbols()

        # Batch by batch, so that memory does not grow with the number of texts.
        batch_size = self.decoding.batch_size
        scores: list[Score] = []
        for first in range(0, len(sources), batch_size):
            rows = slice(first, first + batch_size)
            scores += self._score_batch(sources[rows], targets[rows], first)

        return scores

    @torch.no_grad()
    def attention(self, source: str, target: str | None = None) -> AttentionMap:
        r"""Return the attention of the model while it writes a target.

        Args:
            target: the text that is written; None: the model's own output.

        Raises:
            UserError: a text is none for this model, or the model writes pointer actions.

        Example:
            Before the model sees `May` it looks at `es`, and once it does at `Mai`:

            >>> model = load("pretrained:phrases/postr-joint")
            >>> source = "Am 14. Mai waren es 5 Grad Celsius in Irland."
            >>> look = model.attention(source, "On May 14, it was 5 degrees Celsius in Ireland.")
            >>> step = look.target.index("May")
            >>> look.source[look.prior[step].argmax()], look.source[look.posterior[step].argmax()]
            ('es', 'Mai')
            >>> look.prior.shape
            (13, 11)
        """
        self._check_writes_symbols()
        source_symbols = self._source_symbols(source, 0)
        if target is None:
            (target,) = self.predict([source])
        target_symbols = self._target_symbols(target)

        batch = self.saved.pairs([source_symbols], [target_symbols], self.decoding.max_source)
        forced = self.saved.network.teacher_force(*batch)

        source_positions = [str(symbol) for symbol in source_symbols]
        if self.saved.source_eos:
            source_positions.append(END)

        # Without a likelihood of each position there is no posterior over positions.
        posterior = None
        if self.saved.run.components.marginalization.gives_positions:
            posterior = _array(forced.posterior[0])

        return AttentionMap(
            label=self.label,
            source=source_positions,
            target=[*target_symbols, END],
            prior=_array(forced.prior[0]),
            alignment=_array(forced.alignment[0]),
            posterior=posterior,
        )

    def unseen(self, source: str) -> list[str]:
        r"""List the symbols of a source that the model never saw in training.

        Raises:
            UserError: the text is none for this model.

        Example:
            >>> load("pretrained:nouns/postr-joint").unseen("Caffè\tcase=nominative,number=plural")
            ['è']
        """
        return self.saved.unseen(self._source_symbols(source, 0))

    def _score_batch(
        self, sources: Sequence[str], targets: Sequence[str], first: int
    ) -> Iterator[Score]:
        """Yield the scores of pairs that are one batch; `first` is the number of its first pair."""
        source_symbols = [
            self._source_symbols(text, number) for number, text in enumerate(sources, first)
        ]
        target_symbols = [self._target_symbols(text) for text in targets]

        batch = self.saved.pairs(source_symbols, target_symbols, self.decoding.max_source)
        with enough_for(f"scoring {len(sources)} targets side by side", HINT):
            log_probs = self.saved.network.log_likelihood(*batch)

        for row, symbols in enumerate(target_symbols):
            yield Score([*symbols, END], _array(log_probs[row, : len(symbols) + 1]))

    def _source_symbols(self, text: str, number: int) -> Sequence[str]:
        """Split a typed source into symbols; an error names the source by its number."""
        codec = self.saved.codec
        try:
            return codec.source_symbols(codec.typed_source(text))
        except UserError as error:
            raise UserError(f"source {number}: {error.message}", hint=error.hint) from error

    def _target_symbols(self, text: str) -> list[str]:
        """Split a typed target into symbols, without the end symbol."""
        codec = self.saved.codec
        return codec.target_symbols(codec.typed_target(text))

    def _settings(self, changed: dict[str, Any], sample: bool) -> Decoding:
        """Return the settings of a search with some of them changed, and its length penalty."""
        if "length_penalties" in changed:
            raise UserError(
                "`length_penalties` is for experiments, which choose one",
                hint="write `length_penalty=0.8`",
            )

        # Candidates for a length penalty exclude one that is given.
        values = self.decoding.model_dump() | {"length_penalties": []} | changed
        settings = parse(Decoding, values)
        if not self.decoding.length_penalties or sample or "length_penalty" in changed:
            return settings

        from pam.evaluation.length_penalty import chosen_penalty

        candidates = self.decoding.length_penalties
        asked = settings.model_copy(update={"length_penalties": candidates})
        penalty = chosen_penalty(self._run, self.folder, asked, settings.beam)
        return settings.model_copy(update={"length_penalty": penalty})

    def _check_writes_symbols(self) -> None:
        """Check that the model writes symbols, so that a text can be forced upon it."""
        if self.saved.run.components.targets == "actions":
            raise UserError(
                f"{self.label} writes pointer actions, which a text does not contain",
                hint="choose a model with `targets: symbols`",
            )


def load(name: str | Path, device: str = "cpu") -> TrainedModel:
    """Load a trained model.

    Args:
        name: a run's folder, a model folder, an exported file or folder, or `pretrained:NAME`.
        device: `cpu`, `cuda`, or `auto`.

    Raises:
        UserError: there is no such model, or its files are damaged.

    Example:
        >>> load("pretrained:nouns/postr-joint")
        TrainedModel('Postr-Joint', task='inflection', parameters=330,817)

        A file that `python -m pam export` wrote is read wherever it lies:

        >>> import pam
        >>> from pathlib import Path
        >>> file = Path(pam.__file__).parent / "pretrained/phrases/postr-joint.pam"
        >>> load(file).predict(["Am 14. Mai waren es 5 Grad Celsius in Irland."])
        ['It was 5 degrees Celsius in Ireland on May 14.']
    """
    path = find(name)
    if not path.is_file():
        run = RunFolder(Path(name))
        saved = load_model(path, choose_device(device))
        return TrainedModel(saved, path, run if path == run.model else None)

    # The folder is deleted when the model is.
    unpacked = ExitStack()
    folder = unpacked.enter_context(scratch_folder())
    unpack(path, folder)
    try:
        saved = load_model(folder, choose_device(device))
    except UserError as error:
        raise UserError(error.message, file=path, hint="export the model again") from error

    return TrainedModel(saved, folder, _unpacked=unpacked)


def _prediction(hypothesis: Any) -> Prediction:
    """Return what a user sees of a decoded hypothesis."""
    output = hypothesis.output
    return Prediction(
        text=hypothesis.text, score=output.score, log_prob=output.log_prob, complete=output.complete
    )


def _array(values: Tensor) -> Floats:
    """Return a tensor's values as a NumPy array of float64."""
    return values.detach().double().cpu().numpy()
