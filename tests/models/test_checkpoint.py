"""A model folder carries what turns text into symbols, and notices what is not its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pam.data.dataset import Prepared
from pam.experiments.run_config import RunConfig
from pam.experiments.settings import Decoding, Network, Training
from pam.models.build import build
from pam.models.checkpoint import load_model, save_model
from pam.runtime.errors import UserError
from tests.data.pairs import many, ready
from tests.models.tiny import components

SIZES = Network(embedding=4, encoder=3, decoder=5)


@pytest.fixture
def data(tmp_path: Path) -> Prepared:
    return Prepared(ready(tmp_path / "data", subwords={"merges": 12}, lowercase=True))


def saved(folder: Path, data: Prepared) -> Path:
    run = RunConfig(
        experiment="e",
        task="t",
        model="soft",
        label="Soft",
        seed=1,
        components=components(),
        network=SIZES,
        training=Training(),
        decoding=Decoding(),
    )
    network = build(run.components, SIZES, len(data.source), len(data.target))
    save_model(folder, run, data.summary["task"], data.folder, network.state_dict())
    return folder


def test_a_model_alone_turns_typed_text_into_the_symbols_it_learned(
    tmp_path: Path, data: Prepared
) -> None:
    folder = saved(tmp_path / "model", data)
    symbols = data.codec.source_symbols(data.codec.typed_source("Der Hund schläft!"))
    shutil.rmtree(data.folder)
    model = load_model(folder)

    assert model.task == "translation"
    assert model.codec.source_symbols(model.codec.typed_source("Der Hund schläft!")) == symbols


def test_a_codec_of_another_model_is_noticed(tmp_path: Path, data: Prepared) -> None:
    folder = saved(tmp_path / "model", data)
    other = ready(tmp_path / "other", subwords={"merges": 11})
    shutil.copy(other / "codec.json", folder / "codec.json")
    with pytest.raises(UserError, match="does not belong to the model") as caught:
        load_model(folder)

    assert caught.value.file == str(folder / "codec.json")


def test_a_vocabulary_of_another_model_is_noticed(tmp_path: Path, data: Prepared) -> None:
    folder = saved(tmp_path / "model", data)
    shutil.copy(ready(tmp_path / "other", many(9)) / "target.vocab", folder / "target.vocab")
    with pytest.raises(UserError, match="does not belong to the model") as caught:
        load_model(folder)
    assert caught.value.file == str(folder / "target.vocab")


def test_a_missing_codec_is_named(tmp_path: Path, data: Prepared) -> None:
    folder = saved(tmp_path / "model", data)
    (folder / "codec.json").unlink()
    with pytest.raises(UserError, match="no such file") as caught:
        load_model(folder)
    assert caught.value.file == str(folder / "codec.json")
