"""Measures of attention: links of words, entropies, coverage, likelihood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pam.evaluation.attention import Analysis, Gatherer, Sentence, entropies
from pam.evaluation.records import load, save
from pam.runtime.errors import UserError

ABOUT: dict[str, Any] = {
    "task": "t",
    "model": "soft",
    "label": "Soft",
    "seed": 1,
    "split": "test",
    "wall_s": 1.0,
    "cpu_s": 1.0,
    "gpu_s": 0.0,
}
ONE_HOT = np.eye(4)[[0, 2, 1, 3]]
"""Three target symbols and the end attend to three source symbols and the end."""


def sentence(alignment: np.ndarray, **changed: Any) -> Sentence:
    """Return a sentence of n target symbols with probability 1/2 each, every symbol a word."""
    n, m = alignment.shape
    parts: dict[str, Any] = {
        "log_probs": np.full(n, np.log(0.5)),
        "exact": np.full(n, np.log(0.75)),
        "correct": np.arange(n) % 2 == 0,
        "prior": alignment,
        "alignment": alignment,
        "posterior": alignment,
        "source_words": list(range(m - 1)),
        "target_words": list(range(n - 1)),
    }
    return Sentence(**(parts | changed))


def gathered(*sentences: Sentence) -> Analysis:
    gatherer = Gatherer()
    # Batches come by length, so that rows come in any order.
    for number in reversed(range(len(sentences))):
        gatherer.add(number, sentences[number])
    return gatherer.analysis(**ABOUT)


def test_likelihoods_are_summed_with_the_end_symbol() -> None:
    sentences = gathered(sentence(ONE_HOT), sentence(ONE_HOT[:2])).sentences
    assert sentences.tokens == [4, 2]
    assert sentences.nll == pytest.approx([4 * np.log(2), 2 * np.log(2)], abs=1e-6)
    assert sentences.nll_exact == pytest.approx([-4 * np.log(0.75), -2 * np.log(0.75)], abs=1e-6)


def test_the_posteriors_gain_is_its_divergence_from_the_prior() -> None:
    prior = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    posterior = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    bayes = sentence(prior, posterior=posterior, gives_positions=True)

    # Each of the first two symbols is possible from half of its prior alone, the last from all.
    assert gathered(bayes, bayes).sentences.posterior_gain == [pytest.approx(2 * np.log(2))] * 2
    assert gathered(sentence(prior, posterior=posterior)).sentences.posterior_gain is None


def test_each_target_word_is_linked_to_the_word_it_attends_most() -> None:
    sentences = gathered(
        sentence(ONE_HOT, prior=np.eye(4), posterior=np.eye(4)[[1, 0, 2, 3]])
    ).sentences
    assert sentences.links == [[(0, 0), (2, 1), (1, 2)]]
    assert sentences.links_prior == [[(0, 0), (1, 1), (2, 2)]]
    assert sentences.links_posterior == [[(1, 0), (0, 1), (2, 2)]]
    # No word attends to the end, which is left out.
    assert sentences.links_late == [[(1, 0), (2, 1), (0, 2)]]


def test_heads_link_words_at_their_step_and_at_the_step_after() -> None:
    sentences = gathered(sentence(ONE_HOT, heads={"layer 1, head 2": np.eye(4)})).sentences
    assert sentences.links_heads == [
        {
            "layer 1, head 2": [(0, 0), (1, 1), (2, 2)],
            "layer 1, head 2, late": [(1, 0), (2, 1), (0, 2)],
        }
    ]
    assert gathered(sentence(ONE_HOT)).sentences.links_heads is None


def test_shift_att_links_words_by_the_mean_of_a_layer_at_the_step_after() -> None:
    # At steps 1 to 3 after the first the mean of layer 1 looks at words 2, 1 and 0.
    ahead = np.array([[1, 0, 0, 0], [0.4, 0, 0.6, 0], [0, 0.7, 0.3, 0], [0.6, 0.4, 0, 0]])
    behind = np.array([[1, 0, 0, 0], [0.4, 0, 0.6, 0], [0.5, 0.5, 0, 0], [0.3, 0, 0.7, 0]])
    heads = {"layer 1, head 1": ahead, "layer 1, head 2": behind, "layer 2, head 1": np.eye(4)}
    sentences = gathered(sentence(ONE_HOT, heads=heads)).sentences

    assert sentences.links_shift_att == [
        {"layer 1": [(2, 0), (1, 1), (0, 2)], "layer 2": [(1, 0), (2, 1), (0, 2)]}
    ]
    assert gathered(sentence(ONE_HOT)).sentences.links_shift_att is None


def test_attention_to_the_end_is_left_out_of_links() -> None:
    alignment = np.array([[0.1, 0.3, 0.6], [0.2, 0.1, 0.7]])
    assert gathered(sentence(alignment)).sentences.links == [[(1, 0)]]


def test_subwords_are_summed_in_the_source_and_averaged_in_the_target() -> None:
    # The second source word is one symbol of 0.4, the first two symbols of 0.25 each.
    alignment = np.array([[0.25, 0.25, 0.4, 0.1], [0.0, 0.0, 0.9, 0.1], [0.3, 0.3, 0.3, 0.1]])
    apart = sentence(alignment, source_words=[0, 0, 1])

    assert gathered(apart).sentences.links == [[(0, 0), (1, 1)]]

    together = sentence(alignment, source_words=[0, 0, 1], target_words=[0, 0])
    assert gathered(together).sentences.links == [[(1, 0)]]
    assert gathered(together).sentences.source_words == [2]


def test_coverage_is_capped_and_end_symbols_do_not_count() -> None:
    alignment = np.array([[0.9, 0.1, 0.0], [0.9, 0.0, 0.1], [0.0, 1.0, 0.0]])
    analysis = gathered(sentence(alignment))

    assert analysis.sentences.coverage == [pytest.approx((1.0 + 0.1) / 2)]
    assert analysis.sentences.covered == [0.5]

    words = np.zeros(20)
    words[[2, 19]] = 1  # 0.1 and 1.0

    assert analysis.coverage.words == words.tolist()
    assert (analysis.coverage.sentences[10], sum(analysis.coverage.sentences)) == (1, 1)


def test_entropies_are_counted_with_how_often_the_model_was_right() -> None:
    uniform = np.full((3, 4), 0.25)
    entropy = gathered(sentence(ONE_HOT), sentence(uniform)).entropy

    assert (entropy.count[0], entropy.correct[0]) == (4, 2)

    bin_index = int(np.log(4) / 0.25)
    assert (entropy.count[bin_index], entropy.correct[bin_index]) == (3, 2)
    assert sum(entropy.count) == 7
    assert entropy.mean == pytest.approx(3 * np.log(4) / 7)


def test_the_entropy_of_the_posterior_is_counted_apart() -> None:
    analysis = gathered(sentence(np.full((3, 4), 0.25), posterior=ONE_HOT[:3]))

    assert analysis.entropy.mean == pytest.approx(np.log(4))
    assert analysis.posterior_entropy is not None
    assert (analysis.posterior_entropy.mean, analysis.posterior_entropy.count[0]) == (0, 3)


def test_entropies_above_the_last_edge_are_in_the_last_bin() -> None:
    entropy = gathered(sentence(np.full((2, 100), 0.01))).entropy
    assert entropy.count[-1] == 2 and sum(entropy.count) == 2


def test_positions_without_any_probability_add_nothing() -> None:
    assert entropies(np.array([[0.5, 0.5, 0.0]])) == pytest.approx([np.log(2)])


def test_an_analysis_can_be_read_back(tmp_path: Path) -> None:
    analysis = gathered(sentence(ONE_HOT))
    path = tmp_path / "analysis.json"

    save(analysis, path)
    assert load(Analysis, path) == analysis
    assert "above the last edge" in json.loads(path.read_text())["entropy"]["description"]


@pytest.mark.parametrize("key", ["nll", "links"])
def test_a_damaged_analysis_is_named(key: str, tmp_path: Path) -> None:
    path = tmp_path / "analysis.json"
    save(gathered(sentence(ONE_HOT)), path)
    content = json.loads(path.read_text())
    content["sentences"][key] = []

    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="different lengths") as raised:
        load(Analysis, path)
    assert raised.value.file == str(path)
