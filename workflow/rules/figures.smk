# All runs of the experiment: figures.


localrules:
    draw_figure,
    draw_attention,


rule draw_figure:
    input:
        unpack(figure_inputs),
        experiment=RESOLVED,
        paper=PAPER,
    output:
        png=f"{RESULTS}/figures/{{figure}}.png",
        svg=report(
            f"{RESULTS}/figures/{{figure}}.svg",
            caption="../report/figure.rst",
            category="2. Figures",
            labels=figure_labels,
        ),
    log:
        f"{LOGS}/figures/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        CONDA
    params:
        code=figure_code,
        kind=figure_kind,
        options=figure_options,
    shell:
        "logged {log:q} python -m pam figures {params.kind:q} --experiment {input.experiment:q} "
        "{params.options:q} --out {output.svg:q}"


rule draw_attention:
    input:
        base=of_models(baseline, "attention.json"),
        other=of_models(posterior, "attention.json"),
    output:
        png=f"{RESULTS}/figures/attention_{{task}}_seed{{seed}}.png",
        svg=report(
            f"{RESULTS}/figures/attention_{{task}}_seed{{seed}}.svg",
            caption="../report/attention.rst",
            category="2. Figures",
            labels={"figure": "Alignments", "task": "{task}", "seed": "{seed}"},
        ),
    log:
        f"{LOGS}/figures/attention_{{task}}_seed{{seed}}.log",
    conda:
        CONDA
    params:
        code=fingerprint(FIGURE_CODE["attention"]),
        rows=EXPERIMENT.attention_words,
    shell:
        "logged {log:q} python -m pam figures attention --base {input.base:q} "
        "--other {input.other:q} --rows {params.rows} --out {output.svg:q}"
