"""Prepared data on disk: what comes back, what damage is found, and how much memory it takes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pam.data.dataset import Prepared, Split
from pam.data.prepare import prepare
from pam.data.registry import find_dataset
from pam.data.vocabulary import EOS, Vocabulary
from pam.runtime.errors import UserError


def small(alignment: list[list[int]] | None = None) -> Split:
    return Split.from_rows([[5, 6], [7]], [[8, 9, 8], [9]], alignment, {"source": "s"})


def test_rows_come_back_with_their_end_symbols_and_alignments(tmp_path: Path) -> None:
    small([[0, 0, 1], [0]]).save(tmp_path, "train")
    split = Split.load(tmp_path, "train")
    assert len(split) == 2
    assert split.sources[0].tolist() == [5, 6, EOS]
    assert split.targets[1].tolist() == [9, EOS]
    assert [row.tolist() for row in split.alignments or ()] == [[0, 0, 1], [0]]
    assert split.sources.values.dtype == np.int32
    assert split.digests == {"source": "s"}


def test_a_split_without_alignment_says_so(tmp_path: Path) -> None:
    small().save(tmp_path, "test")
    split = Split.load(tmp_path, "test")
    assert split.alignments is None


def test_the_same_split_gives_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        small([[0, 0, 1], [0]]).save(folder, "train")
    first, second = ((folder / "train.safetensors").read_bytes() for folder in folders)

    assert first == second


def outcome(folder: Path, name: str) -> str:
    """Return the digest of what is loaded, or the file that an error names."""
    try:
        return Split.load(folder, name).content
    except UserError as error:
        return str(error.file)


def test_any_damaged_byte_is_found_or_harmless(tmp_path: Path) -> None:
    split = small([[0, 0, 1], [0]])
    split.save(tmp_path, "train")
    path = tmp_path / "train.safetensors"
    content = path.read_bytes()
    outcomes = []
    for index in range(len(content)):
        damaged = bytearray(content)
        damaged[index] ^= 1 << index % 8
        path.write_bytes(bytes(damaged))
        outcomes.append(outcome(tmp_path, "train"))

    assert set(outcomes) <= {str(path), split.content}
    assert outcomes.count(str(path)) > 0.8 * len(content)


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_a_file_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    small().save(tmp_path, "train")
    path = tmp_path / "train.safetensors"
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(UserError, match="not a prepared split"):
        Split.load(tmp_path, "train")


def test_a_foreign_tensor_file_is_refused(tmp_path: Path) -> None:
    save_file({"weights": np.zeros(3)}, tmp_path / "train.safetensors")
    with pytest.raises(UserError, match="not a prepared split"):
        Split.load(tmp_path, "train")


def test_a_missing_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        Split.load(tmp_path, "train")


@pytest.fixture
def prepared(user_folder: Path, tmp_path: Path) -> Path:
    """Prepare the user's own words."""
    dataset = find_dataset([user_folder / "datasets.yaml"], "my-nouns")
    prepare("my-nouns", dataset, user_folder, tmp_path / "prepared")
    return tmp_path / "prepared"


def test_ids_and_text_of_a_prepared_folder_agree(prepared: Path) -> None:
    folder = Prepared(prepared)
    split = folder.split("train")
    rows = folder.rows("train")

    assert rows[1] == ("Haus", "case=dative,number=plural", "Häusern")
    assert folder.source.spell(split.sources[1]) == [
        *("case=dative", "number=plural", "H", "a", "u", "s", "<eos>")
    ]
    assert folder.target.spell(split.targets[1])[:-1] == list("Häusern")
    assert folder.split("test").alignments is None


def test_a_foreign_vocabulary_is_refused(prepared: Path) -> None:
    Vocabulary(["x"]).save(prepared / "source.vocab")
    with pytest.raises(UserError, match="not the vocabulary") as caught:
        Prepared(prepared).split("train")
    assert caught.value.file == str(prepared / "source.vocab")


def test_changed_text_is_refused(prepared: Path) -> None:
    (prepared / "test.tsv").write_text("Rat\tx=y\tRats\n")
    with pytest.raises(UserError, match="not the text"):
        Prepared(prepared).rows("test")


def test_a_foreign_summary_is_refused(prepared: Path) -> None:
    (prepared / "summary.json").write_text(json.dumps([1]))
    with pytest.raises(UserError, match="not the summary"):
        _ = Prepared(prepared).summary


def test_rows_are_taken_one_by_one_and_need_little_more_than_their_numbers() -> None:
    rows = 20_000
    length = 25

    def generated() -> Iterator[list[int]]:
        return ([1000 + row % 29_000] * length for row in range(rows))

    tracemalloc.start()
    split = Split.from_rows(generated(), generated(), None, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    data = sum(array.nbytes for array in (split.sources.values, split.targets.values))

    assert data == 2 * rows * (length + 1) * 4
    assert peak < 2 * data


def test_loading_a_split_needs_little_more_memory_than_it_holds(tmp_path: Path) -> None:
    numbers = ([1000 + row] * 25 for row in range(20_000))
    Split.from_rows(numbers, ([7] for _ in range(20_000)), None, {}).save(tmp_path, "train")
    data = (tmp_path / "train.safetensors").stat().st_size
    tracemalloc.start()
    split = Split.load(tmp_path, "train")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(split) == 20_000
    assert peak < 1.7 * data


def test_rows_of_a_split_are_found_by_number() -> None:
    split = small()
    assert [split.sources[row].tolist() for row in range(len(split.sources))] == [
        [5, 6, EOS],
        [7, EOS],
    ]
    assert split.targets.lengths.tolist() == [4, 2]


def test_a_split_under_another_name_is_refused(prepared: Path) -> None:
    (prepared / "train.safetensors").write_bytes((prepared / "dev.safetensors").read_bytes())
    with pytest.raises(UserError, match="this is the split dev, not train") as caught:
        Prepared(prepared).split("train")
    assert caught.value.file == str(prepared / "train.safetensors")


def test_a_changed_summary_is_refused(prepared: Path) -> None:
    path = prepared / "summary.json"
    path.write_text(path.read_text(encoding="utf-8").replace("inflection", "translation"))
    with pytest.raises(UserError, match="the file is damaged") as caught:
        _ = Prepared(prepared).summary
    assert caught.value.file == str(path)
