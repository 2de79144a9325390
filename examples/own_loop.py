"""Posterior attention in a model and a training loop of your own: two `nn.LSTM`s inflect nouns.

    python examples/own_loop.py [--lemmas 300] [--epochs 8] [--coupling proximity]

`pam.PosteriorAttention`, between the decoder's states and its symbols, is all that comes from pam.
The data are German nouns of the package german-nouns: lemma, case and number in, their form out.
"""

from __future__ import annotations

import argparse
from importlib.metadata import distribution

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from pam import PosteriorAttention
from pam.data.generated import GermanNouns

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"
LONGEST = 24  # letters of a form


class Inflector(nn.Module):
    """A bidirectional LSTM reads, an LSTM writes, and posterior attention is between them."""

    def __init__(self, source: int, target: int, coupling: str, units: int = 64) -> None:
        super().__init__()
        self.source = nn.Embedding(source, units)
        self.target = nn.Embedding(target, units)
        self.encoder = nn.LSTM(units, units, bidirectional=True, batch_first=True)
        self.decoder = nn.LSTM(units + 2 * units, units)
        self.attention = PosteriorAttention(units, 2 * units, target, coupling=coupling)

    def forward(self, source: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the symbols (B, n), given or the most probable ones, and their log p (B, n)."""
        # Packed, so that the LSTM that reads backwards begins at the last letter, not at padding.
        lengths = (source != 0).sum(dim=1).cpu()
        embedded = self.source(source)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        packed_states, _ = self.encoder(packed)
        encoder_states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=source.shape[1]
        )

        memory = self.attention.memory(encoder_states, mask=source != 0)
        state = self.attention.start(memory)

        hidden = None
        symbol = torch.zeros_like(source[:, 0])
        symbols = []
        log_probs = []
        for t in range(LONGEST if target is None else target.shape[1]):
            # s_t = LSTM(s_{t-1}, [y_{t-1}; c_{t-1}])
            inputs = torch.cat([self.target(symbol), state.context], dim=1)
            outputs, hidden = self.decoder(inputs[None], hidden)
            step = self.attention.step(memory, state, query=outputs[0])

            # Once y_t is known, the posterior says where it came from; c_t is read there.
            symbol = step.log_probs().argmax(1) if target is None else target[:, t]
            state = self.attention.update(memory, step, symbol)
            symbols.append(symbol)
            assert state.log_prob is not None
            log_probs.append(state.log_prob)

        return torch.stack(symbols, dim=1), torch.stack(log_probs, dim=1)


class Texts:
    """Rows of symbols as numbers, by the symbols of the training split."""

    def __init__(self, rows: list[list[str]]) -> None:
        self.symbols = [PAD, UNKNOWN, *sorted({symbol for row in rows for symbol in row})]
        self.numbers = {symbol: number for number, symbol in enumerate(self.symbols)}

    def encode(self, rows: list[list[str]]) -> Tensor:
        """Return numbers (B, n), padded with 0."""
        numbers = [[self.numbers.get(symbol, 1) for symbol in row] for row in rows]
        return pad_sequence([torch.tensor(row) for row in numbers], batch_first=True)

    def decode(self, numbers: Tensor) -> list[str]:
        """Return the text of each row (n,) up to the end symbol."""
        texts = ["".join(self.symbols[number] for number in row) for row in numbers.tolist()]
        return [text.split(END)[0] for text in texts]


def read(text: str) -> tuple[list[list[str]], list[list[str]]]:
    """Divide rows `lemma, features, form` into sources and targets."""
    rows = [line.split("\t") for line in text.splitlines()]
    sources = [[*features.split(","), *lemma] for lemma, features, _ in rows]
    return sources, [[*form, END] for _, _, form in rows]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Posterior attention in a loop of your own.")
    parser.add_argument("--lemmas", type=int, default=300, help="nouns to train on (%(default)s)")
    parser.add_argument("--epochs", type=int, default=8, help="passes over them (%(default)s)")
    parser.add_argument("--coupling", default="none", help="proximity or monotone (%(default)s)")
    args = parser.parse_args(arguments)

    drawn = GermanNouns(train=args.lemmas, test=50, dev=1).draw(distribution("german-nouns"))
    sources, targets = read(drawn["train.tsv"])
    source_texts = Texts(sources)
    target_texts = Texts(targets)
    source = source_texts.encode(sources)
    target = target_texts.encode(targets)
    torch.manual_seed(1)
    model = Inflector(len(source_texts.symbols), len(target_texts.symbols), args.coupling)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(1, args.epochs + 1):
        losses = []
        for rows in torch.randperm(len(source)).split(64):
            symbols, log_prob = model(source[rows], target[rows])
            loss = -log_prob[symbols != 0].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: {sum(losses) / len(losses):.3f} nats a letter")

    sources, targets = read(drawn["test.tsv"])
    with torch.no_grad():
        written = target_texts.decode(model(source_texts.encode(sources))[0])
    right = sum(text == "".join(form[:-1]) for text, form in zip(written, targets, strict=True))
    print(f"{right} of {len(targets)} forms of unseen nouns are right; written: {written[:4]}")


if __name__ == "__main__":
    main()
