"""What the rules of the report ask: which tables and figures there are, and of which files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pam.reporting.catalogue import FIGURES, TABLES, Item
from pam.workflow import Wildcards, Workflow

PAPER = "config/paper_results.yaml"
"""The papers' own results."""


def captions(folder: str) -> list[str]:
    """The texts of the report that are in a folder."""
    return sorted(str(file) for file in Path(folder).glob("*.rst"))


class ReportFiles:
    """The tables and figures of an experiment, and the files that each is made of."""

    def __init__(self, flow: Workflow) -> None:
        self.flow, self.experiment = flow, flow.experiment

    def tables(self) -> list[str]:
        """Every table of the experiment, as data; the other formats are made beside it."""
        return [f"{self.flow.results}/tables/{name}.csv" for name in self._shown(TABLES)]

    def front_tables(self) -> list[str]:
        """The tables on the report's first page."""
        front = [name for name in self._shown(TABLES) if TABLES[name].front]
        return [f"{self.flow.results}/tables/{name}.html" for name in front]

    def figures(self) -> list[str]:
        """Every figure of the experiment, heat maps of one seed of each task included."""
        names = self._shown(FIGURES)
        for task in self.experiment.tasks:
            if self.flow.posterior(task):
                names.append(f"attention_{task}_seed{self.experiment.seeds_of(task)[0]}")
        return [f"{self.flow.results}/figures/{name}.svg" for name in names]

    def table_inputs(self, wildcards: Wildcards) -> dict[str, list[str]]:
        """The files that a table is made of."""
        return self._inputs(TABLES[wildcards.table])

    def table_arguments(self, wildcards: Wildcards) -> list[str]:
        """The same as arguments of the command `tables`."""
        return self._arguments(TABLES[wildcards.table])

    def table_labels(self, wildcards: Wildcards) -> dict[str, str]:
        """A table's place in the report's menu."""
        return {"table": TABLES[wildcards.table].label}

    def table_category(self, wildcards: Wildcards) -> str:
        """The heading under which a table is in the report's menu."""
        return TABLES[wildcards.table].category

    def figure_inputs(self, wildcards: Wildcards) -> dict[str, list[str]]:
        """The files that a figure is made of."""
        return self._inputs(FIGURES[wildcards.figure])

    def figure_arguments(self, wildcards: Wildcards) -> list[str]:
        """Arguments of the command `figures`: the kind, then the options."""
        item = FIGURES[wildcards.figure]
        return [*self._arguments(item), *item.options]

    def figure_kind(self, wildcards: Wildcards) -> str:
        """Which kind of figure it is."""
        return FIGURES[wildcards.figure].draws

    def figure_code(self, wildcards: Wildcards) -> str:
        """Fingerprint of what draws it."""
        return self.flow.code("figures", self.figure_kind(wildcards))

    def figure_labels(self, wildcards: Wildcards) -> dict[str, str]:
        """A figure's place in the report's menu."""
        return {"figure": FIGURES[wildcards.figure].label}

    def _shown(self, items: Mapping[str, Item]) -> list[str]:
        shown = self.experiment, self.flow.kinds
        return [name for name, item in items.items() if item.shows(*shown)]

    def _inputs(self, item: Item) -> dict[str, list[str]]:
        places = list(self._places(item))
        beside = {pattern.format(**place): None for place in places for pattern in item.also_reads}
        return self._files(item, places) | {"beside": list(beside)}

    def _arguments(self, item: Item) -> list[str]:
        named = self._files(item, list(self._places(item)))
        return [word for name, files in named.items() if files for word in (f"--{name}", *files)]

    def _files(self, item: Item, places: list[dict[str, Any]]) -> dict[str, list[str]]:
        """The files that a table or figure is made of, each once, by option of its command."""
        found: dict[str, dict[str, None]] = {option: {} for option in item.files}
        for place in places:
            for option, pattern in item.files.items():
                if option not in place["lacks"]:
                    found[option][pattern.format(**place)] = None
        return {option: list(files) for option, files in found.items()}

    def _places(self, item: Item) -> Iterator[dict[str, Any]]:
        """What the files of a table or figure are named after, run by run."""
        shown = item.shows(self.experiment, self.flow.kinds)
        for task, model, seed in self.experiment.runs():
            if task in shown and not (item.trained and model in self.flow.ensembles):
                yield {
                    "task": f"{self.flow.results}/{task}",
                    "run": str(self.flow.run_of(task, model, seed).path),
                    "seed": seed,
                    "beam": self.flow.beams[task][0],
                    "lacks": self._lacking(task, model),
                }

    def _lacking(self, task: str, model: str) -> list[str]:
        """Options of commands for which a model has no files on a task."""
        found = {
            # Without the baseline, or with nothing but it, nothing is tested against it.
            "significance": bool(self.flow.compared(task)),
            "gold-scores": self.experiment.tasks[task].word_alignments is not None,
            # A test row has no pointer actions to be forced.
            "analyses": self.flow.plan.components[model].targets == "symbols",
        }
        return [option for option, known in found.items() if not known]
