"""neural-transducer of Wu et al. (2018, 2019).

It has soft and hard attention, hidden Markov models and a monotone pointer.
"""

from __future__ import annotations

import decoding
import model as models
import torch
from dataloader import BOS_IDX, EOS_IDX, PAD_IDX, STEP_IDX, UNK_IDX
from serving import BOS, Rows, arguments, padded, serve, step
from torch import Tensor

IDS = [PAD_IDX, BOS_IDX, EOS_IDX, UNK_IDX, STEP_IDX]  # for our PAD, BOS, EOS, UNK and STEP
FURTHER = 1  # it has one special id more than we do
JUMP = {"wid_siz": 11}  # positions that a first-order alignment may move by


class Monotone(models.MonoHMMTransducer, models.FullHMMTransducer):
    """First-order hard attention that moves forward only, as its training script combines it."""


MODELS = {
    "soft": (models.Transducer, {}, decoding.decode_beam_search_default),
    "hard": (models.HMMTransducer, {}, decoding.decode_beam_hmm),
    "monotone": (Monotone, JUMP, decoding.decode_beam_hmm),
    "pointer": (models.HardMonoTransducer, {"nb_attr": 0}, decoding.decode_beam_mono),
}


def own_id(symbol: int) -> int:
    """Return its id of one of our symbols."""
    if symbol < len(IDS):
        return int(IDS[symbol])
    return symbol + FURTHER


def batch_of(sources: Rows, targets: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sources and targets with their masks, (length, B) each."""

    def column(rows: Rows) -> Tensor:
        ids = [[own_id(symbol) for symbol in row] for row in rows]
        return padded(ids, PAD_IDX).t().contiguous()

    source = column(sources)
    target = column([[BOS, *row] for row in targets])
    return source, (source != PAD_IDX).float(), target, (target != PAD_IDX).float()


def main() -> None:
    args, task = arguments(*MODELS)

    kind, options, search = MODELS[args.model]
    sizes = {
        "embed_dim": task.embedding,
        "src_hid_size": task.encoder,
        "trg_hid_size": task.decoder,
        "src_nb_layers": task.layers,
        "trg_nb_layers": task.layers,
        "src_vocab_size": task.source + FURTHER,
        "trg_vocab_size": task.target + FURTHER,
    }
    names = dict.fromkeys(("src_c2i", "trg_c2i", "attr_c2i"))  # characters by id, for its logs
    model = kind(dropout_p=task.dropout, **sizes, **names, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    symbols = task.actions if args.model == "pointer" else task.symbols
    batches = [batch_of(*batch) for batch in symbols]

    def train(number: int) -> tuple[int, int]:
        batch = batches[number % len(batches)]
        model.train()
        optimizer.zero_grad()
        step(model, optimizer, model.get_loss(batch))
        return batch[0].shape[1], int((batch[2][1:] != PAD_IDX).sum())

    def decode(number: int) -> tuple[int, int]:
        source, mask, target, _ = batches[number % len(batches)]
        model.eval()
        with torch.no_grad():
            outputs, _ = search(model, source, mask, max_len=len(target) + 5, nb_beam=task.beam)
        return source.shape[1], sum(map(len, outputs))

    serve(train, decode)


if __name__ == "__main__":
    main()
