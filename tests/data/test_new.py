"""`pam data new`: an entry for files of one's own, guessed, shown and written."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.cli import main
from pam.data.registry import load_registries
from tests.data.test_own_files import paradigms


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def new(*arguments: str) -> None:
    """Run `pam data new`, which succeeds."""
    assert main(["data", "new", *arguments]) == 0


def test_a_table_in_the_order_of_unimorph_is_described_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("nouns.tsv.xz").write_bytes(lzma.compress(paradigms(order="lemma form features").encode()))
    new("nouns.tsv.xz", "--name", "my-nouns")
    output = capsys.readouterr().out

    assert "the kind of task is inflection (if it is not: --kind translation)\n" in output
    assert output.count("  N;") == 5
    for text in (
        "lemma   features  form",
        "python -m pam check --configfile my-nouns.yaml",
        "columns: [lemma, form, f",
    ):
        assert text in output

    entry = load_registries(["datasets.yaml"])["my-nouns"]
    assert (entry.task, entry.splits) == ("inflection", {"all": "nouns.tsv.xz"})
    assert entry.format == {
        "columns": ["lemma", "form", "features"],
        "separator": ";",
        "divide": {"dev": 12, "test": 12},
    }


def test_a_pair_of_texts_has_its_languages_from_its_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("texts").mkdir()
    Path("texts/letters.de").write_text("Ein Haus.\n" * 50)
    Path("texts/letters.en").write_text("A house.\n" * 50)
    new("texts/letters.de", "texts/letters.en", "--registry", "mine.yaml")

    assert "Ein Haus.  A house." in capsys.readouterr().out

    content = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))["letters"]
    assert content["files"]["letters.de"] == {"path": "texts/letters.de"}
    assert content["splits"] == {"all": {"de": "letters.de", "en": "letters.en"}}
    assert content["format"]["read"] == {"kind": "lines", "divide": {"dev": 5, "test": 5}}


def test_csv_and_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text("de,en\n" + '"Ja, gut",Yes\nNein,No\n' * 20, encoding="utf-8")
    new("p.csv")
    assert "Ja, gut  Yes" in capsys.readouterr().out

    read = load_registries(["datasets.yaml"])["p"].format["read"]
    expected = {
        "kind": "columns",
        "columns": {"de": 0, "en": 1},
        "separator": ",",
        "quotes": True,
        "heading": True,
    }

    assert read == expected | {"divide": {"dev": 4, "test": 4}}


def test_files_of_each_split_go_to_it_and_entries_are_added(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for split in ("train", "valid", "test"):
        Path(f"{split}.tsv").write_text(paradigms(separator=","), encoding="utf-8")
    Path("a.tsv").write_text("x a\ty b\n" * 30, encoding="utf-8")
    new("a.tsv", "--languages", "de", "en")
    new("train.tsv", "valid.tsv", "test.tsv", "--name", "nouns")
    datasets = load_registries(["datasets.yaml"])

    assert list(datasets) == ["a", "nouns"]
    assert datasets["nouns"].splits == {
        "train": "train.tsv",
        "dev": "valid.tsv",
        "test": "test.tsv",
    }
    assert datasets["nouns"].format == {}

    # A second entry of the same name is refused, and changes nothing.
    before = Path("datasets.yaml").read_bytes()
    assert main(["data", "new", "a.tsv", "--languages", "de", "en"]) == 2
    assert "`a` is in this registry already" in capsys.readouterr().err
    assert Path("datasets.yaml").read_bytes() == before


LICENSED = "".join(f"I see {n} dogs.\t나는 개 {n}마리를 봐요.\tCC-BY {n % 2}\n" for n in range(30))


def format_of(name: str) -> dict[str, Any]:
    """Return `format` of an entry that was written."""
    return load_registries(["datasets.yaml"])[name].format


def test_names_of_splits_are_known_and_others_can_be_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nested = "bana\tN;NOM(PL;PSS(1,PL))\tbanaebi\nsaxli\tN;NOM(PL)\tsaxlebi\n"
    for end in ("trn", "dev", "tst"):
        Path(f"kat.{end}").write_text(nested)
    new("kat.trn", "kat.dev", "kat.tst")

    assert load_registries(["datasets.yaml"])["kat"].splits == {
        "train": "kat.trn",
        "dev": "kat.dev",
        "test": "kat.tst",
    }
    assert format_of("kat") == {"separator": ";"}
    assert "bana   N;NOM(PL;PSS(1,PL))  banaebi" in capsys.readouterr().out

    # Names of files may hold more than the split, or nothing of it.
    for path in ("trainset.csv", "devset.csv", "testset_w_refs.csv", "a.one", "a.two", "a.three"):
        Path(path).write_text("mr,ref\n" + 'name[x],"x, y"\n' * 3)
    files = "trainset.csv devset.csv testset_w_refs.csv"
    new(*files.split(), "--languages", "mr", "ref", "--name", "e2e")
    read = {
        "kind": "columns",
        "columns": {"mr": 0, "ref": 1},
        "separator": ",",
        "quotes": True,
        "heading": True,
    }

    assert format_of("e2e") == {"source": "mr", "target": "ref", "read": read}

    new("a.one", "a.two", "a.three", "--splits", "dev", "test", "train", "--languages", "mr", "ref")
    assert load_registries(["datasets.yaml"])["a"].splits == {
        "dev": "a.one",
        "test": "a.two",
        "train": "a.three",
    }


def test_sides_of_a_pair_may_have_any_names(capsys: pytest.CaptureFixture[str]) -> None:
    for side in ("anno", "code"):
        Path(f"all.{side}").write_text(f"{side}\n" * 20)
    new("all.anno", "all.code")

    assert "the first file is anno, the second code (or --languages)" in capsys.readouterr().out
    assert format_of("all")["source"] == "anno"

    Path("x.xml").write_text("<doc>\n" + '<seg id="1">a</seg>\n' * 20)
    new("x.xml", "all.code", "--languages", "anno", "code", "--name", "marked")
    assert format_of("marked")["read"]["kind"] == "segments"


def test_other_columns_of_a_pair_are_left_out_as_it_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbered = [f"{number}\t{line}" for number, line in enumerate(LICENSED.splitlines(True))]
    Path("a.tsv").write_text("".join(numbered))
    new("a.tsv", "--languages", "en", "ko")

    assert format_of("a")["read"]["columns"] == {"en": 1, "ko": 2}

    output = capsys.readouterr().out
    assert "the columns are - en ko - (or --columns" in output and "나는 개 0마리를 봐요." in output

    new("a.tsv", "--columns", "-", "-", "ko", "en", "--languages", "en", "ko", "--name", "b")
    assert format_of("b")["read"]["columns"] == {"en": 3, "ko": 2}


def test_words_without_features_keep_the_order_of_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [(f"{wrong}at", "", "cat") for wrong in "abdefghij"] + [("sti", "", "sit")]
    Path("a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    new("a.tsv")

    assert "columns" not in format_of("a")

    output = capsys.readouterr().out
    assert (
        "the columns are lemma features form (or --columns" in output
        and "--kind translation" in output
    )

    new("a.tsv", "--columns", "form", "features", "lemma", "--name", "b")
    assert format_of("b")["columns"] == ["form", "features", "lemma"]


def test_words_are_no_heading_and_what_is_one_can_be_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.tsv").write_text("der\tthe\n" + "Hund\tdog\n" * 20)
    new("a.tsv", "--languages", "de", "en")
    assert "heading" not in format_of("a")["read"]

    output = capsys.readouterr().out
    assert "der   the" in output and "the first line is a row (or --header)" in output

    Path("b.tsv").write_text("so\tas\n" + "Hund\tdog\n" * 20)
    new("b.tsv", "--languages", "de", "en")
    assert "the first line is a heading: so, as (or --no-header)" in capsys.readouterr().out

    new("b.tsv", "--languages", "de", "en", "--no-header", "--name", "c")
    assert "heading" not in format_of("c")["read"]

    new("a.tsv", "--languages", "de", "en", "--header", "--name", "d")
    assert format_of("d")["read"]["heading"] is True


def test_quotes_of_a_tsv_are_told_by_its_content() -> None:
    Path("a.tsv").write_text('"He said ""no"""\tNein\n' + "Yes\tJa\n" * 20)
    new("a.tsv", "--languages", "en", "de")
    assert format_of("a")["read"]["quotes"] is True

    Path("b.tsv").write_text('"He said no\tNein\n' + "Yes\tJa\n" * 20)
    new("b.tsv", "--languages", "en", "de")
    assert "quotes" not in format_of("b")["read"]


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({"a.tsv": "x\ty\n"}, [], "name both: --languages de en"),
        ({"a.txt": "one two\nthree\n"}, [], "no columns were found"),
        ({"a.tsv": "lemma\tform\n"}, ["--header"], "the heading has no row below it"),
        (
            {"a.tsv": "a\tb\tc\td\n" * 3},
            ["--languages", "de", "en", "--kind", "inflection"],
            "4 columns for a task of",
        ),
        (
            {"train.tsv": "a\tb\tc\n", "dev.tsv": "a\tb\tc\n"},
            [],
            "no file is known as test (train: train.tsv; dev: dev.tsv)",
        ),
        ({"e2e-train.csv": "a,b\n", "e2e-test.csv": "a,b\n"}, [], "--splits train test"),
        ({"a.train": "a\tb\n", "a.held": "c\td\n"}, [], "do not say which split they are: a.held"),
        ({"a.tsv": "x\ty\n"}, ["--splits", "train", "dev"], "2 splits for 1 files"),
        ({"a.tsv": "x\ty\n"}, ["--splits", "held"], "choose of train, dev, test, all"),
        ({"a.txt": "x\n", "b.tsv": "y\n"}, [], "name both: --languages de en"),
        ({"a.tsv": LICENSED}, [], "--kind translation --columns en de -"),
        ({"a.tsv": LICENSED}, ["--kind", "translation"], "--columns en de -"),
        (
            {"a.tsv": LICENSED},
            ["--columns", "en", "ko", "-", "x"],
            "does not say which are source and target",
        ),
        (
            {"a.tsv": LICENSED},
            ["--columns", "en", "-", "-"],
            "does not say which are source and target",
        ),
        ({"a.tsv": "x\ty\n"}, ["--languages", "a b", "c"], "`a.format.source`"),
        ({"a.jsonl": '{"a": "b"}\n'}, [], "these are JSON lines"),
        ({"a.de": "x\n", "a.en": "x\ny\n"}, [], "1 lines, but a.en has 2"),
        ({"a.de": b"\xff\n", "a.en": "x\n"}, [], "a.de:1: this is not UTF-8 text"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str | bytes],
    arguments: list[str],
    message: str,
) -> None:
    for name, content in files.items():
        if isinstance(content, str):
            content = content.encode()
        Path(name).write_bytes(content)

    assert main(["data", "new", *files, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("datasets.yaml").exists()
