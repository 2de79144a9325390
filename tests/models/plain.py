"""The definition by plain autograd: rows stay in the batch, kernels are their plain twins.

Nothing of what makes `Seq2Seq.forward` fast is in here: no row is left out once it has ended, the
readout runs at every step, distributions of all symbols are made and kept, and gradients are
torch's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import BOS, PAD, UNK
from pam.models import couplings, interfaces, lstm, options, readout, scores
from pam.models.agreement import Agreement, turned_round
from pam.models.distributions import Softmax
from pam.models.interfaces import Attention, Memory, Noise
from pam.models.kernels import SourceMatrix, additive_plain, lstm_cell_plain, read_plain, scores_plain
from pam.models.logspace import ZERO
from pam.models.marginalization import Bound, Output
from pam.models.output_kernels import mixture_plain
from pam.models.posterior import Observation, normalized
from pam.models.seq2seq import Seq2Seq, State
from tests.models import tiny


class PlainCell:
    """Twin of `LSTMCell`."""

    def __init__(self, wx: Tensor, wh: Tensor, bf16: bool = False) -> None:
        self.weights = wx, wh

    def __call__(self, before: Tensor, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return lstm_cell_plain(before, x, h, c, *self.weights)


class PlainLinear:
    """Twin of `SharedLinear`."""

    def __init__(self, weight: Tensor, bias: Tensor, bf16: bool = False) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PlainMatrix(SourceMatrix):
    """Twin of `SourceMatrix`, of one hypothesis a sentence."""

    def __init__(self, matrix: Tensor, beam: int = 1) -> None:
        self.matrix, self.beam = matrix, beam

    def scores(self, x: Tensor) -> Tensor:
        return scores_plain(self.matrix[: len(x)], x)

    def read(self, weights: Tensor) -> Tensor:
        return read_plain(self.matrix[: len(weights)], weights)


def _coupled(scores: Tensor, mask: Tensor, energies: Tensor, previous: Tensor) -> Tensor:
    softmax = Softmax(options.Softmax(), tiny.SIZES)
    return couplings.coupled(scores, mask, energies, previous, softmax)


def _turned(states: Tensor, mirror: Tensor, columns: Tensor) -> Tensor:
    return states[mirror, columns]


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Replaces every kernel that the steps of a model use by its plain twin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm, "LSTMCell", PlainCell)
        patch.setattr(lstm._Mirrored, "apply", _turned)
        patch.setattr(readout, "SharedLinear", PlainLinear)
        patch.setattr(couplings, "coupled_softmax", _coupled)
        patch.setattr(scores, "additive", additive_plain)
        for module in (interfaces, scores):
            patch.setattr(module, "SourceMatrix", PlainMatrix)
        yield


@dataclass(frozen=True)
class PlainStep:
    """A step; also `Gold` of one symbol for each row, where an estimator asks for it.

    Attributes:
        projected: (n, R) W_s s + b, with what a latent vector of the sentence adds.
        positions: (n, m, V) log p(y | s_t, h_a), or None where positions have no output; with what is copied, that of
            V + m symbols.
        kept: (n, m) positions that are summed over, or None where positions have no output.
        joint: (n, m, V) log p(a, y), likewise.
        log_probs: (n, V).
        before: (n,) y_{t-1}.
        symbol: (n,) y_t, once it is known.
    """

    model: Seq2Seq
    memory: Memory
    state: State
    attention: Attention
    projected: Tensor
    positions: Tensor | None
    kept: Tensor | None
    joint: Tensor | None
    log_probs: Tensor
    before: Tensor
    symbol: Tensor | None = None

    def observe(self, symbol: Tensor) -> Observation:
        """What each position makes of y_t."""
        truncated = None
        if self.model.marginalization.top_k is not None:
            truncated = self.kept.sum(1) < _kept(self.model.marginalization, self.attention.log_prior, None).sum(1)
        assert self.joint is not None
        index = symbol[:, None, None].expand(-1, self.joint.shape[1], 1)
        return normalized(self.joint.gather(2, index).squeeze(2), truncated)

    def of_each(self, symbol: Tensor) -> Tensor:
        """log p(symbol | s_t, h_a), (n, m)."""
        assert self.positions is not None
        index = symbol[:, None, None].expand(-1, self.positions.shape[1], 1)
        return self.positions.gather(2, index).squeeze(2)

    def each(self) -> Tensor:
        """log p(y_t | s_t, h_a), (n, m)."""
        assert self.symbol is not None
        return self.of_each(self.symbol)

    def mixture(self, weights: Tensor, kept: Tensor, summed: bool = True) -> Tensor:
        """The mean, or the mixture, of the likelihoods of positions, (n,)."""
        weights = weights.masked_fill(~kept, -torch.inf if summed else 0.0)
        return mixture_plain(weights, self.each(), summed)

    def at(self, weights: Tensor) -> Tensor:
        """log p(y_t | s_t, sum_a weights(a) h_a), (n,)."""
        assert self.symbol is not None
        context = read_plain(self.memory.values, weights)
        log_probs = _of_context(self.model, self.memory, self.attention, self.projected, context, self.before)
        return log_probs.gather(1, self.symbol[:, None]).squeeze(1)


def step(
    model: Seq2Seq, memory: Memory, state: State, gates: Tensor, before: Tensor, masks: Tensor | None = None,
    noise: Noise | None = None,
) -> PlainStep:  # fmt: skip
    """One step, with the probability of every symbol at every position."""
    attention = model.attend(memory, state, gates, masks, noise)
    made, marginalization = model.readout, model.marginalization
    projected = made.of_query(attention.query)
    if memory.readout_shift is not None:
        projected = projected + memory.readout_shift
    given = model, memory, state, attention, projected
    if not marginalization.gives_positions:
        context = _context(memory, attention, attention.prior) if marginalization.needs_context else None
        log_probs = _of_context(model, memory, attention, projected, context, before)
        return PlainStep(*given, None, None, None, log_probs, before)
    hidden = made.of_values(memory.values) + projected[:, None]
    positions = torch.log_softmax(made.output(torch.tanh(hidden)), 2)
    kept = _kept(marginalization, attention.log_prior, marginalization.top_k)
    copies = model.copying.copies
    p_gen = _p_gen(model, attention, memory.values, before).squeeze(2) if copies else torch.ones_like(attention.prior)
    weights = _weights(model, attention.log_prior, kept, p_gen)[:, :, None]
    joint = weights + positions
    if model.copying.copies:
        generated, copied = _with_copies(model, memory, attention, positions, before)
        positions = _log(generated + copied)
        joint = _log(weights.exp() * generated + attention.prior[:, :, None] * copied)
    return PlainStep(*given, positions, kept, joint, torch.logsumexp(joint, 1), before)


def _of_context(
    model: Seq2Seq, memory: Memory, attention: Attention, projected: Tensor, context: Tensor | None, before: Tensor
) -> Tensor:
    """log p(y) of all symbols, (n, V) or (n, V + m), of one context (n, D), or of none."""
    made = model.readout
    hidden = projected if context is None else projected + made.of_values(context)
    log_probs = torch.log_softmax(made.output(torch.tanh(hidden)), 1)
    if not model.copying.copies:
        return log_probs
    p_gen = _p_gen(model, attention, context, before)
    copied = torch.einsum("nm,nmv->nv", attention.log_prior.exp(), _one_hot(model, memory))
    return _log(p_gen * F.pad(log_probs.exp(), (0, copied.shape[1] - log_probs.shape[1])) + (1 - p_gen) * copied)


def _with_copies(
    model: Seq2Seq, memory: Memory, attention: Attention, positions: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    """p(y is generated | s_t, h_a), by `positions`, and p(y is copied | s_t, h_a), (n, m, V + m) each."""
    own = _one_hot(model, memory)
    p_gen = _p_gen(model, attention, memory.values, before)
    if isinstance(model.marginalization, Bound):
        own = torch.einsum("nm,nmv->nv", attention.log_prior.exp(), own)[:, None]
    generated = F.pad(positions.exp(), (0, own.shape[2] - positions.shape[2]))
    return p_gen * generated, (1 - p_gen) * own


def _log(probs: Tensor) -> Tensor:
    """Logs whose gradient is finite where there is no probability."""
    return probs.clamp_min(1e-300).log()


def _p_gen(model: Seq2Seq, attention: Attention, context: Tensor, before: Tensor) -> Tensor:
    """p_gen of contexts (n, D) or (n, m, D): (n, 1) or (n, m, 1)."""
    made, embedding = model.copying, model.decoder.embedding.weight
    fed = embedding[torch.where(before < len(embedding), before, UNK)]
    of_row = attention.query @ made.of_query.weight.t() + made.of_query.bias + fed @ made.of_symbol.weight.t()
    of_row = of_row if context.dim() == 2 else of_row[:, None]
    return torch.sigmoid(context @ made.of_values.weight.t() + of_row)


def _one_hot(model: Seq2Seq, memory: Memory) -> Tensor:
    """[x_a = y], (n, m, V + m), zeros at padding."""
    found = F.one_hot(memory.copied, tiny.VOCABULARY + memory.copied.shape[1])
    return found.to(memory.values) * memory.mask[:, :, None]


def _kept(marginalization: Output, log_prior: Tensor, top_k: int | None) -> Tensor:
    """The positions (n, m) that are summed over, at most K."""
    kept = log_prior > ZERO / 2
    for row, own in zip(kept, log_prior, strict=True):
        row &= torch.tensor(_summed(own.exp().tolist(), marginalization.mass, top_k))
    return kept


def _summed(prior: list[float], mass: float | None, top_k: int | None) -> list[bool]:
    """Which positions of one row are summed over: the likeliest first, until there are enough."""
    chosen, reached = [False] * len(prior), 0.0
    for count, place in enumerate(sorted(range(len(prior)), key=lambda place: -prior[place])):
        if count == top_k or (mass or 2.0) <= reached:
            break
        chosen[place], reached = True, reached + prior[place]
    return chosen


def _weights(model: Seq2Seq, log_prior: Tensor, kept: Tensor, p_gen: Tensor) -> Tensor:
    """Log weights of what is summed over. With a mass, those kept generate all that is generated in training."""
    weights = log_prior.masked_fill(~kept, ZERO)
    if model.training and model.marginalization.mass is not None:
        generated = log_prior.exp() * p_gen
        weights = weights - ((generated * kept).sum(1) / generated.sum(1)).log()[:, None]
    return weights


def update(made: PlainStep, symbol: Tensor) -> State:
    """The state once the symbol is known."""
    model, memory, attention = made.model, made.memory, made.attention
    seen = made.observe(symbol) if model.input_feeding.needs_positions else None
    alignment = model.input_feeding(attention, seen, symbol, memory.mask)
    context = torch.zeros_like(memory.values[:, 0])
    if model.input_feeding.feeds:
        context = _context(memory, attention, alignment)
    return State(attention.hidden, context, made.state.history.then(alignment))


def _context(memory: Memory, attention: Attention, alignment: Tensor) -> Tensor:
    """sum_a alignment(a) h_a, with what a latent adds: (n, D)."""
    context = read_plain(memory.values, alignment)
    return context if attention.shift is None else context + attention.shift


@dataclass(frozen=True)
class PlainForced:
    """A batch under teacher forcing, rows as they were given.

    Attributes:
        log_probs: (B, T) log p(y_t | y_<t, x); prior, alignment: (B, T, m).
        objective: (B, T).
        correct: (B, T) whether y_t is the most probable symbol.
    """

    log_probs: Tensor
    objective: Tensor
    prior: Tensor
    alignment: Tensor
    correct: Tensor


def force(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, draws: bool = False) -> PlainForced:
    """Teacher forcing of one draw.

    What is drawn is drawn as `Seq2Seq.forward` does: for rows in the order of falling length, and
    dropout of embeddings for real symbols alone.
    """
    order = (target != PAD).sum(1).argsort(descending=True, stable=True)
    with plain_kernels():
        memory, steps, states = _steps(model, source[order], lengths[order], target[order], draws)
    back = torch.argsort(order)
    symbols = [made.symbol for made in steps]
    gold = [made.log_probs.gather(1, symbol[:, None]).squeeze(1) for made, symbol in zip(steps, symbols, strict=True)]
    values = gold
    if draws and isinstance(model.marginalization, Bound):
        log_q = model.inference(source, lengths, target, model.encoder.embed, model.decoder.embed)
        log_q = None if log_q is None else log_q[order]
        values = [_bound(made, log_q, t) for t, made in enumerate(steps)]
    objective = torch.stack(values, 1)
    alignment = torch.stack([state.alignment for state in states], 1)
    if draws:
        objective = objective - _costs(model, memory, steps, alignment, target[order])
    correct = [made.log_probs.argmax(1) == symbol for made, symbol in zip(steps, symbols, strict=True)]
    prior = torch.stack([made.attention.log_prior.exp() for made in steps], 1)
    parts = torch.stack(gold, 1), objective, prior, alignment, torch.stack(correct, 1)
    return PlainForced(*(part[back] for part in parts))


def _steps(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, draws: bool
) -> tuple[Memory, list[PlainStep], list[State]]:
    memory, real = model.encoded(source, lengths), target != PAD
    before = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)
    longest = max(1, int(real.sum(1).max()))
    found = model.decoder.gates(before.t()[real.t()])  # step after step, real symbols alone
    gates = found.new_zeros(*target.t().shape, found.shape[1])
    gates[real.t()] = found
    masks = model.decoder.draw_masks(longest, len(target))
    noise = None
    if draws and (model.latent.draws or model.input_feeding.draws or model.estimator.draws):
        noise = Noise.draw(longest, memory.values)
    state, steps, states = model.start(memory), [], []
    for t, symbol in enumerate(target.unbind(1)):
        now = min(t, longest - 1)  # nothing is drawn for what is padding in all rows
        made = step(
            model,
            memory,
            state,
            gates[t],
            before[:, t],
            None if masks is None else masks[:, now],
            None if noise is None else noise.at(now, len(target)),
        )
        state = update(made, symbol)
        steps.append(PlainStep(**{**vars(made), "symbol": symbol}))
        states.append(state)
    return memory, steps, states


def steps(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> list[PlainStep]:
    """The steps of targets of one length, without what training draws."""
    with plain_kernels():
        return _steps(model, source, lengths, target, draws=False)[1]


def _bound(made: PlainStep, log_q: Tensor | None, t: int) -> Tensor:
    """E_q[log p(y_t | s_t, h_a)] - weight KL(q_t || prior_t) of one step, (B,)."""
    bound, attention = made.model.marginalization, made.attention
    assert isinstance(bound, Bound)
    log_prior = attention.log_prior.clamp_min(ZERO)
    if log_q is None:
        known: Tensor = made.model.estimator(made, log_prior, log_prior, attention.gumbel)
        return known
    chosen = bound.restrict(log_q[:, t])
    divergence = (chosen.exp() * (chosen - log_prior)).sum(1)
    expected: Tensor = made.model.estimator(made, chosen, log_prior, attention.gumbel)
    return expected - bound.weight * divergence


def _costs(model: Seq2Seq, memory: Memory, steps: list[PlainStep], alignment: Tensor, target: Tensor) -> Tensor:
    """What latents and scores cost, (B, T); what a whole sentence costs is paid at its end."""
    costs = torch.zeros(target.shape, dtype=alignment.dtype)
    each = [made.attention.cost for made in steps]
    if each[0] is not None:
        costs = costs + torch.stack([cost for cost in each if cost is not None], 1)
    real = target != PAD
    prior = torch.stack([made.attention.log_prior.exp() for made in steps], 1)
    attended = [(part * real[:, :, None]).transpose(0, 1) for part in (prior, alignment)]
    of_score = model.score.cost(memory, *attended)
    at_end = real & (real.sum(1, keepdim=True) == real.cumsum(1))
    for cost in (memory.cost, of_score):
        if cost is not None:
            costs = costs + at_end * cost[:, None]
    return costs


def log_likelihood(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """log p(y_t | y_<t, x), (B, T)."""
    return force(model, source, lengths, target).log_probs


def objective(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """What training maximizes, (B, T), over all draws that a latent asks for."""
    samples = model.latent.samples
    given = [part.repeat_interleave(samples, 0) for part in (source, lengths, target)]
    found = force(model, *given, draws=True)
    values = found.objective
    if isinstance(model, Agreement):
        values = values + _agreement(model, given, found.prior)
    return values.unflatten(0, (-1, samples)).mean(1)


def _agreement(model: Agreement, given: list[Tensor], prior: Tensor) -> Tensor:
    """What the other direction and the trace add, (B, T), at the last symbols, one sentence after another."""
    source, lengths, target = given
    read, sizes, written = turned_round(source, lengths, target)
    back = force(model.back, read, sizes, written, draws=True)
    added = torch.zeros(target.shape, dtype=prior.dtype)
    for row, (m, n) in enumerate(zip(lengths.tolist(), sizes.tolist(), strict=True)):
        trace = sum((prior[row, t, a] * back.prior[row, a, t] for t in range(n) for a in range(m)), torch.zeros(()))
        other = back.objective[row, written[row] != PAD].sum()
        last = int((target[row] != PAD).sum()) - 1
        added = added.index_put((torch.tensor(row), torch.tensor(last)), other + model.weight * trace)
    return added
