"""Entries for records, such as JSON lines and Excel workbooks: which fields are source and target.

Translation memories (TMX) and annotated texts (CoNLL-U, M2) name their fields themselves.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pam.data.forms import form_of_file
from pam.data.guessed_tables import SYNONYMS
from pam.data.guesses import CHARACTERS, Choices, Guess, format_of_kind
from pam.data.records import Record, flat, json_records, table_records
from pam.data.text_files import lines_of
from pam.data.tmx import tmx_units
from pam.runtime.errors import UserError
from pam.tasks.inflection.codec import InflectionCodec

LOOKED_AT = 2000  # records from which fields are guessed
WORDS = 0.95  # share of a list's texts without spaces from which they are words
FEW = 3  # words in a list, on average, up to which they may be references

# usual names of fields
SOURCES = ("source", "src", "input", "inputs", "question", "mr", "meaning_representation")
TARGETS = ("target", "tgt", "output", "outputs", "reference", "references", "ref", "refs", "query")
TEXTS = ("article", "document", "dialogue", "text")
SUMMARIES = ("summary", "highlights", "abstract", "title")


@dataclass(frozen=True)
class Fields:
    """The first records of a file, and their fields that hold text, in their order."""

    records: Sequence[Record]
    names: list[str]
    nested: list[str]  # those of a record within the record

    @classmethod
    def of(cls, path: Path, kind: str) -> Fields:
        reading = json_records(path) if kind == "jsonl" else table_records(path)
        whole = [record for _, record in islice(reading, LOOKED_AT)]
        records = [flat(record) for record in whole]
        if not records:
            raise UserError("no records", file=path, hint="write some, or fetch the file again")

        first = records[0]
        names = [
            name
            for name in first
            if all(is_text(record.get(name, "")) for record in records)
            and any(record.get(name) for record in records)
        ]
        nested = [
            name
            for value in whole[0].values()
            if isinstance(value, dict)
            for name in value
            if name in names
        ]
        return cls(records, names, nested)

    def has_lists(self, name: str) -> bool:
        return any(isinstance(record.get(name), list) for record in self.records)

    def has_words(self, name: str, *, may_be_references: bool) -> bool:
        """Return whether the lists of a field are the words of a text."""
        lists: list[list[str]] = []
        is_nested = False
        for record in self.records:
            value = record.get(name)
            if isinstance(value, list):
                is_nested = is_nested or (bool(value) and isinstance(value[0], list))
                lists += value if is_nested else [value]

        texts = [text for words in lists for text in words]
        words = sum(len(text.split()) == 1 for text in texts)
        if may_be_references and not is_nested and len(texts) <= FEW * len(lists):
            return False
        return words > WORDS * len(texts)

    def texts(self, name: str) -> list[str]:
        return [str(record.get(name, "")) for record in self.records]


def is_text(value: Any) -> bool:
    """Return whether a value is a text, or a list of texts or of lists of them."""
    if isinstance(value, list):
        return all(map(is_text, value))
    return isinstance(value, str)


def guess_records(
    splits: Mapping[str, Path], kind: str, choices: Choices, divide: dict[str, Any]
) -> Guess:
    """Make the entry of records of a kind of file, `jsonl` or `table`."""
    first = next(iter(splits.values()))
    fields = Fields.of(first, kind)
    named = {SYNONYMS.get(name.lower(), name.lower()) for name in fields.names}
    is_inflection = choices.kind is None and choices.languages is None
    is_inflection = is_inflection and named.issuperset(InflectionCodec.columns)
    if is_inflection or choices.kind == "inflection" or choices.columns is not None:
        raise _no_columns(first)

    source, target, notes = _sides(fields, first, choices)
    read: dict[str, Any] = {"kind": kind}
    layout: dict[str, Any] = {"source": source, "target": target, "read": read}
    notes += _describe_lists(fields, layout)
    read |= divide

    if choices.kind is None and source in TEXTS and target in SUMMARIES:
        notes += (f"these are summaries (or {choices.instead(kind='translation')})",)
        return Guess("summarization", splits={}, format=layout, notes=notes)
    if choices.kind == "summarization":
        return Guess("summarization", splits={}, format=layout, notes=notes)

    layout |= format_of_kind(choices.kind, (source, target), fields.texts(target))
    return Guess("translation", splits={}, format=layout, notes=notes)


def _no_columns(path: Path) -> UserError:
    """Make the error for records that are to be columns."""
    form = form_of_file(path)
    reads = "read_json(sys.argv[1], lines=True)"
    if form is not None:
        reads = f"{form.reads}(sys.argv[1])"
    elif next(lines_of(path)).text.lstrip().startswith("["):
        reads = "read_json(sys.argv[1])"

    program = f'import sys, pandas; pandas.{reads}.to_csv(sys.argv[2], sep="\\t", index=False)'
    python_with_pandas = sys.executable
    made = path.with_suffix(".tsv")
    command = shlex.join([python_with_pandas, "-c", program, str(path), str(made)])
    hint = f"make it a TSV, then name that: `{command}`"
    return UserError("these are records, which have names and no columns", file=path, hint=hint)


def _sides(fields: Fields, path: Path, choices: Choices) -> tuple[str, str, tuple[str, ...]]:
    """Return the fields of source and target, with notes; a UserError lists the fields."""
    if len(fields.names) < 2:
        hint = "write two fields with text, one of source and one of target"
        listed = ", ".join(flat(fields.records[0]))
        raise UserError(f"no two fields hold text: {listed}", file=path, hint=hint)

    source, target = fields.names[:2]
    listed = ", ".join(fields.names)
    if choices.languages is not None:
        source, target = choices.languages
        for name in choices.languages:
            if name not in fields.names:
                again = choices.command(languages=fields.names[:2])
                hint = f"name two of {listed}, source first, as by {again}"
                raise UserError(f"no field `{name}` with text", file=path, hint=hint)
        return source, target, ()

    usual = [
        next((name for name in fields.names if name in names), None) for names in _usual(choices)
    ]
    if None not in usual and len(usual) == 2:
        source, target = map(str, usual)
    elif len(fields.nested) == 2:
        source, target = fields.nested
    elif len(fields.names) > 2:
        hint = f"name source and target, as by {choices.command(languages=fields.names[:2])}"
        raise UserError(f"several fields hold text: {listed}", file=path, hint=hint)

    turned = choices.instead(languages=(target, source))
    return source, target, (f"the source is {source}, the target {target} (or {turned})",)


def _usual(choices: Choices) -> tuple[Sequence[str], Sequence[str]]:
    """Return usual names of sources and of targets."""
    if choices.kind in CHARACTERS:
        source, target = CHARACTERS[choices.kind].sides
        return (source, *SOURCES), (target, *TARGETS)
    return (*SOURCES, *TEXTS), (*TARGETS, *SUMMARIES)


def _describe_lists(fields: Fields, layout: dict[str, Any]) -> tuple[str, ...]:
    """Add to a format how lists are read, as words or as references; return notes on it."""
    notes = []
    of_words = []
    source = layout["source"]
    target = layout["target"]
    joined = [source] if fields.has_lists(source) else []
    if joined and fields.has_words(source, may_be_references=False):
        of_words.append(source)

    if fields.has_lists(target):
        if fields.has_words(target, may_be_references=source not in of_words):
            joined.append(target)
            of_words.append(target)
        else:
            notes.append(
                f"the lists of {target} are several references (if they are one text in pieces,"
                f" write `joined: [{target}]` below `read`)"
            )

    if joined:
        layout["read"]["joined"] = joined
        notes.append(f"the lists of {' and '.join(joined)} are one text in pieces")
    if len(of_words) == 2:
        layout["tokenized"] = True
    elif of_words:
        layout["tokenize"] = dict.fromkeys((source, target), "moses") | {of_words[0]: "none"}
    return tuple(notes)


def guess_memory(path: Path, form: str, choices: Choices, divide: dict[str, Any]) -> Guess:
    """Make the entry of translation units, TMX or XLIFF, by the languages of the first ones."""
    languages: dict[str, None] = {}
    for unit in islice(tmx_units(path), LOOKED_AT):
        languages |= dict.fromkeys(name.partition("-")[0].lower() for name in unit.texts)

    names = list(languages)
    notes: tuple[str, ...] = ()
    if choices.languages is None and len(names) < 2:
        hint = "name a file whose units have texts of two languages"
        raise UserError(f"languages: {', '.join(names) or 'none'}", file=path, hint=hint)
    if choices.languages is None:
        turned = choices.instead(languages=(names[1], names[0]))
        notes = (f"the source is {names[0]}, the target {names[1]} (or {turned})",)

    source, target = choices.languages or names[:2]
    read = {"kind": form, **divide}
    layout: dict[str, Any] = {"source": source, "target": target, "read": read}
    return Guess("translation", splits={}, format=layout, notes=notes)


def guess_corrections(choices: Choices, divide: dict[str, Any]) -> Guess:
    """Make the entry of sentences with corrections (M2)."""
    source, target = choices.languages or ("source", "corrected")
    read = {"kind": "m2", **divide}
    layout: dict[str, Any] = {"source": source, "target": target, "read": read}
    layout["tokenize"] = "none"
    return Guess("translation", splits={}, format=layout)
