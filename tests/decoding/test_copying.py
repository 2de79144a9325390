"""A model that copies, from two texts to outputs with words that no vocabulary has."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pam
from pam.cli import main
from pam.data.dataset import Examples, Prepared
from pam.data.vocabulary import EOS, UNK, Vocabulary
from pam.decoding.files import Answer, answers, attended, read_again
from pam.decoding.generator import Generator
from pam.evaluation.analyze import analyze, heat_maps
from pam.experiments.settings import Decoding
from pam.models.build import build
from pam.models.checkpoint import SavedModel, load_model, save_model
from tests.data.pairs import ready
from tests.training import small

NAMES = ["".join(random.Random(number).choices("abdefgiklmnoprstuvz", k=6)) for number in range(90)]
TEXTS = {
    split: [(f"hier wohnt {name} .", f"{name} lives here .") for name in names]
    for split, names in (("train", NAMES[:70]), ("dev", NAMES[70:80]), ("test", NAMES[80:]))
}
"""Every name is another one, so that no vocabulary of words that occur twice has it."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready(
        tmp_path_factory.mktemp("names"), TEXTS, vocabulary={"min_count": 2}, tokenize="none"
    )


def test_an_unknown_word_has_the_id_of_its_first_place_in_the_source() -> None:
    words = Vocabulary(["a", "b"])
    source = ["x", "a", "y", "x"]
    assert words.encode(source, source) == [7, 5, 9, 7]
    assert words.encode(["b", "y", "z", "x"], source) == [6, 9, UNK, 7]
    assert words.spell([6, 9, UNK, 7, EOS], source) == ["b", "y", "<unk>", "x", "<eos>"]


def test_prepared_data_know_what_can_be_copied(data: Path) -> None:
    prepared = Prepared(data)
    plain = prepared.split("test")
    extended = prepared.split("test", extended=True)
    size = len(prepared.source)
    written = len(prepared.target)

    assert plain.sources[0].tolist()[2] == UNK and plain.targets[0].tolist()[0] == UNK
    assert (
        extended.sources[0].tolist()[2] == size + 2
        and extended.targets[0].tolist()[0] == written + 2
    )
    assert extended.sources[0].tolist()[:2] == plain.sources[0].tolist()[:2]
    assert extended.targets[0].tolist()[1:] == plain.targets[0].tolist()[1:]


def test_what_is_cut_off_a_source_cannot_be_copied(data: Path) -> None:
    prepared = Prepared(data)
    examples = Examples(prepared.split("test", extended=True), "symbols", len(prepared.target))
    short = examples.cut(2, 3)
    batch = examples.batch(torch.arange(4).numpy())
    cut = short.batch(torch.arange(4).numpy())

    assert cut.source.shape == (4, 2) and cut.lengths.tolist() == [2] * 4
    assert torch.equal(cut.source, batch.source[:, :2])
    assert batch.target[0, 0] == len(prepared.target) + 2 and (cut.target[:, 0] == UNK).all()
    assert torch.equal(cut.target[:, 1:], batch.target[:, 1:3])  # no end
    assert torch.equal(examples.cut(3, None).batch(torch.arange(4).numpy()).target, batch.target)


@pytest.fixture(scope="module")
def untrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> pam.TrainedModel:
    """A model that copies, with fresh weights; not to be changed."""
    prepared = Prepared(data)
    run = small.run("soft-pointer")
    torch.manual_seed(1)
    network = build(run.components, run.network, len(prepared.source), len(prepared.target))
    folder = tmp_path_factory.mktemp("untrained")
    save_model(folder, run, prepared.summary["task"], data, network.state_dict())
    return pam.load(folder)


def test_outputs_tell_what_they_copied(untrained: pam.TrainedModel) -> None:
    source, _ = TEXTS["test"][0]
    (output,) = untrained.predict(source, n_best=1, details=True, max_length=8)
    assert output.copied is not None and output.log_probs is not None
    assert output.copied.shape == output.log_probs.shape == (len(output.symbols),)

    is_in_source = np.array([symbol in source.split() for symbol in output.symbols])
    assert is_in_source.any()
    assert (output.copied[is_in_source] > 0).all()
    assert (output.copied[~is_in_source] == 0).all()
    # A name that no vocabulary has can only be copied.
    is_name = np.array([symbol == NAMES[80] for symbol in output.symbols])
    np.testing.assert_allclose(output.copied[is_name], 1.0, atol=1e-5)


def test_a_score_takes_a_name_in_the_unread_part_of_a_source_for_unknown(
    untrained: pam.TrainedModel,
) -> None:
    model = untrained
    run = model.config
    decoding = run.decoding.model_copy(update={"max_source": 2})
    short = replace(model, config=run.model_copy(update={"decoding": decoding}))

    source, target = TEXTS["test"][0]
    name = NAMES[80]
    cut = " ".join(source.split()[:2])
    scores = short.score([source, f"{cut} nobody"], [target, target])
    np.testing.assert_array_equal(scores[0].log_probs, scores[1].log_probs)
    assert scores[0].log_prob > -100
    assert [score.unseen for score in scores] == [[name], [name]]
    assert model.score(source, target).unseen == []


def answer_of(model: SavedModel, path: Path) -> tuple[Answer, Generator]:
    """Return the answer to a file of one line, and the generator that wrote it."""
    generator = Generator(model, Decoding(beam=5))
    (answer,) = answers(generator, path)
    return answer, generator


@pytest.mark.slow
@pytest.mark.parametrize("model", ["soft-pointer", "postr-joint-pointer"])
def test_words_that_no_vocabulary_has_are_learned_to_be_copied_and_are_spelt(
    model: str, data: Path, tmp_path: Path
) -> None:
    run = small.run(model, epochs=25, select="loss", learning_rate=0.03, state_every_s=60.0)
    small.write_run(
        tmp_path,
        run.model_copy(update={"network": run.network.model_copy(update={"dropout": 0.0})}),
    )

    assert main(["train", "--run", str(tmp_path), "--data", str(data), "--device", "cpu"]) == 0

    trained = load_model(tmp_path / "model")
    sources = [source.split() for source, _ in TEXTS["test"]]
    outputs = Generator(trained, Decoding(beam=5))(sources)

    assert [output.target for (output, *_) in outputs] == [target for _, target in TEXTS["test"]]

    path = tmp_path / "sources.txt"
    path.write_text(f"{TEXTS['test'][0][0]}\n", encoding="utf-8")
    answer, generator = answer_of(trained, path)
    (read,) = read_again(generator, answer).outputs

    assert read.tokens == [*TEXTS["test"][0][1].split(), "</s>"]
    assert read.copied is not None and read.copied[0] and not read.copied[1]
    assert attended(generator, [answer])["rows"][0]["target"] == read.tokens
    # Teacher forcing knows of these words too.
    assert max(analyze(trained, data, "test", 4).sentences.nll) < 2

    maps = heat_maps(trained, data, "test", 1)["rows"]
    assert max(range(4), key=maps[0]["alignment"][0].__getitem__) == 2
