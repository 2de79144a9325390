"""Texts and summaries from files to ids: readers, sentences, what is cut, what is refused."""

from __future__ import annotations

import io
import json
import lzma
import random
import tarfile
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import Examples, Prepared
from pam.data.languages import language, sentences_of
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.data.vocabulary import EOS
from pam.runtime.errors import UserError
from pam.tasks.summarization.codec import SummarizationCodec
from pam.tasks.summarization.stages import Summarization

RECORDS = [
    {
        "year": 2018,
        "text": "A dog barks . A cat sleeps .",
        "title": "<s> a dog . </s> <s> a cat . </s>",
    },
    {"year": 2018, "text": "The cat sat on the mat .", "title": "<s> cat on mat . </s>"},
    {"year": 2019, "text": "A dog sleeps .", "title": "<s> dog . </s>"},
    {
        "year": 2020,
        "text": "A mouse squeaks .",
        "title": ["<s> a mouse . </s> <s> it squeaks . </s>", "<s> mouse </s>"],
    },
]
ONLY = {"train": {"year": "201[0-8]"}, "dev": {"year": "2019"}, "test": {"year": "2020"}}
FORMAT = {
    "source": "text",
    "target": "title",
    "tokenize": "none",
    "sentences": "tags",
    "lowercase": True,
}


def written(folder: Path, lines: list[str], **changes: Any) -> tuple[Dataset, Path]:
    """Make a data set of JSON lines; return it with the folder of its file as it was fetched."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    (raw / "all.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    dataset = Dataset(
        task="summarization",
        files={"all.jsonl": {"path": "x"}},
        splits=dict.fromkeys(("train", "dev", "test"), "all.jsonl"),
        format=FORMAT | {"read": {"kind": "jsonl", "only": ONLY}} | changes,
    )

    return dataset, raw


def ready(folder: Path, **changes: Any) -> Prepared:
    dataset, raw = written(folder, list(map(json.dumps, RECORDS)), **changes)
    prepare("mine", dataset, raw, folder / "out")
    return Prepared(folder / "out")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b . c ! d", ["a b .", "c !", "d"]),
        ('he said " no . " she left .', ['he said " no . "', "she left ."]),
        ('he left . " no , " she said .', ["he left .", '" no , " she said .']),
        ("what ? ! so ( it is . ) yes", ["what ? !", "so ( it is . )", "yes"]),
        ("no stop", ["no stop"]),
        ("", []),
    ],
)
def test_a_sentence_ends_at_a_stop_and_the_marks_that_close_it(
    text: str, expected: list[str]
) -> None:
    sentences = sentences_of(text.split(), language("en"))
    assert [" ".join(sentence) for sentence in sentences] == expected


def test_records_are_chosen_by_what_their_keys_hold(tmp_path: Path) -> None:
    data = ready(tmp_path)
    assert [len(data.rows(split)) for split in ("train", "dev", "test")] == [2, 1, 1]
    assert data.rows("train")[0] == ("a dog barks . a cat sleeps .", "a dog . a cat .")


def test_references_are_kept_sentence_by_sentence_and_the_first_is_the_target(
    tmp_path: Path,
) -> None:
    data = ready(tmp_path)
    references = json.loads((data.folder / "test.target.txt").read_text(encoding="utf-8"))
    assert references == [["a mouse .", "it squeaks ."], ["mouse"]]
    assert list(data.rows("test")) == [("a mouse squeaks .", "a mouse . it squeaks .")]


def test_a_test_split_alone_is_written_in_the_symbols_of_other_data(tmp_path: Path) -> None:
    base = ready(tmp_path, truncate={"source": 3})
    (tmp_path / "far").mkdir()
    record = {"year": 2020, "text": "A dog sleeps on the mat .", "title": "<s> a dog . </s>"}
    dataset, raw = written(tmp_path / "far", [json.dumps(record)], truncate={"source": 3})
    alone = dataset.model_copy(update={"splits": {"test": "all.jsonl"}})
    prepare("far", alone, raw, tmp_path / "far/out", base=base.folder)

    data = Prepared(tmp_path / "far/out")
    assert list(data.rows("test")) == [("a dog sleeps on the mat .", "a dog .")]
    assert isinstance(data.codec, SummarizationCodec)
    assert data.codec.settings == base.codec.settings
    assert len(data.split("test").sources[0]) == 3
    assert data.summary["splits"]["test"]["source"]["cut"] == 1


def test_both_sides_have_one_vocabulary(tmp_path: Path) -> None:
    data = ready(tmp_path)
    assert data.source.symbols == data.target.symbols
    assert {"barks", "on", "."} <= set(data.source.symbols)


def test_of_long_texts_the_first_symbols_are_read_and_the_rows_stay_whole(tmp_path: Path) -> None:
    data = ready(tmp_path, truncate={"source": 4, "target": 5}, source_eos=True)
    train = data.split("train")
    assert data.source.spell(train.sources[0]) == ["a", "dog", "barks", ".", "<eos>"]
    # Of six symbols five are left and no end; of four all, and the end.
    assert data.target.spell(train.targets[0]) == ["a", "dog", ".", "a", "cat"]
    assert data.target.spell(train.targets[1]) == ["cat", "on", "mat", ".", "<eos>"]
    assert data.rows("train")[0] == ("a dog barks . a cat sleeps .", "a dog . a cat .")
    assert isinstance(data.codec, SummarizationCodec)
    assert data.codec.source_symbols(("a dog barks . a cat",)) == ["a", "dog", "barks", "."]


def test_how_much_is_read_is_settled_where_the_codec_is_written() -> None:
    assert "truncate" in Summarization.STAGES["segment"].keys


def test_what_is_cut_is_counted_and_told(tmp_path: Path) -> None:
    summary = ready(tmp_path, truncate={"source": 4, "target": 5}).summary
    cut = {}
    for split, counts in summary["splits"].items():
        cut[split] = {side: counts[side]["cut"] for side in ("source", "target")}

    assert cut["train"] == {"source": 2, "target": 1} and cut["test"] == {"source": 0, "target": 1}
    assert "2 sources of train are longer than 4 symbols, and cut there" in summary["warnings"]
    assert not any("cut there" in text for text in ready(tmp_path).summary["warnings"])


def test_symbols_that_are_copied_are_those_that_are_read(tmp_path: Path) -> None:
    vocabulary = {"size": 3, "joint": True}
    data = ready(tmp_path, truncate={"source": 4, "target": 5}, vocabulary=vocabulary)
    plain = data.split("train")
    extended = data.split("train", extended=True)

    assert [len(row) for row in extended.targets] == [len(row) for row in plain.targets] == [5, 5]
    assert [len(row) for row in extended.sources] == [4, 4]


def test_no_end_symbol_is_within_a_target(tmp_path: Path) -> None:
    split = ready(tmp_path, truncate={"target": 2}).split("train")
    assert EOS not in split.targets.values and split.is_sound()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "this is not JSON"),
        ('{"text": "a"', "this is not JSON"),
        ('["a", "b"]', "this is not an object"),
        ('{"year": 2018, "text": "a"}', "no key `title`"),
        ('{"text": "a", "title": "b"}', "no key `year`"),
        ('{"year": 2018, "text": 1, "title": "b"}', "`text` is not text"),
        ('{"year": 2018, "text": "", "title": "b"}', "`text` is empty"),
        ('{"year": 2018, "text": "a", "title": " "}', "`title` is empty"),
    ],
)
def test_a_faulty_record_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    lines = [json.dumps(record) for record in RECORDS]
    dataset, raw = written(tmp_path, [*lines[:2], line, *lines[2:]])
    with pytest.raises(UserError, match=message) as raised:
        prepare("mine", dataset, raw, tmp_path / "out")
    assert (raised.value.line, raised.value.file) == (3, "x") and raised.value.hint
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize(
    ("only", "message"),
    [({"trian": {"year": "1"}}, "`trian`"), ({"train": {"year": "(1"}}, "no regular expression")],
)
def test_a_choice_of_records_that_cannot_be_is_refused(
    tmp_path: Path, only: dict[str, Any], message: str
) -> None:
    dataset, raw = written(tmp_path, [], read={"kind": "jsonl", "only": only})
    with pytest.raises(ValueError, match=message):
        prepare("mine", dataset, raw, tmp_path / "out")


def pair_of_files(folder: Path, ending: str = "") -> tuple[Dataset, Path]:
    """Make a data set of a file of texts and one of summaries; return it with their folder."""
    raw = folder / "raw"
    raw.mkdir()
    open_file = lzma.open if ending == ".xz" else open
    for name, text in (("long", "one two three . four .\nfive six ."), ("short", "one .\nfive .")):
        with open_file(raw / f"{name}{ending}", "wt", encoding="utf-8") as file:
            file.write(f"{text}\n")

    names: Any = {"article": f"long{ending}", "summary": f"short{ending}"}
    dataset = Dataset(
        task="summarization",
        files={name: {"path": name} for name in names.values()},
        splits=dict.fromkeys(("train", "dev", "test"), names),
        format={"tokenize": "none"},
    )

    return dataset, raw


@pytest.mark.parametrize("ending", ["", ".xz"])
def test_two_aligned_files_need_no_keys(tmp_path: Path, ending: str) -> None:
    dataset, raw = pair_of_files(tmp_path, ending)
    prepare("mine", dataset, raw, tmp_path / "out")
    assert Prepared(tmp_path / "out").rows("test")[1] == ("five six .", "five .")


def test_a_compressed_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    dataset, raw = pair_of_files(tmp_path, ".xz")
    whole = (raw / "long.xz").read_bytes()
    (raw / "long.xz").write_bytes(whole[: len(whole) // 2])

    with pytest.raises(UserError, match="damaged or cut short"):
        prepare("mine", dataset, raw, tmp_path / "out")


def mails(folder: Path, texts: dict[str, str]) -> tuple[Dataset, Path]:
    """Make a data set of an archive of mails; return it with the folder of the archive."""
    raw = folder / "raw"
    raw.mkdir()
    with tarfile.open(raw / "mails.tar", "w") as tar:
        for name, text in texts.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))

    dataset = Dataset(
        task="summarization",
        files={"mails.tar": {"path": "mails.tar"}},
        splits={"all": "mails.tar"},
        format={"source": "body", "target": "subject", "read": "mails", "tokenize": "none"},
    )

    return dataset, raw


MAILS = {
    "enron/train/a.subject": "Can we meet ?\nAt ten .\n\n@subject\nMeeting\n",
    "enron/dev/b.subject": "The deal is done .\n\n@subject\nDeal\n\n@ann0\nThe deal\n",
    "enron/test/c.subject": "See below .\n@subject\nBelow\n",
}


def test_mails_give_their_bodies_and_subjects(tmp_path: Path) -> None:
    dataset, raw = mails(tmp_path, MAILS)
    prepare("mine", dataset, raw, tmp_path / "out")
    data = Prepared(tmp_path / "out")

    assert list(data.rows("train")) == [("Can we meet ? At ten .", "Meeting")]
    assert list(data.rows("dev")) == [("The deal is done .", "Deal")]


def test_a_mail_without_a_subject_is_named(tmp_path: Path) -> None:
    dataset, raw = mails(tmp_path, MAILS | {"enron/train/z.subject": "No subject here .\n"})
    with pytest.raises(UserError, match="`subject` is empty") as raised:
        prepare("mine", dataset, raw, tmp_path / "out")
    assert str(raised.value.file).endswith("enron/train/z.subject")


def test_real_titles_are_read_in_the_years_of_their_split(tmp_path: Path, corpora: Path) -> None:
    from pam.data.registry import find_dataset

    years = {"train": {"year": "2013"}, "dev": {"year": "2021"}, "test": {"year": "1991"}}
    entry = find_dataset(["config/datasets.yaml"], "acl-titles").with_format(
        {"read": {"kind": "jsonl", "only": years}}
    )
    summary = prepare("acl-titles", entry, corpora / "acl-titles", tmp_path / "out")

    assert [summary["splits"][split]["rows"] for split in ("train", "dev", "test")] == [35, 34, 26]


def test_opened_data_hold_few_bytes_for_each_symbol(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(400)]
    draw = random.Random(1)
    texts = [" ".join(draw.choices(words, k=60)) for _ in range(1500)]
    records = [{"year": 2018, "text": text, "title": f"{text[:30]} ."} for text in texts]
    lines = list(map(json.dumps, [*records, *RECORDS[1:]]))
    dataset, raw = written(
        tmp_path, lines, truncate={"source": 40, "target": 10}, vocabulary={"size": 300}
    )
    prepare("mine", dataset, raw, tmp_path / "out")
    opened(tmp_path / "out")  # what is imported or kept for once is there now
    tracemalloc.start()
    examples, rows = opened(tmp_path / "out")
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    symbols = len(examples.sources.values) + len(examples.targets.values)

    assert symbols > 50_000 and len(rows) == 1501
    # Ids of 4 bytes, offsets, and the vocabularies; while they are read, once more, with 1 MB of
    # the text at a time.
    assert held < 6 * symbols
    assert peak < 16 * symbols + 2**21


def opened(folder: Path) -> tuple[Examples, Sequence[tuple[str, ...]]]:
    """Read the examples and the text of training."""
    data = Prepared(folder)
    examples = Examples(data.split("train", extended=True), "symbols", len(data.target))
    return examples, data.rows("train")
