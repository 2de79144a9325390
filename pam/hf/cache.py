"""The coupling's state beside the cache of a decoder, in `generate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

from pam.models.head import AttentionHead
from pam.models.interfaces import AttentionHistory, Memory
from pam.models.outputs import TokenDistribution


@dataclass(frozen=True, eq=False)
class Progress:
    """How far hypotheses are: a row for each of them.

    Attributes:
        head: the alignment head, as it was when the search began.
        memory: the encoded sources, a row for each hypothesis.
        history: the alignments before the last step.
        pending: the distribution of the last step, whose symbol is not known yet.
    """

    head: AttentionHead
    memory: Memory
    history: AttentionHistory
    pending: TokenDistribution | None = None

    def observe(self, symbol: Tensor) -> Progress:
        """Hand on the alignment once the pending symbols (n,) are known."""
        if self.pending is None:
            return self
        state = self.head.update(self.memory, self.history, self.pending, symbol)
        return replace(self, history=state.history, pending=None)

    def step(self, query: Tensor) -> Progress:
        """Take the step of queries (n, H)."""
        return replace(self, pending=self.head.step(self.memory, self.history, query))

    def select(self, rows: Tensor) -> Progress:
        """Keep hypotheses, each in the place of one of the same source."""
        pending = None
        if self.pending is not None:
            pending = self.pending.select(rows)
        return replace(self, history=self.history.select(rows), pending=pending)


class AlignedCache(EncoderDecoderCache):
    """A decoder's cache that knows how far the alignment is, and reorders both alike."""

    progress: Progress | None = None

    @classmethod
    def of(cls, cache: Any) -> AlignedCache:
        """Return a cache as one of this class, with the same tensors; None: an empty one.

        Raises:
            ValueError: another model has filled it, or it has no place for a source.
        """
        if isinstance(cache, cls):
            return cache
        if cache is None:
            return cls(DynamicCache(), DynamicCache())
        if not isinstance(cache, EncoderDecoderCache):
            raise ValueError(
                f"a cache of type {type(cache).__name__}, expected an EncoderDecoderCache"
            )
        if int(cache.get_seq_length()):
            raise ValueError("the cache was filled by a model without this alignment head")
        return cls(cache.self_attention_cache, cache.cross_attention_cache)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)
        if self.progress is not None:
            self.progress = self.progress.select(beam_idx.long())

    def crop(self, *args: Any, **kwargs: Any) -> None:
        raise _unsupported("to take symbols back, as assisted decoding does,")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise _unsupported("to repeat hypotheses, as contrastive search does,")

    def batch_select_indices(self, indices: Tensor) -> None:
        raise _unsupported("to leave out hypotheses, as contrastive search does,")


def _unsupported(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what} is not supported with posterior attention: decode greedily, by beam search or by"
        " sampling"
    )
