"""Outputs of a trained model, for a prepared split or for what a person types."""

from __future__ import annotations

import io
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pam.config import Decoding
from pam.data.tokenizers import Codec
from pam.decoding.generator import Generator, Hypothesis, prepared_for
from pam.decoding.sampling import Sampling
from pam.io import UserError, write_json, write_text
from pam.training.devices import enough_for
from pam.training.logging import Stopwatch, hardware

HINT = "lower `decoding.batch_size`, or the beam"
MOST_UNSEEN = 100
"""Symbols that the record of a decoding counts one by one."""
REPORT_EVERY_S = 20.0
log = logging.getLogger(__name__)


def predict_split(
    generator: Generator, data: Path, split: str, out: Path, record: Path | None, n_best: int = 1
) -> None:
    """Decodes a split of prepared data.

    Args:
        out: tab-separated lines, one for each output.
        record: JSON with the cost and with what the decoding was like; None: is not written.

    Raises:
        UserError: the data are not the model's, or memory is short.
    """
    model = generator.model
    rows = prepared_for(model, data).rows(split)
    sources = [model.codec.source_symbols(row[:-1]) for row in rows]
    device = next(model.network.parameters()).device
    watch = Stopwatch(device)
    size = generator.decoding.batch_size
    with enough_for(f"the decoding of {size} sources side by side", HINT):
        outputs = generator(sources, 0, _progress(len(sources)))
    wall, cpu, gpu = watch.restart()
    write_text(out, _table(model.codec, rows, outputs, ranked=n_best > 1))
    if record is not None:
        cost = {"wall_s": wall, "cpu_s": cpu, "gpu_s": gpu}
        best = [found[0] for found in outputs]
        unseen = Counter(symbol for source in sources for symbol in generator.unseen(source))
        drawn = {} if generator.sampling is None else {"sampling": vars(generator.sampling)}
        machine = {"device": str(device), "hardware": hardware(device)}
        counts = _counts(generator.decoding, best, unseen, wall)
        write_json(record, cost | counts | drawn | machine)


def predict_lines(generator: Generator, n_best: int) -> None:
    """Decodes each line of standard input as it comes; a faulty line ends it by name.

    One line gives one line, and a blank one a blank one; several outputs of a line are on lines
    of their own, after the line's number, the rank and the score.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            source = _typed_source(line, number, generator.model.codec)
            _answer_line(generator, number, source, n_best)
        elif n_best == 1:
            sys.stdout.write("\n")
        sys.stdout.flush()


def _answer_line(generator: Generator, number: int, source: list[str], n_best: int) -> None:
    unseen = generator.unseen(source)
    if unseen:
        sys.stderr.write(f"line {number}: not seen in training: {' '.join(unseen)}\n")
    (outputs,) = generator([source], number)
    for rank, output in enumerate(outputs, 1):
        if not output.complete:
            sys.stderr.write(f"line {number}: cut short at {output.symbols} symbols\n")
        place = f"{number}\t{rank}\t{output.score:.4f}\t" if n_best > 1 else ""
        sys.stdout.write(f"{place}{output.text}\n")


def _typed_source(line: bytes, number: int, codec: Codec) -> list[str]:
    """Symbols of the source that a line is.

    Raises:
        UserError: it is none; names the line.
    """
    place: dict[str, Any] = {"file": "standard input", "line": number}
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError("not UTF-8 text", **place, hint="type or save it as UTF-8") from error
    try:
        return codec.source_symbols(codec.typed_source(text.rstrip("\r\n")))
    except UserError as error:
        raise UserError(error.message, **place, hint=error.hint) from error


def sampling_of(decoding: Decoding, seed: int) -> Sampling | None:
    """How a run's outputs are drawn, if its `temperature` says that they are."""
    temperature = decoding.temperature
    return None if temperature is None else Sampling(temperature, seed)


def _table(codec: Codec, rows: Sequence[tuple[str, ...]], outputs: Sequence[Sequence[Hypothesis]], ranked: bool) -> str:
    """Tab-separated lines, one for each output; with ranks and scores where there are several."""
    ranks = ("rank", "score") if ranked else ()
    lines = ["\t".join([*codec.columns, "predicted", "log_prob", "text", *ranks])]
    for row, found in zip(rows, outputs, strict=True):
        for rank, output in enumerate(found, 1):
            cells = [*row, output.target, f"{output.log_prob:.6f}", output.text]
            lines.append("\t".join(cells + [str(rank), f"{output.score:.6f}"][: len(ranks)]))
    return "\n".join(lines) + "\n"


def _counts(decoding: Decoding, best: Sequence[Hypothesis], unseen: Counter[str], wall: float) -> dict[str, Any]:
    """What a decoding was like, by the best output of each source."""
    symbols = sum(output.symbols + output.complete for output in best)
    names = ("beam", "length_penalty", "length_prior", "replace_unknown")
    return {
        "sentences_per_second": len(best) / wall,
        "symbols_per_second": symbols / wall,
        "sentences": len(best),
        **{name: getattr(decoding, name) for name in names},
        "cut_short": sum(not output.complete for output in best),
        "empty": sum(not output.target for output in best),
        "unknown": sum(output.unknown for output in best),
        "replaced": sum(output.replaced for output in best),
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
