"""An ensemble is the mean of its members' distributions, step by step (float64)."""

from __future__ import annotations

import math

import pytest
import torch

from pam.config import Decoding
from pam.data.vocabulary import BOS, EOS
from pam.decoding.hypotheses import Hypotheses
from pam.models.ensemble import Ensemble
from pam.models.seq2seq import Seq2Seq
from tests.decoding import varied
from tests.decoding.best import decode, log_likelihoods
from tests.models import plain, tiny

NAMES = ("soft", "postr-joint", "structured")


def made() -> Ensemble:
    members = [tiny.model(tiny.components(name), seed=seed) for seed, name in enumerate(NAMES)]
    return Ensemble(members).eval()


def members_of(model: Ensemble) -> list[Seq2Seq]:
    return [member for member in model.models if isinstance(member, Seq2Seq)]


def test_likelihoods_and_alignments_are_the_members_means() -> None:
    model, batch = made(), tiny.batch()
    found = model.teacher_force(*batch)
    each = [member.teacher_force(*batch) for member in model.models]
    mean = torch.stack([one.log_probs.exp() for one in each]).mean(0)
    torch.testing.assert_close(found.log_probs.exp(), mean)
    torch.testing.assert_close(model.log_likelihood(*batch).exp(), mean)
    # Hypotheses carry the filtered alignments of a chain, not those given the whole target.
    own = [plain.force(member, *batch).alignment for member in members_of(model)]
    torch.testing.assert_close(found.alignment, torch.stack(own).mean(0))


@torch.no_grad()
def test_steps_of_a_beam_equal_teacher_forcing() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    forced = model.teacher_force(source, lengths, target)
    hypotheses, symbol = Hypotheses(model, source, lengths, 2), torch.full((4, 2), BOS)
    for t, gold in enumerate(target.split(1, dim=1)):
        log_probs = hypotheses.step(symbol)
        for place in range(2):
            found = log_probs[:, place].gather(1, gold).squeeze(1)
            torch.testing.assert_close(found, forced.log_probs[:, t])
        prior = hypotheses.last_step.log_prior.exp().unflatten(0, (4, 2))
        torch.testing.assert_close(prior[:, 0], forced.prior[:, t])
        torch.testing.assert_close(prior[:, 1], forced.prior[:, t])
        assert hypotheses.last_step.query.shape == (8, 5 * len(NAMES))
        symbol = gold.expand(-1, 2)
        hypotheses.update(torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]]), symbol)
        alignment = hypotheses.state.alignment.unflatten(0, (4, 2))
        torch.testing.assert_close(alignment[:, 0], forced.alignment[:, t])
        torch.testing.assert_close(alignment[:, 1], forced.alignment[:, t])


def test_whether_symbols_are_copied_is_by_the_mean_too() -> None:
    copying = [
        tiny.model(tiny.components(name)) for name in ("soft-pointer", "postr-joint-pointer")
    ]
    found = Ensemble(copying).eval().teacher_force(*tiny.batch())
    each = [member.teacher_force(*tiny.batch()) for member in copying]
    torch.testing.assert_close(found.p_gen, torch.stack([one.p_gen for one in each]).mean(0))
    joint = torch.stack([one.copied * one.log_probs.exp() for one in each]).mean(0)
    torch.testing.assert_close(found.copied, joint / found.log_probs.exp())
    assert made().teacher_force(*tiny.batch()).p_gen is None


@torch.no_grad()
def test_sums_cut_short_are_summed_over_all_positions_too() -> None:
    cut = tiny.components("postr-joint", marginalization={"kind": "output", "top_k": 2})
    members = [tiny.model(cut), tiny.model(tiny.components("soft"))]
    found = Ensemble(members).eval().teacher_force(*tiny.batch())
    each = [member.teacher_force(*tiny.batch()) for member in members]
    mean = torch.stack([one.exact.exp() for one in each]).mean(0)
    torch.testing.assert_close(found.exact.exp(), mean)
    assert (found.exact > found.log_probs + 1e-3).any()


@pytest.mark.parametrize("beam", [1, 3])
def test_the_log_prob_of_an_output_is_its_likelihood(beam: int) -> None:
    model = Ensemble([varied.model(name) for name in NAMES]).eval()
    for member in members_of(model):
        member.readout.output.bias.data[EOS] -= 2.0  # not every output is empty
    sources = varied.SOURCES
    found = decode(model, sources, Decoding(beam=beam, max_ratio=1.0, max_extra=4))
    for source, output in zip(sources, found, strict=True):
        target = [*output.symbols, EOS] if output.complete else output.symbols
        assert output.log_prob == pytest.approx(log_likelihoods(model, source, [target])[0])
    assert len({tuple(output.symbols) for output in found}) > 1


def test_an_ensemble_of_one_model_is_that_model() -> None:
    one = tiny.model(tiny.components("postr-joint"))
    sources, decoding = [[5], [6, 7], [8, 5, 6]], Decoding(beam=3, max_extra=4)
    alone = decode(one, sources, decoding, False)
    joined = decode(Ensemble([one, one]).eval(), sources, decoding, False)
    for output, wanted in zip(joined, alone, strict=True):
        assert output.symbols == wanted.symbols
        assert math.isclose(output.log_prob, wanted.log_prob, rel_tol=1e-9)
