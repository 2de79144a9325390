# Small functions of the rules that make data: what a task is made of, in which stages.

import json

from pam.data.registry import load_task
from pam.experiment import check_local
from pam.experiment import known_dataset


def dataset(name):
    """An entry of the registry."""
    return or_exit(known_dataset, DATASETS, name)


def dataset_of(wildcards):
    """Name of a task's data set."""
    return or_exit(PLAN.task, wildcards.task).dataset


def local_files(wildcards):
    """Files of the user's own that a data set is copied from."""
    files = or_exit(check_local, wildcards.dataset, dataset(wildcards.dataset))
    return [local(str(file)) for file in files]


def fetched(wildcards):
    """The mark that a task's data set is there."""
    return f"data/{dataset_of(wildcards)}/.fetched"


def identity_of_data(wildcards):
    """What of an entry decides which files are fetched: hashes, or addresses where none is known."""
    entry = dataset(wildcards.dataset)
    files = {
        name: file.sha256 or file.md5 or file.path or (file.urls, entry.mirror_name)
        for name, file in entry.files.items()
    }
    return {"files": files, "package": entry.package and entry.package.model_dump()}


def task_data(wildcards):
    """The entry of a task's data set, read as the task wants it."""
    own = or_exit(PLAN.task, wildcards.task)
    return dataset(own.dataset).with_format(own.format)


def content_of(entry):
    """What of an entry decides what its files hold."""
    hashes = {name: file.sha256 for name, file in entry.files.items()}
    return entry.model_dump(include={"task", "splits", "package"}) | {"files": hashes}


def stages_of(wildcards):
    """Names of the stages in which a task's data are prepared; the last one completes them."""
    return list(load_task(task_data(wildcards).task).STAGES)


def named(stage, wildcards):
    """The name of a stage; that of the last one where None is given."""
    return stage or stages_of(wildcards)[-1]


def before(stage=None):
    """A function of a task's wildcards: what a stage is made from, the last one by default."""

    def needed(wildcards):
        stages = stages_of(wildcards)
        earlier = stages[: stages.index(named(stage, wildcards))]
        folders = [f"{DATA}/{name}".format(task=wildcards.task) for name in earlier]
        return folders or fetched(wildcards)

    return needed


def stage_name(wildcards):
    return named(None, wildcards)


def stage_format(stage=None):
    """A function of a task's wildcards: what decides a stage's result; its change runs it again."""

    def decided(wildcards):
        entry = task_data(wildcards)
        name, layout = named(stage, wildcards), entry.layout.model_dump()
        own = {key: layout[key] for key in load_task(entry.task).keys(name)}
        first = name == stages_of(wildcards)[0]
        return {"format": own} | (content_of(entry) if first else {})

    return decided


def format_as_it_is(wildcards, output):
    """A task's overrides of the format, as an argument; no reason to run again by itself."""
    return json.dumps(or_exit(PLAN.task, wildcards.task).format)


def registries(wildcards):
    """Arguments that name the registries."""
    return [f"--registry={file}" for file in EXPERIMENT.registries]


def stage_code(stage=None):
    """A function of a task's wildcards: fingerprint of what runs a stage."""

    def code(wildcards):
        entry, name = task_data(wildcards), named(stage, wildcards)
        modules = load_task(entry.task).modules(name, entry.layout)
        if name == stages_of(wildcards)[0]:
            modules = modules + entry.generator_names()
        return fingerprint("pam.data.prepare:prepare", *modules)

    return code


def codec_modules(wildcards):
    """What turns a task's text into symbols and back."""
    entry = task_data(wildcards)
    return load_task(entry.task).modules("codec", entry.layout)


def gold_of(wildcards):
    """Name of the word alignments to which a task's attention is held."""
    return or_exit(PLAN.task, wildcards.task).gold


def fetched_gold(wildcards):
    """The mark that they are there."""
    return f"data/{gold_of(wildcards)}/.fetched"


def meaning_of_gold(wildcards):
    """What of their entry decides what is made of its files."""
    entry = dataset(gold_of(wildcards))
    return content_of(entry) | {"format": entry.layout.model_dump()}


def gold_code(wildcards):
    """Fingerprint of what prepares them."""
    entry = dataset(gold_of(wildcards))
    modules = load_task(entry.task).modules("gold", entry.layout)
    return fingerprint("pam.commands.word_alignments", *modules, *entry.generator_names())


def prepared_gold():
    """What `prepare_gold` makes."""
    files = ["gold.tsv", "gold.safetensors", "links.json", "source.vocab", "target.vocab"]
    return [f"{GOLD}/{file}" for file in [*files, "codec.json", "summary.json"]]
