"""Loss, accuracy and objective on a split, during training."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from pam.config import Decoding
from pam.data.dataset import Batch, Examples
from pam.data.vocabulary import EOS, strip
from pam.decoding.beam_search import search
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
    accuracy: bool = True,
    eval_metrics: bool = False,
) -> dict[str, float]:
    """Teacher-forced loss and exact-match accuracy by greedy search.

    Args:
        group: the processes that share this evaluation, batch by batch.
        stop: checked after each batch.
        actions: whether the model writes pointer actions.
        accuracy: whether outputs are searched and compared with the targets.
        eval_metrics: whether single symbols and the objective are measured too.

    Returns:
        `loss` in nats per target token, end symbol included; `accuracy` from 0 to 1;
        `token_accuracy`, how often the most probable next symbol is the target's; `objective`, what
        training maximizes, be it log p or a bound, in nats per target token. What an objective
        draws comes from torch's generator.

    Raises:
        Stopped: some process is to stop.
        UserError: out of memory.
    """
    model.eval()
    greedy = decoding.model_copy(update={"beam": 1})
    loss, tokens, matches, metrics = 0.0, 0, 0, torch.zeros(2, dtype=torch.float64)
    batches = islice(examples.in_order(decoding.batch_size), group.rank, None, group.size)
    for batch in batches:
        if stop.exit_code():
            break
        with enough_for(f"the evaluation of {len(batch.rows)} examples side by side", HINT):
            batch = batch.to(group.device)
            log_probs = model.log_likelihood(batch.source, batch.lengths, batch.target)
            loss -= float(log_probs.double()[batch.mask].sum())
            tokens += int(batch.mask.sum())
            if accuracy:
                matches += _exact_matches(model, examples, batch, greedy, actions)
            if eval_metrics:
                metrics += _token_metrics(model, batch)
    *sums, codes = group.gather(loss, tokens, matches, *metrics.tolist(), stop.exit_code())
    if any(codes):
        raise Stopped(int(max(codes)))
    all_loss, all_tokens, all_matches, correct, objective = map(sum, sums)
    measured = {"loss": all_loss / all_tokens}
    if accuracy:
        measured["accuracy"] = all_matches / len(examples)
    if eval_metrics:
        measured |= {"token_accuracy": correct / all_tokens, "objective": objective / all_tokens}
    return measured


def _token_metrics(model: Model, batch: Batch) -> Tensor:
    """(2) of a batch: how many symbols are the most probable ones, and the summed objective."""
    given = batch.source, batch.lengths, batch.target
    objective, correct = model.objective(*given), model.teacher_force(*given).correct
    return torch.stack([part.double()[batch.mask].sum() for part in (correct, objective)]).cpu()


def _exact_matches(model: Model, examples: Examples, batch: Batch, decoding: Decoding, actions: bool) -> int:
    """How many outputs of a batch are wholly right."""
    matches = 0
    outputs = search(model, batch.source, batch.lengths, decoding, actions)
    for row, output in zip(batch.rows.tolist(), outputs, strict=True):
        target = strip(examples.targets[row].tolist())
        matches += output.complete and [*strip(output.symbols), EOS] == target
    return matches
