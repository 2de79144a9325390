"""Registry entries for a user's own files.

What the files hold is guessed, to be looked at and corrected.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import yaml

from pam.data.dataset import SPLITS
from pam.data.forms import form_of_file, text_form, to_memory
from pam.data.guessed_records import guess_corrections, guess_memory, guess_records
from pam.data.guessed_tables import guess_conllu, guess_table, sides, words_note
from pam.data.guesses import Choices, Guess, format_of_kind, size_of, task_of
from pam.data.records import json_records, table_records
from pam.data.registry import Dataset, load_registries
from pam.data.sampling import ALL
from pam.data.text_files import MARK, MARKUP, SUFFIXES, lines_of
from pam.data.tmx import tmx_units
from pam.experiments.keys import NAME
from pam.experiments.yaml import read_yaml
from pam.runtime.errors import UserError
from pam.runtime.files import are_one, atomic_write

LOOKED_AT = 2000  # lines from which the form of a file is guessed
FIRST = 5  # rows that are shown
REFERENCE_NUMBER = re.compile(r"(?:ref)?\d+")  # in a name of several files of references

# Words in files' names that say which split they are.
SPLIT_NAMES = {
    **dict.fromkeys(("train", "trn", "training", "trainset"), "train"),
    **dict.fromkeys(
        ("dev", "devel", "development", "devset", "newsdev", "valid", "validation", "val"), "dev"
    ),
    **dict.fromkeys(("test", "tst", "testing", "testset", "newstest", "gold"), "test"),
}
# Ends of names that say what kind of file it is, and not whose language.
GENERIC = {"txt", "text", "tsv", "csv", "dat", "raw", "tok", "sgm", "sgml", "xml", *SPLIT_NAMES}


def plain_name(path: Path) -> Path:
    """Return a path without the suffix that says that it is compressed."""
    if path.suffix in SUFFIXES:
        return path.with_suffix("")
    return path


def by_split(choices: Choices) -> dict[str, list[list[Path]]]:
    """Return the parts of each split that is named, or that files' names say.

    A part is one file or those of a corpus, the source first. If names say none, all files are in
    the one split of all pairs. A UserError says which splits are missing, and how to name them.
    """
    files = choices.files
    named = choices.splits
    known = ", ".join((*SPLITS, ALL))
    if named is not None and len(named) != len(files):
        again = choices.command(splits=_example(files))
        hint = f"name one of {known} for each file, in their order, as by {again}"
        raise UserError(f"{len(named)} splits for {len(files)} files", hint=hint)

    splits = defaultdict(list)
    for path, split in zip(files, named or _splits_of(files), strict=True):
        if split not in (*SPLITS, ALL):
            again = choices.command(splits=_example(files))
            raise UserError(f"--splits {split}", hint=f"choose from {known}, as by {again}")
        splits[split].append(path)

    # All splits or the one of all pairs, or those from which dev can be drawn.
    is_whole = set(splits) in ({ALL}, set(SPLITS), {"train", "test"})
    parts = {split: _parts(paths) for split, paths in splits.items()}
    # Each part is one file, or each is of several.
    forms = {len(part) > 1 for corpora in parts.values() for part in corpora}
    if is_whole and all(parts.values()) and len(forms) == 1:
        return parts
    raise _incomplete(choices, splits)


def _parts(paths: list[Path]) -> list[list[Path]]:
    """Return the parts of a split, the source first; none if files do not belong together.

    Several files of references have names that differ in numbers alone. The files of a corpus have
    names that differ in their languages alone.
    """
    if len(paths) < 3:
        return [paths]

    by_letters = defaultdict(list)
    by_corpus: dict[tuple[Path, str, str], dict[str, Path]] = defaultdict(dict)
    for path in paths:
        by_letters[re.sub(r"[^A-Za-z]+", "", path.name)].append(path)
        language = _end_of_name(path)
        before, _, after = f"{path.name}.".rpartition(f".{language}.")
        by_corpus[path.parent, before, after][language] = path

    groups = sorted(by_letters.values(), key=len)
    if len(groups) == 2 and len(groups[0]) == 1:
        return [groups[0] + groups[1]]

    first = next(iter(by_corpus.values()))
    if len(first) == 2 and all(corpus.keys() == first.keys() for corpus in by_corpus.values()):
        return [[corpus[language] for language in first] for corpus in by_corpus.values()]
    return []


def _incomplete(choices: Choices, splits: Mapping[str, list[Path]]) -> UserError:
    """Make the error for files that are not those of all splits."""
    files = choices.files
    listed = "; ".join(
        f"{split}: {', '.join(path.name for path in paths)}" for split, paths in splits.items()
    )
    message = f"these files make no data set ({listed})"
    missing = [split for split in SPLITS if split not in splits]
    if missing and splits.keys() & set(SPLITS):
        message = f"no file is known as {' or '.join(missing)} ({listed})"
    if ALL in splits and len(splits) > 1:
        unclear = ", ".join(path.name for path in splits[ALL])
        message = f"the names of some files do not say which split they are: {unclear}"

    hint = (
        "name one file or a pair, or as many of each of train, dev and test (without dev it is"
        " drawn from train); "
    )
    are_named = set(choices.splits or ()) == {ALL}
    if len(files) % len(SPLITS) == 0 and not are_named:
        again = choices.command(splits=_example(files))
        return UserError(message, hint=f"{hint}say which is which in their order, as by {again}")

    training = splits.get("train") or next(iter(splits.values()))
    if not _parts(training):
        hint += (
            "several corpora have names that differ in their languages alone, such as `a.de a.en"
            " b.de b.en`; other files that belong together are listed by hand (docs/data.md,"
            " several corpora)"
        )
        return UserError(message, hint=hint)

    # One split alone can be divided into all of them.
    alone = choices.command(files=training, splits=[ALL] * len(training))
    return UserError(message, hint=f"{hint}or divide what is there into all of them: {alone}")


def _example(files: Sequence[Path]) -> list[str]:
    """Name a split of each file, as many of each; of one file or a pair, all pairs."""
    count, rest = divmod(len(files), len(SPLITS))
    if count and not rest:
        guessed = _splits_of(files)
        if set(guessed) == set(SPLITS):
            return guessed
        # A file that names no split is taken for the first that is missing.
        waiting = [split for split in SPLITS for _ in range(max(0, count - guessed.count(split)))]
        example: list[str] = []
        for split in guessed:
            is_too_many = split != ALL and example.count(split) >= count
            example.append(waiting.pop(0) if split == ALL or is_too_many else split)
        return example
    if len(files) == 2:
        return ["train", "test"]
    return [ALL] * len(files)


def _splits_of(files: Sequence[Path]) -> list[str]:
    """Return the split that each file's name says; where names are alike, its folder's name."""
    names = [path.name for path in files]
    if len(set(names)) < len(names):
        names = [path.absolute().parent.name for path in files]
    return [_split_of(name) for name in names]


def _split_of(name: str) -> str:
    for word in re.split(r"[^a-z]+", name.lower()):
        if word in SPLIT_NAMES:
            return SPLIT_NAMES[word]
    return ALL


def guess(choices: Choices, keys: Mapping[Path, str]) -> Guess:
    """Guess `task`, `splits` and `format` of an entry, files by their `keys` in it.

    A UserError says that they cannot be guessed.
    """
    splits = by_split(choices)
    first, *partners = (splits.get("train") or next(iter(splits.values())))[0]
    form = "" if partners else _form(first)

    divide: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    if set(splits) == {ALL}:
        size = size_of(_count(first, form))
        divide["divide"] = {"dev": size, "test": size}
    elif "dev" not in splits:
        size = size_of(_count(first, form))
        divide["divide"] = {"dev": size}
        notes = (f"there is no file of dev: {size} rows are drawn from train for it",)

    if partners:
        entry = _pair_of_files(splits, choices, divide, keys)
        return replace(entry, notes=(*notes, *entry.notes))

    if form in ("jsonl", "table"):
        firsts = {split: part[0] for split, (part,) in splits.items()}
        entry = guess_records(firsts, form, choices, divide)
    elif form in ("tmx", "xliff"):
        entry = guess_memory(first, form, choices, divide)
    elif form == "m2":
        entry = guess_corrections(choices, divide)
    elif form == "conllu":
        entry = guess_conllu(choices, divide)
    else:
        entry = guess_table(first, choices, divide)
    file_names = {split: keys[part[0]] for split, (part,) in splits.items()}
    return replace(entry, splits=file_names, notes=(*notes, *entry.notes))


def _form(path: Path) -> str:
    """Return the form of a file by its reader, empty of a table of text.

    A UserError says that no reader reads it, and how to convert it.
    """
    form = form_of_file(path)
    if form is not None and form.read_table is not None:
        return "table"

    lines = [line.text for line in islice(lines_of(path), LOOKED_AT)]
    name = text_form(lines)
    if name == "po":
        raise to_memory(path, lines)
    return name


def _count(path: Path, form: str) -> int:
    """Count the rows of a file."""
    if form == "table":
        return sum(1 for _ in table_records(path))
    if form == "jsonl":
        return sum(1 for _ in json_records(path))
    if form == "m2":
        return sum(line.text.startswith("S ") for line in lines_of(path))
    if form in ("tmx", "xliff"):
        return sum(1 for _ in tmx_units(path))
    return sum(bool(line.text.strip()) for line in lines_of(path))


def _pair_of_files(
    splits: Mapping[str, Sequence[Sequence[Path]]],
    choices: Choices,
    divide: dict[str, Any],
    keys: Mapping[Path, str],
) -> Guess:
    """Make the entry of files of lines, or of segments, one for each language.

    Further files of a part are further references.
    """
    first = next(iter(splits.values()))[0]
    if choices.kind == "inflection":
        pair = choices.command(kind="translation")
        hint = f"name one file of lemma, features and form for each split, or say {pair}"
        raise UserError("no columns for a task of inflection", file=first[0], hint=hint)

    source, target = choices.languages or sides([_end_of_name(path) for path in first[:2]], choices)
    notes: tuple[str, ...] = ()
    if not choices.languages:
        others = choices.instead(languages=("en", "de"))
        notes = (f"the first file is {source}, the second {target} (or {others})",)

    kind = "segments" if any(map(_is_markup, first)) else "lines"
    read: dict[str, Any] = {"kind": kind, **divide}
    file_names: dict[str, Any] = {}
    for split, parts in splits.items():
        corpora: list[dict[str, Any]] = []
        for source_path, *target_paths in parts:
            targets = [keys[path] for path in target_paths]
            corpora.append({source: keys[source_path], target: targets})
            if len(targets) == 1:
                corpora[-1][target] = targets[0]
            else:
                notes += (f"{split} has {len(targets)} files of references",)
        file_names[split] = corpora if len(corpora) > 1 else corpora[0]
        if len(corpora) > 1:
            notes += (f"{split} is {len(corpora)} corpora, read one after the other",)

    layout: dict[str, Any] = {"source": source, "target": target, "read": read}
    texts = [[line.text for line in islice(lines_of(path), LOOKED_AT)] for path in first[:2]]
    layout |= format_of_kind(choices.kind, (source, target), texts[1])
    if choices.kind is None:
        notes += words_note(list(zip(*texts, strict=False)), choices)
    return Guess(task_of(choices.kind), splits=file_names, format=layout, notes=notes)


def _is_markup(path: Path) -> bool:
    return any(MARKUP.match(line.text) for line in islice(lines_of(path), LOOKED_AT))


def _end_of_name(path: Path) -> str:
    """Return the end of a file's name that may be a language: `de` of `train.de.txt.gz`."""
    ends = plain_name(path).name.split(".")[1:]
    for end in reversed(ends):
        if end.lower() not in GENERIC and not REFERENCE_NUMBER.fullmatch(end.lower()):
            return end
    return ""


@dataclass(frozen=True)
class Written:
    """An entry that was added to a registry."""

    name: str
    registry: Path
    text: str  # as YAML
    dataset: Dataset
    rows: list[tuple[str, ...]]  # the first ones, as they are read
    notes: tuple[str, ...]  # what was guessed, and how to say otherwise


def write_entry(choices: Choices) -> Written:
    """Add an entry to a registry, which is made if it is not there.

    A UserError says what is wrong with the files, or that the name is taken; nothing is written
    then.
    """
    for path in choices.files:
        if not path.exists():
            raise UserError("no such file", file=path, hint="check the name")
        if not (path.is_file() or path.is_dir()):
            hint = "write it into a file, which is read more than once"
            raise UserError("this is no file", file=path, hint=hint)
    first = choices.files[0]
    registry = choices.registry or first.parent / "datasets.yaml"
    for path in choices.files:
        if are_one(path, registry):
            hint = "name the file of YAML that is to list data sets"
            raise UserError("the registry is a file of data", file=registry, hint=hint)
    entries = _entries(registry)
    name = _name(choices, first, entries, registry)
    files = _files_of_folders(choices.files)
    if files != list(choices.files):
        # A command that calls again names the files of a folder.
        choices = replace(choices, files=files, registry=registry, name=name)
    folder = registry.parent
    keys = _keys(files)
    sources = {keys[path]: {"path": os.path.relpath(path, folder)} for path in files}
    guessed = guess(choices, keys)

    entry = {
        "task": guessed.task,
        "title": name,
        "files": sources,
        "splits": guessed.splits,
        "format": guessed.format,
    }
    text = yaml.safe_dump(
        {name: entry}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )

    text_before = ""
    if registry.exists():
        text_before = _without(name, registry.read_text(encoding="utf-8"))
    with atomic_write(registry) as temporary:
        temporary.write_text(text_before + text, encoding="utf-8")
        try:
            dataset = load_registries([temporary])[name]
        except UserError as error:
            # The temporary file is one that nobody will find.
            file = registry if error.file == str(temporary) else error.file
            raise UserError(error.message, file=file, hint=error.hint) from error

        # The files are where the user has them, as nothing has been fetched yet.
        paths = {key: folder / source["path"] for key, source in sources.items()}
        files_by_split = dataset.files_by_split(lambda key: paths[key])
        rows = dataset.kind.first_rows(files_by_split, dataset.layout, FIRST)

    return Written(
        name=name,
        registry=registry,
        text=text,
        dataset=dataset,
        rows=next(iter(rows.values())),
        notes=guessed.notes,
    )


def _without(name: str, registry: str) -> str:
    """Return the text of a registry without an entry, ready for one to follow."""
    registry = registry.removeprefix(MARK)
    document = yaml.compose(registry)
    # Each entry's name, by the character at which it begins.
    names = {}
    if document is not None:
        names = {key.start_mark.index: key.value for key, _ in document.value}

    kept = []
    is_entry = False
    begin = 0
    # Not by `splitlines`: YAML may have other line ends in its texts.
    for line in registry.split("\n"):
        if line and not line[0].isspace():
            is_entry = names.get(begin) == name
        begin += len(line) + 1
        if not is_entry:
            kept.append(line)

    text = "\n".join(kept).rstrip("\n")
    return f"{text}\n\n" if text else ""


def _files_of_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the files, for a folder those that it holds, as a data set of Hugging Face does.

    A UserError says that a split has several.
    """
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue

        tables = [file for end in ("arrow", "parquet") for file in sorted(path.rglob(f"*.{end}"))]
        tables = [file for file in tables if not file.name.startswith("cache-")]
        folders = Counter(file.parent for file in tables)
        if tables and max(folders.values()) > 1 and tables[0].suffix == ".arrow":
            program = (
                "import sys, datasets; data = datasets.load_from_disk(sys.argv[1]);"
                " [part.to_parquet(f'{sys.argv[1]}/{name}.parquet') for name, part in"
                " getattr(data, 'items', lambda: [('all', data)])()]"
            )
            command = shlex.join(["python", "-c", program, str(path)])
            hint = f"write each split into one file, then name these: `{command}`"
            raise UserError("a split in several files", file=path, hint=hint)
        if not tables:
            listed = [file for file in sorted(path.iterdir()) if file.is_file()][:6]
            hint = f"name the files: {' '.join(map(str, listed))}" if listed else "name the files"
            raise UserError("this is a folder", file=path, hint=hint)
        files += tables
    return files


def _keys(files: Sequence[Path]) -> dict[Path, str]:
    """Return the names of files in the entry: plain, and no two alike."""
    if len(set(files)) < len(files):
        raise UserError("a file is named twice", hint="name each file once")

    keys = {path: _plain(path.name) or "data" for path in files}
    if len(set(keys.values())) < len(files):
        keys = {path: _plain(f"{path.absolute().parent.name}-{path.name}") for path in files}
    if len(set(keys.values())) < len(files):
        keys = {path: f"{number}-{key}" for number, (path, key) in enumerate(keys.items(), 1)}
    return keys


def _plain(name: str) -> str:
    """Return a name of letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")


def _entries(registry: Path) -> dict[str, Any]:
    """Read the entries of a registry, if there is one."""
    if not registry.exists():
        return {}
    content = read_yaml(registry)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(
            "this is no registry of data sets", file=registry, hint="name another, or a new file"
        )
    return content


def _name(
    choices: Choices,
    first: Path,
    entries: Mapping[str, Any],
    registry: Path,
) -> str:
    """Return the name of a new entry, which no other one has.

    Without a chosen name, it tells what the files hold, not which split. A UserError says that a
    chosen one is taken.
    """
    name = choices.name or _telling_name(first)
    if name not in entries or choices.replace:
        return name
    if choices.name is None:
        numbered = (f"{name}-{number}" for number in count(2))
        return next(other for other in numbered if other not in entries)

    hint = f"give another name, or replace that entry: {choices.instead()}"
    raise UserError(f"`{name}` is in this registry already", file=registry, hint=hint)


def _telling_name(path: Path) -> str:
    """Return a name for a data set: of its first file without the split, or of its folder."""
    folders = [folder.name for folder in path.absolute().parents]
    for name in (plain_name(path).stem, *folders):
        parts = re.split(r"([._ -]+)", name)
        kept = [part for part in parts if _split_of(part) == ALL]
        telling = _plain("".join(kept))
        has_letters = re.search("[A-Za-z]", telling) and telling.lower() not in GENERIC
        if has_letters and re.fullmatch(NAME, telling):
            return telling
    return "data"
