"""The models' formulas written out for one sentence, without the models' own code."""

from __future__ import annotations

from itertools import pairwise, product

import torch
from torch import Tensor

from pam.models.couplings import BOUND, Monotone, Proximity
from pam.models.distributions import Fusedmax, Sparsemax
from pam.models.interfaces import Hidden, Memory
from pam.models.seq2seq import Seq2Seq
from tests.models import tiny


def one_sentence(length: int = 4, target: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(5, tiny.VOCABULARY, (1, length), generator=generator)
    return source, torch.tensor([length]), torch.tensor([[6, 8, 2]])[:, :target]


def readout(model: Seq2Seq, values: Tensor, query: Tensor) -> Tensor:
    """log p(y | s, values) of values (..., D) and a query (1, H): (..., V)."""
    made = model.readout
    z = torch.tanh(values @ made.of_values.weight.t() + query @ made.of_query.weight.t() + made.of_query.bias)
    return torch.log_softmax(z @ made.output.weight.t() + made.output.bias, dim=-1)


def position_log_probs(model: Seq2Seq, memory: Memory, query: Tensor) -> Tensor:
    """log p(y | s, h_a), (m, V)."""
    return readout(model, memory.values[0], query)


def next_state(model: Seq2Seq, symbol: int, context: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
    """The query s_t (1, H) and the decoder's state after a symbol, by torch's own cells."""
    below = torch.cat([model.decoder.embedding.weight[symbol][None], context], dim=1)
    states = []
    for cell, state in zip(model.decoder.stack, hidden, strict=True):
        states.append(cell(below, state))
        below = states[-1][0]
    return below, tuple(states)


def scores(model: Seq2Seq, memory: Memory, query: Tensor) -> Tensor:
    """e_t(a) of the score `general`, (m,)."""
    return memory.values[0] @ model.score.weight.weight.t() @ query[0] / query.shape[1] ** 0.5


def distribution(model: Seq2Seq, given: Tensor) -> Tensor:
    """Scores (m,) to probabilities."""
    if type(model.distribution) is Sparsemax:
        return nearest(given)
    if isinstance(model.distribution, Fusedmax):
        return nearest(given, model.distribution.weight)
    return torch.softmax(given, dim=0)


def transition(model: Seq2Seq, given: Tensor, previous: int) -> Tensor:
    """distribution_a(e_t(a) + k(a, a')), from the paper's formulas of the couplings."""
    coupling = model.coupling
    energies = torch.zeros_like(given)
    for a in range(len(given)):
        if isinstance(coupling, Proximity) and abs(a - previous) < 3:
            energies[a] = BOUND * torch.tanh(coupling.raw[a - previous + 2] / BOUND)
        if isinstance(coupling, Monotone) and a > previous:
            energies[a] = torch.sigmoid(coupling.raw) ** (a - previous - 1)
    return distribution(model, given + energies)


def nearest(given: Tensor, weight: float = 0.0) -> Tensor:
    """argmin over the simplex of |p - e|^2 / 2 + weight sum_a |p(a+1) - p(a)|, by enumeration.

    Every choice of which neighbours rise, fall or are equal, and of which stretches of equals are
    zero, leaves a quadratic with one stationary point; the solution is the best that is feasible.
    """
    best, least = torch.zeros_like(given), torch.tensor(torch.inf, dtype=given.dtype)
    for signs in product((-1, 0, 1), repeat=len(given) - 1):
        for zeros in product((False, True), repeat=1 + sum(sign != 0 for sign in signs)):
            if all(zeros):
                continue
            p = _stationary(given, weight, signs, zeros)
            cost = ((p - given) ** 2).sum() / 2 + weight * (p[1:] - p[:-1]).abs().sum()
            if p.min() >= -1e-12 and cost < least:
                best, least = p, cost
    return best


def _stationary(given: Tensor, weight: float, signs: tuple[int, ...], zeros: tuple[bool, ...]) -> Tensor:
    """The stationary point for given signs of p(a+1) - p(a) and given stretches of zeros."""
    ends = [0, *(a + 1 for a, sign in enumerate(signs) if sign), len(given)]
    jumps = [0, *(sign for sign in signs if sign), 0]
    pulled = torch.stack(
        [
            given[start:end].mean() + weight * (jumps[g + 1] - jumps[g]) / (end - start)
            for g, (start, end) in enumerate(pairwise(ends))
        ]
    )
    kept = torch.tensor([not zero for zero in zeros], dtype=given.dtype)
    sizes = torch.tensor(ends[1:]) - torch.tensor(ends[:-1])
    tau = ((kept * sizes * pulled).sum() - 1) / (kept * sizes).sum()
    return ((pulled - tau) * kept).repeat_interleave(sizes)
