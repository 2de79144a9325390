"""Scores of captions against all references of a clip, counted per clip.

CIDEr (Vedantam et al. 2015, its form D) and ROUGE-L are computed as by coco-caption, through the
package pycocoevalcap. BLEU-4 is sacreBLEU's without smoothing, by the reference nearest in length.
METEOR is its authors' program. The words of the task are compared, in small letters and without
punctuation; coco-caption's own tokenizer, which needs Java, splits a few words differently. In a
language without spaces whose words the task's tokenizer does not find, characters are compared.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pam.data.dataset import Prepared
from pam.data.features import Table
from pam.data.languages import language
from pam.data.text_files import read_lines
from pam.evaluation import meteor
from pam.evaluation.compared_text import (
    ComparedText,
    language_seen,
    reference_notes,
    tell_left_out,
    tell_notes,
    tell_outputs,
)
from pam.evaluation.inputs import Counts, EvalInputs, columns_of, read_checked, read_predictions
from pam.evaluation.metrics import (
    ORDERS,
    Floats,
    Units,
    bleu_columns,
    digest_of,
    join,
    names_for_beam,
    numbered,
    of_beam,
)
from pam.runtime.errors import UserError, unknown
from pam.tasks.captioning.codec import CaptioningCodec
from pam.tasks.captioning.metrics import METRICS

NAMES = ("cider", "rouge_coco", "bleu_coco")
METEOR = "meteor_coco"
# column of predictions: the number of the reference, from 1, that an output is a copy of
HELD_OUT = "held_out"
References = list[str]  # of a clip, as scores take them


class Caption(NamedTuple):
    source: str  # the clip
    target: str  # its first reference
    predicted: str


def count(inputs: EvalInputs) -> Counts:
    """Count what metrics need, per clip, for every beam.

    Counts of the main beam are named without a beam. A metric that is not defined for the language
    or for these references is left out, with the reason among the details; so is METEOR where Java
    or its package is missing.

    Raises:
        UserError: a file is missing or faulty, or is about other clips.
    """
    text = compared_text(inputs.prepared)
    captions = chain.from_iterable(read_references(inputs, text))
    seen, notes = language_seen(text.language.code, captions)
    notes += reference_notes(map(text.joined, chain.from_iterable(_stored_references(inputs))))
    text = replace(text, language=seen)
    meteor_reason = meteor.reason_left_out(text.language)
    metrics = NAMES if meteor_reason else (*NAMES, METEOR)

    undefined: dict[str, str] | None = None
    parts: list[Units] = []
    names: list[str] = []
    details: dict[str, Any] = {}
    for path, path_beam in inputs.by_beam:
        # Plain `cider` is of the main beam, the first.
        beam = path_beam if parts else None
        rows = read_checked(path, inputs, Caption)
        all_references = read_references(inputs, text)
        references = _without_copies(all_references, path)
        outputs = [text.compared(row.predicted) for row in rows]
        if undefined is None:
            undefined = _undefined(all_references)
        alone = sum(not texts for texts in references)
        if alone:
            reason = (
                "people are not scored, as they are compared with other people:"
                f" {alone} of {len(rows)} clips have a single caption"
            )
            undefined = dict.fromkeys((*NAMES, METEOR), reason)
            references = all_references

        columns = {"clips": np.ones(len(rows))}
        columns |= coco(outputs, references)
        columns |= bleu(outputs, references)
        if not meteor_reason:
            columns |= meteor.named_counts(METEOR, outputs, references, "full")

        # People's captions lack one of their references, and are of the same test set.
        compared = [
            (row.source, json.dumps(texts)) for row, texts in zip(rows, all_references, strict=True)
        ]
        parts.append(
            Units(
                names=numbered(len(rows)),
                columns=names_for_beam(columns, beam, METRICS),
                counts=np.stack(list(columns.values()), axis=1),
                references=digest_of(compared),
            )
        )
        names += [of_beam(name, beam) for name in metrics if name not in undefined]
        notes += tell_outputs([text.joined(row.predicted) for row in rows], beam, details)
        details[of_beam("different", beam)] = len({row.predicted for row in rows})

    reasons = list(dict.fromkeys((undefined or {}).values()))
    if meteor_reason:
        reasons.append(meteor_reason)
    tell_left_out(reasons, details)
    tell_notes(notes, details)
    return Counts(join(parts), tuple(names), "clips", details)


def _undefined(references: Sequence[References]) -> dict[str, str]:
    """Say why metrics are not defined for a test split, by the names of the metrics.

    Such a metric would give the references themselves 0.
    """
    reasons = {}
    # CIDEr weighs n-grams by log(clips / clips that have them), which may be 0 for all.
    first_references = [texts[0] for texts in references]
    if not coco(first_references, references)["cider"].any():
        reasons["cider"] = (
            "CIDEr is not defined here: it weighs words by how few clips have them, and all clips"
            f" of the test split ({len(references)}) have the same"
        )
    if max(len(text.split()) for texts in references for text in texts) < ORDERS:
        reasons["bleu_coco"] = (
            "BLEU-4 is not defined for these references, none of which has four words"
        )
    return reasons


def compared_text(data: Prepared) -> ComparedText:
    """Return how captions of prepared data are compared; a UserError if they are not captions."""
    if not isinstance(data.codec, CaptioningCodec):
        hint = "name the prepared data of a task of captioning"
        raise UserError("this data is not of captions", file=data.folder, hint=hint)

    side = data.codec.target
    return ComparedText(
        language=language(str(data.summary["format"]["language"])),
        segmented=side.tokenizer.segments,
        spelled=side if side.tokenizer.spells else None,
    )


def read_references(inputs: EvalInputs, text: ComparedText) -> list[References]:
    """Read the references of each clip, as they are compared.

    A UserError says that they are not what was prepared.
    """
    return [[text.compared(caption) for caption in texts] for texts in _stored_references(inputs)]


def _stored_references(inputs: EvalInputs) -> list[References]:
    """Read the references of each clip in the words of the task."""
    path = inputs.prepared.file(f"{inputs.split}.target.txt")
    hint = "name the prepared data of a task of captioning"
    references = []
    for line in read_lines(path):
        try:
            texts = json.loads(line)
        except ValueError:
            texts = None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise UserError("these are not references of captions", file=path, hint=hint)
        references.append(texts)
    return references


def _without_copies(references: list[References], path: Path) -> list[References]:
    """Return the references without those of which outputs are copies, where predictions say so."""
    if HELD_OUT not in columns_of(path):
        return references

    copied = [int(number) - 1 for (number,) in read_predictions(path, (HELD_OUT,))]
    return [
        texts[:index] + texts[index + 1 :] for texts, index in zip(references, copied, strict=True)
    ]


def coco(outputs: Sequence[str], references: Sequence[References]) -> dict[str, Floats]:
    """Compute CIDEr and ROUGE-L of each output.

    CIDEr weighs n-grams by how many clips have them in their references.
    """
    try:
        from pycocoevalcap.cider.cider import Cider  # optional: other tasks are scored without it
        from pycocoevalcap.rouge.rouge import Rouge
    except ModuleNotFoundError as error:
        message = "scores of captions need the package pycocoevalcap"
        raise UserError(message, hint="pip install pycocoevalcap") from error
    references_by_clip = dict(enumerate(references))
    outputs_by_clip = {clip: [output] for clip, output in enumerate(outputs)}
    _, cider = Cider().compute_score(references_by_clip, outputs_by_clip)
    _, rouge = Rouge().compute_score(references_by_clip, outputs_by_clip)
    return {"cider": cider, "rouge_coco": rouge}


def bleu(outputs: Sequence[str], references: Sequence[References]) -> dict[str, Floats]:
    """Count what BLEU-4 needs of each output."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    most = max(map(len, references))
    # A stream has one reference of each clip, and None where a clip has no more.
    streams: Any = [
        [texts[index] if index < len(texts) else None for texts in references]
        for index in range(most)
    ]
    counts = np.array(metric._extract_corpus_statistics(outputs, streams), dtype=np.float64)

    output_length, reference_length, *ngrams = counts.T
    columns = dict(zip(bleu_columns("bleu_coco"), [*ngrams, output_length], strict=True))
    columns["bleu_coco_words"] = reference_length
    return columns


# Outputs that no model made, which every table shows with those of models.


def _constant(data: Prepared, rows: Sequence[Caption]) -> list[str]:
    """Return the most frequent caption in training, the first of equally frequent ones."""
    counts = Counter(caption for _, caption in data.rows("train"))
    return [counts.most_common(1)[0][0]] * len(rows)


def _nearest(data: Prepared, rows: Sequence[Caption]) -> list[str]:
    """Return a caption of the training clip that looks most alike.

    That clip is the nearest by the mean of its frames. Of its captions the one is returned with
    which its other captions agree most.
    """
    table = Table.load(data.folder)
    captions: defaultdict[str, list[str]] = defaultdict(list)
    for clip, caption in data.rows("train"):
        captions[clip].append(caption)
    # Frames differ in number, so clips are compared by the mean of their frames.
    clips = list(captions)
    means = np.stack([table[clip].mean(axis=0) for clip in clips])

    outputs = []
    for row in rows:
        mean = table[row.source].mean(axis=0)
        squared_distances = ((means - mean) ** 2).sum(axis=1)
        nearest_clip = clips[squared_distances.argmin()]
        outputs.append(_agreed(captions[nearest_clip]))

    return outputs


def _agreed(captions: list[str]) -> str:
    """Return the caption with the best ROUGE-L against the rest (Devlin et al. 2015, consensus)."""
    # A caption that is the only one is compared with itself.
    references = [
        captions[:index] + captions[index + 1 :] or captions for index in range(len(captions))
    ]
    return captions[int(coco(captions, references)["rouge_coco"].argmax())]


def _people(data: Prepared, rows: Sequence[Caption]) -> list[str]:
    """Return a person's caption, which is compared with those of other people."""
    return [row.target for row in rows]


@dataclass(frozen=True)
class Control:
    """Outputs that are made of the prepared data alone."""

    label: str  # in tables
    outputs: Callable[[Prepared, Sequence[Caption]], list[str]]
    # whether an output is the first reference, and compared with the others
    held_out: bool = False


CONTROLS = {
    "constant": Control("One caption for all", _constant),
    "nearest": Control("Nearest clip's caption", _nearest),
    "people": Control("People", _people, held_out=True),
}


def control_rows(name: str, data: Prepared, split: str) -> tuple[str, list[tuple[str, ...]]]:
    """Return a control's label, and its predictions of a split with their heading.

    A UserError says that there is no such control.
    """
    if name not in CONTROLS:
        raise unknown("control", name, list(CONTROLS))

    control = CONTROLS[name]
    rows = [Caption(clip, caption, predicted="") for clip, caption in data.rows(split)]
    outputs = control.outputs(data, rows)

    heading: tuple[str, ...] = Caption._fields
    copied: tuple[str, ...] = ()
    if control.held_out:
        heading = (*heading, HELD_OUT)
        copied = ("1",)
    written = [
        (row.source, row.target, output, *copied) for row, output in zip(rows, outputs, strict=True)
    ]
    return control.label, [heading, *written]
