"""Bilinear score."""

from __future__ import annotations

import torch
from torch import Tensor

from pam.models.memory import Memory
from pam.models.parts import Score


def tensors(score: Score, memory: Memory) -> tuple[Tensor, ...]:
    """What `General` is made of; only the first depends on the sentences."""
    return (memory.keys,)


def of_hypotheses(queries: Tensor, keys: Tensor) -> Tensor:
    """Scores (B, k, m) of k queries for each sentence, (B, k, H)."""
    return torch.bmm(queries, keys.transpose(1, 2))


class General:
    """e_t(a) = key_a . s_t, with s_t of (rows, H).

    Args:
        keys: (B, m, H).
        counts: per step, how many rows from the first on take part.
    """

    def __init__(self, counts: list[int], keys: Tensor) -> None:
        self.keys = [keys[:count] for count in counts]

    def step(self, t: int, query: Tensor) -> Tensor:
        """Scores (rows, m)."""
        return torch.mul(self.keys[t], query[:, None]).sum(2)

    def begin_backward(self) -> None:
        """Nothing is gathered from step to step."""

    def back(self, t: int, dscores: Tensor, dquery: Tensor) -> Tensor:
        """`dquery` (rows, H) with what the scores add to it."""
        return torch.baddbmm(dquery[:, None], dscores[:, None], self.keys[t]).squeeze(1)

    def finish(self, queries: Tensor, dscores: Tensor) -> list[Tensor]:
        """Gradients of the tensors, from all queries (T, B, H) and scores' gradients (T, B, m)."""
        return [torch.bmm(dscores.permute(1, 2, 0), queries.transpose(0, 1))]


COMPONENT = General
