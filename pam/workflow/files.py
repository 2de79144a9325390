"""The files that an experiment has: patterns for rules, and names for those who ask for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from pam.data.registry import Dataset
from pam.experiments.plan import Plan
from pam.experiments.progress import TRAINING
from pam.experiments.restored import Name, check_unchanged
from pam.experiments.retrained import told_of_decoding
from pam.experiments.run_folder import GOLD, RunFolder
from pam.runtime.snakemake_internals import PlannedJob

OUTPUTS = ("predictions.tsv", "decoding.json")


class WorkflowFiles:
    """The files of an experiment.

    Args:
        plan: the experiment.
        datasets: the registry's entries by name.
        results: the folder of its results; None: `results/` and the experiment's name.

    Attributes:
        results, logs: folders.
        report, page, resolved: Snakemake's report, the page of results, the whole configuration.
        run: the folder of a run, with `{task}`, `{model}` and `{seed}` in its path.
        data, gold: patterns of the folders of a task's prepared data and word alignments.
        aligners: pattern of the folder of links by programs, and of the table of aligners.
        controls: pattern of the folder of outputs that no model made.
        kinds: the kind of each task, such as `translation`.
        beams: the beams of each task, the main one first.
        ensembles: the models that are joined from others.
    """

    def __init__(
        self, plan: Plan, datasets: Mapping[str, Dataset], results: Path | str | None = None
    ) -> None:
        self.plan = plan
        self.experiment = plan.experiment

        self.results = str(results or f"results/{self.experiment.experiment}")
        self.logs = f"{self.results}/logs"
        self.report = f"{self.results}/report.html"
        self.page = f"{self.results}/index.html"
        self.resolved = f"{self.results}/experiment.yaml"

        self.run = RunFolder(Path(self.results, "{task}/{model}/seed{seed}"))
        self.data = str(self.run.data())
        self.gold = str(self.run.data(GOLD))
        self.aligners = f"{self.results}/{{task}}/aligners"
        self.controls = f"{self.results}/{{task}}/controls/{{control}}"

        tasks = self.experiment.tasks
        self.kinds = {name: datasets[task.dataset].task for name, task in tasks.items()}
        self.beams = {name: plan.beams(name) for name in tasks}
        self.ensembles = [model for model in self.experiment.model_names if plan.members(model)]
        self._set_constraints()

    def _set_constraints(self) -> None:
        """Set the regular expressions by which rules tell models and tasks apart."""
        self.ensemble_models = _any_of(self.ensembles)
        self.trained_models = _none_of(self.ensembles)
        tested = [name for name, task in self.experiment.tasks.items() if task.trained_on]
        self.tested_tasks = _any_of(tested)  # they take over the models of another task
        self.training_tasks = _none_of(tested)

    # Patterns for rules.

    def prepared(self, *splits: str) -> list[str]:
        """Return patterns of prepared data: vocabularies, summary and these splits."""
        files = ["source.vocab", "target.vocab", "summary.json"]
        files += [f"{split}.{ending}" for split in splits for ending in ("tsv", "safetensors")]
        return [f"{self.data}/{file}" for file in files]

    def prepared_gold(self) -> list[str]:
        """Return patterns of prepared word alignments."""
        files = (
            "gold.tsv",
            "gold.safetensors",
            "links.json",
            "source.vocab",
            "target.vocab",
            "codec.json",
            "summary.json",
        )
        return [f"{self.gold}/{file}" for file in files]

    # Names of files.

    def run_of(self, task: str, model: str, seed: int | str) -> RunFolder:
        """Return the folder of one run."""
        return RunFolder(Path(str(self.run.path).format(task=task, model=model, seed=seed)))

    def of_tasks(self, file: str) -> list[str]:
        """Return this file of the prepared data of every task."""
        return [f"{self.data}/{file}".format(task=task) for task in self.experiment.tasks]

    def of_runs(self, file: str) -> list[str]:
        """Return this file of every run of the experiment."""
        return [str(self.run_of(*run).path / file) for run in self.experiment.runs()]

    def gold_summaries(self) -> list[str]:
        """Return the summary of the word alignments of every task that has some."""
        return [
            f"{self.gold}/summary.json".format(task=name)
            for name, task in self.experiment.tasks.items()
            if task.word_alignments
        ]

    def aligned(self) -> list[str]:
        """Return the table of aligners of every task whose training text is aligned."""
        return [
            f"{self.aligners}/table.md".format(task=name)
            for name, task in self.experiment.tasks.items()
            if task.align is not None
        ]

    def targets(self) -> list[str]:
        """Return files of tasks and runs that one may ask for by name."""
        beams = {beam for beams in self.beams.values() for beam in beams}
        files = [
            "run.yaml",
            "training.json",
            "history.csv",
            "attention.json",
            "analysis.json",
            "scores.json",
            *(f"beam{beam}/{name}" for beam in beams for name in OUTPUTS),
        ]
        of_runs = [path for file in files for path in self.of_runs(file)]

        return [*self.of_tasks("summary.json"), *of_runs]

    # Runs that were restored from results/reference, and have no weights.

    @cached_property
    def restored(self) -> dict[Name, RunFolder]:
        """The runs that were restored, and have no weights."""
        runs = {name: self.run_of(*name) for name in self.experiment.runs()}
        return {name: run for name, run in runs.items() if run.lacks_weights}

    def ask_again(self, jobs: Iterable[PlannedJob]) -> None:
        """Mark the runs whose training is forced, so that it does not find its own results."""
        for job in jobs:
            if job.is_forced and job.rule.endswith(TRAINING):
                task, model, seed = (job.wildcards[name] for name in ("task", "model", "seed"))
                run = self.run_of(task, model, seed)
                if run.may_be_finished:
                    run.asked_again.touch()

    def check_restored(self) -> None:
        """Check that restored runs were made as the experiment asks for.

        A UserError names one that was not.
        """
        check_unchanged(self.plan, self.restored)

    def told_of_retraining(self) -> list[str]:
        """Say which runs are trained again for another decoding, if some are."""
        trained = {
            name: self.run_of(*name)
            for name in self.experiment.runs()
            if self.experiment.training_task(name[0]) == name[0]
        }
        return told_of_decoding(self.plan, trained.items())

    def lacks(self, run: Name, file: str | Path) -> bool:
        """Return whether a file of a restored run cannot be made without training again."""
        return run in self.restored and not Path(file).exists()

    # Models whose files are compared, for `JobInputs.of_models`.

    def baseline(self, task: str, seed: int) -> list[str]:
        """Return the model that others are compared with."""
        return [self.experiment.baseline]

    def compared(self, task: str, seed: int) -> list[str]:
        """Return the models of a task that can be compared with the baseline.

        They are those that have the seed, if some do.
        """
        models = self.experiment.models_of(task)
        with_seed = [model for model in models if seed in self.experiment.seeds_of(task, model)]
        models = with_seed or models
        baseline = self.experiment.baseline
        return [model for model in models if baseline in models and model != baseline]

    def posterior(self, task: str, seed: int) -> list[str]:
        """Return the first model of a task that attends a posteriori, if there is one."""
        components = self.plan.components
        models = [
            model
            for model in self.compared(task, seed)
            if components[model].input_feeding.kind == "posterior"
        ]
        return models[:1]

    def more_attention(self, task: str, seed: int) -> list[str]:
        """Return the models whose attention can be looked at beside baseline and posterior.

        Those that write pointer actions have none, and of restored ones it may not be stored.
        """
        pair = self.posterior(task, seed)
        return [
            model
            for model in self.compared(task, seed)
            if model not in pair
            and seed in self.experiment.seeds_of(task, model)
            and self.plan.components[model].targets == "symbols"
            and not self.lacks((task, model, seed), self.run_of(task, model, seed).attention)
        ]


def _any_of(names: Collection[str]) -> str:
    """Return a regular expression for these names; without names it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def _none_of(names: Collection[str]) -> str:
    """Return a regular expression for the name of a folder that is none of these."""
    return rf"(?!(?:{_any_of(names)})(?:/|$))[^/]+"
