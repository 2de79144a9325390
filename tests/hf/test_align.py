"""`pam align --hf`: words of a text by sums over subwords, whichever tokenizer reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pam.cli import main
from tests.hf.tiny import IDS, aligned, transformers

tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

SOURCES = ["Äpfel und Birnen, 14 Kühe .", "Kühe und Äpfel"]
TARGETS = ["apples and pears , 14 cows .", "cows and apples"]
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]


def tokenizer_of(kind: str) -> Any:
    """Train a tokenizer on the texts: of letters with signs for spaces, or of bytes."""
    bytes_alone = kind == "bytes"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=SPECIALS[3]))
    if bytes_alone:
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    else:
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=60, special_tokens=SPECIALS, show_progress=False
    )
    tokenizer.train_from_iterator([*SOURCES, *TARGETS], trainer)
    # BART has a special token on either side.
    single = "<s> $A </s>" if bytes_alone else "$A </s>"
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    names = ("pad_token", "bos_token", "eos_token", "unk_token")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **dict(zip(names, SPECIALS, strict=True))
    )


def save(folder: Path, kind: str) -> None:
    """Save a model and its tokenizer of a kind."""
    tokenizer = tokenizer_of(kind)
    model = aligned("bart", coupling="proximity", vocab_size=len(tokenizer)).float()
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


@pytest.fixture(params=["letters", "bytes"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    save(tmp_path, request.param)
    return tmp_path


def write_texts(folder: Path) -> list[str]:
    (folder / "source").write_text("".join(f"{line}\n" for line in SOURCES))
    (folder / "target").write_text("".join(f"{line}\n" for line in TARGETS))
    paths = ["--source", str(folder / "source"), "--target", str(folder / "target")]
    return [*paths, "--device", "cpu"]


def word_of_characters(text: str) -> list[int]:
    """Return the word of each character; spaces count to the word that follows."""
    words = []
    for number, match in enumerate(re.finditer(r"\s*\S+", text)):
        words += [number] * len(match[0])
    return words


def test_links_are_sums_over_subwords(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pam.hf import from_pretrained

    assert main(["align", "--hf", str(folder / "model"), *write_texts(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()

    model = from_pretrained(folder / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    for source, target, line in zip(SOURCES, TARGETS, lines, strict=True):
        ids = [tokenizer(text, return_offsets_mapping=True) for text in (source, target)]
        with torch.no_grad():
            posterior = model(
                input_ids=torch.tensor([ids[0]["input_ids"]]),
                labels=torch.tensor([ids[1]["input_ids"]]),
            ).posterior[0]

        # Of each token the word of its last character; None for special tokens.
        of_tokens = []
        for text, read in zip((source, target), ids, strict=True):
            words = word_of_characters(text)
            of_tokens.append([words[end - 1] if end else None for _, end in read["offset_mapping"]])
        sums = np.zeros((len(source.split()), len(target.split())))
        counts = np.zeros(len(target.split()))
        for row, j in enumerate(of_tokens[1]):
            if j is None:
                continue
            counts[j] += 1
            for column, i in enumerate(of_tokens[0]):
                if i is not None:
                    sums[i, j] += posterior[row, column]
        probabilities = sums / counts
        of_no_word = 1 - probabilities.sum(0)
        expected = [
            f"{probabilities[:, j].argmax()}-{j}"
            for j in range(len(counts))
            if probabilities[:, j].max() >= of_no_word[j]
        ]
        assert sorted(line.split()) == sorted(expected)


def test_two_models_are_joined_and_smoothed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(folder / "model")
    options = ["--reverse", model, "--symmetrize", "union", "--smooth"]
    assert main(["align", "--hf", model, *options, *write_texts(folder)]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert "smoothing is exact" in printed.err


def test_a_folder_without_a_tokenizer_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aligned("bart").float().save_pretrained(tmp_path / "model")
    assert main(["align", "--hf", str(tmp_path / "model"), *write_texts(tmp_path)]) == 2
    assert "tokenizer.save_pretrained" in capsys.readouterr().err


def test_a_tokenizer_without_places_is_matched_by_characters(tmp_path: Path) -> None:
    from pam.hf.pair_model import HubPairModel

    save(tmp_path, "letters")
    reader = HubPairModel.load(tmp_path / "model", torch.device("cpu"))
    expected = reader.read(SOURCES[0], "source", "source", 1000)

    class WithoutPlaces:
        """The tokenizer, as those are that are not of `tokenizers`."""

        is_fast = False

        def __call__(self, *args: Any, **options: Any) -> Any:
            return tokenizer(*args, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    tokenizer = reader.tokenizer
    reader.tokenizer = WithoutPlaces()
    read = reader.read(SOURCES[0], "source", "source", 1000)
    words = expected.own_words()
    assert [word for word in read.own_words() if word.text] == [word for word in words if word.text]
    assert IDS["eos_token_id"] not in [read.ids[index] for index in read.kept]
