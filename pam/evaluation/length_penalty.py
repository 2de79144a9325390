"""Choice of a run's length penalty: the candidate that translates the development split best."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from shlex import quote

import numpy as np
from pydantic import Field

from pam.decoding.generator import HINT, Generator, prepared_for
from pam.evaluation.inputs import EvalInputs
from pam.evaluation.metrics import metric_of
from pam.evaluation.records import load
from pam.experiments.parsing import Strict
from pam.experiments.run_folder import RunFolder
from pam.experiments.settings import Decoding
from pam.runtime.devices import enough_for
from pam.runtime.errors import UserError
from pam.runtime.files import whole_files
from pam.tasks.translation.counts import Target, read_other_references, sacre_metrics, statistics

SPLIT = "dev"
# name of the file with a beam's choice in an exported model
EXPORTED = re.compile(r"length_penalty\.beam\d+\.json")


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
    """Choose a length penalty by BLEU on the development split of prepared `data`.

    One search gives the outputs of all of the generator's `penalties`. Of equally good candidates
    the lowest is chosen.

    Raises:
        UserError: there are no candidates, the data are not the model's or of another kind of
            task, or memory is short.
    """
    decoding = generator.decoding
    if not generator.penalties:
        raise UserError(
            "no length penalties to choose from", hint="list some in `decoding.length_penalties`"
        )

    prepared = prepared_for(generator.model, data, SPLIT)
    rows = prepared.rows(SPLIT)
    references = [row[-1] for row in rows]
    with enough_for(f"the decoding of {decoding.batch_size} sources side by side", HINT):
        outputs = generator([prepared.codec.source_symbols(row[:-1]) for row in rows])
    further = read_other_references(EvalInputs(data=data, split=SPLIT)).words
    all_references = [*references, *chain.from_iterable(further)]
    metric = sacre_metrics(Target.of(prepared, all_references), all_references)["bleu"]

    candidates = []
    for index, penalty in enumerate(generator.penalties):
        texts = [hypotheses[index].target for hypotheses in outputs]
        # sacreBLEU puts lengths before n-grams, our BLEU after them.
        counts = statistics(metric, texts, references, further).sum(axis=0)
        output_length, reference_length, *ngrams = counts
        sums = np.array([*ngrams, output_length, reference_length])
        candidates.append(
            Candidate(
                length_penalty=penalty,
                bleu=float(metric_of("bleu").value(sums)),
                length_ratio=float(output_length / reference_length),
            )
        )
    best = max(candidates, key=lambda candidate: (candidate.bleu, -candidate.length_penalty))

    return Choice(
        beam=decoding.beam,
        length_penalty_form=decoding.length_penalty_form,
        chosen=best.length_penalty,
        candidates=candidates,
    )


def exported_choices(model_folder: Path) -> dict[int, Choice]:
    """Read what was chosen for each beam of an exported model; other models have nothing there."""
    files = [file for file in whole_files(model_folder) if EXPORTED.fullmatch(file.name)]
    choices = [load(Choice, file) for file in files]
    return {choice.beam: choice for choice in choices}


def chosen_penalties(run: RunFolder) -> dict[int, Choice]:
    """Read what was chosen for each beam of a run."""
    files = sorted(run.path.glob("beam*/length_penalty.json"))
    choices = [load(Choice, file) for file in files]
    return {choice.beam: choice for choice in choices}


def chosen_penalty(
    run: RunFolder | None, exported: Mapping[int, Choice], decoding: Decoding, beam: int
) -> float:
    """Return the length penalty that was chosen for a run, or an exported model, and a beam.

    Args:
        run: the run's folder; None: the model lies by itself.
        exported: the choices for each beam that an exported model brings.
        decoding: the settings of the search, with the candidates.

    Raises:
        UserError: none was chosen, or it was chosen out of other candidates than those of
            `decoding`.
    """
    give = "give --length-penalty, in Python `length_penalty=`"
    path = None
    if run is None:
        if beam not in exported:
            raise UserError(
                "a model by itself does not say which length penalty was chosen for it with a beam"
                f" of {beam}",
                hint=f"name the run with --run, or {give}",
            )
        choice = exported[beam]
        hint = f"export the run's model again, or {give}"
    else:
        path = run.length_penalty(beam)
        command = f"pam length-penalty --run {quote(str(run.path))} --beam {beam}"
        hint = f"choose it: `{command}`; or {give}"
        if not path.is_file():
            raise UserError("no length penalty was chosen", file=path, hint=hint)
        choice = load(Choice, path)

    penalties = [candidate.length_penalty for candidate in choice.candidates]
    same_form = choice.length_penalty_form == decoding.length_penalty_form
    if penalties != decoding.length_penalties or not same_form:
        raise UserError(
            "this length penalty was chosen from other candidates", file=path, hint=hint
        )
    return choice.chosen


def exported_choice(beam: int | str) -> str:
    """Return the name of the file with a beam's choice in an exported model."""
    return f"length_penalty.beam{beam}.json"
