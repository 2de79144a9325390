# Posterior attention models: from addresses to a report.
#
#   snakemake --cores all                         the default experiment, config/config.yaml
#   snakemake --cores all --configfile FILE       another one
#   snakemake --cores all data|train|tables|figures|report

import os
import sys

from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.utils import min_version, validate

from pam import jobs, locking
from pam.io import check_writable
from pam.workflow import (
    Workflow,
    input_folder,
    input_folders,
    or_exit,
    output_folder,
    set_environment,
)
from pam.workflow_report import ReportFiles

min_version("9.20")


# A file on the command line replaces the default experiment; Snakemake would merge the two.
if not workflow.configfiles:

    configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


validate(config, "workflow/schemas/config.schema.yaml")
flow = or_exit(Workflow.load, config, workflow.configfiles)
EXPERIMENT, shown = flow.experiment, ReportFiles(flow)
CONDA = "../../envs/environment.yaml"
config.update(EXPERIMENT.model_dump())
set_environment(workflow.basedir, EXPERIMENT.mirror)

# GPUs of this machine, shared out among the jobs that run on it; a cluster shares out its own.
if EXPERIMENT.device != "cpu":
    flow.gpus = len(jobs.visible())
    on_this_machine = workflow.is_main_process and workflow.resource_settings.nodes is None
    if flow.gpus and on_this_machine and "gpu" not in workflow.global_resources:
        workflow.register_resource("gpu", flow.gpus)

# Before anything is deleted that another run has made and may be reading.
if not workflow.is_main_process and locking.replaced(EXPERIMENT.experiment):
    sys.exit("error: this job is of a run that is over, and another run has followed it")

# A command that fails shows the end of its log, so that nobody has to look for the message. A log on
# a full disk may hold none: the `echo` fails then too, and bash says why.
shell.prefix(
    'logged() {{ "${{@:2}}" > "$1" 2>&1 || '
    '{{ tail -n 20 "$1" >&2; echo >> "$1"; return 1; }}; }}; '
)


onstart:
    # Here, as it takes torch: neither a dry run nor a job waits for that.
    from pam.models.fitting import check_fit

    or_exit(check_fit, flow.plan)
    jobs.wake_once(JobScheduler)
    or_exit(locking.hold, EXPERIMENT.experiment)
    for folder in ("data", flow.results):
        or_exit(check_writable, folder)


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
        flow.report,
