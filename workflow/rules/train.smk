# One run: its configuration, its training; or how it is joined from others.


localrules:
    write_experiment,
    write_run,
    join_ensemble,
    reuse_run,


wildcard_constraints:
    model=r"[^/]+",
    seed=r"\d+",


# `cp /dev/stdin` would give the file the mode of a pipe, which is private.
rule write_experiment:
    output:
        flow.resolved,
    log:
        f"{flow.logs}/write_experiment.log",
    conda:
        CONDA
    params:
        content=flow.experiment_text,
    shell:
        "printf %s {params.content:q} | logged {log:q} sh -c 'cat > \"$0\"' {output:q}"


# What trains and decodes does not depend on this file, or a new label would train again, but has
# its text as an argument. Snakemake has `ancient` for that, but sees no other change behind it.
rule write_run:
    output:
        flow.run.config_file,
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/write_run.log",
    conda:
        CONDA
    params:
        content=flow.run_text,
    shell:
        "printf %s {params.content:q} | logged {log:q} sh -c 'cat > \"$0\"' {output:q}"


rule train_run:
    input:
        data=flow.prepared("train", "dev"),
        start=flow.start_models,
    output:
        model=flow.run.model_files,
        history=flow.run.history,
        training=flow.run.training,
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/train.log",
    benchmark:
        f"{flow.results}/benchmarks/{{task}}/{{model}}/seed{{seed}}/train.tsv"
    wildcard_constraints:
        task=flow.teaching,
        model=flow.trained,
    conda:
        CONDA
    threads: flow.resource("threads", of_all=True)
    resources:
        mem_mb=flow.resource("mem_mb"),
        runtime=flow.resource("runtime"),
        processes=flow.resource("processes"),
        gpu=flow.gpus_of_all,
        gpu_model=flow.gpu_model,
        device=flow.device,
    params:
        code=flow.run_code("train"),
        training_config=flow.training_config,
        config=flow.config_argument,
        run=output_folder("training"),
    message:
        "Training {wildcards.model} on {wildcards.task}, seed {wildcards.seed}: "
        "{threads} thread(s), {resources.mem_mb} MB, {resources.runtime} min, {resources.gpu} GPU"
    shell:
        "logged {log:q} python -m pam.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam train --run {params.run:q} --config {params.config:q} --code {params.code:q} "
        "--device {resources.device} --processes {resources.processes}"


rule join_ensemble:
    input:
        models=flow.member_models,
    output:
        model=flow.run.model_files,
        training=flow.run.training,
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/ensemble.log",
    wildcard_constraints:
        model=flow.joined,
    conda:
        CONDA
    params:
        code=flow.run_code("ensemble"),
        training_config=flow.training_config,
        config=flow.config_argument,
        run=output_folder("training"),
    message:
        "Joining {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam ensemble --run {params.run:q} --config {params.config:q}"


# A task that takes over the models of another one trains none.
rule reuse_run:
    input:
        trained=flow.reused,
        data=flow.prepared("test"),
    output:
        model=flow.run.model_files,
        history=flow.run.history,
        training=flow.run.training,
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/reuse.log",
    wildcard_constraints:
        task=flow.tested,
        model=flow.trained,
    conda:
        CONDA
    params:
        code=flow.code("reuse"),
        trained=lambda wildcards, input: folder_of(input.trained),
        run=output_folder("training"),
    message:
        "Taking over {wildcards.model} for {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam reuse --run {params.run:q} --trained {params.trained:q}"
