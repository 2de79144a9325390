"""Write the page of an experiment's results, `index.html`.

It begins with the question, the task and the models in words that need no paper, the picture of
the gains and a table of five columns. Cautions, tables, figures, outputs side by side and attention
maps follow. The page is one file that asks the network for nothing: styles, pictures and downloads
are embedded. The templates are in `workflow/report/page/`. The captions of figures go on with those
of Snakemake's report, in `workflow/report/`.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from pam.evaluation.metrics import metric_of
from pam.experiments.config import Experiment
from pam.reporting import groups
from pam.reporting.captions import Names, caption
from pam.reporting.catalogue import (
    COSTS,
    FIGURES,
    INFLECTION,
    TABLES,
    is_demonstration,
    menu_label,
    refers_to_papers,
)
from pam.reporting.comparison import (
    COMPARED,
    NOTE_OF_OWN_DATA,
    PARTS_OF_RULE,
    PARTS_OF_RULE_OF_OWN_DATA,
    RULE_NOTE,
)
from pam.reporting.data_and_cost import Summary, datasets
from pam.reporting.findings import cautions, finding
from pam.reporting.heat_maps import maps, weights_of
from pam.reporting.introduction import (
    MAIN_MODELS,
    descriptions,
    example_of,
    question,
    task_in_words,
)
from pam.reporting.outputs import FILTERS, examples
from pam.reporting.render import (
    Table,
    grid,
    paragraph,
    read,
    read_csv,
    to_csv,
    to_latex,
)
from pam.reporting.runs import TaskRuns, label_of
from pam.runtime.files import write_text

MOST_CELLS = 3000  # the largest attention map that is shown symbol by symbol
MOST_ROWS = 30  # of a table that is not folded
MOST_RANKINGS = 4  # tasks of the first screen; the sections below have all
OTHER_DATA = "* on the paper's own data, which are not ours"


@dataclass(frozen=True)
class Files:
    """The files from which the page is made."""

    experiment: Experiment  # as `pam.reporting.runs.load_experiment` reads it
    folder: Path  # the results, with `tables/` and `figures/`
    tables: Sequence[str]  # names, in the order of the catalogue
    figures: Sequence[str]
    summaries: Mapping[str, Summary]  # task -> summary of its prepared data
    gold: Mapping[str, Summary]  # task -> summary of its word alignments
    texts: Path  # folder with captions and `page/`
    # sentences about what is not shown, for example because restored runs have no weights
    left_out: Sequence[str] = ()
    runs: Sequence[TaskRuns] = ()  # scored, of each task


class Download(NamedTuple):
    file: str
    address: str  # the file itself, as a data URI


@dataclass
class Block:
    """A table or a figure on the page; parts that it lacks are empty."""

    name: str
    title: str
    form: str = "table"  # the template's macro that shows it
    html: str = ""  # marked as safe HTML, as are the notes and the caption
    notes: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    caption: str = ""
    image: str = ""
    marks: tuple[int, ...] = ()  # numbers of the cautions that bear on it
    command: str = ""
    parts: list[Any] = field(default_factory=list)  # examples, or attention maps
    weights: str = ""  # of all models' attention maps, as JSON
    anchor: str = ""  # a name on the page that no other block has


def write(files: Files, out: Path) -> None:
    """Write the page of an experiment that has run."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(files.texts / "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    content = Page(files).content()
    html = environment.get_template("page.html").render(content)
    write_text(out, html.lstrip())


class Caution(NamedTuple):
    """What a reader has to know about the results of some tasks."""

    number: int
    labels: list[str]  # the tasks'
    text: str


class Standing(NamedTuple):
    """One model in the table of the first screen."""

    model: str
    label: str
    is_best: bool
    ours: str  # mean, and standard deviation over seeds
    gain: str  # with its interval
    paper: str  # the paper's gain
    verdict: str


class Ranking(NamedTuple):
    """The models of one task by one metric, as the first screen has them."""

    label: str  # the task's
    metric: str  # with its unit and direction
    has_paper: bool  # whether a paper has a gain of one of the models
    judged: str  # heading of the last column: of verdicts, or of comparisons where no paper is
    note: str  # on a mark of the paper's gains; empty if there is none
    rows: list[Standing]


class Page:
    """The content of the page of one experiment."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.experiment = files.experiment
        self.kinds = {task: str(summary["task"]) for task, summary in files.summaries.items()}
        self.refers = refers_to_papers(self.experiment)
        self.labels = {task: label_of(task, self.experiment) for task in self.experiment.tasks}

        # Demonstrations stand apart, below the tasks that are benchmarks.
        self.demonstrations = [
            task for task, config in self.experiment.tasks.items() if is_demonstration(config)
        ]
        self.real = [task for task in self.labels if task not in self.demonstrations]
        self.first = next(iter(self.real or self.demonstrations))

        comparisons = [
            self.data("tables", name)
            for name in files.tables
            if TABLES[name].builder == "comparison"
        ]
        curves = read_csv(files.folder / "figures/curves.csv")
        by_task = cautions(self.experiment, files.summaries, curves, comparisons, files.runs)
        self.cautions = self._numbered(by_task)
        self.model_names = self.model_labels()

    def content(self) -> dict[str, Any]:
        """Return the template's variables."""
        main = self.main_table()
        pictured = self.front_figure(main)
        front = []
        if pictured:
            front.append(self.figure(pictured))
        if main:
            front.append(self.table(main, self.ranked(main)))
        # A section without blocks is left out.
        sections = [section for section in self.sections(main, pictured) if section["blocks"]]
        self._set_anchors([*front, *(block for section in sections for block in section["blocks"])])

        rule_title = "How models are compared"
        rule = PARTS_OF_RULE_OF_OWN_DATA
        if self.refers:
            rule_title = "How a verdict is reached"
            rule = PARTS_OF_RULE

        return {
            "title": self.experiment.title or self.experiment.experiment,
            "findings": self.findings(main) if main else [""],
            "question": question(self.experiment),
            "tasks": [self.introduced(task) for task in [*self.real, *self.demonstrations]],
            **self.models_in_words(),
            "front": front,
            "rankings": [self.ranking(main, task) for task in self.ranked(main)] if main else [],
            "cautions": self.cautions,
            "filters": FILTERS,
            "most_rows": MOST_ROWS,
            "rule_title": rule_title,
            "rule": [paragraph_of(part) for part in rule],
            "spent": self.spent(),
            "left_out": self.files.left_out,
            "sections": sections,
            "style": self.text("page.css"),
            "script": self.text("page.js"),
            "command": f"pam run --configfile {self.files.folder}/experiment.yaml",
        }

    @staticmethod
    def _set_anchors(blocks: Iterable[Block]) -> None:
        """Give each block an anchor of its own."""
        # A table may be shown with some tasks in one section and with other tasks in another.
        count: Counter[str] = Counter()
        for block in blocks:
            count[block.name] += 1
            block.anchor = block.name
            if count[block.name] > 1:
                block.anchor = f"{block.name}-{count[block.name]}"

    def text(self, name: str) -> Markup:
        """Read a file that is embedded in the page as it is."""
        return Markup((self.files.texts / "page" / name).read_text(encoding="utf-8"))  # noqa: S704

    def sections(self, main: str | None, pictured: str | None) -> list[dict[str, Any]]:
        """Return the sections below the front.

        Tables, figures, examples and attention of real tasks come first, then data and cost, then
        the demonstrations in a section of their own.
        """
        if not self.real:
            return [
                self.section("Demonstration", self.demonstrations, main, pictured),
                self.data_and_cost(),
            ]

        tables, figures, outputs, maps = self.blocks(self.real, main, pictured)
        return [
            {"title": "Tables", "blocks": tables},
            {"title": "Figures", "blocks": figures},
            {"title": "Outputs side by side", "blocks": outputs},
            {"title": "Attention", "blocks": maps},
            self.data_and_cost(),
            self.section("Demonstration", self.demonstrations, None, pictured),
        ]

    def section(
        self, title: str, tasks: Sequence[str], main: str | None, pictured: str | None
    ) -> dict[str, Any]:
        """Return one section with all blocks of some demonstrations and their notes."""
        notes = [self.experiment.tasks[task].note for task in tasks]
        text = " ".join(dict.fromkeys(note for note in notes if note))

        by_form = self.blocks(tasks, main, pictured)
        blocks = [block for of_form in by_form for block in of_form]
        if not text:
            text = "This shows the method. It is not a benchmark."
        return {"title": title, "blocks": blocks, "intro": text}

    def blocks(
        self, tasks: Sequence[str], main: str | None, pictured: str | None
    ) -> tuple[list[Block], ...]:
        """Return tables, figures, examples and attention maps of some tasks.

        The main table and the figure of the front are left out. A figure that shows both real
        tasks and demonstrations is with the real ones.
        """
        tables: list[Block] = []
        outputs: list[Block] = []
        for name in self.files.tables:
            spec = TABLES[name]
            shown_tasks = [
                task for task in spec.shows(self.experiment, self.kinds) if task in tasks
            ]
            is_on_front = name == main and shown_tasks == self.ranked(main)
            if spec.category == COSTS or not shown_tasks or is_on_front:
                continue
            block = self.table(name, shown_tasks)
            if spec.builder != "examples":
                tables.append(block)
            elif block.parts:
                outputs.append(block)

        grouped = groups.by_group(
            [task for task in self.files.runs if task.name in tasks], self.experiment
        )
        if grouped is not None:
            tables.append(self.made_here(grouped, groups.NAME))

        figures: list[Block] = []
        maps: list[Block] = []
        for name in self.files.figures:
            if name in FIGURES:
                drawn_tasks = FIGURES[name].shows(self.experiment, self.kinds)
                ranked = [task for task in drawn_tasks if task in self.real] or drawn_tasks
                if name != pictured and ranked and ranked[0] in tasks:
                    figures.append(self.figure(name))
            else:
                task = self.task_of_map(name)
                if task in tasks:
                    maps.append(self.attention(name, task))
        return tables, figures, outputs, maps

    # The front.

    def main_table(self) -> str | None:
        """Return the first comparison for the front that has the first task."""
        for name in self.files.tables:
            spec = TABLES[name]
            if spec.front and self.first in spec.shows(self.experiment, self.kinds):
                return name
        return None

    def front_figure(self, main: str | None) -> str | None:
        """Return the figure of gains in the main table's metric, else that of its values."""
        if main is None:
            return None
        # A table of several metrics is pictured by the one of its finding.
        metric = (*TABLES[main].finding, *TABLES[main].metrics)[0]

        for draws in ("gains", "quality"):
            for name in self.files.figures:
                spec = FIGURES.get(name)
                if spec is None or spec.draws != draws or metric not in spec.options:
                    continue
                if self.first in spec.shows(self.experiment, self.kinds):
                    return name
        return None

    def introduced(self, task: str) -> dict[str, Any]:
        """Return a task's label, what it is in words, and an example if its outputs are shown."""
        kind = self.kinds[task]
        example = None
        for name in self.files.tables:
            if TABLES[name].builder == "examples" and TABLES[name].kind == kind:
                rows = self.data("tables", name)
                example = example_of(kind, rows[rows["task"] == task])
        return {"label": self.labels[task], "words": task_in_words(kind), "example": example}

    def models_in_words(self) -> dict[str, Any]:
        """Return what the models do: those that a reader has to know first, and all others."""
        texts = descriptions(self.experiment, self.model_names)
        lines = [
            (model, self.model_names[model], text)
            for model, text in texts.items()
            if model in self.model_names
        ]
        return {
            "models": [line for line in lines if line[0] in MAIN_MODELS],
            "more_models": [line for line in lines if line[0] not in MAIN_MODELS],
        }

    def ranked(self, main: str) -> list[str]:
        """Return the tasks that the first screen has of the main table."""
        tasks_of_table = TABLES[main].shows(self.experiment, self.kinds)
        tasks = [task for task in self.real or self.demonstrations if task in tasks_of_table]
        return tasks[:MOST_RANKINGS]

    def ranking(self, main: str, task: str) -> Ranking:
        """Return the models of a task by the metric of its finding.

        The numbers are those of the main table, as it shows them to people.
        """
        table = read(self.files.folder / "tables", main)
        metrics = list(table.data["metric"][table.data["task"] == task])
        metric_name = self._metric_of_finding(main, metrics)
        if metric_name is None:
            return Ranking(self.labels[task], "", False, "", "", [])

        metric = metric_of(metric_name)
        is_shown = (table.data["task"] == task) & (table.data["metric"] == metric_name)
        data = table.data[is_shown]
        rows_for_people = table.shown[is_shown.to_numpy()]
        columns = list(table.shown.columns)
        own_models = data[data["model"].isin(self.experiment.models_of(task))]
        means = own_models["mean"].astype(float)
        best_mean = means.min() if metric.lower_is_better else means.max()
        # Where all are equal none is the best.
        has_best = means.nunique() > 1

        gain = columns.index("Gain, ours")
        compared = next(name for name in columns if name.startswith(COMPARED))
        outcome = columns.index(compared)
        paper = columns.index("Gain, paper") if "Gain, paper" in columns else None
        rows = []
        for (_, row), cells in zip(
            data.iterrows(), rows_for_people.itertuples(index=False), strict=True
        ):
            is_own = row["model"] in set(own_models["model"])
            standing = Standing(
                model=row["model"],
                label=cells[columns.index("Model")],
                is_best=has_best and is_own and float(row["mean"]) == best_mean,
                ours=cells[columns.index("Ours")],
                # The interval of a gain stands right of it.
                gain=f"{cells[gain]} {cells[gain + 1]}".strip(),
                paper="" if paper is None else cells[paper],
                verdict=self._verdict(row, cells[outcome]),
            )
            rows.append(standing)

        words = metric.label
        if metric.unit:
            words += f" in {metric.unit}"
        words += ", lower is better" if metric.lower_is_better else ", higher is better"
        has_paper = any(row.paper for row in rows)
        judged = "Verdict" if self.refers else compared
        # The table for people marks figures of other data, and explains the mark in its notes.
        note = OTHER_DATA if any(row.paper.endswith("*") for row in rows) else ""
        return Ranking(self.labels[task], words, has_paper, judged, note, rows)

    def _verdict(self, row: Any, outcome: str) -> str:
        """Return a verdict: on the paper's claim where there is one, else on the gain."""
        if row["paper"] != "" and row["direction"] != "not judged":
            return ", ".join(dict.fromkeys(filter(None, [row["direction"], row["size"]])))
        if row["model"] == self.experiment.baseline:
            return "the baseline"
        return outcome or f"not judged, {row['setting'].rpartition(', ')[2]}"

    def findings(self, main: str) -> list[str]:
        """Say in a sentence for each task of the first screen what the main table shows."""
        others = [task for task in self.ranked(main) if task != self.first]
        texts = [self.finding(main, task) for task in others]
        return [self.finding(main, self.first), *filter(None, texts)]

    def finding(self, main: str, task: str) -> str:
        """Say in one sentence what the main table shows of a task; empty if it lacks the metric."""
        rows = with_texts(read(self.files.folder / "tables", main), "Ours")
        rows = rows[rows["task"] == task]
        metric = self._metric_of_finding(main, list(rows["metric"]))
        if metric is None:
            return ""

        gains = pd.DataFrame(columns=["task", "metric", "model"])
        if (self.files.folder / f"tables/{main}_gains.csv").is_file():
            gains = with_texts(read(self.files.folder / "tables", f"{main}_gains"), "Gain, ours")
        gains = gains[(gains["task"] == task) & (gains["metric"] == metric)]

        models = self.experiment.models_of(task)
        labels = {model: label for model, label in self.model_names.items() if model in models}
        return finding(
            label=self.labels[task],
            metric=metric_of(metric),
            rows=rows[rows["metric"] == metric],
            gains=gains,
            names=labels,
        )

    @staticmethod
    def _metric_of_finding(table: str, metrics: Sequence[str]) -> str | None:
        """Return the metric of which the finding speaks, of those that a table has."""
        # Where scoring has left out the finding's metric, the first one of the table stands in.
        for pattern in (*TABLES[table].finding, *TABLES[table].metrics):
            for metric in metrics:
                if fnmatchcase(metric, pattern):
                    return metric
        return None

    def model_labels(self) -> dict[str, str]:
        """Return each model's label, by the table of costs, which names both."""
        # Its data have models by name, its texts by label, in the same rows.
        costs = read(self.files.folder / "tables", "costs")
        return dict(zip(costs.data["model"], costs.shown["Model"], strict=False))

    def spent(self) -> str:
        """Say how many trainings there were and what they cost."""
        costs = self.data("tables", "costs")
        cpu_seconds = pd.to_numeric(costs["cpu_s"]).sum()
        gpu_seconds = pd.to_numeric(costs["gpu_s"]).sum()

        spent = f"{cpu_seconds:,.0f} CPU seconds"
        if gpu_seconds:
            spent += f" and {gpu_seconds:,.0f} GPU seconds"
        return f"{len(costs)} trainings, {spent} with decoding"

    # Blocks.

    def data(self, folder: str, name: str) -> pd.DataFrame:
        """Read the data of a table or a figure."""
        return read_csv(self.files.folder / folder / f"{name}.csv")

    def table(self, name: str, tasks: Sequence[str]) -> Block:
        """Return a block with a table's rows of some tasks; the downloads have all rows."""
        whole = read(self.files.folder / "tables", name)
        stem = f"{self.files.folder}/tables/{name}"
        downloads = (download(Path(f"{stem}.csv")), download(Path(f"{stem}.tex")))

        # Notes on a task begin with its label; those on tasks that are not shown are left out.
        hidden_labels = tuple(
            f"{label}: " for task, label in self.labels.items() if task not in tasks
        )
        # What is said of a task is told once, with its data or above the demonstrations.
        notes_of_tasks = [
            f"{self.labels[task]}: {self.experiment.tasks[task].note}" for task in tasks
        ]
        notes = tuple(
            note
            for note in whole.notes
            if not note.startswith(hidden_labels) and note not in notes_of_tasks
        )
        if TABLES[name].builder == "examples":
            # The data have more rows than are shown to people.
            is_shown = whole.shown["Task"].isin([self.labels[task] for task in tasks])
            part = replace(whole, shown=whole.shown[is_shown], notes=notes)
        else:
            part = replace(of_tasks(whole, tasks), notes=notes)
        block = self.block_of(part, name, downloads, target=f"{stem}.csv")

        if TABLES[name].builder == "examples":
            data = whole.data[whole.data["task"].isin(list(tasks))]
            letters = TABLES[name].kind == INFLECTION
            return replace(block, form="examples", parts=examples(data, self.labels, letters))
        if TABLES[name].category == COSTS:
            return block
        return replace(block, marks=self.bearing(tasks))

    def made_here(self, table: Table, name: str) -> Block:
        """Return a table that has no files as a block, with the table to download."""
        downloads = (
            Download(f"{name}.csv", uri(to_csv(table).encode())),
            Download(f"{name}.tex", uri(to_latex(table, name).encode())),
        )
        return self.block_of(table, name, downloads)

    def block_of(
        self, table: Table, name: str, downloads: tuple[Download, ...], target: str = ""
    ) -> Block:
        """Return a table as a block; `target` is the file that Snakemake makes."""
        title = table.title.removesuffix(f": {self.experiment.title}")

        # A single task is named in the title, and takes no column.
        task_labels = set(table.shown.get("Task", ()))
        if len(task_labels) == 1:
            title = f"{task_labels.pop()}: {title}"
            table = replace(
                table,
                shown=table.shown.drop(columns="Task"),
                align=table.align[1:],
                group=max(1, table.group - 1),
            )

        notes = tuple(
            paragraph_of(note)
            for note in table.notes
            if note not in (RULE_NOTE, NOTE_OF_OWN_DATA) and not self._is_caution(note)
        )
        return Block(
            name=name,
            title=title,
            form="table",
            html=Markup(grid(table)),  # noqa: S704
            notes=notes,
            downloads=downloads,
            command=self.made_by(target),
        )

    def figure(self, name: str) -> Block:
        """Return a figure with its caption, its data and its cautions."""
        folder = self.files.folder / "figures"
        data = self.data("figures", name)
        names = Names(self.labels, self.model_names, self.experiment.baseline)
        finding = escape(caption(FIGURES[name].draws, data, names))

        # Columns that are empty, or the same in all rows, take no room beside the picture.
        constant = [
            column
            for column in data.columns
            if column in ("task", "label", "metric") and data[column].nunique() == 1
        ]
        empty = [column for column in data.columns if (data[column] == "").all()]
        data = data.drop(columns=[*dict.fromkeys([*constant, *empty])])
        align = "".join("r" if numeric(data[column]) else "l" for column in data.columns)

        return Block(
            name=name,
            title=menu_label(FIGURES[name], self.experiment),
            form="figure",
            html=Markup(grid(Table("", data, data, align))),  # noqa: S704
            downloads=(download(folder / f"{name}.csv"),),
            caption=Markup(" ").join([finding, self.caption("figure", figure=name)]),
            image=uri((folder / f"{name}.svg").read_bytes(), "image/svg+xml"),
            marks=self.bearing(FIGURES[name].shows(self.experiment, self.kinds)),
            command=self.made_by(f"{folder}/{name}.svg"),
        )

    def task_of_map(self, name: str) -> str:
        """Return the task of an attention map by its file's name; empty if it is none."""
        match = re.fullmatch(r"attention_(.+)_seed(\d+)", name)
        return match[1] if match else ""

    def attention(self, name: str, task: str) -> Block:
        """Return maps whose symbols can be pointed at, or the picture if a map is too large."""
        folder = self.files.folder / "figures"
        block = Block(
            name=name,
            title=f"Attention on {self.labels[task]}",
            downloads=(download(folder / f"{name}.csv"),),
            caption=self.caption("attention", task=task, seed=name.rpartition("seed")[2]),
            marks=self.bearing([task]),
            command=self.made_by(f"{folder}/{name}.svg"),
        )

        parts = maps(self.data("figures", name))
        if all(len(part["source"]) * len(part["target"]) <= MOST_CELLS for part in parts):
            weights = Markup(weights_of(parts))  # noqa: S704
            return replace(block, form="attention", parts=parts, weights=weights)
        # A map of more cells would be too large for the page.
        image = uri((folder / f"{name}.svg").read_bytes(), "image/svg+xml")
        return replace(block, form="picture", image=image)

    def data_and_cost(self) -> dict[str, Any]:
        """Return the section on the data's sizes and licenses, the runs' costs and versions."""
        blocks = []
        tables = datasets(self.experiment, self.files.summaries, self.files.gold)
        for number, table in enumerate(tables, start=1):
            blocks.append(self.made_here(table, f"data{number}"))

        all_tasks = [*self.real, *self.demonstrations]
        blocks += [
            self.table(name, all_tasks)
            for name in self.files.tables
            if TABLES[name].category == COSTS
        ]
        return {"title": "Data and cost", "blocks": blocks}

    def _numbered(self, by_task: Mapping[str, Sequence[str]]) -> list[Caution]:
        """Number the cautions; one that several tasks have is listed once."""
        labels_by_text: dict[str, list[str]] = {}
        for task in [*self.real, *self.demonstrations]:
            for text in by_task[task]:
                labels_by_text.setdefault(text, []).append(self.labels[task])
        return [
            Caution(number, labels, text)
            for number, (text, labels) in enumerate(labels_by_text.items(), start=1)
        ]

    def _is_caution(self, note: str) -> bool:
        """Check whether a table's note is in the list of cautions already."""
        return any(note.removesuffix(".").endswith(caution.text) for caution in self.cautions)

    def bearing(self, tasks: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the cautions that bear on some of these tasks."""
        labels = {self.labels[task] for task in tasks}
        return tuple(
            caution.number for caution in self.cautions if labels.intersection(caution.labels)
        )

    def made_by(self, target: str) -> str:
        """Return the command that makes a file; empty if no target is named."""
        if not target:
            return ""
        return f"pam run {target} --configfile {self.files.folder}/experiment.yaml"

    def caption(self, name: str, **wildcards: str) -> Markup:
        """Return the first paragraph of a caption of Snakemake's report, as HTML.

        The captions are reStructuredText with emphasis, and Jinja templates.
        """
        template = (self.files.texts / f"{name}.rst").read_text(encoding="utf-8")
        snakemake = SimpleNamespace(
            config=self.experiment.model_dump(), wildcards=SimpleNamespace(**wildcards)
        )
        environment = jinja2.Environment(autoescape=False)  # noqa: S701
        caption = environment.from_string(template).render(snakemake=snakemake)

        first_paragraph = " ".join(caption.partition(".. include::")[0].split())
        html = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(first_paragraph)))
        return Markup(html)  # noqa: S704


def paragraph_of(text: str) -> Markup:
    """Return a paragraph as HTML that the template does not escape."""
    return Markup(paragraph(text))  # noqa: S704


def with_texts(table: Table, value: str) -> pd.DataFrame:
    """Return a table's data with a column's value and the interval right of it, as people see them.

    The data are rounded for machines. Rounded again for people, some would become other numbers.
    """
    column = list(table.shown.columns).index(value)
    return table.data.assign(
        # A standard deviation may follow the mean.
        value_text=[text.partition(" ")[0] for text in table.shown.iloc[:, column]],
        interval_text=list(table.shown.iloc[:, column + 1]),
    )


def of_tasks(table: Table, tasks: Sequence[str]) -> Table:
    """Keep a table's rows of some tasks, and those of no task, in their order."""
    if "task" not in table.data.columns:
        return table

    # Rows for people alone, such as a sum, stand below those of the data and have no task.
    rows_without_task = len(table.shown) - len(table.data)
    task_of_row = [*table.data["task"], *[None] * rows_without_task]
    kept = [index for index, task in enumerate(task_of_row) if task is None or task in tasks]
    return replace(table, shown=table.shown.iloc[kept])


def numeric(cells: pd.Series[str]) -> bool:
    """Check that all cells that are not empty are numbers."""
    return bool(pd.to_numeric(cells[cells != ""], errors="coerce").notna().all())


def uri(content: bytes, kind: str = "text/plain") -> str:
    """Return the data URI of a file's content."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def download(path: Path) -> Download:
    """Return a file to be embedded in the page."""
    kind = "text/csv" if path.suffix == ".csv" else "text/plain"
    return Download(path.name, uri(path.read_bytes(), kind))
