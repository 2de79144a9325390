"""Google's GLEU (Wu et al. 2016) as counts per sentence.

`nltk.translate.gleu_score` computes the same value, but does not return the counts, of which the
bootstrap needs sums. Of equally good references nltk takes the first, and we the shortest, as the
order of references says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from nltk.util import everygrams

from pam.evaluation.metrics import ORDERS, Floats

COLUMNS = ("gleu_match", "gleu_ngrams")


def gleu_counts(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> Floats:
    """Count n-grams of each output that match its best reference, and all, (sentences, 2).

    All are those of the output or those of the reference, whichever are more.

    Args:
        outputs: in words, with one space between two.
        references: one or more of each output, none of them empty.
    """
    counts = []
    for output, texts in zip(outputs, references, strict=True):
        output_ngrams = _ngrams(output)
        candidates = []
        for text in texts:
            reference_ngrams = _ngrams(text)
            matches = (output_ngrams & reference_ngrams).total()
            candidates.append((matches, max(output_ngrams.total(), reference_ngrams.total())))
        counts.append(max(candidates, key=lambda pair: (pair[0] / pair[1], -pair[1])))

    return np.array(counts, dtype=np.float64)


def _ngrams(text: str) -> Counter[tuple[str, ...]]:
    """Count the n-grams of one to four words."""
    return Counter(everygrams(text.split(), min_len=1, max_len=ORDERS))
