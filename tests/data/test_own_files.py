"""Files as people have them: compressed, CSV, columns in another order, one file for all splits."""

from __future__ import annotations

import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from pam.data.dataset import SPLITS, Prepared
from pam.data.text_files import lines_of
from pam.runtime.errors import UserError
from pam.tasks.inflection.stages import Index, InflectionFormat, Row, guess_columns, read_rows
from tests.data.pairs import columns, ready

PACKERS = [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)]
Packer = Callable[[bytes], bytes]


def paradigms(lemmas: int = 40, order: str = "lemma features form", separator: str = ";") -> str:
    """Write a TSV of made-up nouns in three cases, `lemmas` of them."""
    draw = random.Random(1)
    lines = []
    for number in range(lemmas):
        lemma = "".join(draw.choices("abdefgiklmnoprstu", k=5)) + "aeiou"[number % 5]
        for case, ending in (("NOM", ""), ("GEN", "s"), ("DAT", "en")):
            cells = {
                "lemma": lemma,
                "features": separator.join(("N", case, "SG")),
                "form": lemma + ending,
            }
            lines.append("\t".join(cells[name] for name in order.split()) + "\n")

    return "".join(lines)


def index(tmp_path: Path, layout: InflectionFormat, **splits: str) -> dict:
    """Prepare the texts of splits; return the counts."""
    files = {}
    for name, text in splits.items():
        files[name] = tmp_path / f"{name}.txt"
        files[name].write_text(text, encoding="utf-8")
    return Index(files, layout, tmp_path / "out").run()


@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
@pytest.mark.parametrize("named", [True, False])
def test_compressed_files_are_read_whatever_their_names(
    tmp_path: Path, suffix: str, pack: Packer, named: bool
) -> None:
    path = tmp_path / (f"text{suffix}" if named else "text.tsv")
    path.write_bytes(pack("Häuser\nMäuse\n".encode()))
    assert [line.text for line in lines_of(path)] == ["Häuser", "Mäuse"]

    path.write_bytes(pack(b"a\n") + pack(b"b\n"))  # as parallel compressors write
    assert [line.text for line in lines_of(path)] == ["a", "b"]


@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
def test_a_compressed_file_that_is_cut_short_is_refused(
    tmp_path: Path, suffix: str, pack: Packer
) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(random.Random(1).randbytes(5000).hex().encode())[:-20])
    with pytest.raises(UserError, match="damaged or cut short"):
        list(lines_of(path))


def test_csv_with_a_heading_is_read_with_its_quotes(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('lemma,form,tags\nHaus,Häusern,"N,DAT"\n"a ""b""",c,N\n', encoding="utf-8")
    layout = InflectionFormat(
        delimiter=",", quotes=True, heading=True, columns=["lemma", "form", "features"]
    )

    assert read_rows(path, layout) == [Row("Haus", "N,DAT", "Häusern"), Row('a "b"', "N", "c")]

    path.write_text('lemma,form,tags\nHaus,"Häusern,N\n', encoding="utf-8")
    with pytest.raises(UserError, match="wrong quotes") as caught:
        read_rows(path, layout)
    assert caught.value.line == 2


def test_quotes_in_a_tsv_are_letters(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('"Haus\tN\t"Häuser\n', encoding="utf-8")
    assert read_rows(path, InflectionFormat()) == [Row('"Haus', "N", '"Häuser')]


@pytest.mark.parametrize(
    "order", ["lemma features form", "lemma form features", "features lemma form"]
)
@pytest.mark.parametrize("separator", [";", ",", "|"])
def test_the_order_of_columns_and_the_separator_are_guessed(order: str, separator: str) -> None:
    rows = [line.split("\t") for line in paradigms(order=order, separator=separator).splitlines()]
    assert guess_columns(rows) == (order.split(), separator)


def test_columns_in_the_order_of_unimorph_are_refused_with_how_to_say_so(tmp_path: Path) -> None:
    lines = paradigms(200, "lemma form features").splitlines(keepends=True)
    splits = {
        "train": "".join(lines[:300]),
        "dev": "".join(lines[300:450]),
        "test": "".join(lines[450:]),
    }

    with pytest.raises(UserError, match=r"training has \d of 150 features") as caught:
        index(tmp_path, InflectionFormat(), **splits)
    assert caught.value.file == str(tmp_path / "dev.txt")
    assert '{columns: [lemma, form, features], separator: ";"}' in str(caught.value.hint)
    assert not (tmp_path / "out/source.vocab").exists()

    layout = InflectionFormat(columns=["lemma", "form", "features"], separator=";")
    assert index(tmp_path, layout, **splits)["splits"]["dev"]["rows"] == 150


def test_one_file_is_divided_and_no_lemma_is_in_two_splits(tmp_path: Path) -> None:
    layout = InflectionFormat.model_validate({"separator": ";", "divide": {"dev": 10, "test": 12}})
    counts = index(tmp_path, layout, all=paradigms())
    rows = {split: split_counts["rows"] for split, split_counts in counts["splits"].items()}

    assert rows == {"train": 99, "dev": 9, "test": 12}
    assert counts["lemmas_in_two_splits"] == {}

    with pytest.raises(UserError, match="4 lemmas are too few for 10 of dev and 12 of test"):
        index(tmp_path, layout, all=paradigms(4))


def test_a_sample_is_a_part_of_a_larger_one_and_depends_on_its_seed(tmp_path: Path) -> None:
    lines = paradigms().splitlines(keepends=True)
    splits = {
        "train": "".join(lines[:90]),
        "dev": "".join(lines[90:105]),
        "test": "".join(lines[105:]),
    }

    def drawn(**sample: int) -> list[str]:
        layout = InflectionFormat.model_validate({"separator": ";", "sample": sample})
        counts = index(tmp_path, layout, **splits)["splits"]
        assert counts["train"]["not_in_sample"] == 90 - sample["train"]
        assert (counts["dev"]["rows"], counts["test"]["rows"]) == (sample.get("dev", 15), 15)
        return (tmp_path / "out/train.tsv").read_text(encoding="utf-8").splitlines()

    small = drawn(train=30, dev=5)
    large = drawn(train=60)
    other_seed = drawn(train=30, seed=2)

    assert len(small) == 30
    assert set(small) < set(large)
    assert small != other_seed
    assert small == [row for row in large if row in set(small)]


GOOD = [(f"w{number} a", f"v{number} b") for number in range(5)]


def test_sentence_pairs_are_sampled_too_and_those_left_out_are_counted(tmp_path: Path) -> None:
    texts = dict.fromkeys(SPLITS, GOOD)
    out = ready(tmp_path, texts, tokenize="none", sample={"train": 3, "test": 1})
    assert [len(columns(out, split)) for split in SPLITS] == [3, 5, 1]

    stages = Prepared(out).summary["stages"]
    extracted = {row["split"]: row for row in stages if row["stage"] == "extract"}
    assert extracted["train"]["dropped"] == {"not in the sample": 2}


def test_files_of_a_split_that_are_swapped_are_refused(tmp_path: Path) -> None:
    many = 20 * GOOD
    texts = {"train": many, "dev": many, "test": [(target, source) for source, target in many]}
    with pytest.raises(
        UserError, match="test: training has only 0% of the source symbols"
    ) as caught:
        ready(tmp_path, texts, tokenize="none")
    assert "the other way round" in str(caught.value.hint)
