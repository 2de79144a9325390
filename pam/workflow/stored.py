"""Restore the runs of a stored experiment, and find what its figures are drawn from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from pam.experiments.check import check_experiment
from pam.reporting.catalogue import MAP
from pam.reporting.reference import EXPERIMENT, restore, restore_summaries
from pam.workflow.files import WorkflowFiles
from pam.workflow.report import ReportFiles


class StoredRuns:
    """The runs of a stored experiment, restored into the folder of its results."""

    def __init__(self, stored: Path, results: Path) -> None:
        """Restore the runs.

        Args:
            stored: folder under `results/reference/`, with an archive of runs and `data.json`.
            results: where the runs are put.
        """
        self.config = stored / EXPERIMENT
        plan, datasets = check_experiment(None, [str(self.config)])
        restore_summaries(stored, results)
        restore(stored, results, plan)

        self.files = WorkflowFiles(plan, datasets, results)
        self.report = ReportFiles(plan, self.files)
        self.attention_words = plan.experiment.attention_words

    def figure_options(self, name: str) -> list[str]:
        """Return the options of `pam figures` that draw a figure of the page.

        They are none if the page leaves the figure out, as not all of its files are stored.
        """
        of_map = MAP.fullmatch(name)
        if of_map:
            task, seed = of_map.groups()
            return self._options_of_maps(task, int(seed))

        if name not in [Path(file).stem for file in self.report.figures()]:
            return []
        words = self.report.arguments()(SimpleNamespace(figure=name))
        return ["--experiment", str(self.config), *words]

    def _options_of_maps(self, task: str, seed: int) -> list[str]:
        """Return the options that draw a task's heat maps."""
        options = []
        for option, models_of in (
            ("--base", self.files.baseline),
            ("--other", self.files.posterior),
            ("--more", self.files.more_attention),
        ):
            runs = [self.files.run_of(task, model, seed) for model in models_of(task, seed)]
            files = [run.attention for run in runs]
            if option != "--more" and not any(file.exists() for file in files):
                return []
            options += [option, *map(str, files)]

        return [*options, "--rows", str(self.attention_words)]
