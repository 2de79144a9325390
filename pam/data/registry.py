"""The registry: what each data set consists of, where its files come from, how they are read.

It is a YAML file of names with the keys of `Dataset`: `config/datasets.yaml`, and a user's own,
read with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from pam.config import NAME
from pam.data.captioning import Captioning
from pam.data.dataset import SPLITS
from pam.data.generated import find_generator
from pam.data.inflection import Inflection
from pam.data.prepare import Task, class_names
from pam.data.summarization import Summarization
from pam.data.translation import Translation
from pam.data.word_alignments import WordAlignments
from pam.io import (
    PathText,
    Section,
    Strict,
    UserError,
    find_file,
    parse,
    placed,
    read_yaml,
    unknown,
)

# Kind of task, as `task:` names it, to its class.
TASKS: dict[str, type[Task[Any]]] = {
    "inflection": Inflection,
    "translation": Translation,
    "summarization": Summarization,
    "captioning": Captioning,
    "alignment": WordAlignments,
}


class File(Strict):
    """One file of a data set: downloaded from `urls`, copied from `path`, or from a package."""

    urls: list[str] = Field([], description="addresses, the preferred one first")
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
        None, pattern=r"^[0-9a-f]{32}$", description="MD5 of the content, where no more is known"
    )
    hash_from: str | None = Field(None, description="how the hash is known")
    bytes: int | None = Field(None, ge=1, description="size")


class Package(Strict):
    """An installed Python package whose data the files are drawn from."""

    name: str = Field(description="one of pam.data.generated.GENERATORS", pattern=NAME)
    version: str = Field(description="the version that the hashes belong to")
    options: dict[str, Any] = Field({}, description="fields of its generator")


class Dataset(Strict):
    """A data set."""

    task: str = Field(description="kind of task, one of TASKS")
    title: str = Field("", description="what it is, in a line")
    licence: str = Field("", description="licence of the data, or what is known of it")
    redistributable: bool = Field(
        True, description="whether its licence lets text of it be passed on with results"
    )
    citation: str = Field("", description="publication to cite")
    mirror_name: PathText | None = Field(
        None, description="folder on a mirror that is tried before the data set's own name"
    )
    package: Package | None = Field(None, description="package that the files are drawn from")
    obtain: str = Field("", description="how to get files that no address gives")
    files: dict[str, File] = Field(description="file name to its source")
    splits: dict[str, str | dict[str, str]] = Field(
        {name: f"{name}.tsv" for name in SPLITS},
        description="split to one of `files`, or to one for each language",
    )
    format: dict[str, Any] = Field({}, description="how the files are read, by kind of task")

    @property
    def kind(self) -> Task[Any]:
        return load_task(self.task)

    @property
    def layout(self) -> Strict:
        """`format`, as the kind of task understands it."""
        return self.kind.Format.model_validate(self.format)

    def with_format(self, overrides: Mapping[str, Any]) -> Dataset:
        """The same data set, read in another way: each of these keys of `format` takes the place of
        its own.
        """
        return self.model_copy(update={"format": self.format | dict(overrides)})

    def generator_names(self) -> list[str]:
        """`module:Class` of what draws the files, if a package is their source."""
        return class_names(find_generator(self.package.name)) if self.package else []

    def local_paths(self) -> list[Path]:
        """Files of the user's own that the data set is copied from."""
        return [Path(file.path) for file in self.files.values() if file.path is not None]


def load_task(kind: str) -> Task[Any]:
    """A kind of task by its name; a UserError names the closest if there is no such kind."""
    if kind not in TASKS:
        raise unknown("kind of task", kind, sorted(TASKS))
    return TASKS[kind]()


def load_registries(paths: Sequence[Path | str]) -> dict[str, Dataset]:
    """All data sets of the registries `paths`, by name; a UserError names the line of what is wrong
    or there twice.
    """
    datasets: dict[str, Dataset] = {}
    for path in map(find_file, paths):
        content = read_yaml(path)
        if not isinstance(content, dict) or not content:
            hint = "see config/README.md for an example"
            raise UserError("expected names of data sets with their keys", file=path, hint=hint)
        for name, value in content.items():
            entry = _Entry(path, str(name))
            if name in datasets:
                raise entry.error(
                    f"data set `{name}` is in another registry already", [], "rename it"
                )
            datasets[entry.name] = entry.read(value)
    return datasets


def find_dataset(paths: Sequence[Path | str], name: str) -> Dataset:
    """The data set `name`; a UserError as `load_registries`, or naming the closest if no registry
    has it.
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
        if not re.fullmatch(NAME, self.name):
            raise self.error(
                f"`{self.name}` cannot be a data set's name",
                [],
                "use letters, digits, `.`, `_` and `-`",
            )
        files = value.get("files") if isinstance(value, dict) else None
        if isinstance(files, dict):
            parsed = {key: self._file(str(key), own) for key, own in files.items()}
            value = value | {"files": {key: file.model_dump() for key, file in parsed.items()}}
        dataset = self._parse(Dataset, value, [])
        try:
            task = dataset.kind
        except UserError as error:
            raise self.error(error.message, ["task"], error.hint) from error
        layout = self._parse(task.Format, dataset.format, ["format"])
        for key, file in dataset.files.items():
            known = bool(file.urls) or file.path is not None
            if dataset.package is not None and known:
                raise self.error(
                    f"`{key}` has a source beside the package", ["files", key], "keep one of them"
                )
            if dataset.package is None and not known and not dataset.obtain:
                hint = "give `urls`, a `path`, or a `package`, or say in `obtain` how to get it"
                raise self.error(f"`{key}` has no source", ["files", key], hint)
        if dataset.package is not None:
            try:
                generator = find_generator(dataset.package.name)
            except UserError as error:
                raise self.error(error.message, ["package", "name"], error.hint) from error
            self._parse(generator, dataset.package.options, ["package", "options"])
        wanted = task.splits(layout)
        alone = task.tests_alone and "test" in wanted and list(dataset.splits) == ["test"]
        if sorted(dataset.splits) != sorted(wanted) and not alone:
            message = f"splits are {', '.join(dataset.splits) or 'missing'}"
            raise self.error(message, ["splits"], f"give {', '.join(wanted)}")
        for split, own in dataset.splits.items():
            for key in [own] if isinstance(own, str) else own.values():
                if key not in dataset.files:
                    message = f"split {split} is `{key}`, which is not one of the files"
                    raise self.error(
                        message, ["splits", split], f"files: {', '.join(dataset.files)}"
                    )
        return dataset

    def _file(self, key: str, value: Any) -> File:
        place = ["files", key]
        file = self._parse(File, value, place)
        parts = PurePosixPath(key).parts
        if not parts or not all(re.fullmatch(NAME, part) for part in parts):
            raise self.error(f"`{key}` cannot be a file's name", place, "use a plain name")
        if file.urls and file.path is not None:
            raise self.error(f"`{key}` has both urls and a path", place, "keep one of them")
        for url in file.urls:
            try:
                scheme, host = urlsplit(url).scheme, urlsplit(url).hostname
            except ValueError:
                scheme, host = "", None
            # No one on the way can replace the file.
            safe = (
                scheme == "https"
                or file.sha256 is not None
                or host in ("localhost", "127.0.0.1", "::1")
            )
            if scheme not in ("http", "https") or not host or not safe:
                hint = "use https; plain http needs a known sha256"
                raise self.error(f"`{url}` is not an https address", [*place, "urls"], hint)
        if file.path is None:
            return file
        try:
            path = str(self.path.parent / Path(file.path).expanduser())
        except RuntimeError as error:
            message = f"`{file.path}` is in the home of a user who is not known here"
            raise self.error(message, [*place, "path"], "write the whole path") from error
        if not path.isprintable() or set("{}") & set(path):
            message = (
                f"`{path}` has braces, which Snakemake takes for wildcards, or what does not print"
            )
            raise self.error(message, [*place, "path"], "rename the file or the folder")
        return file.model_copy(update={"path": path})

    def _parse(self, kind: type[Section], value: Any, place: list[str]) -> Section:
        return parse(kind, value, self.path, [self.name, *place])

    def error(self, message: str, keys: list[str], hint: str | None) -> UserError:
        """An error at the nested `keys` of this data set."""
        named = message if f"`{self.name}`" in message else f"data set `{self.name}`: {message}"
        return placed(UserError(named, hint=hint), [self.path], [self.name, *keys])
