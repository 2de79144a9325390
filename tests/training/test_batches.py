"""Batches hold each row once an epoch, alike lengths together, the same for a seed and epoch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from pam.data.dataset import Examples, Prepared
from pam.data.vocabulary import EOS, PAD, STEP, strip
from pam.runtime.errors import UserError


@pytest.fixture(scope="module")
def examples(data: Path) -> Examples:
    return Examples(Prepared(data).split("train"), "symbols")


@pytest.mark.parametrize("size", [1, 7, 15, 64])
@pytest.mark.parametrize("epoch", [0, 1])
def test_each_row_comes_once_an_epoch(examples: Examples, size: int, epoch: int) -> None:
    batches = examples.shuffled(size, seed=3, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(60))
    assert sorted(len(batch) for batch in batches)[1:] == [size] * (len(batches) - 1)
    assert sorted(row for batch in examples.in_order(size) for row in batch.rows.tolist()) == list(
        range(60)
    )


def test_seed_and_epoch_decide_the_order_and_nothing_else_does(examples: Examples) -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in examples.shuffled(8, seed, epoch)]

    first = order(1, 0)
    # Other random numbers that are drawn meanwhile change nothing.
    torch.rand(5)
    np.random.default_rng().random()

    assert order(1, 0) == first
    assert order(1, 1) != first
    assert order(2, 0) != first
    assert order(0, 1) != order(1, 0)


def test_drawing_batches_uses_up_no_generator(examples: Examples) -> None:
    torch_before = torch.get_rng_state()
    numpy_before = np.random.get_state(legacy=False)["state"]["key"].copy()
    for rows in examples.shuffled(8, 1, 0):
        examples.batch(rows)

    assert torch.equal(torch.get_rng_state(), torch_before)
    assert (np.random.get_state(legacy=False)["state"]["key"] == numpy_before).all()


def test_rows_of_a_batch_have_similar_lengths(examples: Examples) -> None:
    lengths = examples.source_lengths
    batches = [lengths[rows] for rows in examples.shuffled(10, 1, 0)]
    # Ranges of lengths touch at most.
    ranges = sorted((batch.min(), batch.max()) for batch in batches)
    assert all(shorter[1] <= longer[0] for shorter, longer in pairwise(ranges))


def test_batches_of_an_epoch_do_not_come_by_length(examples: Examples) -> None:
    firsts = [examples.source_lengths[rows].min() for rows in examples.shuffled(4, 1, 0)]
    assert firsts != sorted(firsts)


def test_a_batch_is_its_rows_padded_at_the_end(examples: Examples) -> None:
    batch = examples.batch(np.array([5, 0, 17]))
    for number, row in enumerate(batch.rows.tolist()):
        length = int(batch.lengths[number])
        target = examples.targets[row].tolist()
        assert batch.source[number, :length].tolist() == examples.sources[row].tolist()
        assert (batch.source[number, length:] == PAD).all()
        assert batch.target[number][batch.mask[number]].tolist() == target
        assert target[-1] == EOS and PAD not in target
        assert (batch.target[number, len(target) :] == PAD).all()


def test_action_targets_are_the_targets_with_the_steps_of_a_pointer(data: Path) -> None:
    split = Prepared(data).split("train")
    plain = Examples(split, "symbols")
    actions = Examples(split, "actions")
    moved = 0

    for row in range(len(split)):
        target = plain.targets[row].tolist()
        written = actions.targets[row].tolist()
        assert strip(written) == target
        # The pointer moves by one at each step, and each other symbol is written where it stands.
        pointer = 0
        positions = []
        for symbol in written:
            if symbol == STEP:
                pointer += 1
            else:
                positions.append(pointer)
        last = len(plain.sources[row]) - 1
        assert positions == [*split.alignments[row].tolist(), last]
        assert pointer == last
        moved += pointer

    assert moved > 300


def test_actions_without_an_alignment_are_refused(data: Path) -> None:
    with pytest.raises(UserError, match="no alignment"):
        Examples(Prepared(data).split("test"), "actions")
