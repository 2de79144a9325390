# Small functions of the rules that score, and of those that make tables, figures and the report.

from pam.config import kind_of
from pam.reporting.catalogue import ANALYZED
from pam.reporting.catalogue import FIGURE_CODE
from pam.reporting.catalogue import FIGURES
from pam.reporting.catalogue import TABLES

SHOWN_TABLES = [name for name, item in TABLES.items() if item.shows(EXPERIMENT, KINDS)]
SHOWN_FIGURES = [name for name, item in FIGURES.items() if item.shows(EXPERIMENT, KINDS)]


def kind_of_task(wildcards):
    """The kind of a task's data."""
    return task_data(wildcards).task


def by_beam(file):
    """A function of a run's wildcards: this file of the outputs of every beam."""

    def files(wildcards):
        beams = or_exit(PLAN.beams, wildcards.task)
        return [f"{RUN}/beam{beam}/{file}".format(**wildcards) for beam in beams]

    return files


def analysis(wildcards):
    """A run's analysis, if its scores need one."""
    needed = kind_of_task(wildcards) in ANALYZED
    return [f"{RUN}/analysis.json".format(**wildcards)] if needed else []


def analysis_option(wildcards, input):
    return ["--analysis", *input.analysis] if input.analysis else []


def scoring_code(wildcards):
    """Fingerprint of what scores a task's outputs."""
    return fingerprint("pam.commands.score")


def baseline(task):
    return [EXPERIMENT.baseline]


def others(task):
    """The models of a task that can be compared with the baseline."""
    models = EXPERIMENT.models_of(task)
    known = EXPERIMENT.baseline in models
    return [model for model in models if known and model != EXPERIMENT.baseline]


def posterior(task):
    """The first of them that attends a posteriori, for heat maps, if there is one."""
    kinds = {model: kind_of(PLAN.components[model].feedback)[0] for model in others(task)}
    return [model for model, kind in kinds.items() if kind == "posterior"][:1]


def of_models(choose, file):
    """A function of a task's and a seed's wildcards: this file of the models that `choose` names.

    `{beam}` in it is the task's main beam.
    """

    def files(wildcards):
        places = {"beam": main_beam(wildcards), **wildcards}
        return [f"{RUN}/{file}".format(model=one, **places) for one in choose(wildcards.task)]

    return files


def main_beam(wildcards):
    return or_exit(PLAN.beams, wildcards.task)[0]


def places(item):
    """What the files that a table or figure is made of are named after, run by run."""
    shown = item.shows(EXPERIMENT, KINDS)
    for task, model, seed in EXPERIMENT.runs():
        if task in shown and not (item.trained and model in ENSEMBLES):
            yield {
                "task": f"{RESULTS}/{task}",
                "run": RUN.format(task=task, model=model, seed=seed),
                "seed": seed,
                "beam": BEAMS[task][0],
                "lacks": lacking(task, model),
            }


def lacking(task, model):
    """Options of verbs for which a model has no files on a task."""
    found = {
        # Without the baseline, or with nothing but it, nothing is tested against it.
        "significance": bool(others(task)),
        "gold-scores": EXPERIMENT.tasks[task].gold is not None,
        # A test row has no pointer actions to be forced.
        "analyses": PLAN.components[model].targets == "symbols",
    }
    return [option for option, known in found.items() if not known]


def files_of(item):
    """The files that a table or figure is made of, by option of its verb."""
    found = {option: {} for option in item.files}
    for place in places(item):
        for option, pattern in item.files.items():
            if option not in place["lacks"]:
                found[option][pattern.format(**place)] = None
    return {option: list(files) for option, files in found.items()}


def inputs_of(item):
    """The same, and what is read beside them."""
    beside = {pattern.format(**place): None for place in places(item) for pattern in item.also_reads}
    return files_of(item) | {"beside": list(beside)}


def options_of(item):
    """The same as arguments of the verb."""
    named = {f"--{option}": files for option, files in files_of(item).items() if files}
    return [word for option, files in named.items() for word in (option, *files)]


def table_inputs(wildcards):
    return inputs_of(TABLES[wildcards.table])


def table_options(wildcards):
    return options_of(TABLES[wildcards.table])


def table_category(wildcards):
    return TABLES[wildcards.table].category


def table_labels(wildcards):
    return {"table": TABLES[wildcards.table].label}


def figure_inputs(wildcards):
    return inputs_of(FIGURES[wildcards.figure])


def figure_options(wildcards):
    item = FIGURES[wildcards.figure]
    return [*options_of(item), *item.options]


def figure_kind(wildcards):
    return FIGURES[wildcards.figure].draws


def figure_code(wildcards):
    """Fingerprint of what draws this kind of figure."""
    return fingerprint(FIGURE_CODE[figure_kind(wildcards)])


def figure_labels(wildcards):
    return {"figure": FIGURES[wildcards.figure].label}


def all_tables():
    """Every table of the experiment, as data; the other formats are made beside it."""
    return expand(f"{RESULTS}/tables/{{table}}.csv", table=SHOWN_TABLES)


def front_tables():
    """The tables that stand on the report's first page."""
    front = [name for name in SHOWN_TABLES if TABLES[name].front]
    return expand(f"{RESULTS}/tables/{{table}}.html", table=front)


def all_figures():
    """Every figure of the experiment."""
    maps = [
        f"attention_{task}_seed{EXPERIMENT.seeds_of(task)[0]}"
        for task in EXPERIMENT.tasks
        if posterior(task)
    ]
    return expand(f"{RESULTS}/figures/{{figure}}.svg", figure=[*SHOWN_FIGURES, *maps])


def gold_summaries():
    """What was made of the word alignments, of every task that has them."""
    golden = [name for name, task in EXPERIMENT.tasks.items() if task.gold]
    return expand(f"{GOLD}/summary.json", task=golden)


def captions():
    """The texts of the report."""
    names = sorted(name for name in os.listdir(TEXTS) if name.endswith(".rst"))
    return [local(os.path.join(TEXTS, name)) for name in names]
