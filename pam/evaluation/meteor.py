"""METEOR 1.5 (Denkowski and Lavie 2014) by its authors' program, from the package pycocoevalcap.

The program gives counts for each text, and METEOR of a whole set is a function of their sums. So
intervals and tests of differences are made as for every other metric. `exact` matches only the
same words; `full` matches stems, synonyms and paraphrases too.
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
from pam.runtime.errors import UserError

# of words, stems, synonyms, paraphrases
WEIGHTS = {"exact": (1.0, 0.0, 0.0, 0.0), "full": (1.0, 0.6, 0.8, 0.6)}
CONTENT = 0.75  # weight of content words, for English
FUNCTION = 0.25  # weight of function words, for English
MINUTES = 60  # after which the program is taken to hang


def unavailable() -> str | None:
    """Say why METEOR cannot run here; None: it can."""
    if shutil.which("java") is None:
        return "METEOR needs Java: install it, on Debian by `apt-get install default-jre-headless`"
    if find_spec("pycocoevalcap") is None:
        return "METEOR needs the package pycocoevalcap: pip install pycocoevalcap"
    return None


def reason_left_out(language: Language) -> str | None:
    """Say why METEOR is not defined for a language, or cannot run here; None: it can."""
    if not language.has_meteor:
        return (
            "METEOR, whose weights, stems and paraphrases are of English, is not defined for"
            f" {language.name}"
        )
    return unavailable()


def counts(outputs: Sequence[str], references: Sequence[Sequence[str]], kind: str) -> Floats:
    """Count what METEOR needs of each output: (outputs, 6), in the order of `METEOR_COUNTS`.

    Args:
        references: one or more texts for each output, of which the one that fits best counts.
        kind: a key of `WEIGHTS`.

    Raises:
        UserError: the program failed, or did not answer.
    """
    lines = []
    for output, texts in zip(outputs, map(sorted, references), strict=True):
        # Of equally good references the program counts the first, whatever their order was. A line
        # is a request, and `|||` divides it; an empty text would be taken for a missing one.
        cleaned = (" ".join(text.replace("|||", " ").split()) or "." for text in (*texts, output))
        lines.append(" ||| ".join(("SCORE", *cleaned)))

    answers = run(lines, kind)
    if len(answers) != len(lines):
        raise UserError(
            f"METEOR gave {len(answers)} lines for {len(lines)} texts", hint="score again"
        )
    return _counts_of(answers, outputs, kind)


def named_counts(
    name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], kind: str
) -> dict[str, Floats]:
    """Return `counts` by their names, which begin with the metric's, `name`."""
    columns = counts(outputs, references, kind).T
    return {f"{name}_{count}": column for count, column in zip(METEOR_COUNTS, columns, strict=True)}


def _counts_of(answers: Sequence[str], outputs: Sequence[str], kind: str) -> Floats:
    """Turn the program's answers into counts, (outputs, 6)."""
    table = np.array([[float(word) for word in line.split()] for line in answers])
    lengths = table[:, 0:2]  # words of output and reference
    functions = table[:, 2:4]  # function words of output and reference
    # (texts, ways of matching, content or function, output or reference)
    matches = table[:, 4:20].reshape(-1, 4, 2, 2)
    chunks = table[:, 20]
    all_matches = table[:, 21:23]  # of output and reference, unweighted

    weights = np.multiply.outer(WEIGHTS[kind], (CONTENT, FUNCTION))
    weighted_matches = np.einsum("nskr,sk->nr", matches, weights)
    weighted_lengths = CONTENT * (lengths - functions) + FUNCTION * functions

    # An output that is its reference, word for word, is not in pieces.
    is_perfect = (chunks == 1) & (all_matches == lengths).all(axis=1)
    chunks = np.where(is_perfect, 0.0, chunks)

    counts = np.stack(
        [*weighted_matches.T, *weighted_lengths.T, chunks, all_matches.mean(axis=1)], axis=1
    )
    # For an empty output the program read a full stop; only the reference's length counts.
    is_empty = np.array([not output.strip() for output in outputs])
    counts[is_empty, :3] = 0.0
    counts[is_empty, 4:] = 0.0
    assert counts.shape[1] == len(METEOR_COUNTS)
    return counts


def run(lines: Sequence[str], kind: str) -> list[str]:
    """Return the program's answers to requests; a UserError if it fails."""
    spec = find_spec("pycocoevalcap")
    folders: list[str] = []
    if spec is not None:
        folders = list(spec.submodule_search_locations or ())
    if unavailable() or not folders:
        raise UserError(
            unavailable() or "the package pycocoevalcap is damaged", hint="install it again"
        )

    jar = Path(folders[0], "meteor", "meteor-1.5.jar")
    command = ["java", "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    if kind == "exact":
        command += ["-m", "exact"]

    # All requests are written at once: piece by piece, the program and this one could wait for
    # each other for ever.
    requests = "\n".join(lines) + "\n"
    try:
        done = subprocess.run(
            command, input=requests, capture_output=True, encoding="utf-8", timeout=60 * MINUTES
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"METEOR did not answer in {MINUTES} minutes", hint="score again"
        ) from error

    if done.returncode != 0:
        last_message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"METEOR failed: {last_message}", hint="check `java -version`; it takes 2 GB of memory"
        )
    return done.stdout.splitlines()
