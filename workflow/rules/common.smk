# The experiment, checked; names of files; small functions that the rules share.

import os
import re
import sys
from pathlib import Path

# Commands run the `python` that runs Snakemake, and the `pam` that stands beside the Snakefile.
for name, folder in (("PATH", os.path.dirname(sys.executable)), ("PYTHONPATH", workflow.basedir)):
    os.environ.update({name: os.pathsep.join(filter(None, [folder, os.environ.get(name)]))})

from snakemake.scheduling.job_scheduler import JobScheduler

from pam import devices
from pam import locking as run_lock
from pam import scheduler
from pam.io import dump_yaml
from pam.data.registry import load_registries
from pam.io import UserError
from pam.experiment import load_plan
from pam.io import check_writable
from pam.fingerprint import fingerprint
from pam.fingerprint import model_modules

# A command that fails shows the end of its log, so that nobody has to look for the message. A log on
# a full disk may hold none: the `echo` fails then too, and bash says why.
shell.prefix(
    'logged() {{ "${{@:2}}" > "$1" 2>&1 || '
    '{{ tail -n 20 "$1" >&2; echo >> "$1"; return 1; }}; }}; '
)


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

# GPUs of this machine, shared out among the jobs that run on it; a cluster shares out its own.
GPUS = devices.visible() if EXPERIMENT.device != "cpu" else []
IN_PLACE = workflow.is_main_process and workflow.resource_settings.nodes is None
if GPUS and IN_PLACE and "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", len(GPUS))

RESULTS = f"results/{EXPERIMENT.experiment}"
RESOLVED = f"{RESULTS}/experiment.yaml"
REPORT = f"{RESULTS}/report.html"
DATA = f"{RESULTS}/{{task}}/data"
GOLD = f"{RESULTS}/{{task}}/gold"
RUN = f"{RESULTS}/{{task}}/{{model}}/seed{{seed}}"
LOGS = f"{RESULTS}/logs"
CONDA = "../../envs/environment.yaml"
TEXTS = os.path.relpath(os.path.join(workflow.basedir, "workflow/report"))
# Files of the repository stay where they are, also where results go to a storage provider.
STYLE = local(os.path.join(TEXTS, "report.css"))
PAPER = local("config/paper_results.yaml")

# Models that are trained, and those that are joined from others: patterns of their names.
ENSEMBLES = [model for model in EXPERIMENT.models if PLAN.members(model)]
JOINED = "|".join(re.escape(model) for model in ENSEMBLES) or "(?!)"
TRAINED = rf"(?!(?:{JOINED})(?:/|$))[^/]+"

# Task to its kind, and to its beams, the main one first.
KINDS = {name: DATASETS[task.dataset].task for name, task in EXPERIMENT.tasks.items()}
BEAMS = {name: or_exit(PLAN.beams, name) for name in EXPERIMENT.tasks}


onstart:
    # Here, as it takes torch: neither a dry run nor a job waits for that.
    from pam.models.fitting import check_fit

    or_exit(check_fit, PLAN)
    scheduler.wake_once(JobScheduler)
    or_exit(run_lock.hold, EXPERIMENT.experiment)
    for folder in ("data", RESULTS):
        or_exit(check_writable, folder)


# Before anything is deleted that another run has made and may be reading.
if not workflow.is_main_process and run_lock.replaced(EXPERIMENT.experiment):
    sys.exit("error: this job is of a run that is over, and another run has followed it")


wildcard_constraints:
    dataset=r"[^/]+",
    task=r"[^/]+",
    model=r"[^/]+",
    seed=r"\d+",
    beam=r"\d+",
    table=r"[^/.]+",
    figure=r"[^/.]+",


def of_runs(file):
    """This file of every run of the experiment."""
    return [
        f"{RUN}/{file}".format(task=task, model=model, seed=seed)
        for task, model, seed in EXPERIMENT.runs()
    ]


def run(wildcards):
    """The resolved configuration of one run."""
    return or_exit(PLAN.run, wildcards.task, wildcards.model, int(wildcards.seed))


def experiment_text(wildcards):
    """The experiment as YAML, without where it runs, which is not part of what it is.

    A function of wildcards, though there are none: in a text Snakemake would look for them.
    """
    return dump_yaml(EXPERIMENT, exclude={"device": True, "mirror": True, "resources": True})


def run_text(wildcards):
    """A run as YAML."""
    return dump_yaml(run(wildcards))


def run_as_it_is(wildcards, output):
    """The same; no reason to run again, since it is taken for derived from the output."""
    return run_text(wildcards)


def recipe(wildcards):
    """What of a run decides what its training results in."""
    return run(wildcards).recipe()


def decoding(wildcards):
    """What of a run decides how its model is searched."""
    return run(wildcards).decoding.model_dump(exclude={"beam", "beams", "dev"})


def batch_size(wildcards):
    """How many outputs of a run are worked on side by side, which its memory limits."""
    return run(wildcards).decoding.batch_size


def code_with_model(verb):
    """A function of a run's wildcards: fingerprint of a verb and of its model's components."""

    def code(wildcards):
        components = run(wildcards).components
        return fingerprint(verb, *model_modules(components), *codec_modules(wildcards))

    return code


def asked(name):
    """A function of wildcards: how much of a resource the jobs of a task, or of its model, ask for."""

    def amount(wildcards):
        return getattr(demands(wildcards), name)

    return amount


def demands(wildcards):
    """All that the jobs of a task, or of one of its models, ask for."""
    return or_exit(PLAN.resources, wildcards.task, wildcards.get("model"))


def asked_gpu(wildcards):
    """1 if a job that computes asks for a GPU, else 0.

    Where nothing is said, it does if there is one or if the configuration insists on CUDA.
    """
    own = demands(wildcards).gpu
    wanted = EXPERIMENT.device == "cuda" or bool(GPUS) if own is None else own
    return int(wanted and EXPERIMENT.device != "cpu")


def asked_gpu_model(wildcards):
    """The kind of GPU, if a certain one is asked for."""
    return demands(wildcards).gpu_model or "" if asked_gpu(wildcards) else ""


def asked_device(wildcards):
    """Where a job computes; `auto` still goes to the processor where torch cannot use a GPU."""
    return EXPERIMENT.device if asked_gpu(wildcards) else "cpu"


def of_all_processes(amount):
    """A function of a run's wildcards: an amount for each process that shares its training."""
    return lambda wildcards: amount(wildcards) * demands(wildcards).processes


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


def folder_around_output(wildcards, output):
    """The folder in which the output is a folder."""
    return _folder(output[0])


def _folder(files):
    return os.path.dirname(files if isinstance(files, str) else files[0])


def prepared(*splits):
    """What `prepare_data` makes of these splits, and the vocabularies."""
    files = [f"{split}.{kind}" for split in splits for kind in ("tsv", "safetensors")]
    return [f"{DATA}/{file}" for file in ["source.vocab", "target.vocab", "summary.json", *files]]


def of_members(file):
    """A function of a run's wildcards: this file of the runs that it is joined from."""

    def files(wildcards):
        places = {"task": wildcards.task, "seed": wildcards.seed}
        members = or_exit(PLAN.members, wildcards.model)
        return [f"{RUN}/{file}".format(model=member, **places) for member in members]

    return files


def folders_of_models(wildcards, input):
    """The folders of the models that a run is joined from."""
    return [_folder(file) for file in input.models]


def trained():
    """A model that can be used by itself."""
    files = ["config.yaml", "weights.safetensors", "source.vocab", "target.vocab", "lengths.json"]
    return [f"{RUN}/model/{file}" for file in files]


def of_tasks(file):
    """This file of the prepared data of every task."""
    return expand(f"{DATA}/{file}", task=EXPERIMENT.tasks)
