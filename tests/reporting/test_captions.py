"""What the captions of figures say of their data."""

from __future__ import annotations

import pandas as pd
import pytest

from pam.reporting.captions import Names, caption

NAMES = Names(tasks={"t": "Task"}, models={"soft": "Soft", "a": "A", "b": "B"}, baseline="soft")


def said(draws: str, **columns: list[str]) -> str:
    """Return the caption of a figure of one task."""
    rows = len(next(iter(columns.values())))
    return caption(draws, pd.DataFrame({"task": ["t"] * rows, **columns}), NAMES)


def test_gains_may_be_chance_by_the_corrected_p() -> None:
    gains = {"model": ["a", "b"], "metric": ["accuracy"] * 2, "gain": ["1.5", "1.0"]}
    text = said("gains", **gains, p_holm=["0.08", "0.01"], outcome=["better", "better"])
    assert "A gains most over Soft: +1.50 points; 1 of 2 gains may be chance." in text

    text = said("gains", **gains, p_holm=["0.08", "0.01"], outcome=["", ""])
    assert "fewer than 3 seeds cannot judge" in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (["10", "5", "8"], "Soft costs most CPU seconds."),
        (["10", "25", "8"], "A costs most, 2.5 times the CPU seconds of Soft."),
    ],
)
def test_the_dearest_model_may_be_the_baseline(seconds: list[str], words: str) -> None:
    assert words in said("cost", model=["soft", "a", "b"], cpu_seconds=seconds)


@pytest.mark.parametrize(
    ("below", "words"), [("20", "of 10 to 19 words: 30.0"), ("", "of 10 words and more: 30.0")]
)
def test_the_longest_sentences_are_those_that_are_drawn(below: str, words: str) -> None:
    text = said(
        "bleu_by_length",
        model=["a", "b", "a", "b"],
        words_from=["1", "1", "10", "10"],
        words_below=["10", "10", below, below],
        bleu=["40", "20", "30", "20"],
    )
    assert words in text
