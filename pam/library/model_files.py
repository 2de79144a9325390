"""Trained models as files: by which path or name one is meant, and what its folder holds.

A model is the folder of a run, a model folder, a file that `pam export` wrote, or one
that comes with the package, `pretrained:NAME`. Nothing here imports torch, as the workflow reads
this module whenever it starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pam.data.archives import extract_all
from pam.data.codecs import codec_of
from pam.data.download import UnavailableError, Wanted, download
from pam.data.prepare import Symbols
from pam.experiments.model import EXPORTED_SUFFIX, PRETRAINED
from pam.experiments.run_config import RunConfig, load_run
from pam.experiments.run_folder import WEIGHTS, RunFolder
from pam.runtime.errors import UserError
from pam.runtime.files import PACKAGE, scratch_folder, sha256_of
from pam.tasks import KINDS

PRETRAINED_FOLDER = PACKAGE / "pretrained"
LARGEST_MODEL = 4 * 2**30  # bytes of an exported model's files together

ADDRESSES = ("https://", "http://", "file://")
"""Beginnings of names that are addresses."""

CONFIG = "config.yaml"
EXPORTED_WEIGHTS = "model.safetensors"
"""The weights of an exported model, under the name by which model hubs find them."""
CARD = "README.md"
"""What an exported model tells people of itself."""


def find(name: str | Path) -> Path:
    """Return the path at which the model folder or exported file of a name should be.

    Raises:
        UserError: no pretrained model has this name.
    """
    if str(name).startswith(PRETRAINED):
        model_name = str(name).removeprefix(PRETRAINED)
        if model_name not in pretrained():
            known_names = ", ".join(pretrained()) or "none"
            raise UserError(f"no pretrained model `{model_name}`", hint=f"known: {known_names}")
        return PRETRAINED_FOLDER / f"{model_name}{EXPORTED_SUFFIX}"

    run = RunFolder(Path(name))
    if run.model.is_dir():
        return run.model
    return run.path


def pretrained() -> list[str]:
    """List the names of the models that come with the package.

    Example:
        >>> pretrained()[:3]
        ['de-en/aligner', 'nouns/postr-joint', 'nouns/soft']
    """
    files = sorted(PRETRAINED_FOLDER.rglob(f"*{EXPORTED_SUFFIX}"))
    return [file.relative_to(PRETRAINED_FOLDER).with_suffix("").as_posix() for file in files]


@contextmanager
def opened(name: str | Path, sha256: str | None = None) -> Iterator[Path]:
    """Give the model folder of a name; that of a file is there as long as the context.

    Args:
        name: a path, `pretrained:NAME`, or an address.
        sha256: the hash that the file must have; an address needs it.

    Raises:
        UserError: there is no such model, or its file is damaged, or has another hash.
    """
    if str(name).startswith(ADDRESSES):
        with _downloaded(str(name), sha256) as file, _unpacked(file, str(name)) as folder:
            yield folder
        return

    path = find(name)
    if sha256 is not None:
        _check_hash(path, sha256)
    if path.is_file():
        with _unpacked(path) as folder:
            yield folder
    elif (path / CONFIG).is_file() or weights_file(path).is_file():
        yield path
    else:
        hint = (
            "name the folder of a trained run, results/EXPERIMENT/TASK/MODEL/seedK, or a file that"
            " `pam export` wrote"
        )
        if str(name) in pretrained():
            hint = f"a model that comes with the package is named `{PRETRAINED}{name}`"
        raise UserError("no trained model", file=path, hint=hint)


@contextmanager
def _downloaded(address: str, sha256: str | None) -> Iterator[Path]:
    """Give the file at an address; it is there as long as the context."""
    if sha256 is None:
        hint = "give the SHA-256 that the file must have, `sha256=...`: anybody may replace it"
        raise UserError("an address without a hash", file=address, hint=hint)
    _check_is_hash(sha256)

    origin = address
    if address.startswith("file:"):
        origin = url2pathname(urlsplit(address).path)
    with scratch_folder() as folder:
        file = folder / f"model{EXPORTED_SUFFIX}"
        try:
            download(file, Wanted(sha256=sha256), [origin])
        except UnavailableError as error:
            hint = "check the address, and the hash with `sha256sum` where the file was made"
            raise UserError(error.message, hint=hint) from error
        yield file


def _check_hash(path: Path, sha256: str) -> None:
    """Check the hash of a file; a UserError says that it is another one."""
    _check_is_hash(sha256)
    if not path.is_file():
        raise UserError("a hash is for a file", file=path, hint="leave out `sha256`")
    if sha256_of(path) != sha256:
        hint = "copy the file once more, or correct the hash if it is the right file"
        raise UserError(f"its SHA-256 is {sha256_of(path)}", file=path, hint=hint)


def _check_is_hash(sha256: object) -> None:
    """Check that a hash is one of SHA-256."""
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        raise UserError(f"sha256 {sha256}", hint="write 64 digits 0-9 and a-f")


@contextmanager
def _unpacked(file: Path, name: str | None = None) -> Iterator[Path]:
    """Give a temporary folder with the files of an exported model.

    Errors name the exported file, or its `name`, as nobody knows the temporary folder.
    """
    name = name or str(file)
    hint = "export the model again, or copy the file once more"
    with scratch_folder() as folder:
        try:
            extract_all(file, folder, LARGEST_MODEL)
        except UserError as error:
            raise UserError(error.message, file=name, hint=hint) from error

        try:
            yield folder
        except UserError as error:
            if error.file is None or not Path(error.file).is_relative_to(folder):
                raise
            member = Path(error.file).relative_to(folder)
            raise UserError(f"{member} in it: {error.message}", file=name, hint=hint) from error


def files_of(name: str) -> list[Path]:
    """List the files of a model by its name, so that a job can depend on them.

    Those of a model that comes with the package are none: they do not change.
    """
    if name.startswith(PRETRAINED):
        return []

    path = find(name)
    if path.is_file() or path.suffix == EXPORTED_SUFFIX:
        return [path]

    # The same files of a run before it is trained and afterwards: others would be a change.
    folder = Path(name)
    if not weights_file(folder).is_file():
        return RunFolder(folder).model_files
    return [folder / CONFIG, folder / "source.vocab", folder / "target.vocab", weights_file(folder)]


def weights_file(folder: Path) -> Path:
    """Return the path of a model folder's weights, which an exported model names differently."""
    exported = folder / EXPORTED_WEIGHTS
    return exported if exported.is_file() else folder / WEIGHTS


def belongings(task: str, folder: Path) -> list[str]:
    """List the files of a model folder, or of prepared data, that define its symbols."""
    return ["source.vocab", "target.vocab", *codec_of(task).files_in(folder)]


@dataclass(frozen=True)
class Description:
    """What a model folder says of itself, without its weights."""

    folder: Path
    run: RunConfig
    task: str  # the kind of the task
    source_eos: bool  # whether the sources that it reads end in an end symbol

    @classmethod
    def of(cls, folder: Path) -> Description:
        """Read the configuration and the notes of a model folder.

        Raises:
            UserError: a file is missing, damaged, or of something else.
        """
        notes = read_notes(weights_file(folder))
        run = None
        if "task" in notes:
            run = load_run(folder / CONFIG)  # with its plugins, one of which may add the kind
        if run is None or notes["task"] not in KINDS:
            hint = "name a model that `pam train` made"
            raise UserError(
                "these weights were not written by pam", file=weights_file(folder), hint=hint
            )

        return cls(
            folder=folder,
            run=run,
            task=notes["task"],
            source_eos=notes.get("source_eos") != "false",
        )

    def symbols(self, name: str) -> Symbols:
        """Return the model's symbols; `name` is what people call the model."""
        return Symbols(name, self.folder, self.task, self.source_eos)

    def digests(self) -> dict[str, str]:
        """Return SHA-256 of each file that defines the symbols."""
        return {name: sha256_of(self.folder / name) for name in belongings(self.task, self.folder)}


def read_notes(weights: Path) -> Mapping[str, str]:
    """Read the notes that were saved with weights, and nothing else of the file."""
    from safetensors import SafetensorError, safe_open

    hint = "train the model again, or copy it once more"
    try:
        with safe_open(weights, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {}).get("pam", "{}"))
            return dict(metadata.get("notes", {}))
    except FileNotFoundError as error:
        raise UserError("no such file", file=weights, hint=hint) from error
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        message = "not a safetensors file, or cut short"
        raise UserError(message, file=weights, hint=hint) from error
