"""Search with an output layer in bfloat16 finds what search in float32 finds."""

from __future__ import annotations

from typing import Any

import pytest
import sacrebleu
import torch

from pam.decoding.hypotheses import Output
from pam.experiments.settings import Decoding, Network
from pam.models.build import build
from pam.models.kernels.search_layer import BEST, COLUMN, SearchLayer, largest
from pam.models.model import Model
from pam.runtime import processor
from pam.runtime.processor import Trial
from tests.decoding.best import outputs_of
from tests.models import tiny

pytestmark = pytest.mark.processor

VOCABULARY = 500
SOURCES = [
    [5 + (7 * row + 3 * position) % 20 for position in range(3 + row % 9)] for row in range(60)
]
NUCLEUS: dict[str, Any] = {"marginalization": {"kind": "output", "mass": 0.9}}
CASES = [
    ("soft", {}),
    ("postr-joint", {}),
    ("postr-joint", NUCLEUS),
    ("ved", {}),
    ("transformer", {}),
]


def made(name: str, changed: dict[str, Any]) -> Model:
    """Make a model whose distributions are about as sharp as those of a trained one."""
    torch.manual_seed(1)
    network = Network(
        embedding=32, encoder=24, decoder=48, encoder_layers=2, decoder_layers=2, dropout=0.0
    )
    model = build(tiny.components(name, **changed), network, 30, VOCABULARY)
    # Fresh weights give nearly uniform distributions.
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data.mul_(2.0)

    return model.eval()


def decoded(model: Model, precision: str, beam: int = 4) -> list[list[Output]]:
    settings = Decoding.model_validate(
        {"beam": beam, "precision": precision, "max_ratio": 1.0, "max_extra": 3}
    )
    return outputs_of(model, SOURCES, settings, n_best=beam)


@pytest.mark.parametrize(("name", "changed"), CASES)
def test_scores_differ_by_less_than_a_hundredth_of_a_nat(
    name: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        processor, "try_bfloat16", lambda: Trial(pays=True, reason="as on another processor")
    )
    model = made(name, changed)
    exact = decoded(model, "float32")
    rough = decoded(model, "bf16")
    scores = [{tuple(output.symbols): output.log_prob for output in outputs} for outputs in exact]
    pairs = [
        (score_row[tuple(output.symbols)], output.log_prob)
        for score_row, outputs in zip(scores, rough, strict=True)
        for output in outputs
        if tuple(output.symbols) in score_row
    ]

    assert len(pairs) > 0.9 * sum(map(len, exact))
    assert 0 < max(abs(a - b) for a, b in pairs) < 1e-2

    rough_texts = [" ".join(map(str, outputs[0].symbols)) for outputs in rough]
    exact_texts = [" ".join(map(str, outputs[0].symbols)) for outputs in exact]

    assert sacrebleu.corpus_bleu(rough_texts, [exact_texts], tokenize="none").score > 97
    assert len(set(exact_texts)) > 20


def test_search_in_bf16_is_one_in_float32_where_bfloat16_does_not_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        processor, "try_bfloat16", lambda: Trial(pays=False, reason="as on another processor")
    )
    model = made("soft", {})

    assert decoded(model, "bf16") == decoded(model, "float32")


def test_logits_of_the_likeliest_symbols_are_exact() -> None:
    torch.manual_seed(2)
    weight = torch.randn(VOCABULARY, 32)
    bias = torch.randn(VOCABULARY)
    z = torch.tanh(torch.randn(40, 32))
    expected = torch.log_softmax(z @ weight.t() + bias, dim=1)
    rough = SearchLayer(weight, bias, bf16=True).log_probs(z)
    symbols = expected.topk(BEST // 2, dim=1).indices
    off = (rough - expected).abs()

    assert float(off.gather(1, symbols).max()) < 2e-3 < float(off.max()) / 5


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("many", [10, COLUMN * 16, COLUMN * COLUMN * 16, 5003])
def test_the_largest_are_those_of_topk(many: int, count: int) -> None:
    torch.manual_seed(3)
    values = torch.randn(7, many)
    expected = values.topk(min(count, many), dim=1)
    values_found, places = largest(values, min(count, many))

    assert torch.equal(values_found, expected.values)
    assert torch.equal(places, expected.indices)
