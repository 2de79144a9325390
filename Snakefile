# What `snakemake` reads in this folder: the workflow in workflow/Snakefile.


include: "workflow/Snakefile"


# Snakemake forgets the default target of a file that is included.
workflow.default_target = rules.all.rule.name
