"""An ensemble is the mean of its members' distributions, step by step (float64)."""

from __future__ import annotations

import math

import pytest
import torch

from pam.data.vocabulary import BOS, EOS
from pam.decoding.hypotheses import Hypotheses
from pam.experiments.settings import Decoding
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
    model = made()
    batch = tiny.batch()
    forced = model.teacher_force(*batch)
    of_members = [member.teacher_force(*batch) for member in model.models]
    mean = torch.stack([member_forced.log_probs.exp() for member_forced in of_members]).mean(0)

    torch.testing.assert_close(forced.log_probs.exp(), mean)
    torch.testing.assert_close(model.log_likelihood(*batch).exp(), mean)

    # Hypotheses carry the filtered alignments of a chain, not those given the whole target.
    alignments = [plain.force(member, *batch).alignment for member in members_of(model)]
    torch.testing.assert_close(forced.alignment, torch.stack(alignments).mean(0))


@torch.no_grad()
def test_steps_of_a_beam_equal_teacher_forcing() -> None:
    model = made()
    source, lengths, target = tiny.batch()
    forced = model.teacher_force(source, lengths, target)
    hypotheses = Hypotheses(model, source, lengths, 2)
    symbol = torch.full((4, 2), BOS)

    for t, gold in enumerate(target.split(1, dim=1)):
        log_probs = hypotheses.step(symbol)
        for rank in range(2):
            log_prob = log_probs[:, rank].gather(1, gold).squeeze(1)
            torch.testing.assert_close(log_prob, forced.log_probs[:, t])

        prior = hypotheses.last_step.log_prior.exp().unflatten(0, (4, 2))
        torch.testing.assert_close(prior[:, 0], forced.prior[:, t])
        torch.testing.assert_close(prior[:, 1], forced.prior[:, t])
        assert hypotheses.last_step.query.shape == (8, 5 * len(NAMES))

        # Both hypotheses go on with the gold symbol, from either of them.
        symbol = gold.expand(-1, 2)
        hypotheses.update(torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]]), symbol)
        alignment = hypotheses.state.alignment.unflatten(0, (4, 2))

        torch.testing.assert_close(alignment[:, 0], forced.alignment[:, t])
        torch.testing.assert_close(alignment[:, 1], forced.alignment[:, t])


def test_whether_symbols_are_copied_is_by_the_mean_too() -> None:
    copying = [
        tiny.model(tiny.components(name)) for name in ("soft-pointer", "postr-joint-pointer")
    ]
    forced = Ensemble(copying).eval().teacher_force(*tiny.batch())
    of_members = [member.teacher_force(*tiny.batch()) for member in copying]

    torch.testing.assert_close(
        forced.p_gen, torch.stack([member_forced.p_gen for member_forced in of_members]).mean(0)
    )

    # p(copied, y) of each member.
    joint = torch.stack(
        [member_forced.copied * member_forced.log_probs.exp() for member_forced in of_members]
    ).mean(0)
    torch.testing.assert_close(forced.copied, joint / forced.log_probs.exp())
    assert made().teacher_force(*tiny.batch()).p_gen is None


@torch.no_grad()
def test_sums_cut_short_are_summed_over_all_positions_too() -> None:
    cut = tiny.components("postr-joint", marginalization={"kind": "output", "top_k": 2})
    members = [tiny.model(cut), tiny.model(tiny.components("soft"))]
    forced = Ensemble(members).eval().teacher_force(*tiny.batch())
    of_members = [member.teacher_force(*tiny.batch()) for member in members]
    mean = torch.stack([member_forced.exact.exp() for member_forced in of_members]).mean(0)

    torch.testing.assert_close(forced.exact.exp(), mean)
    assert (forced.exact > forced.log_probs + 1e-3).any()


@pytest.mark.parametrize("beam", [1, 3])
def test_the_log_prob_of_an_output_is_its_likelihood(beam: int) -> None:
    model = Ensemble([varied.model(name) for name in NAMES]).eval()
    for member in members_of(model):
        # Without this every output would be empty.
        member.readout.output.bias.data[EOS] -= 2.0
    sources = varied.SOURCES
    outputs = decode(model, sources, Decoding(beam=beam, max_ratio=1.0, max_extra=4))
    for source, output in zip(sources, outputs, strict=True):
        target = [*output.symbols, EOS] if output.complete else output.symbols
        assert output.log_prob == pytest.approx(log_likelihoods(model, source, [target])[0])

    assert len({tuple(output.symbols) for output in outputs}) > 1


def test_an_ensemble_of_one_model_is_that_model() -> None:
    model = tiny.model(tiny.components("postr-joint"))
    sources = [[5], [6, 7], [8, 5, 6]]
    decoding = Decoding(beam=3, max_extra=4)
    alone = decode(model, sources, decoding, False)
    joined = decode(Ensemble([model, model]).eval(), sources, decoding, False)
    for output, expected in zip(joined, alone, strict=True):
        assert output.symbols == expected.symbols
        assert math.isclose(output.log_prob, expected.log_prob, rel_tol=1e-9)
