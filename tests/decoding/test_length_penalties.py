"""Length penalties: their two forms by their formulas, several by one search, wrong settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pam.decoding.hypotheses import LengthPrior, Ranking
from pam.experiments.parsing import parse
from pam.experiments.settings import Decoding
from pam.runtime.errors import UserError
from tests.decoding import varied
from tests.decoding.best import assert_same, outputs_of
from tests.decoding.varied import ACTIONS, SOURCES
from tests.long_forms import in_turn
from tests.models import tiny

CANDIDATES = (0.0, 0.3, 0.6, 1.0, 2.5)
SEARCHES = [(1, "power", 0.0), (2, "wu", 1.5), (5, "wu", 0.0), (5, "power", 1.5)]
"""Beam, form of the penalty and weight of the prior."""
PRIOR = LengthPrior.fit([1, 2, 2, 3, 4, 4, 5], [2, 2, 1, 2, 2, 1, 3])


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0, 1.7])
@pytest.mark.parametrize("written", [1, 4, 19])
def test_the_form_of_wu_and_others_is_their_equation_14(alpha: float, written: int) -> None:
    decoding = Decoding(length_penalty=alpha, length_penalty_form="wu")
    ranking = Ranking(decoding, torch.tensor([5]), torch.tensor([20]), None)
    # s(Y, X) = log P(Y | X) / lp(Y), lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha
    lp = (5.0 + written) ** alpha / (5.0 + 1.0) ** alpha

    assert ranking.score(0, -7.5, written, True) == pytest.approx(-7.5 / lp, rel=1e-12)

    plain = Ranking(Decoding(length_penalty=alpha), torch.tensor([5]), torch.tensor([20]), None)
    assert plain.score(0, -7.5, written, True) == pytest.approx(-7.5 / written**alpha, rel=1e-12)


@pytest.mark.parametrize("form", ["power", "wu"])
def test_no_continuation_exceeds_its_bound_and_the_longest_reaches_it(form: Any) -> None:
    decoding = Decoding(length_penalty=0.8, length_penalty_form=form)
    ranking = Ranking(decoding, torch.tensor([5]), torch.tensor([20]), None)
    bound = float(ranking.bound(torch.tensor([0]), torch.tensor([[-3.0]], dtype=torch.float64), 4))
    scores = [ranking.score(0, -3.0, length, True) for length in range(5, 21)]

    assert bound == pytest.approx(scores[-1]) == pytest.approx(max(scores))


@pytest.mark.parametrize(("name", "settings"), in_turn(tiny.NAMED, SEARCHES))
def test_one_search_finds_for_each_penalty_what_a_search_of_its_own_finds(
    name: str, settings: tuple[int, str, float]
) -> None:
    model = varied.model(name)
    beam, form, weight = settings
    prior = PRIOR if weight else None
    shared: dict[str, Any] = {"beam": beam, "length_penalty_form": form, "length_prior": weight}
    shared |= {"max_ratio": 2.0, "max_extra": 4, "batch_size": 5}
    by_one_search = outputs_of(
        model, SOURCES, Decoding(**shared), ACTIONS[name], prior=prior, penalties=CANDIDATES
    )

    for number, alpha in enumerate(CANDIDATES):
        by_own_search = outputs_of(
            model, SOURCES, Decoding(length_penalty=alpha, **shared), ACTIONS[name], prior=prior
        )
        for outputs, (best,) in zip(by_one_search, by_own_search, strict=True):
            assert_same(outputs[number], best)


def test_penalties_choose_different_outputs() -> None:
    model = varied.model("postr-joint")
    outputs_of_sources = outputs_of(model, SOURCES, Decoding(beam=5), penalties=CANDIDATES)
    lengths = [
        sum(len(outputs[number].symbols) for outputs in outputs_of_sources)
        for number in range(len(CANDIDATES))
    ]

    assert lengths[0] < lengths[-1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length_penalty_form": "wo"}, "length_penalty_form"),
        ({"length_penalties": [0.0, -1.0]}, "length_penalties.1"),
        ({"length_penalties": [0.5, 0.5]}, "a candidate is given twice"),
        (
            {"length_penalties": [0.5], "length_penalty": 1.0},
            "exclude each other",
        ),
        ({"length_penalties": [0.5], "temperature": 1.0}, "sampled outputs"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        parse(Decoding, settings)
    assert raised.value.hint
