# One page of everything, to be opened in a browser.


localrules:
    write_summary,
    write_report,


rule write_summary:
    input:
        experiment=RESOLVED,
        scores=of_runs("scores.json"),
        data=of_tasks("summary.json"),
        gold=gold_summaries(),
        tables=front_tables(),
    output:
        summary=f"{RESULTS}/report/summary.rst",
        front=f"{RESULTS}/report/front.html",
        data=report(
            f"{RESULTS}/report/data.html",
            caption="../report/data.rst",
            category="3. Data and cost",
            labels={"table": "Data sets"},
        ),
    log:
        f"{LOGS}/report/summary.log",
    conda:
        CONDA
    params:
        code=fingerprint("pam.reporting.datasets"),
    script:
        "../scripts/summary.py"


rule write_report:
    input:
        all_tables(),
        all_figures(),
        rules.write_summary.output.summary,
        rules.write_summary.output.front,
        data=rules.write_summary.output.data,
        experiment=RESOLVED,
        captions=captions(),
        style=STYLE,
    output:
        REPORT,
    log:
        f"{LOGS}/report/report.log",
    conda:
        CONDA
    params:
        folder=folder_around_output,
        snakefile=os.path.relpath(workflow.main_snakefile),
    shell:
        # Written aside, as every file is that may be read while it is made again.
        "aside={params.folder:q}/.report.$$.html; trap 'rm -f \"$aside\"' EXIT; "
        "logged {log:q} snakemake --snakefile {params.snakefile:q} "
        '--configfile {input.experiment:q} --report "$aside" '
        "--report-stylesheet {input.style:q} -- tables figures {input.data:q} && "
        'mv "$aside" {output:q}'
