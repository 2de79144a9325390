"""Sources without an end symbol: ids, pointer actions, word alignments, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pam.data.dataset import Examples, Prepared, Ragged, Split
from pam.data.prepare import prepare
from pam.data.registry import find_dataset, load_task
from pam.data.vocabulary import EOS, STEP, strip
from pam.decoding.hypotheses import LengthPrior
from pam.runtime.errors import UserError
from pam.tasks.alignment.links import prepare_word_alignments
from pam.tasks.inflection.stages import InflectionFormat

from .pairs import ready
from .test_word_alignments import alignments


def nouns(user_folder: Path, out: Path, source_eos: bool) -> Prepared:
    dataset = find_dataset([user_folder / "datasets.yaml"], "my-nouns").with_format(
        {"source_eos": source_eos}
    )
    prepare("my-nouns", dataset, user_folder, out)
    return Prepared(out)


def test_translations_differ_in_the_sources_last_symbol_alone(tmp_path: Path) -> None:
    ended, bare = (Prepared(ready(tmp_path / str(end), source_eos=end)) for end in (True, False))
    assert ended.source.digest == bare.source.digest

    for name in ("train", "dev", "test"):
        ended_split = ended.split(name)
        bare_split = bare.split(name)
        assert (ended_split.source_eos, bare_split.source_eos) == (True, False)
        assert [row.tolist() for row in ended_split.sources] == [
            [*row.tolist(), EOS] for row in bare_split.sources
        ]
        assert ended_split.targets.values.tolist() == bare_split.targets.values.tolist()
        assert ended_split.symbol_counts() == bare_split.symbol_counts()
        assert LengthPrior.of(ended_split) == LengthPrior.of(bare_split)


def test_sentences_have_no_end_symbol_unless_a_format_says_so(tmp_path: Path) -> None:
    assert not Prepared(ready(tmp_path / "bare")).split("train").source_eos
    assert Prepared(ready(tmp_path / "ended", source_eos=True)).split("train").source_eos


def test_lemmas_have_an_end_symbol_unless_a_format_says_otherwise(
    user_folder: Path, tmp_path: Path
) -> None:
    assert InflectionFormat().source_eos
    assert nouns(user_folder, tmp_path / "ended", True).split("train").source_eos
    assert not nouns(user_folder, tmp_path / "bare", False).split("train").source_eos


def test_a_pointer_ends_at_the_last_letter(user_folder: Path, tmp_path: Path) -> None:
    ended, bare = (
        nouns(user_folder, tmp_path / str(end), end).split("train") for end in (True, False)
    )
    ended_targets = Examples(ended, "actions").targets
    bare_targets = Examples(bare, "actions").targets
    for row, (ended_row, bare_row) in enumerate(zip(ended_targets, bare_targets, strict=True)):
        ended_actions = ended_row.tolist()
        bare_actions = bare_row.tolist()
        assert strip(bare_actions) == bare.targets[row].tolist() == strip(ended_actions)
        assert bare_actions.count(STEP) == len(bare.sources[row]) - 1
        # Each letter is written at its place, whether an end follows or not: the end alone is a
        # step earlier.
        assert ended_actions[:-2] == bare_actions[:-1]


@pytest.mark.parametrize("source_eos", [True, False])
def test_word_alignments_end_as_the_task_s_sources_do(tmp_path: Path, source_eos: bool) -> None:
    task = ready(tmp_path / "task", source_eos=source_eos)
    links = alignments(tmp_path / "links")
    prepare_word_alignments("links", links, tmp_path / "links", task, tmp_path / "gold")
    gold = Prepared(tmp_path / "gold").split("gold")

    assert gold.source_eos == source_eos
    assert gold.sources.lengths.tolist() == [5 + source_eos, 4 + source_eos]


def test_an_empty_source_without_an_end_symbol_is_named() -> None:
    Split.from_rows([[5], []], [[5], [6]], None, {})
    with pytest.raises(UserError, match="the source of row 2 is empty") as caught:
        Split.from_rows([[5], []], [[5], [6]], None, {}, source_eos=False)
    assert "source_eos: true" in str(caught.value.hint)


def test_sources_of_which_only_some_end_are_damage(tmp_path: Path) -> None:
    digests = {"source": "s"}
    sources = Ragged.of([[5, EOS], [6]])
    targets = Ragged.of([[5, EOS], [6, EOS]])
    Split(sources, targets, None, digests).save(tmp_path, "train")

    with pytest.raises(UserError, match="damaged"):
        Split.load(tmp_path, "train")

    for source_eos in (True, False):
        Split.from_rows([[5], [6]], [[5], [6]], None, digests, source_eos).save(tmp_path, "train")
        assert Split.load(tmp_path, "train").source_eos == source_eos


@pytest.mark.parametrize("kind", ["translation", "inflection"])
def test_a_change_of_it_prepares_the_ids_again(kind: str) -> None:
    task = load_task(kind)
    assert [stage for stage in task.STAGES if "source_eos" in task.keys(stage)] == ["index"]


def test_it_is_true_or_false(user_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source_eos"):
        nouns(user_folder, tmp_path, "no")  # type: ignore[arg-type]


def test_batches_have_the_lengths_that_are_read(tmp_path: Path) -> None:
    examples = Examples(Prepared(ready(tmp_path, source_eos=False)).split("train"), "symbols")
    batch = examples.batch(np.arange(len(examples)))
    assert not (batch.source == EOS).any()
    assert ((batch.source != 0).sum(1) == batch.lengths).all()
