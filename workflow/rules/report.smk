# All runs of the experiment: tables, figures, a page of results, and Snakemake's report of how they were made.

from pathlib import Path

from pam.reporting.catalogue import FIGURES, TABLES

TEXTS = Path(os.path.relpath(SHIPPED / "workflow/report"))
PAPER = str(find_file("config/paper_results.yaml"))


localrules:
    make_table,
    draw_figure,
    draw_attention,
    write_summary,
    write_page,
    write_report,


wildcard_constraints:
    table="|".join(TABLES),


rule make_table:
    input:
        unpack(shown.inputs),
        experiment=flow.resolved,
        paper=local(PAPER),
    output:
        multiext(f"{flow.results}/tables/{{table}}", ".csv", ".md", ".tex", ".json"),
        html=report(
            f"{flow.results}/tables/{{table}}.html",
            caption="../report/table.rst",
            category=lambda wildcards: TABLES[wildcards.table].category,
            labels=shown.labels,
        ),
    log:
        f"{flow.logs}/tables/{{table}}.log",
    conda:
        CONDA
    params:
        code=flow.code("tables"),
        files=shown.arguments,
        out=output_folder("html"),
    shell:
        "logged {log:q} python -m pam tables --table {wildcards.table:q} "
        "--experiment {input.experiment:q} {params.files:q} --paper {input.paper:q} "
        "--out {params.out:q}"


rule draw_figure:
    input:
        unpack(shown.inputs),
        experiment=flow.resolved,
        paper=local(PAPER),
    output:
        png=f"{flow.results}/figures/{{figure}}.png",
        data=f"{flow.results}/figures/{{figure}}.csv",
        svg=report(
            f"{flow.results}/figures/{{figure}}.svg",
            caption="../report/figure.rst",
            category="2. Figures",
            labels=shown.labels,
        ),
    log:
        f"{flow.logs}/figures/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        CONDA
    params:
        code=lambda wildcards: flow.code("figures", FIGURES[wildcards.figure].draws),
        kind=lambda wildcards: FIGURES[wildcards.figure].draws,
        options=shown.arguments,
    shell:
        "logged {log:q} python -m pam figures {params.kind:q} --experiment {input.experiment:q} "
        "{params.options:q} --out {output.svg:q}"


rule draw_attention:
    input:
        base=flow.of_models(flow.baseline, "attention.json"),
        other=flow.of_models(flow.posterior, "attention.json"),
    output:
        png=f"{flow.results}/figures/attention_{{task}}_seed{{seed}}.png",
        data=f"{flow.results}/figures/attention_{{task}}_seed{{seed}}.csv",
        svg=report(
            f"{flow.results}/figures/attention_{{task}}_seed{{seed}}.svg",
            caption="../report/attention.rst",
            category="2. Figures",
            labels={"figure": "Alignments", "task": "{task}", "seed": "{seed}"},
        ),
    log:
        f"{flow.logs}/figures/attention_{{task}}_seed{{seed}}.log",
    conda:
        CONDA
    params:
        code=flow.code("figures", "attention"),
        rows=EXPERIMENT.attention_words,
    shell:
        "logged {log:q} python -m pam figures attention --base {input.base:q} "
        "--other {input.other:q} --rows {params.rows} --out {output.svg:q}"


rule write_summary:
    input:
        experiment=flow.resolved,
        scores=flow.of_runs("scores.json"),
        data=flow.of_tasks("summary.json"),
        gold=flow.gold_summaries(),
        tables=shown.front_tables(),
    output:
        summary=f"{flow.results}/report/summary.rst",
        front=f"{flow.results}/report/front.html",
        data=report(
            f"{flow.results}/report/data.html",
            caption="../report/data.rst",
            category="3. Data and cost",
            labels={"table": "Data sets"},
        ),
    log:
        f"{flow.logs}/report/summary.log",
    conda:
        CONDA
    params:
        code=flow.code("report"),
    script:
        "../scripts/summary.py"


rule write_page:
    input:
        experiment=flow.resolved,
        tables=shown.tables(),
        figures=shown.figures(),
        data=flow.of_tasks("summary.json"),
        gold=flow.gold_summaries(),
        form=[local(str(text)) for text in sorted(TEXTS.glob("page/*"))],
        captions=[local(str(text)) for text in sorted(TEXTS.glob("*.rst"))],
    output:
        page=flow.page,
    log:
        f"{flow.logs}/report/page.log",
    conda:
        CONDA
    params:
        code=flow.code("page"),
        left_out=lambda wildcards: shown.left_out_texts(),
        texts=lambda wildcards, input: os.path.dirname(folder_of(input.form)),
    script:
        "../scripts/page.py"


rule write_report:
    input:
        shown.tables(),
        shown.figures(),
        rules.write_summary.output.summary,
        rules.write_summary.output.front,
        data=rules.write_summary.output.data,
        experiment=flow.resolved,
        captions=[local(str(text)) for text in sorted(TEXTS.glob("*.rst"))],
        style=local(f"{TEXTS}/report.css"),
    output:
        page=flow.report,
    log:
        f"{flow.logs}/report/report.log",
    conda:
        CONDA
    params:
        folder=output_folder("page"),
        snakefile=os.path.relpath(SHIPPED / "Snakefile"),
    shell:
        # Written aside, as every file is that may be read while it is made again.
        "aside={params.folder:q}/.report.$$.html; trap 'rm -f \"$aside\"' EXIT; "
        "logged {log:q} snakemake --snakefile {params.snakefile:q} "
        '--configfile {input.experiment:q} --report "$aside" '
        "--report-stylesheet {input.style:q} -- tables figures {input.data:q} && "
        'mv "$aside" {output.page:q}'
