"""All that is checked before work begins, in order.

Every check stops at the first error, a UserError with file, line and hint; those marked * warn.
The workflow checks an experiment whenever it is read, with `check_folder` and `check_experiment`,
and the rest where its first job is about to run. `pam check` is `check`: it does the same
before anything runs, and reads the data that are at hand.

    where the work is done
      check_folder       pam.experiments.check       no braces in the folder's name
      check_cache        pam.experiments.check       Snakemake can keep its cache (`check` alone)
    the experiment, in `pam.experiments.loading.load_plan`
      read_yaml          pam.experiments.yaml        each file is YAML without repeated keys
      check_merged       pam.experiments.loading     files that are merged name one experiment
      parse              pam.experiments.parsing     every key and value: pam.experiments.keys
      check_trained_on   pam.experiments.consistency a task that tests another task's models
      check_names        pam.experiments.consistency names make folders, nothing is listed twice
      check_model        pam.experiments.listed_models
                                                     a model's parts fit together
      check_models       pam.experiments.consistency labels differ, members can be joined
      check_task         pam.experiments.consistency models, resources and sizes of a task
    what the experiment names, in `check_experiment`
      check_registries   pam.experiments.check       registries are there
      load_registries    pam.data.registry           every key and value of their entries
      check_datasets     pam.experiments.check       data sets suit their tasks and models
      check_rows         pam.reporting.catalogue     rows of the papers' tables exist
      validate           snakemake.utils             the same keys by the JSON schema (Snakefile)
    what is there already
      check_starts       pam.experiments.check       models to start from are there and fit
      check_unchanged    pam.experiments.restored    restored runs are of this configuration
      data_at_hand       pam.experiments.estimate    files are there, first rows are read (`check`)
      symbol_warnings    pam.data.prepare            * symbols that models cannot read or write
                                                     (`check`)
      without_effect     pam.experiments.effects     * settings and defaults that reach no run
                                                     (`check`)
      unsuited           pam.experiments.estimate    * settings that are too large for little data,
                                                     sums that are cut short (`check`)
    when the first job is about to run, in the Snakefile
      hold               pam.runtime.locks           no other run of the experiment is at work here
      check_writable     pam.runtime.files           results may be written to
      check_not_replaced pam.runtime.locks           for each job: its run is not over

Keys are checked one by one by the types of the classes that state them, and together by validators
of pam.experiments.settings (`_check_phases`, `_check_lengths`, `_check_penalties`); options of
components by pam.experiments.components; whether parts and sizes fit by pam.models.fitting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pam.data.prepare import TaskFormat
from pam.data.registry import Dataset, load_registries, load_task
from pam.experiments.effects import without_effect
from pam.experiments.given import Given
from pam.experiments.loading import load_plan
from pam.experiments.parsing import Strict, parse
from pam.experiments.plan import SIZES, Plan
from pam.experiments.run_config import RunConfig
from pam.experiments.yaml import check_known, placed
from pam.models.fitting import FitError, check_vectors
from pam.models.options import MultiHeadOptions
from pam.reporting.catalogue import check_rows, load_papers
from pam.runtime.errors import UserError
from pam.runtime.files import SHIPPED, is_there
from pam.runtime.messages import counted
from pam.tasks import find_kind
from pam.workflow import ReportFiles, WorkflowFiles

PAPERS = "config/paper_results.yaml"


def check(
    files: Sequence[str | Given],
    say: Callable[[str], object],
    expected: Path | None = None,
    cores: int | None = None,
    elsewhere: bool = False,
) -> list[str]:
    """Check an experiment, tell what it will take, and return warnings.

    Args:
        files: where the experiment is written, the last one winning.
        say: takes each line for the user.
        expected: where to write what each job is expected to take, for
            `pam.experiments.progress.Expected`.
        cores: those of this machine that it will use, None for all.
        elsewhere: it runs on other machines, whose devices are not known here.
    """
    # Imported here, as it imports torch and pandas: every job of the workflow reads this module.
    from pam.experiments.estimate import estimate

    check_folder()
    check_cache()
    plan, datasets = check_experiment(None, files)
    workflow_files = WorkflowFiles(plan, datasets)

    experiment = plan.experiment
    runs = len(list(experiment.runs()))
    say(
        f"experiment {experiment.experiment}: {counted(len(experiment.tasks), 'task')},"
        f" {counted(runs, 'run')}; the configuration is right"
    )

    check_starts(plan, datasets, workflow_files)
    workflow_files.check_restored()
    for text in workflow_files.told_of_retraining():
        say(text)
    for text in ReportFiles(plan, workflow_files).left_out_texts():
        say(f"restored runs have no weights: {text}")
    warnings = list(without_effect(plan))
    return warnings + estimate(
        plan, datasets, workflow_files, say, expected, cores=cores, elsewhere=elsewhere
    )


def check_experiment(
    config: dict[str, Any] | None, files: Sequence[str | Given]
) -> tuple[Plan, dict[str, Dataset]]:
    """Check an experiment with all that it names; return it with the data sets of its registries.

    `config` was merged from `files`; None: they are read and merged.
    """
    plan = load_plan(config, files)
    check_registries(plan)
    datasets = load_registries(plan.experiment.registries)
    check_datasets(plan, datasets)
    check_rows(load_papers(PAPERS), plan.experiment, plan.files)
    return plan, datasets


# Where the work is done.


def check_folder() -> None:
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
    """Check that Snakemake can keep its cache, which it wants in the home.

    A UserError names the variable to set.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(cache, "snakemake")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        is_writable = False

    if not is_writable:
        hint = "export XDG_CACHE_HOME=FOLDER, with a folder that you may write to"
        raise UserError("Snakemake cannot keep its cache here", file=folder, hint=hint)


# What the experiment names.


def check_registries(plan: Plan) -> None:
    """Check that the registries are there."""
    for name in plan.experiment.registries:
        if not is_there(Path(name)):
            missing = UserError(f"{name}: no such file", hint="check the name")
            raise placed(missing, plan.files, ["registries", name])


def check_datasets(plan: Plan, datasets: Mapping[str, Dataset]) -> None:
    """Check that data sets are in a registry, can be read as asked, and suit the models."""
    for task in plan.experiment.tasks:
        check_dataset(plan, task, datasets)


def check_dataset(plan: Plan, task: str, datasets: Mapping[str, Dataset]) -> None:
    """Check one task's data set: known, of a kind that models learn, readable, fit for them."""
    config = plan.experiment.tasks[task]
    keys = ["tasks", task]
    for key, name in (("dataset", config.dataset), ("word_alignments", config.word_alignments)):
        if name is not None:
            check_known("data set", name, sorted(datasets), plan.files, [*keys, key])

    entry = datasets[config.dataset].with_format(config.format)
    kind = load_task(entry.task)
    check_splits(plan, task, datasets)
    check_penalties(plan, task, entry.task)
    check_alignments(plan, task, datasets)
    # With what the task overrides in it.
    layout = parse(kind.Format, entry.format, plan.files, (*keys, "format"))
    check_added_symbols(plan, task, layout)

    # Packages that only this kind of task needs.
    for package in kind.packages:
        if find_spec(package) is None:
            error = UserError(
                f"a task of {entry.task} needs {package}", hint=f"pip install {package}"
            )
            raise placed(error, plan.files, keys)

    if not kind.has_symbols:
        check_source_vectors(plan, task, entry.task)
    if not kind.has_actions:
        check_no_actions(plan, task, entry.task)
    if not kind.has_features:
        check_no_features(plan, task, entry.task)


def check_splits(plan: Plan, task: str, datasets: Mapping[str, Dataset]) -> None:
    """Check that a task has the splits that its models are trained and tested on.

    One that tests the models of another task is read in the symbols of that one.
    """
    config = plan.task(task)
    teacher = plan.task(plan.experiment.training_task(task))
    check_known("data set", teacher.dataset, sorted(datasets))
    entry = datasets[config.dataset].with_format(config.format)

    def wrong(key: str, problem: str, hint: str) -> UserError:
        error = UserError(f"task `{task}`: {problem}", hint=hint)
        return placed(error, plan.files, ["tasks", task, key])

    if config.trained_on is None:
        if list(entry.splits) == ["test"]:
            problem = f"`{config.dataset}` has no rows to train on"
            hint = "write `trained_on: TASK`, to test the models of another task on it"
            raise wrong("dataset", problem, hint)

        return

    learned = datasets[teacher.dataset].with_format(teacher.format)
    hint = "name a data set with files of its own for `test`, of the same kind"
    if entry.task != learned.task:
        problem = (
            f"`{config.dataset}` is for {entry.task}, but `{config.trained_on}` trains models for"
            f" {learned.task}"
        )
        raise wrong("dataset", problem, hint)

    if not entry.kind.tests_alone or "test" not in entry.splits:
        problem = f"the test split of `{config.dataset}` cannot be read without its other splits"
        raise wrong("dataset", problem, hint)

    format_keys = ("tasks", task)
    symbols = entry.kind.symbols(parse(entry.kind.Format, entry.format, plan.files, format_keys))
    learned_symbols = entry.kind.symbols(
        parse(entry.kind.Format, learned.format, plan.files, format_keys)
    )

    for name in symbols:
        if symbols[name] != learned_symbols[name]:
            problem = f"`{name}` of its `format` differs from that of `{config.trained_on}`"
            hint = "write the same value in both: the trained models know no other symbols"
            raise wrong("format", problem, hint)


def check_penalties(plan: Plan, task: str, kind: str) -> None:
    """Check that a task has a score by which to choose a length penalty, if that is asked for."""
    if find_kind(kind).chooses_length_penalty:
        return

    for model in plan.experiment.models_of(task):
        if plan.run(task, model, 1).decoding.length_penalties:
            message = (
                f"model `{model}` of task `{task}` cannot choose a length penalty: {kind} has no"
                " BLEU"
            )
            hint = "set `length_penalties: []` in the task's `decoding`"
            keys = ["tasks", task, "decoding", "length_penalties"]
            raise placed(UserError(message, hint=hint), plan.files, keys)


def check_alignments(plan: Plan, task: str, datasets: Mapping[str, Dataset]) -> None:
    """Check that word alignments, which no model learns, are named as such and nothing else is."""
    config = plan.experiment.tasks[task]
    if not load_task(datasets[config.dataset].task).STAGES:
        error = UserError(
            f"`{config.dataset}` holds word alignments, which no model learns",
            hint="name it as the `word_alignments` of a task of translation",
        )
        raise placed(error, plan.files, ["tasks", task, "dataset"])

    check_aligning(plan, task)
    links = config.word_alignments
    if links is not None and load_task(datasets[links].task).STAGES:
        error = UserError(
            f"`{links}` holds no word alignments", hint="name a data set with `task: alignment`"
        )
        raise placed(error, plan.files, ["tasks", task, "word_alignments"])


def check_aligning(plan: Plan, task: str) -> None:
    """Check that a task whose text is aligned names one of the opposite direction, if any."""
    tasks = plan.experiment.tasks
    aligning = tasks[task].align
    if aligning is None or aligning.reverse is None:
        return

    problem = ""
    runs = list(plan.aligned_runs())
    if aligning.reverse not in tasks or aligning.reverse == task:
        problem = f"`{aligning.reverse}` is no other task of the experiment"
    else:
        for name, model, seed in runs:
            if name != task or plan.reverse_task(task, model) is None:
                continue
            if (aligning.reverse, model, seed) not in runs:
                problem = f"`{aligning.reverse}` has no run of `{model}`, seed {seed}"
                break
    if problem:
        hint = "name a task of the opposite direction, with the same models and seeds"
        error = UserError(problem, hint=hint)
        raise placed(error, plan.files, ["tasks", task, "align", "reverse"])


def check_added_symbols(plan: Plan, task: str, layout: Strict) -> None:
    """Check that symbols are added only to those of a model of other data."""
    assert isinstance(layout, TaskFormat)  # as of all that models learn
    if layout.add_symbols and not plan.trained_starts(task):
        error = UserError(
            "`add_symbols` adds symbols to those of a model of other data, and no model of"
            f" `{task}` starts from one",
            hint="name it by its path in a model's `init_from`, or leave out `add_symbols`",
        )
        raise placed(error, plan.files, ["tasks", task, "format", "add_symbols"])


def check_source_vectors(plan: Plan, task: str, kind: str) -> None:
    """Check that models whose sources are vectors can read them, and write no words of them."""
    keys = ["tasks", task]
    for model in plan.experiment.models_of(task):
        for name in [model, *plan.members(model)]:
            try:
                check_vectors(plan.model(name), kind)
            except FitError as error:
                message = f"model `{name}` of task `{task}`: {error.message}"
                raise placed(UserError(message, hint=error.hint), plan.files, keys) from error

        if plan.run(task, model, 1).decoding.replace_unknown:
            message = f"a task of {kind} has no source words that could replace unknown ones"
            hint = "set `replace_unknown: false` in the task's `decoding`"
            no_words = UserError(message, hint=hint)
            raise placed(no_words, plan.files, [*keys, "decoding", "replace_unknown"])


def check_no_actions(plan: Plan, task: str, kind: str) -> None:
    """Check that no model writes pointer actions on a task that has none."""
    for model in plan.experiment.models_of(task):
        names = [model, *plan.members(model)]
        if any(plan.model(name).targets == "actions" for name in names):
            error = UserError(
                f"model `{model}` of task `{task}` writes pointer actions, which {kind} does not"
                " have",
                hint=f"leave it out of this task: `without: [{model}]`",
            )
            raise placed(error, plan.files, ["tasks", task])


def check_no_features(plan: Plan, task: str, kind: str) -> None:
    """Check that no model tells features from characters on a task that has no features."""
    for model in plan.experiment.models_of(task):
        for name in [model, *plan.members(model)]:
            architecture = plan.model(name).architecture
            if isinstance(architecture, MultiHeadOptions) and architecture.feature_kinds:
                error = UserError(
                    f"model `{name}` of task `{task}` has `feature_kinds`, and a task of {kind} has"
                    " no features",
                    hint="set `feature_kinds: false`, or leave the model out of this task",
                )
                raise placed(error, plan.files, ["tasks", task])


# Trained models of other data that models start from.


def check_starts(plan: Plan, datasets: Mapping[str, Dataset], files: WorkflowFiles) -> None:
    """Check that trained models which others start from are there, and fit their tasks.

    A UserError has the place of `init_from`.
    """
    for task in plan.experiment.tasks:
        first = ""
        digests: dict[str, str] = {}
        for model, path in plan.trained_starts(task).items():
            try:
                symbols = _check_trained_start(plan, task, model, path, datasets, files)
            except UserError as error:
                where = plan.place_of(model, "init_from")
                message = f"{error.file}: {error.message}" if error.file else error.message
                raise placed(UserError(message, hint=error.hint), *where) from error

            if digests and symbols and symbols != digests:
                message = (
                    f"models of `{task}` start from `{path}` and `{first}`, whose symbols differ"
                )
                hint = "write a task for each of them, on the same data set"
                differing = UserError(message, hint=hint)
                raise placed(differing, *plan.place_of(model, "init_from"))

            if not digests:
                first = path
                digests = symbols


def _check_trained_start(
    plan: Plan,
    task: str,
    model: str,
    path: str,
    datasets: Mapping[str, Dataset],
    files: WorkflowFiles,
) -> dict[str, str]:
    """Check one model to start from; return the digests of the files of its symbols.

    There are none of a run of this experiment that is still to be trained.
    """
    from pam.library.model_files import Description, files_of, opened

    own_runs = {str(files.run_of(*run).path): run[0] for run in plan.experiment.runs()}
    own_task = own_runs.get(os.path.normpath(path))
    if own_task is not None and plan.experiment.training_task(own_task) == task:
        raise UserError(
            f"`{path}` is a run of the task `{task}` itself", hint="write only the model's name"
        )
    if own_task is not None and not all(file.is_file() for file in files_of(path)):
        return {}

    with opened(path) as folder:
        trained = Description.of(folder)
        config = plan.task(task)
        entry = datasets[config.dataset].with_format(config.format)
        if trained.task != entry.task:
            raise UserError(
                f"`{path}` is for {trained.task}, but `{config.dataset}` is for {entry.task}",
                hint="start from a model of the same kind of task",
            )

        entry.kind.in_symbols_of(entry.layout, trained.symbols(path))
        check_start_fits(
            plan.run(task, model, plan.experiment.seeds_of(task)[0]), trained.run, path
        )
        return trained.digests()


def check_start_fits(run: RunConfig, trained: RunConfig, path: str) -> None:
    """Check that a run can start from the weights of a trained one: its kind and its sizes."""
    message = f"`{run.model}` cannot start from `{path}`"
    parts = run.components
    if trained.members:
        raise UserError(f"{message}, which is an ensemble", hint="name one of its members")
    if trained.components.reversed:
        raise UserError(f"{message}, which learned from target to source", hint="name another one")

    kind = trained.components.architecture.kind
    if kind != parts.architecture.kind:
        hint = f"start from a model with `architecture: {parts.architecture.kind}`"
        raise UserError(f"{message}, which has `architecture: {kind}`", hint=hint)
    if trained.components.targets != parts.targets:
        hint = f"start from a model with `targets: {parts.targets}`"
        raise UserError(f"{message}, which writes {trained.components.targets}", hint=hint)

    differing = {
        size: getattr(trained.network, size)
        for size in SIZES
        if getattr(trained.network, size) != getattr(run.network, size)
    }
    if differing:
        written = ", ".join(f"{size}: {value}" for size, value in differing.items())
        size = next(iter(differing))
        raise UserError(
            f"{message}: `network.{size}` is {getattr(run.network, size)} in `{run.task}`, but"
            f" {differing[size]} in the trained model",
            hint=f"write `network: {{{written}}}`",
        )
