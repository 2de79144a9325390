"""Paired bootstrap of translations by sacreBLEU's own code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pam.runtime.errors import UserError
from pam.tasks.translation.significance import paired_bootstrap
from tests.evaluation.translations import (
    OUTPUTS,
    REFERENCES,
    TARGETS,
    WORSE,
    predict,
    prepare,
    text_of,
    write,
)

TIMES = 20
"""Copies of the few sentences, so that differences can be told from noise."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return prepare(tmp_path / "data", TIMES)


def test_a_better_system_is_found_and_the_same_one_is_not(data: Path, tmp_path: Path) -> None:
    worse = predict(tmp_path / "worse.tsv", WORSE, TIMES)
    better = predict(tmp_path / "better.tsv", OUTPUTS, TIMES)
    systems = {"Better": better, "Same": worse}

    tests = paired_bootstrap(worse, systems, data, metrics=("bleu", "sacrebleu", "chrf"))
    assert [(test.metric, test.model) for test in tests] == [
        (name, system) for name in ("bleu", "sacrebleu", "chrf") for system in systems
    ]

    for better_test, same_test in zip(tests[::2], tests[1::2], strict=True):
        assert better_test.p < 0.01 and better_test.score > better_test.baseline + 5
        assert same_test.score == same_test.baseline
        assert "bs:1000" in same_test.signature


@pytest.mark.parametrize(("metric", "options"), [("sacrebleu", []), ("chrf", ["-m", "chrf"])])
def test_p_is_that_of_sacrebleus_command_line(
    data: Path, tmp_path: Path, metric: str, options: list[str]
) -> None:
    mixed = [*OUTPUTS[:1], *WORSE[1:]]
    worse, better = (
        predict(tmp_path / name, outputs, 2)
        for name, outputs in (("w.tsv", WORSE), ("b.tsv", mixed))
    )
    small = prepare(tmp_path / "small", 2)
    (test,) = paired_bootstrap(worse, {"Better": better}, small, metrics=[metric])
    texts = [
        str(write(tmp_path / name, [text_of(output) for output in outputs] * 2))
        for name, outputs in (("worse", WORSE), ("better", mixed))
    ]
    reference = write(tmp_path / "reference", REFERENCES * 2)
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", *texts, "--paired-bs"]

    done = subprocess.run(
        [*command, "--format", "text", *options],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SACREBLEU_SEED": "12345"},
    )
    assert f"(p = {test.p:.4f})" in done.stdout and 0.001 < test.p < 0.9


def test_bleu_on_words_is_held_to_words(data: Path, tmp_path: Path) -> None:
    perfect = predict(tmp_path / "perfect.tsv", TARGETS, TIMES)
    worse = predict(tmp_path / "worse.tsv", WORSE, TIMES)

    (test,) = paired_bootstrap(worse, {"Perfect": perfect}, data, metrics=["bleu"], resamples=50)
    assert test.score == pytest.approx(100)


def test_predictions_of_other_sentences_are_refused(data: Path, tmp_path: Path) -> None:
    short = predict(tmp_path / "short.tsv", WORSE, 1)
    with pytest.raises(UserError, match="6 predictions for 120 rows") as raised:
        paired_bootstrap(short, {}, data)
    assert raised.value.file == str(short)
