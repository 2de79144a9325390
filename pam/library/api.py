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

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor

from pam.data.vocabulary import END, STEP, UNK
from pam.decoding.constraints import Constraint
from pam.decoding.generator import HINT, Generator, Hypothesis, check_none_empty, sampling_of
from pam.decoding.protections import unseen_in_words
from pam.decoding.search import Sampling
from pam.decoding.typed_constraints import TypedConstraints, Words
from pam.evaluation.length_penalty import Choice, chosen_penalty, exported_choices
from pam.experiments.parsing import parse
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.experiments.settings import Decoding
from pam.library.model_files import opened
from pam.library.model_files import pretrained as pretrained
from pam.library.results import AttentionMap, Floats, InputWarning, Prediction, Score
from pam.models.checkpoint import SavedModel, load_model
from pam.models.model import TeacherForced
from pam.runtime.devices import enough_for, usable_device
from pam.runtime.errors import UserError, unknown

if TYPE_CHECKING:
    from pam.alignment.aligner import WordAlignment

MOST_TOLD = 5  # sources that one warning names

# Keys of a configuration's `decoding` that a single search does not have, and what to do instead.
OF_EXPERIMENTS = {
    "beams": "write `beam=5`, and call `predict` once for each beam",
    "dev": "leave it out: the sources that are given are decoded",
    "length_penalties": "write `length_penalty=0.8`",
}
# Keys that decide which output is best, and so nothing where outputs are drawn.
OF_SEARCH = ("beam", "length_penalty", "length_penalty_form", "length_prior")


class Settings(TypedDict, total=False):
    """The settings of `TrainedModel.predict`, all but `n_best`, for type checkers."""

    beam: int | None
    length_penalty: float | None
    sample: bool | None
    temperature: float | None
    seed: int | None
    top_k: int | None
    top_p: float | None
    prefix: str | Sequence[str]
    include: Words
    exclude: Words
    length_penalty_form: Literal["power", "wu"]
    length_prior: float
    replace_unknown: bool
    latent_samples: int
    precision: Literal["float32", "bf16"]
    batch_size: int
    max_ratio: float
    max_extra: int
    max_length: int | None
    min_length: int
    no_repeat_ngram_size: int | None
    max_source: int | None


class AlignOptions(TypedDict, total=False):
    """The settings of `TrainedModel.align`, for type checkers."""

    reverse: TrainedModel | None
    symmetrize: str | None
    threshold: float | None
    smooth: bool
    tokenized: bool
    longest: int
    batch_size: int


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """A trained model with its vocabularies, made by `pam.load`.

    It is all in memory, and can be copied, pickled and sent to other processes.

    Attributes:
        saved: the parts: `saved.network` is the PyTorch module, `saved.source` and `saved.target`
            the vocabularies.
        config: the configuration of its run, whose decoding may differ from the one that it was
            trained with.
        run: the folder of its run, if it was read from there.
        choices: the length penalty chosen for each beam, in an exported model.
    """

    saved: SavedModel
    config: RunConfig
    run: RunFolder | None = None
    choices: Mapping[int, Choice] = field(default_factory=dict)

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

    @property
    def decoding(self) -> Decoding:
        """The settings of search, from the run's `run.yaml` or else from its training."""
        return self.config.decoding

    def to(self, device: str | torch.device) -> TrainedModel:
        """Move the model to a device, as `torch.nn.Module.to` does; return the model itself.

        Args:
            device: as of `load`.

        Raises:
            UserError: the device cannot be used.

        Example:
            >>> load("pretrained:nouns/soft").to("cpu").device
            device(type='cpu')
        """
        self.saved.network.to(usable_device(device))
        return self

    @property
    def device(self) -> torch.device:
        """The device that the model computes on."""
        return next(self.saved.network.parameters()).device

    def export(self, path: str | Path, half: bool = False, force: bool = False) -> None:
        """Write the model as one file or one folder, as the command `export` does.

        The weights are those that the model has now. The card has the records of the run, or is
        that of the file from which the model was loaded.

        Args:
            path: a name that ends in `.pam` is a file; any other is a new or empty folder.
            half: store weights in float16, in half the bytes.
            force: replace a file that exists; a folder that is not empty is always refused.

        Raises:
            UserError: there is such a file or folder, or it cannot be written.
        """
        # Here, as drawing and scoring texts need none of the parts of a card.
        from pam.library.exporting import export

        export(self.saved, self.config, self.run, Path(path), half, force, self.choices)

    @overload  # a string is itself an iterable of strings
    def predict(  # type: ignore[overload-overlap]
        self, sources: str, *, n_best: None = None, **settings: Unpack[Settings]
    ) -> str: ...

    @overload  # a string is itself an iterable of strings
    def predict(  # type: ignore[overload-overlap]
        self, sources: str, *, n_best: int, details: bool = False, **settings: Unpack[Settings]
    ) -> list[Prediction]: ...

    @overload
    def predict(
        self, sources: Iterable[str], *, n_best: None = None, **settings: Unpack[Settings]
    ) -> list[str]: ...

    @overload
    def predict(
        self,
        sources: Iterable[str],
        *,
        n_best: int,
        details: bool = False,
        **settings: Unpack[Settings],
    ) -> list[list[Prediction]]: ...

    def predict(
        self,
        sources: str | Iterable[str],
        *,
        n_best: int | None = None,
        details: bool = False,
        beam: int | None = None,
        length_penalty: float | None = None,
        sample: bool | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        prefix: str | Sequence[str] = "",
        include: Words = (),
        exclude: Words = (),
        **decoding: Any,
    ) -> str | list[Prediction] | list[str] | list[list[Prediction]]:
        r"""Write the most probable output for each source.

        Settings that are left out are those of the command `predict`. These are the run's
        configuration, and the length penalty that the run chose on its development split, if it
        had several to choose from.

        Args:
            sources: a text, or any number of them; similar lengths are decoded side by side.
            n_best: outputs for each source; None: one, as a plain string.
            details: with `n_best`, also compute log p and the attention of each symbol, and what
                was copied; this reads each output once more.
            beam: hypotheses that are followed; None: what the run's configuration says.
            length_penalty: log p is divided by length^this; None: the run's, or what it chose.
            sample: draw outputs in place of searching for the best; None: what the run's
                configuration says.
            temperature: of outputs that are drawn; below 1 is less random, None is 1.
            seed: of the random numbers by which outputs are drawn; None is 1.
            top_k: of outputs that are drawn: only so many of the most probable symbols are.
            top_p: of outputs that are drawn: only the fewest most probable symbols are whose
                probability is this together. With `top_k` it is a share of what that leaves.
            prefix: the text that each output begins with, or one for each source.
            include: words that each output must contain, or a list of words for each source. They
                need a beam of more hypotheses than they have symbols.
            exclude: words that no output may contain, or a list of words for each source.
            decoding: further keys of the configuration's `decoding`, such as `length_prior`.

        Returns:
            A string for each source: for one text a string, for several a list. With `n_best`, a
            list of `Prediction` for each source, fewer where the beam finds fewer.

            Outputs that end come first, the best `score` before all others. Outputs that the length
            limit cut short follow, the best first, also where their scores are higher; one of them
            is returned alone where the beam keeps none that ends. Drawn outputs are in the order
            drawn.

        Raises:
            UserError: a source or a setting is wrong, or no penalty was chosen for this beam.

        A word of `include` and `exclude`, and a `prefix`, is a text that the model's tokenizer
        splits into symbols; the output has or has not these symbols in a row. With subwords they
        have to begin a word. So a word that is spelled by other subwords is not found.

        Warns:
            InputWarning: a source has symbols that training did not have, or more than the model
                reads; or its best output is blank or cut short.

        Example:
            >>> model = load("pretrained:nouns/postr-joint")
            >>> source = "Apfelbaum\tcase=nominative,number=plural"
            >>> model.predict(source)
            'Apfelbäume'
            >>> model.predict([source])
            ['Apfelbäume']
            >>> outputs = model.predict(source, beam=4, n_best=2)
            >>> [(output.text, round(output.score, 1)) for output in outputs]
            [('Apfelbäume', -0.2), ('Apfelbaume', -2.2)]
            >>> (best,) = model.predict(source, n_best=1, details=True)
            >>> list(zip(best.symbols, best.log_probs.round(2)))[4:7]
            [('l', np.float64(-0.0)), ('b', np.float64(-0.0)), ('ä', np.float64(-0.13))]
            >>> best.attention.source[best.attention.posterior[6].argmax()]
            'a'
        """
        if details:
            self._check_details(n_best, decoding)
        if beam is not None:
            decoding["beam"] = beam
        if length_penalty is not None:
            decoding["length_penalty"] = length_penalty
        sampling = self._sampling(
            sample, {"temperature": temperature, "seed": seed, "top_k": top_k, "top_p": top_p}
        )
        settings = self._settings(decoding, is_drawn=sampling is not None)
        asked = TypedConstraints(prefix=prefix, include=include, exclude=exclude)
        if asked:
            self._check_writes_symbols()
        if asked.exclude and settings.replace_unknown:
            message = "`exclude` with unknown words that are replaced by any of the source"
            raise UserError(message, hint="set `replace_unknown=False`")

        generator = Generator(
            self.saved, settings, n_best=1 if n_best is None else n_best, sampling=sampling
        )
        source_texts = _listed(sources, "sources")
        source_symbols = self._source_symbols(source_texts)
        constraints: list[Constraint] = []
        if asked:
            constraints = asked.read(self.saved, source_symbols, settings.max_source)

        work = enough_for(f"decoding {settings.batch_size} sources side by side", HINT)
        with work, self.saved.network.evaluating():
            hypotheses = generator(source_symbols, constraints=constraints)

        codec = self.saved.codec
        rows = zip(source_texts, source_symbols, hypotheses, strict=True)
        _warn(generator.told(row, outputs[:1], codec.unread(text)) for text, row, outputs in rows)

        if n_best is None:
            texts = [outputs[0].text for outputs in hypotheses]
            return texts[0] if isinstance(sources, str) else texts
        predictions = [
            [self._prediction(hypothesis, source) for hypothesis in outputs]
            for source, outputs in zip(source_symbols, hypotheses, strict=True)
        ]
        if details:
            predictions = self._with_details(source_symbols, hypotheses, predictions, settings)
        return predictions[0] if isinstance(sources, str) else predictions

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sources: str, targets: str
    ) -> Score: ...

    @overload
    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[Score]: ...

    def score(
        self, sources: str | Iterable[str], targets: str | Iterable[str]
    ) -> Score | list[Score]:
        r"""Compute log p(target | source), symbol by symbol.

        Args:
            sources, targets: a text each, or as many of one as of the other.

        Returns:
            A `Score` for each pair: for two texts a single one, for several a list.

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
            >>> model.score(source, "Apfelbaumе").unseen  # the last letter is Cyrillic
            ['е']
        """
        pairs = self._pairs(sources, targets)

        # Batch by batch, so that memory does not grow with the number of texts.
        batch_size = self.decoding.batch_size
        scores: list[Score] = []
        for first in range(0, len(pairs), batch_size):
            batch = pairs[first : first + batch_size]
            scores += self._score_batch(
                [source for source, _ in batch], [target for _, target in batch]
            )

        return scores[0] if isinstance(sources, str) else scores

    @overload
    def attention(  # type: ignore[overload-overlap]
        self, sources: str, targets: str | None = None
    ) -> AttentionMap: ...

    @overload
    def attention(
        self, sources: Iterable[str], targets: Iterable[str] | None = None
    ) -> list[AttentionMap]: ...

    def attention(
        self, sources: str | Iterable[str], targets: str | Iterable[str] | None = None
    ) -> AttentionMap | list[AttentionMap]:
        r"""Return the attention of the model while it writes a target.

        Args:
            sources: a text, or any number of them.
            targets: the text that is written, or one for each source; None: the model's own
                outputs.

        Returns:
            An `AttentionMap` for each pair: for one text a single one, for several a list.

        Raises:
            UserError: the numbers differ, a text is none for this model, or the model writes
                pointer actions.

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
        if not isinstance(sources, str):
            sources = _listed(sources, "sources")
        if targets is None:
            self._check_writes_symbols()
            with warnings.catch_warnings():
                # Sources are told of below.
                warnings.simplefilter("ignore", InputWarning)
                targets = self.predict(sources)
        pairs = self._pairs(sources, targets)

        maps: list[AttentionMap] = []
        batch_size = self.decoding.batch_size
        for first in range(0, len(pairs), batch_size):
            batch = pairs[first : first + batch_size]
            target_ids = [self.saved.target_ids(target, source) for source, target in batch]
            longest = self.decoding.max_source
            forced = self._forced([source for source, _ in batch], target_ids, longest)
            for row, (source, target) in enumerate(batch):
                read = self.saved.spelled(source, longest)
                maps.append(self._map(forced, row, read, [*target, END]))

        return maps[0] if isinstance(sources, str) else maps

    @overload
    def align(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, **options: Unpack[AlignOptions]
    ) -> WordAlignment: ...

    @overload
    def align(
        self, sources: Iterable[str], targets: Iterable[str], **options: Unpack[AlignOptions]
    ) -> list[WordAlignment]: ...

    def align(
        self,
        sources: str | Iterable[str],
        targets: str | Iterable[str],
        *,
        reverse: TrainedModel | None = None,
        **settings: Any,
    ) -> WordAlignment | list[WordAlignment]:
        r"""Link the words of given sources and targets.

        Args:
            sources, targets: a text each, or as many of one as of the other.
            reverse: a model of the opposite direction, whose links are joined with those of this
                model.
            settings: what decides links, such as `threshold=0.4`; see
                `pam.alignment.aligner.Settings`.

        Returns:
            A `WordAlignment` for each pair: for two texts a single one, for several a list. Where
            a pair cannot be aligned, its `problem` says why.

        Raises:
            UserError: the numbers differ, a setting is wrong, or the models do not fit.

        Example:
            >>> model = load("pretrained:phrases/postr-joint")
            >>> pair = model.align("Am 14. Mai in Irland", "On May 14 in Ireland")
            >>> sure = [(i, j) for i, j, probability in pair.links if probability > 0.95]
            >>> [(pair.source[i].text, pair.target[j].text) for i, j in sure]
            [('14.', '14'), ('Mai', 'May'), ('Irland', 'Ireland')]
        """
        from pam.alignment.aligner import Aligner, Settings
        from pam.alignment.pair_models import SavedPairModel

        source_texts, target_texts = _listed_pairs(sources, targets)
        known = {field.name for field in fields(Settings)}
        for name in settings:
            if name not in known:
                raise unknown("setting", name, sorted(known))
        opposite = None
        if reverse is not None:
            if not hasattr(reverse, "saved"):
                message = f"`reverse` is of type {type(reverse).__name__}"
                raise UserError(message, hint="give a model, as `pam.load` returns it")
            opposite = SavedPairModel(reverse.saved)
        for side, texts in (("source", source_texts), ("target", target_texts)):
            for number, text in enumerate(texts):
                with _naming(side, number, text):
                    pass
        aligner = Aligner(SavedPairModel(self.saved), opposite, Settings(**settings))
        alignments = aligner(list(zip(source_texts, target_texts, strict=True)))
        return alignments[0] if isinstance(sources, str) else alignments

    def unseen(self, source: str) -> list[str]:
        r"""List the symbols of a source that the model never saw in training.

        Raises:
            UserError: the text is none for this model.

        Example:
            >>> load("pretrained:nouns/postr-joint").unseen("Caffè\tcase=nominative,number=plural")
            ['è']
        """
        (source_symbols,) = self._source_symbols([source])
        return self.saved.unseen(source_symbols)

    def _score_batch(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
    ) -> Iterator[Score]:
        """Yield the scores of pairs of symbols that are one batch."""
        batch = self.saved.pairs(sources, targets, self.decoding.max_source)
        work = enough_for(f"scoring {len(sources)} targets side by side", HINT)
        with work, self.saved.network.evaluating():
            log_probs = self.saved.network.log_likelihood(*batch)

        target_ids = batch[2].tolist()
        for row, symbols in enumerate(targets):
            yield Score(
                symbols=[*symbols, END],
                log_probs=_array(log_probs[row, : len(symbols) + 1]),
                unseen=[
                    symbol
                    for symbol, symbol_id in zip(symbols, target_ids[row], strict=False)
                    if symbol_id == UNK
                ],
            )

    def _pairs(
        self, sources: str | Iterable[str], targets: str | Iterable[str]
    ) -> list[tuple[Sequence[str], list[str]]]:
        """Split pairs of typed texts into symbols; all are checked before any work is done."""
        self._check_writes_symbols()
        source_texts, target_texts = _listed_pairs(sources, targets)
        source_symbols = self._source_symbols(source_texts)
        target_symbols = self._target_symbols(target_texts)
        check_none_empty([self.saved.read(symbols) for symbols in source_symbols], 0)
        _warn([unseen_in_words(self.saved.unseen(symbols))] for symbols in source_symbols)
        return list(zip(source_symbols, target_symbols, strict=True))

    # Reading given targets.

    def _forced(
        self,
        sources: Sequence[Sequence[str]],
        target_ids: Sequence[Sequence[int]],
        longest: int | None,
    ) -> TeacherForced:
        """Run the network over given targets; arguments as of `SavedModel.batch`."""
        work = enough_for(f"reading {len(sources)} targets side by side", HINT)
        with work, self.saved.network.evaluating():
            batch = self.saved.batch(sources, target_ids, longest)
            return self.saved.network.teacher_force(*batch)

    def _map(
        self, forced: TeacherForced, row: int, source: list[str], target: list[str]
    ) -> AttentionMap:
        """Return the attention in a row of a batch, without what pads it."""
        rows = (row, slice(len(target)), slice(len(source)))

        # Without a likelihood of each position there is no posterior over positions.
        posterior = None
        if self.saved.run.components.marginalization.gives_positions:
            posterior = _array(forced.posterior[rows])

        return AttentionMap(
            label=self.label,
            source=source,
            target=target,
            prior=_array(forced.prior[rows]),
            alignment=_array(forced.alignment[rows]),
            posterior=posterior,
        )

    # Outputs.

    def _prediction(self, hypothesis: Hypothesis, source: Sequence[str]) -> Prediction:
        """Return what a user sees of a decoded hypothesis."""
        output = hypothesis.output
        ids = [symbol for symbol in output.symbols if symbol != STEP]
        symbols = self.saved.target.spell(ids, source)
        if output.complete:
            symbols.append(END)

        return Prediction(
            text=hypothesis.text,
            score=output.score,
            log_prob=output.log_prob,
            complete=output.complete,
            symbols=symbols,
        )

    def _check_details(self, n_best: int | None, changed: Mapping[str, Any]) -> None:
        """Check that details are asked of outputs that can have them."""
        if n_best is None:
            raise UserError("`details` of outputs that are texts", hint="add `n_best=1`")
        if changed.get("latent_samples", self.decoding.latent_samples):
            message = "`details` of outputs of drawn latent vectors"
            raise UserError(message, hint="leave one of them out, or set `latent_samples=0`")
        self._check_writes_symbols()

    def _with_details(
        self,
        sources: Sequence[Sequence[str]],
        hypotheses: Sequence[Sequence[Hypothesis]],
        predictions: Sequence[Sequence[Prediction]],
        settings: Decoding,
    ) -> list[list[Prediction]]:
        """Add log p, attention and what was copied to predictions, by reading them again."""
        rows = [
            (source, hypothesis.output.symbols, prediction)
            for source, of_source, predicted in zip(sources, hypotheses, predictions, strict=True)
            for hypothesis, prediction in zip(of_source, predicted, strict=True)
        ]
        detailed: list[Prediction] = []
        for first in range(0, len(rows), settings.batch_size):
            batch = rows[first : first + settings.batch_size]
            forced = self._forced(
                [source for source, *_ in batch],
                [ids for _, ids, _ in batch],
                settings.max_source,
            )
            for row, (source, _, prediction) in enumerate(batch):
                read = self.saved.spelled(source, settings.max_source)
                symbols = slice(len(prediction.symbols))
                copied = None
                if forced.copied is not None:
                    copied = _array(forced.copied[row, symbols])
                detailed.append(
                    replace(
                        prediction,
                        log_probs=_array(forced.log_probs[row, symbols]),
                        attention=self._map(forced, row, read, prediction.symbols),
                        copied=copied,
                    )
                )

        in_order = iter(detailed)
        return [[next(in_order) for _ in predicted] for predicted in predictions]

    # Texts and settings.

    def _source_symbols(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """Split typed sources into symbols; an error names a source by its number."""
        codec = self.saved.codec
        symbols: list[Sequence[str]] = []
        for number, text in enumerate(texts):
            with _naming("source", number, text):
                symbols.append(codec.source_symbols(codec.typed_source(text)))
        return symbols

    def _target_symbols(self, texts: Sequence[str]) -> list[list[str]]:
        """Split typed targets into symbols; an error names a target by its number."""
        codec = self.saved.codec
        symbols = []
        for number, text in enumerate(texts):
            with _naming("target", number, text):
                symbols.append(codec.target_symbols(codec.typed_target(text)))
        return symbols

    def _sampling(self, sample: bool | None, given: Mapping[str, Any]) -> Sampling | None:
        """Return how outputs are drawn, or None where they are searched for."""
        sampling = None
        if sample:
            sampling = Sampling()
        elif sample is None:
            sampling = sampling_of(self.decoding, self.config.seed)

        changed = {name: value for name, value in given.items() if value is not None}
        if sampling is None:
            if changed:
                hint = "add `sample=True`, or leave it out"
                raise UserError(f"`{next(iter(changed))}` is for outputs that are drawn", hint=hint)
            return None
        return replace(sampling, **changed)

    def _settings(self, changed: dict[str, Any], is_drawn: bool) -> Decoding:
        """Return the settings of a search with some of them changed, and its length penalty."""
        for name in changed:
            if name in OF_EXPERIMENTS:
                raise UserError(f"`{name}` is for experiments", hint=OF_EXPERIMENTS[name])
            if is_drawn and name in OF_SEARCH:
                hint = "leave it out, or search with `sample=False`"
                raise UserError(f"outputs that are drawn have no `{name}`", hint=hint)

        # Candidates for a length penalty exclude one that is given.
        values = self.decoding.model_dump() | {"length_penalties": []} | changed
        settings = parse(Decoding, values)
        candidates = self.decoding.length_penalties
        if not candidates or is_drawn or "length_penalty" in changed:
            return settings

        asked = settings.model_copy(update={"length_penalties": candidates})
        penalty = chosen_penalty(self.run, self.choices, asked, settings.beam)
        return settings.model_copy(update={"length_penalty": penalty})

    def _check_writes_symbols(self) -> None:
        """Check that the model writes symbols, so that a text can be forced upon it."""
        if self.saved.run.components.targets == "actions":
            raise UserError(
                f"{self.label} writes pointer actions, which a text does not contain",
                hint="choose a model with `targets: symbols`",
            )


def load(
    name: str | Path, device: str | torch.device = "cpu", *, sha256: str | None = None
) -> TrainedModel:
    """Load a trained model into memory.

    Args:
        name: a run's folder, a model folder, an exported file or folder, `pretrained:NAME`, or the
            address of an exported file, by https, http or file.
        device: `auto`, or any device that torch knows by name, such as `cpu` or `cuda:1`; `auto` is
            CUDA where there is one, else the CPU.
        sha256: the SHA-256 that an exported file must have; an address needs it. The file of an
            address is not kept.

    Raises:
        UserError: there is no such model, its file has another hash, its files are damaged, or the
            device cannot be used.

    Example:
        >>> load("pretrained:nouns/postr-joint")
        TrainedModel('Postr-Joint', task='inflection', parameters=330,817)

        A file that `pam export` wrote is read wherever it lies:

        >>> import pam
        >>> from pathlib import Path
        >>> file = Path(pam.__file__).parent / "pretrained/phrases/postr-joint.pam"
        >>> load(file).predict("Am 14. Mai waren es 5 Grad Celsius in Irland.")
        'It was 5 degrees Celsius in Ireland on May 14.'
    """
    chosen_device = usable_device(device)
    # Random numbers go on as if there were no model: its first weights are drawn, and replaced.
    with opened(name, sha256) as folder, torch.random.fork_rng(devices=[]):
        saved = load_model(folder, chosen_device)
        choices = exported_choices(folder)

    run = RunFolder(Path(name))
    if folder != run.model:
        return TrainedModel(saved, config=saved.run, choices=choices)

    # A run that was only trained has no run.yaml.
    config = saved.run
    if run.config_file.is_file():
        config = run.load()
    return TrainedModel(saved, config=config, run=run)


def _listed(texts: Any, name: str) -> list[str]:
    """Return one text or several as a list."""
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, Iterable):
        message = f"`{name}` is of type {type(texts).__name__}"
        raise UserError(message, hint="give a text, or a list of texts")
    return list(texts)


def _listed_pairs(sources: Any, targets: Any) -> tuple[list[str], list[str]]:
    """Return sources and targets as lists of the same length, of one text each or several."""
    source_texts = _listed(sources, "sources")
    target_texts = _listed(targets, "targets")
    hint = "give one target for each source"
    if isinstance(sources, str) != isinstance(targets, str):
        raise UserError("a single text and a list of texts", hint=hint)
    if len(source_texts) != len(target_texts):
        message = f"{len(source_texts)} sources and {len(target_texts)} targets"
        raise UserError(message, hint=hint)
    return source_texts, target_texts


@contextmanager
def _naming(side: str, number: int, text: object) -> Iterator[None]:
    """Check that a source or target is a text; name it by its number in all errors about it."""
    try:
        if not isinstance(text, str):
            message = f"expected a text, got {type(text).__name__}"
            raise UserError(message, hint="give each of them as a string")
        yield
    except UserError as error:
        raise UserError(f"{side} {number}: {error.message}", hint=error.hint) from error


def _warn(texts_of_sources: Iterable[Sequence[str]]) -> None:
    """Warn of what is to be said of sources, by their numbers, in one warning."""
    messages = [
        f"source {number}: {text}"
        for number, texts in enumerate(texts_of_sources)
        for text in texts
        if text
    ]
    if not messages:
        return

    lines = messages[:MOST_TOLD]
    if len(messages) > MOST_TOLD:
        lines.append(f"and {len(messages) - MOST_TOLD} more")
    warnings.warn("; ".join(lines), InputWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the `stacklevel` by which a warning names the line that called the library."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
        level += 1
    return level


def _array(values: Tensor) -> Floats:
    """Return a tensor's values as a NumPy array of float64."""
    return values.detach().double().cpu().numpy()
