"""Files that a run keeps on disk, made once and used in the next step: to be damaged one by one."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pam.data.dataset import SPLITS, Examples, Prepared, Split, write_summary
from pam.data.download import fetch
from pam.data.prepare import prepare
from pam.data.registry import Dataset, File
from pam.decoding.generator import Generator
from pam.decoding.hypotheses import LENGTHS, LengthPrior
from pam.evaluation.inputs import EvalInputs
from pam.experiments.settings import Decoding
from pam.models.build import build
from pam.models.checkpoint import load_model, save_model
from pam.models.model import match
from pam.runtime.files import sha256_of, write_json
from pam.tasks.alignment import counts as alignment
from pam.tasks.captioning import counts as captioning
from pam.tasks.summarization import counts as summarization
from pam.tasks.translation import counts as translation
from pam.training.checkpoint import Progress, StateFolder
from tests.cli import phrases
from tests.data import pairs, test_captioning, test_summarization, test_wit3
from tests.faults.subject import Result, Subject
from tests.faults.trained import a_start, a_trained_run, stored_runs
from tests.training import small

STAGES = ("extract", "tokenize", "segment")
"""Of translation, before the last."""


def inflection_data(room: Path) -> Subject:
    """Prepare data of inflection; in its place may come that of other nouns."""
    other = small.prepare(room / "others", {split: rows[3:] for split, rows in small.ROWS.items()})
    return Subject(small.prepare(room / "nouns"), _content, (other,))


def translation_data(room: Path) -> Subject:
    """Prepare data of translation with subwords; in its place may come data with fewer of them."""
    made = pairs.ready(room / "pairs", subwords={"merges": 12}, lowercase=True)
    other = pairs.ready(room / "others", subwords={"merges": 11}, lowercase=True)
    for folder in (made, other):
        for stage in STAGES:
            shutil.rmtree(folder / stage)

    return Subject(made, _content, (other, inflection_data(room).folder))


def _content(folder: Path) -> Result:
    """Read all that training, decoding and scoring read of prepared data."""
    data = Prepared(folder)
    rows = {name: list(data.rows(name)) for name in SPLITS}
    parts = [data.summary["splits"], data.source.symbols, data.target.symbols, rows]

    for name in SPLITS:
        split = data.split(name)
        parts += [split.content, split.sources[0].tolist(), split.sources.lengths.tolist()]
        parts += [data.codec.source_symbols(row[:-1]) for row in rows[name]]

    task = data.summary["task"]
    if task == "translation":
        parts += [translation.target_language(data)]

    if task in REFERENCES:
        parts += [REFERENCES[task](EvalInputs(data=folder))]

    if task == "captioning":
        batch = Examples(data.split("train"), "symbols").batch(np.arange(2))
        parts += [batch.source.tolist()]

    return parts


REFERENCES: dict[str, Callable[[EvalInputs], Any]] = {
    "translation": translation.read_references,
    "summarization": summarization.read_references,
    "captioning": lambda inputs: captioning.read_references(
        inputs, captioning.compared_text(inputs.prepared)
    ),
}


def summaries(room: Path, **format_: Any) -> tuple[Dataset, Path]:
    """Write four texts with summaries as JSON lines, one with two references."""
    room.mkdir(exist_ok=True)
    lines = [json.dumps(record) for record in test_summarization.RECORDS]
    dataset, raw = test_summarization.written(room, lines, **format_)
    dataset = dataset.model_copy(update={"files": hashed(raw, *dataset.files)})

    return dataset, raw


def hashed(raw: Path, *names: str) -> Any:
    """Describe files as a registry does that knows their hashes."""
    return {name: File(sha256=sha256_of(raw / name)) for name in names}


def clips(room: Path, *, hdf5: bool, scale: float = 1.0) -> tuple[Dataset, Path]:
    """Write six clips with two captions each."""
    room.mkdir(exist_ok=True)
    arrays = {f"clip{number}": scale * test_captioning.frames(number) for number in range(6)}

    return test_captioning.fetched(room, hdf5=hdf5, **arrays)


def in_stages(make: Callable[[Path], tuple[Dataset, Path]]) -> Callable[[Path], Subject]:
    """Make the folders of the stages before the last; they are used by the last one."""

    def made(room: Path) -> Subject:
        dataset, raw = make(room / "own")
        for stage in list(dataset.kind.STAGES)[:-1]:
            prepare("mine", dataset, raw, room / "out", stage)

        def use(folder: Path) -> Result:
            prepare("mine", dataset, raw, folder, "index")
            return _content(folder)

        return Subject(room / "out", use)

    return made


def as_fetched(make: Callable[[Path], tuple[Dataset, Path]]) -> Callable[[Path], Subject]:
    """Leave files as they were fetched; they are used by the preparation."""

    def made(room: Path) -> Subject:
        dataset, raw = make(room / "own")

        def use(folder: Path) -> Result:
            prepare("mine", dataset, folder, folder / "out")
            return _content(folder / "out")

        return Subject(raw, use)

    return made


def as_prepared(*makes: Callable[[Path], tuple[Dataset, Path]]) -> Callable[[Path], Subject]:
    """Prepare data; in its place may come other data of the same kind."""

    def made(room: Path) -> Subject:
        folders = []
        for number, make in enumerate(makes):
            dataset, raw = make(room / str(number))
            prepare("mine", dataset, raw, room / f"out{number}")
            for stage in list(dataset.kind.STAGES)[:-1]:
                shutil.rmtree(room / f"out{number}" / stage)

            folders.append(room / f"out{number}")

        return Subject(folders[0], _content, tuple(folders[1:]))

    return made


def of_vectors(room: Path) -> Subject:
    """Make a model of captioning, and a clip that it describes."""
    dataset, raw = clips(room / "own", hdf5=False)
    prepare("mine", dataset, raw, room / "data")
    typed = room / "typed.npy"
    np.save(typed, test_captioning.frames(3))

    return _models(room, Prepared(room / "data"), "soft", [str(typed)])


def of_summaries(room: Path) -> Subject:
    """Make a model of summarization that copies, with coverage."""
    dataset, raw = summaries(room / "own")
    prepare("mine", dataset, raw, room / "data")

    return _models(
        room, Prepared(room / "data"), "soft-pointer-coverage", ["A dog barks . A bird sings ."]
    )


def gold_data(room: Path) -> Subject:
    """Prepare word alignments."""
    made = phrases.gold(phrases.prepare(room / "phrases"), room / "gold")
    rows = len(Prepared(made).rows("gold"))
    other = phrases.gold(room / "phrases", room / "other gold")
    links = [[[0, 0]]] * rows
    (other / "links.json").write_text(json.dumps({"sure": links, "possible": links}))
    write_summary(other, {"task": "alignment"})

    def use(folder: Path) -> Result:
        data = Prepared(folder)
        gold = alignment.read_word_alignments(EvalInputs(data=folder).prepared.file("links.json"))

        return list(data.rows("gold")), data.split("gold").content, gold.model_dump()

    return Subject(made, use, (other,))


def stages(room: Path) -> Subject:
    """Make the folders of translation's stages before the last; they are used by the last one."""
    dataset = pairs.dataset(room / "own", subwords={"merges": 12})
    fetch("mine", dataset, room / "raw")
    for stage in STAGES:
        prepare("mine", dataset, room / "raw", room / "out", stage)

    def use(folder: Path) -> Result:
        prepare("mine", dataset, room / "raw", folder, "index")
        return _content(folder)

    return Subject(room / "out", use)


def fetched(room: Path) -> Subject:
    """Fetch files of the user's own; they are used by the preparation."""
    dataset = pairs.dataset(room / "own")
    fetch("mine", dataset, room / "raw")

    def use(folder: Path) -> Result:
        prepare("mine", dataset, folder, folder / "out")
        return _content(folder / "out")

    return Subject(room / "raw", use)


def fetched_archive(room: Path) -> Subject:
    """Leave an archive of talks as it was fetched; it is used by the preparation."""
    (room / "raw").mkdir()
    content = test_wit3.archive(room / "raw/de-en.tgz").read_bytes()
    hashes = {"de-en.tgz": {"sha256": hashlib.sha256(content).hexdigest()}}
    write_json(room / "raw/record.json", hashes)

    def use(folder: Path) -> Result:
        prepare("talks", test_wit3.talks(), folder, folder / "out")
        return _content(folder / "out")

    return Subject(room / "raw", use)


def model(room: Path, *, subwords: bool) -> Subject:
    """Make a model folder; in its place may come that of another training."""
    if subwords:
        data = Prepared(pairs.ready(room / "data", subwords={"merges": 12}))
        typed = ["Der Hund schläft heute.", "Katzen!"]
    else:
        data = Prepared(small.prepare(room / "data"))
        typed = ["Haus\tcase=genitive,number=singular", "Blatt\tcase=x"]
    return _models(room, data, "prior-joint", typed)


def _models(room: Path, data: Prepared, kind: str, typed: list[str]) -> Subject:
    """Make two models of a kind, which write outputs for typed lines."""
    made = [_model(room / f"seed{seed}", data, kind, seed) for seed in (1, 2)]

    def use(folder: Path) -> Result:
        loaded = load_model(folder)
        decoder = Generator(loaded, Decoding(beam=2, length_prior=0.3, max_extra=3))
        codec = loaded.codec

        return decoder([codec.source_symbols(codec.typed_source(line)) for line in typed])

    return Subject(made[0], use, (made[1],))


def _model(folder: Path, data: Prepared, kind: str, seed: int) -> Path:
    """Save weights as they are before training, which are as good here."""
    torch.manual_seed(seed)
    run = small.run(kind, seed=seed)
    network = build(
        run.components, run.network, len(data.source), len(data.target), data.codec.units
    )
    match(network, data.source, data.target)
    LengthPrior.of(Split.load(data.folder, "train")).save(folder / LENGTHS)
    save_model(folder, run, data.summary["task"], data.folder, network.state_dict())

    return folder


def states(room: Path) -> Subject:
    """Save the last two states of a training; either is good, and so is a new beginning."""
    key = "this training"
    folders = {name: StateFolder(room / name, key) for name in ("state", "other")}
    for name, folder in folders.items():
        for step in (1, 2):
            generator = torch.Generator().manual_seed(step + len(name))
            tensors = {"model.a": torch.randn(40, 30, generator=generator), "best.b": torch.ones(3)}
            progress = Progress(epoch=step, batch=step, loss=step / 3, history=[{"epoch": step}])
            folder.save(tensors, progress)

    def use(folder: Path) -> Result:
        loaded = StateFolder(folder, key).load()
        if loaded is None:
            return None

        tensors, progress = loaded
        return {name: tensor.tolist() for name, tensor in tensors.items()}, progress

    previous = room / "previous"
    previous.mkdir()
    (previous / "state.safetensors").write_bytes((room / "state/previous.safetensors").read_bytes())

    return Subject(room / "state", use, fair=(use(previous), None))


SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    "a model of inflection": lambda room: model(room, subwords=False),
    "a model of translation": lambda room: model(room, subwords=True),
    "prepared data of inflection": inflection_data,
    "prepared data of translation": translation_data,
    "prepared word alignments": gold_data,
    "what a stage has written": stages,
    "fetched text": fetched,
    "a fetched archive": fetched_archive,
    "the states of a training": states,
    "prepared captions": as_prepared(
        partial(clips, hdf5=False), partial(clips, hdf5=False, scale=2.0)
    ),
    "prepared summaries": as_prepared(
        summaries, partial(summaries, truncate={"source": 4, "target": 3})
    ),
    "what a stage of captions has written": in_stages(partial(clips, hdf5=False)),
    "what a stage of summaries has written": in_stages(summaries),
    "fetched captions and arrays": as_fetched(partial(clips, hdf5=False)),
    "fetched captions and HDF5": as_fetched(partial(clips, hdf5=True)),
    "fetched JSON lines": as_fetched(summaries),
    "a model of captioning": of_vectors,
    "a model of summarization with copying and coverage": of_summaries,
    "a trained run that another starts from": a_start,
    "a trained run that another task tests": a_trained_run,
    "runs that were stored": stored_runs,
}
