# All cells of the experiment: figures.


localrules:
    draw_scores,
    draw_curves,
    draw_attention,


rule draw_scores:
    input:
        experiment=RESOLVED,
        scores=of_cells("scores.json"),
        paper=PAPER,
    output:
        png=f"{RESULTS}/figures/{{figure}}.png",
        svg=report(
            f"{RESULTS}/figures/{{figure}}.svg",
            caption="../report/scores.rst",
            category="2. Figures",
            labels=figure_labels,
        ),
    log:
        f"{LOGS}/figures/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(SCORE_FIGURES),
    conda:
        CONDA
    params:
        code=figure_code,
        kind=figure_kind,
        options=figure_options,
    shell:
        "logged {log:q} python -m pam figures {params.kind:q} --experiment {input.experiment:q} "
        "--scores {input.scores:q} --paper {input.paper:q} {params.options:q} --out {output.svg:q}"


rule draw_curves:
    input:
        experiment=RESOLVED,
        histories=of_cells("history.csv"),
        cells=of_cells("cell.yaml"),
    output:
        png=f"{RESULTS}/figures/curves.png",
        svg=report(
            f"{RESULTS}/figures/curves.svg",
            caption="../report/curves.rst",
            category="2. Figures",
            labels={"figure": "Learning curves"},
        ),
    log:
        f"{LOGS}/figures/curves.log",
    conda:
        CONDA
    params:
        code=fingerprint("pam.verbs.figures", "pam.reporting.figures.curves"),
    shell:
        "logged {log:q} python -m pam figures curves --experiment {input.experiment:q} "
        "--histories {input.histories:q} --out {output.svg:q}"


rule draw_attention:
    input:
        base=f"{RESULTS}/{{task}}/{EXPERIMENT.baseline}/seed{{seed}}/attention.json",
        other=f"{RESULTS}/{{task}}/{POSTERIOR}/seed{{seed}}/attention.json",
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
        code=fingerprint("pam.verbs.figures", "pam.reporting.figures.attention"),
        words=EXPERIMENT.attention_words,
    shell:
        "logged {log:q} python -m pam figures attention --base {input.base:q} "
        "--other {input.other:q} --words {params.words} --out {output.svg:q}"
