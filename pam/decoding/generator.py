"""Text from a trained model: for sources in batches, a prepared split, or what a person types."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pam.data.codecs import Codec
from pam.data.dataset import Prepared, Split, padded
from pam.data.lengths import PairLengths, following, longest_outputs
from pam.data.text_files import Line, check_encoding, cleaned, refuse_markup
from pam.data.vocabulary import SPECIALS, UNK, Vocabulary
from pam.decoding import protections
from pam.decoding.constraints import Constraint, Constraints
from pam.decoding.hypotheses import LENGTHS, LengthPrior, Output
from pam.decoding.protections import Decoded, told_of_line
from pam.decoding.search import Sampling, beam_search, sample
from pam.experiments.run_folder import UNPENALIZED
from pam.experiments.settings import Decoding
from pam.models.checkpoint import SavedModel
from pam.models.ensemble import Ensemble
from pam.models.interfaces import Latent
from pam.models.latents import NoLatent
from pam.models.model import Model
from pam.runtime import processor
from pam.runtime.devices import Stopwatch, enough_for, hardware
from pam.runtime.errors import UserError
from pam.runtime.files import write_json, write_text
from pam.runtime.numbers import is_whole

HINT = "lower `decoding.batch_size`, or the beam"
MOST_UNSEEN = 100  # symbols that the record of a decoding counts one by one
REPORT_EVERY_S = 20.0
# of draws of latent vectors: the same sources in the same batches give the same outputs
SEED = 2019
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hypothesis:
    """One output as text."""

    target: str  # a target column as prepared data has it
    text: str  # the same for people to read
    output: Output  # its symbols, pointer steps included
    replaced: int  # how many unknown ones became source words


class Generator:
    """A model that writes text: from sources as symbols to outputs as text.

    Each source has `n_best` outputs, the best ones, or drawn by `sampling`. With several length
    `penalties` it has the best output by each of them. A UserError names settings that this model,
    or this beam, does not allow.
    """

    def __init__(
        self,
        model: SavedModel,
        decoding: Decoding,
        n_best: int = 1,
        sampling: Sampling | None = None,
        penalties: Sequence[float] = (),
    ) -> None:
        self.model = model
        self.n_best = n_best
        self.sampling = sampling
        self.penalties = penalties
        self.actions = model.run.components.targets == "actions"
        device = next(model.network.parameters()).device
        self.precision = processor.usable_search_precision(decoding.precision, device)
        if self.precision != decoding.precision:
            log.info(f"precision of search: {self.precision} ({processor.try_bfloat16().reason})")

        if not is_whole(n_best) or n_best < 1:
            message = f"{n_best} outputs of each source"
            raise UserError(message, hint="use a whole number, at least 1")
        if sampling is None and n_best > decoding.beam:
            raise UserError(
                f"{n_best} outputs of a beam of {decoding.beam}",
                hint=f"widen the beam to {n_best} or more, or sample outputs",
            )
        if decoding.replace_unknown and model.codec.units:
            raise UserError(
                "frames cannot replace unknown words",
                hint="set decoding.replace_unknown to false",
            )

        # Pairs of training decide the limit of length, unless it is given.
        if model.lengths is not None:
            decoding = following(decoding, model.lengths.pairs(model.source_eos, self.actions))
        self.decoding = decoding

        self.prior: LengthPrior | None = None
        if decoding.length_prior > 0 and sampling is None:
            if self.actions:
                raise UserError(
                    f"{model.run.label} writes pointer actions, whose number has no prior",
                    hint="set decoding.length_prior to 0",
                )
            if model.lengths is None:
                raise UserError(
                    f"{model.run.label} has no table of lengths, {LENGTHS}",
                    hint="copy the whole model folder again, or set decoding.length_prior to 0",
                )
            self.prior = model.lengths

    def __call__(
        self,
        sources: Sequence[Sequence[str]],
        first: int = 0,
        on_progress: Callable[[int], None] = lambda _: None,
        constraints: Sequence[Constraint] = (),
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each source, which is symbols without an end symbol.

        The other arguments are those of `decode`.
        """
        continues = None
        if constraints:
            continues = self._continues()
        outputs_of_sources = decode(
            self.model.network,
            [self.model.read(source) for source in sources],
            self.decoding,
            self.actions,
            n_best=self.n_best,
            prior=self.prior,
            penalties=self.penalties,
            sampling=self.sampling,
            first=first,
            on_progress=on_progress,
            constraints=constraints,
            continues=continues,
        )
        return [
            [self._hypothesis(output, source) for output in outputs]
            for source, outputs in zip(sources, outputs_of_sources, strict=True)
        ]

    def _continues(self) -> Tensor:
        """Return which target symbols (V,) go on in the next symbol, as subwords of a word do."""
        codec = self.model.codec
        continues = [False] * len(SPECIALS)
        for symbol in self.model.target.symbols:
            first, second = codec.words([symbol, symbol], "target")
            continues.append(first == second)
        return torch.tensor(continues)

    def _hypothesis(self, output: Output, source: Sequence[str]) -> Hypothesis:
        """Write an output as text."""
        codec = self.model.codec
        symbols, replaced = detokenize(output, self.model.target, source, codec)
        target = codec.target_text(symbols)
        return Hypothesis(target, codec.readable(target), output, replaced)

    def decoded(
        self,
        source: Sequence[str],
        hypothesis: Hypothesis,
        *,
        unread: int = 0,
        reference: int | None = None,
    ) -> Decoded:
        """Return a source and an output of it as protections look at them.

        Args:
            unread: symbols at the end of the source that its codec has left out.
            reference: symbols of the reference, its end symbol included.
        """
        length = len(source) + self.model.source_eos
        longest = self.decoding.max_source or length
        written = None
        if reference is not None:
            pair = PairLengths.written(np.array([length]), np.array([reference]), self.actions)
            written = int(pair.target[0])

        return Decoded(
            source=length + unread,
            read=min(length, longest),
            unseen=self.model.unseen(source),
            limit=int(longest_outputs(np.array([length]), self.decoding)[0]),
            symbols=hypothesis.output.symbols,
            complete=hypothesis.output.complete,
            text=hypothesis.target,
            reference=written,
        )

    def told(
        self, source: Sequence[str], hypotheses: Sequence[Hypothesis], unread: int
    ) -> list[str]:
        """Return what a person who typed a source should know of its outputs, each once."""
        texts: dict[str, None] = {}
        for hypothesis in hypotheses:
            decoded = self.decoded(source, hypothesis, unread=unread)
            texts |= dict.fromkeys(told_of_line(decoded))
        return list(texts)


def check_none_empty(sources: Sequence[Tensor], first: int) -> None:
    """Check that each source, as `SavedModel.read` gives it, has something to attend to.

    A UserError names the first that has not; `first` is the number of the first source.
    """
    for number, source in enumerate(sources, first):
        if len(source) == 0:
            message = f"source {number} is empty, and this model attends to no end symbol"
            raise UserError(message, hint="leave it out")


def decode(
    model: Model,
    sources: Sequence[Tensor],
    decoding: Decoding,
    actions: bool = False,
    *,
    n_best: int = 1,
    prior: LengthPrior | None = None,
    penalties: Sequence[float] = (),
    sampling: Sampling | None = None,
    first: int = 0,
    on_progress: Callable[[int], None] = lambda _: None,
    constraints: Sequence[Constraint] = (),
    continues: Tensor | None = None,
) -> list[list[Output]]:
    """Decode sources of any length, similar lengths side by side.

    Args:
        model: in evaluation mode.
        sources: as `SavedModel.read` gives them.
        decoding: beam, ranking, limits, and how many are decoded side by side.
        actions: whether the model writes pointer actions.
        n_best: how many outputs each source has.
        prior: of target lengths, for `decoding.length_prior`.
        penalties: as `beam_search` takes them.
        sampling: draws outputs instead of searching for the best.
        first: number of the first source; sampling depends on a source's number.
        on_progress: called after each batch with the number of sources that are done.
        constraints: what the outputs of each source must be like; none: anything.
        continues: as `Constraints` has it.

    Returns:
        For each source, in the order given, its `n_best` outputs: the best first, or as drawn; or
        one for each of `penalties`. A UserError names a source of which nothing is left to attend
        to, or whose constraint no output meets.
    """
    check_none_empty(sources, first)
    _check_constraints(sources, constraints, decoding, sampling, first)
    device = next(model.parameters()).device
    # Sources of similar lengths need little padding.
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    outputs: dict[int, list[Output]] = {}

    for start in range(0, len(order), decoding.batch_size):
        rows = order[start : start + decoding.batch_size]
        read = [sources[row][: decoding.max_source] for row in rows]
        source = padded(read).to(device)
        lengths = torch.tensor([len(symbols) for symbols in read], device=device)
        asked = None
        if constraints:
            asked = Constraints.of([constraints[row] for row in rows], continues, device)

        with sampling_latents(model, decoding.latent_samples) as network:
            if sampling is None:
                outputs_of_rows = beam_search(
                    network,
                    source,
                    lengths,
                    decoding,
                    n_best=n_best,
                    actions=actions,
                    prior=prior,
                    penalties=penalties,
                    constraints=asked,
                )
            else:
                outputs_of_rows = sample(
                    network,
                    source,
                    lengths,
                    decoding,
                    sampling,
                    numbers=[first + row for row in rows],
                    n_best=n_best,
                    actions=actions,
                    constraints=asked,
                )
        if constraints:
            _check_found(rows, outputs_of_rows, first)
        outputs |= dict(zip(rows, outputs_of_rows, strict=True))
        on_progress(len(outputs))

    return [outputs[row] for row in range(len(sources))]


def _check_constraints(
    sources: Sequence[Tensor],
    constraints: Sequence[Constraint],
    decoding: Decoding,
    sampling: Sampling | None,
    first: int,
) -> None:
    """Check before any work that constraints can be met; a UserError names the first source."""
    beam = None
    if sampling is None:
        beam = decoding.beam

    for number, (source, constraint) in enumerate(zip(sources, constraints, strict=False), first):
        length = len(source[: decoding.max_source])
        limit = int(longest_outputs(np.array([length]), decoding)[0])
        try:
            constraint.check(limit, beam)
        except UserError as error:
            raise UserError(f"source {number}: {error.message}", hint=error.hint) from error


def _check_found(rows: Sequence[int], outputs: Sequence[Sequence[Output]], first: int) -> None:
    """Check that each source has an output that is possible; a UserError names one without."""
    for row, outputs_of_row in zip(rows, outputs, strict=True):
        if not all(np.isfinite(output.log_prob) for output in outputs_of_row):
            message = f"source {first + row}: no output with all that it must have was found"
            hint = "widen the beam, raise `max_length` or `max_extra`, or ask for less"
            raise UserError(message, hint=hint)


@contextmanager
def sampling_latents(model: Model, samples: int) -> Iterator[Model]:
    """Let a model write by the mean distribution of several draws of its latent vectors.

    Each of the `samples` goes on with vectors of its own. Where the model has no latent vectors, or
    for no draws, it is the model itself.
    """
    latents = [
        part
        for part in model.modules()
        if isinstance(part, Latent) and not isinstance(part, NoLatent)
    ]
    if samples == 0 or not latents:
        yield model
        return

    # They are drawn in search too, where they are at their means otherwise.
    for latent in latents:
        latent.sampling = True

    try:
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            # Each copy of the model keeps the vectors that it has drawn.
            yield Ensemble([model] * samples).eval()
    finally:
        for latent in latents:
            latent.sampling = False


def prepared_for(model: SavedModel, folder: Path, split: str) -> Prepared:
    """Open a prepared folder for a model, whose ids have to mean the same there.

    A UserError says that vocabularies differ, or that the sources of the split end otherwise than
    those that the model was trained with.
    """
    data = Prepared(folder)
    for side, vocabulary in (("source", model.source), ("target", model.target)):
        if getattr(data, side).digest != vocabulary.digest:
            raise UserError(
                f"this vocabulary is not the one that {model.run.label} was trained with",
                file=folder / f"{side}.vocab",
                hint="name the prepared data of the model's own task",
            )

    if Split.load(folder, split).source_eos != model.source_eos:
        raise UserError(
            f"{model.run.label} was trained with sources that"
            f" {'end' if model.source_eos else 'do not end'} in an end symbol, but these differ",
            file=folder / f"{split}.safetensors",
            hint=f"prepare the data with `format: {{source_eos: {str(model.source_eos).lower()}}}`",
        )
    return data


def detokenize(
    output: Output, target: Vocabulary, source: Sequence[str], codec: Codec
) -> tuple[list[str], int]:
    """Spell the symbols of an output, without pointer steps.

    Symbols that the source alone has are spelt as there. An unknown symbol becomes the source word
    that was attended most when it was written. Where that was not recorded, or the output was cut
    short right after it, it is written `<unk>`.

    Args:
        source: symbols of the source, without the end symbol.

    Returns:
        The symbols, and how many of them replace unknown ones.
    """
    symbols = []
    replaced = 0

    words = target.spell(output.symbols, source)
    for symbol_id, word, position in zip_longest(output.symbols, words, output.attended):
        # A position beyond the source is that of its end symbol.
        if symbol_id == UNK and position is not None and position < len(source):
            symbols.append(_source_word(source, position, codec))
            replaced += 1
        elif symbol_id == UNK or symbol_id >= len(SPECIALS):
            symbols.append(word)

    return symbols, replaced


def _source_word(source: Sequence[str], position: int, codec: Codec) -> str:
    """Return the whole source word of which the symbol at `position` is a part."""
    word_numbers = codec.words(source, "source")
    parts = [
        symbol
        for symbol, number in zip(source, word_numbers, strict=True)
        if number == word_numbers[position]
    ]
    return codec.target_text(parts)


def predict_split(
    generator: Generator, data: Path, split: str, out: Path, record: Path | None, n_best: int = 1
) -> None:
    """Decode a split of prepared data.

    A UserError says that the data are not the model's, or that memory is short.

    Args:
        out: tab-separated lines, one for each output. With several length penalties, they are the
            outputs by the first one, and a column beside them has those by the last one, which is
            0.
        record: JSON with the cost and with counts of the outputs; None: is not written.
    """
    model = generator.model
    prepared = prepared_for(model, data, split)
    rows = prepared.rows(split)
    sources = [prepared.codec.source_symbols(row[:-1]) for row in rows]

    device = next(model.network.parameters()).device
    watch = Stopwatch(device)
    with enough_for(f"the decoding of {generator.decoding.batch_size} sources side by side", HINT):
        outputs = generator(sources, 0, _progress(len(sources)))
    cost = watch.restart()  # of the decoding alone, not of reading and writing files

    table = _table(model.codec, rows, outputs, ranked=n_best > 1, beside=bool(generator.penalties))
    write_text(out, table)

    best = [hypotheses[0] for hypotheses in outputs]
    references = [len(prepared.codec.target_symbols(row[-1])) + 1 for row in rows]
    decoded = [
        generator.decoded(source, hypothesis, reference=reference)
        for source, hypothesis, reference in zip(sources, best, references, strict=True)
    ]
    counts = protections.counts(decoded)
    for text in protections.in_words(counts):
        log.warning(text)

    if record is not None:
        unseen = Counter(symbol for row in decoded for symbol in row.unseen)
        content = cost | _settings(generator.decoding, best, cost["wall_s"]) | counts
        content["unseen"] = dict(sorted(unseen.most_common(MOST_UNSEEN)))
        if generator.sampling is not None:
            settings = vars(generator.sampling)
            content["sampling"] = {key: v for key, v in settings.items() if v is not None}
        content["device"] = str(device)
        content["hardware"] = hardware(device)
        content["precision"] = generator.precision
        write_json(record, content)


def predict_lines(generator: Generator, n_best: int, each_line: bool = False) -> None:
    """Decode each line of standard input as it comes.

    Where lines are no sources (`by_line` of the codec), all of the input is one source, unless
    `each_line` is set. A UserError names a faulty line.

    One line gives one line, and a blank one a blank one. Several outputs of a line are on lines of
    their own, after the line's number, the rank and the score.
    """
    # Texts are UTF-8, whatever the locale says.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")

    lines: Iterable[bytes] = _ended_lines(sys.stdin.buffer)
    if not (generator.model.codec.by_line or each_line):
        lines = [b" ".join(sys.stdin.buffer.read().splitlines())]

    for number, line in enumerate(lines, 1):
        typed = _typed_source(line, number, generator.model.codec)
        if typed.source:
            _answer_line(generator, number, typed, n_best)
        elif n_best == 1:
            sys.stdout.write("\n")
        sys.stdout.flush()


def _ended_lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines that end with LF or CR LF, or with CR where there is nothing else."""
    for number, line in enumerate(stream, 1):
        if number == 1 and b"\r" in line and b"\n" not in line:
            yield from line.removesuffix(b"\r").split(b"\r")
        else:
            yield line


def _answer_line(generator: Generator, number: int, line: TypedLine, n_best: int) -> None:
    """Write the outputs of a line, and what is to be said of them."""
    (hypotheses,) = generator([line.source], number)
    for text in generator.told(line.source, hypotheses, line.unread):
        sys.stderr.write(f"line {number}: {text}\n")

    for rank, hypothesis in enumerate(hypotheses, 1):
        if n_best > 1:
            sys.stdout.write(f"{number}\t{rank}\t{hypothesis.output.score:.4f}\t")
        sys.stdout.write(f"{hypothesis.text}\n")


@dataclass(frozen=True)
class TypedLine:
    """The source in a line of standard input."""

    source: list[str]  # symbols; none if the line is blank
    unread: int = 0  # symbols at its end that no model reads


def _typed_source(line: bytes, number: int, codec: Codec) -> TypedLine:
    """Return the source in a line.

    A UserError says that it is no source.
    """
    file = Path("standard input")
    # The first line tells the encoding, and may begin with a byte order mark.
    if number == 1:
        check_encoding(line, file)
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            "not UTF-8 text", file=file, line=number, hint="type or save it as UTF-8"
        ) from error
    # A blank line is no source.
    if not cleaned(text):
        return TypedLine([])

    refuse_markup(Line(text, file, number))
    typed = text.rstrip("\r\n")
    try:
        return TypedLine(codec.source_symbols(codec.typed_source(typed)), codec.unread(typed))
    except UserError as error:
        raise UserError(error.message, file=file, line=number, hint=error.hint) from error


def sampling_of(decoding: Decoding, seed: int) -> Sampling | None:
    """Return how a run's outputs are drawn, if its `temperature` says that they are."""
    if decoding.temperature is None:
        return None
    return Sampling(decoding.temperature, seed)


def _table(
    codec: Codec,
    rows: Sequence[tuple[str, ...]],
    outputs: Sequence[Sequence[Hypothesis]],
    ranked: bool,
    beside: bool,
) -> str:
    """Return tab-separated lines, one for each output.

    With `ranked`, they have ranks and scores. With `beside`, there is one line for each source, of
    its first output, with the last output in a column beside it.
    """
    columns = [*codec.columns, "predicted", "log_prob", "text"]
    if beside:
        columns.append(UNPENALIZED)
    elif ranked:
        columns += ["rank", "score"]

    lines = ["\t".join(columns)]
    for row, hypotheses in zip(rows, outputs, strict=True):
        listed = hypotheses[:1] if beside else hypotheses
        for rank, hypothesis in enumerate(listed, 1):
            output = hypothesis.output
            cells = [*row, hypothesis.target, f"{output.log_prob:.6f}", hypothesis.text]
            if beside:
                cells.append(hypotheses[-1].target)
            elif ranked:
                cells += [str(rank), f"{output.score:.6f}"]
            lines.append("\t".join(cells))

    return "\n".join(lines) + "\n"


def _settings(decoding: Decoding, best: Sequence[Hypothesis], wall: float) -> dict[str, Any]:
    """Return the speed and the settings of a decoding, by each source's best output."""
    outputs = [hypothesis.output for hypothesis in best]
    symbols = sum(len(output.symbols) + output.complete for output in outputs)

    return {
        "sentences_per_second": len(best) / wall,
        "symbols_per_second": symbols / wall,
        "beam": decoding.beam,
        "length_penalty": decoding.length_penalty,
        "length_penalties": decoding.length_penalties,
        "length_penalty_form": decoding.length_penalty_form,
        "length_prior": decoding.length_prior,
        "max_ratio": decoding.max_ratio,
        "max_extra": decoding.max_extra,
        "max_length": decoding.max_length,
        "replace_unknown": decoding.replace_unknown,
        "replaced": sum(hypothesis.replaced for hypothesis in best),
    }


def _progress(total: int) -> Callable[[int], None]:
    """Return a function that logs now and then how many sources are done, and how long is left."""
    began = last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        now = time.monotonic()

        if now - last >= REPORT_EVERY_S:
            last = now
            left = (now - began) * (total - done) / done
            log.info("decoded %d of %d, about %.0f s to go", done, total, left)

    return report
