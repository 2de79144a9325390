"""METEOR 1.5 (Denkowski and Lavie 2014) by its authors' program, which the package pycocoevalcap
carries.

The program gives counts for each text, and METEOR of a whole set is a function of their sums: so
intervals and tests of differences are those of every other metric. `exact` matches the same
words only; `full` stems, synonyms and paraphrases too.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from pam.data.languages import Language
from pam.evaluation.metrics import METEOR_COUNTS, Floats
from pam.io import UserError

# of words, stems, synonyms, paraphrases
WEIGHTS = {"exact": (1.0, 0.0, 0.0, 0.0), "full": (1.0, 0.6, 0.8, 0.6)}
CONTENT, FUNCTION = 0.75, 0.25  # weights of content words and function words, for English
MINUTES = 60  # after which the program is taken to hang


def unavailable() -> str | None:
    """Why METEOR cannot be had here, or None."""
    if shutil.which("java") is None:
        return "METEOR needs Java: install it, on Debian by `apt-get install default-jre-headless`"
    if find_spec("pycocoevalcap") is None:
        return "METEOR needs the package pycocoevalcap: pip install pycocoevalcap"
    return None


def reason_left_out(known: Language) -> str | None:
    """Why there is no METEOR of a language, or none here, or None."""
    if not known.has_meteor:
        return (
            "METEOR, whose weights, stems and paraphrases are of English, is not defined for"
            f" {known.name}"
        )
    return unavailable()


def counts(outputs: Sequence[str], references: Sequence[Sequence[str]], kind: str) -> Floats:
    """Counts of each output, (outputs, 6), in the order of `METEOR_COUNTS`; `kind` is a key of
    `WEIGHTS`.

    Args:
        references: one or more texts for each output, of which that counts which fits best.

    Raises:
        UserError: the program failed, or did not answer.
    """
    lines = []
    for output, texts in zip(outputs, references, strict=True):
        # A line is a request, and `|||` divides it; an empty text would be taken for a missing one.
        cleaned = (" ".join(text.replace("|||", " ").split()) or "." for text in (*texts, output))
        lines.append(" ||| ".join(("SCORE", *cleaned)))
    found = run(lines, kind)
    if len(found) != len(lines):
        raise UserError(
            f"METEOR gave {len(found)} lines for {len(lines)} texts", hint="score again"
        )
    table = np.array([[float(word) for word in line.split()] for line in found])
    # By kind of word (content and function) and side (output and reference), for each way of
    # matching.
    lengths, functions, matches, chunks = table[:, 0:2], table[:, 2:4], table[:, 4:20], table[:, 20]
    # (texts, ways of matching, content or function, output or reference)
    by_stage = matches.reshape(-1, 4, 2, 2)
    weights = np.multiply.outer(WEIGHTS[kind], (CONTENT, FUNCTION))
    weighted = np.einsum("nskr,sk->nr", by_stage, weights)
    whole = CONTENT * (lengths - functions) + FUNCTION * functions
    matched = table[:, 21:23].mean(axis=1)
    # An output that is its reference, word for word, is not in pieces.
    perfect = (chunks == 1) & (table[:, 21:23] == lengths).all(axis=1)
    empty = np.array([not output.strip() for output in outputs])
    columns = [*weighted.T, *whole.T, np.where(perfect, 0.0, chunks), matched]
    made = np.stack(columns, axis=1)
    made[empty, :3] = 0.0
    made[empty, 4:] = 0.0
    assert made.shape[1] == len(METEOR_COUNTS)
    return made


def run(lines: Sequence[str], kind: str) -> list[str]:
    """What the program answers to requests; a UserError if it fails."""
    spec = find_spec("pycocoevalcap")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if unavailable() or not places:
        raise UserError(
            unavailable() or "the package pycocoevalcap is damaged", hint="install it again"
        )
    jar = Path(places[0], "meteor", "meteor-1.5.jar")
    command = ["java", "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    command += ["-m", "exact"] if kind == "exact" else []
    # All at once: what is written piece by piece can wait for ever on what is not yet read.
    try:
        given = "\n".join(lines) + "\n"
        done = subprocess.run(
            command, input=given, capture_output=True, encoding="utf-8", timeout=60 * MINUTES
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"METEOR did not answer in {MINUTES} minutes", hint="score again"
        ) from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"METEOR failed: {said}", hint="check `java -version`; it takes 2 GB of memory"
        )
    return done.stdout.splitlines()
