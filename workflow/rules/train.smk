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
        files.resolved,
    log:
        f"{files.logs}/write_experiment.log",
    conda:
        CONDA
    params:
        content=job_inputs.experiment_text(),
    shell:
        "printf %s {params.content:q} | logged {log:q} sh -c 'cat > \"$0\"' {output:q}"


# What trains and decodes does not depend on this file, or a new label would train again, but has
# its text as an argument. Snakemake has `ancient` for that, but sees no other change behind it.
rule write_run:
    output:
        files.run.config_file,
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/write_run.log",
    conda:
        CONDA
    params:
        content=job_inputs.run_text(),
    shell:
        "printf %s {params.content:q} | logged {log:q} sh -c 'cat > \"$0\"' {output:q}"


rule train_run:
    input:
        data=files.prepared("train", "dev"),
        start=job_inputs.start_weights(),
        links=job_inputs.guiding_links(),
    output:
        model=files.run.model_files,
        history=files.run.history,
        training=files.run.training,
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/train.log",
    benchmark:
        f"{files.results}/benchmarks/{{task}}/{{model}}/seed{{seed}}/train.tsv"
    wildcard_constraints:
        task=files.training_tasks,
        model=files.trained_models,
    conda:
        CONDA
    threads: job_resources.amount("threads", of_all=True)
    resources:
        mem_mb=job_resources.amount("mem_mb"),
        runtime=job_resources.amount("runtime"),
        processes=job_resources.amount("processes"),
        gpu=job_resources.gpus_of_all(),
        gpu_model=job_resources.gpu_model(),
        device=job_resources.device(),
    params:
        code=job_inputs.run_code("train"),
        training_config=job_inputs.training_config(),
        config=untracked(job_inputs.run_text()),
        run=output_folder("training"),
    message:
        "Training {wildcards.model} on {wildcards.task}, seed {wildcards.seed}: "
        "{threads} thread(s), {resources.mem_mb} MB, {resources.runtime} min, {resources.gpu} GPU"
    shell:
        "logged {log:q} python -m pam.experiments.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam train --run {params.run:q} --config {params.config:q} "
        "--code {params.code:q} --device {resources.device} --processes {resources.processes}"


rule join_ensemble:
    input:
        models=job_inputs.member_weights(),
    output:
        model=files.run.model_files,
        training=files.run.training,
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/ensemble.log",
    wildcard_constraints:
        model=files.ensemble_models,
    conda:
        CONDA
    params:
        code=job_inputs.run_code("ensemble"),
        training_config=job_inputs.training_config(),
        config=untracked(job_inputs.run_text()),
        run=output_folder("training"),
    message:
        "Joining {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam ensemble --run {params.run:q} --config {params.config:q}"


# A task that takes over the models of another one trains none.
rule reuse_run:
    input:
        trained=job_inputs.reused(),
        data=files.prepared("test"),
    output:
        model=files.run.model_files,
        history=files.run.history,
        training=files.run.training,
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/reuse.log",
    wildcard_constraints:
        task=files.tested_tasks,
        model=files.trained_models,
    conda:
        CONDA
    params:
        code=job_inputs.code("reuse"),
        trained=input_folder("trained"),
        run=output_folder("training"),
    message:
        "Taking over {wildcards.model} for {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam reuse --run {params.run:q} --trained {params.trained:q}"
