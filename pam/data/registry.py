"""The registry of data sets: where their files come from, and how they are read.

It is a YAML file of names with the keys of `Dataset`: `config/datasets.yaml`, and a user's own,
read with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from pam.data.dataset import SPLITS
from pam.data.generated import find_generator
from pam.data.prepare import Task, class_names
from pam.data.reading import FURTHER, Files, Part
from pam.experiments.keys import NAME
from pam.experiments.parsing import PathText, Section, Strict, parse
from pam.experiments.yaml import placed, read_yaml
from pam.runtime.errors import UserError, unknown
from pam.runtime.files import find_file
from pam.tasks import KINDS, find_kind, imported

DECIDES_NO_RESULT = True  # for `pam.experiments.fingerprint`

_LISTED = ", ".join(f"`{name}`" for name in list(KINDS)[:-1])


class File(Strict):
    """One file of a data set: downloaded from `urls`, copied from `path`, or from a package."""

    urls: list[str] = Field(
        [],
        description=("addresses, the preferred one first; `ADDRESS#FILE` is a file in an archive"),
    )
    path: PathText | None = Field(
        None,
        description=(
            "a local file, or a folder that is packed as tar, relative to the registry's folder"
        ),
    )
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the content"
    )
    md5: str | None = Field(
        None, pattern=r"^[0-9a-f]{32}$", description="MD5 of the content, if no SHA-256 is known"
    )
    hash_from: str | None = Field(None, description="where the hash comes from")
    bytes: int | None = Field(None, ge=1, description="size in bytes")


class Package(Strict):
    """An installed Python package whose data the files are drawn from."""

    name: str = Field(description="one of pam.data.generated.GENERATORS", pattern=NAME)
    version: str = Field(description="the version that the hashes belong to")
    options: dict[str, Any] = Field({}, description="fields of its generator")


# a file, or one for each language; a list of files has several references of each line
Names = str | dict[str, str | list[str]]


class Dataset(Strict):
    """One data set of a registry."""

    task: str = Field(description=f"kind of task: {_LISTED} or `{list(KINDS)[-1]}`")
    title: str = Field("", description="a short description")
    licence: str = Field("", description="license of the data")
    redistributable: bool = Field(
        True, description="whether the license allows its text to be published with results"
    )
    citation: str = Field("", description="publication to cite")
    mirror_name: PathText | None = Field(
        None, description="folder on a mirror that is tried before the data set's own name"
    )
    package: Package | None = Field(
        None,
        description=(
            "installed package that the files are generated from: `name`, `version`, `options`"
        ),
    )
    obtain: str = Field("", description="how to get files that have no address")
    files: dict[str, File] = Field(description="the source of each file, by file name")
    splits: dict[str, Names | list[Names]] = Field(
        {name: f"{name}.tsv" for name in SPLITS},
        description=(
            "for each split one of `files`, or one file for each language, or a list of such parts,"
            " which are read one after the other; a language's list of files has several references"
            " of each line"
        ),
    )
    format: dict[str, Any] = Field({}, description="how the files are read; its keys are below")

    @property
    def kind(self) -> Task[Any]:
        """The class of the kind of task."""
        return load_task(self.task)

    @property
    def layout(self) -> Strict:
        """The keys of `format`, as the kind of task understands them."""
        return self.kind.Format.model_validate(self.format)

    def with_format(self, overrides: Mapping[str, Any]) -> Dataset:
        """Return the same data set with other values of these keys of `format`."""
        return self.model_copy(update={"format": self.format | dict(overrides)})

    def with_hashes(self, hashes: Mapping[str, str]) -> Dataset:
        """Return the same data set with the SHA-256 of these files."""
        files = dict(self.files)
        for name, sha256 in hashes.items():
            files[name] = files[name].model_copy(update={"sha256": sha256})
        return self.model_copy(update={"files": files})

    def generator_names(self) -> list[str]:
        """Return `module:Class` of what draws the files, if a package is their source."""
        if self.package is None:
            return []
        return class_names(find_generator(self.package.name))

    def files_by_split(self, place: Callable[[str], Path]) -> Files:
        """Return the files of each split, each file where `place` says that it is."""
        files: dict[str, Part | list[Part]] = {}
        for split, names in self.splits.items():
            if isinstance(names, list):
                files[split] = [_placed(part, place) for part in names]
            else:
                files[split] = _placed(names, place)
        return files

    def local_paths(self) -> list[Path]:
        """Return the user's own files that the data set is copied from."""
        return [Path(file.path) for file in self.files.values() if file.path is not None]


def load_task(kind: str) -> Task[Any]:
    """Return a kind of task by its name; a UserError names the closest if there is none."""
    task: type[Task[Any]] = imported(find_kind(kind).data)
    return task()


def load_registries(paths: Sequence[Path | str]) -> dict[str, Dataset]:
    """Read all data sets of the registries `paths`, by name.

    A UserError names the line of what is wrong or there twice.
    """
    datasets: dict[str, Dataset] = {}
    for path in map(find_file, paths):
        content = read_yaml(path)
        if not isinstance(content, dict) or not content:
            hint = "see config/README.md for an example"
            raise UserError("expected names of data sets with their keys", file=path, hint=hint)

        for name, value in content.items():
            entry = _Entry(path, str(name))
            # Tasks name their data by this name alone.
            if name in datasets:
                raise entry.error(
                    f"data set `{name}` is in another registry already", [], "rename it"
                )

            datasets[entry.name] = entry.read(value)
    return datasets


def find_dataset(paths: Sequence[Path | str], name: str) -> Dataset:
    """Return the data set `name`.

    A UserError is raised as by `load_registries`, or names the closest if no registry has it.
    """
    datasets = load_registries(paths)

    if name not in datasets:
        raise unknown("data set", name, sorted(datasets))
    return datasets[name]


@dataclass
class _Entry:
    """One data set of a registry file while it is read; its errors name the line."""

    path: Path
    name: str

    def read(self, value: Any) -> Dataset:
        """Check an entry, its sources and its splits; a UserError names the line of a fault."""
        if not re.fullmatch(NAME, self.name):
            message = f"`{self.name}` cannot be a data set's name"
            raise self.error(message, [], "use letters, digits, `.`, `_` and `-`")

        files = value.get("files") if isinstance(value, dict) else None
        if isinstance(files, dict):
            parsed = {key: self._file(str(key), source) for key, source in files.items()}
            value = value | {"files": {key: file.model_dump() for key, file in parsed.items()}}
        dataset = self._parse(Dataset, value, [])

        # What `format` may hold depends on the kind of task.
        try:
            task = dataset.kind
        except UserError as error:
            raise self.error(error.message, ["task"], error.hint) from error
        layout = self._parse(task.Format, dataset.format, ["format"])

        self._check_sources(dataset)
        self._check_splits(dataset, task, layout)
        return dataset

    def _check_sources(self, dataset: Dataset) -> None:
        """Check that each file has a source, and that the options of a package are right."""
        for key, file in dataset.files.items():
            has_source = bool(file.urls) or file.path is not None
            if dataset.package is not None and has_source:
                message = f"`{key}` has a source although its data set has a package"
                raise self.error(message, ["files", key], "keep one of them")
            if dataset.package is None and not has_source and not dataset.obtain:
                hint = "give `urls`, a `path`, or a `package`, or say in `obtain` how to get it"
                raise self.error(f"`{key}` has no source", ["files", key], hint)

        if dataset.package is None:
            return

        try:
            generator = find_generator(dataset.package.name)
        except UserError as error:
            raise self.error(error.message, ["package", "name"], error.hint) from error
        self._parse(generator, dataset.package.options, ["package", "options"])

    def _check_splits(self, dataset: Dataset, task: Task[Any], layout: Strict) -> None:
        """Check that there are the splits that the task needs, made of the data set's files."""
        needed = task.splits(layout)
        # A test set alone can be prepared in the symbols of other data.
        test_alone = task.tests_alone and "test" in needed and list(dataset.splits) == ["test"]
        if sorted(dataset.splits) != sorted(needed) and not test_alone:
            message = f"splits are {', '.join(dataset.splits) or 'missing'}"
            raise self.error(message, ["splits"], f"give {', '.join(needed)}")

        for split, names in dataset.splits.items():
            parts = names if isinstance(names, list) else [names]
            values: list[str | list[str]] = []
            for part in parts:
                values += part.values() if isinstance(part, dict) else [part]
            if [] in (names, *values):
                hint = "name its files, or leave it out"
                raise self.error(f"split {split} has an empty list", ["splits", split], hint)

            if not task.has_lists and any(isinstance(item, list) for item in (names, *values)):
                message = f"split {split} has a list of files"
                hint = f"name one file: a task of {dataset.task} reads no lists of files"
                raise self.error(message, ["splits", split], hint)

            for key in chain.from_iterable(map(_listed, values)):
                if key not in dataset.files:
                    message = f"split {split} is `{key}`, which is not one of the files"
                    hint = f"files: {', '.join(dataset.files)}"
                    raise self.error(message, ["splits", split], hint)

    def _file(self, key: str, value: Any) -> File:
        """Check one of the files; a local path becomes one from the folder of work."""
        keys = ["files", key]
        file = self._parse(File, value, keys)
        parts = PurePosixPath(key).parts
        if not parts or not all(re.fullmatch(NAME, part) for part in parts):
            raise self.error(f"`{key}` cannot be a file's name", keys, "use a plain name")
        if file.urls and file.path is not None:
            raise self.error(f"`{key}` has both urls and a path", keys, "keep one of them")

        for url in file.urls:
            if not _is_safe(url, has_hash=file.sha256 is not None):
                hint = "use https; plain http needs a known sha256"
                raise self.error(f"`{url}` is not an https address", [*keys, "urls"], hint)
        if file.path is None:
            return file

        try:
            # Paths are relative to the folder of the registry.
            path = str(self.path.parent / Path(file.path).expanduser())
        except RuntimeError as error:
            message = f"`{file.path}` is in the home folder of an unknown user"
            raise self.error(message, [*keys, "path"], "write the whole path") from error
        if not path.isprintable() or set("{}") & set(path):
            message = (
                f"`{path}` has braces, which Snakemake takes for wildcards, or what does not print"
            )
            raise self.error(message, [*keys, "path"], "rename the file or the folder")
        return file.model_copy(update={"path": path})

    def _parse(self, kind: type[Section], value: Any, keys: list[str]) -> Section:
        return parse(kind, value, self.path, [self.name, *keys])

    def error(self, message: str, keys: list[str], hint: str | None) -> UserError:
        """Make an error at the nested `keys` of this data set, whose name it says."""
        if f"`{self.name}`" not in message:
            message = f"data set `{self.name}`: {message}"
        return placed(UserError(message, hint=hint), [self.path], [self.name, *keys])


def _placed(names: Names, place: Callable[[str], Path]) -> Part:
    """Return the files of one part of a split."""
    if isinstance(names, str):
        return place(names)

    by_role: dict[str, Path] = {}
    for role, name_or_names in names.items():
        first, *further = _listed(name_or_names)
        by_role[role] = place(first)
        for number, name in enumerate(further, 2):
            by_role[FURTHER.format(role, number)] = place(name)
    return by_role


def _listed(names: str | list[str]) -> list[str]:
    """Return one or several names of files as a list."""
    if isinstance(names, str):
        return [names]
    return names


def _is_safe(url: str, *, has_hash: bool) -> bool:
    """Check that a URL is one of https, or that no one on the way can replace the file unseen."""
    try:
        parts = urlsplit(url)
        scheme = parts.scheme
        host = parts.hostname
    except ValueError:
        return False

    if scheme not in ("http", "https") or not host:
        return False
    return scheme == "https" or has_hash or host in ("localhost", "127.0.0.1", "::1")


# Files of the user's own.


def check_local(name: str, dataset: Dataset) -> list[Path]:
    """Return the user's own files that a data set is copied from, of a folder all of its files.

    A UserError names one that is missing, or that cannot be an input of the workflow.
    """
    files = []
    for path in dataset.local_paths():
        if path.is_dir():
            files += _files_in(name, path)
        elif path.is_file():
            files.append(path)
        else:
            hint = "correct its `path:` (relative to the registry's folder) or put it there"
            raise UserError(f"data set `{name}`: no such file", file=path, hint=hint)

    return files


def _files_in(name: str, folder: Path) -> list[Path]:
    """List all files of a folder: a folder itself does not show that one of them has changed."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        raise UserError(
            f"data set `{name}`: the folder is empty", file=folder, hint="put its files there"
        )

    for path in files:
        if not str(path).isprintable() or set("{}") & set(str(path)):
            message = (
                f"data set `{name}`: a name with braces, which Snakemake takes for wildcards, or"
                " unprintable"
            )
            raise UserError(message, file=path, hint="rename the file")

    return files
