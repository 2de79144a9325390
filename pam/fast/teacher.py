"""Teacher-forced likelihoods at full speed, for the models that this package covers."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam.data.vocabulary import PAD, STEP
from pam.fast import recurrence
from pam.fast.alignment import Aligner, Coupled, Free, Sparse
from pam.fast.cell import doubled_candidate
from pam.fast.joint import log_likelihood
from pam.fast.readout import SigmoidReadout, Tokens, sigmoid_readout
from pam.models.couplings.none import NoCoupling
from pam.models.couplings.pointer import Pointer
from pam.models.distributions.softmax import Softmax
from pam.models.feedbacks.posterior import Posterior
from pam.models.logspace import ZERO
from pam.models.marginals.bound import Bound
from pam.models.marginals.output import Output
from pam.models.parts import Memory
from pam.models.projection import Projection
from pam.models.relative import RelativeCoupling
from pam.models.seq2seq import Seq2Seq, shifted


def covers(model: Seq2Seq) -> bool:
    """Whether the fast path computes this model; the reference computes every model."""
    if isinstance(model.coupling, Pointer):
        return True
    coupled = isinstance(model.coupling, RelativeCoupling)
    free = isinstance(model.coupling, NoCoupling)
    return mirror(model.score) is not None and (
        (isinstance(model.distribution, Softmax) and (free or coupled))
        or (isinstance(model.distribution, Projection) and free)
    )


def _aligner(model: Seq2Seq) -> Callable[..., Aligner]:
    """What turns scores into priors, made from the tensors of `coupling_tensors`."""
    if isinstance(model.coupling, RelativeCoupling):
        return Coupled
    if isinstance(model.distribution, Projection):
        return partial(Sparse, model.distribution)
    return Free


def mirror(part: nn.Module) -> ModuleType | None:
    """The module of this package that computes what a component defines, if there is one."""
    return _module(type(part).__module__.replace("pam.models.", "pam.fast.", 1))


@cache
def _module(name: str) -> ModuleType | None:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def token_log_probs(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, *, narrow: bool = False
) -> Tensor:
    """log p(y_t | y_<t, x) of given targets; see `Seq2Seq.teacher_forced`.

    Rows sorted by the length of their targets, longest first, cost nothing where they are padded.

    Args:
        narrow: whether large products are taken in bfloat16; sums and states are not.

    Returns:
        (B, n). Entries at padded target positions carry no meaning; mask them.
    """
    if not covers(model):
        return model.teacher_forced(source, lengths, target).log_probs
    return _token_values(model, source, lengths, target, narrow, bound=False)


def token_objective(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, *, narrow: bool = False
) -> Tensor:
    """What training maximises per token, as `Seq2Seq.objective` defines it; see above."""
    if not covers(model):
        return model.objective(source, lengths, target)
    return _token_values(model, source, lengths, target, narrow, bound=model.inference.infers)


@dataclass(frozen=True)
class _Batch:
    """A batch on its way through the decoder.

    Attributes:
        memory: the encoded sources.
        embedded: (n, B, E) of the decoder's inputs.
        masks: dropout masks of the recurrence, or None.
        target: (B, n).
        narrow: whether large products are taken in bfloat16.
    """

    memory: Memory
    embedded: Tensor
    masks: Tensor | None
    target: Tensor
    narrow: bool


def _token_values(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, narrow: bool, bound: bool
) -> Tensor:
    with torch.autocast(source.device.type, torch.bfloat16, enabled=narrow):
        memory = model.encode(source, lengths).to(model.readout.output.weight.dtype)
    batch = _Batch(
        memory=memory,
        embedded=model.recurrence.embed(shifted(target)),
        masks=model.recurrence.draw_masks(target.shape[1], target.shape[0]),
        target=target,
        narrow=narrow,
    )
    if isinstance(model.coupling, Pointer):
        return _pointed(model, batch)
    if not bound:
        return _attended(model, batch)
    with torch.autocast(source.device.type, torch.bfloat16, enabled=narrow):
        log_q = model.infer(source, lengths, target)
    assert log_q is not None
    return _bounded(model, batch, log_q.to(memory.values.dtype))


def _attended(model: Seq2Seq, batch: _Batch) -> Tensor:
    marginal, feedback = model.marginalisation, model.feedback
    readout, posterior = sigmoid_readout(model, batch.memory), None
    top_k = marginal.top_k if isinstance(marginal, Output) else None
    if isinstance(feedback, Posterior):
        sizes = batch.memory.mask.sum(1)
        share = feedback.share(sizes > (sizes if top_k is None else top_k)).to(readout.views)
        posterior = recurrence.Posterior(batch.target.t(), share, feedback.gradient, top_k)
    queries, log_prior, gold = _recur(model, batch, readout, posterior)
    if posterior is not None:
        return gold.t()
    tokens = Tokens.of(batch.target)
    if not isinstance(marginal, Output):
        contexts = torch.bmm(log_prior.exp().transpose(0, 1), readout.views).transpose(0, 1)
        return tokens.softly(readout, queries, contexts, batch.narrow)
    kept = None
    if top_k is not None and top_k < log_prior.shape[2]:
        kept = log_prior.topk(top_k, dim=2).indices
        log_prior = log_prior.gather(2, kept)
    z, weights = tokens.hidden(readout, queries, kept), tokens.pick(log_prior)
    output = readout.weight, readout.bias, tokens.symbols
    return tokens.spread(log_likelihood(z, weights, *output, narrow=batch.narrow))


def _bounded(model: Seq2Seq, batch: _Batch, log_q: Tensor) -> Tensor:
    """E_q[log p(y_t | s_t, h_a)] - KL(q || prior), (B, n); see `pam.models.marginals.bound`."""
    marginal = model.marginalisation
    assert isinstance(marginal, Bound)
    readout, tokens = sigmoid_readout(model, batch.memory), Tokens.of(batch.target)
    queries, log_prior, _ = _recur(model, batch, readout, None)
    log_q, kept = log_q.transpose(0, 1), None
    if marginal.q_top_k is not None and marginal.q_top_k < log_q.shape[2]:
        kept = log_q.topk(marginal.q_top_k, dim=2).indices
        log_q = torch.log_softmax(log_q.gather(2, kept), dim=2)
        log_prior = log_prior.gather(2, kept)
    log_q, log_prior = tokens.pick(log_q), tokens.pick(log_prior).clamp_min(ZERO)
    z, q = tokens.hidden(readout, queries, kept), log_q.exp()
    output = readout.weight, readout.bias, tokens.symbols
    expected = log_likelihood(z, q, *output, summed=False, narrow=batch.narrow)
    return tokens.spread(expected + (q * (log_prior - log_q)).sum(1))


def _recur(
    model: Seq2Seq,
    batch: _Batch,
    readout: SigmoidReadout,
    posterior: recurrence.Posterior | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, log priors and, where a posterior is fed back, gold log-likelihoods."""
    score, memory = mirror(model.score), batch.memory
    assert score is not None
    plan = recurrence.Plan(
        counts=_counts(batch.target),
        mask=memory.mask,
        dropout=batch.masks,
        scorer=score.COMPONENT,
        aligner=_aligner(model),
        posterior=posterior,
        narrow=batch.narrow,
    )
    inputs = recurrence.Inputs(
        gates=_gates(model, batch),
        values=memory.values,
        score=score.tensors(model.score, memory),
        aligner=coupling_tensors(model, memory),
        readout=() if posterior is None else readout,
        layers=_layers(model, memory),
    )
    return recurrence.recur(plan, inputs)


def _counts(target: Tensor) -> list[int]:
    """Per step, how many rows from the first on have not ended; all, if rows are not sorted."""
    lengths = (target != PAD).sum(1)
    if bool((lengths[1:] > lengths[:-1]).any()):
        return [target.shape[0]] * target.shape[1]
    times = torch.arange(target.shape[1], device=target.device)
    counts: list[int] = (lengths[None] > times[:, None]).sum(1).clamp_min(1).tolist()
    return counts


def _pointed(model: Seq2Seq, batch: _Batch) -> Tensor:
    """Hard monotone attention: the targets say where the pointer stands, so nothing feeds back."""
    memory, target = batch.memory, batch.target
    steps = (target == STEP).cumsum(1)
    at = torch.cat([torch.zeros_like(steps[:, :1]), steps[:, :-1]], dim=1)
    at = at.minimum(memory.mask.sum(1, keepdim=True) - 1).t()  # (n, B)
    rows = torch.arange(at.shape[1], device=at.device)
    below = torch.cat([batch.embedded, memory.values[rows, at]], dim=2)
    for index, cell in enumerate(model.recurrence.stack):
        h, c = memory.start[index]
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        below, _, _ = torch.lstm(
            below, (h[None], c[None]), weights, True, 1, 0.0, model.training, False, False
        )
        if batch.masks is not None:
            below = below * batch.masks[index]
    readout = sigmoid_readout(model, memory)
    return Tokens.of(target).softly(readout, below, readout.views[rows, at], batch.narrow)


def coupling_tensors(model: Seq2Seq, memory: Memory) -> tuple[Tensor, ...]:
    """exp(k(d)) of all distances (2m - 1,), and energies (m,) of the first step if it has any."""
    coupling = model.coupling
    if not isinstance(coupling, RelativeCoupling):
        return ()
    length = memory.mask.shape[1]
    distances = torch.arange(1 - length, length, device=memory.mask.device)
    weights = coupling.energies(distances).exp()
    if not coupling.starts_before:
        return (weights,)
    return weights, coupling.energies(distances[length - 1 :] + 1)


def _gates(model: Seq2Seq, batch: _Batch) -> Tensor:
    """(T, B, 4H) the first layer's gates from embeddings and biases, candidate rows doubled."""
    cell = model.recurrence.stack[0]
    embedded = batch.embedded
    weight = doubled_candidate(cell.weight_ih[:, : embedded.shape[2]])
    bias = doubled_candidate(cell.bias_ih + cell.bias_hh)
    with torch.autocast(embedded.device.type, torch.bfloat16, enabled=batch.narrow):
        return F.linear(embedded, weight, bias).to(embedded.dtype)


def _layers(model: Seq2Seq, memory: Memory) -> tuple[tuple[Tensor, ...], ...]:
    layers = []
    for index, cell in enumerate(model.recurrence.stack):
        wx = cell.weight_ih if index else cell.weight_ih[:, -memory.values.shape[2] :]
        parts = [doubled_candidate(wx), doubled_candidate(cell.weight_hh), *memory.start[index]]
        if index:
            parts.append(doubled_candidate(cell.bias_ih + cell.bias_hh))
        layers.append(tuple(parts))
    return tuple(layers)
