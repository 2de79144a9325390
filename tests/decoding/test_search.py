"""Search finds what it should: greedily, by beam against enumeration, whatever the batch."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from pam.data.vocabulary import BOS, EOS, PAD, STEP, UNK
from pam.decoding import search as searching
from pam.decoding.hypotheses import LengthPrior, Output, Ranking, forbidden_symbols
from pam.experiments.settings import Decoding
from pam.models.seq2seq import Seq2Seq
from tests.decoding import varied
from tests.decoding.best import assert_same, decode, log_likelihoods, outputs_of
from tests.decoding.varied import ACTIONS, SOURCES
from tests.long_forms import in_turn
from tests.models import tiny

TOP_2: dict[str, Any] = {"marginalization": {"kind": "output", "top_k": 2}}
SHORT: dict[str, Any] = {"max_ratio": 1e-9, "max_extra": 3}
"""Outputs of at most three symbols, the end symbol included."""


def greedy(model: Seq2Seq, source: list[int], limit: int, actions: bool) -> Output:
    """Write the most probable symbol at each step, for one sentence."""
    ended = torch.tensor([[*source, EOS]])
    with torch.no_grad():
        memory = model.encode(ended, torch.tensor([ended.shape[1]]))
        state = model.start(memory)
        symbol = torch.tensor([BOS])
        symbols: list[int] = []
        total = 0.0
        while len(symbols) < limit:
            step = model.step(memory, state, symbol)
            log_probs = step.output.log_probs()[0].clone()
            log_probs[forbidden_symbols(actions)] = -torch.inf
            symbol = log_probs.argmax()[None]
            total += float(log_probs.max())
            if int(symbol) == EOS:
                return Output(symbols, total, True, total)
            symbols.append(int(symbol))
            state = model.update(memory, step, symbol)

    return Output(symbols, total, False, total)


@pytest.mark.parametrize("name", tiny.NAMED)
def test_a_beam_of_one_is_greedy_search(name: str) -> None:
    model = varied.model(name)
    outputs = decode(model, SOURCES, Decoding(beam=1, max_ratio=1.0, max_extra=4), ACTIONS[name])
    for source, output in zip(SOURCES, outputs, strict=True):
        assert_same(output, greedy(model, source, len(source) + 5, ACTIONS[name]))

    # The model is no trivial one: outputs differ, some end and some are cut short.
    assert len({tuple(output.symbols) for output in outputs}) > 2
    assert {output.complete for output in outputs} == {True, False}


@pytest.mark.parametrize(
    ("name", "changed"),
    [*((name, {}) for name in tiny.NAMED), ("prior-joint", TOP_2), ("mono-postr-joint", TOP_2)],
)
def test_a_beam_larger_than_the_search_space_finds_the_argmax(
    name: str, changed: dict[str, Any]
) -> None:
    model = varied.short(name, **changed)
    actions = ACTIONS[name]
    allowed = [s for s in range(tiny.VOCABULARY) if s not in {*forbidden_symbols(actions), EOS}]
    strings = [list(text) for length in range(3) for text in product(allowed, repeat=length)]
    # The beam holds every string that is allowed.
    outputs = decode(model, SOURCES, Decoding(beam=300, **SHORT), actions)
    narrow = decode(model, SOURCES, Decoding(beam=1, **SHORT), actions)
    for source, output in zip(SOURCES, outputs, strict=True):
        scores = log_likelihoods(model, source, [[*text, EOS] for text in strings])
        best = max(range(len(strings)), key=scores.__getitem__)
        assert_same(output, Output(strings[best], scores[best], True, scores[best]))

    assert len({tuple(output.symbols) for output in outputs}) > 2
    assert len({len(output.symbols) for output in outputs}) > 1
    assert [output.symbols for output in outputs] != [output.symbols for output in narrow]


@pytest.mark.parametrize(("name", "beam"), in_turn(tiny.NAMED, [3, 1]))
def test_the_log_prob_of_an_output_is_its_likelihood_under_teacher_forcing(
    name: str, beam: int
) -> None:
    model = varied.model(name)
    outputs = decode(model, SOURCES, Decoding(beam=beam, max_ratio=1.0, max_extra=4), ACTIONS[name])
    for source, output in zip(SOURCES, outputs, strict=True):
        target = [*output.symbols, EOS] if output.complete else output.symbols
        (likelihood,) = log_likelihoods(model, source, [target])
        assert output.log_prob == pytest.approx(likelihood, rel=1e-9)


@pytest.mark.parametrize(("name", "beam"), in_turn(tiny.NAMED, [1, 4]))
def test_neither_padding_nor_the_rest_of_a_batch_changes_an_output(name: str, beam: int) -> None:
    model = varied.model(name)
    decoding = Decoding(beam=beam, max_ratio=2.0, max_extra=3)
    alone = [decode(model, [source], decoding, ACTIONS[name])[0] for source in SOURCES]
    together = decode(model, SOURCES, decoding, ACTIONS[name])
    reverse = decode(model, SOURCES[::-1], decoding, ACTIONS[name])[::-1]
    lengths = torch.tensor([len(source) + 1 for source in SOURCES])
    # Wider than the longest source, so that every row has padding.
    padded = torch.full((len(SOURCES), 9), PAD)
    for row, source in enumerate(SOURCES):
        padded[row, : len(source) + 1] = torch.tensor([*source, EOS])
    wide = searching.search(model, padded, lengths, decoding, ACTIONS[name])
    for outputs in (together, reverse, wide):
        for output, expected in zip(outputs, alone, strict=True):
            assert_same(output, expected)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_outputs_come_in_the_order_of_the_sources(size: int) -> None:
    model = varied.model("postr-joint")
    one_by_one = [decode(model, [source], Decoding())[0] for source in SOURCES]
    for output, expected in zip(
        decode(model, SOURCES, Decoding(batch_size=size)), one_by_one, strict=True
    ):
        assert_same(output, expected)

    assert decode(model, [], Decoding()) == []


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["soft", "mono-postr-joint", "hard-mono"])
def test_an_output_at_the_length_limit_is_reported_as_cut_short(name: str, beam: int) -> None:
    model = varied.model(name)
    model.readout.output.bias.data[EOS] -= 1e4
    decoding = Decoding(beam=beam, max_ratio=2.0, max_extra=3)

    for source, output in zip(
        SOURCES, decode(model, SOURCES, decoding, ACTIONS[name]), strict=True
    ):
        assert not output.complete
        assert len(output.symbols) == 2 * (len(source) + 1) + 3
        assert EOS not in output.symbols


def test_an_output_that_ends_is_preferred_to_a_more_probable_one_that_is_cut_short() -> None:
    model = varied.model("soft")
    model.readout.output.bias.data[EOS] -= 5.0
    (narrow,) = decode(model, [[6]], Decoding(beam=1, **SHORT))
    (wide,) = decode(model, [[6]], Decoding(beam=200, **SHORT))

    assert not narrow.complete and wide.complete
    assert wide.log_prob < narrow.log_prob


@pytest.mark.parametrize("beam", [1, 3])
def test_forbidden_symbols_are_never_written(beam: int) -> None:
    for name in ("postr-joint", "hard-mono"):
        model = varied.model(name)
        # Forbidden symbols are by far the most probable ones.
        model.readout.output.bias.data[[PAD, BOS, STEP]] += 50.0
        model.readout.output.bias.data[EOS] -= 1e4
        outputs = decode(model, SOURCES, Decoding(beam=beam), ACTIONS[name])
        written = {symbol for output in outputs for symbol in output.symbols}
        assert written and not written & {PAD, BOS, EOS}
        assert (STEP in written) == ACTIONS[name]


def test_a_step_at_the_last_position_leaves_the_pointer_there() -> None:
    model = varied.model("hard-mono")
    lengths = torch.tensor([3, 1])
    memory = model.encode(torch.tensor([[5, 6, EOS], [EOS, PAD, PAD]]), lengths)
    state = model.start(memory)
    stood = []

    for _ in range(5):
        assert state.alignment is not None
        assert state.alignment.sum(1).tolist() == [1.0, 1.0]
        stood.append(state.alignment.argmax(1).tolist())
        step = model.step(memory, state, torch.tensor([STEP, STEP]))
        state = model.update(memory, step, torch.tensor([STEP, STEP]))

    assert stood == [[0, 0], [1, 0], [2, 0], [2, 0], [2, 0]]


def test_a_model_that_only_steps_is_cut_short_and_does_not_crash() -> None:
    model = varied.model("hard-mono")
    model.readout.output.bias.data[STEP] += 1e3
    (output,) = decode(model, [[5, 6]], Decoding(max_ratio=2.0, max_extra=4), actions=True)
    assert output.symbols == [STEP] * 10 and not output.complete


@pytest.mark.parametrize(("power", "weight"), in_turn([0.0, 0.6, 1.0, 2.0], [0.0, 1.5]))
def test_a_wide_beam_finds_the_best_score_with_length_penalty_and_prior(
    power: float, weight: float
) -> None:
    model = varied.short("postr-joint")
    decoding = Decoding(beam=300, length_penalty=power, length_prior=weight, **SHORT)
    prior = LengthPrior.fit([1, 2, 2, 3, 4, 4, 5], [2, 2, 1, 2, 2, 1, 3])

    for source, strings, scores in enumerated(model):
        table = prior.log_probs(len(source), 3)
        # Sorted by falling score, as y = argmax log p / l^a + w log p(l).
        ranked = sorted(
            (-(score / (len(text) + 1) ** power + weight * table[len(text)]), text, score)
            for text, score in zip(strings, scores, strict=True)
        )
        (n_best_outputs,) = outputs_of(model, [source], decoding, n_best=4, prior=prior)
        assert [output.symbols for output in n_best_outputs] == [text for _, text, _ in ranked[:4]]
        for output, (score, _, log_prob) in zip(n_best_outputs, ranked, strict=False):
            assert output.log_prob == pytest.approx(log_prob, rel=1e-9)
            assert output.score == pytest.approx(-score, rel=1e-9)


def enumerated(model: Seq2Seq) -> list[tuple[list[int], list[list[int]], list[float]]]:
    """Return each source with all strings of up to two symbols and their log likelihoods."""
    allowed = [s for s in range(tiny.VOCABULARY) if s not in {*forbidden_symbols(False), EOS}]
    strings = [list(text) for length in range(3) for text in product(allowed, repeat=length)]
    return [
        (source, strings, log_likelihoods(model, source, [[*text, EOS] for text in strings]))
        for source in SOURCES
    ]


def test_length_penalty_and_prior_change_what_is_best() -> None:
    model = varied.short("soft")
    settings: list[tuple[dict[str, Any], LengthPrior | None]] = [
        ({}, None),
        ({"length_penalty": 1.0}, None),
        ({"length_prior": 5.0}, LengthPrior.fit([1, 2, 3, 4], [2, 2, 2, 2])),
    ]
    lengths = []
    for changed, prior in settings:
        decoding = Decoding(beam=300, **SHORT, **changed)
        outputs_of_sources = outputs_of(model, SOURCES, decoding, prior=prior)
        lengths.append([len(outputs[0].symbols) for outputs in outputs_of_sources])

    plain, penalized, held = lengths
    assert 0 in plain, "an empty output is legal"
    assert sum(penalized) > sum(plain)
    assert held == [2] * len(SOURCES)


@pytest.mark.parametrize("name", ["soft", "mono-postr-joint", "hard-mono"])
def test_the_n_best_outputs_are_different_and_fall_in_score(name: str) -> None:
    model = varied.short(name)
    actions = ACTIONS[name]
    decoding = Decoding(beam=4, max_ratio=1.0, max_extra=4)
    outputs_of_sources = outputs_of(model, SOURCES, decoding, actions, n_best=4)
    best = decode(model, SOURCES, decoding, actions)

    for outputs, first in zip(outputs_of_sources, best, strict=True):
        assert_same(outputs[0], first)
        assert len(outputs) == 4
        assert len({tuple(output.symbols) for output in outputs}) == 4
        ended = [output.score for output in outputs if output.complete]
        assert ended == sorted(ended, reverse=True)
        assert [output.complete for output in outputs] == sorted(
            [output.complete for output in outputs], reverse=True
        )


def test_unknown_symbols_can_be_written_and_what_they_attended_is_known() -> None:
    model = varied.model("postr-joint")
    model.readout.output.bias.data[UNK] += 3.0  # so that some outputs contain it
    decoding = Decoding(beam=3, replace_unknown=True, max_ratio=1.0, max_extra=4)
    outputs = decode(model, SOURCES, decoding)

    assert any(UNK in output.symbols for output in outputs)

    for source, output in zip(SOURCES, outputs, strict=True):
        target = torch.tensor([[*output.symbols, EOS]])
        lengths = torch.tensor([len(source) + 1])
        with torch.no_grad():
            forced = model.teacher_force(torch.tensor([[*source, EOS]]), lengths, target)
        attended = forced.alignment[0, :, : len(source)].argmax(1).tolist()
        count = len(output.attended)
        assert count == len(output.symbols) - (not output.complete)
        assert output.attended == attended[:count]


def test_a_large_vocabulary_is_searched_like_a_small_one() -> None:
    torch.manual_seed(3)
    # So many symbols that `largest` does not take `topk` alone.
    log_probs = torch.randn(2, 3, 5000).log_softmax(2)
    total = torch.tensor([[-1.0, -1.5, -2.0], [-0.5, -torch.inf, -torch.inf]])
    beams = searching._Beams(
        [Ranking(Decoding(), torch.tensor([5, 5]), torch.tensor([9, 9]), None)],
        torch.tensor([9, 9]),
        Decoding(beam=3),
        n_best=1,
    )
    beams.total = total.clone()
    parents = beams.extend(log_probs.clone())
    expected, chosen = (total[:, :, None] + log_probs).flatten(1).topk(3, dim=1)

    torch.testing.assert_close(beams.total, expected)
    assert parents.tolist() == (chosen // 5000).tolist()
    assert beams.symbol.tolist() == (chosen % 5000).tolist()


def test_a_source_of_any_length_is_decoded() -> None:
    model = varied.model("mono-postr-joint")
    sources = [[5, 6, 7, 8] * 100, [5], []]
    outputs = decode(model, sources, Decoding(beam=2, max_ratio=0.2, max_extra=3))
    assert all(-torch.inf < output.log_prob < 0 for output in outputs)
