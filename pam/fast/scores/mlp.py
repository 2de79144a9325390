"""Score by a layer of hidden units."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.models.memory import Memory
from pam.models.parts import Score
from pam.models.scores.mlp import Mlp as Reference


def tensors(score: Score, memory: Memory) -> tuple[Tensor, ...]:
    """What `Mlp` is made of; only the first depends on the sentences."""
    assert isinstance(score, Reference)
    return 2 * memory.keys, 2 * score.of_query.weight, score.weight.weight.squeeze(0)


def of_hypotheses(queries: Tensor, keys: Tensor, of_query: Tensor, vector: Tensor) -> Tensor:
    """Scores (B, k, m) of k queries for each sentence, (B, k, H)."""
    hidden = torch.sigmoid(keys[:, None] + F.linear(queries, of_query)[:, :, None])
    return 2 * (hidden @ vector) - vector.sum()


class Mlp:
    """e_t(a) = v . tanh(key_a + U s_t), tanh(x) written 2 sigmoid(2x) - 1 as in `pam.fast.cell`.

    Hidden units are not kept for the way back, where they cost one more sigmoid.

    Args:
        counts: per step, how many rows from the first on take part.
        keys: (B, m, A) doubled; of_query: (A, H) doubled U; vector: (A,) v.
    """

    def __init__(self, counts: list[int], keys: Tensor, of_query: Tensor, vector: Tensor) -> None:
        self.keys = [keys[:count] for count in counts]
        self.all_keys, self.of_query, self.vector = keys, of_query, vector
        self.shift = vector.sum()
        self.viewed: list[Tensor] = []

    def step(self, t: int, query: Tensor) -> Tensor:
        """Scores (rows, m)."""
        self.viewed.append(query @ self.of_query.t())
        return 2 * (self._hidden(t) @ self.vector) - self.shift

    def _hidden(self, t: int) -> Tensor:
        return torch.add(self.keys[t], self.viewed[t][:, None]).sigmoid_()

    def begin_backward(self) -> None:
        """Begins gathering gradients."""
        self.dkeys = torch.zeros_like(self.all_keys)
        self.dvector = torch.zeros_like(self.vector)
        self.dviewed: dict[int, Tensor] = {}

    def back(self, t: int, dscores: Tensor, dquery: Tensor) -> Tensor:
        """`dquery` (rows, H) with what the scores add to it."""
        hidden = self._hidden(t)
        self.dvector.add_(hidden.flatten(0, 1).t() @ dscores.flatten(), alpha=2)
        self.dvector.sub_(dscores.sum())
        slope = torch.addcmul(hidden, hidden, hidden, value=-1)
        slope.mul_(self.vector).mul_(dscores[:, :, None]).mul_(2)
        self.dkeys[: len(slope)].add_(slope)
        self.dviewed[t] = slope.sum(1)
        return torch.addmm(dquery, self.dviewed[t], self.of_query)

    def finish(self, queries: Tensor, dscores: Tensor) -> list[Tensor]:
        """Gradients of the tensors, from all queries (T, B, H)."""
        dof_query = torch.zeros_like(self.of_query)
        for t, dviewed in self.dviewed.items():
            dof_query.addmm_(dviewed.t(), queries[t, : len(dviewed)])
        return [self.dkeys, dof_query, self.dvector]


COMPONENT = Mlp
