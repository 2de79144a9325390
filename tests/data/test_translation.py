"""Sentence pairs from files to ids: stages, what they leave out, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import SPLITS, Prepared
from pam.data.download import fetch
from pam.data.prepare import Symbols, prepare
from pam.data.registry import Dataset, File
from pam.data.vocabulary import UNK
from pam.runtime.errors import UserError

from .pairs import SENTENCES, columns, dataset, many, prepared, ready


def stages(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the counts of a prepared folder by stage and split."""
    summary = json.loads((folder / "summary.json").read_text())
    return {(row["stage"], row["split"]): row for row in summary["stages"]}


def test_sentences_become_words_and_ids(tmp_path: Path) -> None:
    data = Prepared(ready(tmp_path))
    assert data.rows("train")[3] == (
        "Die Katze schläft nicht , oder ?",
        "The cat isn 't sleeping , is it ?",
    )

    split = data.split("train")
    assert data.source.spell(split.sources[0]) == ["Das", "ist", "ein", "Hund", "."]
    assert data.target.spell(split.targets[1]) == ["This", "is", "a", "cat", ".", "<eos>"]
    assert data.summary["languages"] == {"source": "de", "target": "en"}
    assert split.alignments is None


def test_a_vocabulary_begins_with_the_most_frequent_words(tmp_path: Path) -> None:
    data = Prepared(ready(tmp_path, vocabulary={"size": {"de": 3, "en": 100}, "min_count": 2}))
    # Of equally frequent words, the first by code points.
    assert data.source.symbols == (".", "Das", "Hund")
    assert data.target.symbols == ("is", ".", "The", "This", "a", "cat", "dog", "sleeping")

    unknown = int((data.split("test").sources.values == UNK).sum())
    assert unknown == 7 and data.summary["splits"]["test"]["source"]["unknown"] == unknown


def in_parts(folder: Path, **texts: str) -> Dataset:
    """Make a data set whose training text is that of `pairs` and one more file for each side."""
    made = dataset(folder)
    files = {**made.files}
    for side, text in texts.items():
        (folder / f"more.{side}").write_text(text, encoding="utf-8")
        files[f"more.{side}"] = File(path=str(folder / f"more.{side}"))

    parts = [made.splits["train"], {side: f"more.{side}" for side in texts}]
    return made.model_copy(update={"files": files, "splits": {**made.splits, "train": parts}})


def test_the_parts_of_a_split_are_read_one_after_the_other(tmp_path: Path) -> None:
    texts = {"de": "Eine Maus\nZwei Mäuse\n", "en": "A mouse\nTwo mice\n"}
    user_dataset = in_parts(tmp_path / "own", **texts)
    folder = prepared(user_dataset, tmp_path)

    sources = [source for source, _ in columns(folder, "train")]
    assert len(sources) == len(SENTENCES["train"]) + 2
    assert sources[-3:] == ["Hunde und Katzen", "Eine Maus", "Zwei Mäuse"]

    files = user_dataset.files_by_split(lambda name: tmp_path / "own" / name)
    first = user_dataset.kind.first_rows(files, user_dataset.layout, 1)
    assert first["train"] == [SENTENCES["train"][0], ("Eine Maus", "A mouse")]


def test_a_fault_in_a_later_part_is_named_with_its_file(tmp_path: Path) -> None:
    user_dataset = in_parts(tmp_path / "own", de="Eine Maus\nZwei Mäuse\n", en="A mouse\n")
    with pytest.raises(UserError, match=r"2 lines, but .*more\.en has 1") as caught:
        prepared(user_dataset, tmp_path)
    assert str(caught.value.file).endswith("own/more.de")


def test_parts_that_are_divided_share_no_sentence(tmp_path: Path) -> None:
    user_dataset = in_parts(tmp_path / "own", de="Das ist ein Hund.\n", en="It is a dog.\n")
    train = user_dataset.splits["train"]
    divided = user_dataset.model_copy(update={"splits": {"all": train}})
    divide = {"kind": "lines", "divide": {"dev": 1, "test": 2}}
    folder = prepared(divided.with_format({"read": divide}), tmp_path)

    places = [split for split in SPLITS if "Das ist ein Hund ." in dict(columns(folder, split))]
    assert len(places) == 1


COLUMNS = {"kind": "columns", "columns": {"de": 1, "en": 0}}


def with_a_table(folder: Path, **read: Any) -> Dataset:
    """Make a data set of two files whose training text is also in one file of two columns."""
    folder.mkdir()
    made = in_parts(folder, de="Eine Maus\n", en="A mouse\n")
    table = folder / "more.tsv"
    table.write_text("Two mice\tZwei Mäuse\nNo mice\tKeine Mäuse\n", encoding="utf-8")
    parts = made.splits["train"]
    assert isinstance(parts, list)
    splits = {**made.splits, "train": [*parts, "more.tsv"]}
    files = {**made.files, "more.tsv": File(path=str(table))}
    made = made.model_copy(update={"files": files, "splits": splits})
    return made.with_format({"read": {"kind": "lines", **read}})


def test_a_split_has_parts_of_two_files_and_parts_of_one(tmp_path: Path) -> None:
    user_dataset = with_a_table(tmp_path / "own", both=COLUMNS)
    sources = [source for source, _ in columns(prepared(user_dataset, tmp_path), "train")]
    assert sources[-3:] == ["Eine Maus", "Zwei Mäuse", "Keine Mäuse"]

    names = user_dataset.kind.modules("extract", user_dataset.layout)
    assert {"pam.data.readers:Lines", "pam.data.readers:Columns"} <= set(names)


def test_a_blank_text_of_a_part_is_told_as_its_reader_tells_it(tmp_path: Path) -> None:
    user_dataset = with_a_table(tmp_path / "own", both=COLUMNS)
    (tmp_path / "own" / "more.tsv").write_text("Two mice\tZwei Mäuse\n \tKeine Mäuse\n")
    with pytest.raises(UserError, match="`en` is empty") as caught:
        prepared(user_dataset, tmp_path)
    assert (Path(str(caught.value.file)).name, caught.value.line) == ("more.tsv", 2)
    assert "complete the row" in str(caught.value.hint)


def test_parts_of_two_files_and_of_one_are_divided_together(tmp_path: Path) -> None:
    divide = {"dev": 1, "test": 1}
    user_dataset = with_a_table(tmp_path / "own", both=COLUMNS, divide=divide)
    train = user_dataset.splits["train"]
    folder = prepared(user_dataset.model_copy(update={"splits": {"all": train}}), tmp_path)
    assert sum(len(columns(folder, split)) for split in SPLITS) == len(SENTENCES["train"]) + 3


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ({"both": COLUMNS | {"divide": {"dev": 1}}}, "write `divide` beside `both`"),
        ({"both": "mails"}, "`mails` reads an archive"),
        ({"both": "colums"}, "did you mean `columns`"),
    ],
)
def test_a_reader_of_parts_that_does_not_serve_is_refused(
    tmp_path: Path, read: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _ = with_a_table(tmp_path / "own", **read).layout


def test_parts_have_groups_to_be_kept_together_all_or_none(tmp_path: Path) -> None:
    divide = {"dev": 1, "test": 1}
    user_dataset = with_a_table(tmp_path / "own", both=COLUMNS | {"group": 0}, divide=divide)
    train = user_dataset.splits["train"]
    with pytest.raises(UserError, match="some parts say which pairs"):
        prepared(user_dataset.model_copy(update={"splits": {"all": train}}), tmp_path)


def test_references_are_the_text_as_people_write_it(tmp_path: Path) -> None:
    folder = ready(tmp_path, lowercase=True)
    assert (folder / "test.target.txt").read_text() == "is this a mouse?\nthis is a dog.\n"
    assert columns(folder, "test")[0] == ("ist das eine maus ?", "is this a mouse ?")


def test_files_of_words_are_left_as_they_are_and_joined_for_reading(tmp_path: Path) -> None:
    words = [("er sagt &quot; ja &amp; nein &quot;", "he says &quot; it &apos;s so . &quot;")]
    folder = ready(tmp_path, dict.fromkeys(SENTENCES, words), tokenized=True)
    assert columns(folder, "dev") == [('er sagt " ja & nein "', 'he says " it \'s so . "')]
    assert (folder / "dev.target.txt").read_text() == 'he says "it\'s so."\n'


def test_the_other_direction_is_the_same_data_turned_round(tmp_path: Path) -> None:
    there = Prepared(ready(tmp_path / "a"))
    back = Prepared(ready(tmp_path / "b", source="en", target="de"))
    for split in ("train", "dev", "test"):
        assert [row[::-1] for row in back.rows(split)] == list(there.rows(split))
    assert back.source.symbols == there.target.symbols


def test_only_training_pairs_are_left_out_for_their_length(tmp_path: Path) -> None:
    long = ("ein " * 30 + "Satz", "a " * 30 + "sentence")
    texts = {
        "train": [*SENTENCES["train"], long, ("eins", "one of very many")],
        "dev": [long],
        "test": [long, ("eins", "one of very many")],
    }
    folder = ready(tmp_path, texts, max_length=10, max_ratio=2)
    counts = stages(folder)

    assert len(columns(folder, "train")) == len(SENTENCES["train"])
    assert counts["tokenize", "train"]["dropped"] == {
        "more than 10 words": 1,
        "one more than 2 times as long as the other": 1,
    }
    assert [len(columns(folder, split)) for split in ("dev", "test")] == [1, 2]
    assert counts["tokenize", "test"]["pairs_in"] == counts["tokenize", "test"]["pairs_out"] == 2


def test_training_on_the_first_pairs_alone_says_how_many_were_left_out(tmp_path: Path) -> None:
    pairs = many(12)
    texts = {"train": [*pairs["train"], *pairs["dev"]], "test": pairs["test"]}
    whole = ready(tmp_path / "whole", texts, dev_every=4)
    folder = ready(tmp_path / "few", texts, dev_every=4, train_pairs=5)

    assert columns(folder, "train") == columns(whole, "train")[:5]
    assert columns(folder, "dev") == columns(whole, "dev")  # whatever is trained on

    dropped = stages(folder)["tokenize", "train"]["dropped"]
    assert dropped["not of the first 5"] == len(columns(whole, "train")) - 5


def test_a_ratio_just_met_is_not_exceeded(tmp_path: Path) -> None:
    texts = SENTENCES | {"train": [("a b", "a b c"), ("a b", "a b c d")]}
    assert columns(ready(tmp_path, texts, max_ratio=1.5), "train") == [("a b", "a b c")]


def test_every_nth_kept_training_pair_is_for_development(tmp_path: Path) -> None:
    pairs = many(9)
    texts = {"train": [*pairs["train"], ("x " * 40, "x"), *pairs["dev"]], "test": pairs["test"]}
    folder = ready(tmp_path, texts, dev_every=4, max_ratio=3)
    kept = [*pairs["train"], *pairs["dev"]]

    assert columns(folder, "dev") == kept[3::4]
    assert columns(folder, "train") == [pair for n, pair in enumerate(kept, 1) if n % 4]
    assert stages(folder)["tokenize", "train"]["dropped"]["kept for development"] == 4

    references = (folder / "dev.target.txt").read_text().splitlines()
    assert references == [pair[1] for pair in kept[3::4]]


def test_different_numbers_of_lines_are_refused_with_both(tmp_path: Path) -> None:
    user_dataset = dataset(tmp_path / "own")
    with open(tmp_path / "own" / "train.en", "a") as file:
        file.write("One more.\nAnd another.\n")

    with pytest.raises(UserError, match=r"5 lines, but .*train.en has 7") as caught:
        prepared(user_dataset, tmp_path)
    assert caught.value.file == str(tmp_path / "own" / "train.de")
    assert not list((tmp_path / "out").rglob("*.source"))


def test_a_blank_line_is_named_or_left_out_as_one_wishes(tmp_path: Path) -> None:
    blank = SENTENCES | {"train": [*SENTENCES["train"], ("etwas", " \t")]}
    with pytest.raises(UserError, match="the line is blank") as caught:
        ready(tmp_path / "a", blank)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "a/own/train.en"), 6)
    assert "blank_lines: drop" in str(caught.value.hint)

    folder = ready(tmp_path / "b", blank, blank_lines="drop")
    assert len(columns(folder, "train")) == 5
    assert stages(folder)["extract", "train"]["dropped"] == {"a blank line": 1}


def test_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    user_dataset = dataset(tmp_path / "own")
    (tmp_path / "own" / "dev.de").write_bytes("Über\n".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8 text: byte 0xdc") as caught:
        prepared(user_dataset, tmp_path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "own" / "dev.de"), 1)


def test_odd_white_space_and_control_characters_become_spaces(tmp_path: Path) -> None:
    odd = SENTENCES | {"train": [("Zwei\u00a0\u2028Wo\u0308rter\x9a da", "two  words\u202fthere")]}
    folder = ready(tmp_path, odd, tokenize="none")
    assert columns(folder, "train") == [("Zwei Wörter da", "two words there")]
    assert stages(folder)["extract", "train"]["control_characters"] == 1


@pytest.mark.parametrize(("invisible", "word"), [("drop", "Irland"), ("keep", "Ir\u00adland")])
def test_invisible_characters_are_left_out_and_counted_or_kept(
    tmp_path: Path, invisible: str, word: str
) -> None:
    odd = SENTENCES | {"train": [("Ir\u00adland", "Ire\u200dland"), ("da", "there")]}
    folder = ready(tmp_path, odd, tokenize="none", invisible=invisible)
    assert columns(folder, "train")[0] == (word, "Ire\u200dland")
    assert stages(folder)["extract", "train"]["invisible_characters"] == 1


def test_text_in_subwords_is_told_with_its_side_and_how_to_join_it(tmp_path: Path) -> None:
    pairs = [(f"die Kat@@ ze {number}", f"the cat {number}") for number in range(20)]
    folder = ready(tmp_path, SENTENCES | {"train": pairs}, tokenize="none")

    (warning,) = [text for text in Prepared(folder).summary["warnings"] if "subwords" in text]
    assert "`de` of train" in warning and "20 of 20" in warning and "sed" in warning


def test_a_language_without_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="split train has no file for the language `fr`"):
        ready(tmp_path, source="fr")


def test_nothing_left_to_learn_from_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no sentence pairs are left for train"):
        ready(tmp_path, max_length=1)


def test_stages_run_one_by_one_and_give_the_same(tmp_path: Path) -> None:
    subwords = {"merges": 10}
    whole = ready(tmp_path / "a", subwords=subwords)
    user_dataset = dataset(tmp_path / "b" / "own", subwords=subwords)
    for stage in ("extract", "tokenize", "segment", "index"):
        folder = prepared(user_dataset, tmp_path / "b", stage)
    for file in whole.rglob("*.*"):
        if file.name != "summary.json" and file.is_file():
            assert file.read_bytes() == (folder / file.relative_to(whole)).read_bytes()


def test_a_stage_needs_those_before_it_as_they_were(tmp_path: Path) -> None:
    user_dataset = dataset(tmp_path / "own")
    prepared(user_dataset, tmp_path, "extract")
    with pytest.raises(UserError, match="the stage tokenize has not run"):
        prepared(user_dataset, tmp_path, "segment")

    with open(tmp_path / "out" / "extract" / "train.source", "a") as file:
        file.write("one more line\n")
    with pytest.raises(UserError, match="not what the stage extract wrote") as caught:
        prepared(user_dataset, tmp_path, "tokenize")
    assert caught.value.file == str(tmp_path / "out" / "extract" / "train.source")


def test_an_unknown_stage_names_the_closest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown stage `tokenizer`.*\n.*`tokenize`"):
        prepare("mine", dataset(tmp_path / "own"), tmp_path, tmp_path / "out", "tokenizer")


def test_pairs_that_training_holds_too_are_counted(tmp_path: Path) -> None:
    data = Prepared(ready(tmp_path))
    assert data.summary["pairs_in_train_too"] == {"dev": 0, "test": 1}

    (warning,) = data.summary["warnings"]
    assert warning.startswith("train and test share pairs: 1, ")


def test_development_data_that_are_the_test_data_are_warned_of_once(tmp_path: Path) -> None:
    texts = many(20)
    folder = ready(tmp_path, texts | {"dev": texts["test"]})
    (warning,) = [text for text in Prepared(folder).summary["warnings"] if "share" in text]
    assert warning.startswith("dev and test share pairs: 20, all of test")


def test_sources_that_training_has_with_other_targets_are_warned_of(tmp_path: Path) -> None:
    texts = many(20)
    other = [(source, f"Other {target}") for source, target in texts["train"]]
    folder = ready(tmp_path, texts | {"test": other})
    (warning,) = [text for text in Prepared(folder).summary["warnings"] if "share" in text]
    assert warning.startswith("train and test share sources: 20, all of test")


def test_the_summary_says_how_the_data_was_read(tmp_path: Path) -> None:
    summary = Prepared(ready(tmp_path, subwords={"merges": 7})).summary
    assert summary["format"]["subwords"] == {"merges": 7, "joint": False}
    assert set(summary["inputs_sha256"]) == {
        f"{split}.{language}" for split in SENTENCES for language in ("de", "en")
    }


def test_a_changed_record_of_a_stage_is_refused(tmp_path: Path) -> None:
    user_dataset = dataset(tmp_path / "own")
    path = prepared(user_dataset, tmp_path, "extract") / "extract/record.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"pairs_in": 5', '"pairs_in": 6'))

    with pytest.raises(UserError, match="the file is damaged") as caught:
        prepared(user_dataset, tmp_path, "tokenize")
    assert caught.value.file == str(path)


def test_a_changed_codec_is_refused(tmp_path: Path) -> None:
    folder = ready(tmp_path, subwords={"merges": 5}, lowercase=True)
    path = folder / "codec.json"
    path.write_text(path.read_text(encoding="utf-8").replace("true", "false", 1))

    with pytest.raises(UserError, match="has changed since it was prepared") as caught:
        _ = Prepared(folder).codec
    assert caught.value.file == str(path)


def test_other_data_are_prepared_in_the_symbols_of_a_model(tmp_path: Path) -> None:
    options = {"lowercase": True, "subwords": {"merges": 10}, "source_eos": True}
    first = Prepared(ready(tmp_path / "first", **options))
    model = Symbols("first", first.folder, "translation", source_eos=True)

    # Other letters, tokenizer and vocabulary are asked for than the model has.
    texts = SENTENCES | {"train": [("Der Hund ist HEUTE eine Katze.", "The dog is a cat.")]}
    asked = dataset(tmp_path / "own", texts, lowercase=False, tokenize="none")
    fetch("mine", asked, tmp_path / "raw")
    prepare("mine", asked, tmp_path / "raw", tmp_path / "out", model=model)

    data = Prepared(tmp_path / "out")
    assert data.source.symbols == first.source.symbols
    assert data.target.symbols == first.target.symbols
    assert data.codec.settings == first.codec.settings
    assert data.rows("train")[0] == ("der hund ist heute eine katze .", "the dog is a cat .")
    assert data.split("train").source_eos
    assert data.summary["symbols_of"] == "first"
    assert any(
        "`lowercase` is True, as in the trained model" in text for text in data.summary["warnings"]
    )


def test_text_of_other_languages_or_letters_is_not_prepared_in_the_symbols_of_a_model(
    tmp_path: Path,
) -> None:
    first = Prepared(ready(tmp_path / "first"))
    model = Symbols("first", first.folder, "translation", source_eos=False)
    asked = dataset(tmp_path / "own")
    fetch("mine", asked, tmp_path / "raw")

    strange = {
        "train": [("мы идём домой сегодня", "yes no maybe so"), *[("да нет", "yes no")] * 60]
    }
    other = dataset(tmp_path / "other", SENTENCES | strange)
    fetch("other", other, tmp_path / "other raw")
    with pytest.raises(UserError, match=r"train: `first` knows only \d+% of the source"):
        prepare("other", other, tmp_path / "other raw", tmp_path / "out", model=model)

    turned = asked.with_format({"source": "en", "target": "de"})
    with pytest.raises(UserError, match="the source of `first` is de, but that of the data en"):
        prepare("mine", turned, tmp_path / "raw", tmp_path / "out", model=model)
