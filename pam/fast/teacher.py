"""Teacher-forced likelihoods at full speed, for the models that this package covers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import PAD, STEP
from pam.fast import recurrence
from pam.fast.alignment import Aligner, Coupled, Free, Sparse
from pam.fast.cell import doubled_candidate
from pam.fast.coverage import covers, mirror, points, recurs
from pam.fast.emission import bounds, log_probs
from pam.fast.readout import SigmoidReadout, Tokens, sigmoid_readout
from pam.fast.steps import Batch, Steps
from pam.fast.unrolled import unroll
from pam.models.agreement import Agreement
from pam.models.input_feedings.posterior import Posterior
from pam.models.marginalizations.output import Output
from pam.models.memory import Memory
from pam.models.model import Model
from pam.models.projection import Projection
from pam.models.relative import RelativeCoupling
from pam.models.seq2seq import Seq2Seq, averaged, shifted


def token_log_probs(
    model: Model, source: Tensor, lengths: Tensor, target: Tensor, *, narrow: bool = False
) -> Tensor:
    """log p(y_t | y_<t, x) of given targets; see `Seq2Seq.teacher_forced`.

    Rows sorted by the length of their targets, longest first, cost nothing where they are padded.

    Args:
        narrow: whether large products are taken in bfloat16; sums and states are not.

    Returns:
        (B, n). Entries at padded target positions carry no meaning; mask them.
    """
    if not covers(model, draws=False):
        return model.teacher_forced(source, lengths, target).log_probs
    batch = _batch(model, source, lengths, target, narrow, draws=False)
    if points(model):
        return _pointed(model, batch)
    readout = sigmoid_readout(model, batch.memory)
    return log_probs(model, batch, _steps(model, batch, readout), readout)


def token_objective(
    model: Model, source: Tensor, lengths: Tensor, target: Tensor, *, narrow: bool = False
) -> Tensor:
    """What training maximizes per token, as `Seq2Seq.objective` defines it; see above."""
    if not covers(model, draws=True):
        return model.objective(source, lengths, target)

    def objective(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        values, prior = _objective(model, narrow, source, lengths, target)
        if not isinstance(model, Agreement):
            return values
        turned = target, (target != PAD).sum(1), source
        return model.agreed(source, target, values, prior, *_objective(model.back, narrow, *turned))

    if model.latent.samples > 1:
        return averaged(objective, model.latent.samples, source, lengths, target)
    return objective(source, lengths, target)


def _objective(
    model: Seq2Seq, narrow: bool, source: Tensor, lengths: Tensor, target: Tensor
) -> tuple[Tensor, Tensor]:
    """The objective, (B, n), and the prior, (B, n, m); a pointer's is not told."""
    batch = _batch(model, source, lengths, target, narrow, draws=True)
    if points(model):
        values = _pointed(model, batch)
        return model.charged(values, batch.memory, None, target), values.new_empty(0)
    log_q = _infer(model, batch, source, lengths)
    readout = sigmoid_readout(model, batch.memory)
    steps = _steps(model, batch, readout)
    if model.inference.infers:
        values = bounds(model, batch, steps, readout, log_q)
    else:
        values = log_probs(model, batch, steps, readout)
    if steps.costs is not None:
        values = values - steps.costs.t()
    values = model.charged(values, batch.memory, steps.summed, target)
    return values, steps.log_prior.exp().transpose(0, 1)


def _infer(model: Seq2Seq, batch: Batch, source: Tensor, lengths: Tensor) -> Tensor | None:
    """log q_t(a | x, y), (B, n, m), if there is such a distribution."""
    with torch.autocast(source.device.type, torch.bfloat16, enabled=batch.narrow):
        log_q = model.infer(source, lengths, batch.target)
    return None if log_q is None else log_q.to(batch.memory.values.dtype)


def _batch(
    model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor, narrow: bool, draws: bool
) -> Batch:
    with torch.autocast(source.device.type, torch.bfloat16, enabled=narrow):
        memory = model.encode(source, lengths).to(model.readout.output.weight.dtype)
    return Batch(
        memory=memory,
        embedded=model.recurrence.embed(shifted(target)),
        masks=model.recurrence.draw_masks(target.shape[1], target.shape[0]),
        noise=model.draw_noise(memory, target.shape[1]) if draws else None,
        target=target,
        narrow=narrow,
    )


def _steps(model: Seq2Seq, batch: Batch, readout: SigmoidReadout) -> Steps:
    if not recurs(model, draws=batch.noise is not None):
        return unroll(model, batch)
    posterior = _posterior(model, batch, readout)
    queries, log_prior, gold = _recur(model, batch, readout, posterior)
    return Steps(queries, log_prior, None if posterior is None else gold.t())


def _posterior(
    model: Seq2Seq, batch: Batch, readout: SigmoidReadout
) -> recurrence.Posterior | None:
    """What the recurrence needs to feed the posterior back, if it does."""
    marginal, feedback = model.marginalization, model.feedback
    if not isinstance(feedback, Posterior):
        return None
    top_k = marginal.top_k if isinstance(marginal, Output) else None
    sizes = batch.memory.mask.sum(1)
    share = feedback.share(sizes > (sizes if top_k is None else top_k)).to(readout.views)
    return recurrence.Posterior(batch.target.t(), share, feedback.gradient, top_k)


def _recur(
    model: Seq2Seq,
    batch: Batch,
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


def _pointed(model: Seq2Seq, batch: Batch) -> Tensor:
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


def _aligner(model: Seq2Seq) -> Callable[..., Aligner]:
    """What turns scores into priors, made from the tensors of `coupling_tensors`."""
    if isinstance(model.coupling, RelativeCoupling):
        return Coupled
    if isinstance(model.distribution, Projection):
        return partial(Sparse, model.distribution)
    return Free


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


def _gates(model: Seq2Seq, batch: Batch) -> Tensor:
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
