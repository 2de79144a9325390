"""The command `align` and `TrainedModel.align`: links of the words of two texts."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pam
from pam.alignment.aligner import Aligner, Settings
from pam.alignment.pair_models import SavedPairModel
from pam.data.codecs import Codec
from pam.experiments.model import ModelConfig
from pam.experiments.settings import Network
from pam.models.agreement import Agreement
from pam.models.build import build
from pam.runtime.errors import UserError
from pam.tasks.translation.codec import TranslationCodec
from tests.cli.conftest import Call

PHRASES = "pretrained:phrases/postr-joint"
SOURCE = "Am 14. Mai waren es 5 Grad Celsius in Irland."
TARGET = "On May 14, it was 5 degrees Celsius in Ireland."


@pytest.fixture(scope="module")
def model() -> pam.TrainedModel:
    return pam.load(PHRASES)


def write(folder: Path, **files: str) -> list[object]:
    """Write source and target, and return the options that name them."""
    options: list[object] = []
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
        options += [f"--{name}", folder / name]
    return options


def test_each_pair_has_a_line_and_what_is_wrong_with_one_is_told(
    called: Call, tmp_path: Path
) -> None:
    long = "Irland " * 40
    files = write(
        tmp_path,
        source=f"{SOURCE}\r\n\r\n我们\r\n{long}\r\nIrland\r\nMai\r\n",
        target=f"{TARGET}\n\nwe\nIreland\n\nMay",
    )
    # As `predict` names such a model.
    model_options = ["--pretrained", "phrases/postr-joint"]
    result = called("align", *model_options, *files, "--longest", 30, "--device", "cpu")

    assert result.code == 0
    lines = result.out.split("\n")
    assert lines[1:] == ["", "", "", "", "0-0", ""]
    links = [tuple(map(int, link.split("-"))) for link in lines[0].split()]
    assert (2, 1) in links  # Mai and May
    for number in (3, 4, 5):
        assert f"source:{number}: " in result.err
    for number in (1, 2, 6):
        assert f"source:{number}: " not in result.err
    assert "40 symbols" in result.err


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (
            "Die Abgeordneten haben gestern über den Haushalt abgestimmt.",
            "The members voted on the budget yesterday.",
            "Abgeordneten members, gestern yesterday., Haushalt budget, abgestimmt. voted",
        ),
        (
            "Meine Schwester hat ein neues Fahrrad gekauft.",
            "My sister bought a new bicycle.",
            "Schwester sister, neues new, Fahrrad bicycle., gekauft. bought",
        ),
    ],
)
def test_the_aligner_of_the_package_links_a_sentence_that_nobody_has_tokenized(
    called: Call, tmp_path: Path, source: str, target: str, expected: str
) -> None:
    files = write(tmp_path, source=f"{source}\n", target=f"{target}\n")
    result = called("align", "--pretrained", "de-en/aligner", *files, "--smooth")

    links = {tuple(map(int, link.split("-"))) for link in result.out.split()}
    for pair in expected.split(", "):
        german, english = pair.split()
        assert (source.split().index(german), target.split().index(english)) in links


def test_json_has_the_tokenizer_s_words_with_their_places(called: Call, tmp_path: Path) -> None:
    files = write(tmp_path, source=f" {SOURCE}\n", target=f"{TARGET}\n")
    out = tmp_path / "links.jsonl"
    options = ["--format", "jsonl", "--offsets", "--probabilities", "--device", "cpu"]
    result = called("align", "--run", PHRASES, *files, *options, "--out", out)
    assert (result.code, result.out) == (0, "")

    record = json.loads(out.read_text())
    for side, line in (("source", f" {SOURCE}"), ("target", TARGET)):
        words = record[f"{side}_words"]
        assert [line[start:end] for start, end in record[f"{side}_offsets"]] == words
        assert words[-1] == "."
    probabilities = np.array(record["probabilities"])
    assert probabilities.shape == (len(record["source_words"]), len(record["target_words"]))
    for link in record["links"]:
        assert link["probability"] == probabilities[link["source"], link["target"]]


def test_files_of_different_lengths_are_refused_before_any_work(
    called: Call, tmp_path: Path
) -> None:
    files = write(tmp_path, source="Irland\nMai\n", target="Ireland\n")
    out = tmp_path / "links"
    result = called("align", "--run", PHRASES, *files, "--out", out, "--device", "cpu")

    message, _ = result.message()
    assert "source: 2 lines" in message
    assert not out.exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--symmetrize", "union"],
        ["--threshold", "0"],
        ["--threshold", "1.5"],
        ["--offsets"],
        ["--batch-size", "0"],
        ["--reverse", PHRASES],
        ["--run", ""],
        ["--gold", "gold"],
        ["--run", "pretrained:nouns/soft", "--offsets", "--format", "jsonl"],
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str], called: Call, tmp_path: Path
) -> None:
    files = write(tmp_path, source="Irland\n", target="Ireland\n")
    result = called("align", "--run", PHRASES, *files, "--device", "cpu", *options)
    result.message()


def test_the_library_gives_the_links_of_the_command(
    model: pam.TrainedModel, called: Call, tmp_path: Path
) -> None:
    files = write(tmp_path, source=f"{SOURCE}\nMai\n", target=f"{TARGET}\nMay\n")
    options = ["--threshold", "0.4", "--smooth", "--device", "cpu"]
    result = called("align", "--run", PHRASES, *files, *options)

    alignments = model.align([SOURCE, "Mai"], [TARGET, "May"], threshold=0.4, smooth=True)
    lines = [
        " ".join(f"{link.source}-{link.target}" for link in of_pair.links) for of_pair in alignments
    ]
    assert result.out.splitlines() == lines
    assert "independent" in result.err

    single = model.align(SOURCE, TARGET, threshold=0.4)
    assert [link[:2] for link in single.links] == [link[:2] for link in alignments[0].links]
    assert all(link.probability >= 0.4 for link in single.links)
    # What a column lacks to one is the probability that the word has no link.
    assert (single.probabilities.sum(0) <= 1 + 1e-6).all()
    assert single.plot().get_xticklabels()[1].get_text() == "May"


def test_symbols_are_the_words_where_a_model_reads_no_sentences() -> None:
    nouns = pam.load("pretrained:nouns/postr-joint")
    pair = nouns.align("Apfelbaum\tcase=nominative,number=plural", "Apfelbäume")

    linked = [(pair.source[i].text, pair.target[j].text) for i, j, _ in pair.links]
    assert ("a", "ä") in linked


def test_batches_change_nothing(model: pam.TrainedModel) -> None:
    sources = [SOURCE, "Mai", "in Irland", SOURCE]
    targets = [TARGET, "May", "in Ireland", "May"]
    together = model.align(sources, targets)

    for source, target, expected in zip(sources, targets, together, strict=True):
        alone = model.align(source, target)
        np.testing.assert_allclose(alone.probabilities, expected.probabilities, atol=1e-5)


def turned(codec: Codec) -> TranslationCodec:
    assert isinstance(codec, TranslationCodec)
    sides = {"source": codec.settings.target, "target": codec.settings.source}
    return TranslationCodec(codec.settings.model_copy(update=sides))


def test_both_directions_are_joined(model: pam.TrainedModel) -> None:
    """The probabilities of the opposite direction are those of texts in turn."""
    # Its symbols are unknown but for a few, which suffices to see what is joined.
    reverse = replace(model, saved=replace(model.saved, codec=turned(model.saved.codec)))
    source, target = "in Berlin 5 .", "in Berlin 5 ."
    ahead = model.align(source, target)
    back = reverse.align(target, source)

    joined = model.align(source, target, reverse=reverse, symmetrize="union")
    expected = {(i, j) for i, j, _ in ahead.links} | {(i, j) for j, i, _ in back.links}
    assert {(i, j) for i, j, _ in joined.links} == expected
    np.testing.assert_allclose(
        joined.probabilities, (ahead.probabilities + back.probabilities.T) / 2, atol=1e-6
    )
    product = model.align(source, target, reverse=reverse, symmetrize="product", threshold=0.3)
    np.testing.assert_allclose(
        product.probabilities**2, ahead.probabilities * back.probabilities.T, atol=1e-6
    )
    assert {(i, j) for i, j, _ in product.links} == {
        (i, j) for i, j in np.argwhere(product.probabilities >= 0.3).tolist()
    }


def test_a_model_that_was_trained_for_agreement_links_in_both_directions(
    model: pam.TrainedModel,
) -> None:
    saved = model.saved
    components = ModelConfig(
        label="Agreement",
        architecture={"kind": "aligned-transformer-agreement", "heads": 1, "of": "posterior"},
        marginalization="output",
        input_feeding={"kind": "posterior", "context": False},
    )
    network = build(components, Network(embedding=8), len(saved.source), len(saved.target)).eval()
    assert isinstance(network, Agreement)
    agreeing = replace(model, saved=replace(saved, network=network))
    opposite = replace(
        model,
        saved=replace(
            saved,
            network=network.back,
            source=saved.target,
            target=saved.source,
            codec=turned(saved.codec),
        ),
    )

    alone = agreeing.align(SOURCE, TARGET, symmetrize="none")
    expected = agreeing.align(SOURCE, TARGET, reverse=opposite, symmetrize="union")
    joined = agreeing.align(SOURCE, TARGET, symmetrize="union")

    assert joined.links == expected.links
    assert set(joined.links) != set(alone.links)
    product = agreeing.align(SOURCE, TARGET, symmetrize="product")
    assert agreeing.align(SOURCE, TARGET).links == product.links
    np.testing.assert_allclose(alone.probabilities.sum(0), 1, atol=1e-6)


def test_a_model_that_is_not_of_the_opposite_direction_is_refused(
    model: pam.TrainedModel,
) -> None:
    with pytest.raises(UserError, match="opposite"):
        Aligner(SavedPairModel(model.saved), SavedPairModel(model.saved), Settings())


def test_links_are_scored_by_the_command(called: Call, tmp_path: Path) -> None:
    files = write(tmp_path, alignments="0-0 1-1\n\n", gold="0-0 1p1\n1-0\n")
    result = called("score", *files)
    assert result.code == 0
    assert "aer: 0.250" in result.out

    out = tmp_path / "scores.json"
    assert called("score", *files, "--out", out).code == 0
    assert json.loads(out.read_text())["metrics"]["recall"]["value"] == 0.5
    called("score", *files[:2]).message()
    called("score", *files, "--references", tmp_path / "gold").message()


def test_links_in_the_format_naacl_may_lack_the_last_pairs_on_either_side(
    called: Call, tmp_path: Path
) -> None:
    few = "1 1 1 S\n2 2 1 S\n"
    more = "1 1 1 S\n2 1 1 S\n3 1 1 S\n"
    for alignments, gold, note in (
        (few, more, "1 of 3 pairs have no links"),
        (more, few, "1 of 3 pairs have no gold links"),
    ):
        result = called("score", *write(tmp_path, alignments=alignments, gold=gold))
        assert result.code == 0, result.err
        assert "of 3 pairs" in result.out
        assert note in result.out + result.err


def test_a_model_in_a_folder_aligns_too(called: Call, trained: Path, tmp_path: Path) -> None:
    line = "Haus\tcase=dative,number=plural\n"
    files = write(tmp_path, source=line, target="Häusern\n")
    shutil.copytree(trained / "model", tmp_path / "model")
    of_run = called("align", "--run", trained, *files, "--device", "cpu")
    of_folder = called("align", "--run", tmp_path / "model", *files, "--device", "cpu")
    assert of_run.code == 0
    assert of_run.out == of_folder.out != "\n"


def test_texts_of_blank_lines_have_blank_links_and_none_is_a_problem(
    called: Call, tmp_path: Path
) -> None:
    files = write(tmp_path, source="\n\nHaus\n", target="\n\n\n")
    record = tmp_path / "record.json"
    result = called("align", "--run", PHRASES, *files, "--record", record, "--device", "cpu")

    assert (result.code, result.out) == (0, "\n\n\n")
    counts = json.loads(record.read_text())
    assert (counts["pairs"], counts["blank"], counts["problems"]) == (3, 3, 0)


def test_a_program_that_is_not_installed_has_a_blank_line_for_each_pair_and_is_told(
    called: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    program = ["align", "--aligner", "eflomal", "--if-installed"]
    result = called(*program, *write(tmp_path, source="Haus\nMai\n", target="house\nMay\n"))
    assert (result.code, result.out) == (0, "\n\n")
    assert "eflomal is not installed" in result.err

    # What is wrong besides is an error all the same.
    files = write(tmp_path, source="Haus\n", target="house\nMay\n")
    assert "source: 1 lines" in called(*program, *files).err
    assert "product" in called(*program, *files, "--symmetrize", "product").message()[0]
