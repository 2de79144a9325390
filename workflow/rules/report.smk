# All runs of the experiment: tables, figures, a page of results, and Snakemake's report of how they
# were made.

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
        unpack(report_files.inputs()),
        experiment=files.resolved,
        paper=local(PAPER),
    output:
        multiext(f"{files.results}/tables/{{table}}", ".csv", ".md", ".tex", ".json"),
        html=report(
            f"{files.results}/tables/{{table}}.html",
            caption="../report/table.rst",
            category=lambda wildcards: TABLES[wildcards.table].category,
            labels=report_files.labels(),
        ),
    log:
        f"{files.logs}/tables/{{table}}.log",
    conda:
        CONDA
    params:
        code=report_files.table_code(),
        files=report_files.arguments(),
        out=output_folder("html"),
    shell:
        "logged {log:q} python -m pam tables --table {wildcards.table:q} "
        "--experiment {input.experiment:q} {params.files:q} --paper {input.paper:q} "
        "--out {params.out:q}"


rule draw_figure:
    input:
        unpack(report_files.inputs()),
        experiment=files.resolved,
        paper=local(PAPER),
    output:
        png=f"{files.results}/figures/{{figure}}.png",
        data=f"{files.results}/figures/{{figure}}.csv",
        narrow=f"{files.results}/figures/narrow/{{figure}}.svg",
        svg=report(
            f"{files.results}/figures/{{figure}}.svg",
            caption="../report/figure.rst",
            category="2. Figures",
            labels=report_files.labels(),
        ),
    log:
        f"{files.logs}/figures/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        CONDA
    params:
        code=report_files.figure_code(),
        kind=report_files.figure_kind(),
        options=report_files.arguments(),
    shell:
        "logged {log:q} python -m pam figures {params.kind:q} --experiment {input.experiment:q} "
        "{params.options:q} --out {output.svg:q} --narrow {output.narrow:q}"


rule draw_attention:
    input:
        base=job_inputs.of_models(files.baseline, "attention.json"),
        other=job_inputs.of_models(files.posterior, "attention.json"),
        more=job_inputs.of_models(files.more_attention, "attention.json"),
    output:
        png=f"{files.results}/figures/attention_{{task}}_seed{{seed}}.png",
        data=f"{files.results}/figures/attention_{{task}}_seed{{seed}}.csv",
        svg=report(
            f"{files.results}/figures/attention_{{task}}_seed{{seed}}.svg",
            caption="../report/attention.rst",
            category="2. Figures",
            labels={"figure": "Alignments", "task": "{task}", "seed": "{seed}"},
        ),
    log:
        f"{files.logs}/figures/attention_{{task}}_seed{{seed}}.log",
    conda:
        CONDA
    params:
        code=job_inputs.code("figures", "attention"),
        rows=EXPERIMENT.attention_words,
    shell:
        "logged {log:q} python -m pam figures attention --base {input.base:q} "
        "--other {input.other:q} --more {input.more:q} --rows {params.rows} --out {output.svg:q}"


rule write_summary:
    input:
        experiment=files.resolved,
        scores=files.of_runs("scores.json"),
        data=files.of_tasks("summary.json"),
        gold=files.gold_summaries(),
        tables=report_files.front_tables(),
    output:
        summary=f"{files.results}/report/summary.rst",
        front=f"{files.results}/report/front.html",
        data=report(
            f"{files.results}/report/data.html",
            caption="../report/data.rst",
            category="3. Data and cost",
            labels={"table": "Data sets"},
        ),
    log:
        f"{files.logs}/report/summary.log",
    conda:
        CONDA
    params:
        code=job_inputs.code("report"),
    script:
        "../scripts/summary.py"


rule write_page:
    input:
        experiment=files.resolved,
        scores=files.of_runs("scores.json"),
        tables=report_files.tables(),
        figures=report_files.figures(),
        outputs=report_files.outputs(),
        data=files.of_tasks("summary.json"),
        gold=files.gold_summaries(),
        form=[local(str(text)) for text in sorted(TEXTS.glob("page/*"))],
        captions=[local(str(text)) for text in sorted(TEXTS.glob("*.rst"))],
    output:
        page=files.page,
    log:
        f"{files.logs}/report/page.log",
    conda:
        CONDA
    params:
        code=job_inputs.code("page"),
        left_out=lambda wildcards: report_files.left_out_texts(),
        texts=input_folder("form", above=True),
    script:
        "../scripts/page.py"


rule write_report:
    input:
        report_files.tables(),
        report_files.figures(),
        rules.write_summary.output.summary,
        rules.write_summary.output.front,
        data=rules.write_summary.output.data,
        experiment=files.resolved,
        captions=[local(str(text)) for text in sorted(TEXTS.glob("*.rst"))],
        style=local(f"{TEXTS}/report.css"),
    output:
        page=files.report,
    log:
        f"{files.logs}/report/report.log",
    conda:
        CONDA
    params:
        folder=output_folder("page"),
        snakefile=os.path.relpath(SHIPPED / "workflow/Snakefile"),
        profile=os.path.relpath(SHIPPED / "profiles/default"),
    shell:
        # Written aside, as every file is that may be read while it is made again.
        "aside={params.folder:q}/.report.$$.html; trap 'rm -f \"$aside\"' EXIT; "
        "logged {log:q} python -m snakemake --snakefile {params.snakefile:q} "
        "--workflow-profile {params.profile:q} "
        '--configfile {input.experiment:q} --report "$aside" '
        "--report-stylesheet {input.style:q} -- tables figures {input.data:q} && "
        'mv "$aside" {output.page:q}'
