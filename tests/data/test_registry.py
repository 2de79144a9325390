"""Registries of data sets: ours is sound, and every fault in a user's is named with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pam.data.dataset import SPLITS
from pam.data.registry import find_dataset, load_registries
from pam.runtime.errors import UserError

from .conftest import ROOT

OURS = ROOT / "config" / "datasets.yaml"
Writer = Callable[[dict[str, Any]], Path]


def entry(**changes: Any) -> dict[str, Any]:
    """Make a data set's entry of three files of inflected words."""
    files = {
        f"{name}.tsv": {"urls": ["https://example.org/x"]} for name in ("train", "dev", "test")
    }
    return {"task": "inflection", "files": files} | changes


# files of which no SHA-256 is known; what comes first is what they are held to
UNPINNED = {
    ("iwslt14-de-en", "de-en.tgz"),
    ("iwslt15-en-vi", "train.en"),
    ("iwslt15-en-vi", "train.vi"),
    *(
        ("wmt16-ro-en", f"{name}.{language}{ending}")
        for name, ending in (("train", ""), ("newsdev2016", ".sgm"), ("newstest2016", ".sgm"))
        for language in ("ro", "en")
    ),
    ("wat17-ja-en", "train/train-1.txt"),
    ("wat17-ja-en", "dev/dev.txt"),
    ("wat17-ja-en", "test/test.txt"),
    *(
        ("cnndm-see", f"{split}.txt.{side}")
        for split in ("train", "val", "test")
        for side in ("src", "tgt.tagged")
    ),
    ("duc2004", "duc.src"),
    ("duc2004", "duc.tgt"),
    ("youtube2text", "captions.json"),
    ("youtube2text", "features.tar"),
}


def test_our_own_registry_is_sound_and_every_download_is_pinned_where_its_hash_is_known() -> None:
    datasets = load_registries([OURS])
    for name, dataset in datasets.items():
        assert dataset.licence and dataset.citation and dataset.title
        for key, file in dataset.files.items():
            assert all(url.startswith("https://") for url in file.urls)
            pinned = bool(file.sha256 and file.hash_from and file.bytes)
            assert pinned != ((name, key) in UNPINNED), (name, key)


def test_no_text_is_passed_on_whose_license_forbids_it_in_so_many_words() -> None:
    words = ("-ND", "not for redistribution", "not to be handed on")
    datasets = load_registries([OURS]).values()
    forbidden = [dataset for dataset in datasets if any(word in dataset.licence for word in words)]

    assert forbidden and not any(dataset.redistributable for dataset in forbidden)


def test_our_own_registry_has_what_the_papers_used_and_what_stands_in_for_it() -> None:
    kinds = {name: dataset.task for name, dataset in load_registries([OURS]).items()}
    assert kinds == {
        "de-noun": "inflection",
        "de-noun-1000": "inflection",
        "kyoto-ja-en": "translation",
        "ddn13-de-noun": "inflection",
        "ddn13-de-verb": "inflection",
        "sigmorphon17-german": "inflection",
        "cldr-de-en": "translation",
        "iwslt14-de-en": "translation",
        "iwslt14-de-en-35k": "translation",
        "iwslt15-en-vi": "translation",
        "multi30k-de-en": "translation",
        "tanaka-ja-en": "translation",
        "europarl-de-en": "translation",
        "europarl-tatoeba-de-en": "translation",
        "tatoeba-de-en": "translation",
        "tatoeba-en-vi": "translation",
        "ted-europarl-de-en": "translation",
        "wat17-ja-en": "translation",
        "wmt16-ro-en": "translation",
        "acl-titles": "summarization",
        "aeslc": "summarization",
        "cnn-to-daily-mail": "summarization",
        "cnndm-see": "summarization",
        "cnndm-see-39k": "summarization",
        "duc2004": "summarization",
        "msrvtt-1000-vgg16": "captioning",
        "youtube2text": "captioning",
        "cldr-de-en-gold": "alignment",
        "rwth-de-en": "alignment",
    }


def test_eight_lines_make_a_data_set_of_ones_own(user_folder: Path) -> None:
    registry = user_folder / "datasets.yaml"
    assert len(registry.read_text().splitlines()) == 8

    dataset = find_dataset([OURS, registry], "my-nouns")
    assert dataset.local_paths() == [
        user_folder / f"{name}.tsv" for name in ("train", "dev", "test")
    ]
    assert dataset.splits == {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}


def test_an_unknown_data_set_names_the_closest() -> None:
    with pytest.raises(UserError, match=r"unknown data set `de-nuon`.*\n.*did you mean `de-noun`"):
        find_dataset([OURS], "de-nuon")


def test_a_name_in_two_registries_is_refused(registry: Writer) -> None:
    path = registry({"de-noun": entry()})
    with pytest.raises(UserError, match="in another registry already") as caught:
        load_registries([OURS, path])
    assert (caught.value.file, caught.value.line) == (str(path), 1)


def with_file(**file: Any) -> dict[str, Any]:
    """Make an entry of which one file has these keys."""
    files = entry()["files"]
    return entry(files={**files, "dev.tsv": file})


GERMAN = {"name": "german-nouns", "version": "1.2.5"}


def drawn(**package: Any) -> dict[str, Any]:
    """Make an entry whose files are drawn from a package."""
    files = {f"{name}.tsv": {} for name in ("train", "dev", "test")}
    return entry(package=GERMAN | package, files=files)


def pair(**options: Any) -> dict[str, Any]:
    """Make an entry of sentence pairs, a file for each language and split."""
    names = [f"{split}.{language}" for split in SPLITS for language in ("de", "en")]
    splits = {split: {"de": f"{split}.de", "en": f"{split}.en"} for split in SPLITS}
    return {
        "task": "translation",
        "files": {name: {"path": name} for name in names},
        "splits": splits,
        "format": {"source": "de", "target": "en"} | options,
    }


def parts(*german: str) -> dict[str, Any]:
    """Make splits whose training text has a part for each of these German files."""
    return pair()["splits"] | {"train": [{"de": name, "en": "train.en"} for name in german]}


@pytest.mark.parametrize(
    ("broken", "line", "message"),
    [
        (entry(licens="x"), "licens: x", r"unknown key.*licens.*\n.*`licence`"),
        ({"task": "inflection"}, "mine:", "missing key.*files"),
        (entry(title=3), "title: 3", "title"),
        (entry(task="inflexion"), "task: inflexion", "did you mean `inflection`"),
        (entry(format={"seperator": ";"}), "seperator: ;", r"unknown key.*\n.*`separator`"),
        (entry(format={"columns": ["lemma", "form"]}), "columns:", "each of lemma, features, form"),
        (with_file(urls=["https://a.org"], sha265="0"), "sha265: '0'", r"sha265.*\n.*`sha256`"),
        (with_file(urls=["https://a.org"], sha256="abc"), "sha256: abc", "sha256"),
        (with_file(urls=["https://a.org"], bytes=0), "bytes: 0", "bytes"),
        (with_file(urls=["ftp://a.org/x"]), "urls:", "not an https address"),
        (with_file(urls=["http://a.org/x"]), "urls:", "not an https address"),
        (with_file(urls=["https://[a.org/x"]), "urls:", "not an https address"),
        (with_file(urls=["https:///x"]), "urls:", "not an https address"),
        (with_file(urls=["https://a.org"], path="x"), "dev.tsv:", "both urls and a path"),
        (with_file(), "dev.tsv: {}", "has no source"),
        (entry(package=GERMAN), "train.tsv:", "source although its data set has a package"),
        (drawn(name="nouns"), "name: nouns", r"unknown package.*\n.*german-nouns"),
        (drawn(options={"sed": 1}), "sed: 1", r"unknown key.*\n.*`seed`"),
        (entry(splits={"train": "train.tsv"}), "splits:", "splits are train"),
        (entry(splits={"train": "a", "dev": "b", "test": "c"}), "train: a", "not one of the files"),
        (entry(splits={"train": ["a"], "dev": "b", "test": "c"}), "train:", "has a list of files"),
        (pair() | {"splits": parts("train.ed")}, "train:", "`train.ed`, which is not one of"),
        (pair() | {"splits": parts()}, "train: []", "has an empty list"),
        (entry(files={"../x.tsv": {"path": "x"}}), "../x.tsv:", "cannot be a file's name"),
        (with_file(urls=["https://a.org"], md5="abc"), "md5: abc", "md5"),
        (pair() | {"splits": {"train": {"de": "train.de"}}}, "splits:", "give train, dev, test"),
        (pair(dev_every=23), "splits:", "give train, test"),
        (pair(target="de"), "format:", "the same language"),
        (pair(target="en glish"), "target: en glish", "`mine.format.target`"),
        (
            pair(tokenize="mosses"),
            "format:",
            "no tokenizer `mosses`; known: characters, moses, none, unidic",
        ),
        (pair(read="line"), "read: line", "did you mean `lines`"),
        (pair(read={"kind": "lines", "devide": 1}), "devide: 1", "devide"),
        (pair(vocabulary={"size": 0}), "size: 0", "at least one word"),
        (pair(max_ratio=0.5), "max_ratio: 0.5", "greater than or equal to 1"),
    ],
)
def test_a_fault_is_named_with_file_line_and_hint(
    registry: Writer, broken: dict[str, Any], line: str, message: str
) -> None:
    path = registry({"mine": broken})
    with pytest.raises(UserError, match=message) as caught:
        load_registries([path])
    assert caught.value.file == str(path) and caught.value.line
    assert path.read_text().splitlines()[caught.value.line - 1].strip() == line
    assert caught.value.hint


def test_plain_http_is_accepted_where_the_hash_is_known(registry: Writer) -> None:
    path = registry({"mine": with_file(urls=["http://a.org/x"], sha256="0" * 64)})
    assert load_registries([path])["mine"].files["dev.tsv"].urls == ["http://a.org/x"]


@pytest.mark.parametrize("name", ["../up", "a b", "a;b", "-x"])
def test_a_name_that_a_path_or_shell_would_misread_is_refused(registry: Writer, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a data set's name"):
        load_registries([registry({name: entry()})])


@pytest.mark.parametrize("content", ["", "- a\n", "text\n"])
def test_a_file_that_is_no_registry_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "r.yaml").write_text(content)
    with pytest.raises(UserError, match="expected names of data sets"):
        load_registries([tmp_path / "r.yaml"])


def test_a_file_without_address_needs_a_word_on_how_to_get_it(registry: Writer) -> None:
    path = registry({"mine": entry(files={"a": {}}, splits=dict.fromkeys(SPLITS, "a"))})
    with pytest.raises(UserError, match=r"`a` has no source"):
        load_registries([path])

    licensed = entry(files={"a": {}}, splits=dict.fromkeys(SPLITS, "a"), obtain="Ask the author.")
    assert load_registries([registry({"mine": licensed})])["mine"].obtain == "Ask the author."


def test_a_task_reads_a_data_set_in_its_own_way(registry: Writer) -> None:
    dataset = load_registries([registry({"mine": pair(lowercase=True)})])["mine"]
    turned = dataset.with_format({"source": "en", "target": "de"})
    assert turned.format == {"source": "en", "target": "de", "lowercase": True}
    assert dataset.format["source"] == "de"


@pytest.mark.parametrize("folder", ["my {task} data", "a\nb"])
def test_a_path_that_snakemake_would_not_take_as_it_is_is_refused(
    folder: str, user_folder: Path, tmp_path: Path
) -> None:
    odd = user_folder.rename(tmp_path / folder)
    with pytest.raises(UserError, match="braces") as caught:
        load_registries([odd / "datasets.yaml"])
    assert caught.value.line == 6 and caught.value.hint
