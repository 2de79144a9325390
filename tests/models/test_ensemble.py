"""An ensemble is the mean of its members' distributions, step by step (float64)."""

from __future__ import annotations

import math

import torch

from pam.config import Decoding
from pam.data.vocabulary import BOS
from pam.decoding.stepper import EnsembleStepper, ReferenceStepper, stepper
from pam.models.ensemble import Ensemble
from tests.decoding.test_search import decode
from tests.models import tiny

NAMES = ("soft", "postr-joint", "structured")


def made() -> Ensemble:
    members = [tiny.model(tiny.components(name), seed=seed) for seed, name in enumerate(NAMES)]
    return Ensemble(members).eval()


def test_likelihoods_and_alignments_are_the_members_means() -> None:
    model, batch = made(), tiny.batch()
    found = model.teacher_forced(*batch)
    each = [member.teacher_forced(*batch) for member in model.models]
    mean = torch.stack([one.log_probs.exp() for one in each]).mean(0)
    torch.testing.assert_close(found.log_probs.exp(), mean)
    torch.testing.assert_close(found.alignment, torch.stack([o.alignment for o in each]).mean(0))


@torch.no_grad()
def test_fast_steps_equal_the_reference_and_teacher_forcing() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    fast = stepper(model, model.encode(source, lengths), 2)
    slow = ReferenceStepper(model, model.encode(source, lengths), 2)
    assert isinstance(fast, EnsembleStepper)
    aligned = model.teacher_forced(source, lengths, target)
    symbol = torch.full((4, 2), BOS)
    for t, gold in enumerate(target.split(1, dim=1)):
        found, wanted = fast.step(symbol), slow.step(symbol)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(found[:, 0].gather(1, gold).squeeze(1), aligned.log_probs[:, t])
        torch.testing.assert_close(fast.prior, slow.prior)
        torch.testing.assert_close(fast.query, slow.query)
        symbol = gold.expand(-1, 2)
        for steps in (fast, slow):
            steps.advance(torch.tensor([[0, 0]] * 4), symbol)
        assert fast.alignment is not None and slow.alignment is not None
        torch.testing.assert_close(fast.alignment, slow.alignment)
        torch.testing.assert_close(fast.alignment[:, 0], aligned.alignment[:, t])


def test_an_ensemble_of_one_model_is_that_model() -> None:
    one = tiny.model(tiny.components("postr-joint"))
    sources, decoding = [[5], [6, 7], [8, 5, 6]], Decoding(beam=3, max_extra=4)
    alone = decode(one, sources, decoding, False)
    joined = decode(Ensemble([one, one]).eval(), sources, decoding, False)
    for output, wanted in zip(joined, alone, strict=True):
        assert output.symbols == wanted.symbols
        assert math.isclose(output.log_prob, wanted.log_prob, rel_tol=1e-9)
