"""Word alignments by a model of `transformers`: texts are read by the tokenizer beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from pam.alignment.pair_models import OPPOSITE, check_length, unseen
from pam.alignment.words import ReadText, Word, placed
from pam.data.codecs import Side
from pam.data.dataset import padded
from pam.evaluation.metrics import Floats
from pam.hf.head import Aligned
from pam.hf.modeling import from_pretrained
from pam.models.interfaces import Smoothing
from pam.runtime.errors import UserError

WORD_START = "\u2581"
"""How SentencePiece writes a space."""


@dataclass(frozen=True)
class TokenizedText(ReadText):
    """A text as a tokenizer reads it, each of whose tokens is a symbol."""

    places: list[Word]  # where each token is in the text
    ids: list[int]  # of all tokens, special ones included
    kept: list[int]  # the indices in `ids` of those that are not special

    @property
    def token_places(self) -> list[Word]:
        return self.places


class HubPairModel:
    """A model with its tokenizer, which reads texts for it.

    Args:
        model: a model with posterior attention.
        tokenizer: its tokenizer.
        label: the name of both.
    """

    has_words = True
    gives_positions = True

    def __init__(self, model: Any, tokenizer: Any, label: str) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.label = label
        self.longest_source = getattr(model.config, "max_position_embeddings", None)

    @classmethod
    def load(cls, folder: str | Path, device: torch.device) -> HubPairModel:
        """Load a model that `save_pretrained` wrote, and the tokenizer beside it.

        Raises:
            UserError: there is no such model, or no tokenizer beside it.
        """
        model = from_pretrained(folder).to(device)
        # Without its files some versions make an empty one.
        if not (Path(folder) / "tokenizer_config.json").is_file():
            raise UserError(
                "no tokenizer beside the model",
                file=Path(folder),
                hint="save it there too: `tokenizer.save_pretrained(FOLDER)`",
            )
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(model, tokenizer, Path(folder).name)

    @property
    def smoothing(self) -> Smoothing:
        """How well the posterior given a whole target is known."""
        smoothing: Smoothing = self.model.alignment_head().smoothing
        return smoothing

    def read(self, text: str, side: Side, name: Side, longest: int) -> TokenizedText:
        given = {"text": text} if side == "source" else {"text_target": text}
        encoded = self.tokenizer(**given, return_offsets_mapping=self.tokenizer.is_fast)
        ids = list(encoded["input_ids"])
        special = set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id}
        kept = [index for index, token in enumerate(ids) if token not in special]
        tokens = self.tokenizer.convert_ids_to_tokens([ids[index] for index in kept])

        if self.longest_source is not None:
            longest = min(longest, self.longest_source - (len(ids) - len(kept)))
        check_length(len(kept), longest, name, self.label)
        if all(ids[index] == self.tokenizer.unk_token_id for index in kept):
            raise unseen(name)

        if self.tokenizer.is_fast:
            offsets = [encoded["offset_mapping"][index] for index in kept]
            places = [_visible(text, start, end) for start, end in offsets]
        else:
            places = placed([token.replace(WORD_START, "") for token in tokens], text)
        return TokenizedText(
            text=text,
            symbols=tokens,
            tokens=tokens,
            token_indices=list(range(len(tokens))),
            places=places,
            ids=ids,
            kept=kept,
        )

    @torch.no_grad()
    def align(self, pairs: Sequence[tuple[ReadText, ReadText]], smooth: bool) -> list[Floats]:
        sources = []
        targets = []
        for source, target in pairs:
            assert isinstance(source, TokenizedText) and isinstance(target, TokenizedText)
            sources.append(source)
            targets.append(target)

        device = self.model.device
        alignments = Aligned(self.model).align(
            padded([torch.tensor(text.ids) for text in sources]).to(device),
            torch.tensor([len(text.ids) for text in sources], device=device),
            # As 0 is padding.
            padded([torch.tensor(text.ids) + 1 for text in targets]).to(device),
            smooth=smooth,
        )
        return [
            alignment[target.kept][:, source.kept].double().cpu().numpy()
            for alignment, source, target in zip(alignments, sources, targets, strict=True)
        ]

    def opposite(self) -> None:
        return None

    def check_opposite(self, reverse: Any) -> None:
        if not isinstance(reverse, HubPairModel):
            raise UserError(f"{self.label} and {reverse.label} are of other kinds", hint=OPPOSITE)


def _visible(text: str, start: int, end: int) -> Word:
    """Return the part of a text without the spaces that some tokenizers count to it."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return Word(part.strip(), start, start + len(part.strip()))
