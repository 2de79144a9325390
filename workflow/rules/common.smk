# The experiment, checked; names of files; small functions that the rules share.

import os
import sys
from pathlib import Path

# Commands run the `python` that runs Snakemake, and the `pam` that stands beside the Snakefile.
for name, folder in (("PATH", os.path.dirname(sys.executable)), ("PYTHONPATH", workflow.basedir)):
    os.environ.update({name: os.pathsep.join(filter(None, [folder, os.environ.get(name)]))})

from pam import devices, run_lock
from pam.config import dump_yaml, kind_of
from pam.data.registry import load_registries
from pam.errors import UserError
from pam.experiment import check_local, known_dataset, load_plan
from pam.fingerprint import fingerprint, model_modules

if workflow.is_main_process:
    run_lock.hold()

# A command that fails shows the end of its log, so that nobody has to look for the message.
shell.prefix('logged() {{ "${{@:2}}" > "$1" 2>&1 || {{ tail -n 20 "$1" >&2; return 1; }}; }}; ')


def or_exit(function, *arguments):
    """What `function` returns; a fault that the user can mend ends the run with its message."""
    try:
        return function(*arguments)
    except UserError as error:
        sys.exit(f"error: {error}")


PLAN = or_exit(load_plan, config, workflow.configfiles)
EXPERIMENT = PLAN.experiment
DATASETS = or_exit(load_registries, EXPERIMENT.registries)
or_exit(PLAN.check_datasets, DATASETS)
config.update(EXPERIMENT.model_dump())

if EXPERIMENT.mirror:
    os.environ.update(PAM_MIRROR=EXPERIMENT.mirror)

# One GPU a training, where there is one or where the configuration insists on it; `auto` still goes
# to the processor where torch cannot use what is there.
GPUS = devices.visible() if EXPERIMENT.device != "cpu" else []
GPU = int(bool(GPUS) or EXPERIMENT.device == "cuda")
DEVICE = EXPERIMENT.device if GPU else "cpu"
if GPUS and workflow.is_main_process and "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", len(GPUS))

RESULTS = f"results/{EXPERIMENT.experiment}"
RESOLVED = f"{RESULTS}/experiment.yaml"
REPORT = f"{RESULTS}/report.html"
DATA = f"{RESULTS}/{{task}}/data"
CELL = f"{RESULTS}/{{task}}/{{model}}/seed{{seed}}"
LOGS = f"{RESULTS}/logs"
CONDA = "../../envs/environment.yaml"
TEXTS = os.path.relpath(os.path.join(workflow.basedir, "workflow/report"))
STYLE = os.path.join(TEXTS, "report.css")
PAPER = "config/paper_figures.yaml"

RESULT_TABLES = {
    "table2": "Table 2: accuracy over forms",
    "table2_gains": "Table 2: gains over the baseline",
    "table2_paradigms": "Whole paradigms",
    "table2_paradigms_gains": "Whole paradigms: gains over the baseline",
}
COST_TABLES = {
    "costs": "Cost of every cell",
    "environment": "Versions and hardware",
}
TABLES = RESULT_TABLES | COST_TABLES
FRONT_TABLE = "table2"

# name: (kind of figure, metric, table of the paper whose figures are marked, label)
SCORE_FIGURES = {
    "accuracy": ("accuracy", "accuracy", "table2", "Accuracy over forms"),
    "accuracy_paradigms": ("accuracy", "paradigm_accuracy", None, "Accuracy over paradigms"),
    "gains": ("gains", "accuracy", "table2", "Gains, forms"),
    "gains_paradigms": ("gains", "paradigm_accuracy", None, "Gains, paradigms"),
    "cost": ("cost", "accuracy", None, "Accuracy against cost"),
}

# Alignments are drawn for the baseline and for the first model that attends a posteriori.
POSTERIOR = next(
    (
        model
        for model, choices in PLAN.choices.items()
        if kind_of(choices.feedback)[0] == "posterior"
    ),
    None,
)


wildcard_constraints:
    dataset=r"[^/]+",
    task=r"[^/]+",
    model=r"[^/]+",
    seed=r"\d+",
    table=r"[^/.]+",
    figure=r"[^/.]+",


def of_cells(file):
    """This file of every cell of the experiment."""
    return expand(
        f"{CELL}/{file}",
        task=EXPERIMENT.tasks,
        model=EXPERIMENT.models,
        seed=EXPERIMENT.seeds,
    )


def cell(wildcards):
    """The resolved configuration of one cell."""
    return or_exit(PLAN.cell, wildcards.task, wildcards.model, int(wildcards.seed))


def experiment_text():
    """The experiment as YAML, without where it runs, which is not part of what it is."""
    return dump_yaml(EXPERIMENT, exclude={"device": True, "mirror": True, "resources": True})


def cell_text(wildcards):
    """A cell as YAML."""
    return dump_yaml(cell(wildcards))


def cell_as_it_is(wildcards, output):
    """The same; no reason to run again, since it is taken for derived from the output."""
    return cell_text(wildcards)


def recipe(wildcards):
    """What of a cell decides what its training results in: its change is a reason to train again.

    A new label in tables or a wider beam at test time is none.
    """
    return cell(wildcards).model_dump(
        exclude={
            "experiment": True,
            "label": True,
            "choices": {"label", "source"},
            "training": {"state_every_s"},
            "decoding": {"beam"},
        }
    )


def beam(wildcards):
    return cell(wildcards).decoding.beam


def code_with_model(verb):
    """A function of a cell's wildcards: fingerprint of a verb and of its model's components."""

    def code(wildcards):
        return fingerprint(verb, *model_modules(cell(wildcards).choices))

    return code


def asked(name):
    """A function of a cell's wildcards: how much of a resource its training asks for."""

    def amount(wildcards):
        return getattr(or_exit(PLAN.resources, wildcards.task), name)

    return amount


def dataset(name):
    """An entry of the registry."""
    return or_exit(known_dataset, DATASETS, name)


def dataset_of(wildcards):
    """Name of a task's data set."""
    return or_exit(PLAN.task, wildcards.task).dataset


def local_files(wildcards):
    """Files of the user's own that a data set is copied from."""
    return or_exit(check_local, wildcards.dataset, dataset(wildcards.dataset))


def fetched(wildcards):
    """The mark that a task's data set is there."""
    return f"data/{dataset_of(wildcards)}/.fetched"


def identity_of_data(wildcards):
    """What of an entry decides which files are fetched: hashes, or addresses where none is known."""
    entry = dataset(wildcards.dataset)
    files = {
        name: file.sha256 or file.path or (file.urls, entry.mirror_name)
        for name, file in entry.files.items()
    }
    return {"files": files, "package": entry.package and entry.package.model_dump()}


def meaning_of_data(wildcards):
    """What of an entry decides what is made of its files."""
    entry = dataset(dataset_of(wildcards))
    hashes = {name: file.sha256 for name, file in entry.files.items()}
    return entry.model_dump(include={"task", "splits", "format", "package"}) | {"files": hashes}


def registries(wildcards):
    """Arguments that name the registries."""
    return [word for file in EXPERIMENT.registries for word in ("--registry", file)]


def data_code(wildcards):
    """Fingerprint of what prepares a task's data."""
    entry = dataset(dataset_of(wildcards))
    modules = ["pam.data.prepare", f"pam.data.tasks.{entry.task}"]
    if entry.package is not None:
        modules.append(f"pam.data.packages.{entry.package.name.replace('-', '_')}")
    return fingerprint(*modules)


def folder_of_input(name):
    """A function that gives the folder of the first input of this name."""

    def folder(wildcards, input):
        return _folder(input.get(name))

    return folder


def folder_of_output(name):
    """A function that gives the folder of the first output of this name."""

    def folder(wildcards, output):
        return _folder(output.get(name))

    return folder


def _folder(files):
    return os.path.dirname(files if isinstance(files, str) else files[0])


def prepared(*splits):
    """What `prepare_data` makes of these splits, and the vocabularies."""
    files = [f"{split}.{kind}" for split in splits for kind in ("tsv", "safetensors")]
    return [f"{DATA}/{file}" for file in ["source.vocab", "target.vocab", "summary.json", *files]]


def trained():
    """A model that can be used by itself."""
    files = ["config.yaml", "weights.safetensors", "source.vocab", "target.vocab"]
    return [f"{CELL}/model/{file}" for file in files]


def of_tasks(file):
    """This file of the prepared data of every task."""
    return expand(f"{DATA}/{file}", task=EXPERIMENT.tasks)


def all_tables():
    """Every table of the experiment, as data; the other formats are made beside it."""
    return expand(f"{RESULTS}/tables/{{table}}.csv", table=TABLES)


def all_figures():
    """Every figure of the experiment."""
    figures = [*SCORE_FIGURES, "curves"]
    if POSTERIOR and EXPERIMENT.baseline in EXPERIMENT.models:
        figures += [f"attention_{task}_seed{EXPERIMENT.seeds[0]}" for task in EXPERIMENT.tasks]
    return expand(f"{RESULTS}/figures/{{figure}}.svg", figure=figures)


def captions():
    """The texts of the report."""
    return sorted(os.path.join(TEXTS, name) for name in os.listdir(TEXTS) if name.endswith(".rst"))


def figure_code(wildcards):
    """Fingerprint of what draws this kind of figure."""
    kind = SCORE_FIGURES[wildcards.figure][0]
    return fingerprint("pam.verbs.figures", f"pam.reporting.figures.{kind}")


def figure_options(wildcards):
    """Arguments of the verb `figures`: the metric, and the paper's table where it has one."""
    _, metric, paper_table, _ = SCORE_FIGURES[wildcards.figure]
    options = ["--metric", metric]
    return [*options, "--paper-table", paper_table] if paper_table else options


def figure_kind(wildcards):
    return SCORE_FIGURES[wildcards.figure][0]


def figure_labels(wildcards):
    return {"figure": SCORE_FIGURES[wildcards.figure][3]}


def table_category(wildcards):
    return "1. Results" if wildcards.table in RESULT_TABLES else "3. Data and cost"


def table_labels(wildcards):
    return {"table": TABLES[wildcards.table]}
