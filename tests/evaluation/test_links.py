"""Links of words: from posteriors of symbols, by two directions, in files, and their scores."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from nltk.metrics.scores import precision, recall
from nltk.translate.metrics import alignment_error_rate

from pam.alignment.choices import ProgramName, Symmetrization
from pam.alignment.formats import read_links
from pam.alignment.links import linked, word_probabilities
from pam.alignment.peers import PROGRAMS
from pam.alignment.scoring import score_links
from pam.alignment.symmetrization import (
    NAMES,
    NEIGHBORS,
    NONE,
    SYMMETRIZATIONS,
    product_probabilities,
)
from pam.alignment.words import placed, words_between_spaces
from pam.runtime.errors import UserError


def test_users_can_choose_every_symmetrization_and_program() -> None:
    assert set(get_args(Symmetrization)) == {*NAMES, NONE}
    assert set(get_args(ProgramName)) == set(PROGRAMS)


def test_words_have_the_sums_of_source_symbols_and_the_means_of_target_symbols() -> None:
    # Two source words of two and one symbols, then the end symbol; the end of the target is last.
    alignment = np.array([[0.2, 0.3, 0.4, 0.1], [0.0, 0.1, 0.1, 0.8], [0.5, 0.5, 0.0, 0.0]])
    probabilities = word_probabilities(alignment, [0, 0, 1], [0, 0], (2, 1))

    np.testing.assert_allclose(probabilities, [[0.3], [0.25]])
    # The end symbol has 0.45, more than any word.
    assert linked(probabilities) == set()
    assert linked(probabilities, threshold=0.2) == {(0, 0), (1, 0)}


def test_a_word_of_no_symbol_has_no_link() -> None:
    probabilities = word_probabilities(np.array([[0.7, 0.3]]), [1, 1], [0], (3, 2))

    np.testing.assert_allclose(probabilities, [[0, 0], [1, 0], [0, 0]])
    assert linked(probabilities) == {(1, 0)}


def grown(ahead: set[tuple[int, int]], back: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Grow by the pseudocode of Koehn et al. (2005), over the whole grid."""
    links = ahead & back
    while True:
        before = len(links)
        for e, f in product(range(6), repeat=2):
            if (e, f) not in links:
                continue
            for e_step, f_step in NEIGHBORS:
                e_new, f_new = e + e_step, f + f_step
                is_linked = any(e_new == i for i, _ in links) and any(f_new == j for _, j in links)
                if not is_linked and (e_new, f_new) in ahead | back:
                    links.add((e_new, f_new))
        if len(links) == before:
            return links


@pytest.mark.parametrize("seed", range(20))
def test_heuristics_are_those_of_the_pseudocode(seed: int) -> None:
    generator = random.Random(seed)
    ahead = {(generator.randrange(6), target) for target in range(6)}
    back = {(source, generator.randrange(6)) for source in range(6)}

    growing = grown(ahead, back)
    assert SYMMETRIZATIONS["grow-diag"](ahead, back) == growing
    for name, needed in (("grow-diag-final", 1), ("grow-diag-final-and", 2)):
        links = set(growing)
        for e, f in [*sorted(ahead), *sorted(back)]:
            without = all(e != i for i, _ in links) + all(f != j for _, j in links)
            if without >= needed:
                links.add((e, f))
        assert SYMMETRIZATIONS[name](ahead, back) == links
        assert ahead & back <= growing <= links <= ahead | back


def test_heuristics_by_hand() -> None:
    ahead = {(0, 0), (1, 1), (1, 2), (3, 4)}
    back = {(0, 0), (1, 1), (2, 1), (4, 4)}

    assert SYMMETRIZATIONS["intersection"](ahead, back) == {(0, 0), (1, 1)}
    assert SYMMETRIZATIONS["union"](ahead, back) == ahead | back
    # Neighbors of (1, 1), each of which links a word without links.
    assert SYMMETRIZATIONS["grow-diag"](ahead, back) == {(0, 0), (1, 1), (1, 2), (2, 1)}
    # (3, 4) links two words without links, and then (4, 4) only one.
    growing = {(0, 0), (1, 1), (1, 2), (2, 1), (3, 4)}
    assert SYMMETRIZATIONS["grow-diag-final-and"](ahead, back) == growing
    assert SYMMETRIZATIONS["grow-diag-final"](ahead, back) == growing | {(4, 4)}


def test_the_product_needs_both_directions() -> None:
    both = product_probabilities(np.array([[0.9, 0.4]]), np.array([[0.4, 0.0]]))
    np.testing.assert_allclose(both, [[0.6, 0.0]])


@pytest.mark.parametrize(
    ("text", "tokens", "places"),
    [
        ("Die Katze.", ["die", "katze", "."], [(0, 3), (4, 9), (9, 10)]),
        # What is composed, wide, or between characters that show nothing.
        ("cafe\u0301 x", ["café", "x"], [(0, 5), (6, 7)]),
        ("a\u200bb\u00a0c", ["ab", "c"], [(0, 3), (4, 5)]),
        ("私は猫", ["私", "は", "猫"], [(0, 1), (1, 2), (2, 3)]),
        ("ab cd", ["a", "b", "▁", "c", "d"], [(0, 1), (1, 2), (3, 3), (3, 4), (4, 5)]),
        # A tokenizer that writes something else for one word.
        ("one two three", ["one", "2", "three"], [(0, 3), (8, 8), (8, 13)]),
        ("हिन्दी में", ["हिन्दी", "में"], [(0, 6), (7, 10)]),
        ("", [], []),
    ],
)
def test_tokens_are_found_in_their_text(
    text: str, tokens: list[str], places: list[tuple[int, int]]
) -> None:
    found = placed(tokens, text)

    assert [(word.start, word.end) for word in found] == places
    assert all(text[word.start : word.end] == word.text for word in found)


def test_words_are_those_between_any_white_space() -> None:
    words = words_between_spaces(" a\u3000b\tc ")
    assert [(word.text, word.start, word.end) for word in words] == [
        ("a", 1, 2),
        ("b", 3, 4),
        ("c", 5, 6),
    ]


def test_formats_say_the_same(tmp_path: Path) -> None:
    texts = {
        "pharaoh": "0-0 2p1\r\n\r\n1-1\r\n",
        "moses": "0-0:0.93 2?1:1e-05\n\n1-1\n",
        "naacl": "1 1 1 S\n1 3 2 P 0.5\n0003 2 2\n3 0 1 S\n",
    }
    files = []
    for name, text in texts.items():
        files.append(tmp_path / name)
        files[-1].write_bytes(text.encode())

    for file in files:
        sure, possible = zip(*((of.sure, of.possible) for of in read_links(file)), strict=True)
        assert sure == (((0, 0),), (), ((1, 1),))
        assert possible == (((0, 0), (2, 1)), (), ((1, 1),))

    (tmp_path / "one").write_text("1-1 3p2\n\n2-2\n")
    assert read_links(tmp_path / "one", first=1) == read_links(files[0])
    (tmp_path / "json").write_text(json.dumps({"links": [{"source": 4, "target": 0}]}) + "\n")
    assert [of.sure for of in read_links(tmp_path / "json")] == [((4, 0),)]


@pytest.mark.parametrize(
    ("text", "line"),
    [("0-0\n1_2\n", 2), ("1 1 1 S\n1 1\n", 2), ('{"links": 3}\n', 1), ("0-0 a\n", 1)],
)
def test_a_line_that_is_no_link_is_named(text: str, line: int, tmp_path: Path) -> None:
    file = tmp_path / "links"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_links(file)
    assert (caught.value.file, caught.value.line) == (str(file), line)
    assert caught.value.hint


def test_links_are_scored_as_nltk_scores_them(tmp_path: Path) -> None:
    generator = random.Random(1)
    every = list(product(range(5), repeat=2))
    texts: dict[str, list[str]] = {"links": [], "gold": []}
    model, sure, possible = set(), set(), set()
    for row in range(30):
        of_model, of_gold = generator.sample(every, 5), generator.sample(every, 8)
        is_sure = {link: generator.random() < 0.5 for link in of_gold}
        texts["links"].append(" ".join(f"{i}-{j}" for i, j in of_model))
        texts["gold"].append(" ".join(f"{i}{'p-'[is_sure[i, j]]}{j}" for i, j in of_gold))
        model |= {(row, *link) for link in of_model}
        possible |= {(row, *link) for link in of_gold}
        sure |= {(row, *link) for link in of_gold if is_sure[link]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    scores = score_links(tmp_path / "links", tmp_path / "gold")
    values = {name: value.value for name, value in scores.metrics.items()}
    assert values == pytest.approx(
        {
            "aer": alignment_error_rate(sure, model, possible),
            "precision": precision(possible, model),
            "recall": recall(sure, model),
        }
    )
    assert all(value.low < value.value < value.high for value in scores.metrics.values())
    assert (scores.pairs, scores.links, scores.possible) == (30, 150, 240)


def test_links_of_other_pairs_and_words_counted_from_one_are_told(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("0-0\n1-1\n")
    (tmp_path / "gold").write_text("1-1\n2-2\n")

    assert any(
        "--first 1" in note for note in score_links(tmp_path / "links", tmp_path / "gold").notes
    )
    scores = score_links(tmp_path / "links", tmp_path / "gold", first=1)
    assert scores.metrics["aer"].value == 0
    assert not scores.notes

    (tmp_path / "gold").write_text("1-1\n2-2\n3-3\n")
    with pytest.raises(UserError, match="links of 2 pairs"):
        score_links(tmp_path / "links", tmp_path / "gold")


def test_pairs_without_links_are_scored_whatever_the_format(tmp_path: Path) -> None:
    links, pharaoh, naacl = (tmp_path / name for name in ("links", "pharaoh", "naacl"))
    links.write_text("0-0\n\n\n")
    pharaoh.write_text("0-0\n1-1\n\n")
    # The format has no line for the last pair.
    naacl.write_text("1 1 1 S\n2 2 2 S\n")
    scores = score_links(links, pharaoh)
    assert score_links(links, naacl) == scores
    assert scores.metrics["aer"].value == pytest.approx(1 / 3)

    links.write_text("\n\n\n")
    assert score_links(links, pharaoh).metrics["aer"].value == 1.0


def test_where_nothing_is_to_be_linked_and_nothing_is_no_score_is_undefined(tmp_path: Path) -> None:
    links, gold = (tmp_path / name for name in ("links", "gold"))
    links.write_text("0-0\n\n1-1\n")
    # A resample may have the second pair alone.
    gold.write_text("0-0\n0p1\n1-1\n")
    for value in score_links(links, gold).metrics.values():
        assert 0 <= value.low <= value.value <= value.high <= 1


@pytest.mark.parametrize("text", ["0-" + "1" * 5000, '{"links": ' + "[" * 100_000])
def test_links_that_no_text_has_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_text(text + "\n")
    with pytest.raises(UserError, match="link"):
        read_links(path)
