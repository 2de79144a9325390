"""The measures on the development split: nats per symbol, and outputs that are right."""

from __future__ import annotations

import pytest
import torch

from pam.data.dataset import Examples, Split
from pam.data.vocabulary import EOS, STEP
from pam.decoding.hypotheses import Output
from pam.experiments.settings import Decoding
from pam.models.seq2seq import Seq2Seq
from pam.training.distributed import ProcessGroup
from pam.training.preemption import Stop
from pam.training.trainer import evaluate
from tests.decoding import varied
from tests.decoding.best import outputs_of as decode
from tests.decoding.varied import SOURCES

ALONE = ProcessGroup(), Stop()


def examples(targets: list[list[int]]) -> Examples:
    return Examples(Split.from_rows(SOURCES, targets, None, {}), "symbols")


@pytest.mark.parametrize("size", [1, 3, 8])
def test_the_loss_is_the_mean_over_symbols_and_ends(size: int) -> None:
    model = varied.model("postr-joint")
    targets = [[5, 6], [7], [8, 8, 5], [6], [5], [6, 7], [5, 5, 5, 5], [8]]
    scores = evaluate(model, examples(targets), Decoding(batch_size=size), *ALONE)
    total = 0.0

    for source, target in zip(SOURCES, targets, strict=True):
        ended = torch.tensor([[*source, EOS]])
        length = torch.tensor([len(source) + 1])
        gold = torch.tensor([[*target, EOS]])
        total -= model.teacher_force(ended, length, gold).log_probs.sum().item()

    symbols = sum(len(target) + 1 for target in targets)
    assert scores["loss"] == pytest.approx(total / symbols, rel=1e-9)


def best(model: Seq2Seq, decoding: Decoding, actions: bool = False) -> list[Output]:
    return [outputs[0] for outputs in decode(model, SOURCES, decoding, actions)]


def test_the_accuracy_is_the_share_of_outputs_that_are_wholly_right() -> None:
    model = varied.model("postr-joint")
    decoding = Decoding(batch_size=3)
    outputs = best(model, decoding)
    whole = [row for row, output in enumerate(outputs) if output.complete]
    targets = [output.symbols for output in outputs]

    assert evaluate(model, examples(targets), decoding, *ALONE)["accuracy"] == len(whole) / 8

    targets[whole[0]] = [*targets[whole[0]], 5]
    targets[whole[1]] = targets[whole[1]][:-1]
    accuracy = evaluate(model, examples(targets), decoding, *ALONE)["accuracy"]

    assert 0 < accuracy == (len(whole) - 2) / 8


def test_an_output_that_is_cut_short_is_wrong() -> None:
    model = varied.model("postr-joint")
    model.readout.output.bias.data[EOS] -= 1e4
    decoding = Decoding(max_ratio=1e-9, max_extra=2)
    targets = [output.symbols for output in best(model, decoding)]

    assert {len(symbols) for symbols in targets} == {2}
    assert evaluate(model, examples(targets), decoding, *ALONE)["accuracy"] == 0.0


def test_the_steps_of_a_pointer_do_not_count() -> None:
    model = varied.model("hard-mono")
    decoding = Decoding()
    outputs = best(model, decoding, actions=True)

    assert any(STEP in output.symbols for output in outputs if output.complete)

    targets = [[symbol for symbol in output.symbols if symbol != STEP] for output in outputs]
    accuracy = evaluate(model, examples(targets), decoding, *ALONE, actions=True)["accuracy"]
    assert 0 < accuracy == sum(output.complete for output in outputs) / 8


def test_training_is_measured_by_greedy_search_whatever_the_beam() -> None:
    model = varied.model("postr-joint")
    wide = Decoding(beam=4)
    greedy = [output.symbols for output in best(model, Decoding(beam=1))]

    assert greedy != [output.symbols for output in best(model, wide)]

    by_beam_of_1 = evaluate(model, examples(greedy), Decoding(), *ALONE)
    by_beam_of_4 = evaluate(model, examples(greedy), wide, *ALONE)
    assert by_beam_of_1 == by_beam_of_4
    assert by_beam_of_1["accuracy"] > 0


def scores(model: Seq2Seq, targets: list[list[int]], size: int = 3) -> dict[str, float]:
    decoding = Decoding(batch_size=size)
    return evaluate(model, examples(targets), decoding, *ALONE, accuracy=False, eval_metrics=True)


@pytest.mark.parametrize("name", ["soft", "postr-joint", "structured", "acvi"])
def test_what_greedy_search_writes_has_every_symbol_right(name: str) -> None:
    model = varied.model(name)
    outputs = zip(SOURCES, best(model, Decoding()), strict=True)
    pairs = [(source, output.symbols) for source, output in outputs if output.complete]
    rows = [source for source, _ in pairs]
    targets = [target for _, target in pairs]
    pairs_as_data = Examples(Split.from_rows(rows, targets, None, {}), "symbols")
    measured = evaluate(model, pairs_as_data, Decoding(), *ALONE, eval_metrics=True)

    assert (measured["token_accuracy"], measured["accuracy"]) == (1.0, 1.0)

    targets[0] = [*targets[0], 5]
    pairs_as_data = Examples(Split.from_rows(rows, targets, None, {}), "symbols")
    assert (
        0
        < evaluate(model, pairs_as_data, Decoding(), *ALONE, eval_metrics=True)["token_accuracy"]
        < 1
    )


def test_the_objective_of_a_likelihood_is_the_loss_and_a_bound_lies_below() -> None:
    targets = [[5, 6], [7], [8, 8, 5], [6], [5], [6, 7], [5, 5, 5, 5], [8]]
    exact = scores(varied.model("postr-joint"), targets)
    bound = scores(varied.model("variational"), targets)
    assert exact["objective"] == pytest.approx(-exact["loss"], rel=1e-9)

    # Both score by the prior alone; the bound also pays for the divergence.
    model = varied.model("variational")
    total = 0.0
    symbols = 0

    for source, target in zip(SOURCES, targets, strict=True):
        length = torch.tensor([len(source) + 1])
        gold = torch.tensor([[*target, EOS]])
        total += model.objective(torch.tensor([[*source, EOS]]), length, gold).sum().item()
        symbols += len(target) + 1

    assert bound["objective"] == pytest.approx(total / symbols, rel=1e-9)
    assert bound["objective"] != pytest.approx(-bound["loss"], rel=1e-3)
