"""Search, analysis and commands with a model whose sources have no end symbol."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from pam.cli import main
from pam.data.dataset import Prepared
from pam.data.vocabulary import EOS, PAD
from pam.decoding import generator
from pam.decoding.hypotheses import LengthPrior
from pam.evaluation.analyze import analyze, heat_maps
from pam.evaluation.attention import Gatherer, Sentence
from pam.experiments.settings import Decoding
from pam.models.checkpoint import SavedModel, load_model
from pam.models.model import without_end
from pam.runtime.errors import UserError
from tests.cli import phrases
from tests.decoding.best import outputs_of
from tests.models import tiny
from tests.training import small

SOURCES = [[5], [6, 7, 8], [8, 5]]


def test_an_end_symbol_is_left_out_where_there_is_one() -> None:
    source = torch.tensor([[5, 6, EOS], [5, EOS, PAD], [5, 6, 7], [EOS, PAD, PAD]])
    assert without_end(source, torch.tensor([3, 2, 3, 1])).tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_have_their_likelihood_given_the_bare_source(beam: int) -> None:
    model = tiny.model(tiny.components("postr-joint"))
    decoding = Decoding(beam=beam, max_ratio=1, max_extra=4)
    outputs_of_sources = outputs_of(model, SOURCES, decoding, source_eos=False)

    for source, (output, *_) in zip(SOURCES, outputs_of_sources, strict=True):
        target = torch.tensor([[*output.symbols, EOS][: len(output.symbols) + output.complete]])
        with torch.no_grad():
            log_probs = model.log_likelihood(
                torch.tensor([source]), torch.tensor([len(source)]), target
            ).sum()
        assert output.log_prob == pytest.approx(float(log_probs), rel=1e-9)


@pytest.mark.parametrize("source_eos", [True, False])
def test_an_unknown_word_is_replaced_by_any_word_but_not_by_the_end(source_eos: bool) -> None:
    model = tiny.model(tiny.components("soft"))
    model.readout.output.bias.data[EOS] = -5.0  # for outputs of some length
    decoding = Decoding(replace_unknown=True, max_ratio=1, max_extra=4)
    last = []
    outputs_of_sources = outputs_of(model, SOURCES, decoding, source_eos=source_eos)

    for source, (output,) in zip(SOURCES, outputs_of_sources, strict=True):
        read = torch.tensor([[*source, EOS] if source_eos else source])
        forced = model.teacher_force(
            read, torch.tensor([read.shape[1]]), torch.tensor([output.symbols])
        )
        most_attended = forced.alignment[0, :, : len(source)].argmax(1).tolist()
        assert len(output.attended) > 2
        assert output.attended == most_attended[: len(output.attended)]
        last.append(len(source) - 1 in output.attended)

    assert any(last)


@pytest.mark.parametrize("source_eos", [True, False])
def test_a_length_prior_is_asked_for_the_words_of_the_source(source_eos: bool) -> None:
    model = tiny.model(tiny.components("soft"))
    prior = LengthPrior.fit([1, 2, 3], [1, 4, 2])
    decoding = Decoding(beam=3, length_prior=0.5, max_ratio=1, max_extra=4)
    outputs_of_sources = outputs_of(model, SOURCES, decoding, prior=prior, source_eos=source_eos)
    for source, (output, *_) in zip(SOURCES, outputs_of_sources, strict=True):
        assert output.complete
        of_length = prior.log_probs(len(source), 9)[len(output.symbols)]
        assert output.score == pytest.approx(output.log_prob + 0.5 * of_length)


def test_an_empty_source_is_refused_only_where_nothing_is_left_to_attend_to() -> None:
    model = tiny.model(tiny.components("soft"))
    assert len(outputs_of(model, [[5], []], Decoding())) == 2
    with pytest.raises(UserError, match="source 1 is empty"):
        outputs_of(model, [[5], []], Decoding(), source_eos=False)


def test_attention_is_gathered_over_words_whether_an_end_follows_or_not() -> None:
    rng = np.random.default_rng(3)
    bare = rng.dirichlet(np.ones(4), 3)
    ended = np.concatenate([bare, np.zeros((3, 1))], 1)  # an end that nothing attends to
    rows = []

    for weights in (bare, ended):
        gatherer = Gatherer()
        likelihood = np.log(np.full(3, 0.5))
        sentence = Sentence(
            likelihood,
            likelihood,
            np.ones(3, bool),
            weights,
            weights,
            weights,
            source_words=[0, 0, 1, 2],
            target_words=[0, 1],
        )
        gatherer.add(0, sentence)
        rows.append(gatherer.rows[0])

    assert rows[0] == rows[1]
    assert rows[0]["source_words"] == 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Prepare phrases with and without end symbols of sources."""
    folder = tmp_path_factory.mktemp("phrases")
    return {end: phrases.prepare(folder / str(end), source_eos=end) for end in (True, False)}


@pytest.fixture(scope="module")
def trained(data: dict[bool, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a model of sources without end symbols."""
    out = tmp_path_factory.mktemp("trained")
    small.write_run(out, small.run("soft", epochs=10, select="loss", state_every_s=60.0))
    assert main(["train", "--run", str(out), "--data", str(data[False]), "--device", "cpu"]) == 0
    return out


@pytest.fixture
def model(trained: Path) -> SavedModel:
    return load_model(trained / "model")


def test_a_model_knows_how_its_sources_end(model: SavedModel) -> None:
    assert not model.source_eos


def test_data_of_the_other_kind_are_refused(
    model: SavedModel, trained: Path, data: dict[bool, Path], tmp_path: Path
) -> None:
    writer = generator.Generator(model, Decoding())
    uses = {
        "predict": lambda: generator.predict_split(
            writer, data[True], "test", tmp_path / "p.tsv", None
        ),
        "analyze": lambda: analyze(model, data[True], "test", 4),
        "attention": lambda: heat_maps(model, data[True], "test", 1),
    }
    for use in uses.values():
        with pytest.raises(
            UserError, match="trained with sources that do not end in an end symbol"
        ) as caught:
            use()
        assert caught.value.file == str(data[True] / "test.safetensors")
        assert "source_eos: false" in str(caught.value.hint)


def test_predictions_are_of_bare_sources(
    model: SavedModel, trained: Path, data: dict[bool, Path], tmp_path: Path
) -> None:
    writer = generator.Generator(model, Decoding(beam=2))
    generator.predict_split(writer, data[False], "test", tmp_path / "p.tsv", None)
    lines = [
        line.split("\t")
        for line in (tmp_path / "p.tsv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    split = Prepared(data[False]).split("test")

    for row, (_, _, predicted, log_prob, *_) in enumerate(lines):
        source = torch.from_numpy(split.sources[row]).long()[None]
        target = torch.tensor([[*model.target.encode(predicted.split()), EOS]])
        with torch.no_grad():
            log_probs = model.network.log_likelihood(
                source, torch.tensor([source.shape[1]]), target
            ).sum()
        assert float(log_prob) == pytest.approx(float(log_probs), abs=1e-4)


def test_an_analysis_is_that_of_one_sentence_after_the_other(
    model: SavedModel, data: dict[bool, Path]
) -> None:
    together = analyze(model, data[False], "test", 4).sentences
    split = Prepared(data[False]).split("test")
    for row in range(len(split)):
        source = torch.from_numpy(split.sources[row]).long()[None]
        target = torch.from_numpy(split.targets[row]).long()[None]
        forced = model.network.teacher_force(source, torch.tensor([source.shape[1]]), target)
        assert together.nll[row] == pytest.approx(-float(forced.log_probs.sum()), abs=1e-4)
        assert together.source_words[row] == source.shape[1]
        attended = forced.alignment[0, :-1].argmax(1).tolist()
        assert [tuple(link) for link in together.links[row]] == [
            (a, t) for t, a in enumerate(attended)
        ]


def test_a_heat_map_has_no_row_for_an_end(model: SavedModel, data: dict[bool, Path]) -> None:
    (heat_map,) = heat_maps(model, data[False], "test", 1)["rows"]
    assert "</s>" not in heat_map["source"] and heat_map["target"][-1] == "</s>"
    assert {len(line) for line in heat_map["alignment"]} == {len(heat_map["source"])}


def test_models_of_both_kinds_cannot_be_joined(
    trained: Path, data: dict[bool, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tmp_path / "task"
    shutil.copytree(trained, task / "soft" / "seed1")
    without_end = task / "prior-joint" / "seed1"
    small.write_run(without_end, small.run("prior-joint", epochs=1, select="loss"))

    assert (
        main(["train", "--run", str(without_end), "--data", str(data[True]), "--device", "cpu"])
        == 0
    )

    run = small.run("ensemble")
    members = [
        {"components": small.components(name), "network": run.network}
        for name in ("soft", "prior-joint")
    ]
    components = run.components.model_copy(update={"members": ["soft", "prior-joint"]})
    joined = run.model_validate(
        run.model_dump() | {"components": components.model_dump(), "members": members}
    )
    small.write_run(task / "ensemble" / "seed1", joined)

    assert main(["ensemble", "--run", str(task / "ensemble" / "seed1")]) == 2
    assert "reads sources that end in an end symbol" in capsys.readouterr().err


def test_typed_text_is_read_without_an_end(
    trained: Path,
    model: SavedModel,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[list[int]] = []
    encode = type(model.network).encode

    def noted(self, source, *arguments):  # type: ignore[no-untyped-def]
        read.extend(source.tolist())
        return encode(self, source, *arguments)

    monkeypatch.setattr(type(model.network), "encode", noted)
    writer = generator.Generator(model, Decoding())
    ((hypothesis,),) = writer([["das", "haus"]])

    assert read == [model.source.encode(["das", "haus"])]
    assert json.dumps(hypothesis.text)
