"""Write the page of an experiment's results, `index.html`.

It begins with the front: the question, the tasks and the models, in words for readers who
have not read the paper, one figure (`pictured`) and the main table, with a ranking of models for
each of a few tasks. Cautions, tables, figures, outputs side by side and attention maps follow. The
page is one file that asks the network for nothing: styles, pictures and downloads are embedded.

This file says what stands on the page, and where. `pam.reporting.blocks` makes each table and
figure, `pam.reporting.standings` the table of the first screen; both take the typed rows of tables
(`pam.reporting.cells`). The templates are in `workflow/report/page/`. The captions of figures go on
with those of Snakemake's report, in `workflow/report/`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pam.evaluation.metrics import metric_of
from pam.experiments.experiment import Experiment
from pam.experiments.run_folder import RunFolder
from pam.reporting import groups
from pam.reporting.answers import answer
from pam.reporting.blocks import Block, Blocks, Caution, code_marked, paragraph_of
from pam.reporting.catalogue import FIGURES, MAP, TABLES, is_demonstration, refers_to_papers
from pam.reporting.cells import Name
from pam.reporting.comparison import PARTS_OF_RULE, PARTS_OF_RULE_OF_OWN_DATA
from pam.reporting.findings import cautions
from pam.reporting.heat_maps import Moved, first_clear, moved
from pam.reporting.introduction import (
    MAIN_MODELS,
    PAPER,
    about,
    code_of,
    descriptions,
    example_of,
    has_posterior,
    question,
    task_in_words,
)
from pam.reporting.items import COSTS
from pam.reporting.outputs import FILTERS
from pam.reporting.reference import run_path
from pam.reporting.render import read, read_csv
from pam.reporting.runs import TaskRuns, label_of
from pam.reporting.standings import Ranking, metric_of_finding, ranking, rows_of
from pam.reporting.tables.data import Summary, datasets
from pam.runtime.files import read_json, write_text

NO_BREAK = "\N{NO-BREAK SPACE}"
MOST_CELLS_MOVED = 400  # the largest attention map of the first screen
MOST_ROWS = 30  # of a table that is not folded
MOST_RANKINGS = 4  # tasks of the first screen; the sections below have all


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
    outputs: Sequence[Path] = ()  # files of the models' outputs, in the folders of their runs
    config: Path | None = None  # that its commands name; None: `experiment.yaml` of the folder
    report: str = "report.html"  # Snakemake's, beside the page; empty: there is none

    @property
    def config_file(self) -> Path:
        """The experiment's configuration, as commands on the page name it."""
        return self.config or self.folder / "experiment.yaml"


def write(files: Files, out: Path) -> dict[str, Any]:
    """Write the page of an experiment that has run; return what its template was given."""
    content = Page(files).content()
    html = template(files.texts / "page/page.html").render(content)
    write_text(out, html.lstrip())
    return content


def template(file: Path) -> jinja2.Template:
    """Read a template of HTML, which may include others of its folder."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(file.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = code_marked
    environment.filters["unbroken"] = unbroken
    return environment.get_template(file.name)


def unbroken(text: str) -> str:
    """Keep an interval, and a number and its unit, in one line."""
    return re.sub(r"\[[^\[\]]*\]| %", lambda part: part[0].replace(" ", NO_BREAK), text)


class Page:
    """The content of the page of one experiment."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.experiment = files.experiment
        # Of each task its kind, such as `translation`.
        self.kinds = {task: str(summary["task"]) for task, summary in files.summaries.items()}
        self.refers_to_papers = refers_to_papers(self.experiment)
        self.labels = {task: label_of(task, self.experiment) for task in self.experiment.tasks}

        # Demonstrations stand apart, below the tasks that are benchmarks.
        self.demonstrations = [
            task for task, config in self.experiment.tasks.items() if is_demonstration(config)
        ]
        self.real = [task for task in self.labels if task not in self.demonstrations]
        self.first_task = next(iter(self.real or self.demonstrations))
        self.main = self.main_table()
        self.pictured = self.front_figure()

        self.tables = {name: read(files.folder / "tables", name) for name in files.tables}
        comparisons = [
            read_csv(files.folder / f"tables/{name}.csv")
            for name in files.tables
            if TABLES[name].builder == "comparison"
        ]
        curves = read_csv(files.folder / "figures/curves.csv")
        by_task = cautions(self.experiment, files.summaries, curves, comparisons, files.runs)
        self.cautions = self._numbered(by_task)
        # Only stored rows are runs; the others are sums.
        self.costs = [row for row in self.tables["costs"].rows if row.is_stored]
        self.model_names = {row["model"].key: row["model"].label for row in self.costs}
        self.make = Blocks(
            experiment=self.experiment,
            folder=files.folder,
            config=files.config_file,
            tables=self.tables,
            texts=files.texts,
            labels=self.labels,
            model_names=self.model_names,
            cautions=self.cautions,
            outputs=files.outputs,
        )

    def content(self) -> dict[str, Any]:
        """Return the template's variables."""
        front = []
        if self.pictured:
            front.append(self.figure(self.pictured))
        if self.main:
            front.append(self.make.table(self.main, self.ranked()))
        # A table of one cell and a figure of one point compare nothing: they stand nowhere.
        front = [block for block in front if not block.is_single]
        # A section without blocks is left out.
        sections = [section for section in self.sections() if section["blocks"]]
        self._set_anchors([*front, *(block for section in sections for block in section["blocks"])])

        rule_title = "How models are compared"
        rule = PARTS_OF_RULE_OF_OWN_DATA
        if self.refers_to_papers:
            rule_title = "How a verdict is reached"
            rule = PARTS_OF_RULE

        return {
            "title": self.experiment.title or self.experiment.experiment,
            "about": about(
                experiment=self.experiment,
                tasks=list(self.labels.values()),
                models=self.model_names,
                names_authors=self.refers_to_papers,
            ),
            "paper": PAPER,
            "code": code_of(self.trainings()),
            "answers": self.answers(),
            "moved": self.moved(),
            "question": question(self.experiment),
            "tasks": [self.introduced(task) for task in [*self.real, *self.demonstrations]],
            **self.models_in_words(),
            "front": front,
            "rankings": self.rankings(),
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
            "command": f"pam run --configfile {self.files.config_file}",
            "report": self.files.report,
        }

    def trainings(self) -> Iterator[dict[str, Any]]:
        """Yield the record of each training, with its commit.

        Trainings of before it was recorded have none; where they were restored, the record of the
        stored experiment gave it.
        """
        for task in self.files.runs:
            for run in task.runs:
                name = (run.task, run.model, run.seed)
                restored = RunFolder(self.files.folder / run_path(name)).restored
                training = dict(run.scores.training)
                if restored.is_file():
                    commit = read_json(restored).get("commit")
                    versions = {"commit": commit} if commit else {}
                    training["versions"] = versions | (training.get("versions") or {})
                yield training

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

    def sections(self) -> list[dict[str, Any]]:
        """Return the sections below the front.

        Tables, figures, examples and attention of real tasks come first, then data and cost, then
        the demonstrations in a section of their own.
        """
        if not self.real:
            return [self.demonstration_section(), self.data_and_cost()]

        tables, figures, outputs, maps = self.blocks(self.real)
        return [
            {"title": "Tables", "blocks": tables},
            {"title": "Figures", "blocks": figures},
            {"title": "Outputs side by side", "blocks": outputs},
            {"title": "Attention", "blocks": maps},
            self.data_and_cost(),
            self.demonstration_section(),
        ]

    def demonstration_section(self) -> dict[str, Any]:
        """Return one section with all blocks of the demonstrations and their notes."""
        notes = [self.experiment.tasks[task].note for task in self.demonstrations]
        text = " ".join(dict.fromkeys(note for note in notes if note))

        by_form = self.blocks(self.demonstrations)
        blocks = [block for of_form in by_form for block in of_form]
        if not text:
            text = "This shows the method. It is not a benchmark."
        return {"title": "Demonstration", "blocks": blocks, "intro": text}

    def blocks(self, tasks: Sequence[str]) -> tuple[list[Block], ...]:
        """Return tables, figures, examples and attention maps of some tasks.

        The figure of the first screen is left out, and the main table if the first screen has all
        of its tasks. A figure that shows both real tasks and demonstrations is with the real ones.
        """
        tables: list[Block] = []
        outputs: list[Block] = []
        for name in self.files.tables:
            spec = TABLES[name]
            shown_tasks = [
                task for task in spec.shows(self.experiment, self.kinds) if task in tasks
            ]
            is_on_front = name == self.main and shown_tasks == self.ranked()
            if spec.category == COSTS or not shown_tasks or is_on_front:
                continue
            block = self.make.table(name, shown_tasks)
            if spec.builder != "examples":
                tables.append(block)
            elif block.parts:
                outputs.append(block)

        grouped = groups.by_group(
            [task for task in self.files.runs if task.name in tasks], self.experiment
        )
        if grouped is not None:
            # Scores by group have no file: the page makes their table.
            tables.append(self.make.made_here(grouped, groups.NAME))

        figures: list[Block] = []
        maps: list[Block] = []
        for name in self.files.figures:
            if name in FIGURES:
                drawn_tasks = FIGURES[name].shows(self.experiment, self.kinds)
                preferred = [task for task in drawn_tasks if task in self.real] or drawn_tasks
                if name != self.pictured and preferred and preferred[0] in tasks:
                    figures.append(self.figure(name))
            else:
                task = self.task_of_map(name)
                if task in tasks:
                    maps.append(self.make.attention(name, task))
        shown = [[block for block in part if not block.is_single] for part in (tables, figures)]
        return *shown, outputs, maps

    # The front.

    def main_table(self) -> str | None:
        """Return the first comparison for the front that has the first task."""
        for name in self.files.tables:
            spec = TABLES[name]
            if spec.front and self.first_task in spec.shows(self.experiment, self.kinds):
                return name
        return None

    def front_figure(self) -> str | None:
        """Return the first figure of gains in the main table's metric, else that of its values."""
        if self.main is None:
            return None
        # A table of several metrics is pictured by the one of its finding.
        metric = (*TABLES[self.main].finding, *TABLES[self.main].metrics)[0]

        for draws in ("gains", "quality"):
            for name in self.files.figures:
                spec = FIGURES.get(name)
                if spec is None or spec.draws != draws or metric not in spec.options:
                    continue
                if self.first_task in spec.shows(self.experiment, self.kinds):
                    return name
        return None

    def introduced(self, task: str) -> dict[str, Any]:
        """Return a task's label, what it is in words, and an example if its outputs are shown."""
        kind = self.kinds[task]
        example = None
        for name in self.files.tables:
            # A kind of task has one table of examples.
            if TABLES[name].builder == "examples" and TABLES[name].kind == kind:
                example = example_of(kind, self.tables[name].of_tasks([task]).data)
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

    def ranked(self) -> list[str]:
        """Return the tasks that the first screen has of the main table; none without one."""
        if self.main is None:
            return []
        tasks_of_table = TABLES[self.main].shows(self.experiment, self.kinds)
        tasks = [task for task in self.real or self.demonstrations if task in tasks_of_table]
        return tasks[:MOST_RANKINGS]

    def rankings(self) -> list[Ranking]:
        """Return the models of each task of the first screen, as the main table has them."""
        if self.main is None:
            return []
        return [
            ranking(
                table=self.tables[self.main],
                spec=TABLES[self.main],
                experiment=self.experiment,
                task=Name(task, self.labels[task]),
            )
            for task in self.ranked()
        ]

    def answers(self) -> list[str]:
        """Answer the question in a sentence for each task of the first screen."""
        if self.main is None:
            return []
        answers = []
        table = self.tables[self.main]
        for task in self.ranked():
            metric = metric_of_finding(TABLES[self.main], rows_of(table, task))
            if metric is None:
                continue
            models = self.experiment.models_of(task)
            rows = [row for row in rows_of(table, task, metric) if row["model"].key in models]
            if not rows:
                continue
            # The question is about the models with posterior attention.
            asked = [model for model in models if has_posterior(model, self.experiment)]
            answers.append(answer(Name(task, self.labels[task]), metric_of(metric), rows, asked))
        return answers

    def moved(self) -> Moved | None:
        """Return how attention moves from prior to posterior, on a task that shows it clearly."""
        found = []
        for task in [*self.real, *self.demonstrations]:
            for name in self.files.figures:
                if self.task_of_map(name) == task:
                    data = read_csv(self.files.folder / f"figures/{name}.csv")
                    shown = moved(data, MOST_CELLS_MOVED)
                    if shown and len(self.labels) > 1:
                        shown = shown._replace(label=f"{shown.label}, {self.labels[task]}")
                    if shown:
                        found.append(shown)

        return first_clear(found)

    def spent(self) -> str:
        """Say how many runs there were and what they cost."""
        seconds = {
            name: sum(row[name].value or 0 for row in self.costs) for name in ("cpu_s", "gpu_s")
        }
        spent = f"{seconds['cpu_s']:,.0f} CPU seconds"
        if seconds["gpu_s"]:
            spent += f" and {seconds['gpu_s']:,.0f} GPU seconds"
        return f"{len(self.costs)} runs, {spent} with decoding"

    # Blocks.

    def figure(self, name: str) -> Block:
        """Return a figure of the tasks that it shows."""
        return self.make.figure(name, FIGURES[name].shows(self.experiment, self.kinds))

    def task_of_map(self, name: str) -> str:
        """Return the task of an attention map by its file's name; empty if it is none."""
        match = MAP.fullmatch(name)
        return match[1] if match else ""

    def data_and_cost(self) -> dict[str, Any]:
        """Return the section on the data's sizes and licenses, the runs' costs and versions."""
        blocks = []
        tables = datasets(self.experiment, self.files.summaries, self.files.gold)
        for number, table in enumerate(tables, start=1):
            blocks.append(self.make.made_here(table, f"data{number}"))

        all_tasks = [*self.real, *self.demonstrations]
        blocks += [
            self.make.table(name, all_tasks)
            for name in self.files.tables
            if TABLES[name].category == COSTS
        ]
        return {"title": "Data and cost", "blocks": blocks}

    def _numbered(self, by_task: Mapping[str, Sequence[str]]) -> list[Caution]:
        """Number the cautions; one that several tasks have is listed once."""
        tasks_by_text: dict[str, list[str]] = {}
        for task in [*self.real, *self.demonstrations]:
            for text in by_task[task]:
                tasks_by_text.setdefault(text, []).append(task)
        return [
            Caution(number, tasks, [self.labels[task] for task in tasks], text)
            for number, (text, tasks) in enumerate(tasks_by_text.items(), start=1)
        ]
