"""The tables to measure: their data, the sizes of all models, and the entries of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BOTH = ("float32", "medium")
BOTH_OURS = ("float32", "bf16")


@dataclass(frozen=True)
class Entry:
    """A server: one model of one system.

    Ours has one for each setting, so that `peak_memory_mb` is that setting's.
    """

    system: str
    model: str
    training: tuple[str, ...] = ("float32",)  # settings that take turns in training
    decoding: tuple[str, ...] = ()  # and in decoding by beam search
    greedy: tuple[str, ...] = ()  # and in greedy decoding
    batches: int | None = None  # of a turn in training, where this is not the table's number
    decoded: int | None = None  # of a turn in decoding, the same
    warm_up: int | None = None  # untimed batches before, the same
    encoder: int | None = None  # LSTM units of each direction, where these are not the table's
    # starts from trained weights, whose attention is as sharp as later in a training
    late: bool = False

    @property
    def label(self) -> str:
        """The name of its row."""
        parts = [f"{self.system} {self.model}"]
        if self.encoder:
            parts.append(f"encoder {self.encoder}")
        if self.late:
            parts.append("late in training")
        return ", ".join(parts)


@dataclass(frozen=True)
class Table:
    """One record. Sizes and decoding are those of `serving.Task`."""

    dataset: str
    format: dict[str, Any]  # of its preparation
    sizes: dict[str, Any]
    turns: int
    batches: int  # of a turn in training
    # untimed batches before: models learn where outputs end, and find the focus of their attention
    warm_up: int
    decoded: int  # batches of a turn in decoding
    entries: list[Entry]
    # sizes m x k x n of typical ones, whose rates are the core's own
    products: list[tuple[int, int, int]]
    # symbols of a source, of a target, of the vocabulary; None: those of `dataset`
    drawn: tuple[int, int, int] | None = None
    batch_size: int = 64
    beam: int = 4


NOUNS = Table(
    dataset="de-noun",
    format={"source_eos": True},
    sizes={
        "embedding": 64,
        "encoder": 128,
        "decoder": 128,
        "layers": 1,
        "dropout": 0.2,
        "steps": None,
    },
    turns=5,
    batches=20,
    warm_up=60,
    decoded=4,
    entries=[
        Entry("pam", "soft", decoding=("float32",), greedy=("float32",)),
        Entry("pam", "soft", ("bf16",)),
        Entry("joeynmt", "soft", BOTH, BOTH),
        Entry("var-attn", "soft", BOTH),
        Entry("yoyodyne", "soft", BOTH, ("float32",), ("float32",), decoded=1),
        Entry("neural-transducer", "soft", BOTH, ("float32",), decoded=2),
        Entry("pam", "soft", decoding=("float32",), encoder=64),
        Entry("pam", "soft", ("bf16",), encoder=64),
        Entry("opennmt", "soft", BOTH, BOTH, encoder=64),
        Entry("eole", "soft", BOTH, BOTH, encoder=64),
        Entry("pam", "prior-joint", greedy=("float32",)),
        Entry("var-attn", "exact", BOTH, batches=10, warm_up=20),
        Entry("neural-transducer", "hard", batches=4, warm_up=4),
        Entry("yoyodyne", "hard", greedy=("float32",), batches=4, warm_up=4),
        Entry("pam", "postr-joint", decoding=("float32",)),
        Entry("pam", "postr-joint:0.999"),
        Entry("pam", "mono-postr-joint", greedy=("float32",)),
        Entry("neural-transducer", "monotone", batches=4, warm_up=4),
        Entry("yoyodyne", "monotone", greedy=("float32",), batches=4, warm_up=4),
        Entry("pam", "hard-mono"),
        Entry("neural-transducer", "pointer", batches=10, warm_up=10),
    ],
    products=[(1280, 128, 64), (64, 128, 512), (640, 256, 128)],
)

TRANSLATION = Table(
    dataset="multi30k-de-en",
    format={"source_eos": True, "vocabulary": {"size": 9000, "min_count": 1}},
    sizes={
        "embedding": 512,
        "encoder": 256,
        "decoder": 512,
        "layers": 2,
        "dropout": 0.2,
        "steps": 14,
    },
    turns=6,
    batches=2,
    warm_up=8,
    decoded=1,
    entries=[
        Entry("pam", "soft", decoding=("float32",)),
        Entry("pam", "soft", ("bf16",), ("bf16",)),
        Entry("joeynmt", "soft", BOTH, BOTH),
        Entry("opennmt", "soft", BOTH, BOTH),
        Entry("eole", "soft", BOTH, BOTH),
        Entry("pam", "postr-joint", decoding=("float32",), warm_up=4),
        Entry("pam", "postr-joint", ("bf16",), ("bf16",), warm_up=4),
        Entry("pam", "postr-joint:0.99", decoding=("float32",), warm_up=4),
        Entry("pam", "postr-joint:0.99", ("bf16",), ("bf16",), warm_up=4),
        Entry("pam", "postr-joint", ("bf16",), warm_up=4, late=True),
        Entry("pam", "postr-joint:0.99", ("bf16",), BOTH_OURS, warm_up=4, late=True),
    ],
    products=[(1024, 512, 9005), (64, 512, 2048), (256, 512, 9005), (1024, 1024, 1024)],
)

# The sizes of See et al. (2017), whose every text is as long as it may be.
COPYING = Table(
    dataset="drawn",
    format={},
    sizes={
        "embedding": 128,
        "encoder": 128,
        "decoder": 256,
        "layers": 1,
        "dropout": 0.0,
        "steps": 20,
    },
    turns=4,
    batches=1,
    warm_up=3,  # until a process has all of the memory that it needs
    decoded=1,
    entries=[
        Entry("pam", "soft-pointer", decoding=("float32",)),
        Entry("pam", "soft-pointer", ("bf16",), ("bf16",)),
        Entry("pam", "postr-joint-pointer:0.99:2", ("bf16",), ("bf16",)),
        Entry("pam", "postr-joint-pointer:0.99:3", ("bf16",), ("bf16",)),
        Entry("pam", "postr-joint-pointer:0.99:6", ("bf16",), ("bf16",)),
        Entry("opennmt-copy", "soft-pointer", BOTH, BOTH),
        Entry("yoyodyne", "pointer-generator", BOTH),
    ],
    products=[(160, 256, 50005), (80, 256, 50005)],
    drawn=(400, 100, 50_000),
    batch_size=16,
    beam=5,
)

# Layer norm before each part, four heads, feed-forward layers of four times as many units.
TRANSFORMERS = Table(
    dataset="multi30k-de-en",
    format=TRANSLATION.format,
    sizes={
        "embedding": 256,
        "encoder": 128,  # of recurrent models, of which this table has none
        "decoder": 256,
        "layers": 4,
        "dropout": 0.1,
        "steps": 14,
    },
    turns=6,
    batches=1,
    warm_up=4,
    decoded=1,
    entries=[
        Entry("pam", "transformer", ("float32",), ("float32",), ("float32",)),
        Entry("pam", "transformer", ("bf16",), ("bf16",)),
        Entry("eole", "transformer", BOTH, BOTH),
        Entry("yoyodyne", "transformer", BOTH, greedy=("float32",)),
    ],
    products=[(1024, 256, 1024), (1024, 256, 9005), (256, 256, 9005)],
)

TABLES = {
    "nouns": NOUNS,
    "translation": TRANSLATION,
    "copying": COPYING,
    "transformers": TRANSFORMERS,
}
