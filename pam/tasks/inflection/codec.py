"""Lemmas, features and forms to symbols, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

from pydantic import Field

from pam.data.codecs import Codec, load_settings
from pam.data.languages import visible
from pam.data.text_files import Line, cells_of
from pam.experiments.parsing import Strict
from pam.runtime.errors import UserError
from pam.runtime.files import write_text

OPENING = "([{"


CLOSING = ")]}"


def split_features(text: str, separator: str) -> list[str]:
    """Split a bundle of features at separators outside of brackets.

    So `N;NOM(PL;PSS(1,PL))` has two. Where brackets do not match, they are characters as others
    are.
    """
    pieces = text.split(separator)
    nested: list[str] = []
    depth = 0
    for piece in pieces:
        if depth > 0:
            nested[-1] += separator + piece
        else:
            nested.append(piece)

        depth += sum((char in OPENING) - (char in CLOSING) for char in piece)
        if depth < 0:
            break

    # A bracket that is not closed, or never opened, is a character.
    features = nested if depth == 0 else pieces
    return [feature.strip() for feature in features if feature.strip()]


class InflectionSettings(Strict):
    """An inflection codec's file: how the data's files write a row, and the order of features."""

    separator: str = Field(",", min_length=1, description="separates two features")
    delimiter: str = Field("\t", min_length=1, max_length=1, description="separates two columns")
    quotes: bool = Field(False, description="columns may be in double quotes, as in CSV")
    columns: list[str] = Field(
        ["lemma", "features", "form"], description="order of the columns; `-` is not read"
    )
    order: list[str] = Field(
        [], description="features in the order of training, where all its rows have the same one"
    )


def order_of_features(bundles: Iterable[Sequence[str]]) -> list[str] | None:
    """Return the features in one order that every bundle has, or None if there is no such order.

    Features that are alone in their bundles are left out.
    """
    before: dict[str, set[str]] = {}
    for bundle in dict.fromkeys(map(tuple, bundles)):
        for first, second in pairwise(bundle):
            before.setdefault(first, set())
            before.setdefault(second, set()).add(first)

    sorter = TopologicalSorter({feature: before[feature] for feature in sorted(before)})
    try:
        sorter.prepare()
    except CycleError:
        return None

    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return order


class InflectionCodec(Codec):
    """Symbols of lemmas, features and forms.

    It has a file only where rows are not written in the usual way, or features have an order.
    """

    columns = ("lemma", "features", "form")
    files = ()
    optional_files = ("codec.json",)

    def __init__(self, settings: InflectionSettings | None = None) -> None:
        self.settings = settings or InflectionSettings()
        self._ranks = {feature: rank for rank, feature in enumerate(self.settings.order)}

    @classmethod
    def load(cls, folder: Path) -> InflectionCodec:
        files = cls.files_in(folder)
        if not files:
            return cls()

        return cls(load_settings(InflectionSettings, folder / files[0]))

    def save(self, folder: Path) -> None:
        """Write the settings into a folder if they are not those without a file.

        A file that another preparation left there is deleted.
        """
        path = folder / self.optional_files[0]

        if self.settings == InflectionSettings():
            path.unlink(missing_ok=True)
        else:
            write_text(path, self.settings.model_dump_json(indent=1) + "\n")

    def source_symbols(self, columns: Sequence[str]) -> list[str]:
        """Return the symbols of (lemma, features): each feature, then each character of the lemma.

        A feature of one character, such as `V`, becomes `feature=V`: it is not the letter.
        """
        separator = self.settings.separator
        if len(columns) != 2 or not columns[0].strip():
            example = separator.join(("case=dative", "number=plural"))
            raise UserError(
                "expected a lemma, a tab and features", hint=f"for example: Haus<TAB>{example}"
            )

        lemma, features = (visible(column).strip() for column in columns)
        names = self.ordered(split_features(features, separator))
        return [*(f"feature={name}" if len(name) == 1 else name for name in names), *lemma]

    def with_order(self, order: list[str]) -> InflectionCodec:
        """Return the codec that reads features in this order."""
        return InflectionCodec(self.settings.model_copy(update={"order": order}))

    def ordered(self, features: list[str]) -> list[str]:
        """Return the features of a bundle, which is a set, in the order that training has.

        Features that training lacks keep their places.
        """
        places = [place for place, feature in enumerate(features) if feature in self._ranks]
        known = sorted((features[place] for place in places), key=self._ranks.__getitem__)

        in_order = list(features)
        for place, feature in zip(places, known, strict=True):
            in_order[place] = feature
        return in_order

    def target_symbols(self, target: str) -> list[str]:
        return list(visible(target).strip())

    def typed_source(self, line: str) -> tuple[str, ...]:
        """Return lemma and features of a line, which may be a whole row of the data's files.

        Columns are separated by tabs or as in these files, features as in these files. A line
        without that separator may have commas in its place.
        """
        settings = self.settings
        line = visible(line)
        columns = tuple(line.split("\t"))
        if len(columns) == 1 and settings.delimiter in line:
            columns = tuple(cells_of(Line(line, Path(), 1), settings.delimiter, settings.quotes))

        # A whole row, with the form.
        if len(columns) == len(settings.columns):
            cells = dict(zip(settings.columns, columns, strict=True))
            columns = (cells["lemma"], cells["features"])

        if len(columns) == 2 and len(split_features(columns[1], settings.separator)) == 1:
            lemma, features = columns
            columns = (lemma, settings.separator.join(split_features(features, ",")))

        self.source_symbols(columns)  # refuses what is no source
        return columns

    def target_text(self, symbols: Sequence[str]) -> str:
        return "".join(symbols)
