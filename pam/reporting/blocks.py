"""Make the blocks of the page of results: tables, figures and attention maps.

A block holds its parts as the templates in `workflow/report/page/` show them: rows as HTML, notes,
downloads, the caption, the numbers of the cautions that bear on it, and the command that makes it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from pam.experiments.experiment import Experiment
from pam.reporting.captions import Names, caption
from pam.reporting.catalogue import FIGURES, TABLES, menu_label
from pam.reporting.comparison import Inputs
from pam.reporting.heat_maps import maps, weights_of
from pam.reporting.items import COSTS
from pam.reporting.outputs import FILTERS, Packed, examples, packed
from pam.reporting.render import (
    TASK,
    Note,
    Table,
    grid,
    paragraph,
    plain_table,
    read_csv,
    to_csv,
    to_latex,
    with_code,
)
from pam.reporting.tables.examples import all_examples
from pam.tasks import find_kind

MOST_CELLS = 3000  # the largest attention map that is shown symbol by symbol


class Download(NamedTuple):
    """A file that can be saved from the page."""

    file: str
    address: str  # the file itself, as a data URI


@dataclass
class Block:
    """A table or a figure on the page; parts that it lacks are empty."""

    name: str
    title: str
    form: str = "table"  # the template's macro that shows it
    html: str = ""  # marked as safe HTML, as are the notes and the caption
    rows: int = 0  # of the table in `html`
    columns: int = 0
    notes: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    caption: str = ""
    image: str = ""
    narrow: str = ""  # the image as it is drawn for a phone
    marks: tuple[int, ...] = ()  # numbers of the cautions that bear on it
    command: str = ""
    parts: list[Any] = field(default_factory=list)  # examples, or attention maps
    kinds: tuple[str, ...] = ()  # those of its examples, by which a reader chooses
    whole: Packed | None = None  # the examples of the whole test split
    weights: str = ""  # of all models' attention maps, as JSON
    anchor: str = ""  # a name on the page that no other block has

    @property
    def is_single(self) -> bool:
        """Whether it shows one number, which another table has too."""
        if self.form == "figure":
            return self.rows == 1
        return self.form == "table" and self.rows == 1 and self.columns <= 2


class Caution(NamedTuple):
    """What a reader has to know about the results of some tasks."""

    number: int
    tasks: list[str]
    labels: list[str]  # the tasks'
    text: str


@dataclass(frozen=True, eq=False)
class Blocks:
    """Makes the blocks of an experiment's page from the files of its tables and figures."""

    experiment: Experiment
    folder: Path  # the results, with `tables/` and `figures/`
    config: Path  # the experiment's configuration, as commands name it
    tables: Mapping[str, Table]  # by name
    texts: Path  # folder with the captions
    labels: Mapping[str, str]  # task -> label
    model_names: Mapping[str, str]  # model -> label
    cautions: Sequence[Caution]
    outputs: Sequence[Path] = ()  # files of the models' outputs, in the folders of their runs

    def table(self, name: str, tasks: Sequence[str]) -> Block:
        """Return a block with a table's rows of some tasks; the downloads have all rows."""
        stem = f"{self.folder}/tables/{name}"
        table = self.tables[name].of_tasks(tasks)
        # What the author says of a task is told once, with its data or above the demonstrations.
        notes = [note for note in table.notes if note.kind != "about"]
        block = self._block_of(
            table=replace(table, notes=notes),
            name=name,
            downloads=(download(Path(f"{stem}.csv")), download(Path(f"{stem}.tex"))),
            target=f"{stem}.csv",
        )

        spec = TABLES[name]
        if spec.builder == "examples":
            return self._examples(block, name, tasks)
        if spec.category == COSTS:
            return block
        return replace(block, marks=self._bearing(tasks))

    def _examples(self, block: Block, name: str, tasks: Sequence[str]) -> Block:
        """Return a block of outputs: the rows of the table, and those of the whole test split."""
        letters = find_kind(str(TABLES[name].kind)).by_letter
        # The data have more rows than are shown to people.
        parts = examples(self.tables[name].of_tasks(tasks).data, self.labels, letters)
        all_parts = parts
        whole = None
        outputs = [path for path in self.outputs if path.parents[3].name in tasks]
        if outputs:
            inputs = Inputs(self.experiment, {}, predictions=outputs)
            table = all_examples(TABLES[name], inputs)
            all_parts = examples(table.data, self.labels, letters)
            if len(all_parts) > len(parts):
                whole = packed(all_parts)

        found = {kind for part in all_parts for kind in part["kinds"]}
        kinds = tuple(kind for kind in FILTERS if kind in found)
        return replace(block, form="examples", parts=parts, kinds=kinds, whole=whole)

    def made_here(self, table: Table, name: str) -> Block:
        """Return a table that has no files as a block, with the table to download."""
        downloads = (
            Download(f"{name}.csv", uri(to_csv(table).encode())),
            Download(f"{name}.tex", uri(to_latex(table, name).encode())),
        )
        return self._block_of(table, name, downloads)

    def _block_of(
        self, table: Table, name: str, downloads: tuple[Download, ...], target: str = ""
    ) -> Block:
        """Return a table as a block; `target` is the file that Snakemake makes."""
        title = table.title
        # A single task takes no column, and is named in the title if the page has others.
        tasks = {row["task"].label for row in table.shown if row.task is not None}
        if len(tasks) == 1 and TASK in table.columns:
            if len(self.labels) > 1:
                title = f"{tasks.pop()}: {title}"
            columns = [column for column in table.columns if column != TASK]
            table = replace(table, columns=columns, group=max(1, table.group - 1))

        table = table.without_empty_columns()
        return Block(
            name=name,
            title=title,
            html=Markup(grid(table)),  # noqa: S704
            rows=len(table.shown),
            columns=len(table.columns),
            notes=tuple(paragraph_of(note) for note in table.notes if is_told_here(note)),
            downloads=downloads,
            command=self._made_by(target),
        )

    def figure(self, name: str, tasks: Sequence[str]) -> Block:
        """Return a figure of some tasks with its caption, its data and its cautions."""
        folder = self.folder / "figures"
        data = read_csv(folder / f"{name}.csv")
        names = Names(self.labels, self.model_names, self.experiment.baseline)
        finding = escape(caption(FIGURES[name].draws, data, names))
        table = beside_picture(data)
        narrow = folder / f"narrow/{name}.svg"

        return Block(
            name=name,
            title=menu_label(FIGURES[name], self.experiment),
            form="figure",
            html=Markup(grid(table)),  # noqa: S704
            rows=len(table.rows),
            columns=len(table.columns),
            downloads=(download(folder / f"{name}.csv"),),
            caption=Markup(" ").join([finding, self._caption("figure", figure=name)]),
            image=picture(folder / f"{name}.svg"),
            narrow=picture(narrow) if narrow.is_file() else "",
            marks=self._bearing(tasks),
            command=self._made_by(f"{folder}/{name}.svg"),
        )

    def attention(self, name: str, task: str) -> Block:
        """Return maps whose symbols can be pointed at, or the picture if a map is too large."""
        folder = self.folder / "figures"
        block = Block(
            name=name,
            title=f"Attention on {self.labels[task]}",
            downloads=(download(folder / f"{name}.csv"),),
            caption=self._caption("attention", task=task, seed=name.rpartition("seed")[2]),
            marks=self._bearing([task]),
            command=self._made_by(f"{folder}/{name}.svg"),
        )

        parts = maps(read_csv(folder / f"{name}.csv"))
        if all(len(part["source"]) * len(part["target"]) <= MOST_CELLS for part in parts):
            weights = Markup(weights_of(parts))  # noqa: S704
            return replace(block, form="attention", parts=parts, weights=weights)
        # A map of more cells would be too large for the page.
        return replace(block, form="picture", image=picture(folder / f"{name}.svg"))

    def _bearing(self, tasks: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the cautions that bear on some of these tasks."""
        return tuple(
            caution.number for caution in self.cautions if set(caution.tasks).intersection(tasks)
        )

    def _made_by(self, target: str) -> str:
        """Return the command that makes a file; empty if no target is named."""
        if not target:
            return ""
        return f"pam run {target} --configfile {self.config}"

    def _caption(self, name: str, **wildcards: str) -> Markup:
        """Return the first paragraph of a caption of Snakemake's report, as HTML.

        The captions are reStructuredText with emphasis, and Jinja templates.
        """
        template = (self.texts / f"{name}.rst").read_text(encoding="utf-8")
        snakemake = SimpleNamespace(
            config=self.experiment.model_dump(), wildcards=SimpleNamespace(**wildcards)
        )
        environment = jinja2.Environment(autoescape=False)  # noqa: S701
        caption = environment.from_string(template).render(snakemake=snakemake)

        first_paragraph = " ".join(caption.partition(".. include::")[0].split())
        html = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(first_paragraph)))
        return Markup(html)  # noqa: S704


def is_told_here(note: Note) -> bool:
    """Check that a note is not elsewhere on the page, as the rule and the cautions are."""
    return note.kind not in ("rule", "caution")


def paragraph_of(note: Note | str) -> Markup:
    """Return a note as HTML that the template does not escape."""
    text = note if isinstance(note, str) else note.text
    return Markup(paragraph(text))  # noqa: S704


def code_marked(text: str) -> Markup:
    """Return a text whose parts between backticks are code, as HTML."""
    return Markup(with_code(text))  # noqa: S704


def beside_picture(data: pd.DataFrame) -> Table:
    """Return a figure's data as a table, without columns that tell nothing beside the picture.

    Those are empty, or name one thing in all rows.
    """
    told = [
        column
        for column in data.columns
        if not (column in ("task", "label", "metric") and data[column].nunique() == 1)
        and (data[column] != "").any()
    ]
    data = data[told]
    align = "".join("r" if numeric(data[column]) else "l" for column in told)
    return plain_table("", told, align, data.to_numpy().tolist())


def numeric(cells: pd.Series[str]) -> bool:
    """Check that all cells that are not empty are numbers."""
    return bool(pd.to_numeric(cells[cells != ""], errors="coerce").notna().all())


def picture(path: Path) -> str:
    """Return the data URI of a picture."""
    return uri(path.read_bytes(), "image/svg+xml")


def uri(content: bytes, kind: str = "text/plain") -> str:
    """Return the data URI of a file's content."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def download(path: Path) -> Download:
    """Return a file to be embedded in the page."""
    kind = "text/csv" if path.suffix == ".csv" else "text/plain"
    return Download(path.name, uri(path.read_bytes(), kind))
