# All cells of the experiment: tables.


localrules:
    make_table,


rule make_table:
    input:
        experiment=RESOLVED,
        scores=of_cells("scores.json"),
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
    conda:
        CONDA
    params:
        code=fingerprint("pam.verbs.tables"),
        out=folder_of_output("html"),
    shell:
        "logged {log:q} python -m pam tables --table {wildcards.table:q} "
        "--experiment {input.experiment:q} --scores {input.scores:q} --paper {input.paper:q} "
        "--out {params.out:q}"
