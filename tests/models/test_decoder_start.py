"""Where the decoder's first state comes from."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from pam.data.vocabulary import EOS
from pam.experiments.settings import Decoding, Network
from tests.decoding.best import decode, log_likelihoods
from tests.models import tiny


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["soft", "postr-joint", "acvi"])
def test_from_zeros_the_first_state_knows_no_source(name: str, layers: int) -> None:
    model = tiny.model(tiny.components(name), layers=layers, decoder_start="zeros")
    source, lengths, _ = tiny.batch()
    memory = model.encode(source, lengths)

    assert len(memory.start) == layers

    for part in (part for layer in memory.start for part in layer):
        assert part.shape == (4, 5) and part.dtype == torch.float64 and not part.any()
    # There is no weight that nothing uses.
    assert not any("bridge" in parameter for parameter, _ in model.named_parameters())


def test_from_the_encoder_it_differs_from_source_to_source() -> None:
    model = tiny.model(tiny.components("soft"))
    source, lengths, _ = tiny.batch()
    ((h, _),) = model.encode(source, lengths).start
    assert (h[0] - h[1]).abs().max() > 1e-3


def test_from_zeros_the_source_is_known_by_attention_alone() -> None:
    source, lengths, target = tiny.batch()
    for start, same in (("zeros", True), ("encoder", False)):
        model = tiny.model(tiny.components("none"), decoder_start=start)
        log_probs = model.log_likelihood(source, lengths, target[:1].expand(4, -1))
        assert torch.allclose(log_probs[0], log_probs[1]) == same


@pytest.mark.parametrize("name", ["soft", "prox-postr-joint"])
def test_search_starts_where_training_does(name: str) -> None:
    model = tiny.model(tiny.components(name), decoder_start="zeros")
    (output,) = decode(model, [[5, 6, 7]], Decoding(beam=3, max_ratio=1, max_extra=4))
    written = [*output.symbols, EOS] if output.complete else output.symbols

    assert output.log_prob == pytest.approx(
        log_likelihoods(model, [5, 6, 7], [written])[0], rel=1e-9
    )


def test_there_is_no_other_start() -> None:
    with pytest.raises(ValidationError):
        Network.model_validate({"decoder_start": "random"})
