"""What the Snakemake rules ask of an experiment: files, resources, fingerprints, arguments.

The rules in `workflow/rules/` say what is made from what by which command. What differs from task
to task and from model to model they ask of one `Workflow`. Its methods that take `wildcards` are
called by Snakemake for each job, with `task`, `model`, `seed` and others as attributes, by the
rule's pattern. A change of a parameter or a fingerprint makes Snakemake run a job again, so those
hold what decides the job's result and nothing else.

Reading this module does not import torch, since every job reads the workflow once more.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

from pam.config import Resources, RunConfig, TaskConfig
from pam.data.registry import Dataset, load_registries, load_task
from pam.experiment import check_known, check_local, load_plan
from pam.fingerprint import CODE, KINDS, fingerprint, model_modules
from pam.io import (
    SHIPPED,
    Given,
    UserError,
    dump_yaml,
    find_file,
    merged,
    read_yaml,
    retyped,
    storage_error,
    write_utf8,
)
from pam.reporting.catalogue import (
    ANALYZED,
    FIGURES,
    TABLES,
    FigureSpec,
    Item,
    TableSpec,
    check_rows,
    is_demonstration,
    load_papers,
    menu_label,
)
from pam.restored import Name, check_unchanged
from pam.run_folder import GOLD, RunFolder

DEFAULT = "config/config.yaml"  # the experiment that is run unless another one is named
OUTPUTS = ("predictions.tsv", "decoding.json")
Wildcards = Any  # Snakemake's: the names in a rule's pattern as attributes, all strings
Returned = TypeVar("Returned")


def or_exit(function: Callable[..., Returned], *arguments: Any) -> Returned:
    """What `function` returns; a UserError ends the process, which Snakemake would print with a
    traceback around it.
    """
    write_utf8()
    try:
        return function(*arguments)
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        worded = storage_error(error, error.filename or "a file")
        if not isinstance(worded, UserError):
            raise
        sys.exit(f"error: {worded}")


def check_place() -> None:
    """Check that Snakemake can work in this folder, before anything is trained.

    A UserError says that the folder, or the workflow's own, has braces in its name: Snakemake's
    report takes them for wildcards.
    """
    for folder in (Path.cwd(), SHIPPED.resolve()):
        if set("{}") & set(str(folder)):
            hint = "rename the folder, or work in another one"
            raise UserError(
                "braces in the name of a folder, which Snakemake takes for wildcards",
                file=folder,
                hint=hint,
            )


def check_cache() -> None:
    """Check that Snakemake can keep its cache, which it wants in the home; a UserError names the
    variable to set.
    """
    place = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(place, "snakemake")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        is_writable = False
    if not is_writable:
        hint = "export XDG_CACHE_HOME=FOLDER, with a folder that you may write to"
        raise UserError("Snakemake cannot keep its cache here", file=folder, hint=hint)


def read_config(workflow: Any, config: dict[str, Any]) -> list[str | Given]:
    """Fills Snakemake's `config` with the experiment; returns the files that it was merged from,
    and `--config`.

    A file on the command line replaces the default experiment, with which Snakemake would merge it.
    A module of another workflow has what its `config:` gives; its `prefix:` is a UserError, as
    commands write where the experiment says.
    """
    moved = workflow.modifier.path_modifier
    if moved.prefix or moved._prefix_replacements:
        hint = (
            "leave it out: the experiment's name is the folder below `results`, and `--directory`"
            " the one above"
        )
        raise UserError(
            "a module's `prefix` or `replace_prefix` cannot move the files of this workflow",
            hint=hint,
        )
    if workflow.modifier.skip_configfile:
        return [str(file) for file in workflow.configfiles]
    settings = workflow.config_settings
    files: list[str | Given] = [str(file) for file in settings.configfiles] or [
        str(find_file(DEFAULT))
    ]
    for file in files:
        content = read_yaml(file)
        if not isinstance(content, dict):
            raise UserError("expected keys and values", file=file, hint="see config/README.md")
        config.update(merged(config, content))
    given = Given.of("--config", retyped(dict(settings.config)))
    config.update(merged(config, given.content))
    # A cluster's profile has the device among its resources: what it had under `config:` any
    # `--config` would replace.
    unsaid = workflow.resource_settings.default_resources
    if unsaid and "device" in unsaid:
        config.setdefault("device", dict(one.split("=", 1) for one in unsaid.args)["device"])
    return [*files, given]


def by_job(method: Callable[..., Returned]) -> Callable[..., Callable[[Wildcards], Returned]]:
    """A rule calls the method without wildcards, and Snakemake what that gives, for each job with
    its own.
    """

    @wraps(method)
    def in_rule(self: Any, *given: Any, **named: Any) -> Callable[[Wildcards], Returned]:
        return lambda wildcards: method(self, wildcards, *given, **named)

    return in_rule


class Workflow:
    """An experiment as the rules see it; errors that the user can correct end the process."""

    def __init__(
        self,
        config: dict[str, Any] | None,
        files: Sequence[str | Given],
        results: Path | str | None = None,
    ) -> None:
        """The workflow of a configuration that was merged from these files, as `load_plan`; errors
        are UserErrors.

        Its results go to the folder `results`, or to that of the experiment's name.
        """
        self.plan = plan = load_plan(config, files)
        self.experiment = plan.experiment
        plan.check_registries()
        self.datasets = datasets = load_registries(self.experiment.registries)
        plan.check_datasets(datasets)
        check_rows(load_papers("config/paper_results.yaml"), plan.experiment, plan.files)
        self.gpus = 0  # how many this machine has for its jobs
        self._configs: dict[tuple[str, str, int], RunConfig] = {}
        self.results = str(results or f"results/{self.experiment.experiment}")
        self.logs, self.report = f"{self.results}/logs", f"{self.results}/report.html"
        self.page = f"{self.results}/index.html"
        self.resolved = f"{self.results}/experiment.yaml"
        # Patterns of folders: of a run, of a task's prepared data and of its word alignments.
        self.run = RunFolder(Path(self.results, "{task}/{model}/seed{seed}"))
        self.data, self.gold = str(self.run.data()), str(self.run.data(GOLD))
        tasks = self.experiment.tasks
        self.kinds = {name: datasets[task.dataset].task for name, task in tasks.items()}
        self.beams = {name: plan.beams(name) for name in tasks}  # of each task, the main one first
        self.ensembles = [model for model in self.experiment.model_names if plan.members(model)]
        # Regular expressions for ensembles, and for models trained by themselves.
        self.joined = "|".join(map(re.escape, self.ensembles)) or "(?!)"
        self.trained = rf"(?!(?:{self.joined})(?:/|$))[^/]+"
        # The same for tasks that take over their models, and for those that train them.
        self.tested = (
            "|".join(re.escape(name) for name, task in tasks.items() if task.trained_on) or "(?!)"
        )
        self.teaching = rf"(?!(?:{self.tested})(?:/|$))[^/]+"

    def experiment_text(self, wildcards: Wildcards) -> str:
        """The experiment as YAML, without where it runs.

        In a plain text Snakemake would look for wildcards.
        """
        return dump_yaml(
            self.experiment, exclude={"device": True, "mirror": True, "resources": True}
        )

    def run_config(self, wildcards: Wildcards) -> RunConfig:
        """The resolved configuration of one run."""
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
        """What of a run decides how its model is searched with a given beam, but for a penalty that
        is chosen.
        """
        return self.run_config(wildcards).decoding.model_dump(
            exclude={"beam", "beams", "dev", "length_penalties"}
        )

    def length_penalties(self, wildcards: Wildcards) -> list[float]:
        """The length penalties that a run chooses from."""
        return self.run_config(wildcards).decoding.length_penalties

    def chosen_penalty(self, wildcards: Wildcards) -> list[str]:
        """The length penalty that was chosen for a run's decoding, if there were several; no beam
        is the main one.
        """
        beam = getattr(wildcards, "beam", None) or self.main_beam(wildcards)
        return (
            [str(self._run(wildcards).length_penalty(beam))]
            if self.length_penalties(wildcards)
            else []
        )

    def main_beam(self, wildcards: Wildcards) -> int:
        """The first of a task's beams, on which models are compared."""
        self._task(wildcards)
        return self.beams[wildcards.task][0]

    def _task(self, wildcards: Wildcards) -> TaskConfig:
        return or_exit(self.plan.task, wildcards.task)

    def _entry(self, wildcards: Wildcards) -> Dataset:
        """The entry of a task's data set, read as the task wants it."""
        own = self._task(wildcards)
        return self._dataset(own.dataset).with_format(own.format)

    def _dataset(self, name: str) -> Dataset:
        or_exit(check_known, "data set", name, sorted(self.datasets))
        return self.datasets[name]

    def prepared(self, *splits: str) -> list[str]:
        """Prepared data: vocabularies, summary and these splits."""
        files = [f"{split}.{ending}" for split in splits for ending in ("tsv", "safetensors")]
        return [
            f"{self.data}/{name}"
            for name in ("source.vocab", "target.vocab", "summary.json", *files)
        ]

    def prepared_gold(self) -> list[str]:
        """Prepared word alignments."""
        first = ("gold.tsv", "gold.safetensors", "links.json", "source.vocab", "target.vocab")
        return [f"{self.gold}/{name}" for name in (*first, "codec.json", "summary.json")]

    def of_tasks(self, file: str) -> list[str]:
        return [f"{self.data}/{file}".format(task=task) for task in self.experiment.tasks]

    def gold_summaries(self) -> list[str]:
        """The summary of the word alignments of every task that has some."""
        tasks = self.experiment.tasks.items()
        return [
            f"{self.gold}/summary.json".format(task=name)
            for name, own in tasks
            if own.word_alignments
        ]

    def of_runs(self, file: str) -> list[str]:
        """This file of every run of the experiment."""
        return [str(self.run_of(*run).path / file) for run in self.experiment.runs()]

    def files(self) -> list[str]:
        """Files of the runs that one may ask for by name."""
        beams = {
            f"beam{beam}/{name}"
            for beams in self.beams.values()
            for beam in beams
            for name in OUTPUTS
        }
        names = (
            "run.yaml",
            "training.json",
            "history.csv",
            "attention.json",
            "analysis.json",
            "scores.json",
            *beams,
        )
        return [
            *self.of_tasks("summary.json"),
            *(file for name in names for file in self.of_runs(name)),
        ]

    def run_of(self, task: str, model: str, seed: int | str) -> RunFolder:
        return RunFolder(Path(str(self.run.path).format(task=task, model=model, seed=seed)))

    @cached_property
    def restored(self) -> dict[Name, RunFolder]:
        """The runs that were restored, and have no weights."""
        runs = {name: self.run_of(*name) for name in self.experiment.runs()}
        return {name: run for name, run in runs.items() if run.lacks_weights}

    def check_restored(self) -> None:
        """Check that restored runs were made as the experiment asks for; a UserError names one that
        was not.
        """
        check_unchanged(self.plan, self.restored)

    def lacks(self, run: Name, file: str | Path) -> bool:
        """Whether a file of a restored run cannot be made unless the run is trained again."""
        return run in self.restored and not Path(file).exists()

    def _run(self, wildcards: Wildcards) -> RunFolder:
        return self.run_of(wildcards.task, wildcards.model, wildcards.seed)

    def dataset_of(self, wildcards: Wildcards) -> str:
        return self._task(wildcards).dataset

    def gold_of(self, wildcards: Wildcards) -> str | None:
        """Name of the data set of word alignments to which a task's attention is held."""
        return self._task(wildcards).word_alignments

    def local_files(self, wildcards: Wildcards) -> list[str]:
        """Files of the user's own that a data set is copied from."""
        entry = self._dataset(wildcards.dataset)
        return [str(file) for file in or_exit(check_local, wildcards.dataset, entry)]

    def registries(self, wildcards: Wildcards) -> list[str]:
        """Arguments that name the registries; they change no result."""
        return [f"--registry={file}" for file in self.experiment.registries]

    def identity_of_files(self, wildcards: Wildcards) -> dict[str, Any]:
        """What of an entry decides which files are fetched: hashes, or addresses where none is
        known.
        """
        entry = self._dataset(wildcards.dataset)
        place = entry.mirror_name
        files = {
            name: file.sha256 or file.md5 or file.path or (file.urls, place)
            for name, file in entry.files.items()
        }
        return {"files": files, "package": entry.package and entry.package.model_dump()}

    @by_job
    def before(self, wildcards: Wildcards, stage: str | None = None) -> list[str]:
        """What a stage of preparing data is made from; here and below, None is the last stage."""
        _, name, stages = self._stage(wildcards, stage)
        folder = self.data.format(task=wildcards.task)
        earlier = [f"{folder}/{one}" for one in stages[: stages.index(name)]]
        other = self._task(wildcards).trained_on
        symbols = []
        if other and (earlier or name == stages[-1]):
            symbols = [file.format(task=other) for file in self.prepared("train", "dev")]
        fetched = f"data/{self.dataset_of(wildcards)}/.fetched"
        return [*(earlier or [fetched]), *symbols]

    def last_stage(self, wildcards: Wildcards) -> str:
        """The stage that completes a task's data."""
        return self._stage(wildcards, None)[1]

    @by_job
    def stage_options(self, wildcards: Wildcards, stage: str | None = None) -> dict[str, Any]:
        """What of an entry decides the result of a stage."""
        entry, name, stages = self._stage(wildcards, stage)
        own = entry.layout.model_dump(include=set(load_task(entry.task).keys(name)))
        return {"format": own} | (_content(entry) if name == stages[0] else {})

    @by_job
    def stage_code(self, wildcards: Wildcards, stage: str | None = None) -> str:
        """Fingerprint of what runs a stage."""
        entry, name, stages = self._stage(wildcards, stage)
        modules = load_task(entry.task).modules(name, entry.layout)
        drawn = entry.generator_names() if name == stages[0] else []
        return fingerprint(*CODE["prepare"], *modules, *drawn)

    def base_argument(self, wildcards: Wildcards) -> list[str]:
        """Arguments that name the data in whose symbols a task is prepared, which takes over models
        of another.
        """
        other = self._task(wildcards).trained_on
        return [f"--base={self.data}".format(task=other)] if other else []

    def format_argument(self, wildcards: Wildcards, output: Any) -> str:
        """A task's overrides of the format, as an argument; it takes the output as
        `config_argument` does.
        """
        return json.dumps(self._task(wildcards).format)

    def _stage(self, wildcards: Wildcards, stage: str | None) -> tuple[Dataset, str, list[str]]:
        """The entry of a task's data set, a stage or the last one, and all stages."""
        entry = self._entry(wildcards)
        stages = list(load_task(entry.task).STAGES)
        return entry, stage or stages[-1], stages

    def gold_options(self, wildcards: Wildcards) -> dict[str, Any]:
        """What of the entry of word alignments decides what is made of its files."""
        entry = self._dataset(str(self.gold_of(wildcards)))
        return _content(entry) | {"format": entry.layout.model_dump()}

    def gold_code(self, wildcards: Wildcards) -> str:
        """Fingerprint of what prepares word alignments."""
        entry = self._dataset(str(self.gold_of(wildcards)))
        modules = load_task(entry.task).modules("gold", entry.layout)
        return fingerprint(*CODE["word-alignments"], *modules, *entry.generator_names())

    @by_job
    def run_code(self, wildcards: Wildcards, command: str) -> str:
        """Fingerprint of a command, of a run's model and of how its text becomes symbols."""
        entry = self._entry(wildcards)
        codec = load_task(entry.task).modules("codec", entry.layout)
        return fingerprint(*CODE[command], *model_modules(self.run_config(wildcards)), *codec)

    @staticmethod
    def code(command: str, kind: str | None = None) -> str:
        """Fingerprint of a command, or of what it does for one kind of task or figure."""
        return fingerprint(*CODE[command], *([KINDS[command][kind]] if kind else ()))

    def member_models(self, wildcards: Wildcards) -> list[str]:
        """Weights of the models that an ensemble is joined from."""
        return self._weights_of(wildcards, or_exit(self.plan.members, wildcards.model))

    def reused(self, wildcards: Wildcards) -> list[str]:
        """What a run takes over from that of the task whose models it tests."""
        run = self.run_of(str(self._task(wildcards).trained_on), wildcards.model, wildcards.seed)
        return [str(file) for file in (run.training, run.history, *run.model_files)]

    def start_models(self, wildcards: Wildcards) -> list[str]:
        """Weights of the models that a training starts from."""
        return self._weights_of(wildcards, or_exit(self.plan.starts, wildcards.model))

    def _weights_of(self, wildcards: Wildcards, models: Sequence[str]) -> list[str]:
        """Weights of other models of a run's task and seed."""
        return [
            str(self._run(wildcards).member(name).model / "weights.safetensors") for name in models
        ]

    @by_job
    def outputs_by_beam(self, wildcards: Wildcards, file: str) -> list[str]:
        """This file of a run's outputs on the test split, with every beam of the task."""
        self._task(wildcards)
        run, beams = self._run(wildcards), self.beams[wildcards.task]
        return [str(run.predictions("test", beam).with_name(file)) for beam in beams]

    def analysis(self, wildcards: Wildcards) -> list[str]:
        """A run's analysis of the test split, if its scores need one."""
        return (
            [str(self._run(wildcards).analysis("test"))]
            if self._entry(wildcards).task in ANALYZED
            else []
        )

    def compared(self, task: str, seed: int) -> list[str]:
        """The models of a task that can be compared with the baseline: of those that have the seed,
        if some do.
        """
        models, baseline = self.experiment.models_of(task), self.experiment.baseline
        models = [
            model for model in models if seed in self.experiment.seeds_of(task, model)
        ] or models
        return [model for model in models if baseline in models and model != baseline]

    def posterior(self, task: str, seed: int) -> list[str]:
        """The first model of a task that attends a posteriori, if there is one."""
        kinds = self.plan.components
        return [
            model
            for model in self.compared(task, seed)
            if kinds[model].input_feeding.kind == "posterior"
        ][:1]

    def baseline(self, task: str, seed: int) -> list[str]:
        return [self.experiment.baseline]

    def controls(self) -> str:
        """Pattern of the folder of outputs that no model made."""
        return f"{self.results}/{{task}}/controls/{{control}}"

    @by_job
    def of_models(
        self, wildcards: Wildcards, models: Callable[[str, int], list[str]], *files: str
    ) -> list[str]:
        """These files of runs of some of a task's `models`; `{beam}` in them is the task's main
        beam.
        """
        names = [file.format(beam=self.main_beam(wildcards)) for file in files]
        chosen = models(wildcards.task, int(wildcards.seed))
        runs = [self.run_of(wildcards.task, model, wildcards.seed).path for model in chosen]
        return [str(run / name) for run in runs for name in names]

    @by_job
    def resource(self, wildcards: Wildcards, name: str, of_all: bool = False) -> int:
        """How much of a resource the jobs of a task or a model ask for; `of_all`: for all processes
        of a training.
        """
        asked = self._resources(wildcards)
        return int(getattr(asked, name)) * (asked.processes if of_all else 1)

    def gpu(self, wildcards: Wildcards) -> int:
        """1 if a job that computes asks for a GPU, else 0; unsaid, it does where there is one or
        `device` is cuda.
        """
        own, device = self._resources(wildcards).gpu, self.experiment.device
        asked = device == "cuda" or bool(self.gpus) if own is None else own
        return int(asked and device != "cpu")

    def gpus_of_all(self, wildcards: Wildcards) -> int:
        return self.gpu(wildcards) * self._resources(wildcards).processes

    def gpu_model(self, wildcards: Wildcards) -> str:
        return self._resources(wildcards).gpu_model or "" if self.gpu(wildcards) else ""

    def device(self, wildcards: Wildcards) -> str:
        """Where a job computes; `auto` still means the processor where torch can use no GPU."""
        return self.experiment.device if self.gpu(wildcards) else "cpu"

    def _resources(self, wildcards: Wildcards) -> Resources:
        return or_exit(self.plan.resources, wildcards.task, getattr(wildcards, "model", None))


@dataclass(frozen=True)
class RunInput:
    """A file that a table or a figure is made of, and the run that it belongs to or tells something
    of.
    """

    option: str  # of the command that takes it
    task: str
    model: str
    seed: int
    file: str

    @property
    def group(self) -> tuple[str, str, str]:
        """The files that are shown together or not at all: a mean over some seeds would pass for
        one over all.
        """
        return self.option, self.task, self.model


@dataclass(frozen=True)
class LeftOut:
    """What a page does not show, since restored runs would have to be trained again for it."""

    target: str  # the file of the table or figure
    label: str
    runs: tuple[Name, ...]  # those that would be trained
    without: tuple[str, ...] = ()  # what it is made without; empty: it is not made


class ReportFiles:
    """The tables and figures of an experiment, and the files that each is made of.

    Restored runs have no weights. Tables and figures are made of what is stored of these, and left
    out where that is nothing. A table or a figure that is left out can still be asked for by name:
    then its runs are trained.
    """

    def __init__(self, flow: Workflow) -> None:
        self.flow, self.experiment = flow, flow.experiment

    def tables(self) -> list[str]:
        """Every table of the experiment, as data; the other formats are made beside it."""
        return [self._file_of(name) for name in self._shown(TABLES)]

    def front_tables(self) -> list[str]:
        """The tables on the report's first page, those of demonstrations last."""
        tasks = self.experiment.tasks

        def is_of_demonstrations(name: str) -> bool:
            shown = TABLES[name].shows(self.experiment, self.flow.kinds)
            return all(is_demonstration(tasks[task]) for task in shown)

        names = [name for name in self._shown(TABLES) if TABLES[name].front]
        return [
            f"{self.flow.results}/tables/{name}.html"
            for name in sorted(names, key=is_of_demonstrations)
        ]

    def figures(self) -> list[str]:
        """Every figure, heat maps of one seed of each task included."""
        maps = [file for file, runs in self._maps().items() if not self._lacking_maps(runs)]
        return [*(self._file_of(name) for name in self._shown(FIGURES)), *maps]

    def left_out(self) -> list[LeftOut]:
        """What the page leaves out, or makes without some of its files, as restored runs have no
        weights.
        """
        left_out = []
        for name, item in [*TABLES.items(), *FIGURES.items()] if self.flow.restored else []:
            if not item.shows(self.experiment, self.flow.kinds):
                continue
            lacking = self._lacking(item)
            if not lacking:
                continue
            runs = tuple(dict.fromkeys(run for group in lacking.values() for run in group))
            without = tuple(self._without(item, lacking)) if self._is_made(item) else ()
            left_out.append(
                LeftOut(self._file_of(name), menu_label(item, self.experiment), runs, without)
            )
        for file, pictured in self._maps().items():
            untrained = self._lacking_maps(pictured)
            if untrained:
                left_out.append(LeftOut(file, f"Alignments on {pictured[0][0]}", untrained))
        return left_out

    def _without(self, item: Item, lacking: Collection[tuple[str, str, str]]) -> Iterator[str]:
        """Word what a table or a figure is made without, models of a task together."""
        shown = list(dict.fromkeys(one.group for one in self._run_inputs(item)))
        for option, task in dict.fromkeys((option, task) for option, task, _ in lacking):
            models = [model for group, place, model in shown if (group, place) == (option, task)]
            absent = [model for model in models if (option, task, model) in lacking]
            whose = "" if absent == models else f" of {', '.join(absent)}"
            yield f"{WORDS.get(option, option)}{whose} on {task}"

    def left_out_texts(self) -> list[str]:
        """The same as sentences for people."""
        texts = []
        for one in self.left_out():
            if one.without:
                texts.append(f"{one.label}: made without {', '.join(one.without)}.")
            else:
                runs = f"{len(one.runs)} restored run{'s' * (len(one.runs) > 1)}"
                texts.append(
                    f"{one.label}: left out, as it needs {runs} to be trained again ({one.target})."
                )
        return texts

    def inputs(self, wildcards: Wildcards) -> dict[str, list[str]]:
        """The files that a table or figure is made of, by option of its command; `beside`: those it
        reads unasked.
        """
        _, files, beside = self._item(wildcards)
        return files | {"beside": beside}

    def arguments(self, wildcards: Wildcards) -> list[str]:
        """The same as arguments of the command `tables` or `figures`, with a figure's other
        options.
        """
        item, files, _ = self._item(wildcards)
        options = item.options if isinstance(item, FigureSpec) else ()
        return [
            *(word for name, found in files.items() if found for word in (f"--{name}", *found)),
            *options,
        ]

    def labels(self, wildcards: Wildcards) -> dict[str, str]:
        """A table's or a figure's place in the report's menu."""
        item, *_ = self._item(wildcards)
        label = menu_label(item, self.experiment)
        return {"table" if isinstance(item, TableSpec) else "figure": label}

    def _file_of(self, name: str) -> str:
        """The file of a table or a figure by which it is asked for."""
        return (
            f"{self.flow.results}/tables/{name}.csv"
            if name in TABLES
            else f"{self.flow.results}/figures/{name}.svg"
        )

    def _maps(self) -> dict[str, list[Name]]:
        """The file of each task's heat maps, with the runs whose attention it shows."""
        maps = {}
        for task in self.experiment.tasks:
            seed = self.experiment.seeds_of(task)[0]
            posterior = self.flow.posterior(task, seed)
            if posterior:
                file = f"{self.flow.results}/figures/attention_{task}_seed{seed}.svg"
                maps[file] = [
                    (task, model, seed) for model in (*self.flow.baseline(task, seed), *posterior)
                ]
        return maps

    def _lacking_maps(self, runs: Sequence[Name]) -> tuple[Name, ...]:
        return tuple(run for run in runs if self.flow.lacks(run, self.flow.run_of(*run).attention))

    def _shown(self, items: Mapping[str, Item]) -> list[str]:
        shown = [
            name for name, item in items.items() if item.shows(self.experiment, self.flow.kinds)
        ]
        return [name for name in shown if not self.flow.restored or self._is_made(items[name])]

    def _is_made(self, item: Item) -> bool:
        """Whether what is there is enough for a table or a figure: some files of its first option,
        if it has any.
        """
        first = next(iter(item.files))
        wanted = {one.group for one in self._run_inputs(item) if one.option == first}
        return not wanted or bool(wanted - self._lacking(item).keys())

    def _lacking(self, item: Item) -> dict[tuple[str, str, str], list[Name]]:
        """The groups of inputs that cannot be made of what restored runs have, with the runs that
        would be trained.
        """
        lacking: dict[tuple[str, str, str], list[Name]] = {}
        for one in self._run_inputs(item) if self.flow.restored else []:
            run = (one.task, one.model, one.seed)
            needed = [run] if self.flow.lacks(run, one.file) else []
            if one.option == "significance":
                needed = (
                    [] if Path(one.file).exists() else self._lacking_outputs(one.task, one.seed)
                )
            elif one.option not in item.of_runs():
                needed = []
            if needed:
                lacking.setdefault(one.group, []).extend(needed)
        return lacking

    def _lacking_outputs(self, task: str, seed: int) -> list[Name]:
        """List a task's restored runs of a seed that have no outputs to be compared with others."""
        beam = self.flow.beams[task][0]
        models = [*self.flow.baseline(task, seed), *self.flow.compared(task, seed)]
        runs = [(task, model, seed) for model in models]
        return [
            run
            for run in runs
            if self.flow.lacks(run, self.flow.run_of(*run).predictions("test", beam))
        ]

    def _item(
        self, wildcards: Wildcards
    ) -> tuple[TableSpec | FigureSpec, dict[str, list[str]], list[str]]:
        """The table or figure that a job makes, its files by option of its command, and those that
        it reads unasked.
        """
        item = TABLES[wildcards.table] if hasattr(wildcards, "table") else FIGURES[wildcards.figure]
        # keys: once each, and in order
        files: dict[str, dict[str, None]] = {option: {} for option in item.files}
        beside: dict[str, None] = {}
        # What cannot be made of what is there is asked for by name, with all that it needs.
        is_partial = bool(self.flow.restored) and self._is_made(item)
        left_out = set(self._lacking(item)) if is_partial else set()
        for one in self._run_inputs(item):
            if one.group not in left_out:
                files[one.option][one.file] = None
        for task, model, seed in self._runs(item):
            named = self._named(task, model, seed)
            controls = f"{named['task']}/controls/{{}}/scores.json"
            files.get("scores", {}).update((controls.format(name), None) for name in item.controls)
            beside |= dict.fromkeys(pattern.format(**named) for pattern in item.also_reads)
        return item, {option: list(names) for option, names in files.items()}, list(beside)

    def _runs(self, item: Item) -> list[Name]:
        """The runs that a table or a figure shows."""
        tasks = item.shows(self.experiment, self.flow.kinds)
        hidden = self.flow.ensembles if item.trained else []
        return [run for run in self.experiment.runs() if run[0] in tasks and run[1] not in hidden]

    def _named(self, task: str, model: str, seed: int) -> dict[str, Any]:
        """What patterns of files have in braces, for a run."""
        return {
            "seed": seed,
            "beam": self.flow.beams[task][0],
            "task": f"{self.flow.results}/{task}",
            "run": str(self.flow.run_of(task, model, seed).path),
        }

    def _run_inputs(self, item: Item) -> Iterator[RunInput]:
        """All files that a table or a figure is made of, run by run."""
        for task, model, seed in self._runs(item):
            exists = {
                # Without the baseline, or with nothing but it, nothing is tested against it.
                "significance": bool(self.flow.compared(task, seed)),
                "gold-scores": self.experiment.tasks[task].word_alignments is not None,
                # A test row has no pointer actions to be forced.
                "analyses": self.flow.plan.components[model].targets == "symbols",
            }
            named = self._named(task, model, seed)
            for option, pattern in item.files.items():
                if exists.get(option, True):
                    yield RunInput(option, task, model, seed, pattern.format(**named))


WORDS = {  # options of commands that take files, in words
    "predictions": "the outputs",
    "analyses": "the analysis",
    "gold-scores": "the alignment scores",
    "significance": "sacreBLEU's tests",
}


def _content(entry: Dataset) -> dict[str, Any]:
    """What of an entry decides what its files hold."""
    hashes = {name: file.sha256 for name, file in entry.files.items()}
    return entry.model_dump(include={"task", "splits", "package"}) | {"files": hashes}


def folder_of(files: str | Sequence[str]) -> str:
    """The folder of a file, or of the first of several: of a rule's inputs or outputs, wherever
    they are kept.
    """
    return os.path.dirname(files if isinstance(files, str) else files[0])


def output_folder(name: str) -> Callable[[Wildcards, Any], str]:
    """A rule's parameter: the folder of the first output of this name. Snakemake finds arguments by
    name.
    """
    return lambda wildcards, output: folder_of(output.get(name))


def input_folder(name: str) -> Callable[[Wildcards, Any], str]:
    """The same of an input."""
    return lambda wildcards, input: folder_of(input.get(name))  # noqa: A006


def input_folders(name: str, file: str) -> Callable[[Wildcards, Any], list[str]]:
    """The folders of all inputs of this name, each by one file that it has."""

    def folders(wildcards: Wildcards, input: Any) -> list[str]:  # noqa: A002 -- Snakemake's name
        files = [path for path in input.get(name) if os.path.basename(path) == file]
        return [os.path.dirname(path) for path in files]

    return folders
