"""A trained model as one file or one folder, to be shared: `pam export`.

The layout is what model hubs expect: README.md, the model card with its YAML head; config.json;
model.safetensors. The vocabularies and the files of the codec lie beside them. A file is a zip
archive of that folder, the same bytes each time.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from pam.alignment.record import AlignerRecord
from pam.alignment.scoring import LinkScores
from pam.data.dataset import SUMMARY
from pam.evaluation.length_penalty import Choice, chosen_penalties, exported_choice
from pam.evaluation.records import load, save
from pam.evaluation.scores import Scores, Value
from pam.experiments.model import EXPORTED_SUFFIX
from pam.experiments.parsing import dump_yaml
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.library.model_files import CARD, CONFIG, EXPORTED_WEIGHTS
from pam.models.checkpoint import SavedModel, save_tensors
from pam.runtime.errors import UserError
from pam.runtime.files import (
    atomic_folder,
    atomic_write,
    read_json,
    scratch_folder,
    sha256_of,
    write_json,
    write_text,
)

CONFIG_JSON = "config.json"
# date of each file in the archive, so that the archive's bytes depend on nothing but content
ZIP_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Origin:
    """The records of a model in its run's folder; those that are missing stay empty.

    Attributes:
        training: the content of training.json: cost, hardware, command.
        scores: the content of scores.json.
        alignment: what it did as a word aligner, with its scores on links that people made.
        data: the content of the prepared data's summary.json: title, licence, citation.
    """

    training: Mapping[str, Any]
    scores: Scores | None
    alignment: AlignerRecord | None
    data: Mapping[str, Any]

    @classmethod
    def of_run(cls, run: RunFolder) -> Origin:
        """Read the records of a run."""
        scores = None
        scores_file = run.scores("test")
        if scores_file.is_file():
            scores = load(Scores, scores_file)
        alignment = None
        if run.alignment_record.is_file():
            alignment = load(AlignerRecord, run.alignment_record)

        return cls(
            training=_read_if_there(run.training),
            scores=scores,
            alignment=alignment,
            data=_read_if_there(run.data("test") / SUMMARY),
        )


def _read_if_there(path: Path) -> Mapping[str, Any]:
    """Read a JSON file; a missing file is empty."""
    if not path.is_file():
        return {}

    content: Mapping[str, Any] = read_json(path)
    return content


def export(
    model: SavedModel,
    config: RunConfig,
    run: RunFolder | None,
    out: Path,
    half: bool = False,
    force: bool = False,
    choices: Mapping[int, Choice] | None = None,
) -> None:
    """Write a model, with its card, as a file or as a folder.

    Args:
        model: with the weights that are written.
        config: the configuration of its run, with the settings by which it decodes.
        run: the folder of the run, whose records the card tells; None: the card is the one that an
            exported model came with.
        out: a name that ends in `.pam` is a file; any other is a folder, which must not exist or be
            empty.
        half: whether weights are stored in float16, in half the bytes.
        force: whether a file that is there is replaced.
        choices: the length penalty that was chosen for each beam, of a model without its run.

    Raises:
        UserError: there is such a file, or the folder has something in it.
    """
    is_file = out.suffix == EXPORTED_SUFFIX
    _check_free(out, is_file, force)

    if run is not None:
        choices = chosen_penalties(run)

    # The model takes its place when it is whole, so that no error and no kill leaves half of it.
    with ExitStack() as stack:
        if is_file:
            folder = stack.enter_context(scratch_folder())
        else:
            folder = stack.enter_context(atomic_folder(out.resolve()))

        write_folder(model, config, folder, half)
        for choice in (choices or {}).values():
            save(choice, folder / exported_choice(choice.beam))
        write_text(folder / CARD, _card_of(model, run))
        if is_file:
            pack(folder, out)


def _card_of(model: SavedModel, run: RunFolder | None) -> str:
    """Return the card of a run's model, or the one that an exported model came with."""
    if run is not None:
        return card(model, Origin.of_run(run))
    if CARD in model.files:
        return model.files[CARD].decode()
    return card(model, Origin(training={}, scores=None, alignment=None, data={}))


def _check_free(out: Path, is_file: bool, force: bool) -> None:
    """Check that no file or folder is lost by an export."""
    if is_file:
        if out.is_dir():
            raise UserError("this is a folder", file=out, hint="name a new file")
        if out.exists() and not force:
            hint = "name a new file, or replace it with --force, in Python `force=True`"
            raise UserError("the file exists already", file=out, hint=hint)
        return

    if out.exists() and not out.is_dir():
        hint = f"name a new folder, or a file that ends in {EXPORTED_SUFFIX}"
        raise UserError("this is a file", file=out, hint=hint)
    if out.exists() and any(out.iterdir()):
        hint = f"name a new folder, or a file that ends in {EXPORTED_SUFFIX}"
        raise UserError("the folder is not empty", file=out, hint=hint)
    if Path.cwd().is_relative_to(out.resolve()):
        hint = "name a new folder in it"
        raise UserError("the folder in which this command runs", file=out, hint=hint)


def write_folder(model: SavedModel, config: RunConfig, out: Path, half: bool) -> None:
    """Write the files of a model, with a configuration, into an empty folder."""
    hashes = json.loads(model.notes["files"])
    for name in hashes:
        (out / name).write_bytes(model.files[name])

    # The model decodes as its run does, whose settings may have changed since the training.
    changed = model.run.model_copy(update={"decoding": config.decoding})
    notes = dict(model.notes)
    if changed != model.run:
        write_text(out / CONFIG, dump_yaml(changed))
        hashes[CONFIG] = sha256_of(out / CONFIG)
        notes["files"] = json.dumps(hashes)

    # Parameters may share memory, and stored ones may not.
    tensors = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    if half:
        tensors = {name: halved(tensor) for name, tensor in tensors.items()}

    save_tensors(out / EXPORTED_WEIGHTS, tensors, notes)
    content = {"model_type": "pam", "task": model.task} | changed.model_dump(mode="json")
    write_json(out / CONFIG_JSON, content)


def halved(tensor: Tensor) -> Tensor:
    """Return a tensor in float16, or as it is if it holds whole numbers."""
    if not tensor.is_floating_point():
        return tensor
    return tensor.to(torch.float16)


def pack(folder: Path, out: Path) -> None:
    """Write a folder's files as a zip archive, whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for path in sorted(folder.iterdir()):
            info = zipfile.ZipInfo(path.name, date_time=ZIP_DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, path.read_bytes())


# The card.

USE = """```python
import pam

model = pam.load("PATH OF THIS FILE OR FOLDER")
{call}
```"""
PREDICT = "model.predict([...])"
ALIGN = 'model.align("a sentence", "its translation", smooth=True).links'


def card(model: SavedModel, origin: Origin) -> str:
    """Return the model card: a YAML head for hubs, then text for people."""
    run = model.run
    head = yaml.safe_dump(card_head(model, origin), sort_keys=False, allow_unicode=True)
    introduction = (
        f"A model of the kind of task `{model.task}` from the experiment `{run.experiment}`,"
        f" seed {run.seed}."
    )
    if run.components.source:
        introduction += f" The model is that of {run.components.source}."

    call = PREDICT if origin.alignment is None else ALIGN
    parts = [
        f"---\n{head}---",
        f"# {run.label} on {origin.data.get('title', run.task)}",
        introduction,
        "## Use",
        USE.format(call=call),
        "## Data",
        data_text(origin.data),
        "## Scores on the test split",
        scores_text(origin.scores),
        "## Training",
        training_text(origin.training),
    ]
    if origin.alignment is not None and origin.alignment.scores is not None:
        parts += ["## Word alignment", alignment_text(origin.alignment, origin.alignment.scores)]
    return "\n\n".join(parts) + "\n"


def card_head(model: SavedModel, origin: Origin) -> dict[str, Any]:
    """Return the keys by which model hubs sort and show a model."""
    head: dict[str, Any] = {"library_name": "pam", "tags": ["posterior-attention", model.task]}

    licence = origin.data.get("licence")
    if licence:
        head["license"] = "other"
        head["license_name"] = licence
    dataset = origin.data.get("dataset")
    if dataset:
        head["datasets"] = [dataset]

    if origin.scores is not None:
        head["metrics"] = list(origin.scores.metrics)
    return head


def data_text(data: Mapping[str, Any]) -> str:
    """Say what the model was trained on, by whom it was made, and under which licence."""
    if not data:
        return "Nothing is known of the data: the run's folder had no summary of them."

    lines = [f"{data['title']} (`{data['dataset']}`)."]
    if data.get("citation"):
        lines.append(f"Source: {data['citation']}.")
    lines.append(f"Licence of the data: {data.get('licence', 'unknown')}.")
    return "\n".join(lines)


def scores_text(scores: Scores | None) -> str:
    """Return a table of metrics with their bootstrap intervals."""
    if scores is None:
        return "The run was not scored."

    return _table(scores.metrics, decimals=2)


def alignment_text(record: AlignerRecord, scores: LinkScores) -> str:
    """Say how well the model links words, where it was compared with links that people made."""
    return f"Links by {record.reading}, of sentences with hand-made links:\n\n" + _table(
        scores.metrics, decimals=3
    )


def _table(metrics: Mapping[str, Value], decimals: int) -> str:
    """Return a table of metrics with their bootstrap intervals."""
    lines = ["| metric | value | 95 % interval | of |", "| --- | --: | --: | --: |"]
    for name, value in metrics.items():
        unit = f" {value.unit}" if value.unit else ""
        interval = f"[{value.low:.{decimals}f}, {value.high:.{decimals}f}]"
        shown = f"{value.value:.{decimals}f}{unit}"
        lines.append(f"| {name} | {shown} | {interval} | {value.n:,} |")
    return "\n".join(lines)


def training_text(training: Mapping[str, Any]) -> str:
    """Say how the model was trained: epochs, cost, hardware, command."""
    if not training:
        return "Nothing is known of the training: the run's folder had no record of it."

    hardware = training["hardware"]
    machine = hardware.get("gpu") or hardware.get("cpu")
    return (
        f"{training['parameters']:,} parameters, {training['epochs']} epochs, of which number "
        f"{training['best_epoch']} was kept; {training['cpu_s']:.0f} CPU seconds on {machine}, "
        f"torch {training['versions']['torch']}.\n\n"
        f"```sh\n{training['command']}\n```"
    )
