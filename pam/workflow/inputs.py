"""What a job depends on: its input files, the options and the code that decide its result.

Snakemake runs a job again if one of its parameters changes. So those hold what decides the job's
result and nothing else: a part of the configuration, and a fingerprint of the code that is run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pam.data.identity import fetched_folder, identified
from pam.data.prepare import DESCRIPTION, files_of
from pam.data.registry import Dataset, check_local, load_task
from pam.data.sampling import ALL
from pam.data.tokenizers import TOKENIZERS
from pam.experiments.experiment import Aligning, TaskConfig
from pam.experiments.fingerprint import CODE, entries_of, fingerprint, model_modules
from pam.experiments.parsing import dump_yaml
from pam.experiments.plan import Plan
from pam.experiments.run_config import RunConfig
from pam.experiments.run_folder import RunFolder
from pam.experiments.yaml import check_known
from pam.runtime.errors import UserError
from pam.tasks import find_kind
from pam.tasks.translation.format import PairsFormat
from pam.workflow.files import WorkflowFiles
from pam.workflow.rules import Wildcards, or_exit, per_job


class JobInputs:
    """What jobs depend on. Errors that the user can correct end the process.

    Args:
        plan: the experiment.
        datasets: the registry's entries by name.
        files: where the experiment's files are.
    """

    def __init__(self, plan: Plan, datasets: Mapping[str, Dataset], files: WorkflowFiles) -> None:
        self.plan = plan
        self.experiment = plan.experiment
        self.datasets = datasets
        self.files = files
        self._configs: dict[tuple[str, str, int], RunConfig] = {}
        self._identities: dict[str, Dataset] = {}

    @property
    def plugins(self) -> list[str]:
        """Arguments that name the experiment's plugins, for commands that read no run."""
        return [f"--plugin={module}" for module in self.experiment.plugins]

    # The experiment as a whole.

    @per_job
    def experiment_text(self, wildcards: Wildcards) -> str:
        """Return the experiment as YAML, without where it runs.

        In a plain text Snakemake would look for wildcards.
        """
        where = {"device": True, "mirror": True, "resources": True, "jobs_per_gpu": True}
        of_tasks = {"tasks": {"__all__": {"resources": True}}}
        return dump_yaml(self.experiment, exclude=where | of_tasks)

    # Data: files that are fetched, stages that prepare them.

    @per_job
    def fetched_folder(self, wildcards: Wildcards) -> str:
        """Return the folder that a data set's files are fetched into.

        The process ends if somebody asks for the folder of other files than the entry's.
        """
        return str(or_exit(self._checked_folder, wildcards.dataset, wildcards.content))

    @per_job
    def source(self, wildcards: Wildcards) -> list[str]:
        """Return arguments: registries, plugins, and the content of files of the user's own.

        They change no result: files of another content are in another folder.
        """
        return self._source(wildcards.dataset)

    @per_job
    def fetched_source(self, wildcards: Wildcards) -> list[str]:
        """Return the same for a task's data set, with the folder of its fetched files."""
        return self._fetched_source(self._task(wildcards).dataset)

    @per_job
    def fetched_gold_source(self, wildcards: Wildcards) -> list[str]:
        """Return the same for a task's word alignments."""
        return self._fetched_source(str(self._task(wildcards).word_alignments))

    def _source(self, name: str) -> list[str]:
        arguments = [f"--registry={file}" for file in self.experiment.registries]
        arguments += self.plugins
        files = self._identified(name).files
        hashes = {key: file.sha256 for key, file in files.items() if file.path is not None}
        if hashes:
            arguments.append(f"--hashes={json.dumps(hashes)}")
        return arguments

    def _fetched_source(self, name: str) -> list[str]:
        return [*self._source(name), f"--raw={self._folder(name)}"]

    @per_job
    def dataset(self, wildcards: Wildcards) -> str:
        """Return the name of a task's data set."""
        return self._task(wildcards).dataset

    @per_job
    def format_text(self, wildcards: Wildcards) -> str:
        """Return a task's overrides of the data set's format, as an argument."""
        return json.dumps(self._task(wildcards).format)

    @per_job
    def base_arguments(self, wildcards: Wildcards) -> list[str]:
        """Return arguments that name the data, or the model, in whose symbols a task is prepared.

        There are none unless the task takes over models of another, or its models start from one
        of other data.
        """
        other = self._task(wildcards).trained_on
        if other is not None:
            return [f"--base={self.files.data}".format(task=other)]

        starts = or_exit(self.plan.trained_starts, wildcards.task)
        # If there are several, they have the same symbols.
        return [f"--symbols-of={path}" for path in list(starts.values())[:1]]

    @per_job
    def before_stage(self, wildcards: Wildcards, stage: str | None = None) -> list[str]:
        """Return what a stage of preparing data is made from.

        Here and below, None is the last stage.
        """
        _, name, stages = self._stage(wildcards, stage)
        task = self._task(wildcards)
        folder = self.files.data.format(task=wildcards.task)
        inputs = [f"{folder}/{earlier}" for earlier in stages[: stages.index(name)]]
        is_first = not inputs
        if is_first:
            inputs = [self._fetched(task.dataset)]

        # The symbols of the task whose models are tested.
        if task.trained_on and (not is_first or name == stages[-1]):
            patterns = self.files.prepared("train", "dev")
            inputs += [pattern.format(task=task.trained_on) for pattern in patterns]

        # Those of the model that others start from; each stage reads what it is.
        starts = or_exit(self.plan.trained_starts, wildcards.task)
        for path in list(starts.values())[:1]:
            inputs += _model_files(path)

        return inputs

    @per_job
    def last_stage(self, wildcards: Wildcards) -> str:
        """Return the stage that completes a task's data."""
        return self._stage(wildcards, None)[1]

    @per_job
    def stage_options(self, wildcards: Wildcards, stage: str | None = None) -> dict[str, Any]:
        """Return what a data set's entry says that decides the result of a stage."""
        entry, name, stages = self._stage(wildcards, stage)
        keys = set(load_task(entry.task).keys(name))
        options = {"format": entry.layout.model_dump(include=keys)}
        # The first stage reads the files; later ones read what it made.
        if name == stages[0]:
            options |= _content(entry)
        if name == stages[-1]:
            options |= entry.model_dump(include=set(DESCRIPTION))
        return options

    @per_job
    def stage_code(self, wildcards: Wildcards, stage: str | None = None) -> str:
        """Return the fingerprint of what runs a stage."""
        entry, name, stages = self._stage(wildcards, stage)
        modules = [*CODE["prepare"], *load_task(entry.task).modules(name, entry.layout)]
        if name == stages[0]:
            modules += entry.generator_names()
        return fingerprint(*modules)

    def _stage(self, wildcards: Wildcards, stage: str | None) -> tuple[Dataset, str, list[str]]:
        """Return the entry of a task's data set, a stage or the last one, and all stages."""
        entry = self._entry(wildcards)
        stages = list(load_task(entry.task).STAGES)
        return entry, stage or stages[-1], stages

    # Word alignments that people made.

    @per_job
    def gold_dataset(self, wildcards: Wildcards) -> str | None:
        """Return the data set of word alignments that a task's attention is compared with."""
        return self._task(wildcards).word_alignments

    @per_job
    def fetched_gold(self, wildcards: Wildcards) -> str:
        """Return the mark of the word alignments that were fetched."""
        return self._fetched(str(self._task(wildcards).word_alignments))

    @per_job
    def gold_options(self, wildcards: Wildcards) -> dict[str, Any]:
        """Return what the entry of word alignments says that decides what is made of its files."""
        entry = self._gold_entry(wildcards)
        options = {"format": entry.layout.model_dump()}
        return options | _content(entry) | entry.model_dump(include=set(DESCRIPTION))

    @per_job
    def gold_code(self, wildcards: Wildcards) -> str:
        """Return the fingerprint of what prepares word alignments."""
        entry = self._gold_entry(wildcards)
        modules = load_task(entry.task).modules("gold", entry.layout)
        return fingerprint(*CODE["word-alignments"], *modules, *entry.generator_names())

    # Links between the words of the training text.

    @per_job
    def aligned_by(self, wildcards: Wildcards) -> list[str]:
        """Return what an alignment of the training text reads besides a run's model."""
        task = self._task(wildcards)
        files = [self._fetched(task.dataset)]
        if self._aligns_prepared(wildcards.task):
            files = [str(self._tokenized(wildcards.task))]
        if task.word_alignments is not None:
            files += [file.format(task=wildcards.task) for file in self.files.prepared_gold()]
        reverse = self._reverse_run(wildcards)
        if reverse is not None:
            files += [str(file) for file in reverse.model_files]
        return files

    @per_job
    def alignment_options(self, wildcards: Wildcards) -> list[str]:
        """Return the options of the command `align` for the training text of a task."""
        aligning = self._aligning(wildcards)
        task = self._task(wildcards)
        source, target = or_exit(self._training_text, wildcards.task)
        options = [f"--source={source}", f"--target={target}"]
        if task.word_alignments is not None:
            options.append(f"--gold={self.files.gold.format(task=wildcards.task)}")

        is_program = not hasattr(wildcards, "model")
        # Programs have no probabilities to multiply.
        if aligning.symmetrize is not None and not (
            is_program and aligning.symmetrize == "product"
        ):
            options.append(f"--symmetrize={aligning.symmetrize}")
        if is_program:
            return options
        reverse = self._reverse_run(wildcards)
        if reverse is not None:
            options.append(f"--reverse={reverse.path}")
        if aligning.threshold is not None:
            options.append(f"--threshold={aligning.threshold}")
        if aligning.smooth:
            options.append("--smooth")
        return options

    @per_job
    def alignment_records(self, wildcards: Wildcards) -> list[str]:
        """Return the records of all aligners of a task: programs first, then runs."""
        aligning = self._aligning(wildcards)
        folder = self.files.aligners.format(task=wildcards.task)
        records = [f"{folder}/{program}.json" for program in aligning.programs]
        for task, model, seed in self.plan.aligned_runs():
            if task == wildcards.task:
                records.append(str(self.files.run_of(task, model, seed).alignment_record))
        return records

    def _aligning(self, wildcards: Wildcards) -> Aligning:
        """Return how a task's training text is aligned."""
        aligning = self._task(wildcards).align
        # So that links can be asked for by name where the configuration says nothing of them.
        return aligning or Aligning()

    def _reverse_run(self, wildcards: Wildcards) -> RunFolder | None:
        """Return the run of the same model and seed in the opposite direction, if it is needed."""
        # Programs, which have no wildcard `model`, align both ways by themselves.
        if not hasattr(wildcards, "model"):
            return None
        reverse = or_exit(self.plan.reverse_task, wildcards.task, wildcards.model)
        if reverse is None:
            return None
        or_exit(self.plan.task, reverse)
        return self.files.run_of(reverse, wildcards.model, wildcards.seed)

    def _training_text(self, task: str) -> tuple[Path, Path]:
        """Return the files of a task's training text, source and target.

        A UserError says that it is not in two files of sentences.
        """
        if self._aligns_prepared(task):
            folder = self._tokenized(task)
            return folder / "train.source", folder / "train.target"

        name = self.plan.task(task).dataset
        layout = self._entry_of(task).layout
        sides = [getattr(layout, "source", ""), getattr(layout, "target", "")]
        files = files_of(self._identified(name), self._folder(name))[self._training_split(name)]
        if not isinstance(files, Mapping) or not set(sides) <= set(files):
            raise UserError(
                f"the training text of `{name}` is not in two files of sentences",
                hint=f"leave out `align` of the task `{task}`, and run `pam align` on two files",
            )
        return files[sides[0]], files[sides[1]]

    def _aligns_prepared(self, task: str) -> bool:
        """Tell whether a task's prepared text is aligned, and not the files of its data set."""
        config = self.plan.task(task)
        entry = self._entry_of(task)
        layout = entry.layout
        if not isinstance(layout, PairsFormat):
            return False
        if config.align is not None and config.align.text is not None:
            return config.align.text == "prepared"

        # Of several parts, or of columns, there are two files only once they are prepared. So it is
        # with words where no spaces are.
        names = entry.splits[self._training_split(config.dataset)]
        tokenizers = [TOKENIZERS[layout.tokenizer_for(code)] for code in layout.languages]
        return not isinstance(names, dict) or any(kind.segments for kind in tokenizers)

    def _training_split(self, dataset: str) -> str:
        """Return the split, in the registry, that a data set's training text is read from."""
        if "train" in self._dataset(dataset).splits:
            return "train"
        return ALL

    def _tokenized(self, task: str) -> Path:
        """Return the folder of the words of a task's prepared text."""
        return Path(self.files.data.format(task=task)) / "tokenize"

    # Runs: their configuration.

    @per_job
    def run_text(self, wildcards: Wildcards) -> str:
        """Return the resolved configuration of a run as YAML, which is what `run.yaml` holds."""
        return dump_yaml(self._run_config(wildcards))

    @per_job
    def training_config(self, wildcards: Wildcards) -> dict[str, Any]:
        """Return the part of a run's configuration that decides what its training results in."""
        return self._run_config(wildcards).training_config()

    @per_job
    def decoding(self, wildcards: Wildcards) -> dict[str, Any]:
        """Return the part that decides how a model is searched with a given beam.

        A penalty that is chosen is not in it.
        """
        return self._run_config(wildcards).decoding.model_dump(
            exclude={"beam", "beams", "dev", "length_penalties"}
        )

    @per_job
    def batch_size(self, wildcards: Wildcards) -> int:
        """Return how many examples of a run are decoded or analyzed at once."""
        return self._run_config(wildcards).decoding.batch_size

    @per_job
    def length_penalties(self, wildcards: Wildcards) -> list[float]:
        """Return the length penalties that a run chooses from."""
        return self._run_config(wildcards).decoding.length_penalties

    @per_job
    def main_beam(self, wildcards: Wildcards) -> int:
        """Return the first of a task's beams, on which models are compared."""
        return self._main_beam(wildcards)

    def _main_beam(self, wildcards: Wildcards) -> int:
        self._task(wildcards)
        return self.files.beams[wildcards.task][0]

    def is_trained(self, task: str, model: str, seed: int) -> bool:
        """Return whether a run's training is finished with its data as they are."""
        folder = self.files.run_of(task, model, seed)
        if not folder.may_be_finished:
            return False
        # Imported here, as it imports torch.
        from pam.training.again import is_finished

        wildcards = SimpleNamespace(task=task, model=model, seed=seed)
        run = RunFolder(folder.path, self.run_text()(wildcards))
        code = self.run_code("train")(wildcards)
        try:
            return is_finished(run, run.data(), run.path / "state", code)
        except UserError:  # a model to start from is to be trained first
            return False

    # Runs: files of themselves and of other runs.

    @per_job
    def chosen_penalty(self, wildcards: Wildcards) -> list[str]:
        """Return the length penalty that was chosen for a run's decoding, if there were several.

        A job without a beam decodes with the main one.
        """
        if not self._run_config(wildcards).decoding.length_penalties:
            return []
        beam = getattr(wildcards, "beam", None) or self._main_beam(wildcards)
        return [str(self._run(wildcards).length_penalty(beam))]

    @per_job
    def outputs_by_beam(self, wildcards: Wildcards, file: str) -> list[str]:
        """Return this file of a run's outputs on the test split, with every beam of the task."""
        self._task(wildcards)
        run = self._run(wildcards)
        beams = self.files.beams[wildcards.task]
        return [str(run.predictions("test", beam).with_name(file)) for beam in beams]

    @per_job
    def analysis(self, wildcards: Wildcards) -> list[str]:
        """Return a run's analysis of the test split, if its scores need one."""
        if not find_kind(self._entry(wildcards).task).is_analyzed:
            return []
        return [str(self._run(wildcards).analysis("test"))]

    @per_job
    def member_weights(self, wildcards: Wildcards) -> list[str]:
        """Return weights of the models that an ensemble is joined from."""
        return self._weights_of_sources(wildcards)

    @per_job
    def start_weights(self, wildcards: Wildcards) -> list[str]:
        """Return weights of the models that a training starts from."""
        weights = self._weights_of_sources(wildcards)
        path = or_exit(self.plan.model, wildcards.model).trained_start
        if path is not None:
            weights += _model_files(path)
        return weights

    @per_job
    def guiding_links(self, wildcards: Wildcards) -> list[str]:
        """Return the file of links by which a training guides attention, if there is one."""
        run = self._run_config(wildcards)
        if run.training.guided is None:
            return []
        # Imported here, as it imports torch.
        from pam.training.guided import check_guided, check_links

        or_exit(check_guided, run)
        links = run.training.guided.links
        # Those of an aligner of this experiment are made before the training.
        if not Path(links).is_relative_to(self.files.results):
            or_exit(check_links, links)
        return [links]

    def _weights_of_sources(self, wildcards: Wildcards) -> list[str]:
        """Return weights of other models of a run's task, which its model is made from."""
        run = self._run(wildcards)
        sources = or_exit(self.plan.sources, wildcards.model, int(wildcards.seed))
        return [str(run.member(*source).weights) for source in sources]

    @per_job
    def reused(self, wildcards: Wildcards) -> list[str]:
        """Return what a run takes over from the run of the task whose models it tests."""
        task = str(self._task(wildcards).trained_on)
        run = self.files.run_of(task, wildcards.model, wildcards.seed)
        return [str(file) for file in (run.training, run.history, *run.model_files)]

    @per_job
    def of_models(
        self, wildcards: Wildcards, models: Callable[[str, int], list[str]], *files: str
    ) -> list[str]:
        """Return these files of runs of some of a task's models, for one seed.

        `models` names them (`WorkflowFiles.compared`); `{beam}` in `files` is the task's main beam.
        """
        names = [file.format(beam=self._main_beam(wildcards)) for file in files]
        chosen = models(wildcards.task, int(wildcards.seed))
        runs = [self.files.run_of(wildcards.task, model, wildcards.seed) for model in chosen]
        return [str(run.path / name) for run in runs for name in names]

    # Code.

    @staticmethod
    def code(command: str, kind: str | None = None) -> str:
        """Return the fingerprint of a command, or of what it does for one kind of task."""
        return fingerprint(*entries_of(command, kind))

    @per_job
    def task_code(self, wildcards: Wildcards, command: str) -> str:
        """Return the fingerprint of what a command does for a task's kind."""
        return self.code(command, self.files.kinds[wildcards.task])

    @per_job
    def run_code(self, wildcards: Wildcards, command: str) -> str:
        """Return the fingerprint of a command, of a run's model, and of its codec of text."""
        entry = self._entry(wildcards)
        codec = load_task(entry.task).modules("codec", entry.layout)
        model = model_modules(self._run_config(wildcards))
        return fingerprint(*CODE[command], *model, *codec)

    # What the wildcards of a job name.

    def _task(self, wildcards: Wildcards) -> TaskConfig:
        return or_exit(self.plan.task, wildcards.task)

    def _run(self, wildcards: Wildcards) -> RunFolder:
        return self.files.run_of(wildcards.task, wildcards.model, wildcards.seed)

    def _run_config(self, wildcards: Wildcards) -> RunConfig:
        """Return the resolved configuration of a run."""
        task = wildcards.task
        model = wildcards.model
        seed = int(wildcards.seed)
        if (task, model, seed) not in self._configs:
            self._configs[task, model, seed] = or_exit(self.plan.run, task, model, seed)
        return self._configs[task, model, seed]

    def _dataset(self, name: str) -> Dataset:
        or_exit(check_known, "data set", name, sorted(self.datasets))
        return self.datasets[name]

    def _identified(self, name: str) -> Dataset:
        """Return a data set whose files are told by their content; one that is missing is named."""
        if name not in self._identities:
            entry = self._dataset(name)
            or_exit(check_local, name, entry)
            self._identities[name] = or_exit(identified, entry)
        return self._identities[name]

    def _folder(self, name: str) -> Path:
        """Return the folder into which a data set's files are fetched."""
        return fetched_folder(name, self._identified(name))

    def _checked_folder(self, name: str, content: str) -> Path:
        """Return the same folder if its name ends so; else a UserError says how it is called."""
        folder = self._folder(name)
        asked = folder.with_name(f"{name}-{content}")
        if asked != folder:
            message = f"the registries' entry of `{name}` has other files than those of this folder"
            raise UserError(message, file=asked, hint=f"ask for {folder}")
        return folder

    def _fetched(self, name: str) -> str:
        """Return the mark that the files of a data set were fetched."""
        return str(self._folder(name) / ".fetched")

    def _entry(self, wildcards: Wildcards) -> Dataset:
        """Return the entry of a task's data set, read as the task wants it."""
        return self._entry_of(wildcards.task)

    def _entry_of(self, task: str) -> Dataset:
        config = or_exit(self.plan.task, task)
        return self._dataset(config.dataset).with_format(config.format)

    def _gold_entry(self, wildcards: Wildcards) -> Dataset:
        return self._dataset(str(self._task(wildcards).word_alignments))


def _model_files(path: str) -> list[str]:
    """Return the files of a trained model of other data."""
    # Imported here, as few experiments have such models.
    from pam.library.model_files import files_of

    return [os.path.normpath(file) for file in or_exit(files_of, path)]


def _content(entry: Dataset) -> dict[str, Any]:
    """Return what an entry says that decides what its files hold."""
    hashes = {name: file.sha256 for name, file in entry.files.items()}
    return entry.model_dump(include={"task", "splits", "package"}) | {"files": hashes}
