"""Loss and accuracy on a split, during training."""

from __future__ import annotations

import torch

from pam.config import Decoding
from pam.data.actions import strip
from pam.data.batches import Examples
from pam.data.vocabulary import EOS
from pam.decoding.search import search
from pam.fast.teacher import token_log_probs
from pam.models.seq2seq import Seq2Seq


@torch.no_grad()
def evaluate(
    model: Seq2Seq,
    examples: Examples,
    decoding: Decoding,
    device: torch.device,
    *,
    actions: bool = False,
    outputs: bool = True,
) -> dict[str, float]:
    """Teacher-forced loss and exact-match accuracy by greedy search.

    Args:
        actions: whether the model writes pointer actions.
        outputs: whether outputs are searched; without them there is no accuracy.

    Returns:
        `loss` in nats per target token, end symbol included; `accuracy` from 0 to 1.
    """
    model.eval()
    greedy = decoding.model_copy(update={"beam": 1})
    loss, tokens, right = 0.0, 0, 0
    for batch in examples.in_order(decoding.batch_size):
        batch = batch.to(device)
        log_probs = token_log_probs(model, batch.source, batch.lengths, batch.target)
        loss -= float(log_probs.double()[batch.mask].sum())
        tokens += int(batch.mask.sum())
        if not outputs:
            continue
        found = search(model, batch.source, batch.lengths, greedy, actions)
        for row, output in zip(batch.rows.tolist(), found, strict=True):
            gold = strip(examples.targets[row].tolist())
            right += output.complete and [*strip(output.symbols), EOS] == gold
    measured = {"loss": loss / tokens}
    return measured | {"accuracy": right / len(examples)} if outputs else measured
