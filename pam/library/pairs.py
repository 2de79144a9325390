"""Training from Python: from pairs of texts to a trained model, `pam.train`.

The pairs become a data set as a user's own files are, and the trainer of the workflow trains on it.
So a folder is left as the workflow leaves it, with the pairs beside:

    FOLDER/corpus/              the pairs by split, and datasets.yaml, which says how they are read
    FOLDER/data/                prepared data, as `pam prepare` writes them
    FOLDER/MODEL/seedK/         the run: run.yaml, model/, history.csv, training.json, events/
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pam.data.codecs import SIDES
from pam.data.dataset import SPLITS
from pam.data.download import fetch
from pam.data.guesses import KINDS, Choices, size_of, task_of
from pam.data.new import write_entry
from pam.data.prepare import prepare
from pam.data.registry import Dataset, load_task
from pam.experiments.check import check_start_fits
from pam.experiments.keys import NAME
from pam.experiments.model import ModelConfig, load_model
from pam.experiments.parsing import dump_yaml, parse
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.experiments.settings import Decoding, Network, Training
from pam.library.api import TrainedModel, load
from pam.library.model_files import Description, opened
from pam.library.results import InputWarning
from pam.models.checkpoint import digest
from pam.models.fitting import check_fit
from pam.models.options import MultiHeadOptions
from pam.runtime.devices import usable_device
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import atomic_folder, read_json, scratch_folder, write_json, write_text
from pam.tasks.inflection.codec import InflectionCodec
from pam.tasks.translation.codec import TranslationCodec
from pam.training import run as training_run

CORPUS = "corpus"  # folder of the pairs
START = "start.pam"  # in it: the model whose weights a training starts from
IDENTITY = "identity.json"  # in it: a hash of all that decides the prepared data
SHUFFLE = 2019  # seed by which dev and test are drawn, the same for all seeds of training
MODEL = "postr-joint"  # that is trained if none is named

Pair = tuple[str, str]
Row = Mapping[str, Any]  # of the history: the numbers of an epoch


def train(
    pairs: Iterable[Pair],
    folder: str | Path,
    *,
    model: str | None = None,
    init: TrainedModel | str | Path | None = None,
    dev: Iterable[Pair] | None = None,
    test: Iterable[Pair] | None = None,
    kind: str | None = None,
    languages: Sequence[str] | None = None,
    format: Mapping[str, Any] | None = None,  # noqa: A002 -- the key's name in a data set
    network: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    decoding: Mapping[str, Any] | None = None,
    seed: int = 1,
    device: str | torch.device = "auto",
    on_epoch: Callable[[Row], None] | None = None,
) -> TrainedModel:
    r"""Train a model on pairs of texts, by the trainer of the workflow.

    The run lies in `folder/MODEL/seedK`, as any other run: `pam.load` and the commands open it. A
    second model or seed in the same folder shares the prepared data. A training that was stopped
    goes on when the same call is made again, and one that is finished is loaded.

    Args:
        pairs: sources and targets as `TrainedModel` reads them; of inflection a source is a lemma,
            a tab and features.
        folder: where data and runs are written; it must not have data of other pairs.
        model: the name of a model; None: the one of `init`, else `postr-joint`.
        init: a trained model whose weights and symbols this one starts from (fine-tuning), or a
            name as of `pam.load`. Settings that are left out are those of its run.
        dev, test: pairs on which the best epoch is chosen, and that are left for scores; None: a
            tenth of `pairs` each, 500 at most, is drawn and not trained on.
        kind: kind of task, `translation`, `summarization`, `inflection`, or one of words that are
            read by characters, such as `g2p`; None: the one of `init`; else `inflection` if each
            source is a lemma and features, and `translation` if not.
        languages: codes of the languages of source and target, by which texts are split into words.
        format: further keys of a data set's `format`, such as `{"subwords": {"merges": 2000}}`;
            with `init` the model decides how texts are read.
        network, training, decoding: keys of these sections of an experiment, such as
            `training={"epochs": 5}`.
        seed: decides the first weights and the order of the batches.
        device: as of `pam.load`.
        on_epoch: called after each epoch with its row of `history.csv`: `epoch`, `train_loss`,
            `dev_loss`, `dev_accuracy` and more.

    Returns:
        The trained model, loaded from its run.

    Raises:
        UserError: a pair, named by its number from 0, or a setting is wrong, or the folder has data
            of other pairs; nothing is written then. What is wrong with a text as data is named by
            its line in the folder's `corpus`.
        KeyboardInterrupt: the training was interrupted; its state is saved.

    Warns:
        InputWarning: what `pam prepare` says of the data.

    Example:
        >>> pairs = [(f"{lemma}\tcase=genitive", f"{lemma}s") for lemma in ("Hof", "Tag", "Weg")]
        >>> sizes = {"embedding": 4, "encoder": 4, "decoder": 4}
        >>> with scratch_folder() as folder:
        ...     model = train(pairs, folder / "nouns", network=sizes, training={"epochs": 1})
        >>> model
        TrainedModel('Postr-Joint', task='inflection', parameters=881)
    """
    task_folder = Path(folder)
    chosen_device = usable_device(device)
    start: TrainedModel | None = None
    if isinstance(init, TrainedModel):
        start = init
    elif init is not None:
        start = load(init)

    sections = {"network": network, "training": training, "decoding": decoding}
    config = _config(task_folder, model, start, sections, seed)
    corpus = _corpus(pairs, dev, test, kind, languages, format or {}, start)
    task = task_of(corpus.kind)
    _check_task(config, task)
    # A model of another kind of task is refused as its symbols are read.
    if start is not None and start.task == task:
        check_start_fits(config, start.saved.run, "init")

    _prepare(task_folder, corpus)
    run = RunFolder(task_folder / config.model / f"seed{seed}")
    write_text(run.config_file, dump_yaml(config))
    caller = training_run.Caller(
        command=f"pam.train(..., folder={str(folder)!r}, model={config.model!r}, seed={seed})",
        on_epoch=on_epoch,
    )
    with _settings_kept(chosen_device):
        code = training_run.train(
            run=run,
            data=task_folder / "data",
            state=run.path / "state",
            device=chosen_device,
            caller=caller,
        )
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        hint = "make the same call again to go on"
        raise UserError("the training was stopped, and its state is saved", hint=hint)

    return load(run.path, chosen_device)


# The pairs.


@dataclass(frozen=True)
class Corpus:
    """Pairs by split, and how they are read.

    Attributes:
        splits: the pairs of train, dev and test.
        kind: the kind of task.
        sides: the names of source and target: languages, where these are known.
        format: further keys of the data set's `format`.
        start: the model whose symbols the data have; None: symbols of their own.
    """

    splits: Mapping[str, Sequence[Pair]]
    kind: str
    sides: tuple[str, str]
    format: dict[str, Any]
    start: TrainedModel | None

    def identity(self) -> str:
        """Return a hash of all that decides the prepared data."""
        start = None
        if self.start is not None:
            start = digest(self.start.saved.network.state_dict(), self.start.saved.notes)
        parts = [dict(self.splits), self.kind, self.sides, self.format, start]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path, name: str) -> Dataset:
        """Write the pairs and an entry of a registry; return the data set."""
        files: list[Path] = []
        splits: list[str] = []
        for split, rows in self.splits.items():
            for file_name, lines in self._texts(split, rows).items():
                write_text(folder / file_name, "".join(f"{line}\n" for line in lines))
                files.append(folder / file_name)
                splits.append(split)

        choices = Choices(
            files=files,
            name=name,
            registry=folder / "datasets.yaml",
            kind=self.kind,
            splits=splits,
        )
        if self.kind == "inflection":
            choices = replace(choices, columns=InflectionCodec.columns, header=False)
        else:
            choices = replace(choices, languages=self.sides)

        dataset = write_entry(choices).dataset.with_format(self.format)
        parse(load_task(dataset.task).Format, dataset.format, "`format`")
        return dataset

    def _texts(self, split: str, rows: Sequence[Pair]) -> dict[str, list[str]]:
        """Return the lines of each file of a split."""
        if self.kind == "inflection":
            lines = ["\t".join([*_columns(source), target]) for source, target in rows]
            return {f"{split}.tsv": lines}

        source_name, target_name = self.sides
        return {
            f"{split}.source.{source_name}": [source for source, _ in rows],
            f"{split}.target.{target_name}": [target for _, target in rows],
        }


def _corpus(
    pairs: Iterable[Pair],
    dev: Iterable[Pair] | None,
    test: Iterable[Pair] | None,
    kind: str | None,
    languages: Sequence[str] | None,
    layout: Mapping[str, Any],
    start: TrainedModel | None,
) -> Corpus:
    """Check pairs, divide them into splits, and decide how they are read.

    Raises:
        UserError: a pair is none, there are too few, or the kind or languages are wrong.
    """
    train = _checked(pairs, "pair")
    named_pairs = {"dev": dev, "test": test}
    checked = {
        name: _checked(rows, f"{name} pair")
        for name, rows in named_pairs.items()
        if rows is not None
    }
    for name, rows in checked.items():
        if not rows:
            raise UserError(f"0 {name} pairs", hint=f"give some, or leave out `{name}`")
    kind = _kind_of(train, kind, start)
    if kind == "inflection":
        _check_inflection(
            {"pair": train} | {f"{name} pair": rows for name, rows in checked.items()}
        )

    return Corpus(
        splits=_divided(train, checked),
        kind=kind,
        sides=_sides(languages, start),
        format=dict(layout),
        start=start,
    )


def _checked(pairs: Any, name: str) -> list[Pair]:
    """Return pairs as a list; a UserError names the first that is none by its number, from 0."""
    hint = "give pairs of a source and a target, both texts of one line"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise UserError(f"{name}s of type {type(pairs).__name__}", hint=hint)

    checked = []
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != len(SIDES):
            raise UserError(f"{name} {number}: this is no pair", hint=hint)
        for side, text in zip(SIDES, pair, strict=True):
            if not isinstance(text, str):
                message = f"{name} {number}: the {side} is of type {type(text).__name__}"
                raise UserError(message, hint=hint)
            if not text.strip():
                message = f"{name} {number}: the {side} is blank"
                raise UserError(message, hint="leave the pair out")
            if len(text.splitlines()) > 1:
                raise UserError(f"{name} {number}: the {side} has several lines", hint=hint)
        # Lines of a file end in a line end.
        source, target = ("".join(text.splitlines()) for text in pair)
        checked.append((source, target))
    return checked


def _kind_of(pairs: Sequence[Pair], kind: str | None, start: TrainedModel | None) -> str:
    """Return the kind of task: the named one, a trained model's, or the one of such sources."""
    if kind is not None and kind not in KINDS:
        raise unknown("kind of task", str(kind), list(KINDS))
    if kind is not None:
        return kind
    if start is not None and start.task in KINDS:
        return start.task
    if pairs and all(source.count("\t") == 1 for source, _ in pairs):
        return "inflection"
    return "translation"


def _check_inflection(pairs_by_name: Mapping[str, Sequence[Pair]]) -> None:
    """Check that each source is a lemma and features; a UserError names the first that is not."""
    for name, pairs in pairs_by_name.items():
        for number, (source, _) in enumerate(pairs):
            try:
                _columns(source)
            except UserError as error:
                raise UserError(f"{name} {number}: {error.message}", hint=error.hint) from error


def _columns(source: str) -> tuple[str, ...]:
    """Return lemma and features of a source."""
    return InflectionCodec().typed_source(source)


def _divided(
    pairs: Sequence[Pair], given: Mapping[str, Sequence[Pair]]
) -> dict[str, Sequence[Pair]]:
    """Return all splits; dev and test are drawn from the pairs if they are not given."""
    drawn = [split for split in SPLITS[1:] if split not in given]
    if len(pairs) < 1 + len(drawn):
        message = f"{len(pairs)} pairs, of which {' and '.join(['train', *drawn])} are made"
        raise UserError(message, hint=f"give {1 + len(drawn)} pairs or more")

    order = np.random.default_rng(SHUFFLE).permutation(len(pairs)).tolist()
    size = size_of(len(pairs))
    splits: dict[str, Sequence[Pair]] = {}
    for split in drawn:
        numbers = sorted(order[:size])
        order = order[size:]
        splits[split] = [pairs[number] for number in numbers]

    train = [pairs[number] for number in sorted(order)]
    return {"train": train, **{split: (splits | dict(given))[split] for split in SPLITS[1:]}}


def _sides(languages: Sequence[str] | None, start: TrainedModel | None) -> tuple[str, str]:
    """Return the names of source and target."""
    if languages is not None:
        if isinstance(languages, str) or len(languages) != len(SIDES):
            raise UserError(f"languages {languages!r}", hint="name two, such as `('de', 'en')`")
        return languages[0], languages[1]
    if start is not None and isinstance(start.saved.codec, TranslationCodec):
        settings = start.saved.codec.settings
        return settings.source.language, settings.target.language
    return "source", "target"


# The run.


def _config(
    task_folder: Path,
    model: str | None,
    start: TrainedModel | None,
    sections: Mapping[str, Mapping[str, Any] | None],
    seed: int,
) -> RunConfig:
    """Return the configuration of the run; a UserError says what is wrong in it."""
    if not re.fullmatch(NAME, task_folder.name):
        hint = "use letters, digits, `.`, `_` and `-` in the name of the last folder"
        raise UserError("this cannot be a task's name", file=task_folder, hint=hint)

    name = model or MODEL
    if start is not None and model is None:
        name = start.saved.run.model
        components = start.saved.run.components
    else:
        components = load_model(name)
    if components.members or components.reversed or components.starts():
        hint = "train it in an experiment, with the models that it is made of"
        raise UserError(f"`{name}` is made of other models", hint=hint)

    bases: dict[str, Any] = {"network": Network(), "training": Training(), "decoding": Decoding()}
    if start is not None:
        trained = start.saved.run
        bases = {
            "network": trained.network,
            "training": trained.training,
            "decoding": start.decoding,
        }
        origin = {"init_from": str(task_folder / CORPUS / START)}
        components = parse(ModelConfig, components.model_dump() | origin, "`init`")

    parts = {}
    for section, base in bases.items():
        values = base.model_dump()
        # A model's own sizes are not those of a model that it starts from.
        if start is None or section != "network":
            values |= getattr(components, section)
        parts[section] = parse(type(base), values | dict(sections[section] or {}), f"`{section}`")

    check_fit(components, parts["network"])
    values = {
        "experiment": task_folder.name,
        "task": task_folder.name,
        "model": name,
        "label": components.label,
        "seed": seed,
        "components": components,
    }
    return parse(RunConfig, values | parts, "pam.train")


def _check_task(config: RunConfig, name: str) -> None:
    """Check that a kind of task has what the model needs; a UserError says what it lacks."""
    task = load_task(name)
    if config.components.targets == "actions" and not task.has_actions:
        message = f"`{config.model}` writes pointer actions, which {name} does not have"
        raise UserError(message, hint="name a model with `targets: symbols`")
    architecture = config.components.architecture
    has_kinds = isinstance(architecture, MultiHeadOptions) and architecture.feature_kinds
    if has_kinds and not task.has_features:
        message = f"`{config.model}` has `feature_kinds`, and {name} has no features"
        raise UserError(message, hint="name another model")


def _prepare(task_folder: Path, corpus: Corpus) -> None:
    """Write and prepare the pairs, unless the folder has these very data already.

    Raises:
        UserError: the folder has something else, or the pairs cannot be prepared.
    """
    identity_file = task_folder / CORPUS / IDENTITY
    if identity_file.is_file():
        if read_json(identity_file)["sha256"] == corpus.identity():
            return
        message = "this folder has data of other pairs, or of another model's symbols"
        raise UserError(message, file=task_folder, hint="name a new folder")
    if task_folder.exists() and (not task_folder.is_dir() or any(task_folder.iterdir())):
        raise UserError("this is no new folder", file=task_folder, hint="name a new folder")

    with atomic_folder(task_folder.resolve()) as folder, ExitStack() as stack:
        model = None
        if corpus.start is not None:
            corpus.start.export(folder / CORPUS / START)
            opened_start = stack.enter_context(opened(folder / CORPUS / START))
            name = str(task_folder / CORPUS / START)
            model = Description.of(opened_start).symbols(name)

        dataset = corpus.write(folder / CORPUS, task_folder.name)
        raw = stack.enter_context(scratch_folder())
        fetch(task_folder.name, dataset, raw)
        summary = prepare(task_folder.name, dataset, raw, folder / "data", model=model)
        write_json(folder / CORPUS / IDENTITY, {"sha256": corpus.identity()})

    for text in summary["warnings"]:
        warnings.warn(text, InputWarning, stacklevel=3)


@contextmanager
def _settings_kept(device: torch.device) -> Iterator[None]:
    """Leave torch's settings, current device and random numbers as they were before a training."""
    threads = torch.get_num_threads()
    flags: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn]
    tf32 = [flag.allow_tf32 for flag in flags]
    devices: list[torch.device] = []
    with ExitStack() as stack:
        if device.type == "cuda":
            devices = [device]
            stack.enter_context(torch.cuda.device(device))
        stack.enter_context(torch.random.fork_rng(devices=devices))
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            for flag, is_allowed in zip(flags, tf32, strict=True):
                flag.allow_tf32 = is_allowed
