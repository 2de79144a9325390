"""Texts that nobody expected: a fault is named by file and line, or every symbol comes through."""

from __future__ import annotations

import io
import json
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from pam.data.archives import pack
from pam.data.dataset import SPLITS, Examples, Prepared
from pam.data.download import fetch
from pam.data.features import clips_in
from pam.data.prepare import prepare
from pam.data.registry import Dataset
from pam.data.vocabulary import UNK, Vocabulary
from pam.evaluation.inputs import EvalInputs, check_against_split, read_predictions
from pam.tasks.alignment.links import prepare_word_alignments
from pam.tasks.captioning import counts as captioning
from pam.tasks.summarization import counts as summarization
from pam.tasks.translation import counts as translation
from tests.conftest import Recorder
from tests.data import pairs, test_captioning
from tests.faults.cases import numbered
from tests.faults.fuzz import fuzz, texts, values

CASES = 25
"""Cases of a block."""

WORDS = (
    "Haus",
    "Häuser",
    "der",
    "case=dative",
    "V",
    "N;SG",
    "a@@",
    "don't",
    "z.B.",
    "3,5",
    "&amp;",
)
NOT_TEXT = (
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc3",
    b"\x00",
    "é".encode("latin-1"),
    "x\n".encode("utf-16"),
)
"""Bytes that are no UTF-8: lone surrogates, cut letters, other encodings."""

words = st.sampled_from(WORDS) | texts
tame = words.map(lambda word: re.sub(r"[\s\x00-\x1f\x7f-\x9f]", "", word)).filter(bool)
"""Odd words, but such as a text may hold."""

sentences = st.lists(words, min_size=1, max_size=5).map(" ".join)
ends = st.sampled_from(["\n"] * 8 + ["\r\n", "\n\n", "\r", ""])


def encoded(
    lines: list[tuple[str, str]], begin: bytes, spoilt: tuple[float, bytes] | None
) -> bytes:
    content = begin + "".join(line + end for line, end in lines).encode("utf-8", "surrogatepass")
    if spoilt is None:
        return content

    position = int(spoilt[0] * len(content))
    return content[:position] + spoilt[1] + content[position:]


def files(line: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """Draw files of a few lines, sometimes one very long, with bytes that are no text."""
    long = st.sampled_from(["x" * 70_000, "x " * 20_000, "é" * 9_000])
    lines = st.lists(st.tuples(st.one_of(line, line, line, line, line, long), ends), max_size=4)
    begin = st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"])
    not_text = st.tuples(st.floats(0, 1), st.sampled_from(NOT_TEXT))

    spoilt = st.one_of(st.none(), st.none(), st.none(), not_text)

    return st.builds(encoded, lines, begin, spoilt)


def rows(width: int) -> st.SearchStrategy[list[tuple[str, ...]]]:
    """Draw rows of odd words that are no fault."""
    return st.lists(st.tuples(*[tame] * width), min_size=1, max_size=4)


def joined(rows: list[tuple[str, ...]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode("utf-8", "surrogatepass")


def check_prepared(folder: Path) -> None:
    """Check that ids spell the text, and that it holds no marks that end lines elsewhere."""
    data = Prepared(folder)
    for name in SPLITS:
        split = data.split(name)
        rows = data.rows(name)

        assert len(split) == len(rows) == data.summary["splits"][name]["rows"]

        for number, row in enumerate(rows):
            assert len(row) == len(data.codec.columns) and not re.search(
                r"[\x00-\x1f\x7f]", "".join(row)
            )

            for vocabulary, ids, symbols, ended in (
                (
                    data.source,
                    split.sources[number],
                    data.codec.source_symbols(row[:-1]),
                    split.source_eos,
                ),
                (data.target, split.targets[number], data.codec.target_symbols(row[-1]), True),
            ):
                spelt = in_vocabulary(symbols, vocabulary)
                if ended:
                    spelt.append("<eos>")

                assert vocabulary.spell(ids) == spelt

    if data.summary["task"] == "inflection":
        assert not (data.split("train").sources.values == UNK).any()
    else:
        for name in ("dev", "test"):
            references = translation.read_references(EvalInputs(data=folder, split=name))
            assert len(references) == len(data.rows(name))


def in_vocabulary(symbols: Iterable[str], vocabulary: Vocabulary) -> list[str]:
    """Replace symbols that a vocabulary does not have."""
    return [symbol if symbol in vocabulary else "<unk>" for symbol in symbols]


def again(room: Path) -> Path:
    """Make an empty folder."""
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()

    return room


def of_inflection(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    row = st.lists(words, min_size=3, max_size=3) | st.lists(words, max_size=5)
    good = b"Haus\tN,SG\tHauses\nTag\tN,PL\tTage\n"
    file = rows(3).map(joined) | files(row.map("\t".join))

    def check(contents: tuple[bytes, bytes, str]) -> None:
        folder = again(room / "inflection")
        for split, content in zip(SPLITS, (*contents[:2], good), strict=True):
            (folder / f"{split}.tsv").write_bytes(content)

        dataset = Dataset.model_validate(
            {
                "task": "inflection",
                "files": {
                    f"{split}.tsv": {"path": str(folder / f"{split}.tsv")} for split in SPLITS
                },
                "format": {"separator": contents[2]},
            }
        )
        fetch("mine", dataset, folder / "raw")
        prepare("mine", dataset, folder / "raw", folder / "out")
        check_prepared(folder / "out")

    separators = st.sampled_from([",", ";", " ", "\t", "V"])
    return st.tuples(file, file | st.just(good), separators), check


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "tokenize": st.sampled_from(["none", "moses"]),
        "tokenized": st.booleans(),
        "lowercase": st.booleans(),
        "blank_lines": st.just("drop"),
        "subwords": st.fixed_dictionaries({"merges": st.integers(1, 9), "joint": st.booleans()}),
        "vocabulary": st.fixed_dictionaries({"min_count": st.integers(1, 2)}),
        "max_length": st.integers(1, 9),
        "max_ratio": st.sampled_from([1.0, 1.5]),
    },
)


def of_sentences(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    def check(drawn: tuple[tuple[bytes, bytes], dict[str, Any]]) -> None:
        folder = again(room / "pairs")
        dataset = pairs.dataset(folder / "own", **drawn[1])
        for content, language in zip(drawn[0], ("de", "en"), strict=True):
            for split in ("train", "test"):
                path = folder / f"own/{split}.{language}"
                path.write_bytes(path.read_bytes() + content)

        fetch("mine", dataset, folder / "raw")
        prepare("mine", dataset, folder / "raw", folder / "out")
        check_prepared(folder / "out")

    def one_each(pairs: list[tuple[str, ...]]) -> tuple[bytes, ...]:
        return tuple("\n".join([*side, ""]).encode() for side in zip(*pairs, strict=True))

    good = rows(2).map(one_each)
    sides = st.one_of(good, good, st.tuples(files(sentences), files(sentences)))

    return st.tuples(sides, OPTIONS), check


def of_columns(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    row = st.lists(sentences, min_size=2, max_size=3)

    def check(drawn: tuple[bytes, str, int, int]) -> None:
        content, separator, first, second = drawn
        folder = again(room / "columns")
        lines = "".join(separator.join(pair) + "\n" for pair in pairs.SENTENCES["train"])
        (folder / "all.txt").write_bytes(lines.encode() + content)
        read = {"kind": "columns", "columns": {"de": first, "en": second}, "separator": separator}
        dataset = Dataset.model_validate(
            {
                "task": "translation",
                "files": {"all.txt": {"path": str(folder / "all.txt")}},
                "splits": {"all": "all.txt"},
                "format": {"source": "de", "target": "en", "tokenize": "none"}
                | {"read": read | {"divide": {"dev": 1, "test": 1}}},
            }
        )
        fetch("mine", dataset, folder / "raw")
        prepare("mine", dataset, folder / "raw", folder / "out")
        check_prepared(folder / "out")

    separators = st.sampled_from(["\t", " ||| ", "a"])
    places = st.integers(-3, 3)

    return st.tuples(files(row.map("\t".join)), separators, places, places), check


def of_links(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    data = pairs.ready(room / "task")
    number = st.integers(-1, 12).map(str) | texts
    link = st.builds("{}{}{}".format, number, st.sampled_from("-p- "), number)
    right = st.builds("{}{}{}".format, st.integers(1, 3), st.sampled_from("-p"), st.integers(1, 3))

    def check(content: bytes) -> None:
        folder = again(room / "links")
        sides = zip(*pairs.SENTENCES["train"], strict=True)
        texts_of = {"de": "", "en": ""} | dict(
            zip(("de", "en"), map("\n".join, sides), strict=True)
        )

        for name, text in texts_of.items():
            (folder / f"a.{name}").write_text(text + "\n", encoding="utf-8")

        (folder / "a.links").write_bytes(content)
        files = {name: f"a.{name}" for name in ("de", "en", "links")}
        dataset = Dataset.model_validate(
            {
                "task": "alignment",
                "files": {name: {"path": str(folder / name)} for name in files.values()},
                "splits": {"gold": files},
                "format": {"source": "de", "target": "en"},
            }
        )
        fetch("gold", dataset, folder / "raw")
        prepare_word_alignments("gold", dataset, folder / "raw", data, folder / "out")

        assert Prepared(folder / "out").rows("gold")

    def five(link: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
        """Draw as many lines as there are sentences."""
        lines = st.lists(st.lists(link, max_size=4).map(" ".join), min_size=5, max_size=5)
        return lines.map(lambda drawn: "\n".join([*drawn, ""]).encode("utf-8", "surrogatepass"))

    line = st.lists(link, max_size=4).map(" ".join)
    return st.one_of(files(line), five(link), five(right), five(right)), check


def of_vocabularies(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    path = room / "source.vocab"

    def check(drawn: tuple[list[str], bytes]) -> None:
        symbols, content = drawn
        Vocabulary(symbols).save(path)

        assert Vocabulary.load(path).symbols == tuple(symbols)

        path.write_bytes(path.read_bytes() + content)
        loaded = Vocabulary.load(path)
        loaded.save(room / "again.vocab")

        assert Vocabulary.load(room / "again.vocab").symbols == loaded.symbols
        assert loaded.symbols[: len(symbols)] == tuple(symbols)

    symbols = st.lists(words.filter(bool), unique=True, max_size=5)
    return st.tuples(symbols, files(words)), check


def of_predictions(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    names = ("lemma", "form", "predicted")

    def check(content: bytes) -> None:
        (room / "predictions.tsv").write_bytes(b"lemma\tform\tpredicted\n" + content)
        rows = read_predictions(room / "predictions.tsv", names)

        assert rows and all(len(row) == len(names) for row in rows)

        lines = b"".join("\t".join(row[:2]).encode() + b"\n" for row in rows)
        (room / "test.tsv").write_bytes(lines)
        if lines.strip() and not rows[-1][0] == rows[-1][1] == "":
            check_against_split(rows, room / "predictions.tsv", room / "test.tsv")

    return files(st.lists(words, min_size=3, max_size=3).map("\t".join)), check


def of_typed_lines(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    data = Prepared(pairs.ready(room / "task", subwords={"merges": 9}, lowercase=True))

    def check(line: str) -> None:
        (column,) = data.codec.typed_source(line)
        symbols = data.codec.source_symbols([column])

        assert symbols and all(symbol == "".join(symbol.split()) for symbol in symbols)
        assert data.codec.target_text(data.codec.target_symbols(column)) is not None
        assert unicodedata.normalize("NFC", data.codec.readable(column)) is not None

    return sentences, check


def of_json_lines(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    """Draw texts and summaries as records of JSON, of which some are none."""
    side = st.one_of(sentences, sentences, st.lists(sentences, max_size=3), values)
    record = st.fixed_dictionaries({"text": side, "title": side}, optional={"year": values})
    line = st.one_of(record, record, record, values).map(as_json) | texts
    layout = st.fixed_dictionaries(
        {},
        optional={
            "tokenize": st.sampled_from(["none", "moses"]),
            "sentences": st.sampled_from(["tags", "stops"]),
            "lowercase": st.booleans(),
            "truncate": st.fixed_dictionaries(
                {"source": st.integers(1, 4), "target": st.integers(1, 4)}
            ),
            "source_eos": st.booleans(),
            "blank_lines": st.just("drop"),
        },
    )
    good = [
        {"text": "A dog barks . A cat sleeps .", "title": "<s> a dog . </s> <s> a cat . </s>"}
    ] * 2

    def check(drawn: tuple[bytes, dict[str, Any]]) -> None:
        folder = again(room / "summaries")
        (folder / "raw").mkdir()
        lines = "".join(f"{json.dumps(record)}\n" for record in good).encode()

        for split in SPLITS:
            content = lines
            if split != "dev":
                content += drawn[0]

            (folder / f"raw/{split}.jsonl").write_bytes(content)

        dataset = Dataset.model_validate(
            {
                "task": "summarization",
                "files": {f"{split}.jsonl": {"path": "x"} for split in SPLITS},
                "splits": {split: f"{split}.jsonl" for split in SPLITS},
                "format": {"source": "text", "target": "title", "read": {"kind": "jsonl"}}
                | drawn[1],
            }
        )
        prepare("mine", dataset, folder / "raw", folder / "out")
        check_summaries(folder / "out")

    return st.tuples(files(line), layout), check


def check_summaries(folder: Path) -> None:
    """Check that rows and references are as many as was counted, and are read again."""
    data = Prepared(folder)
    for name in SPLITS:
        split = data.split(name, extended=True)
        rows = data.rows(name)

        assert len(split) == len(rows) == data.summary["splits"][name]["rows"]
        assert not any(re.search(r"[\x00-\x1f\x7f]", "".join(row)) for row in rows)

    for name in ("dev", "test"):
        references = summarization.read_references(EvalInputs(data=folder, split=name))
        assert len(references) == len(data.rows(name))


def as_json(value: Any) -> str:
    """Write a value as JSON; values that JSON has no form for become text."""
    return json.dumps(readable(value), ensure_ascii=False)


def readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): readable(inner) for key, inner in value.items()}

    if isinstance(value, list):
        return list(map(readable, value))

    if isinstance(value, str | int | float | None):
        return value

    return str(value)


CLIPS = ("a", "b", "c", "d")
array = st.builds(
    lambda shape, kind, odd: cast(np.full(shape, odd), kind),
    st.one_of(st.just((2, 3)), st.just((2, 3)), st.lists(st.integers(0, 3), max_size=3).map(tuple)),
    st.sampled_from(["f4", "f4", "f8", ">f2", "i2", "u1", "?", "c8", "U2", "S1"]),
    st.sampled_from([0.5, 1.0, 0.0, float("nan"), float("inf"), 1e300]),
)
"""Frames of a clip, and arrays that are none."""


def cast(content: Any, kind: str) -> Any:
    """Return the array as another type, which may not hold its numbers."""
    with np.errstate(all="ignore"):
        return content.astype(kind)


def of_captions(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    """Draw captions in all forms of their file, with clips that nobody has frames of."""
    raw = again(room / "captions")
    with h5py.File(raw / "features.h5", "w") as file:
        for number, clip in enumerate(CLIPS):
            file[clip] = test_captioning.frames(number)

    clip = st.sampled_from(CLIPS) | texts
    caption = st.one_of(sentences, sentences, values)
    whole = {name: ["a dog barks", "a cat"] for name in CLIPS}
    by_clip = st.dictionaries(clip, st.lists(caption, max_size=3) | caption, max_size=4).map(
        lambda drawn: whole | drawn
    )
    records = by_clip.map(
        lambda drawn: [{"id": name, "caption": text} for name, text in drawn.items()]
    )
    sentence = st.fixed_dictionaries(
        {"video_id": clip, "caption": caption}, optional={"id": values}
    )
    msr = st.fixed_dictionaries(
        {"videos": st.lists(st.fixed_dictionaries({"video_id": clip}) | values, max_size=4)}
        | {"sentences": st.lists(sentence, max_size=6)}
    )
    content = st.one_of(by_clip, by_clip, records, records, msr, values)
    layout = st.fixed_dictionaries(
        {"clips": st.just({"train": 2, "dev": 1, "test": 1})},
        optional={
            "unmatched": st.just("drop"),
            "lowercase": st.booleans(),
            "tokenize": st.sampled_from(["none", "wordpunct", "moses"]),
            "frames": st.fixed_dictionaries(
                {}, optional={"first": st.integers(1, 3), "spaced": st.integers(2, 3)}
            ),
        },
    )

    def check(drawn: tuple[bytes, dict[str, Any]]) -> None:
        (raw / "captions.json").write_bytes(drawn[0])
        prepare("mine", of_clips(drawn[1]), raw, again(room / "out"))
        check_captions(room / "out")

    encoded_content = content.map(as_json).map(encoded_json)
    return st.tuples(encoded_content | files(sentences), layout), check


def of_clips(layout: dict[str, Any]) -> Dataset:
    names = {"captions": "captions.json", "features": "features.h5"}
    return Dataset.model_validate(
        {
            "task": "captioning",
            "files": {name: {"path": "x"} for name in names.values()},
            "splits": {"all": names},
            "format": layout,
        }
    )


def encoded_json(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def check_captions(folder: Path) -> None:
    """Check that each row has its clip's frames and words, and that references are read again."""
    data = Prepared(folder)
    for name in SPLITS:
        split = data.split(name)
        rows = data.rows(name)

        assert len(split) == len(rows) == data.summary["splits"][name]["rows"]

        batch = Examples(split, "symbols").batch(np.arange(len(rows)))
        assert torch.isfinite(batch.source).all()

        for row, ids in zip(rows, split.targets, strict=True):
            words = in_vocabulary(data.codec.target_symbols(row[-1]), data.target)
            assert data.target.spell(ids) == [*words, "<eos>"]

    for name in ("dev", "test"):
        inputs = EvalInputs(data=folder, split=name)
        references = captioning.read_references(inputs, captioning.compared_text(inputs.prepared))

        assert len(references) == len(data.rows(name))


def of_arrays(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    """Draw an archive of `.npy` files with odd names and arrays."""
    name = st.sampled_from(CLIPS) | texts.filter(
        lambda text: text.strip(".") and not set("/\0") & set(text)
    )

    def check(clips: dict[str, Any]) -> None:
        folder = again(room / "arrays")
        (folder / "own").mkdir()
        for clip, content in clips.items():
            file = io.BytesIO()
            np.save(file, content)
            (folder / "own" / f"{clip}.npy").write_bytes(file.getvalue())

        with open(folder / "features.tar", "wb") as packed:
            pack(folder / "own", packed)

        with clips_in(folder / "features.tar") as (names, read):
            assert sorted(names) == sorted(clips)

            check_frames(clips, read)

    return st.dictionaries(name, array, max_size=3), check


def check_frames(clips: Mapping[str, Any], read: Callable[[str], Any]) -> None:
    for clip, content in clips.items():
        frames = read(clip)
        assert frames.dtype == np.float32 and np.isfinite(frames).all()
        np.testing.assert_array_equal(frames, cast(content, "f4"))


def of_hdf5(room: Path) -> tuple[st.SearchStrategy[Any], Callable[[Any], None]]:
    """Draw an HDF5 file with odd names and arrays, groups among them, compressed or not."""
    name = st.sampled_from(CLIPS) | texts.filter(lambda text: text and not set("/\0.") & set(text))
    numeric = array.filter(lambda content: content.dtype.kind not in "US")

    def check(drawn: tuple[dict[str, Any], bool]) -> None:
        path = again(room / "hdf5") / "features.h5"
        clips, packed = drawn
        with h5py.File(path, "w") as file:
            file.create_group("a group")
            for clip, content in clips.items():
                options: dict[str, Any] = {}
                if packed and content.ndim and content.size:
                    options = {"compression": "gzip", "chunks": True}

                file.create_dataset(clip, data=content, **options)

        with clips_in(path) as (names, read):
            assert sorted(names) == sorted(clips)

            check_frames(clips, read)

    return st.tuples(st.dictionaries(name, numeric, max_size=3), st.booleans()), check


TEXTS = {
    "records of texts and summaries": of_json_lines,
    "captions of clips": of_captions,
    "frames in archives of arrays": of_arrays,
    "frames in HDF5": of_hdf5,
    "tables of inflected words": of_inflection,
    "sentences, a file for each language": of_sentences,
    "sentences in columns": of_columns,
    "links between words": of_links,
    "vocabularies": of_vocabularies,
    "predictions": of_predictions,
    "typed lines": of_typed_lines,
}


@pytest.mark.parametrize("block", numbered(90, sample=1))
@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_refused_by_file_and_line_or_comes_through_whole(
    kind: str, block: int, tmp_path: Path, record: Recorder
) -> None:
    strategy, check = TEXTS[kind](tmp_path)
    fuzz(block, CASES, strategy, check)

    record(
        fault=f"a text that nobody expected: {kind}",
        showed="refused by file and line, or every symbol comes through",
        tried=CASES,
    )
