"""What the Snakemake rules ask of an experiment.

The rules in `workflow/rules/` say what is made from what by which command. What differs from task
to task and from model to model they ask of four objects, each of which answers one question:

    files          = WorkflowFiles     which files there are             pam/workflow/files.py
    job_inputs     = JobInputs         what a job depends on             pam/workflow/inputs.py
    job_resources  = JobResources      which resources a job is given    pam/workflow/resources.py
    report_files   = ReportFiles       what the report is made of        pam/workflow/report.py

What is the same for all jobs is an attribute, or a method that a rule calls for its value:
`files.logs`, `files.prepared("train")`. What differs from job to job is a method that gives an
input function, which Snakemake calls with the job's wildcards: `job_inputs.training_config()`,
`job_resources.amount("mem_mb")` (see `pam.workflow.rules.per_job`).

Importing this package does not import torch, since every job reads the workflow once more.
"""

from pam.workflow.files import WorkflowFiles
from pam.workflow.inputs import JobInputs
from pam.workflow.report import ReportFiles
from pam.workflow.resources import JobResources
from pam.workflow.rules import input_folder, input_folders, or_exit, output_folder, untracked
from pam.workflow.settings import read_config

__all__ = [
    "JobInputs",
    "JobResources",
    "ReportFiles",
    "WorkflowFiles",
    "input_folder",
    "input_folders",
    "or_exit",
    "output_folder",
    "read_config",
    "untracked",
]
