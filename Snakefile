# Posterior attention models: from addresses to a report.
#
#   snakemake --cores all                         the default experiment, config/config.yaml
#   snakemake --cores all --configfile FILE       another one
#   snakemake --cores all data|train|tables|figures|report
#
# The rules ask four objects (pam/workflow/): which files there are, what a job depends on, which
# resources it is given, what the report is made of.

import os

from snakemake.utils import min_version, validate

from pam import jobs, progress
from pam.check import check_experiment, check_folder, check_starts
from pam.io import SHIPPED, check_writable, find_file, remove_leftovers
from pam.runtime import locks, snakemake_internals
from pam.workflow import JobInputs, JobResources, ReportFiles, WorkflowFiles
from pam.workflow import input_folder, input_folders, output_folder
from pam.workflow import or_exit, read_config, untracked

min_version("9.20")


report: "workflow/report/workflow.rst"


or_exit(check_folder)
plan, datasets = or_exit(check_experiment, config, or_exit(read_config, workflow, config))
# No defaults: of a value with several forms, Snakemake would fill in those of all.
validate(config, "workflow/schemas/config.schema.json", set_default=False)
EXPERIMENT = plan.experiment
CONDA = "../../envs/environment.yaml"
config.update(EXPERIMENT.model_dump())

jobs.set_environment(str(SHIPPED), EXPERIMENT.mirror, EXPERIMENT.jobs_per_gpu)
shell.prefix(jobs.LOGGED)
gpus = 0
if EXPERIMENT.device != "cpu":
    gpus = snakemake_internals.share_gpus(workflow, EXPERIMENT.jobs_per_gpu)

files = WorkflowFiles(plan, datasets)
job_inputs = JobInputs(plan, datasets, files)
job_resources = JobResources(plan, gpus)
report_files = ReportFiles(plan, files)

# Before anything is deleted that another run has made and may be reading.
if snakemake_internals.is_main_process(workflow):
    or_exit(check_starts, plan, datasets, files)
    or_exit(files.check_restored)
    progress.tell_finished(workflow, job_inputs.is_trained)
    progress.tell(or_exit(files.told_of_retraining))
else:
    or_exit(locks.check_not_replaced)


snakemake_internals.name_nearest(
    lambda: snakemake_internals.rules_without_output(workflow),
    lambda: [
        *files.targets(),
        *report_files.tables(),
        *report_files.figures(),
        files.page,
        files.report,
    ],
)


onstart:
    or_exit(locks.hold, EXPERIMENT.experiment)
    for folder in ("data", files.results):
        or_exit(check_writable, folder)
        remove_leftovers(folder)
    snakemake_internals.wake_once()
    files.ask_again(snakemake_internals.planned_jobs(workflow))
    progress.show(workflow)
    progress.tell_trained_again(workflow, files.restored)


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"


localrules:
    all,
    data,
    train,
    tables,
    figures,


rule all:
    default_target: True
    input:
        files.page,
        files.report,


rule data:
    input:
        files.of_tasks("summary.json"),
        files.gold_summaries(),


rule train:
    input:
        files.of_runs("training.json"),


rule tables:
    input:
        report_files.tables(),


rule figures:
    input:
        report_files.figures(),


rule report:
    input:
        files.page,
        files.report,
