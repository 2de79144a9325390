"""A run's length penalty: of several candidates the one with which it translates the development
split best.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from pam.config import Decoding
from pam.decoding.generator import HINT, Generator, prepared_for
from pam.evaluation.inputs import EvalInputs, load
from pam.evaluation.metrics import metric_of
from pam.evaluation.translation import (
    read_other_references,
    sacre_metrics,
    statistics,
    target_language,
)
from pam.io import Strict, UserError
from pam.run_folder import RunFolder
from pam.runtime.devices import enough_for

SPLIT = "dev"


class Candidate(Strict):
    """One length penalty and what it gives on the development split."""

    length_penalty: float
    bleu: float = Field(description="0 to 100, as in the scores of the test split")
    length_ratio: float = Field(description="words of all outputs over words of all references")


class Choice(Strict):
    """The content of `length_penalty.json`."""

    beam: int
    length_penalty_form: str
    chosen: float
    candidates: list[Candidate] = Field(description="in the configuration's order")


def choose(generator: Generator, data: Path) -> Choice:
    """Translates the development split of prepared `data`, with each of the generator's `penalties`
    by one search.

    Of equally good candidates the lowest is chosen. A UserError says that there are none, that the
    data are not the model's or of another kind of task, or that memory is short.
    """
    penalties, decoding, model = generator.penalties, generator.decoding, generator.model
    if not penalties:
        raise UserError(
            "no length penalties to choose from", hint="list some in `decoding.length_penalties`"
        )
    prepared = prepared_for(model, data, SPLIT)
    rows = prepared.rows(SPLIT)
    metric = sacre_metrics(target_language(prepared), [row[-1] for row in rows])["bleu"]
    with enough_for(f"the decoding of {decoding.batch_size} sources side by side", HINT):
        outputs = generator([prepared.codec.source_symbols(row[:-1]) for row in rows])
    others = read_other_references(EvalInputs(data=data, split=SPLIT)).words
    candidates, references = [], [row[-1] for row in rows]
    for place, penalty in enumerate(penalties):
        counted = statistics(
            metric, [found[place].target for found in outputs], references, others
        ).sum(axis=0)
        length, words, *ngrams = counted
        bleu = float(metric_of("bleu").value(np.array([*ngrams, length, words])))
        candidates.append(
            Candidate(length_penalty=penalty, bleu=bleu, length_ratio=float(length / words))
        )
    best = max(candidates, key=lambda one: (one.bleu, -one.length_penalty))
    form = decoding.length_penalty_form
    return Choice(
        beam=decoding.beam,
        length_penalty_form=form,
        chosen=best.length_penalty,
        candidates=candidates,
    )


def chosen_penalty(folder: RunFolder | None, decoding: Decoding, beam: int) -> float:
    """The length penalty that was chosen for a run and a beam out of the candidates of its
    `decoding`.

    A UserError says that none was, or that it was out of other candidates.
    """
    if folder is None:
        hint = "name the run with --run, or give --length-penalty"
        raise UserError(
            "a model by itself does not say which length penalty was chosen for it", hint=hint
        )
    path = folder.length_penalty(beam)
    hint = (
        f"choose it: python -m pam length-penalty --run {folder.path} --beam {beam}; or give"
        " --length-penalty"
    )
    if not path.is_file():
        raise UserError("no length penalty was chosen", file=path, hint=hint)
    found = load(Choice, path)
    known = [one.length_penalty for one in found.candidates], found.length_penalty_form
    if known != (decoding.length_penalties, decoding.length_penalty_form):
        raise UserError(
            "this length penalty was chosen out of other candidates", file=path, hint=hint
        )
    return found.chosen
