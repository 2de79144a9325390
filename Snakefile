# Posterior attention models: from addresses to a report.
#
#   snakemake --cores all                         the default experiment, config/config.yaml
#   snakemake --cores all --configfile FILE       another one
#   snakemake --cores all data|train|tables|figures|report

from snakemake.utils import min_version, validate

min_version("9.20")


# A file on the command line replaces the default experiment; Snakemake would merge the two.
if not workflow.configfiles:

    configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


validate(config, "workflow/schemas/config.schema.yaml")


include: "workflow/rules/common_data.smk"
include: "workflow/rules/common_report.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
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
        REPORT,


rule data:
    input:
        of_tasks("summary.json"),
        gold_summaries(),


rule train:
    input:
        of_runs("training.json"),


rule tables:
    input:
        all_tables(),


rule figures:
    input:
        all_figures(),


rule report:
    input:
        REPORT,
