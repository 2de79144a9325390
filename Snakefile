# Posterior attention models: from addresses to a report.
#
#   snakemake --cores all                         the default experiment, config/config.yaml
#   snakemake --cores all --configfile FILE       another one
#   snakemake --cores all data|train|tables|figures|report

import os

from snakemake.exceptions import MissingRuleException
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.utils import min_version, validate

from pam import jobs, progress
from pam.io import SHIPPED, check_writable, find_file, remove_leftovers
from pam.workflow import ReportFiles, Workflow, check_place, or_exit, read_config
from pam.workflow import folder_of, input_folder, input_folders, output_folder

min_version("9.20")


report: "workflow/report/workflow.rst"


or_exit(check_place)
flow = or_exit(Workflow, config, or_exit(read_config, workflow, config))
# No defaults: of a value with several forms, Snakemake would fill in those of all.
validate(config, "workflow/schemas/config.schema.json", set_default=False)
EXPERIMENT, shown = flow.experiment, ReportFiles(flow)
CONDA = "../../envs/environment.yaml"
config.update(EXPERIMENT.model_dump())
jobs.set_environment(str(SHIPPED), EXPERIMENT.mirror, EXPERIMENT.jobs_per_gpu)
shell.prefix(jobs.LOGGED)
if EXPERIMENT.device != "cpu":
    flow.gpus = jobs.share_gpus(workflow, EXPERIMENT.jobs_per_gpu)
# Before anything is deleted that another run has made and may be reading.
if not workflow.is_main_process:
    or_exit(jobs.check_not_replaced, EXPERIMENT.experiment)
else:
    or_exit(flow.check_restored)


jobs.name_nearest(
    MissingRuleException,
    lambda: [rule.name for rule in workflow.rules if not rule.output],
    lambda: [*flow.files(), *shown.tables(), *shown.figures(), flow.page, flow.report],
)


onstart:
    or_exit(jobs.hold, EXPERIMENT.experiment)
    for folder in ("data", flow.results):
        or_exit(check_writable, folder)
        remove_leftovers(folder)
    jobs.wake_once(JobScheduler)
    progress.show(workflow)
    progress.tell_trained_again(workflow, flow.restored)


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
        flow.page,
        flow.report,


rule data:
    input:
        flow.of_tasks("summary.json"),
        flow.gold_summaries(),


rule train:
    input:
        flow.of_runs("training.json"),


rule tables:
    input:
        shown.tables(),


rule figures:
    input:
        shown.figures(),


rule report:
    input:
        flow.page,
        flow.report,
