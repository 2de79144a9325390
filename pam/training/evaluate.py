"""Loss, accuracy and objective on a split, during training."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.dataset import Batch, Examples
from pam.data.vocabulary import EOS, strip
from pam.decoding.forced import force
from pam.decoding.search import search
from pam.fast.teacher import token_log_probs, token_objective
from pam.models.model import Model
from pam.training.devices import enough_for
from pam.training.distributed import ProcessGroup
from pam.training.preemption import Stop, Stopped

HINT = "lower `decoding.batch_size`"


@torch.no_grad()
def evaluate(
    model: Model,
    examples: Examples,
    decoding: Decoding,
    group: ProcessGroup,
    stop: Stop,
    *,
    actions: bool = False,
    outputs: bool = True,
    eval_metrics: bool = False,
) -> dict[str, float]:
    """Teacher-forced loss and exact-match accuracy by greedy search.

    Args:
        group: the processes that share this evaluation, batch by batch.
        stop: asked after each batch.
        actions: whether the model writes pointer actions.
        outputs: whether outputs are searched; without them there is no accuracy.
        watch: whether single symbols and the objective are measured too.

    Returns:
        `loss` in nats per target token, end symbol included; `accuracy` from 0 to 1;
        `token_accuracy`, how often the most probable next symbol is the target's; `objective`, what
        training maximizes, be it log p or a bound, in nats per target token. What an objective
        draws comes from torch's generator.

    Raises:
        Stopped: some process was asked to end.
        UserError: out of memory.
    """
    model.eval()
    greedy = decoding.model_copy(update={"beam": 1})
    loss, tokens, right, watched = 0.0, 0, 0, torch.zeros(2, dtype=torch.float64)
    batches = islice(examples.in_order(decoding.batch_size), group.rank, None, group.size)
    for batch in batches:
        if stop.asked():
            break
        with enough_for(f"the evaluation of {len(batch.rows)} examples side by side", HINT):
            batch = batch.to(group.device)
            log_probs = token_log_probs(model, batch.source, batch.lengths, batch.target)
            loss -= float(log_probs.double()[batch.mask].sum())
            tokens += int(batch.mask.sum())
            if outputs:
                right += _right(model, examples, batch, greedy, actions)
            if eval_metrics:
                watched += _watched(model, batch)
    *sums, codes = group.gather(loss, tokens, right, *watched.tolist(), stop.asked())
    if any(codes):
        raise Stopped(int(max(codes)))
    all_loss, all_tokens, all_right, symbols, objective = map(sum, sums)
    measured = {"loss": all_loss / all_tokens}
    if outputs:
        measured["accuracy"] = all_right / len(examples)
    if eval_metrics:
        measured |= {"token_accuracy": symbols / all_tokens, "objective": objective / all_tokens}
    return measured


def _watched(model: Model, batch: Batch) -> Tensor:
    """Of a batch: how many symbols are the most probable ones, and the summed objective."""
    objective = token_objective(model, batch.source, batch.lengths, batch.target)
    correct = force(model, batch).correct
    return torch.stack([part.double()[batch.mask].sum() for part in (correct, objective)]).cpu()


def _right(
    model: Model, examples: Examples, batch: Batch, decoding: Decoding, actions: bool
) -> int:
    """How many outputs of a batch are wholly right."""
    found = search(model, batch.source, batch.lengths, decoding, actions)
    right = 0
    for row, output in zip(batch.rows.tolist(), found, strict=True):
        gold = strip(examples.targets[row].tolist())
        right += output.complete and [*strip(output.symbols), EOS] == gold
    return right
