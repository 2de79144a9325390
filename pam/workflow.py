"""What the Snakemake rules ask of an experiment: files, resources, fingerprints, arguments.

The rules in `workflow/rules/` say what is made from what by which command. What differs from task to task and from
model to model they ask of one `Workflow`. Its methods that take `wildcards` are called by Snakemake for each job, with
`task`, `model`, `seed` and others as attributes, by the rule's pattern. A change of a parameter or a fingerprint makes
Snakemake run a job again, so those hold what decides the job's result and nothing else.

Reading this module does not import torch, since every job reads the workflow once more.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pam.config import Resources, RunConfig
from pam.data.registry import Dataset, load_registries, load_task
from pam.experiment import Plan, check_local, known_dataset, load_plan
from pam.fingerprint import fingerprint, model_modules
from pam.io import UserError, dump_yaml
from pam.reporting.catalogue import ANALYZED, FIGURE_CODE
from pam.run_folder import GOLD, RunFolder

Wildcards = Any
"""Snakemake's wildcards: the names in a rule's pattern as attributes, all strings."""

Returned = TypeVar("Returned")
ByJob = Callable[[Wildcards], Any]
"""What Snakemake calls for each job."""

CODE = {
    "prepare": ("pam.data.prepare:prepare",),
    "word-alignments": ("pam.data.word_alignments:prepare_word_alignments",),
    "train": ("pam.training.run:train",),
    "ensemble": ("pam.training.run:join",),
    "predict": ("pam.decoding.generator:predict_split", "pam.decoding.generator:sampling_of"),
    "attention": ("pam.evaluation.analyze:heat_maps", "pam.evaluation.analyze:load_writer_of_symbols"),
    "analyze": ("pam.evaluation.analyze:analyze", "pam.evaluation.analyze:load_writer_of_symbols"),
    "score": ("pam.evaluation.scores:score", "pam.evaluation.scores:files_of"),
    "significance": ("pam.evaluation.translation:compare_runs",),
    "tables": ("pam.reporting.tables", "pam.reporting.render"),
    "figures": ("pam.reporting.style",),
    "report": ("pam.reporting.data_and_cost:datasets",),
}
"""Command to the modules that decide what it makes; a change of one runs its jobs again."""

KINDS = {
    "score": {
        "inflection": "pam.evaluation.inflection",
        "translation": "pam.evaluation.translation",
        "alignment": "pam.evaluation.alignment",
    },
    "figures": FIGURE_CODE,
}
"""Modules that only some jobs of a command use."""


# Jobs by the hundred share the code that they run.
code_hash = cache(fingerprint)


def or_exit(function: Callable[..., Returned], *arguments: Any) -> Returned:
    """What `function` returns; an error that the user can correct ends the process.

    Snakemake would print such an error with a traceback around it.
    """
    try:
        return function(*arguments)
    except UserError as error:
        sys.exit(f"error: {error}")


class Workflow:
    """An experiment as the rules see it.

    Attributes:
        results: folder of the experiment; `logs`: that of its logs.
        resolved, report: the experiment's own configuration as it is run, and its report.
        data, gold: patterns of the folders of a task's prepared data and word alignments.
        run: pattern of a run's folder.
        kinds, beams: of each task the kind of its data, and its beams, the main one first.
        trained, joined: regular expressions for models trained by themselves and for ensembles.
    """

    def __init__(self, plan: Plan, datasets: Mapping[str, Dataset], gpus: int = 0) -> None:
        """Args:
        plan: the checked experiment.
        datasets: the entries of all its registries.
        gpus: how many GPUs this machine has for its jobs.
        """
        self.plan, self.datasets, self.gpus = plan, datasets, gpus
        self.experiment = plan.experiment
        self._configs: dict[tuple[str, str, int], RunConfig] = {}
        self.results = f"results/{self.experiment.experiment}"
        self.logs = f"{self.results}/logs"
        self.resolved = f"{self.results}/experiment.yaml"
        self.report = f"{self.results}/report.html"
        self.run = RunFolder(Path(self.results, "{task}/{model}/seed{seed}"))
        self.data, self.gold = str(self.run.data()), str(self.run.data(GOLD))
        tasks = self.experiment.tasks
        self.kinds = {name: datasets[task.dataset].task for name, task in tasks.items()}
        self.beams = {name: plan.beams(name) for name in tasks}
        self.ensembles = [model for model in self.experiment.models if plan.members(model)]
        self.joined = "|".join(map(re.escape, self.ensembles)) or "(?!)"
        self.trained = rf"(?!(?:{self.joined})(?:/|$))[^/]+"

    @classmethod
    def load(cls, config: dict[str, Any], files: Sequence[str], gpus: int = 0) -> Workflow:
        """The workflow of a configuration that was merged from these files.

        Raises:
            UserError: an error in the experiment, a model or a registry.
        """
        plan = load_plan(config, files)
        datasets = load_registries(plan.experiment.registries)
        plan.check_datasets(datasets)
        return cls(plan, datasets, gpus)

    # The experiment, its tasks and its runs.

    def experiment_text(self, wildcards: Wildcards) -> str:
        """The experiment as YAML, without where it runs, which is not part of what it is.

        It takes wildcards though there are none: in a plain text Snakemake would look for some.
        """
        exclude = {"device": True, "mirror": True, "resources": True}
        return dump_yaml(self.experiment, exclude=exclude)

    def run_config(self, wildcards: Wildcards) -> RunConfig:
        """The resolved configuration of one run; an error in it ends the process."""
        named = wildcards.task, wildcards.model, int(wildcards.seed)
        if named not in self._configs:
            self._configs[named] = or_exit(self.plan.run, *named)
        return self._configs[named]

    def run_text(self, wildcards: Wildcards) -> str:
        """The same as YAML, which is what `run.yaml` holds."""
        return dump_yaml(self.run_config(wildcards))

    def config_argument(self, wildcards: Wildcards, output: Any) -> str:
        """The same as an argument.

        It takes the output, so that Snakemake holds it for derived from that, and no reason to run
        again: `training_config` and `decoding` say what of it is one.
        """
        return self.run_text(wildcards)

    def training_config(self, wildcards: Wildcards) -> dict[str, Any]:
        """What of a run decides what its training results in."""
        return self.run_config(wildcards).training_config()

    def decoding(self, wildcards: Wildcards) -> dict[str, Any]:
        """What of a run decides how its model is searched with a given beam."""
        return self.run_config(wildcards).decoding.model_dump(exclude={"beam", "beams", "dev"})

    def batch_size(self, wildcards: Wildcards) -> int:
        """How many outputs of a run are worked on side by side, which its memory limits."""
        return self.run_config(wildcards).decoding.batch_size

    def main_beam(self, wildcards: Wildcards) -> int:
        """The first of a task's beams, on which models are compared."""
        return self._beams(wildcards)[0]

    def _beams(self, wildcards: Wildcards) -> list[int]:
        """The beams of a task, the main one first; a task that is not there ends the process."""
        or_exit(self.plan.task, wildcards.task)
        return self.beams[wildcards.task]

    def _task_data(self, task: str) -> Dataset:
        """The entry of a task's data set, read as the task wants it."""
        own = or_exit(self.plan.task, task)
        return self._dataset(own.dataset).with_format(own.format)

    def _dataset(self, name: str) -> Dataset:
        return or_exit(known_dataset, self.datasets, name)

    # Names of files.

    def prepared(self, *splits: str) -> list[str]:
        """Prepared data: vocabularies, summary and these splits."""
        files = [f"{split}.{ending}" for split in splits for ending in ("tsv", "safetensors")]
        names = ["source.vocab", "target.vocab", "summary.json", *files]
        return [f"{self.data}/{name}" for name in names]

    def prepared_gold(self) -> list[str]:
        """Prepared word alignments."""
        names = ["gold.tsv", "gold.safetensors", "links.json", "source.vocab", "target.vocab"]
        return [f"{self.gold}/{name}" for name in [*names, "codec.json", "summary.json"]]

    def of_tasks(self, file: str) -> list[str]:
        """This file of the prepared data of every task."""
        return [f"{self.data}/{file}".format(task=task) for task in self.experiment.tasks]

    def gold_summaries(self) -> list[str]:
        """The summary of the word alignments of every task that has some."""
        tasks = [name for name, own in self.experiment.tasks.items() if own.word_alignments]
        return [f"{self.gold}/summary.json".format(task=name) for name in tasks]

    def of_runs(self, file: str) -> list[str]:
        """This file of every run of the experiment."""
        return [str(self.run_of(*run).path / file) for run in self.experiment.runs()]

    def run_of(self, task: str, model: str, seed: int | str) -> RunFolder:
        """The folder of one run."""
        return RunFolder(Path(str(self.run.path).format(task=task, model=model, seed=seed)))

    # Data: from addresses to tensors, stage by stage.

    def dataset_of(self, wildcards: Wildcards) -> str:
        """Name of a task's data set."""
        return or_exit(self.plan.task, wildcards.task).dataset

    def gold_of(self, wildcards: Wildcards) -> str | None:
        """Name of the data set of word alignments to which a task's attention is held."""
        return or_exit(self.plan.task, wildcards.task).word_alignments

    def fetched(self, wildcards: Wildcards) -> str:
        """The mark that a task's data set is there."""
        return f"data/{self.dataset_of(wildcards)}/.fetched"

    def fetched_gold(self, wildcards: Wildcards) -> str:
        """The mark that a task's word alignments are there."""
        return f"data/{self.gold_of(wildcards)}/.fetched"

    def local_files(self, wildcards: Wildcards) -> list[str]:
        """Files of the user's own that a data set is copied from."""
        name = wildcards.dataset
        return [str(file) for file in or_exit(check_local, name, self._dataset(name))]

    def registries(self, wildcards: Wildcards) -> list[str]:
        """Arguments that name the registries; they change no result."""
        return [f"--registry={file}" for file in self.experiment.registries]

    def identity_of_files(self, wildcards: Wildcards) -> dict[str, Any]:
        """What of an entry decides which files are fetched: hashes, or addresses where none is known."""
        entry = self._dataset(wildcards.dataset)
        files = {
            name: file.sha256 or file.md5 or file.path or (file.urls, entry.mirror_name)
            for name, file in entry.files.items()
        }
        return {"files": files, "package": entry.package and entry.package.model_dump()}

    def before(self, stage: str | None = None) -> ByJob:
        """What a stage of preparing data is made from; None: the last stage."""

        def needed(wildcards: Wildcards) -> list[str] | str:
            stages = self._stages(wildcards)
            earlier = stages[: stages.index(stage or stages[-1])]
            folder = self.data.format(task=wildcards.task)
            return [f"{folder}/{name}" for name in earlier] or self.fetched(wildcards)

        return needed

    def last_stage(self, wildcards: Wildcards) -> str:
        """The stage that completes a task's data."""
        return self._stages(wildcards)[-1]

    def stage_options(self, stage: str | None = None) -> ByJob:
        """What of an entry decides the result of a stage; None: the last stage."""

        def decided(wildcards: Wildcards) -> dict[str, Any]:
            entry, stages = self._task_data(wildcards.task), self._stages(wildcards)
            name, layout = stage or stages[-1], entry.layout.model_dump()
            own = {key: layout[key] for key in load_task(entry.task).keys(name)}
            return {"format": own} | (_content(entry) if name == stages[0] else {})

        return decided

    def stage_code(self, stage: str | None = None) -> ByJob:
        """Fingerprint of what runs a stage; None: the last stage."""

        def code(wildcards: Wildcards) -> str:
            entry, stages = self._task_data(wildcards.task), self._stages(wildcards)
            name = stage or stages[-1]
            modules = load_task(entry.task).modules(name, entry.layout)
            drawn = entry.generator_names() if name == stages[0] else []
            return code_hash(*CODE["prepare"], *modules, *drawn)

        return code

    def format_argument(self, wildcards: Wildcards, output: Any) -> str:
        """A task's overrides of the format, as an argument.

        It takes the output, so that Snakemake holds it for derived from that, and no reason to run
        again: `stage_options` says which keys matter to which stage.
        """
        return json.dumps(or_exit(self.plan.task, wildcards.task).format)

    def _stages(self, wildcards: Wildcards) -> list[str]:
        return list(load_task(self._task_data(wildcards.task).task).STAGES)

    def gold_options(self, wildcards: Wildcards) -> dict[str, Any]:
        """What of the entry of word alignments decides what is made of its files."""
        entry = self._dataset(str(self.gold_of(wildcards)))
        return _content(entry) | {"format": entry.layout.model_dump()}

    def gold_code(self, wildcards: Wildcards) -> str:
        """Fingerprint of what prepares word alignments."""
        entry = self._dataset(str(self.gold_of(wildcards)))
        modules = load_task(entry.task).modules("gold", entry.layout)
        return code_hash(*CODE["word-alignments"], *modules, *entry.generator_names())

    # Runs: training, decoding, scores.

    def run_code(self, command: str) -> ByJob:
        """Fingerprint of a command, of a run's model and of how its text becomes symbols."""

        def code(wildcards: Wildcards) -> str:
            entry = self._task_data(wildcards.task)
            codec = load_task(entry.task).modules("codec", entry.layout)
            components = model_modules(self.run_config(wildcards))
            return code_hash(*CODE[command], *components, *codec)

        return code

    @staticmethod
    def code(command: str, kind: str | None = None) -> str:
        """Fingerprint of a command, or of what it does for one kind of task or figure."""
        return code_hash(*CODE[command], *([KINDS[command][kind]] if kind else ()))

    def member_models(self, wildcards: Wildcards) -> list[str]:
        """Weights of the models that an ensemble is joined from."""
        run = self.run_of(wildcards.task, wildcards.model, wildcards.seed)
        members = or_exit(self.plan.members, wildcards.model)
        return [str(run.member(name).model / "weights.safetensors") for name in members]

    def outputs_by_beam(self, file: str) -> ByJob:
        """This file of a run's outputs on the test split, with every beam of the task."""

        def files(wildcards: Wildcards) -> list[str]:
            run = self.run_of(wildcards.task, wildcards.model, wildcards.seed)
            places = [run.predictions("test", beam) for beam in self._beams(wildcards)]
            return [str(place.with_name(file)) for place in places]

        return files

    def analysis(self, wildcards: Wildcards) -> list[str]:
        """A run's analysis of the test split, if its scores need one."""
        run = self.run_of(wildcards.task, wildcards.model, wildcards.seed)
        kind = self._task_data(wildcards.task).task
        return [str(run.analysis("test"))] if kind in ANALYZED else []

    def score_code(self, wildcards: Wildcards) -> str:
        """Fingerprint of what scores a task's outputs."""
        kind = self._task_data(wildcards.task).task
        return self.code("score", kind)

    def compared(self, task: str) -> list[str]:
        """The models of a task that can be compared with the baseline."""
        models, baseline = self.experiment.models_of(task), self.experiment.baseline
        return [model for model in models if baseline in models and model != baseline]

    def of_compared(self, *files: str) -> ByJob:
        """These files of the models of a task that are compared with the baseline."""
        return lambda wildcards: self._of_models(wildcards, self.compared(wildcards.task), files)

    def of_baseline(self, *files: str) -> ByJob:
        """These files of the baseline."""
        return lambda wildcards: self._of_models(wildcards, [self.experiment.baseline], files)

    def of_posterior(self, *files: str) -> ByJob:
        """These files of the first model of a task that attends a posteriori."""
        return lambda wildcards: self._of_models(wildcards, self.posterior(wildcards.task), files)

    def posterior(self, task: str) -> list[str]:
        """The first model of a task that attends a posteriori, if there is one."""
        feeds = {model: self.plan.components[model].input_feeding for model in self.compared(task)}
        return [model for model, feed in feeds.items() if feed.kind == "posterior"][:1]

    def _of_models(self, wildcards: Wildcards, models: Iterable[str], files: Iterable[str]) -> list[str]:
        """Files of runs of these models; `{beam}` in them is the task's main beam."""
        names = [file.format(beam=self.main_beam(wildcards)) for file in files]
        runs = [self.run_of(wildcards.task, model, wildcards.seed) for model in models]
        return [str(run.path / name) for run in runs for name in names]

    # Resources.

    def resource(self, name: str) -> ByJob:
        """How much of a resource the jobs of a task, or of one of its models, ask for."""
        return lambda wildcards: getattr(self._resources(wildcards), name)

    def resource_of_all(self, name: str) -> ByJob:
        """The same, for all processes that share a training."""

        def amount(wildcards: Wildcards) -> int:
            asked = self._resources(wildcards)
            return int(getattr(asked, name) * asked.processes)

        return amount

    def gpu(self, wildcards: Wildcards) -> int:
        """1 if a job that computes asks for a GPU, else 0.

        Where nothing is said, it does if there is one or if the configuration insists on CUDA.
        """
        own, device = self._resources(wildcards).gpu, self.experiment.device
        asked = device == "cuda" or bool(self.gpus) if own is None else own
        return int(asked and device != "cpu")

    def gpus_of_all(self, wildcards: Wildcards) -> int:
        """The same, for all processes that share a training."""
        return self.gpu(wildcards) * self._resources(wildcards).processes

    def gpu_model(self, wildcards: Wildcards) -> str:
        """The kind of GPU, if a certain one is asked for."""
        return self._resources(wildcards).gpu_model or "" if self.gpu(wildcards) else ""

    def device(self, wildcards: Wildcards) -> str:
        """Where a job computes; `auto` still means the processor where torch can use no GPU."""
        return self.experiment.device if self.gpu(wildcards) else "cpu"

    def _resources(self, wildcards: Wildcards) -> Resources:
        model = getattr(wildcards, "model", None)
        return or_exit(self.plan.resources, wildcards.task, model)


def _content(entry: Dataset) -> dict[str, Any]:
    """What of an entry decides what its files hold."""
    hashes = {name: file.sha256 for name, file in entry.files.items()}
    return entry.model_dump(include={"task", "splits", "package"}) | {"files": hashes}


def input_folder(name: str) -> Callable[[Wildcards, Any], str]:
    """For a rule's parameter: the folder of the first input of this name, wherever it is kept."""

    # Snakemake finds an argument by its name.
    def folder(wildcards: Wildcards, input: Any) -> str:  # noqa: A002
        return _first_folder(input.get(name))

    return folder


def input_folders(name: str, file: str) -> Callable[[Wildcards, Any], list[str]]:
    """The same for all inputs of this name, each by one file that it has."""

    def folders(wildcards: Wildcards, input: Any) -> list[str]:  # noqa: A002
        return [os.path.dirname(one) for one in input.get(name) if os.path.basename(one) == file]

    return folders


def run_of_model(wildcards: Wildcards, input: Any) -> str:  # noqa: A002
    """For a rule's parameter: the folder of the run whose model is an input."""
    return os.path.dirname(_first_folder(input.get("model")))


def output_folder(name: str) -> Callable[[Wildcards, Any], str]:
    """For a rule's parameter: the folder of the first output of this name."""

    def folder(wildcards: Wildcards, output: Any) -> str:
        return _first_folder(output.get(name))

    return folder


def _first_folder(files: str | Sequence[str]) -> str:
    """The folder of a file, or of the first of several."""
    return os.path.dirname(files if isinstance(files, str) else files[0])
