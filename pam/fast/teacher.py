"""Teacher-forced likelihoods at full speed, for the models that this package covers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pam.data.vocabulary import PAD, STEP
from pam.fast import recurrence
from pam.fast.cell import doubled_candidate
from pam.fast.joint import position_likelihoods
from pam.models.couplings.none import NoCoupling
from pam.models.couplings.pointer import Pointer
from pam.models.distributions.softmax import Softmax
from pam.models.feedbacks.posterior import Posterior
from pam.models.marginals.output import Output
from pam.models.parts import Memory
from pam.models.relative import RelativeCoupling
from pam.models.scores.general import General
from pam.models.seq2seq import Seq2Seq, shifted


def covers(model: Seq2Seq) -> bool:
    """Whether the fast path computes this model; the reference computes every model."""
    if isinstance(model.coupling, Pointer):
        return True
    return (
        isinstance(model.score, General)
        and isinstance(model.distribution, Softmax)
        and isinstance(model.coupling, NoCoupling | RelativeCoupling)
    )


def token_log_probs(model: Seq2Seq, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
    """log p(y_t | y_<t, x) of given targets; see `Seq2Seq.teacher_forced`.

    Rows sorted by the length of their targets, longest first, cost nothing where they are padded.

    Returns:
        (B, n). Entries at padded target positions carry no meaning; mask them.
    """
    if not covers(model):
        return model.teacher_forced(source, lengths, target).log_probs
    memory = model.encode(source, lengths)
    embedded = model.recurrence.embed(shifted(target))
    masks = model.recurrence.draw_masks(target.shape[1], target.shape[0])
    if isinstance(model.coupling, Pointer):
        return _pointed(model, memory, embedded, masks, target)
    return _attended(model, memory, embedded, masks, target)


def _attended(
    model: Seq2Seq, memory: Memory, embedded: Tensor, masks: Tensor | None, target: Tensor
) -> Tensor:
    marginal, feedback = model.marginalisation, model.feedback
    targets, counts = target.t(), _counts(target)
    joint = isinstance(marginal, Output)
    views, of_query, weight, bias = sigmoid_readout(model, memory) if joint else (None,) * 4
    observed, how = isinstance(feedback, Posterior), None
    top_k = marginal.top_k if isinstance(marginal, Output) else None
    if isinstance(feedback, Posterior):
        sizes = memory.mask.sum(1)
        share = feedback.share(sizes > (sizes if top_k is None else top_k)).to(memory.values)
        how = recurrence.Posterior(targets, share, feedback.gradient, top_k)
    coupling, first = coupling_weights(model, memory)
    inputs = recurrence.Inputs(
        gates=_gates(model, embedded),
        keys=memory.keys,
        values=memory.values,
        layers=_layers(model, memory),
        coupling=coupling,
        first=first,
        **(
            {"views": views, "of_query": of_query, "weight": weight, "bias": bias}
            if observed
            else {}
        ),
    )
    queries, log_prior, gold = recurrence.recur(inputs, counts, memory.mask, masks, how)
    if observed:
        return gold.t()
    if not joint:
        contexts = torch.bmm(log_prior.exp().transpose(0, 1), memory.readout)
        return _softly(model, queries, contexts.transpose(0, 1), targets)
    assert views is not None and of_query is not None and weight is not None and bias is not None
    kept = None
    if top_k is not None and top_k < views.shape[1]:
        kept = log_prior.topk(top_k, dim=2).indices
        log_prior = log_prior.gather(2, kept)
    likelihood = position_likelihoods(
        counts, targets, kept, queries @ of_query.t(), views, weight, bias
    )
    return torch.logsumexp(log_prior + likelihood, dim=2).t()


def _counts(target: Tensor) -> list[int]:
    """Per step, how many rows from the first on have not ended; all, if rows are not sorted."""
    lengths = (target != PAD).sum(1)
    if bool((lengths[1:] > lengths[:-1]).any()):
        return [target.shape[0]] * target.shape[1]
    times = torch.arange(target.shape[1], device=target.device)
    counts: list[int] = (lengths[None] > times[:, None]).sum(1).clamp_min(1).tolist()
    return counts


def _pointed(
    model: Seq2Seq, memory: Memory, embedded: Tensor, masks: Tensor | None, target: Tensor
) -> Tensor:
    """Hard monotone attention: the targets say where the pointer stands, so nothing feeds back."""
    steps = (target == STEP).cumsum(1)
    at = torch.cat([torch.zeros_like(steps[:, :1]), steps[:, :-1]], dim=1)
    at = at.minimum(memory.mask.sum(1, keepdim=True) - 1).t()  # (n, B)
    rows = torch.arange(at.shape[1], device=at.device)
    below = torch.cat([embedded, memory.values[rows, at]], dim=2)
    for index, cell in enumerate(model.recurrence.stack):
        h, c = memory.start[index]
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        below, _, _ = torch.lstm(
            below, (h[None], c[None]), weights, True, 1, 0.0, model.training, False, False
        )
        if masks is not None:
            below = below * masks[index]
    return _softly(model, below, memory.readout[rows, at], target.t())


def _softly(model: Seq2Seq, queries: Tensor, contexts: Tensor, targets: Tensor) -> Tensor:
    """(B, n) from queries (T, B, H) and readout views of contexts (T, B, R)."""
    log_probs: Tensor = model.readout(queries.flatten(0, 1), contexts.flatten(0, 1))
    return log_probs.gather(1, targets.reshape(-1, 1)).view(targets.shape).t()


def sigmoid_readout(model: Seq2Seq, memory: Memory) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The readout with its tanh written as a sigmoid; see `pam.fast.likelihood`."""
    readout = model.readout
    views = 2 * (memory.readout + readout.of_query.bias)
    weight = readout.output.weight
    bias = readout.output.bias - weight.sum(1)
    return views, 2 * readout.of_query.weight, 2 * weight, bias


def coupling_weights(model: Seq2Seq, memory: Memory) -> tuple[Tensor | None, Tensor | None]:
    """exp(k(d)) of all distances (2m - 1,) and the first step's energies (m,), or None each."""
    coupling = model.coupling
    if not isinstance(coupling, RelativeCoupling):
        return None, None
    length = memory.mask.shape[1]
    distances = torch.arange(1 - length, length, device=memory.mask.device)
    first = coupling.energies(distances[length - 1 :] + 1) if coupling.starts_before else None
    return coupling.energies(distances).exp(), first


def _gates(model: Seq2Seq, embedded: Tensor) -> Tensor:
    """(T, B, 4H) the first layer's gates from embeddings and biases, candidate rows doubled."""
    cell = model.recurrence.stack[0]
    weight = doubled_candidate(cell.weight_ih[:, : embedded.shape[2]])
    return F.linear(embedded, weight, doubled_candidate(cell.bias_ih + cell.bias_hh))


def _layers(model: Seq2Seq, memory: Memory) -> tuple[tuple[Tensor, ...], ...]:
    layers = []
    for index, cell in enumerate(model.recurrence.stack):
        wx = cell.weight_ih if index else cell.weight_ih[:, -memory.values.shape[2] :]
        parts = [doubled_candidate(wx), doubled_candidate(cell.weight_hh), *memory.start[index]]
        if index:
            parts.append(doubled_candidate(cell.bias_ih + cell.bias_hh))
        layers.append(tuple(parts))
    return tuple(layers)
