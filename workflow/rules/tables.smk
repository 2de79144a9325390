# All runs of the experiment: tables.


localrules:
    make_table,


rule make_table:
    input:
        unpack(table_inputs),
        experiment=RESOLVED,
        paper=PAPER,
    output:
        multiext(f"{RESULTS}/tables/{{table}}", ".csv", ".md", ".tex"),
        html=report(
            f"{RESULTS}/tables/{{table}}.html",
            caption="../report/table.rst",
            category=table_category,
            labels=table_labels,
        ),
    log:
        f"{LOGS}/tables/{{table}}.log",
    wildcard_constraints:
        table="|".join(TABLES),
    conda:
        CONDA
    params:
        code=fingerprint("pam.commands.tables"),
        files=table_options,
        out=folder_of_output("html"),
    shell:
        "logged {log:q} python -m pam tables --table {wildcards.table:q} "
        "--experiment {input.experiment:q} {params.files:q} --paper {input.paper:q} "
        "--out {params.out:q}"
