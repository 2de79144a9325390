"""Loss and accuracy on a split, during training."""

from __future__ import annotations

from itertools import islice

import torch

from pam.config import Decoding
from pam.data.actions import strip
from pam.data.batches import Batch, Examples
from pam.data.vocabulary import EOS
from pam.decoding.search import search
from pam.fast.teacher import token_log_probs
from pam.models.model import Model
from pam.training.distributed import Team
from pam.training.memory import enough_for
from pam.training.stopping import Stop, Stopped

REMEDY = "lower `decoding.batch_size`"


@torch.no_grad()
def evaluate(
    model: Model,
    examples: Examples,
    decoding: Decoding,
    team: Team,
    stop: Stop,
    *,
    actions: bool = False,
    outputs: bool = True,
) -> dict[str, float]:
    """Teacher-forced loss and exact-match accuracy by greedy search.

    Args:
        team: the processes that share this evaluation, batch by batch.
        stop: asked after each batch.
        actions: whether the model writes pointer actions.
        outputs: whether outputs are searched; without them there is no accuracy.

    Returns:
        `loss` in nats per target token, end symbol included; `accuracy` from 0 to 1.

    Raises:
        Stopped: some process was asked to end.
        UserError: out of memory.
    """
    model.eval()
    greedy = decoding.model_copy(update={"beam": 1})
    loss, tokens, right = 0.0, 0, 0
    batches = islice(examples.in_order(decoding.batch_size), team.rank, None, team.size)
    for batch in batches:
        if stop.asked():
            break
        with enough_for(f"the evaluation of {len(batch.rows)} examples side by side", REMEDY):
            batch = batch.to(team.device)
            log_probs = token_log_probs(model, batch.source, batch.lengths, batch.target)
            loss -= float(log_probs.double()[batch.mask].sum())
            tokens += int(batch.mask.sum())
            if outputs:
                right += _right(model, examples, batch, greedy, actions)
    losses, counts, rights, codes = team.gather(loss, tokens, right, stop.asked())
    if any(codes):
        raise Stopped(int(max(codes)))
    measured = {"loss": sum(losses) / sum(counts)}
    return measured | {"accuracy": sum(rights) / len(examples)} if outputs else measured


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
