"""Captions: CIDEr, ROUGE-L, BLEU-4 and METEOR against all references of a clip, counted per clip.

CIDEr (Vedantam et al. 2015, its form D) and ROUGE-L are those of coco-caption, through the package
pycocoevalcap; its BLEU-4 is sacreBLEU's without smoothing, by the reference nearest in length. What
is compared are the words of the task, in small letters, marks apart: coco-caption's own tokenizer,
which needs Java, splits a few words otherwise. In a language without spaces whose words the
task's tokenizer does not find, characters are compared.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pam.data.dataset import Prepared
from pam.data.features import Table
from pam.data.languages import language
from pam.data.text_files import read_lines
from pam.data.tokenizers import CaptioningCodec
from pam.evaluation import meteor
from pam.evaluation.compared_text import ComparedText, tell_left_out
from pam.evaluation.inputs import Counts, EvalInputs, columns_of, read_checked, read_predictions
from pam.evaluation.metrics import (
    METEOR_COUNTS,
    METRICS,
    ORDERS,
    Floats,
    Units,
    bleu_columns,
    digest_of,
    join,
    numbered,
    of_beam,
)
from pam.io import UserError, unknown

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
    """Counts per clip, of every beam; those of the main beam are named without a beam.

    A metric that is not defined for the language or for these references is left out, with the
    reason among the details; so is METEOR where Java or its package is missing. A UserError names a
    file that is missing or faulty, or is about other clips.
    """
    parts, names, details = list[Units](), list[str](), dict[str, Any]()
    text = compared_text(inputs.prepared)
    missing = meteor.reason_left_out(text.language)
    undefined: dict[str, str] | None = None
    for path, beam in inputs.by_beam:
        # Plain `cider` is of the main beam, the first.
        beam, rows = beam if parts else None, read_checked(path, inputs, Caption)
        known = read_references(inputs, text)
        references = _without_copies(known, path)
        outputs = [text.compared(row.predicted) for row in rows]
        if undefined is None:
            undefined = _undefined(known)
        columns = (
            {"clips": np.ones(len(rows))} | coco(outputs, references) | bleu(outputs, references)
        )
        if not missing:
            found = meteor.counts(outputs, references, "full")
            columns |= dict(zip((f"{METEOR}_{one}" for one in METEOR_COUNTS), found.T, strict=True))
        metrics = [
            name for name in (*NAMES, *(() if missing else (METEOR,))) if name not in undefined
        ]
        names += [of_beam(name, beam) for name in metrics]
        details[of_beam("empty", beam)] = sum(not row.predicted for row in rows)
        details[of_beam("different", beam)] = len({row.predicted for row in rows})
        given = {column for metric in METRICS.values() for column in metric.given}
        named = [column if column in given else of_beam(column, beam) for column in columns]
        # People's captions lack one of their references, and are of the same test set.
        digest = digest_of(
            (row.source, json.dumps(own)) for row, own in zip(rows, known, strict=True)
        )
        parts.append(
            Units(
                numbered(len(rows)), tuple(named), np.stack(list(columns.values()), axis=1), digest
            )
        )
    tell_left_out([*(undefined or {}).values(), *([missing] if missing else [])], details)
    return Counts(join(parts), tuple(names), "clips", details)


def _undefined(references: Sequence[References]) -> dict[str, str]:
    """Why a metric is not defined for a test split, by its name: the references themselves would
    have 0.
    """
    found = {}
    firsts = [own[0] for own in references]
    if not coco(firsts, references)["cider"].any():
        found["cider"] = (
            "CIDEr is not defined here: it weighs words by how few clips have them, and all clips"
            f" of the test split ({len(references)}) have the same"
        )
    if max(len(text.split()) for own in references for text in own) < ORDERS:
        found["bleu_coco"] = (
            "BLEU-4 is not defined for these references, none of which has four words"
        )
    return found


def compared_text(data: Prepared) -> ComparedText:
    """How captions of prepared data are compared; a UserError if the data are of another kind."""
    if not isinstance(data.codec, CaptioningCodec):
        hint = "name the prepared data of a task of captioning"
        raise UserError("this data is not of captions", file=data.folder, hint=hint)
    side = data.codec.target
    tokenizer = side.tokenizer
    own_language = language(str(data.summary["format"]["language"]))
    return ComparedText(own_language, tokenizer.segments, side if tokenizer.spells else None)


def read_references(inputs: EvalInputs, text: ComparedText) -> list[References]:
    """The references of each clip, as they are compared; a UserError if they are not what was
    prepared.
    """
    path = inputs.prepared.file(f"{inputs.split}.target.txt")
    try:
        return [[text.compared(own) for own in json.loads(line)] for line in read_lines(path)]
    except (ValueError, TypeError, AttributeError) as error:
        hint = "name the prepared data of a task of captioning"
        raise UserError("these are not references of captions", file=path, hint=hint) from error


def _without_copies(references: list[References], path: Path) -> list[References]:
    """References without the one that each output is a copy of, where predictions say which; else
    all.
    """
    if HELD_OUT not in columns_of(path):
        return references
    held = [int(number) - 1 for (number,) in read_predictions(path, (HELD_OUT,))]
    return [own[:out] + own[out + 1 :] for own, out in zip(references, held, strict=True)]


def coco(outputs: Sequence[str], references: Sequence[References]) -> dict[str, Floats]:
    """CIDEr and ROUGE-L of each output, with n-grams weighted by how many clips have them in their
    references.
    """
    try:
        from pycocoevalcap.cider.cider import Cider  # optional: other tasks are scored without it
        from pycocoevalcap.rouge.rouge import Rouge
    except ModuleNotFoundError as error:
        message = "scores of captions need the package pycocoevalcap"
        raise UserError(message, hint="pip install pycocoevalcap") from error
    given = dict(enumerate(references)), {number: [output] for number, output in enumerate(outputs)}
    return {
        "cider": Cider().compute_score(*given)[1],
        "rouge_coco": Rouge().compute_score(*given)[1],
    }


def bleu(outputs: Sequence[str], references: Sequence[References]) -> dict[str, Floats]:
    """The counts of BLEU-4 of each output."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    most = max(map(len, references))
    # A stream has one reference of each clip, and None where a clip has no more.
    streams: Any = [
        [own[number] if number < len(own) else None for own in references] for number in range(most)
    ]
    found = np.array(metric._extract_corpus_statistics(outputs, streams), dtype=np.float64)
    length, words, *ngrams = found.T
    return dict(zip(bleu_columns("bleu_coco"), [*ngrams, length], strict=True)) | {
        "bleu_coco_words": words
    }


# Outputs that no model made, which every table shows with those of models.


def _constant(data: Prepared, rows: Sequence[Caption]) -> list[str]:
    """The caption that training has most often, of equally frequent ones the first."""
    counts = Counter(caption for _, caption in data.rows("train"))
    return [counts.most_common(1)[0][0]] * len(rows)


def _nearest(data: Prepared, rows: Sequence[Caption]) -> list[str]:
    """Of the training clip that is nearest by the mean of its frames the caption that its others
    agree with most.
    """
    table, captions = Table.load(data.folder), defaultdict[str, list[str]](list)
    for clip, caption in data.rows("train"):
        captions[clip].append(caption)
    clips = list(captions)
    means = np.stack([table[clip].mean(axis=0) for clip in clips])
    own = (((means - table[row.source].mean(axis=0)) ** 2).sum(axis=1).argmin() for row in rows)
    return [_agreed(captions[clips[number]]) for number in own]


def _agreed(captions: list[str]) -> str:
    """The caption with the best ROUGE-L against the others (Devlin et al. 2015, consensus)."""
    others = [
        captions[:place] + captions[place + 1 :] or captions for place in range(len(captions))
    ]
    return captions[int(coco(captions, others)["rouge_coco"].argmax())]


@dataclass(frozen=True)
class Control:
    """Outputs that are made of the prepared data alone."""

    label: str  # in tables
    outputs: Callable[[Prepared, Sequence[Caption]], list[str]]
    held_out: bool = (
        False  # whether an output is the first reference, which is held against the others
    )


CONTROLS = {
    "constant": Control("One caption for all", _constant),
    "nearest": Control("Nearest clip's caption", _nearest),
    "people": Control("People", lambda data, rows: [row.target for row in rows], held_out=True),
}
"""The most frequent caption; that of the clip that looks most alike; a person's, against those of
other people.
"""


def control_rows(name: str, data: Prepared, split: str) -> tuple[str, list[tuple[str, ...]]]:
    """A control's label, and predictions of a split with their heading; a UserError if there is no
    such control.
    """
    if name not in CONTROLS:
        raise unknown("control", name, list(CONTROLS))
    control, rows = (
        CONTROLS[name],
        [Caption(clip, caption, "") for clip, caption in data.rows(split)],
    )
    more = (HELD_OUT,), ("1",)
    heading, last = more if control.held_out else ((), ())
    made = [
        (*row[:2], output, *last)
        for row, output in zip(rows, control.outputs(data, rows), strict=True)
    ]
    return control.label, [(*Caption._fields, *heading), *made]
