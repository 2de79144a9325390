"""Training from Python: pairs of texts become a run like any other, which is loaded."""

from __future__ import annotations

import csv
import doctest
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import pam
from pam.cli import main
from pam.data.dataset import Prepared
from pam.experiments.run_folder import RunFolder
from pam.library import pairs as training
from pam.runtime.errors import UserError
from pam.runtime.files import read_json
from tests.training import small

PAIRS = [(f"{lemma}\t{features}", form) for lemma, features, form in small.ROWS["train"]]
SMALL: dict[str, Any] = {
    "network": {"embedding": 8, "encoder": 8, "decoder": 8, "dropout": 0.0},
    "training": {"epochs": 2, "batch_size": 16, "learning_rate": 0.01, "state_every_s": 60.0},
    "decoding": {"max_ratio": 1.0, "max_extra": 3},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python") / "nouns"


@pytest.fixture(scope="module")
def epochs() -> list[Any]:
    return []


@pytest.fixture(scope="module")
def model(folder: Path, epochs: list[Any]) -> pam.TrainedModel:
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    before = torch.get_rng_state()
    trained = pam.train(PAIRS, folder, model="soft", on_epoch=epochs.append, **SMALL)
    # The process is left as it was.
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    return trained


def test_the_example_of_the_reference_prints_what_it_shows() -> None:
    results = doctest.testmod(training, verbose=False)
    assert results.failed == 0 and results.attempted > 0


def test_a_run_is_left_as_the_workflow_leaves_it(
    model: pam.TrainedModel, folder: Path, epochs: list[Any]
) -> None:
    run = RunFolder(folder / "soft/seed1")
    assert all(file.is_file() for file in (*run.model_files, run.config_file, run.training))
    assert (run.path / "events").is_dir()
    assert run.load().label == model.label == "Soft"
    assert "pam.train" in read_json(run.training)["command"]

    with open(run.history, encoding="utf-8", newline="") as file:
        history = list(csv.DictReader(file))
    assert [row["epoch"] for row in epochs] == [1, 2] == [int(row["epoch"]) for row in history]
    assert [row["dev_loss"] for row in epochs] == [float(row["dev_loss"]) for row in history]

    # The commands open it.
    assert main(["predict", "--run", str(run.path), "--split", "test", "--device", "cpu"]) == 0
    assert main(["score", "--run", str(run.path)]) == 0
    assert pam.load(run.path).score(*PAIRS[0]).log_prob == model.score(*PAIRS[0]).log_prob


def test_the_splits_are_the_pairs_each_once(model: pam.TrainedModel, folder: Path) -> None:
    rows = {
        split: list(Prepared(folder / "data").rows(split)) for split in ("train", "dev", "test")
    }
    assert {split: len(of_split) for split, of_split in rows.items()} == {
        "train": 48,
        "dev": 6,
        "test": 6,
    }
    listed = [("\t".join(row[:-1]), row[-1]) for of_split in rows.values() for row in of_split]
    assert sorted(listed) == sorted(PAIRS)


def test_it_is_the_training_of_the_command(
    model: pam.TrainedModel, folder: Path, tmp_path: Path
) -> None:
    run = folder / "soft/seed1"
    (tmp_path / "run.yaml").write_bytes((run / "run.yaml").read_bytes())
    arguments = ["--run", str(tmp_path), "--data", str(folder / "data"), "--device", "cpu"]
    assert main(["train", *arguments]) == 0
    weights = pam.load(tmp_path).saved.network.state_dict()
    for name, value in model.saved.network.state_dict().items():
        assert torch.equal(value, weights[name])


def test_the_same_call_loads_what_is_finished_and_another_model_shares_the_data(
    model: pam.TrainedModel, folder: Path
) -> None:
    prepared = (folder / "data/summary.json").stat().st_mtime_ns
    epochs: list[Any] = []
    again = pam.train(iter(PAIRS), folder, model="soft", on_epoch=epochs.append, **SMALL)
    assert again.score(*PAIRS[0]).log_prob == model.score(*PAIRS[0]).log_prob
    assert epochs == []

    other = pam.train(PAIRS, folder, model="postr-joint", seed=2, **SMALL)
    assert other.label == "Postr-Joint" and other.run is not None
    assert other.run.path == folder / "postr-joint/seed2"
    assert (folder / "data/summary.json").stat().st_mtime_ns == prepared


@pytest.mark.parametrize("form", ["model", "run", pytest.param("file", marks=pytest.mark.faults)])
def test_fine_tuning_starts_from_weights_and_symbols_of_a_model(
    model: pam.TrainedModel, folder: Path, tmp_path: Path, form: str
) -> None:
    start: Any = model
    if form == "run":
        start = folder / "soft/seed1"
    if form == "file":
        start = tmp_path / "start.pam"
        model.export(start)

    # `Q` is no letter of the model.
    pairs = [*PAIRS[:6], ("Qual\tcase=nominative,number=plural", "Qualen")]
    steps = {"epochs": 1, "learning_rate": 1e-12}
    tuned = pam.train(
        pairs, tmp_path / "tuned", init=start, dev=PAIRS[6:8], training=steps, device="cpu"
    )
    assert tuned.label == model.label
    assert tuned.saved.source.symbols == model.saved.source.symbols
    assert "Q" in tuned.unseen(pairs[-1][0])
    assert tuned.decoding == model.decoding
    assert tuned.config.training.batch_size == SMALL["training"]["batch_size"]
    for name, value in model.saved.network.state_dict().items():
        torch.testing.assert_close(tuned.saved.network.state_dict()[name], value, atol=1e-6, rtol=0)
    # A model that was tuned is started from in turn.
    assert pam.load(tmp_path / "tuned/soft/seed1").predict(PAIRS[0][0]) is not None


def test_weights_that_a_model_has_now_are_those_that_training_starts_from(
    folder: Path, model: pam.TrainedModel, tmp_path: Path
) -> None:
    changed = pam.load(folder / "soft/seed1")
    with torch.no_grad():
        for parameter in changed.saved.network.parameters():
            parameter.add_(0.5)
    steps = {"epochs": 1, "learning_rate": 1e-12}
    tuned = pam.train(PAIRS[:9], tmp_path / "tuned", init=changed, training=steps, device="cpu")
    expected = changed.score(*PAIRS[0]).log_prob
    assert tuned.score(*PAIRS[0]).log_prob == pytest.approx(expected, rel=1e-4)


def test_sentences_are_split_by_the_tokenizers_of_their_languages(tmp_path: Path) -> None:
    pairs = [(f"Das ist Haus {n}.", f"This is house {n}.") for n in range(12)]
    layout = {"vocabulary": {"min_count": 1}}
    model = pam.train(pairs, tmp_path / "phrases", languages=("de", "en"), format=layout, **SMALL)
    assert model.task == "translation"
    assert "house" in model.saved.target.symbols and "." in model.saved.target.symbols
    summary = Prepared(tmp_path / "phrases/data").summary
    assert (summary["format"]["source"], summary["format"]["target"]) == ("de", "en")


def test_a_training_may_run_in_a_thread(folder: Path, model: pam.TrainedModel) -> None:
    results: list[Any] = []

    def work() -> None:
        results.append(pam.train(PAIRS, folder, model="soft", seed=3, **SMALL))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0].config.seed == 3


def test_an_interrupted_training_goes_on_by_the_same_call(
    folder: Path, model: pam.TrainedModel
) -> None:
    def interrupt(row: Any) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = SMALL | {"training": SMALL["training"] | {"state_every_s": 0.0}}
    with pytest.raises(KeyboardInterrupt):
        pam.train(PAIRS, folder, model="soft", seed=4, on_epoch=interrupt, **options)
    resumed = pam.train(PAIRS, folder, model="soft", seed=4, **options)
    assert resumed.run is not None
    assert read_json(resumed.run.training)["resumed"] == 1


NOT_A_PAIR: list[tuple[Any, str]] = [
    ("Haus", "type str"),
    (3, "type int"),
    ([*PAIRS, "Haus"], "pair 60"),
    ([*PAIRS, ("Haus",)], "pair 60"),
    ([*PAIRS[:3], (PAIRS[0][0], None)], "pair 3: the target"),
    ([*PAIRS[:3], (" ", "x")], "pair 3: the source is blank"),
    ([*PAIRS[:3], (PAIRS[0][0], "x\ny")], "pair 3: the target has several lines"),
    (PAIRS[:2], "2 pairs"),
    ([], "0 pairs"),
]


def test_lines_of_files_are_texts_with_or_without_their_ends(tmp_path: Path) -> None:
    lines = [(f"{source}\n", f"{target}\r\n") for source, target in PAIRS]
    with_ends = pam.train(lines, tmp_path / "lines", model="soft", **SMALL)
    without = pam.train(PAIRS, tmp_path / "texts", model="soft", **SMALL)
    sources = [source for source, _ in PAIRS]
    assert with_ends.predict(sources) == without.predict(sources)


@pytest.mark.parametrize(("pairs", "message"), NOT_A_PAIR)
def test_what_is_no_pair_is_named_by_its_number_and_nothing_is_written(
    pairs: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as error:
        pam.train(pairs, tmp_path / "nouns", **SMALL)
    assert error.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "postr-jiont"}, "postr-jiont"),
        ({"model": "agreement-init"}, "agreement-init"),
        ({"network": {"embeding": 3}}, "embeding"),
        ({"training": {"epochs": 0}}, "epochs"),
        ({"decoding": {"beam": 0}}, "beam"),
        ({"format": {"separater": ","}}, "separater"),
        ({"kind": "inflexion"}, "inflexion"),
        ({"kind": "inflection", "dev": [("Haus", "Haus")]}, "dev pair 0"),
        ({"dev": [("Haus\tx=y", 3)]}, "dev pair 0"),
        ({"kind": "translation", "languages": "de"}, "languages"),
        ({"seed": -1}, "seed"),
        ({"device": "gpu"}, "gpu"),
        ({"init": "nowhere"}, "nowhere"),
        ({"init": "pretrained:phrases/soft", "kind": "inflection"}, "translation"),
        ({"init": "pretrained:nouns/soft", "network": {"encoder": 5}}, "encoder"),
        ({"model": "hard-mono", "kind": "translation"}, "pointer actions"),
        ({"dev": []}, "0 dev pairs"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        pam.train(PAIRS, tmp_path / "nouns", **{**SMALL, **options})
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_things_is_refused(
    model: pam.TrainedModel, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="other pairs") as error:
        pam.train(PAIRS[:-1], folder, model="soft", **SMALL)
    assert error.value.hint
    # Data in a model's symbols are other data.
    with pytest.raises(UserError, match="other"):
        pam.train(PAIRS, folder, init=model, device="cpu")

    (tmp_path / "notes.txt").write_text("precious", encoding="utf-8")
    with pytest.raises(UserError, match="no new folder"):
        pam.train(PAIRS, tmp_path, **SMALL)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
