"""Sources of one-hot vectors, read by a layer whose weights are embeddings, are like symbols."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.decoding.search import beam_search
from pam.experiments.settings import Decoding, Network
from pam.models.build import build
from pam.models.fitting import FitError, check_vectors
from pam.models.seq2seq import Seq2Seq
from tests.models import tiny

MODELS = (
    "soft",
    "soft-mlp",
    "structured",
    "acvi",
    "ved",
    "variational",
    "variational-sample",
    "hard",
    "prior-joint",
    "postr-joint",
    "prox-postr-joint",
    "mono-postr-joint",
    "fertility",
    "local-p",
    "none",
)


def twins(name: str) -> tuple[Seq2Seq, Seq2Seq]:
    """Make a model of symbols, and a model of vectors with the same weights."""
    symbols = tiny.model(tiny.components(name))
    network = Network(embedding=4, encoder=3, decoder=5, dropout=0.0)
    vectors = build(
        tiny.components(name), network, tiny.VOCABULARY, tiny.VOCABULARY, vectors=tiny.VOCABULARY
    )
    vectors.double().eval()

    assert isinstance(vectors, Seq2Seq)

    weights = dict(symbols.state_dict())
    # The linear layer reads a one-hot vector as its symbol's embedding.
    weights["encoder.embedding.weight"] = weights["encoder.embedding.weight"].t()
    weights["encoder.embedding.bias"] = torch.zeros(4).double()
    vectors.load_state_dict(weights)

    return symbols, vectors


def one_hot(source: Tensor, lengths: Tensor) -> Tensor:
    """Turn symbols (B, m) into one-hot vectors (B, m, V), zeros at padding."""
    real = torch.arange(source.shape[1]) < lengths[:, None]
    return F.one_hot(source, tiny.VOCABULARY).double() * real[:, :, None]


@pytest.mark.parametrize("name", MODELS)
def test_likelihood_and_objective_are_those_of_the_symbols(name: str) -> None:
    symbols, vectors = twins(name)
    source, lengths, target = tiny.batch()
    read = one_hot(source, lengths)

    for method in ("log_likelihood", "objective"):
        torch.manual_seed(3)
        expected = getattr(symbols, method)(source, lengths, target)
        torch.manual_seed(3)
        torch.testing.assert_close(getattr(vectors, method)(read, lengths, target), expected)


@pytest.mark.parametrize("name", MODELS)
def test_search_finds_the_same(name: str) -> None:
    symbols, vectors = twins(name)
    source, lengths, _ = tiny.batch()
    decoding = Decoding(beam=3, max_ratio=1.0, max_extra=3)
    expected = beam_search(symbols, source, lengths, decoding, 2)
    actual = beam_search(vectors, one_hot(source, lengths), lengths, decoding, 2)

    assert [[hypothesis.symbols for hypothesis in hypotheses] for hypotheses in actual] == [
        [hypothesis.symbols for hypothesis in hypotheses] for hypotheses in expected
    ]


def test_the_layer_that_reads_vectors_is_trained() -> None:
    _, vectors = twins("postr-joint")
    source, lengths, target = tiny.batch()
    vectors.objective(one_hot(source, lengths), lengths, target).sum().backward()

    assert isinstance(vectors.encoder.embedding, nn.Linear)
    assert all(
        part.grad is not None and part.grad.abs().sum() > 0
        for part in vectors.encoder.embedding.parameters()
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transformer", "the architecture `transformer`"),
        ("agreement", "the architecture `agreement`"),
        ("soft-pointer", "copying"),
        ("soft-reversed", "a model that learns from target to source"),
    ],
)
def test_what_reads_symbols_alone_is_refused(name: str, message: str) -> None:
    with pytest.raises(
        FitError, match=f"{message} needs sources of symbols, a task of captioning has vectors"
    ):
        check_vectors(tiny.components(name), "captioning")
