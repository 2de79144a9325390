"""Alignments of characters: expected counts by enumeration, likelihood, and positions."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam.tasks.inflection.aligner import EPSILON, CharacterAligner, _expected_counts

STEMS = ["Haus", "Maus", "Laus", "Strauß", "Baum", "Raum", "Zaun", "Tag", "Hut", "Rat", "Land"]
STEMS += ["Stand", "Ort", "Bein", "Stein", "Film"]
PAIRS = [
    *((stem, stem + suffix) for stem in STEMS for suffix in ("", "e", "en", "es", "s")),
    *((stem, stem.replace("a", "ä") + suffix) for stem in STEMS for suffix in ("e", "er", "ern")),
    *((stem + "e", stem) for stem in STEMS),
]


def paths(n: int, m: int) -> list[list[tuple[int, int]]]:
    """List all sequences of steps (1, 1), (1, 0), (0, 1) from (0, 0) to (n, m)."""
    if n == m == 0:
        return [[]]

    sequences = []
    for di, dj in ((1, 1), (1, 0), (0, 1)):
        if di <= n and dj <= m:
            sequences += [[*path, (di, dj)] for path in paths(n - di, m - dj)]

    return sequences


def operations(
    aligner: CharacterAligner, pair: tuple[str, str], path: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the (source, target) codes of the operations along a path."""
    source, target = pair
    i = 0
    j = 0
    codes = []
    for di, dj in path:
        source_code = aligner.source[source[i]] if di else EPSILON
        target_code = aligner.target[target[j]] if dj else EPSILON
        codes.append((source_code, target_code))
        i += di
        j += dj

    return codes


def enumerated_counts(aligner: CharacterAligner, pair: tuple[str, str]) -> np.ndarray:
    """Count the expected operations of a pair by going through all of its paths."""
    source, target = pair
    total = 0.0
    counts = np.zeros(aligner.log_probs.shape)
    for path in paths(len(source), len(target)):
        used = operations(aligner, pair, path)
        weight = np.exp(sum(aligner.log_probs[operation] for operation in used))
        total += weight
        for operation in used:
            counts[operation] += weight

    return counts / total


def test_expected_counts_equal_enumeration() -> None:
    pairs = [("ab", "abc"), ("ab", "bca"), ("a", "c"), ("ab", "abc")]
    aligner = CharacterAligner.fit(pairs, iterations=2)
    computed = sum(_expected_counts(aligner.log_probs, group) for group in aligner._groups(pairs))
    expected = sum(enumerated_counts(aligner, pair) for pair in pairs)

    np.testing.assert_allclose(computed, expected, rtol=1e-10)


def log_likelihood(aligner: CharacterAligner, pairs: list[tuple[str, str]]) -> float:
    """Sum the log-likelihoods of pairs over all of their paths."""
    total = 0.0
    for pair in pairs:
        source, target = pair
        path_log_probs = []
        for path in paths(len(source), len(target)):
            used = operations(aligner, pair, path)
            path_log_probs.append(sum(float(aligner.log_probs[operation]) for operation in used))
        total += float(np.logaddexp.reduce(path_log_probs))
    return total


def test_em_never_lowers_the_likelihood() -> None:
    pairs = [("Tag", "Tage"), ("Haus", "Häu"), ("sag", "sa")] * 5
    aligners = [CharacterAligner.fit(pairs, iterations=k) for k in range(1, 5)]
    values = [log_likelihood(aligner, pairs) for aligner in aligners]

    assert all(later > earlier - 0.05 for earlier, later in itertools.pairwise(values))
    assert values[-1] > values[0]


@pytest.mark.parametrize(
    ("source", "target", "positions"),
    [
        ("Haus", "Häuser", [0, 1, 2, 3, 3, 3]),
        ("Maus", "Mäuse", [0, 1, 2, 3, 3]),
        ("Tag", "Tage", [0, 1, 2, 2]),
        ("Tage", "Tag", [0, 1, 2]),
    ],
)
def test_suffixes_and_umlauts_align_as_a_person_would(
    source: str, target: str, positions: list[int]
) -> None:
    assert CharacterAligner.fit(PAIRS).align([(source, target)]) == [positions]


WORDS = st.text(alphabet="abcdé ", min_size=1, max_size=7)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6), st.tuples(WORDS, WORDS))
def test_positions_never_decrease_and_stay_inside(
    pairs: list[tuple[str, str]], unseen_pair: tuple[str, str]
) -> None:
    pairs_to_align = [*pairs, unseen_pair]
    aligned = CharacterAligner.fit(pairs, iterations=2).align(pairs_to_align)
    for (source, target), positions in zip(pairs_to_align, aligned, strict=True):
        assert len(positions) == len(target)
        assert positions == sorted(positions)
        assert positions[0] >= 0 and positions[-1] < len(source)


def test_the_order_of_pairs_does_not_matter() -> None:
    forward = CharacterAligner.fit(PAIRS)
    backward = CharacterAligner.fit(PAIRS[::-1])
    np.testing.assert_array_equal(forward.log_probs, backward.log_probs)
    assert forward.align(PAIRS) == backward.align(PAIRS)


def test_symbols_never_seen_in_training_align_all_the_same() -> None:
    assert CharacterAligner.fit(PAIRS).align([("Żaba", "Żabas")]) == [[0, 1, 2, 3, 3]]


def test_real_participles_keep_their_stems_together(corpora: Path) -> None:
    path = corpora / "ddn13-german-inflection/base_forms_de_verb_dev.txt.sigmorphon_format.txt"
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [(lemma, form) for lemma, _, form in rows]
    aligned = CharacterAligner.fit(pairs).align(pairs)

    same = 0
    for (lemma, form), positions in zip(pairs, aligned, strict=True):
        for char, position in zip(form, positions, strict=True):
            same += lemma[position] == char

    assert same / sum(len(form) for _, form in pairs) > 0.85
