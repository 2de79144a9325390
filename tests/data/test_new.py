"""`pam data new`: an entry for files of one's own, guessed, shown and written."""

from __future__ import annotations

import json
import lzma
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pam.cli import main
from pam.data.codecs import load_codec
from pam.data.records import json_records
from pam.data.registry import load_registries
from pam.data.text_files import read_lines
from pam.runtime.errors import UserError
from tests.data.pairs import prepared
from tests.data.test_own_files import paradigms

# the shell of a user, in which the environment of `pam` need not be active
OUTSIDE = {"PATH": "/usr/bin:/bin"}


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

    assert "the kind of task is inflection" in output and "--kind translation" in output
    assert output.count("  N;") == 5
    for text in (
        "lemma   features  form",
        "pam check --configfile my-nouns.yaml",
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
    assert main(["data", "new", "a.tsv", "--languages", "de", "en", "--name", "a"]) == 2
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

    assert "the first file is anno, the second code" in capsys.readouterr().out
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
    assert "the columns are - en ko - (or" in output and "나는 개 0마리를 봐요." in output

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
    assert "the columns are lemma features form (or" in output and "--kind translation" in output

    new("a.tsv", "--columns", "form", "features", "lemma", "--name", "b")
    assert format_of("b")["columns"] == ["form", "features", "lemma"]


def test_words_are_no_heading_and_what_is_one_can_be_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.tsv").write_text("der\tthe\n" + "Hund\tdog\n" * 20)
    new("a.tsv", "--languages", "de", "en")
    assert "heading" not in format_of("a")["read"]

    output = capsys.readouterr().out
    assert "der   the" in output and "the first line is a row" in output and "--header" in output

    Path("b.tsv").write_text("so\tas\n" + "Hund\tdog\n" * 20)
    new("b.tsv", "--languages", "de", "en")
    output = capsys.readouterr().out
    assert "the first line is a heading: so, as" in output and "--no-header" in output

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
        ({"a.tsv": "x\ty\n"}, [], "--languages en de"),
        ({"a.txt": "one two\nthree\n"}, [], "no columns were found"),
        ({"a.tsv": "lemma\tform\n"}, ["--header"], "the heading has no row below it"),
        (
            {"a.tsv": "a\tb\n" * 3},
            ["--languages", "de", "en", "--kind", "inflection"],
            "2 columns for a task of",
        ),
        (
            {"train.tsv": "a\tb\tc\n", "dev.tsv": "a\tb\tc\n"},
            [],
            "no file is known as test (train: train.tsv; dev: dev.tsv)",
        ),
        ({"a.train": "a\tb\n", "a.held": "c\td\n"}, [], "do not say which split they are: a.held"),
        ({"a.tsv": "x\ty\n"}, ["--splits", "train", "dev"], "2 splits for 1 files"),
        ({"a.tsv": "x\ty\n"}, ["--splits", "held"], "choose from train, dev, test, all"),
        ({"a.txt": "x\n", "b.tsv": "y\n"}, [], "--languages en de"),
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
        ({"a.jsonl": '{"a": "b"}\n'}, [], "no two fields hold text: a"),
        ({"x1.tsv": "a\tb\n", "x2.tsv": "a\tb\n", "x3.tsv": "a\tb\n"}, [], "--splits"),
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


PARADIGMS = [
    (f"geh{number}en", f"{word} ge{number}gangen", f"V;PRF;{person};SG")
    for number in range(12)
    for person, word in ((1, "ich bin"), (2, "du bist"))
]
SEVERAL_WORDS = "".join("\t".join(row) + "\n" for row in PARADIGMS)
PAIRS = "".join(f"Haus {number}\thouse {number}\n" for number in range(20))
RECORDS = [{"one": f"a {n}", "two": f"b {n}", "three": "c"} for n in range(20)]
JSON_LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)
INFLECTED = "".join(
    json.dumps({"lemma": f"g{n}", "form": f"gs{n}", "tags": "N;GEN"}) + "\n" for n in range(20)
)
MEMORY = (
    "<tmx><body>\n"
    + '<tu><tuv xml:lang="de"><seg>Haus</seg></tuv><tuv xml:lang="en"><seg>house</seg></tuv></tu>\n'
    * 20
    + "</body></tmx>\n"
)


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        ({"a b.tsv": PAIRS}, []),
        ({"a.tsv": LICENSED}, []),
        ({"a.tsv": LICENSED}, ["--kind", "translation"]),
        ({"a.tsv": LICENSED}, ["--kind", "inflection", "--columns", "lemma", "form"]),
        ({"a.tsv": LICENSED}, ["--columns", "en", "ko", "-", "x"]),
        ({"a.tsv": LICENSED}, ["--columns", "en", "-", "-"]),
        ({"a.tsv": PAIRS}, ["--kind", "inflection"]),
        ({"a.tsv": PAIRS}, ["--kind", "summarization", "--languages", "de", "en"]),
        ({"a.tsv": SEVERAL_WORDS}, []),
        ({"a.tsv": SEVERAL_WORDS}, ["--columns", "lemma", "features", "form"]),
        ({"a.tsv": SEVERAL_WORDS.replace("\n", "\tx\n")}, []),
        (
            {"a.tsv": SEVERAL_WORDS},
            ["--name", "there", "--columns", "lemma", "form", "features"],
        ),
        ({"train.tsv": SEVERAL_WORDS, "dev.tsv": SEVERAL_WORDS}, ["--kind", "inflection"]),
        ({"a.train": SEVERAL_WORDS, "a.held": SEVERAL_WORDS}, ["--kind", "inflection"]),
        ({"a.one": PAIRS, "a.dev": PAIRS, "a.3": PAIRS}, ["--languages", "de", "en"]),
        ({"a.tsv": PAIRS}, ["--languages", "de", "en", "--splits", "train", "dev"]),
        ({"a.tsv": PAIRS}, ["--languages", "de", "en", "--splits", "held"]),
        ({"a.txt": "x\n" * 20, "b.tsv": "y\n" * 20}, []),
        ({"a.de": "x a\n" * 20, "a.en": "y b\n" * 20}, ["--kind", "inflection"]),
        ({"a.jsonl": JSON_LINES}, []),
        ({"a.jsonl": JSON_LINES}, ["--languages", "one", "four"]),
        ({"a b.jsonl": INFLECTED}, []),
        ({"a.json": json.dumps(json.loads(f"[{INFLECTED.strip().replace(chr(10), ',')}]"))}, []),
        ({"a.txt": "der Hund ||| the dog ||| x\n" * 20}, ["--kind", "inflection"]),
    ],
)
def test_each_command_of_a_hint_works(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], arguments: list[str]
) -> None:
    for name, content in files.items():
        Path(name).write_text(content, encoding="utf-8")
    if "there" in arguments:
        new(*files, *arguments)
        capsys.readouterr()

    assert main(["data", "new", *files, *arguments]) == 2
    error = capsys.readouterr().err
    commands = re.findall(r"`((?:\S*python[\d.]*|pam|sed) .*?)`(?=,|;|$| )", error, re.MULTILINE)
    assert commands, error
    for command in commands:
        if command.startswith("pam "):
            assert main(shlex.split(command)[1:]) == 0, command
            Path("datasets.yaml").unlink()
        else:
            subprocess.run(command, shell=True, check=True, executable="/bin/sh", env=OUTSIDE)  # noqa: S602
            new(f"{Path(next(iter(files))).stem}.tsv", "--languages", "de", "en", "--columns", "de",
                "en", "-")  # fmt: skip


@pytest.mark.parametrize(
    ("files", "arguments"),
    [
        ({"a.tsv": paradigms(order="lemma form features")}, []),
        ({"a.tsv": f"lemma\tform\ttags\n{paradigms(order='lemma form features')}"}, []),
        ({"a.tsv": PAIRS}, ["--languages", "de", "en"]),
        ({"a.tsv": LICENSED}, ["--languages", "en", "ko"]),
        ({"a.tsv": "".join(f"alt{n}\tneu{n}\n" for n in range(20))}, ["--languages", "x", "y"]),
        ({"a.tsv": "".join(f"wort{n}\tv o {n}\n" for n in range(20))}, ["--kind", "g2p"]),
        ({"a.de": "Das Haus\n" * 20, "a.en": "The house\n" * 20}, []),
        ({"a.jsonl": JSON_LINES.replace("one", "src").replace("two", "tgt")}, []),
        ({"a.jsonl": JSON_LINES.replace("one", "article").replace("two", "summary")}, []),
        ({"a.tmx": MEMORY}, []),
        ({"a.conllu": "1\tgeht\tgehen\tV\t_\tTense=Pres\t0\troot\t_\t_\n" * 20}, []),
    ],
)
def test_each_command_that_says_otherwise_replaces_the_entry(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], arguments: list[str]
) -> None:
    Path("datasets.yaml").write_text("# mine\nb:\n  task: inflection\n  files: {}\n".replace(
        "{}", "{train.tsv: {path: x}, dev.tsv: {path: x}, test.tsv: {path: x}}"))  # fmt: skip
    for name, content in files.items():
        Path(name).write_text(content, encoding="utf-8")
    new(*files, *arguments)
    commands = re.findall(r"`(pam .*?)`", capsys.readouterr().out)
    assert commands
    for command in commands:
        new(*shlex.split(command)[3:])
        assert list(load_registries(["datasets.yaml"])) == ["b", "a"]
    assert Path("datasets.yaml").read_text(encoding="utf-8").startswith("# mine\n")


def test_no_set_is_named_after_a_split_or_as_another_one() -> None:
    for language in ("zulu", "nyanja"):
        Path(language).mkdir()
        for split in ("train", "dev", "test"):
            Path(language, f"{split}.tsv").write_text(paradigms(separator=","))
        files = [f"{language}/{split}.tsv" for split in ("train", "dev", "test")]
        new(*files, "--registry", "datasets.yaml")
    new(*files, "--registry", "datasets.yaml")
    for split in ("train", "dev", "tst"):
        Path(f"deu_noun-{split}.tsv").write_text(paradigms(separator=","))
    new("deu_noun-train.tsv", "deu_noun-dev.tsv", "deu_noun-tst.tsv")

    assert list(load_registries(["datasets.yaml"])) == ["zulu", "nyanja", "nyanja-2", "deu_noun"]


def test_files_of_one_name_have_the_split_of_their_folders() -> None:
    for split in ("train", "validation", "test"):
        Path("words", split).mkdir(parents=True)
        Path("words", split, "data.tsv").write_text(paradigms(separator=","))
    new(*(f"words/{split}/data.tsv" for split in ("train", "validation", "test")))
    entry = load_registries(["words/train/datasets.yaml"])["data"]
    assert entry.splits["dev"] == "validation-data.tsv"
    assert Path(str(entry.files["validation-data.tsv"].path)).is_file()


@pytest.mark.parametrize("kind", ["inflection", "translation"])
def test_without_dev_a_share_of_training_becomes_it_as_is_said(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    content = {"inflection": paradigms(40), "translation": PAIRS}[kind]
    Path("e2e-train.tsv").write_text(content, encoding="utf-8")
    Path("e2e-test.tsv").write_text("".join(content.splitlines(True)[:4]), encoding="utf-8")
    arguments = [] if kind == "inflection" else ["--languages", "de", "en"]
    new("e2e-train.tsv", "e2e-test.tsv", "--splits", "train", "test", *arguments)
    assert re.search(r"\d+ rows are drawn from train", capsys.readouterr().out)

    dataset = load_registries(["datasets.yaml"])["e2e"]
    folder = prepared(dataset, tmp_path / "work")
    rows = {split: len(read_lines(folder / f"{split}.tsv")) for split in ("train", "dev", "test")}
    total = len(content.splitlines())
    assert rows["test"] == 4 and 0 < rows["dev"] <= total / 10
    assert rows["train"] + rows["dev"] == total


def test_several_files_of_references_are_those_of_each_line(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        Path(f"{split}.de").write_text(f"Das {split}.\n" * 3)
        Path(f"{split}.en").write_text(f"The {split}.\n" * 3)
    Path("test.de").write_text("Eins.\nZwei.\n")
    Path("test.ref0.en").write_text("One.\n\n")
    Path("test.ref1.en").write_text("An one.\nTwo.\n")
    names = ["test.ref0.en", "test.ref1.en", "test.de"]
    new("train.de", "train.en", "dev.de", "dev.en", *names, "--name", "mine")

    dataset = load_registries(["datasets.yaml"])["mine"]
    assert dataset.splits["test"] == {"de": "test.de", "en": ["test.ref0.en", "test.ref1.en"]}
    folder = prepared(dataset, tmp_path / "work")
    assert read_lines(folder / "test.target.txt") == ["One.", "Two."]
    more = [json.loads(line) for line in read_lines(folder / "test.references.jsonl")]
    assert [[text["text"] for text in texts] for texts in more] == [["An one."], []]

    wrong = dataset.model_dump() | {
        "task": "alignment",
        "format": {"source": "de", "target": "en"},
        "splits": {"gold": dataset.splits["test"]},
    }
    Path("wrong.yaml").write_text(yaml.safe_dump({"mine": wrong}))
    with pytest.raises(UserError, match="list of files"):
        load_registries(["wrong.yaml"])


def test_several_corpora_are_the_parts_of_a_split(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("news.dev", "talks"):
        Path(f"{name}.de.txt").write_text("".join(f"Satz {n}.\n" for n in range(40)))
        Path(f"{name}.en.txt").write_text("".join(f"{name} {n}.\n" for n in range(40)))
    files = ("talks.de.txt", "talks.en.txt", "news.dev.en.txt", "news.dev.de.txt")
    new(*files, "--splits", *["all"] * 4, "--name", "both")
    assert "all is 2 corpora" in capsys.readouterr().out

    entry = load_registries(["datasets.yaml"])["both"]
    talks = {"de": "talks.de.txt", "en": "talks.en.txt"}
    news = {"de": "news.dev.de.txt", "en": "news.dev.en.txt"}
    assert entry.splits == {"all": [talks, news]}


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (["a.de", "a.en", "b.tsv"], True),
        (["a.de", "b.en", "a.fr", "b.de"], True),
        (["a.de", "b.en", "a.fr", "b.de"], False),
        (["a.de", "a.en", "b.de", "b.tsv"], False),
    ],
)
def test_files_that_belong_to_no_corpus_are_refused_with_a_way_out(
    files: list[str], named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in files:
        Path(name).write_text("eins\nzwei\n")
    splits = ["--splits", *["all"] * len(files)] if named else []
    assert main(["data", "new", *files, *splits]) != 0
    message = capsys.readouterr().err
    assert "make no data set" in message and "listed by hand" in message
    # Not by a command that fails in its turn.
    assert "--splits all" not in message
    assert not Path("datasets.yaml").exists()


def test_lists_of_records_are_words_or_references() -> None:
    records = {
        "words": {"src": ["ein", "rotes", "Haus"], "tgt": ["a", "red", "house"]},
        "refs": {"mr": "name[x]", "ref": ["a b c", "d e f"]},
        "both": {"input": "ein Haus", "output": [["a", "house"], ["one", "house"]]},
    }
    for name, record in records.items():
        Path(f"{name}.jsonl").write_text((json.dumps(record) + "\n") * 20)
        new(f"{name}.jsonl")

    assert format_of("words")["read"]["joined"] == ["src", "tgt"]
    assert format_of("words")["tokenized"] is True
    assert "joined" not in format_of("refs")["read"]
    assert format_of("both")["read"]["joined"] == ["output"]
    assert format_of("both")["tokenize"] == {"input": "moses", "output": "none"}


@pytest.mark.parametrize(
    ("kind", "rows", "sides", "tokenize"),
    [
        ("g2p", [("v ɔ ʁ t", "Wort"), ("h aʊ s", "Haus")], ("word", "phonemes"),
         {"word": "characters", "phonemes": "none"}),
        ("g2p", [("Wort", "vɔʁt"), ("Haus", "haʊs")], ("word", "phonemes"), "characters"),
        ("transliteration", [("Tokio", "東京")] * 2, ("source", "target"), "characters"),
        ("diacritics", [("ọ̀rọ̀", "oro")] * 2, ("plain", "marked"), "characters"),
        ("lemmatization", [("geht", "gehen"), ("ging", "gehen")], ("form", "lemma"), "characters"),
    ],
)  # fmt: skip
def test_kinds_of_words_are_read_by_characters(
    kind: str, rows: list[tuple[str, str]], sides: tuple[str, str], tokenize: Any, tmp_path: Path
) -> None:
    lines = [f"{first}{n}\t{second}{n}\n" for n in range(10) for first, second in rows]
    if kind == "lemmatization":
        lines = [f"{first}{n}\t{second}\n" for n in range(10) for first, second in rows]
    Path("a.tsv").write_text("".join(lines), encoding="utf-8")
    new("a.tsv", "--kind", kind)
    layout = format_of("a")
    assert (layout["source"], layout["target"]) == sides
    assert layout["tokenize"] == tokenize
    if kind != "lemmatization":
        folder = prepared(load_registries(["datasets.yaml"])["a"], tmp_path / "work")
        words = {word for line in read_lines(folder / "train.tsv") for word in line.split()}
        assert max(map(len, words)) <= 2


def test_lemmatization_with_features_is_inflection_the_other_way_round(tmp_path: Path) -> None:
    Path("a.tsv").write_text(paradigms(order="lemma form features"), encoding="utf-8")
    new("a.tsv", "--kind", "lemmatization")
    dataset = load_registries(["datasets.yaml"])["a"]
    assert dataset.task == "inflection"
    assert dataset.format["columns"] == ["form", "lemma", "features"]


def test_unimorphs_own_files_are_read_and_a_column_can_be_skipped(tmp_path: Path) -> None:
    rows = paradigms(order="lemma form features").splitlines()
    Path("deu").write_text("\n\n".join("\n".join(rows[n : n + 3]) for n in range(0, 120, 3)))
    new("deu")
    assert format_of("deu")["blank_lines"] == "drop"
    Path("ces.tsv").write_text("".join(f"{row}\tx|y\n" for row in rows))
    for arguments in ([], ["--columns", "lemma", "form", "features", "-"]):
        new("ces.tsv", "--kind", "inflection", "--replace", *arguments)
        assert format_of("ces")["columns"] == ["lemma", "form", "features", "-"]

    texts = []
    for name in ("deu", "ces"):
        dataset = load_registries(["datasets.yaml"])[name]
        texts.append((prepared(dataset, tmp_path / f"work-{name}") / "train.tsv").read_text())
    assert texts[0] == texts[1]
    codec = load_codec("inflection", tmp_path / "work-ces" / "out")
    lemma, form, features = rows[0].split("\t")
    assert codec.typed_source(f"{lemma}\t{form}\t{features}\tx|y") == (lemma, features)


def test_blank_lines_of_a_table_of_pairs_are_left_out(tmp_path: Path) -> None:
    Path("a.tsv").write_text(PAIRS.replace("\n", "\n\n"))
    new("a.tsv", "--languages", "de", "en")
    dataset = load_registries(["datasets.yaml"])["a"]
    assert dataset.format["blank_lines"] == "drop"
    folder = prepared(dataset, tmp_path / "work")
    splits = ("train", "dev", "test")
    assert sum(len(read_lines(folder / f"{split}.tsv")) for split in splits) == 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("my notes\nline two\n", "this is no registry of data sets"),
        ("- one\n- two\n", "this is no registry of data sets"),
    ],
)
def test_a_file_that_is_no_registry_is_kept(
    content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("nouns.tsv").write_text(paradigms(), encoding="utf-8")
    Path("notes.yaml").write_text(content, encoding="utf-8")

    assert main(["data", "new", "nouns.tsv", "--registry", "notes.yaml"]) == 2
    assert message in capsys.readouterr().err
    assert Path("notes.yaml").read_text(encoding="utf-8") == content


def test_a_file_of_data_is_no_registry(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.de").write_text("Haus\n" * 20, encoding="utf-8")
    Path("a.en").write_text("house\n" * 20, encoding="utf-8")

    assert main(["data", "new", "a.de", "a.en", "--registry", "./a.en"]) == 2
    assert "the registry is a file of data" in capsys.readouterr().err
    assert Path("a.en").read_text(encoding="utf-8") == "house\n" * 20


@pytest.mark.parametrize("name", ["nouns", "no", "2024"])
def test_comments_stay_and_an_entry_is_replaced_whatever_yaml_takes_its_name_for(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("nouns.tsv").write_text(paradigms(), encoding="utf-8")
    comment = "# ours\n"
    Path("datasets.yaml").write_text(comment, encoding="utf-8")
    new("nouns.tsv", "--name", name)
    new("nouns.tsv", "--name", name, "--replace")

    assert Path("datasets.yaml").read_text(encoding="utf-8").startswith(comment)
    assert list(load_registries(["datasets.yaml"])) == [name]
    # What is printed is an experiment as it stands.
    experiment = capsys.readouterr().out.partition("run it:\n\n")[2].partition("\n\n")[0]
    assert yaml.safe_load(experiment)["experiment"] == name


@pytest.mark.parametrize("text", ["\u200b\n\u200b\n", "\n" * 2000 + "Haus\tcase=n\tHaus\n"])
def test_a_table_that_begins_with_nothing_to_see_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.tsv").write_text(text, encoding="utf-8")
    assert main(["data", "new", "t.tsv"]) == 2
    assert "error: t.tsv: " in capsys.readouterr().err


def test_text_after_an_array_of_json_is_not_left_out() -> None:
    pairs = json.dumps([{"source": f"a {n}", "target": f"b {n}"} for n in range(12)])
    Path("pairs.json").write_text(f"{pairs}\n\n[]\n", encoding="utf-8")
    with pytest.raises(UserError, match="after the end of the array") as raised:
        list(json_records(Path("pairs.json")))
    assert raised.value.line == 3


def test_a_pipe_is_asked_for_as_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    assert main(["data", "new", "pipe"]) == 2
    assert "pipe: this is no file" in capsys.readouterr().err


def test_of_few_rows_the_faulty_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.tsv").write_text("a\tb\n" * 5 + "c\n", encoding="utf-8")
    assert main(["data", "new", "t.tsv"]) == 2
    assert "t.tsv:6: 1 columns, and 2 in most other lines" in capsys.readouterr().err
