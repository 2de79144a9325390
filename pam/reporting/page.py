"""The page of an experiment's results, `index.html`: what was found, then tables, figures, outputs
and attention.

One file that asks the network for nothing: styles, pictures and what can be downloaded are in it.
Its form is in `workflow/report/page/`; the captions of figures are those of Snakemake's report,
in `workflow/report/`.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from pam.config import Experiment
from pam.evaluation.metrics import metric_of
from pam.evaluation.summarization import ADOPTED, NOVEL, ORIGINS
from pam.io import write_text
from pam.reporting.catalogue import COSTS, FIGURES, INFLECTION, TABLES, menu_label, refers_to_papers
from pam.reporting.comparison import NOTE_OF_OWN_DATA, RULE, RULE_NOTE, RULE_OF_OWN_DATA
from pam.reporting.data_and_cost import Summary, datasets
from pam.reporting.findings import cautions, finding
from pam.reporting.render import Table, grid, paragraph, read, read_csv, to_csv, to_latex
from pam.reporting.runs import is_demonstration, label_of

MOST_CELLS = 3000  # of an attention map that is shown symbol by symbol


@dataclass(frozen=True)
class Files:
    """What the page is made of."""

    experiment: Experiment  # as `pam.reporting.runs.load_experiment` reads it
    folder: Path  # of its results, with `tables/` and `figures/`
    tables: Sequence[str]  # names, in the order of the catalogue
    figures: Sequence[str]
    summaries: Mapping[str, Summary]  # of each task's data
    gold: Mapping[str, Summary]  # of word alignments
    texts: Path  # folder with captions and `page/`
    left_out: Sequence[
        str
    ] = ()  # sentences about what is not shown, as restored runs have no weights


class Download(NamedTuple):
    file: str
    address: str  # the file itself, as a data URI


@dataclass
class Block:
    """A table or a figure on the page; what it lacks is empty."""

    name: str
    title: str
    form: str = "table"  # macro of the template that shows it
    html: str = ""  # here and below marked as HTML that is safe
    notes: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    caption: str = ""
    image: str = ""
    cautions: tuple[tuple[str, list[str]], ...] = ()  # a task's label, and what bears on it
    command: str = ""
    parts: list[Any] = field(default_factory=list)  # of examples and of attention maps
    anchor: str = ""  # its name on the page, which only one block has


def write(files: Files, out: Path) -> None:
    """Writes the page of an experiment that has run."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(files.texts / "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    write_text(out, environment.get_template("page.html").render(Page(files).content()).lstrip())


class Page:
    def __init__(self, files: Files) -> None:
        self.files, self.experiment = files, files.experiment
        self.kinds = {task: str(own["task"]) for task, own in files.summaries.items()}
        self.refers = refers_to_papers(self.experiment)
        self.labels = {task: label_of(task, self.experiment) for task in self.experiment.tasks}
        shown = [task for task, own in self.experiment.tasks.items() if is_demonstration(own)]
        self.demonstrations = shown
        self.real = [task for task in self.labels if task not in shown]
        self.first = next(iter(self.real or shown))
        compared = [
            self.data("tables", name)
            for name in files.tables
            if TABLES[name].builder == "comparison"
        ]
        curves = read_csv(files.folder / "figures/curves.csv")
        self.cautions = cautions(self.experiment, files.summaries, curves, compared)

    def content(self) -> dict[str, Any]:
        """What the template shows."""
        main = self.main_table()
        pictured = self.front_figure(main)
        front = [
            *([self.table(main, [self.first])] if main else []),
            *([self.figure(pictured)] if pictured else []),
        ]
        sections = [one for one in self.sections(main, pictured) if one["blocks"]]
        # A table may be shown in part here and in part there.
        count: Counter[str] = Counter()
        for block in [*front, *(block for one in sections for block in one["blocks"])]:
            count[block.name] += 1
            block.anchor = (
                block.name if count[block.name] == 1 else f"{block.name}-{count[block.name]}"
            )
        return {
            "title": self.experiment.title or self.experiment.experiment,
            "finding": self.finding(main) if main else "",
            "front": front,
            "rule_title": "How a verdict is reached" if self.refers else "How models are compared",
            "rule": paragraph_of(RULE if self.refers else RULE_OF_OWN_DATA),
            "spent": self.spent(),
            "left_out": self.files.left_out,
            "sections": sections,
            "style": self.text("page.css"),
            "script": self.text("page.js"),
            "command": f"snakemake --cores all --configfile {self.files.folder}/experiment.yaml",
        }

    def text(self, name: str) -> Markup:
        return Markup((self.files.texts / "page" / name).read_text(encoding="utf-8"))  # noqa: S704

    def sections(self, main: str | None, pictured: str | None) -> list[dict[str, Any]]:
        """Tables, figures, examples and attention of real tasks; data and cost; then
        demonstrations, told as such.
        """
        if not self.real:
            return [
                self.section("Demonstration", self.demonstrations, main, pictured),
                self.data_and_cost(),
            ]
        tables, figures, examples, maps = self.blocks(self.real, main, pictured)
        found = [
            {"title": "Tables", "blocks": tables},
            {"title": "Figures", "blocks": figures},
            {"title": "Outputs side by side", "blocks": examples},
            {"title": "Attention", "blocks": maps},
            self.data_and_cost(),
        ]
        return [*found, self.section("Demonstration", self.demonstrations, None, pictured)]

    def section(
        self, title: str, tasks: Sequence[str], main: str | None, pictured: str | None
    ) -> dict[str, Any]:
        notes = [self.experiment.tasks[task].note for task in tasks]
        text = " ".join(dict.fromkeys(note for note in notes if note))
        blocks = [block for blocks in self.blocks(tasks, main, pictured) for block in blocks]
        return {"title": title, "blocks": blocks, "intro": f"No benchmark. {text}"}

    def blocks(
        self, tasks: Sequence[str], main: str | None, pictured: str | None
    ) -> tuple[list[Block], ...]:
        """Tables, figures, examples and attention maps of some tasks, but the table and the figure
        shown already.

        A figure that shows real tasks and demonstrations is with the real ones.
        """
        tables: list[Block] = []
        figures: list[Block] = []
        outputs: list[Block] = []
        maps: list[Block] = []
        for name in self.files.tables:
            spec = TABLES[name]
            shown = [task for task in spec.shows(self.experiment, self.kinds) if task in tasks]
            if spec.category == COSTS or not shown or (name == main and shown == [self.first]):
                continue
            (outputs if spec.builder == "examples" else tables).append(self.table(name, shown))
        for name in self.files.figures:
            if name in FIGURES:
                own = FIGURES[name].shows(self.experiment, self.kinds)
                real = [task for task in own if task in self.real]
                if name != pictured and (real or own) and (real or own)[0] in tasks:
                    figures.append(self.figure(name))
            elif (task := self.task_of_map(name)) in tasks:
                maps.append(self.attention(name, task))
        return tables, figures, [one for one in outputs if one.parts], maps

    # The front.

    def main_table(self) -> str | None:
        """The first comparison that is for the first page and has the first task."""
        known = [name for name in self.files.tables if TABLES[name].front]
        return next(
            (one for one in known if self.first in TABLES[one].shows(self.experiment, self.kinds)),
            None,
        )

    def front_figure(self, main: str | None) -> str | None:
        """The gains of the main table's metric, or its values."""
        if main is None:
            return None
        metric = TABLES[main].finding or TABLES[main].metrics[0]
        for draws in ("gains", "quality"):
            for name in self.files.figures:
                item = FIGURES.get(name)
                fits = item is not None and item.draws == draws and metric in item.options
                if fits and self.first in FIGURES[name].shows(self.experiment, self.kinds):
                    return name
        return None

    def finding(self, main: str) -> str:
        rows = self.data("tables", main)
        names = list(rows["metric"][rows["task"] == self.first])
        # Where scoring has left out the metric that the finding is of, it is of the table's first.
        patterns = filter(None, [TABLES[main].finding, *TABLES[main].metrics])
        name = next((name for one in patterns for name in names if fnmatchcase(name, one)), None)
        if name is None:
            return ""
        rows = rows[rows["task"] == self.first]
        gained = self.files.folder / f"tables/{main}_gains.csv"
        gains = (
            read_csv(gained)
            if gained.is_file()
            else pd.DataFrame(columns=["task", "metric", "model"])
        )
        gains = gains[(gains["task"] == self.first) & (gains["metric"] == name)]
        models = self.experiment.models_of(self.first)
        labels = {model: label for model, label in self.model_labels().items() if model in models}
        return finding(
            self.labels[self.first], metric_of(name), rows[rows["metric"] == name], gains, labels
        )

    def model_labels(self) -> dict[str, str]:
        """Model to label, by the tables that name both."""
        costs = read(self.files.folder / "tables", "costs")
        return dict(zip(costs.data["model"], costs.shown["Model"], strict=False))

    def spent(self) -> str:
        costs = self.data("tables", "costs")
        cpu_seconds, gpu_seconds = (pd.to_numeric(costs[name]).sum() for name in ("cpu_s", "gpu_s"))
        spent = f"{cpu_seconds:,.0f} CPU seconds"
        if gpu_seconds:
            spent += f" and {gpu_seconds:,.0f} GPU seconds"
        return f"{len(costs)} trainings, {spent} with decoding"

    # Blocks.

    def data(self, folder: str, name: str) -> pd.DataFrame:
        return read_csv(self.files.folder / folder / f"{name}.csv")

    def table(self, name: str, tasks: Sequence[str]) -> Block:
        """A table's rows of some tasks; the downloads have them all."""
        whole = read(self.files.folder / "tables", name)
        own = f"{self.files.folder}/tables/{name}"
        downloads = tuple(download(Path(f"{own}.{ending}")) for ending in ("csv", "tex"))
        others = tuple(f"{label}: " for task, label in self.labels.items() if task not in tasks)
        notes = tuple(note for note in whole.notes if not note.startswith(others))
        block = self.block_of(
            replace(of_tasks(whole, tasks), notes=notes), name, downloads, f"{own}.csv"
        )
        if TABLES[name].builder == "examples":
            data = whole.data[whole.data["task"].isin(list(tasks))]
            letters = TABLES[name].kind == INFLECTION
            return replace(block, form="examples", parts=examples(data, self.labels, letters))
        return replace(
            block, cautions=self.bearing(tasks) if TABLES[name].category != COSTS else ()
        )

    def block_of(
        self, table: Table, name: str, downloads: tuple[Download, ...], target: str = ""
    ) -> Block:
        title, labels = (
            table.title.removesuffix(f": {self.experiment.title}"),
            set(table.shown.get("Task", ())),
        )
        if len(labels) == 1:  # named above the table, where it takes no column
            title, table = (
                f"{labels.pop()}: {title}",
                replace(table, shown=table.shown.drop(columns="Task")),
            )
            table = replace(table, align=table.align[1:], group=max(1, table.group - 1))
        notes = tuple(
            Markup(paragraph(note))  # noqa: S704
            for note in table.notes
            if note not in (RULE_NOTE, NOTE_OF_OWN_DATA)
        )
        return Block(
            name,
            title,
            "table",
            Markup(grid(table)),  # noqa: S704
            notes,
            downloads,
            command=self.made_by(target),
        )

    def figure(self, name: str) -> Block:
        """A figure with its caption, its data and what bears on it."""
        place = self.files.folder / "figures"
        data = self.data("figures", name)
        # What is empty or the same in all rows takes no room beside the picture.
        same = [
            one
            for one in ("task", "label", "metric")
            if one in data.columns and data[one].nunique() == 1
        ]
        empty = [one for one in data.columns if (data[one] == "").all()]
        data = data.drop(columns=[*same, *(one for one in empty if one not in same)])
        shown = Table(
            "", data, data, "".join("r" if numeric(data[one]) else "l" for one in data.columns)
        )
        return Block(
            name,
            menu_label(FIGURES[name], self.experiment),
            "figure",
            Markup(grid(shown)),  # noqa: S704
            downloads=(download(place / f"{name}.csv"),),
            caption=self.caption("figure", figure=name),
            image=uri((place / f"{name}.svg").read_bytes(), "image/svg+xml"),
            cautions=self.bearing(FIGURES[name].shows(self.experiment, self.kinds)),
            command=self.made_by(f"{place}/{name}.svg"),
        )

    def task_of_map(self, name: str) -> str:
        found = re.fullmatch(r"attention_(.+)_seed(\d+)", name)
        return found[1] if found else ""

    def attention(self, name: str, task: str) -> Block:
        """Maps whose symbols can be pointed at; the picture where one has too many."""
        place, data = self.files.folder / "figures", self.data("figures", name)
        parts = maps(data)
        whole = all(len(one["source"]) * len(one["target"]) <= MOST_CELLS for one in parts)
        caption = self.caption("attention", task=task, seed=name.rpartition("seed")[2])
        return Block(
            name,
            f"Attention on {self.labels[task]}",
            "attention" if whole else "picture",
            downloads=(download(place / f"{name}.csv"),),
            caption=caption,
            image="" if whole else uri((place / f"{name}.svg").read_bytes(), "image/svg+xml"),
            cautions=self.bearing([task]),
            command=self.made_by(f"{place}/{name}.svg"),
            parts=parts if whole else [],
        )

    def data_and_cost(self) -> dict[str, Any]:
        """Sizes and licenses of the data, cost of each run, versions."""
        every = [*self.real, *self.demonstrations]
        blocks = []
        for number, table in enumerate(
            datasets(self.experiment, self.files.summaries, self.files.gold), start=1
        ):
            name = f"data{number}"
            texts = {"csv": to_csv(table), "tex": to_latex(table, name)}
            own = tuple(
                Download(f"{name}.{ending}", uri(text.encode())) for ending, text in texts.items()
            )
            blocks.append(self.block_of(table, name, own))
        blocks += [
            self.table(name, every) for name in self.files.tables if TABLES[name].category == COSTS
        ]
        return {"title": "Data and cost", "blocks": blocks}

    def bearing(self, tasks: Iterable[str]) -> tuple[tuple[str, list[str]], ...]:
        return tuple(
            (self.labels[task], self.cautions[task]) for task in tasks if self.cautions[task]
        )

    def made_by(self, target: str) -> str:
        return (
            f"snakemake --cores all {target} --configfile {self.files.folder}/experiment.yaml"
            if target
            else ""
        )

    def caption(self, name: str, **wildcards: str) -> Markup:
        """The first paragraph of a caption of Snakemake's report, which is of reStructuredText with
        emphasis.
        """
        text = (self.files.texts / f"{name}.rst").read_text(encoding="utf-8")
        known = SimpleNamespace(
            config=self.experiment.model_dump(), wildcards=SimpleNamespace(**wildcards)
        )
        words = jinja2.Environment(autoescape=False).from_string(text).render(snakemake=known)  # noqa: S701
        words = " ".join(words.partition(".. include::")[0].split())
        return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(words))))  # noqa: S704


def paragraph_of(text: str) -> Markup:
    return Markup(paragraph(text))  # noqa: S704


def of_tasks(table: Table, tasks: Sequence[str]) -> Table:
    """A table's rows of some tasks, and those of no task; its order."""
    if "task" not in table.data.columns:
        return table
    own = [*table.data["task"], *[None] * (len(table.shown) - len(table.data))]
    chosen = [place for place, task in enumerate(own) if task is None or task in tasks]
    return replace(table, shown=table.shown.iloc[chosen])


def numeric(cells: pd.Series[str]) -> bool:
    """Whether all cells that are not empty are numbers."""
    return bool(pd.to_numeric(cells[cells != ""], errors="coerce").notna().all())


def uri(content: bytes, kind: str = "text/plain") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def download(path: Path) -> Download:
    return Download(
        path.name, uri(path.read_bytes(), "text/csv" if path.suffix == ".csv" else "text/plain")
    )


# Outputs side by side.

Piece = tuple[str, str]  # `same`, `missing` or `added`, and the text
# the same, in between what is marked in it: `novel` or `adopted` words, or nothing
Marked = tuple[str, str, str]


def examples(data: pd.DataFrame, labels: Mapping[str, str], letters: bool) -> list[dict[str, Any]]:
    """For each row of a test split what is given, and each output beside the nearest reference,
    marked by origin.
    """
    found = []
    data = data if ORIGINS in data.columns else data.assign(**{ORIGINS: ""})
    for (task, number), rows in data.groupby(["task", "sentence"], sort=False):
        given = list(
            rows.loc[rows["model"] == "", ["label", "text"]].itertuples(index=False, name=None)
        )
        compared = []
        for label, text, origins in rows.loc[
            rows["model"] != "", ["label", "text", ORIGINS]
        ].itertuples(index=False):
            beside = [pieces(reference, text, letters) for _, reference in given[1:]]
            nearest = min(
                beside, key=lambda own: sum(len(text) for kind, text in own if kind != "same")
            )
            compared.append((label, marked(nearest, origins.split())))
        own = {"task": labels[str(task)], "number": number, "given": given, "outputs": compared}
        found.append(
            own | {"letters": letters, "marked": rows[ORIGINS].any(), "nearest": len(given) > 2}
        )
    return found


def pieces(reference: str, output: str, letters: bool) -> list[Piece]:
    """An output by letters or by words: the same as in the reference, missing there, or added."""
    between = "" if letters else " "
    old, new = (list(text) if letters else text.split() for text in (reference, output))
    found: list[Piece] = []
    for kind, start, end, first, last in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            found.append(("same", between.join(new[first:last])))
            continue
        found += [("missing", between.join(old[start:end]))] * (end > start)
        found += [("added", between.join(new[first:last]))] * (last > first)
    return found


def marked(compared: Sequence[Piece], origins: Sequence[str]) -> list[Marked]:
    """Pieces divided where words of another origin begin, `origins` being those of all words of the
    output; without them as they are.
    """
    found: list[Marked] = []
    left = iter(origins)
    for kind, text in compared:
        if kind == "missing" or not origins:
            found.append((kind, "", text))
            continue
        words = [(next(left), word) for word in text.split()]
        for origin, own in groupby(words, key=itemgetter(0)):
            found.append(
                (
                    kind,
                    origin if origin in (NOVEL, ADOPTED) else "",
                    " ".join(word for _, word in own),
                )
            )
    return found


# Attention maps.


def maps(data: pd.DataFrame) -> list[dict[str, Any]]:
    """For each row its symbols, and for each model its label and its weights (source x target);
    then the difference.
    """
    found = []
    for number, row in data.groupby("row", sort=False):
        models, symbols = [], {}
        for label, own in row.groupby("label", sort=False):
            places = {side: own[f"{side}_place"].astype(int) for side in ("source", "target")}
            for side, place in places.items():
                symbols[side] = list(own[side][~place.duplicated()])
            weights = (
                own["weight"]
                .astype(float)
                .to_numpy()
                .reshape(len(symbols["target"]), len(symbols["source"]))
                .T
            )
            models.append((label, weights.tolist()))
        if len(models) == 2:
            (first, base), (second, other) = models
            difference = [
                [b - a for a, b in zip(*lines, strict=True)]
                for lines in zip(base, other, strict=True)
            ]
            models.append((f"{second} − {first}", difference))
        found.append({"number": number, "models": models, **symbols})
    return found
