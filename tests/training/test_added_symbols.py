"""Trainings that start from a trained model and add the symbols of their data to its own."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pam.data.dataset import Prepared
from pam.data.download import fetch
from pam.data.prepare import prepare, symbol_warnings
from pam.data.registry import Dataset
from pam.data.vocabulary import BOS, ended
from pam.experiments.model import ModelConfig
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.library.api import load
from pam.library.model_files import Description
from pam.models.build import build
from pam.models.checkpoint import load_model, save_model
from pam.models.model import Model, match
from pam.runtime.errors import UserError
from pam.training.run import train
from pam.training.start import load_starts, take_over
from tests.data import pairs
from tests.training import runs, small
from tests.training.runs import Fault

# `ж` and `case=dative` are new; `ж` is twice in training, `ю` in dev alone.
NEW: dict[str, list[tuple[str, str, str]]] = {
    "train": [
        ("Tag", "case=dative,number=singular", "Tagж"),
        ("Haus", "case=dative,number=singular", "Hausж"),
        ("Hund", "case=nominative,number=plural", "Hunde"),
    ],
    "dev": [("Kind", "case=dative,number=singular", "Kindю")],
    "test": [("Weg", "case=dative,number=singular", "Wegж")],
}
FAMILIES = [
    "postr-joint",
    "hard-mono",
    "variational",
    "soft-pointer",
    "agreement",
    "transformer",
    "transformer-soft",
]


def inflection(folder: Path, rows: Mapping[str, list[tuple[str, str, str]]]) -> Dataset:
    """Make a data set of the user's own files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for split, listed in rows.items():
        path = folder / f"{split}.tsv"
        path.write_text("".join("\t".join(row) + "\n" for row in listed), encoding="utf-8")
        files[path.name] = {"path": str(path)}
    return Dataset.model_validate({"task": "inflection", "files": files})


def in_symbols_of(model: Path, dataset: Dataset, folder: Path, **format_keys: Any) -> Path:
    """Prepare a data set in the symbols of a model."""
    symbols = Description.of(model).symbols(str(model))
    fetch("mine", dataset, folder / "raw")
    changed = dataset.with_format(format_keys)
    prepare("mine", changed, folder / "raw", folder / "out", model=symbols)
    return folder / "out"


def configured(model: str, start: Path | None = None, **training: Any) -> RunConfig:
    run = small.run(model, **{"epochs": 1, "state_every_s": 60.0, "warmup_steps": 1, **training})
    network = run.network.model_copy(update={"dropout": 0.0})
    components = run.components
    if start is not None:
        values = components.model_dump() | {"init_from": str(start)}
        components = ModelConfig.model_validate(values)
    return run.model_copy(update={"network": network, "components": components})


def fresh(run: RunConfig, data: Path, seed: int) -> Model:
    prepared = Prepared(data)
    torch.manual_seed(seed)
    model = build(run.components, run.network, len(prepared.source), len(prepared.target))
    match(model, prepared.source, prepared.target)
    return model.eval()


def saved(folder: Path, model: str, data: Path) -> Path:
    """Save a model with random weights, as if it were trained on prepared data."""
    run = configured(model)
    task = Prepared(data).summary["task"]
    weights = fresh(run, data, seed=7).state_dict()
    save_model(folder, run, task, data, weights, source_eos=task == "inflection")
    return folder


def started(run: RunConfig, data: Path) -> Model:
    """Return a model as its training begins."""
    model = fresh(run, data, seed=run.seed)
    take_over(model, load_starts(RunFolder(data / "run"), run, Prepared(data)))
    return model


def distributions(model: Model, source: list[int], target: list[int]) -> Tensor:
    """Return log p of every symbol at every step of a given target, (T, V)."""
    with torch.no_grad():
        memory = model.encode(torch.tensor([source]), torch.tensor([len(source)]))
        state = model.start(memory)
        log_probs = []
        for before, symbol in zip([BOS, *target], target, strict=False):
            step = model.step(memory, state, torch.tensor([before]))
            log_probs.append(step.output.log_probs()[0])
            state = model.update(memory, step, torch.tensor([symbol]))
    return torch.stack(log_probs)


@pytest.mark.parametrize("model", FAMILIES)
def test_new_symbols_have_fresh_rows_and_all_else_is_the_trained_models(
    data: Path, tmp_path: Path, model: str
) -> None:
    trained = saved(tmp_path / "model", model, data)
    own = in_symbols_of(trained, inflection(tmp_path / "own", NEW), tmp_path, add_symbols=True)
    run = configured(model, start=trained)
    before = load_model(trained).network.state_dict()
    without = fresh(run, own, seed=run.seed).state_dict()

    longer = []
    for name, value in started(run, own).state_dict().items():
        rows = len(before[name]) if value.dim() else None
        assert torch.equal(value[:rows] if value.dim() else value, before[name]), name
        if value.shape != before[name].shape:
            longer.append(name)
            assert torch.equal(value[rows:], without[name][rows:]), name

    # Two embeddings, weight and bias of the output layer; agreement has two models.
    assert len(longer) == (8 if model == "agreement" else 4)


@pytest.mark.parametrize("model", ["soft", "transformer"])
def test_known_symbols_keep_their_odds(data: Path, tmp_path: Path, model: str) -> None:
    trained = saved(tmp_path / "model", model, data)
    own = in_symbols_of(trained, inflection(tmp_path / "own", NEW), tmp_path, add_symbols=True)
    prepared = Prepared(data)
    source = ended(prepared.source.encode(["case=genitive", "number=singular", *"Tag"]))
    target = ended(prepared.target.encode("Tages"))

    before = distributions(load_model(trained).network, source, target)
    after = distributions(started(configured(model, start=trained), own), source, target)
    known = after[:, : len(prepared.target)]
    assert bool((known.exp().sum(1) < 1).all())
    torch.testing.assert_close(known.log_softmax(1), before, rtol=0, atol=1e-5)


def test_new_symbols_come_after_the_models_the_most_frequent_first(
    data: Path, tmp_path: Path
) -> None:
    trained = saved(tmp_path / "model", "soft", data)
    rows = NEW | {"train": [*NEW["train"], ("Hund", "number=dual", "Hundя")]}
    own = Prepared(
        in_symbols_of(trained, inflection(tmp_path / "own", rows), tmp_path, add_symbols=True)
    )
    known = Prepared(data)

    assert own.source.symbols == (*known.source.symbols, "case=dative", "number=dual")
    assert own.target.symbols == (*known.target.symbols, "ж", "я")
    assert own.summary["added_symbols"] == {"source": 2, "target": 2}
    # `ю` is in dev alone, and no model can write it.
    (warning,) = [text for text in own.summary["warnings"] if "ю" in text]
    assert "dev" in warning


def test_without_the_key_symbols_stay_the_models_and_prepare_says_what_to_write(
    data: Path, tmp_path: Path
) -> None:
    trained = saved(tmp_path / "model", "soft", data)
    own = Prepared(in_symbols_of(trained, inflection(tmp_path / "own", NEW), tmp_path))

    assert own.target.symbols == Prepared(data).target.symbols
    assert "added_symbols" not in own.summary
    assert "add_symbols" not in own.summary["format"]
    assert any("ж" in text and "add_symbols: true" in text for text in own.summary["warnings"])


def test_a_new_letter_is_written_after_training_and_read_by_whoever_starts_from_that(
    data: Path, tmp_path: Path
) -> None:
    trained = saved(tmp_path / "model", "soft", data)
    rows = {split: [("Tag", "case=dative,number=singular", "жTag")] for split in NEW}
    own = in_symbols_of(trained, inflection(tmp_path / "own", rows), tmp_path, add_symbols=True)
    folder = RunFolder(tmp_path / "tuned")
    run = configured("soft", trained, epochs=30, learning_rate=0.05, select="loss")
    small.write_run(folder.path, run)
    assert train(folder, own, folder.path / "state", "cpu") == 0

    model = load(folder.path)
    typed = "Tag\tcase=dative,number=singular"
    assert "ж" in model.predict(typed, beam=1)
    assert model.unseen(typed) == []

    again = in_symbols_of(folder.model, inflection(tmp_path / "own", rows), tmp_path / "again")
    assert Prepared(again).target.symbols == Prepared(own).target.symbols


def test_a_stopped_training_goes_on_with_the_symbols_that_it_added(
    data: Path, tmp_path: Path
) -> None:
    trained = saved(tmp_path / "model", "soft", data)
    own = in_symbols_of(trained, inflection(tmp_path / "own", NEW), tmp_path, add_symbols=True)
    run = configured("soft", trained, epochs=3, state_every_s=0.0)
    whole = tmp_path / "whole"
    killed = tmp_path / "killed"

    assert runs.train(run, own, whole).end() == 0
    fault = Fault("pam.training.trainer", "Trainer._step", 2)
    assert runs.train(run, own, killed, fault).end() == -signal.SIGKILL
    assert runs.train(run, own, killed).end() == 0
    assert runs.record_of(killed)["resumed"] == 1
    assert runs.result(killed) == runs.result(whole)


def test_data_that_extend_another_model_are_refused(data: Path, tmp_path: Path) -> None:
    other_rows = {split: [("Öl", "number=plural", "Öle")] for split in NEW}
    other_data = small.prepare(tmp_path / "other", other_rows)
    trained = saved(tmp_path / "model", "soft", data)
    other = saved(tmp_path / "other model", "soft", other_data)
    own = in_symbols_of(other, inflection(tmp_path / "own", NEW), tmp_path, add_symbols=True)
    run = configured("soft", start=trained)
    with pytest.raises(UserError, match="whose vocabularies differ"):
        load_starts(RunFolder(tmp_path / "run"), run, Prepared(own))


def test_vocabularies_of_their_own_are_no_extension_though_they_begin_alike(
    data: Path, tmp_path: Path
) -> None:
    trained = saved(tmp_path / "model", "soft", data)
    rows = {split: [*listed] for split, listed in small.ROWS.items()}
    rows["train"].append(("Typ", "case=genitive,number=singular", "Typя"))
    own = small.prepare(tmp_path / "own", rows)
    with pytest.raises(UserError, match="whose vocabularies differ"):
        load_starts(RunFolder(tmp_path / "run"), configured("soft", trained), Prepared(own))


@pytest.mark.parametrize("model", ["soft", "transformer"])
def test_subwords_stay_the_models_and_symbols_are_added_by_the_datas_own_rules(
    tmp_path: Path, model: str
) -> None:
    subwords = {"merges": 10}
    data = pairs.ready(tmp_path / "base", subwords=subwords)
    trained = saved(tmp_path / "model", model, data)
    texts = {
        "train": [("Das ist ein Ж.", "This is a Ж Ж."), ("Ein Ю", "A Щ")],
        "dev": [("Das ist ein Ж.", "This is a Ж.")],
        "test": [("Ist das ein Ж?", "Is this a Ж?")],
    }
    dataset = pairs.dataset(tmp_path / "own", texts, subwords=subwords)
    own = Prepared(
        in_symbols_of(trained, dataset, tmp_path, add_symbols=True, vocabulary={"min_count": 2})
    )
    known = Prepared(data)

    assert own.file("codec.json").read_bytes() == known.file("codec.json").read_bytes()
    assert own.source.symbols == known.source.symbols
    assert own.target.symbols == (*known.target.symbols, "Ж")
    run = configured(model, start=trained)
    trained_rows = load_model(trained).network.state_dict()
    longer = {
        name
        for name, value in started(run, own.folder).state_dict().items()
        if value.shape != trained_rows[name].shape
    }
    assert len(longer) == 3


def test_one_vocabulary_of_both_sides_stays_one(tmp_path: Path) -> None:
    data = pairs.ready(tmp_path / "base", vocabulary={"joint": True})
    trained = saved(tmp_path / "model", "soft-pointer", data)
    texts = pairs.SENTENCES | {"train": [("Neue Wörter", "New words")]}
    own = Prepared(
        in_symbols_of(trained, pairs.dataset(tmp_path / "own", texts), tmp_path, add_symbols=True)
    )

    assert own.source.symbols == own.target.symbols
    new = set(own.source.symbols) - set(Prepared(data).source.symbols)
    assert new == set(chain.from_iterable(text.split() for text in texts["train"][0]))
    started(configured("soft-pointer", start=trained), own.folder)


def test_nothing_is_added_where_no_model_is_named(tmp_path: Path) -> None:
    dataset = inflection(tmp_path / "own", NEW).with_format({"add_symbols": True})
    fetch("mine", dataset, tmp_path / "raw")
    with pytest.raises(UserError, match="add_symbols") as raised:
        prepare("mine", dataset, tmp_path / "raw", tmp_path / "out")
    assert "--symbols-of" in str(raised.value.hint)
    assert not (tmp_path / "out").exists()


def test_warnings_of_symbols_are_known_among_all(data: Path, tmp_path: Path) -> None:
    trained = saved(tmp_path / "model", "soft", data)
    dataset = inflection(tmp_path / "own", NEW)
    fetch("mine", dataset, tmp_path / "raw")
    symbols = Description.of(trained).symbols("base")
    summary = prepare("mine", dataset, tmp_path / "raw", tmp_path / "out", model=symbols)
    told = symbol_warnings(summary)
    assert told and all("`base`" in text for text in told)
    assert set(told) <= set(summary["warnings"])
