"""Files of other forms than lines and columns: read where a reader knows them, else named."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shlex
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pandas as pd
import pytest

from pam.cli import main
from pam.data.annotated import M2, Conllu
from pam.data.download import fetch
from pam.data.records import JsonLines, Table, table_records
from pam.data.registry import Dataset, load_registries
from pam.data.sampling import Pair
from pam.data.text_files import read_lines
from pam.data.tmx import Tmx, Xliff
from pam.runtime.errors import UserError
from pam.tasks.inflection.stages import OF_CONLLU, InflectionFormat, Row, read_rows
from tests.data.pairs import prepared

from .conftest import Server, whole

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tar(name: str, kind: int = tarfile.PAX_FORMAT) -> bytes:
    """Pack a file of words."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=kind) as archive:
        info = tarfile.TarInfo(name)
        info.size = 5
        archive.addfile(info, io.BytesIO(b"a\tb\n\n"))
    return content.getvalue()


def old_tar(name: str) -> bytes:
    """Pack a file in the form from before tar archives had a mark."""
    header = bytearray(tar(name, tarfile.USTAR_FORMAT))
    header[257:265] = bytes(8)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header)


def zipped(name: str) -> bytes:
    content = io.BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr(name, "a\tb\n")
    return content.getvalue()


OTHER_FORMS = [
    (tar("a.tsv"), "tar archive", "tar xf"),
    (gzip.compress(tar("a.tsv")), "tar archive", "tar xf"),
    (old_tar("a.tsv"), "tar archive", "tar xf"),
    (zipped("a.tsv"), "zip archive", "zipfile"),
    (zipped("xl/workbook.xml"), "Excel", "read: table"),
    (pickle.dumps({"a": 1}), "pickle", "TSV"),
    (pickle.dumps(["Häuser"] * 30, protocol=2), "pickle", "TSV"),
    (b"PAR1\x15\x04\x15", "Parquet", "read: table"),
    (b"\xff\xff\xff\xff\x10\x00\x00\x00", "Arrow", "read: table"),
    (LFS, "Git LFS", "git lfs pull"),
]


@pytest.mark.parametrize(
    ("content", "name", "hint"), OTHER_FORMS, ids=[str(n) for n in range(len(OTHER_FORMS))]
)
def test_what_is_no_text_is_named_with_what_to_do(content: bytes, name: str, hint: str) -> None:
    Path("a b.tsv").write_bytes(content)
    with pytest.raises(UserError, match=name) as caught:
        read_lines("a b.tsv")
    assert hint in str(caught.value.hint) and "UTF-16" not in str(caught.value)
    assert caught.value.file == "a b.tsv"


@pytest.mark.parametrize("text", ["PAR1 is a word.", "Rar! he said.", "ARROW1", "x" * 600])
def test_words_that_begin_as_other_forms_do_are_text(text: str) -> None:
    Path("a.txt").write_text(f"{text}\n")
    assert read_lines("a.txt") == [text]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_command_that_unpacks_a_tar_archive_does(
    pack: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a b.tar").write_bytes(pack(tar("words.tsv")))
    assert main(["data", "new", "a b.tar"]) == 2
    command = capsys.readouterr().err.split("`")[1]
    subprocess.run(shlex.split(command), check=True)
    assert Path("words.tsv").read_bytes() == b"a\tb\n\n"


def test_a_pointer_of_git_lfs_is_neither_described_nor_fetched(
    capsys: pytest.CaptureFixture[str], server: Server
) -> None:
    for name in ("a.de", "a.en"):
        Path(name).write_bytes(LFS)
    assert main(["data", "new", "a.de", "a.en"]) == 2
    assert "git lfs pull" in capsys.readouterr().err and not Path("datasets.yaml").exists()

    server.answers["/a.tsv"] = whole(LFS)
    for source in ({"path": "a.de"}, {"urls": [f"{server.address}/a.tsv"]}):
        entry = {"task": "inflection", "files": {"a.tsv": source}, "splits": {"test": "a.tsv"}}
        with pytest.raises(UserError, match="Git LFS"):
            fetch("words", Dataset.model_validate(entry), Path("out"))
        assert not Path("out/a.tsv").exists()


def texts(pairs: list[Pair]) -> list[tuple[str, str]]:
    return [(source.text, target.text) for source, target in pairs]


def test_an_array_of_json_is_read_as_its_lines_would_be() -> None:
    records = [{"de": f"Haus {number}", "en": ["house", "home"]} for number in range(3)]
    Path("a.json").write_text(json.dumps(records, indent=2))
    pairs = list(JsonLines().pairs("train", Path("a.json"), ("de", "en")))
    assert texts(pairs) == [(f"Haus {number}", "house") for number in range(3)]
    assert pairs[1][1].more == ("home",) and pairs[1][0].number == 9

    Path("a.json").write_text('[{"de": "x"},\n{"en": "y"},\n')
    with pytest.raises(UserError, match="no key `en`"):
        list(JsonLines().pairs("train", Path("a.json"), ("de", "en")))
    Path("a.json").write_text('[\n{"de": "x", "en": "y"},\n oh')
    with pytest.raises(UserError, match="not JSON") as caught:
        list(JsonLines().pairs("train", Path("a.json"), ("de", "en")))
    assert caught.value.line == 3


def test_records_within_records_are_read_as_hugging_face_writes_translations() -> None:
    Path("a.jsonl").write_text('{"id": "1", "translation": {"de": "Haus", "en": "house"}}\n')
    pairs = JsonLines().pairs("train", Path("a.jsonl"), ("en", "de"))
    assert texts(list(pairs)) == [("house", "Haus")]


MEMORY = """<?xml version="1.0" encoding="UTF-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><body>
<tu><tuv xml:lang="de-AT"><seg>Haus &amp;
 <bpt i="1">&lt;b&gt;</bpt>Hof<ept i="1">&lt;/b&gt;</ept></seg></tuv>
<tuv xml:lang="EN"><seg>house</seg></tuv></tu>
<tu><tuv lang="fr"><seg>maison</seg></tuv><tuv lang="en"><seg>house</seg></tuv></tu>
</body></tmx>
"""


def test_a_translation_memory_is_read_by_its_languages() -> None:
    path = Path("a.tmx")
    path.write_bytes(gzip.compress(MEMORY.encode()))
    pairs = list(Tmx(unmatched="drop").pairs("train", path, ("de", "en")))
    assert texts(pairs) == [("Haus & Hof", "house")]
    with pytest.raises(UserError, match="no text of the language `de`") as caught:
        list(Tmx().pairs("train", path, ("de", "en")))
    assert caught.value.line == 7


XLIFF_1 = """<xliff version="1.2"><file source-language="en" target-language="de-DE">
<trans-unit id="1"><source>Open <g id="1">it</g></source><target>Öffnen</target>
<alt-trans><target>Auf</target></alt-trans></trans-unit>
<trans-unit id="2"><source>Shut</source><target/></trans-unit></file></xliff>
"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1"><segment>
<source>Open <pc id="1">it</pc></source><target>Öffnen</target></segment>
<segment><source>Shut</source></segment></unit></file></xliff>
"""


@pytest.mark.parametrize("text", [XLIFF_1, XLIFF_2])
def test_translated_units_of_xliff_are_read(text: str) -> None:
    Path("a.xlf").write_text(text)
    pairs = list(Xliff().pairs("train", Path("a.xlf"), ("de", "en")))
    assert texts(pairs) == [("Öffnen", "Open it")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MEMORY.replace("<tu>", "<tu", 1), "not XML"),
        (MEMORY.replace("</body>", ""), "not XML"),
        (MEMORY.replace("tu>", "t>"), "no translation units"),
        (MEMORY.replace('"tmx14.dtd"', '"a" [<!ENTITY a "aaaa">]'), "entities"),
        (
            MEMORY.replace("</tu>", '<tuv xml:lang="EN"><seg>other</seg></tuv></tu>', 1),
            "several texts of `EN`",
        ),
    ],
)
def test_a_faulty_or_dangerous_memory_is_refused(text: str, message: str) -> None:
    Path("a.tmx").write_text(text)
    with pytest.raises(UserError, match=message):
        list(Tmx(unmatched="drop").pairs("train", Path("a.tmx"), ("fr", "en")))


CONLLU = """# text = im Haus
1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_
1\tin\tin\tADP\t_\t_\t3\tcase\t_\t_
2\tdem\tder\tDET\t_\tCase=Dat|Number=Sing\t3\tdet\t_\t_
3\tHäusern\tHaus\tNOUN\t_\tCase=Dat|Number=Plur\t0\troot\t_\t_
3.1\tgeht\tgehen\tVERB\t_\t_\t_\t_\t_\t_

1\tdem\tder\tDET\t_\tCase=Dat|Number=Sing\t3\tdet\t_\t_
2\tfoo\t_\tX\t_\t_\t3\tdet\t_\t_
"""


def test_words_of_conllu_give_lemmas_or_forms() -> None:
    path = Path("a.conllu")
    path.write_text(CONLLU)
    words = [("in", "in"), ("dem", "der"), ("Häusern", "Haus")]
    assert texts(list(Conllu().pairs("train", path, ("form", "lemma")))) == words
    kept = Conllu(repeated="keep").pairs("train", path, ("form", "lemma"))
    assert texts(list(kept)) == [*words, ("dem", "der")]

    rows = read_rows(path, InflectionFormat(columns=OF_CONLLU, separator="|"))
    assert rows[1:] == [
        Row("der", "Case=Dat|Number=Sing", "dem"),
        Row("Haus", "Case=Dat|Number=Plur", "Häusern"),
    ]

    with pytest.raises(UserError, match="unknown column of CoNLL-U `word`"):
        list(Conllu().pairs("train", path, ("word", "lemma")))
    path.write_text("1\ta\tb\n")
    with pytest.raises(UserError, match="3 columns instead of 10"):
        list(Conllu().pairs("train", path, ("form", "lemma")))


def test_corrections_of_m2_are_made_and_each_annotator_gives_a_reference() -> None:
    Path("a.m2").write_text(
        "S This are a bad the sentences\n"
        "A 1 2|||R:VERB|||is|||REQUIRED|||-NONE-|||0\n"
        "A 4 5|||U:DET||||||REQUIRED|||-NONE-|||0\n"
        "A 6 6|||M:PUNCT|||.|||REQUIRED|||-NONE-|||0\n"
        "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1\n"
        "\nS Right .\n"
    )
    first, second = M2().pairs("train", Path("a.m2"), ("source", "corrected"))
    assert first[0].text == "This are a bad the sentences"
    assert first[1].text == "This is a bad sentences ."
    assert first[1].more == ("This are a bad the sentences",)
    assert second[1].text == "Right ." and second[1].number == 7

    Path("a.m2").write_text("S This\nA 1 2 oh\n")
    with pytest.raises(UserError, match="not a correction") as caught:
        list(M2().pairs("train", Path("a.m2"), ("source", "corrected")))
    assert caught.value.line == 2


FRAME = pd.DataFrame({"id": [1, 2], "translation": [{"de": "Haus", "en": "house"}] * 2})


def test_a_table_that_no_package_reads_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pam.data.records.find_spec", lambda name: None)
    Path("a.parquet").write_bytes(b"PAR1\x15\x04\x15")
    with pytest.raises(UserError, match="needs the package pyarrow") as caught:
        list(Table().pairs("train", Path("a.parquet"), ("de", "en")))
    assert caught.value.hint == "pip install pyarrow"

    Path("a.parquet").write_text("a\tb\n")
    with pytest.raises(UserError, match="no Parquet, Arrow or Excel file"):
        list(Table().pairs("train", Path("a.parquet"), ("de", "en")))


def test_a_table_is_read_by_the_names_of_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pam.data.records.find_spec", lambda name: name)
    monkeypatch.setattr(pd, "read_parquet", lambda path, engine: FRAME)
    Path("a.parquet").write_bytes(b"PAR1\x15\x04\x15")
    pairs = list(Table().pairs("train", Path("a.parquet"), ("en", "de")))
    assert texts(pairs) == [("house", "Haus")] * 2
    assert pairs[1][0].number == 3

    missing = pd.DataFrame({"a": ["x", None], "b": ["NA", float("nan")]})
    monkeypatch.setattr(pd, "read_parquet", lambda path, engine: missing)
    pairs = list(Table().pairs("train", Path("a.parquet"), ("a", "b")))
    assert texts(pairs) == [("x", "NA"), ("", "")]


def save_arrow_stream(frame: pd.DataFrame, path: Path) -> None:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    ("package", "save"),
    [
        ("pyarrow", lambda frame, path: frame.to_parquet(path)),
        ("pyarrow", lambda frame, path: frame.to_feather(path)),
        ("pyarrow", save_arrow_stream),
        ("openpyxl", lambda frame, path: frame.to_excel(f"{path}.xlsx", index=False)),
    ],
)
def test_tables_are_described_and_read_where_their_package_is(
    package: str, save: Callable[[pd.DataFrame, Path], Any]
) -> None:
    pytest.importorskip(package)
    rows = [{"de": f"Haus {n}", "en": f"NA {n}", "n": n} for n in range(30)]
    save(pd.DataFrame(rows), Path("table"))
    if package == "openpyxl":
        Path("table.xlsx").rename("table")

    assert main(["data", "new", "table", "--languages", "de", "en"]) == 0
    folder = prepared(load_registries(["datasets.yaml"])["table"], Path("work"))
    assert sum(len(read_lines(folder / f"{split}.tsv")) for split in ("train", "dev", "test")) == 30


def test_a_workbook_whose_second_sheet_has_rows_is_not_read_in_part() -> None:
    pytest.importorskip("openpyxl")
    rows = pd.DataFrame([{"de": "Haus", "en": "house"}])
    for name, second in (("one", rows[:0]), ("two", rows)):
        with pd.ExcelWriter(f"{name}.xlsx") as book:
            rows.to_excel(book, sheet_name="pairs", index=False)
            second.to_excel(book, sheet_name="more", index=False)

    assert [record for _, record in table_records(Path("one.xlsx"))] == rows.to_dict("records")
    with pytest.raises(UserError, match="several sheets have rows: pairs, more"):
        list(table_records(Path("two.xlsx")))


PO = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n\nmsgid "Open"\nmsgstr "Öffnen"\n'


def test_a_catalogue_is_named_with_the_command_that_converts_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a b.po").write_text(PO)
    assert main(["data", "new", "a b.po"]) == 2
    error = capsys.readouterr().err
    assert "PO" in error and "po2tmx -l de" in error and "'a b.tmx'" in error
