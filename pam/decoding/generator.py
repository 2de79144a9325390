"""Text from a trained model: any number of sources in batches, a prepared split, or what a person
types.
"""

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

import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.dataset import Prepared, Split, padded
from pam.data.text_files import Line, check_encoding, cleaned, refuse_markup
from pam.data.tokenizers import Codec
from pam.data.vocabulary import SPECIALS, UNK, Vocabulary
from pam.decoding.hypotheses import LENGTHS, LengthPrior, Output
from pam.decoding.search import Sampling, beam_search, sample
from pam.io import UserError, write_json, write_text
from pam.models.checkpoint import SavedModel
from pam.models.ensemble import Ensemble
from pam.models.interfaces import Latent
from pam.models.latents import NoLatent
from pam.models.model import Model
from pam.run_folder import UNPENALIZED
from pam.runtime import processor
from pam.runtime.devices import Stopwatch, enough_for, hardware

HINT = "lower `decoding.batch_size`, or the beam"
MOST_UNSEEN = 100  # symbols that the record of a decoding counts one by one
REPORT_EVERY_S = 20.0
SEED = (
    2019  # of draws of latent vectors: the same sources in the same batches give the same outputs
)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hypothesis:
    """One output as text."""

    target: str  # a target column as prepared data has it
    text: str  # the same for people to read
    output: Output  # its symbols, pointer steps included
    replaced: int  # how many unknown ones became source words


class Generator:
    """Sources as symbols to `n_best` outputs each as text, the best, or drawn by `sampling`; or to
    the best output by each of several length `penalties`.

    The model was read from `folder`, which holds its table of lengths. A UserError names settings
    that this model, or this beam, does not allow.
    """

    def __init__(
        self,
        model: SavedModel,
        folder: Path,
        decoding: Decoding,
        n_best: int = 1,
        sampling: Sampling | None = None,
        penalties: Sequence[float] = (),
    ) -> None:
        self.model, self.decoding, self.n_best, self.sampling = model, decoding, n_best, sampling
        self.penalties = penalties
        self.actions = model.run.components.targets == "actions"
        device = next(model.network.parameters()).device
        self.precision = processor.usable_search_precision(decoding.precision, device)
        if self.precision != decoding.precision:
            log.info(f"precision of search: {self.precision} ({processor.try_bfloat16().reason})")
        if sampling is None and n_best > decoding.beam:
            raise UserError(
                f"{n_best} outputs of a beam of {decoding.beam}",
                hint=f"widen the beam to {n_best} or more, or draw outputs with --sample",
            )
        if decoding.replace_unknown and model.codec.units:
            raise UserError(
                "frames cannot take the place of unknown words",
                hint="set decoding.replace_unknown to false",
            )
        self.prior: LengthPrior | None = None
        if decoding.length_prior > 0 and sampling is None:
            if self.actions:
                raise UserError(
                    f"{model.run.label} writes pointer actions, whose number has no prior",
                    hint="set decoding.length_prior to 0",
                )
            self.prior = LengthPrior.load(folder / LENGTHS)

    def __call__(
        self,
        sources: Sequence[Sequence[str]],
        first: int = 0,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> list[list[Hypothesis]]:
        """For each source, symbols without an end symbol, its outputs; the other arguments are
        those of `decode`.
        """
        read = [self.model.read(source) for source in sources]
        found = decode(
            self.model.network,
            read,
            self.decoding,
            self.actions,
            n_best=self.n_best,
            prior=self.prior,
            penalties=self.penalties,
            sampling=self.sampling,
            first=first,
            on_progress=on_progress,
        )
        pairs = zip(sources, found, strict=True)
        return [
            [self._hypothesis(output, source) for output in outputs] for source, outputs in pairs
        ]

    def _hypothesis(self, output: Output, source: Sequence[str]) -> Hypothesis:
        codec = self.model.codec
        symbols, replaced = detokenize(output, self.model.target, source, codec)
        target = codec.target_text(symbols)
        return Hypothesis(target, codec.readable(target), output, replaced)

    def unseen(self, source: Sequence[str]) -> list[str]:
        """Symbols of a source that the model's vocabulary lacks."""
        return self.model.unseen(source)


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
) -> list[list[Output]]:
    """Decodes sources of any length, similar lengths side by side.

    Args:
        model: in evaluation mode; sources: as `SavedModel.read` gives them.
        decoding: beam, ranking, limits, and how many are decoded side by side.
        actions: whether the model writes pointer actions; prior: of target lengths, for
            `decoding.length_prior`.
        penalties: as `beam_search` takes them.
        sampling: draws outputs instead of searching for the best.
        first: number of the first source; sampling depends on a source's number.
        on_progress: called after each batch with the number of sources that are done.

    Returns: For each source, in the order given, its `n_best` outputs: the best first, or as drawn;
        or one for each of
        `penalties`. A UserError names a source of which nothing is left to attend to.
    """
    for number, source in enumerate(sources, first):
        if len(source) == 0:
            message = f"source {number} is empty, and this model attends to no end symbol"
            raise UserError(message, hint="leave it out")
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    outputs: dict[int, list[Output]] = {}
    for start in range(0, len(order), decoding.batch_size):
        rows = order[start : start + decoding.batch_size]
        read = [sources[row][: decoding.max_source] for row in rows]
        batch = (
            padded(read).to(device),
            torch.tensor([len(source) for source in read], device=device),
        )
        with sampling_latents(model, decoding.latent_samples) as one:
            if sampling is None:
                found = beam_search(one, *batch, decoding, n_best, actions, prior, penalties)
            else:
                numbers = [first + row for row in rows]
                found = sample(one, *batch, decoding, sampling, numbers, n_best, actions)
        outputs |= dict(zip(rows, found, strict=True))
        on_progress(len(outputs))
    return [outputs[row] for row in range(len(sources))]


@contextmanager
def sampling_latents(model: Model, samples: int) -> Iterator[Model]:
    """A model as the mean distribution of so many draws of its latent vectors, each of which goes
    on with vectors of its own; the model itself where there are none, or for no draws.
    """
    latents = [
        part
        for part in model.modules()
        if isinstance(part, Latent) and not isinstance(part, NoLatent)
    ]
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


def prepared_for(model: SavedModel, folder: Path, split: str) -> Prepared:
    """A prepared folder whose ids mean to the model what they mean there; a UserError if
    vocabularies differ, or the sources of the split end otherwise than those that the model was
    trained with.
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
            f" {'end' if model.source_eos else 'do not end'} in an end symbol, these are otherwise",
            file=folder / f"{split}.safetensors",
            hint=f"prepare the data with `format: {{source_eos: {str(model.source_eos).lower()}}}`",
        )
    return data


def detokenize(
    output: Output, target: Vocabulary, source: Sequence[str], codec: Codec
) -> tuple[list[str], int]:
    """Symbols of an output, pointer steps left out; those that the source alone has are spelt as
    there.

    An unknown symbol becomes the source word that was attended most when it was written; where that
    was not recorded, or the output was cut short right after it, it is written `<unk>`.

    Args:
        source: symbols of the source, without the end symbol.

    Returns: the symbols, and how many of them replace unknown ones.
    """
    symbols, count = [], 0
    words = target.spell(output.symbols, source)
    for number, word, position in zip_longest(output.symbols, words, output.attended):
        if number == UNK and position is not None and position < len(source):
            # The whole source word of which the symbol at `position` is a part.
            numbers = codec.words(source, "source")
            parts = (
                part for part, own in zip(source, numbers, strict=True) if own == numbers[position]
            )
            symbols.append(codec.target_text(list(parts)))
            count += 1
        elif number == UNK or number >= len(SPECIALS):
            symbols.append(word)
    return symbols, count


def predict_split(
    generator: Generator, data: Path, split: str, out: Path, record: Path | None, n_best: int = 1
) -> None:
    """Decodes a split of prepared data; a UserError if they are not the model's, or memory is
    short.

    Args:
        out: tab-separated lines, one for each output; of several length penalties the first one's,
            with the last
            one's, which is none, as a column beside it.
        record: JSON with the cost and with what the decoding was like; None: is not written.
    """
    model = generator.model
    prepared = prepared_for(model, data, split)
    rows = prepared.rows(split)
    sources = [prepared.codec.source_symbols(row[:-1]) for row in rows]
    device = next(model.network.parameters()).device
    watch = Stopwatch(device)
    with enough_for(f"the decoding of {generator.decoding.batch_size} sources side by side", HINT):
        outputs = generator(sources, 0, _progress(len(sources)))
    cost = watch.restart()
    write_text(out, _table(model.codec, rows, outputs, n_best > 1, bool(generator.penalties)))
    if record is not None:
        best = [found[0] for found in outputs]
        unseen = Counter(symbol for source in sources for symbol in generator.unseen(source))
        drawn = {} if generator.sampling is None else {"sampling": vars(generator.sampling)}
        machine = {"device": str(device), "hardware": hardware(device)}
        counts = _counts(generator.decoding, best, unseen, cost["wall_s"])
        write_json(record, cost | counts | drawn | machine | {"precision": generator.precision})


def predict_lines(generator: Generator, n_best: int, each_line: bool = False) -> None:
    """Decodes each line of standard input as it comes, or all of it at its end where lines are no
    sources (`by_line` of the codec, unless `each_line`); a faulty line ends it by name.

    One line gives one line, and a blank one a blank one; several outputs of a line are on lines of
    their own, after the line's number, the rank and the score.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    lines: Iterable[bytes] = _ended_lines(sys.stdin.buffer)
    if not (generator.model.codec.by_line or each_line):
        lines = [b" ".join(sys.stdin.buffer.read().splitlines())]
    for number, line in enumerate(lines, 1):
        if source := _typed_source(line, number, generator.model.codec):
            _answer_line(generator, number, source, n_best)
        elif n_best == 1:
            sys.stdout.write("\n")
        sys.stdout.flush()


def _ended_lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that end with LF or CR LF, or with CR where there is nothing else."""
    for number, line in enumerate(stream, 1):
        if number == 1 and b"\r" in line and b"\n" not in line:
            yield from line.removesuffix(b"\r").split(b"\r")
        else:
            yield line


def _answer_line(generator: Generator, number: int, source: list[str], n_best: int) -> None:
    unseen = generator.unseen(source)
    if unseen:
        sys.stderr.write(f"line {number}: not seen in training: {' '.join(unseen)}\n")
    (outputs,) = generator([source], number)
    for rank, found in enumerate(outputs, 1):
        if not found.output.complete:
            sys.stderr.write(f"line {number}: cut short at {len(found.output.symbols)} symbols\n")
        place = f"{number}\t{rank}\t{found.output.score:.4f}\t" if n_best > 1 else ""
        sys.stdout.write(f"{place}{found.text}\n")


def _typed_source(line: bytes, number: int, codec: Codec) -> list[str]:
    """Symbols of the source that a line is, none if it shows nothing; a UserError says that it is
    no source.
    """
    place: dict[str, Any] = {"file": "standard input", "line": number}
    if number == 1:
        check_encoding(line, Path(place["file"]))
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError("not UTF-8 text", **place, hint="type or save it as UTF-8") from error
    if not cleaned(text):
        return []
    refuse_markup(Line(text, Path(place["file"]), number))
    try:
        return codec.source_symbols(codec.typed_source(text.rstrip("\r\n")))
    except UserError as error:
        raise UserError(error.message, **place, hint=error.hint) from error


def sampling_of(decoding: Decoding, seed: int) -> Sampling | None:
    """How a run's outputs are drawn, if its `temperature` says that they are."""
    return None if decoding.temperature is None else Sampling(decoding.temperature, seed)


def _table(
    codec: Codec,
    rows: Sequence[tuple[str, ...]],
    outputs: Sequence[Sequence[Hypothesis]],
    ranked: bool,
    beside: bool,
) -> str:
    """Tab-separated lines, one for each output: with ranks and scores where they are `ranked`; or
    the first of each source with the last one `beside` it.
    """
    more = (UNPENALIZED,) if beside else ("rank", "score") if ranked else ()
    lines = ["\t".join([*codec.columns, "predicted", "log_prob", "text", *more])]
    for row, hypotheses in zip(rows, outputs, strict=True):
        for rank, found in enumerate(hypotheses[:1] if beside else hypotheses, 1):
            cells = [*row, found.target, f"{found.output.log_prob:.6f}", found.text]
            last = [hypotheses[-1].target] if beside else [str(rank), f"{found.output.score:.6f}"]
            lines.append("\t".join(cells + last[: len(more)]))
    return "\n".join(lines) + "\n"


def _counts(
    decoding: Decoding, best: Sequence[Hypothesis], unseen: Counter[str], wall: float
) -> dict[str, Any]:
    """What a decoding was like, by the best output of each source."""
    outputs = [found.output for found in best]
    symbols = sum(len(output.symbols) + output.complete for output in outputs)
    penalties = ("length_penalty", "length_penalties", "length_penalty_form", "length_prior")
    names = ("beam", *penalties, "replace_unknown")
    return {
        "sentences_per_second": len(best) / wall,
        "symbols_per_second": symbols / wall,
        "sentences": len(best),
        **{name: getattr(decoding, name) for name in names},
        "cut_short": sum(not output.complete for output in outputs),
        "empty": sum(not found.target for found in best),
        "unknown": sum(output.symbols.count(UNK) for output in outputs),
        "replaced": sum(found.replaced for found in best),
        "unseen": dict(sorted(unseen.most_common(MOST_UNSEEN))),
        "unseen_total": unseen.total(),
    }


def _progress(total: int) -> Callable[[int], None]:
    """Says now and then how many sources are done, and how long the others will take."""
    began = last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPORT_EVERY_S:
            last = now
            left = (now - began) * (total - done) / done
            log.info("decoded %d of %d, about %.0f s to go", done, total, left)

    return report
