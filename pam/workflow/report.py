"""What the report is made of: the tables and figures of an experiment, and the files of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pam.experiments.fingerprint import entries_of, fingerprint
from pam.experiments.plan import Plan
from pam.experiments.restored import Name
from pam.reporting.catalogue import FIGURES, TABLES, is_demonstration, menu_label
from pam.reporting.items import FigureSpec, Item, TableSpec
from pam.workflow.files import WorkflowFiles
from pam.workflow.rules import Wildcards, per_job

Group = tuple[str, str, str]  # option of a command, task, model
WORDS = {  # options of commands that take files, in words
    "predictions": "the outputs",
    "analyses": "the analysis",
    "gold-scores": "the alignment scores",
    "significance": "sacreBLEU's tests",
}


@dataclass(frozen=True)
class RunInput:
    """A file that a table or a figure is made of, and the run that it belongs to or is about."""

    option: str  # of the command that takes it
    task: str
    model: str
    seed: int
    file: str

    @property
    def run(self) -> Name:
        return self.task, self.model, self.seed

    @property
    def group(self) -> Group:
        """The files that are shown together or not at all.

        A mean over some seeds would pass for a mean over all.
        """
        return self.option, self.task, self.model


@dataclass(frozen=True)
class LeftOut:
    """What a page does not show, since restored runs would have to be trained again for it."""

    target: str  # the file of the table or figure
    label: str
    runs: tuple[Name, ...]  # those that would be trained
    without: tuple[str, ...] = ()  # what it is made without; empty: it is not made


@dataclass(frozen=True)
class ItemInputs:
    """A table or a figure with the files that it is made of."""

    item: TableSpec | FigureSpec
    by_option: dict[str, list[str]]  # of the command that makes it
    beside: list[str]  # that the command reads unasked


class ReportFiles:
    """The tables and figures of an experiment, and the files that each is made of.

    Restored runs have no weights. Tables and figures are made of what is stored of these, and left
    out where that is nothing. A table or a figure that is left out can still be asked for by name:
    then its runs are trained.
    """

    def __init__(self, plan: Plan, files: WorkflowFiles) -> None:
        self.plan = plan
        self.experiment = plan.experiment
        self.files = files

    # What the page shows.

    def tables(self) -> list[str]:
        """List every table as data; the other formats are made beside it."""
        return [self._file_of(name) for name in self._shown(TABLES)]

    def front_tables(self) -> list[str]:
        """List the tables on the report's first page, those of demonstrations last."""
        tasks = self.experiment.tasks

        def is_of_demonstrations(name: str) -> bool:
            tasks_of_table = TABLES[name].shows(self.experiment, self.files.kinds)
            return all(is_demonstration(tasks[task]) for task in tasks_of_table)

        names = [name for name in self._shown(TABLES) if TABLES[name].front]
        names.sort(key=is_of_demonstrations)
        return [f"{self.files.results}/tables/{name}.html" for name in names]

    def figures(self) -> list[str]:
        """List every figure, heat maps of one seed of each task included."""
        figures = [self._file_of(name) for name in self._shown(FIGURES)]
        maps = [file for file, runs in self._maps().items() if not self._lacking_maps(runs)]
        return [*figures, *maps]

    def outputs(self) -> list[str]:
        """List the models' outputs that the page shows side by side, each file once."""
        files: dict[str, None] = {}
        for name in self._shown(TABLES):
            if TABLES[name].builder == "examples":
                files |= dict.fromkeys(self._inputs_of(TABLES[name]).by_option["predictions"])
        return list(files)

    def _file_of(self, name: str) -> str:
        """Return the file of a table or a figure by which it is asked for."""
        if name in TABLES:
            return f"{self.files.results}/tables/{name}.csv"
        return f"{self.files.results}/figures/{name}.svg"

    def _shown(self, items: Mapping[str, Item]) -> list[str]:
        """List the tables or figures that the experiment's tasks have, and that can be made."""
        names = [
            name for name, item in items.items() if item.shows(self.experiment, self.files.kinds)
        ]
        if not self.files.restored:
            return names
        return [name for name in names if self._is_made(items[name])]

    def _maps(self) -> dict[str, list[Name]]:
        """Return the file of each task's heat maps, with the runs whose attention it shows."""
        maps = {}
        for task in self.experiment.tasks:
            seed = self.experiment.seeds_of(task)[0]
            posterior = self.files.posterior(task, seed)
            if posterior:
                file = f"{self.files.results}/figures/attention_{task}_seed{seed}.svg"
                models = [*self.files.baseline(task, seed), *posterior]
                maps[file] = [(task, model, seed) for model in models]

        return maps

    # What a rule makes a table or a figure of.

    @per_job
    def inputs(self, wildcards: Wildcards) -> dict[str, list[str]]:
        """Return the files of a table or figure by option of its command.

        `beside` has those that the command reads unasked.
        """
        inputs = self._inputs_of(_item(wildcards))
        return inputs.by_option | {"beside": inputs.beside}

    @per_job
    def arguments(self, wildcards: Wildcards) -> list[str]:
        """Return the files as arguments of the command, with a figure's other options."""
        inputs = self._inputs_of(_item(wildcards))
        arguments = []
        for option, files in inputs.by_option.items():
            if files:
                arguments += [f"--{option}", *files]

        if isinstance(inputs.item, FigureSpec):
            arguments += inputs.item.options
        return arguments

    @per_job
    def labels(self, wildcards: Wildcards) -> dict[str, str]:
        """Return the place of a table or figure in the report's menu."""
        item = _item(wildcards)
        kind = "table" if isinstance(item, TableSpec) else "figure"
        return {kind: menu_label(item, self.experiment)}

    @per_job
    def figure_kind(self, wildcards: Wildcards) -> str:
        """Return the kind of a figure, by which it is drawn."""
        return FIGURES[wildcards.figure].draws

    @per_job
    def table_code(self, wildcards: Wildcards) -> str:
        """Return the fingerprint of the code that builds a table."""
        return fingerprint(*entries_of("tables", TABLES[wildcards.table].builder))

    @per_job
    def figure_code(self, wildcards: Wildcards) -> str:
        """Return the fingerprint of the code that draws a figure."""
        return fingerprint(*entries_of("figures", FIGURES[wildcards.figure].draws))

    def _inputs_of(self, item: TableSpec | FigureSpec) -> ItemInputs:
        """Return the files of a table or a figure, each once and in order."""
        # What cannot be made of what is there is asked for by name, with all that it needs.
        is_partial = bool(self.files.restored) and self._is_made(item)
        left_out = set(self._lacking(item)) if is_partial else set()

        # Dictionaries in place of sets, as they keep their order.
        by_option: dict[str, dict[str, None]] = {option: {} for option in item.files}
        for run_input in self._run_inputs(item):
            if run_input.group not in left_out:
                by_option[run_input.option][run_input.file] = None

        beside: dict[str, None] = {}
        for task, model, seed in self._runs(item):
            names = self._names(task, model, seed)
            if "scores" in by_option:
                for control in item.controls:
                    by_option["scores"][f"{names['task']}/controls/{control}/scores.json"] = None

            for pattern in item.also_reads:
                beside[pattern.format(**names)] = None

        return ItemInputs(
            item=item,
            by_option={option: list(files) for option, files in by_option.items()},
            beside=list(beside),
        )

    def _run_inputs(self, item: Item) -> Iterator[RunInput]:
        """Yield all files that a table or a figure is made of, run by run."""
        for task, model, seed in self._runs(item):
            exists = {
                # Without the baseline, or with nothing but it, nothing is tested against it.
                "significance": bool(self.files.compared(task, seed)),
                "gold-scores": self.experiment.tasks[task].word_alignments is not None,
                # A test row has no pointer actions to be forced.
                "analyses": self.plan.components[model].targets == "symbols",
            }
            names = self._names(task, model, seed)
            for option, pattern in item.files.items():
                if exists.get(option, True):
                    yield RunInput(option, task, model, seed, file=pattern.format(**names))

    def _runs(self, item: Item) -> list[Name]:
        """List the runs that a table or a figure shows."""
        tasks = item.shows(self.experiment, self.files.kinds)
        hidden = self.files.ensembles if item.trained else []
        return [
            (task, model, seed)
            for task, model, seed in self.experiment.runs()
            if task in tasks and model not in hidden
        ]

    def _names(self, task: str, model: str, seed: int) -> dict[str, Any]:
        """Return what patterns of files have in braces, for a run."""
        return {
            "seed": seed,
            "beam": self.files.beams[task][0],
            "task": f"{self.files.results}/{task}",
            "run": str(self.files.run_of(task, model, seed).path),
        }

    # What restored runs lack.

    def left_out(self) -> list[LeftOut]:
        """List what the page leaves out, or makes without some of its files."""
        if not self.files.restored:
            return []

        left_out = []
        for name, item in [*TABLES.items(), *FIGURES.items()]:
            if not item.shows(self.experiment, self.files.kinds):
                continue
            lacking = self._lacking(item)
            if not lacking:
                continue
            left_out.append(
                LeftOut(
                    target=self._file_of(name),
                    label=menu_label(item, self.experiment),
                    runs=tuple(dict.fromkeys(run for runs in lacking.values() for run in runs)),
                    without=tuple(self._without(item, lacking)) if self._is_made(item) else (),
                )
            )

        for file, runs in self._maps().items():
            untrained = self._lacking_maps(runs)
            if untrained:
                task = runs[0][0]
                left_out.append(LeftOut(file, f"Alignments on {task}", untrained))

        return left_out

    def left_out_texts(self) -> list[str]:
        """Return what is left out as sentences for people."""
        texts = []
        for item in self.left_out():
            if item.without:
                texts.append(f"{item.label}: made without {', '.join(item.without)}.")
            else:
                runs = f"{len(item.runs)} restored run{'s' * (len(item.runs) > 1)}"
                texts.append(
                    f"{item.label}: left out, as it needs {runs} to be trained again"
                    f" ({item.target})."
                )

        return texts

    def _without(self, item: Item, lacking: Collection[Group]) -> Iterator[str]:
        """Word what a table or a figure is made without, models of a task together."""
        groups = list(dict.fromkeys(run_input.group for run_input in self._run_inputs(item)))
        for option, task in dict.fromkeys((option, task) for option, task, _ in lacking):
            models = [
                model
                for shown_option, shown_task, model in groups
                if (shown_option, shown_task) == (option, task)
            ]
            absent = [model for model in models if (option, task, model) in lacking]
            files = WORDS.get(option, option)
            if absent != models:
                files += f" of {', '.join(absent)}"
            yield f"{files} on {task}"

    def _is_made(self, item: Item) -> bool:
        """Return whether there is enough for an item: some files of its first option."""
        first = next(iter(item.files))
        groups = {
            run_input.group for run_input in self._run_inputs(item) if run_input.option == first
        }
        return not groups or bool(groups - self._lacking(item).keys())

    def _lacking(self, item: Item) -> dict[Group, list[Name]]:
        """Return the groups of files that cannot be made of what restored runs have.

        Each has the runs that would have to be trained.
        """
        if not self.files.restored:
            return {}

        lacking: dict[Group, list[Name]] = {}
        for run_input in self._run_inputs(item):
            runs = self._runs_to_train(item, run_input)
            if runs:
                lacking.setdefault(run_input.group, []).extend(runs)

        return lacking

    def _runs_to_train(self, item: Item, run_input: RunInput) -> list[Name]:
        """List the restored runs that have to be trained before a file can be made."""
        if run_input.option == "significance":
            if Path(run_input.file).exists():
                return []
            return self._lacking_outputs(run_input.task, run_input.seed)

        if run_input.option not in item.of_runs():
            return []
        if not self.files.lacks(run_input.run, run_input.file):
            return []
        return [run_input.run]

    def _lacking_outputs(self, task: str, seed: int) -> list[Name]:
        """List a task's restored runs of a seed that have no outputs to be compared with others."""
        beam = self.files.beams[task][0]
        lacking = []
        for model in [*self.files.baseline(task, seed), *self.files.compared(task, seed)]:
            outputs = self.files.run_of(task, model, seed).predictions("test", beam)
            if self.files.lacks((task, model, seed), outputs):
                lacking.append((task, model, seed))

        return lacking

    def _lacking_maps(self, runs: Sequence[Name]) -> tuple[Name, ...]:
        """Return the restored runs of which no attention is stored."""
        return tuple(
            run for run in runs if self.files.lacks(run, self.files.run_of(*run).attention)
        )


def _item(wildcards: Wildcards) -> TableSpec | FigureSpec:
    """Return the table or figure that a job makes."""
    if hasattr(wildcards, "table"):
        return TABLES[wildcards.table]
    return FIGURES[wildcards.figure]
