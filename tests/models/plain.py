"""The models written out: plain twins of kernels, and formulas without the models' own code.

`force` takes the steps of the models themselves, but with plain twins of all kernels and with all
rows at every step. In place of each distribution it has a `Table`: the probability of every symbol
at every context, by the formulas of the papers. Gradients are torch's own. After the tables come
the formulas of one sentence, for tests by enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import PAD, UNK
from pam.models import couplings, interfaces, lstm, options
from pam.models import readout as output_layer
from pam.models import scores as kinds_of_scores
from pam.models.agreement import Agreement, turned_round
from pam.models.attention_model import State, Step
from pam.models.couplings import BOUND, Monotone, Proximity
from pam.models.distributions import Fusedmax, Softmax, Sparsemax
from pam.models.experts import SoftmaxMixture
from pam.models.interfaces import Hidden, Memory, Noise
from pam.models.kernels.additive import additive_plain
from pam.models.kernels.lstm import lstm_cell_plain
from pam.models.kernels.source import SourceMatrix, read_plain, scores_plain
from pam.models.logspace import ZERO
from pam.models.marginalization import Bound
from pam.models.outputs import Attention, PositionDistribution
from pam.models.packing import PackedTargets
from pam.models.seq2seq import Previous, Seq2Seq
from tests.models import tiny

# Twins of kernels.


class PlainCell:
    """Twin of `LSTMCell`."""

    def __init__(self, wx: Tensor, wh: Tensor, bf16: bool = False) -> None:
        self.weights = wx, wh

    def __call__(self, before: Tensor, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return lstm_cell_plain(before, x, h, c, *self.weights)


class PlainLinear:
    """Twin of `SharedLinear`."""

    def __init__(self, weight: Tensor, bias: Tensor, bf16: bool = False) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PlainMatrix(SourceMatrix):
    """Twin of `SourceMatrix`, of one hypothesis a sentence."""

    def __init__(self, matrix: Tensor, beam: int = 1) -> None:
        self.matrix = matrix
        self.beam = beam

    def scores(self, x: Tensor) -> Tensor:
        return scores_plain(self.matrix[: len(x)], x)

    def read(self, weights: Tensor) -> Tensor:
        return read_plain(self.matrix[: len(weights)], weights)


def _coupled(scores: Tensor, mask: Tensor, energies: Tensor, previous: Tensor) -> Tensor:
    """Twin of `coupled_softmax`."""
    softmax = Softmax(options.Softmax(), tiny.SIZES)
    return couplings.coupled(scores, mask, energies, previous, softmax)


def _turned(states: Tensor, mirror: Tensor, columns: Tensor) -> Tensor:
    """Twin of `_Mirrored`."""
    return states[mirror, columns]


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Replace every kernel that the steps of a model use by its plain twin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm, "LSTMCell", PlainCell)
        patch.setattr(lstm._Mirrored, "apply", _turned)
        patch.setattr(output_layer, "SharedLinear", PlainLinear)
        patch.setattr(couplings, "coupled_softmax", _coupled)
        patch.setattr(kinds_of_scores, "additive", additive_plain)
        for module in (interfaces, kinds_of_scores):
            patch.setattr(module, "SourceMatrix", PlainMatrix)
        yield


# Distributions, of every symbol at every context.


@dataclass(eq=False)
class Table(PositionDistribution):
    """Twin of the distributions of `pam.models.outputs` and of `CopyMixture`.

    Attributes:
        joint: (n, k, V) log p(k, y) of k contexts, the positions or a single one; (n, k, V + m) in
            models that copy.
        positions_log_prob: (n, m, V) log p(y | s_t, h_a), where positions have outputs.
        before: (n,) y_{t-1}.
    """

    model: Seq2Seq
    memory: Memory
    attention: Attention
    before: Tensor
    joint: Tensor
    positions_log_prob: Tensor | None = None
    is_truncated: Tensor | None = None

    @classmethod
    def of_context(
        cls,
        model: Seq2Seq,
        memory: Memory,
        attention: Attention,
        before: Tensor,
        context: Tensor | None,
    ) -> Table:
        """Compute the table of one context (n, D), or of none."""
        hidden = projected(model, memory, attention.query)
        if context is not None:
            hidden = hidden + model.readout.of_values(context)
        if isinstance(model.marginalization, SoftmaxMixture):
            log_probs = expert_log_probs(model, hidden)
        else:
            log_probs = symbol_log_probs(model, hidden)
        if context is not None and model.copying.copies:
            gate = p_gen(model, context, attention.query, before)
            copied = torch.einsum("nm,nmv->nv", attention.prior, _one_hot(memory))
            generated = F.pad(log_probs.exp(), (0, copied.shape[1] - log_probs.shape[1]))
            log_probs = _log(gate * generated + (1 - gate) * copied)

        return cls(model, memory, attention, before, log_probs[:, None])

    @classmethod
    def of_positions(
        cls, model: Seq2Seq, memory: Memory, attention: Attention, before: Tensor
    ) -> Table:
        """Compute the table of all positions."""
        hidden = (
            model.readout.of_values(memory.values)
            + projected(model, memory, attention.query)[:, None]
        )
        positions = symbol_log_probs(model, hidden)

        # The positions that are summed over, and whether `top_k` leaves some out of the nucleus.
        top_k = model.marginalization.top_k
        mass = model.marginalization.mass
        kept = _kept(attention.log_prior, mass, top_k)
        truncated = None
        if top_k is not None:
            truncated = kept.sum(1) < _kept(attention.log_prior, mass, None).sum(1)

        # Without copying, all symbols are generated.
        gate = torch.ones_like(attention.prior)[:, :, None]
        if model.copying.copies:
            gate = p_gen(model, memory.values, attention.query, before)

        # log p(k, y): prior of position k, times p(y | s_t, h_k) of generating y.
        log_weights = _log_weights(model, attention.log_prior, kept, gate.squeeze(2))[:, :, None]
        joint = log_weights + positions

        if model.copying.copies:
            copied = _one_hot(memory)
            if isinstance(model.marginalization, Bound):
                copied = torch.einsum("nm,nmv->nv", attention.prior, copied)[:, None]
            generated = gate * F.pad(positions.exp(), (0, copied.shape[2] - positions.shape[2]))
            copied = (1 - gate) * copied
            positions = _log(generated + copied)
            joint = _log(log_weights.exp() * generated + attention.prior[:, :, None] * copied)

        return cls(model, memory, attention, before, joint, positions, truncated)

    def log_probs(self) -> Tensor:
        return torch.logsumexp(self.joint, 1)

    def log_joint(self, symbols: Tensor) -> Tensor:
        return _of_symbols(self.joint, symbols)

    def truncated(self) -> Tensor | None:
        return self.is_truncated

    def of_each(self, symbols: Tensor) -> Tensor:
        """Look up log p(y | s_t, h_a) of symbols (n,): (n, m)."""
        assert self.positions_log_prob is not None
        return _of_symbols(self.positions_log_prob, symbols)

    def expected_log_prob(self, weights: Tensor, symbols: Tensor) -> Tensor:
        return (weights * self.of_each(symbols)).sum(1)

    def at(self, weights: Tensor) -> Table:
        context = read_plain(self.memory.values, weights)
        return Table.of_context(self.model, self.memory, self.attention, self.before, context)

    def select(self, rows: Tensor) -> Table:
        raise NotImplementedError("rows stay")


def _of_symbols(table: Tensor, symbols: Tensor) -> Tensor:
    """Look up the entries (n, k) of a table (n, k, V)."""
    return table.gather(2, symbols[:, None, None].expand(-1, table.shape[1], 1)).squeeze(2)


def symbol_log_probs(model: Seq2Seq, hidden: Tensor) -> Tensor:
    """Compute log p(y), (..., V), of sums (..., R) in the output layer."""
    readout = model.readout
    z = readout.hidden_layer.plain(hidden)
    if isinstance(readout, output_layer.ResidualReadout):
        z = readout.norm.weight * z + readout.norm.bias
    return torch.log_softmax(readout.output(z), -1)


def expert_log_probs(model: Seq2Seq, x: Tensor) -> Tensor:
    """Compute log sum_k pi(k) p_k(y), (n, V), of sums x (n, R), one softmax after another."""
    mixture = model.marginalization
    pi = torch.softmax(x @ mixture.weigh.weight.t(), 1)
    reduced = mixture.reduce(x)
    units = x.shape[1]

    probs = torch.zeros(len(x), tiny.VOCABULARY, dtype=x.dtype)
    for number in range(pi.shape[1]):
        rows = slice(number * units, (number + 1) * units)
        matrix = mixture.expand.weight[rows]
        expert = x + reduced @ matrix.t() + mixture.expand.bias[rows]
        probs = probs + pi[:, number, None] * symbol_log_probs(model, expert).exp()
    return probs.log()


def projected(model: Seq2Seq, memory: Memory, query: Tensor) -> Tensor:
    """Compute W_s s + b, (n, R), with the shift by a latent vector of the sentence, if any."""
    hidden: Tensor = model.readout.of_query(query)
    if memory.latent.readout_shift is not None:
        hidden = hidden + memory.latent.readout_shift
    return hidden


def p_gen(model: Seq2Seq, context: Tensor, query: Tensor, before: Tensor) -> Tensor:
    """Compute p_gen of contexts (n, D) or (n, m, D): (n, 1) or (n, m, 1)."""
    copying = model.copying
    embedding = model.decoder.embedding.weight
    fed = embedding[torch.where(before < len(embedding), before, UNK)]
    of_row = (
        query @ copying.of_query.weight.t()
        + copying.of_query.bias
        + fed @ copying.of_symbol.weight.t()
    )
    if context.dim() == 3:
        of_row = of_row[:, None]

    return torch.sigmoid(context @ copying.of_values.weight.t() + of_row)


def _log(probs: Tensor) -> Tensor:
    """Compute logs whose gradient is finite where there is no probability."""
    return probs.clamp_min(1e-300).log()


def _one_hot(memory: Memory) -> Tensor:
    """Compute the indicator [x_a = y], (n, m, V + m), zeros at padding."""
    assert memory.copied is not None
    symbols = memory.copied.symbols
    copied = F.one_hot(symbols, tiny.VOCABULARY + symbols.shape[1])
    return copied.to(memory.values) * memory.mask[:, :, None]


def _kept(log_prior: Tensor, mass: float | None, top_k: int | None) -> Tensor:
    """Mark the positions (n, m) that are summed over: the likeliest ones, until they suffice."""
    kept = torch.zeros_like(log_prior, dtype=torch.bool)
    for row, priors in enumerate(log_prior.exp().tolist()):
        reached = 0.0
        likeliest_first = sorted(range(len(priors)), key=lambda position: -priors[position])
        for count, position in enumerate(likeliest_first):
            if count == top_k or (mass or 2.0) <= reached:
                break
            kept[row, position] = True
            reached = reached + priors[position]

    return kept & (log_prior > ZERO / 2)


def _log_weights(model: Seq2Seq, log_prior: Tensor, kept: Tensor, gate: Tensor) -> Tensor:
    """Compute the log weights of the positions that are summed over.

    With a mass, in training, the kept positions generate as much as all positions together.
    """
    weights = log_prior.masked_fill(~kept, ZERO)
    if model.training and model.marginalization.mass is not None:
        generated = log_prior.exp() * gate
        weights = weights - ((generated * kept).sum(1) / generated.sum(1)).log()[:, None]

    return weights


# Steps.


def step(model: Seq2Seq, memory: Memory, state: State, previous: Previous, before: Tensor) -> Step:
    """Take a step of the model after symbols `before` (n,), with a table as its distribution."""
    embedded = None
    if model.copying.copies:
        embedded = model.decoder.embedding.weight[:1]
    query = model.decode(memory, state, replace(previous, embedded=embedded))
    made = model.attend(memory, state, query)
    attention = made.output.attention
    if model.marginalization.gives_positions:
        return replace(made, output=Table.of_positions(model, memory, attention, before))
    context = None
    if model.marginalization.needs_context:
        context = read_plain(memory.values, attention.prior)
        if attention.shift is not None:
            context = context + attention.shift

    return replace(made, output=Table.of_context(model, memory, attention, before, context))


@dataclass(frozen=True)
class PlainForced:
    """A batch under teacher forcing, rows in the order of the batch."""

    log_probs: Tensor  # (B, T) log p(y_t | y_<t, x)
    objective: Tensor  # (B, T)
    prior: Tensor  # (B, T, m)
    alignment: Tensor  # (B, T, m)
    correct: Tensor  # (B, T) whether y_t is the most probable symbol


def force(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False
) -> PlainForced:
    """Run a model over given targets, with one draw.

    Random numbers are drawn as in `Seq2Seq.forward`: for rows in the order of falling length, and
    dropout of embeddings for real symbols alone.
    """
    packed = PackedTargets.of(target)
    memory, made, states = _steps(model, source, lengths, packed, draws)
    outputs = [step.output for step in made]
    symbols = packed.target.unbind(1)
    log_probs = [output.log_prob(symbol) for output, symbol in zip(outputs, symbols, strict=True)]
    correct = [
        output.log_probs().argmax(1) == symbol
        for output, symbol in zip(outputs, symbols, strict=True)
    ]

    values = log_probs
    if draws and isinstance(model.marginalization, Bound):
        log_q = tiny.infer(model, source, lengths, target)
        values = []
        for t, (output, symbol) in enumerate(zip(outputs, symbols, strict=True)):
            step_log_q = None if log_q is None else log_q[packed.order, t]
            values.append(model.marginalization.bound(output, symbol, step_log_q, model.estimator))

    objective = torch.stack(values, 1)
    prior = torch.stack([output.attention.prior for output in outputs], 1)
    alignment = torch.stack([state.alignment for state in states], 1)

    if draws:
        costs = [output.attention.cost for output in outputs]
        if costs[0] is not None:
            objective = objective - torch.stack([cost for cost in costs if cost is not None], 1)
        objective = objective - _at_end(model, memory, prior, alignment, packed.target)

    # Back to the order of the batch.
    back = torch.argsort(packed.order)
    return PlainForced(
        log_probs=torch.stack(log_probs, 1)[back],
        objective=objective[back],
        prior=prior[back],
        alignment=alignment[back],
        correct=torch.stack(correct, 1)[back],
    )


def _steps(
    model: Seq2Seq, source: Tensor, lengths: Tensor, packed: PackedTargets, draws: bool
) -> tuple[Memory, list[Step], list[State]]:
    """Take all steps over packed targets; return the memory, the steps, and the states after."""
    with plain_kernels():
        memory = model.encoded(source[packed.order], lengths[packed.order])
        of_token = packed.pad(torch.arange(len(packed.symbols)))
        gates = model.decoder.gates(packed.previous)[of_token]
        before = packed.previous[of_token]

        # Draws, in the order of `Seq2Seq.forward`.
        masks = model.decoder.draw_masks(packed.steps, len(packed.target))
        noise = None
        if draws and (model.latent.draws or model.input_feeding.draws or model.estimator.draws):
            noise = Noise.draw(packed.steps, memory.values)

        state = model.start(memory)
        made = []
        states = []

        for t in range(packed.steps):
            previous = Previous(
                gates=gates[t],
                masks=None if masks is None else masks[:, t],
                noise=None if noise is None else noise.at(t, len(packed.target)),
            )
            made.append(step(model, memory, state, previous, before[t]))
            state = model.update(memory, made[-1], packed.target[:, t])
            states.append(state)

    return memory, made, states


def steps(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor
) -> list[tuple[Table, Tensor]]:
    """List the table and the symbols (B,) of each step, without draws, rows as they are given."""
    packed = PackedTargets.of(target, drop_ended=False)
    made = _steps(model, source, lengths, packed, draws=False)[1]
    tables = [step.output for step in made if isinstance(step.output, Table)]
    return list(zip(tables, target.unbind(1), strict=True))


def _at_end(
    model: Seq2Seq, memory: Memory, prior: Tensor, alignment: Tensor, target: Tensor
) -> Tensor:
    """Compute the costs by latents and scores of whole sentences, at their ends: (B, T)."""
    real = target != PAD
    attended = [(part * real[:, :, None]).transpose(0, 1) for part in (prior, alignment)]
    is_end = real & (real.sum(1, keepdim=True) == real.cumsum(1))
    costs = torch.zeros(target.shape, dtype=alignment.dtype)
    for cost in (memory.latent.cost, model.score.cost(memory, *attended)):
        if cost is not None:
            costs = costs + is_end * cost[:, None]

    return costs


def log_likelihood(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """Compute log p(y_t | y_<t, x), (B, T)."""
    return force(model, source, lengths, target).log_probs


def objective(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """Compute what training maximizes, (B, T), averaged over the draws of a latent."""
    samples = model.latent.samples
    repeated = [part.repeat_interleave(samples, 0) for part in (source, lengths, target)]
    forced = force(model, *repeated, draws=True)
    values = forced.objective
    if isinstance(model, Agreement):
        values = values + _agreement(model, repeated, forced.prior)

    return values.unflatten(0, (-1, samples)).mean(1)


def _agreement(model: Agreement, batch: list[Tensor], prior: Tensor) -> Tensor:
    """Compute what the opposite direction and the trace add at the last symbols, (B, T).

    It goes through sentences one by one.
    """
    source, lengths, target = batch
    read, sizes, written = turned_round(source, lengths, target)
    back = force(model.back, read, sizes, written, draws=True)
    added = torch.zeros(target.shape, dtype=prior.dtype)

    for row, (m, n) in enumerate(zip(lengths.tolist(), sizes.tolist(), strict=True)):
        trace = sum(
            (prior[row, t, a] * back.prior[row, a, t] for t in range(n) for a in range(m)),
            torch.zeros(()),
        )
        other = back.objective[row, written[row] != PAD].sum()
        last = int((target[row] != PAD).sum()) - 1
        added = added.index_put(
            (torch.tensor(row), torch.tensor(last)), other + model.weight * trace
        )

    return added


# One sentence.


def one_sentence(length: int = 4, target: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Return a batch of one sentence: source, its length, and target."""
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(5, tiny.VOCABULARY, (1, length), generator=generator)
    return source, torch.tensor([length]), torch.tensor([[6, 8, 2]])[:, :target]


def readout(model: Seq2Seq, values: Tensor, query: Tensor) -> Tensor:
    """Compute log p(y | s, values) of values (..., D) and a query (1, H): (..., V)."""
    made = model.readout
    hidden = values @ made.of_values.weight.t() + made.of_query(query)
    return symbol_log_probs(model, hidden)


def position_log_probs(model: Seq2Seq, memory: Memory, query: Tensor) -> Tensor:
    """Compute log p(y | s, h_a), (m, V)."""
    return readout(model, memory.values[0], query)


def first_state(memory: Memory) -> tuple[Hidden, Tensor]:
    """Return the decoder's first state, and the empty context (1, D) that it is fed."""
    return memory.start, memory.values.new_zeros(1, memory.values.shape[2])


def next_state(
    model: Seq2Seq, symbol: int, context: Tensor, hidden: Hidden
) -> tuple[Tensor, Hidden]:
    """Compute the query s_t (1, H) and the decoder's state after a symbol, by torch's own cells."""
    below = torch.cat([model.decoder.embedding.weight[symbol][None], context], dim=1)
    states = []
    for cell, state in zip(model.decoder.stack, hidden, strict=True):
        states.append(cell(below, state))
        below = states[-1][0]
    return below, tuple(states)


def scores(model: Seq2Seq, memory: Memory, query: Tensor) -> Tensor:
    """Compute e_t(a) of the score `general`, (m,)."""
    return memory.values[0] @ model.score.weight.weight.t() @ query[0] / query.shape[1] ** 0.5


def distribution(model: Seq2Seq, position_scores: Tensor) -> Tensor:
    """Compute the probabilities of scores (m,)."""
    if type(model.distribution) is Sparsemax:
        return nearest(position_scores)
    if isinstance(model.distribution, Fusedmax):
        return nearest(position_scores, model.distribution.weight)
    return torch.softmax(position_scores, dim=0)


def transition(model: Seq2Seq, position_scores: Tensor, previous: int) -> Tensor:
    """Compute distribution_a(e_t(a) + k(a, a')) by the paper's formulas of the couplings."""
    coupling = model.coupling
    energies = torch.zeros_like(position_scores)
    for a in range(len(position_scores)):
        if isinstance(coupling, Proximity) and abs(a - previous) < 3:
            energies[a] = BOUND * torch.tanh(coupling.raw[a - previous + 2] / BOUND)
        if isinstance(coupling, Monotone) and a > previous:
            energies[a] = torch.sigmoid(coupling.raw) ** (a - previous - 1)

    return distribution(model, position_scores + energies)


def coupled_prior(model: Seq2Seq, position_scores: Tensor, previous: Tensor) -> Tensor:
    """Compute sum_a' previous(a') distribution_a(e_t(a) + k(a, a')), (m,)."""
    terms = [previous[a] * transition(model, position_scores, a) for a in range(len(previous))]
    return torch.stack(terms).sum(0)


def nearest(position_scores: Tensor, weight: float = 0.0) -> Tensor:
    """Find argmin over the simplex of |p - e|^2 / 2 + weight sum_a |p(a+1) - p(a)| by enumeration.

    Neighbours rise, fall or are equal, and stretches of equal values are zero or not. Each such
    choice leaves a quadratic with one stationary point. The solution is the best feasible one.
    """
    best = torch.zeros_like(position_scores)
    least = torch.tensor(torch.inf, dtype=position_scores.dtype)
    for signs in product((-1, 0, 1), repeat=len(position_scores) - 1):
        for zeros in product((False, True), repeat=1 + sum(sign != 0 for sign in signs)):
            if all(zeros):
                continue
            p = _stationary(position_scores, weight, signs, zeros)
            cost = ((p - position_scores) ** 2).sum() / 2 + weight * (p[1:] - p[:-1]).abs().sum()
            if p.min() >= -1e-12 and cost < least:
                best = p
                least = cost

    return best


def _stationary(
    position_scores: Tensor, weight: float, signs: tuple[int, ...], zeros: tuple[bool, ...]
) -> Tensor:
    """Find the stationary point for given signs of p(a+1) - p(a) and given stretches of zeros."""
    # Stretches of equal values, and whether they rise or fall towards the next one.
    ends = [0, *(a + 1 for a, sign in enumerate(signs) if sign), len(position_scores)]
    jumps = [0, *(sign for sign in signs if sign), 0]
    pulled = torch.stack(
        [
            position_scores[start:end].mean() + weight * (jumps[g + 1] - jumps[g]) / (end - start)
            for g, (start, end) in enumerate(pairwise(ends))
        ]
    )
    # tau, with which the stretches that are not zero sum to one.
    kept = torch.tensor([not zero for zero in zeros], dtype=position_scores.dtype)
    sizes = torch.tensor(ends[1:]) - torch.tensor(ends[:-1])
    tau = ((kept * sizes * pulled).sum() - 1) / (kept * sizes).sum()

    return ((pulled - tau) * kept).repeat_interleave(sizes)
