# One run: its configuration, its training; or how it is joined from others.


localrules:
    write_experiment,
    write_run,
    join_run,


rule write_experiment:
    output:
        RESOLVED,
    log:
        f"{LOGS}/write_experiment.log",
    conda:
        CONDA
    params:
        content=experiment_text,
    shell:
        "printf %s {params.content:q} | logged {log:q} cp /dev/stdin {output:q}"


rule write_run:
    output:
        f"{RUN}/run.yaml",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/write_run.log",
    conda:
        CONDA
    params:
        content=run_text,
    shell:
        "printf %s {params.content:q} | logged {log:q} cp /dev/stdin {output:q}"


rule train_run:
    input:
        data=prepared("train", "dev"),
    output:
        run=f"{RUN}/trained.yaml",
        model=trained(),
        history=f"{RUN}/history.csv",
        training=f"{RUN}/training.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/train.log",
    benchmark:
        f"{RESULTS}/benchmarks/{{task}}/{{model}}/seed{{seed}}/train.tsv"
    wildcard_constraints:
        model=TRAINED,
    conda:
        CONDA
    threads: of_all_processes(asked("threads"))
    resources:
        mem_mb=asked("mem_mb"),
        runtime=asked("runtime"),
        processes=asked("processes"),
        gpu=of_all_processes(asked_gpu),
        gpu_model=asked_gpu_model,
        device=asked_device,
    params:
        code=code_with_model("pam.commands.train"),
        recipe=recipe,
        run=run_as_it_is,
        data=folder_of_input("data"),
        out=folder_of_output("training"),
    message:
        "Training {wildcards.model} on {wildcards.task}, seed {wildcards.seed}: "
        "{threads} thread(s), {resources.mem_mb} MB, {resources.runtime} min, {resources.gpu} GPU"
    shell:
        "printf %s {params.run:q} > {output.run:q} && "
        "logged {log:q} python -m pam.devices --gpus {resources.gpu} {resources.device} "
        "python -m pam train --run {output.run:q} --data {params.data:q} "
        "--out {params.out:q} --code {params.code:q} "
        "--device {resources.device} --processes {resources.processes}"


rule join_run:
    input:
        models=of_members("model/weights.safetensors"),
    output:
        run=f"{RUN}/trained.yaml",
        model=trained(),
        training=f"{RUN}/training.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/join.log",
    wildcard_constraints:
        model=JOINED,
    conda:
        CONDA
    params:
        code=code_with_model("pam.commands.ensemble"),
        recipe=recipe,
        run=run_as_it_is,
        models=folders_of_models,
        out=folder_of_output("training"),
    message:
        "Joining {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "printf %s {params.run:q} > {output.run:q} && "
        "logged {log:q} python -m pam join --run {output.run:q} --models {params.models:q} "
        "--out {params.out:q}"
