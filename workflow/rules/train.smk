# One cell: its configuration, its training.


localrules:
    write_experiment,
    write_cell,


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


rule write_cell:
    output:
        f"{CELL}/cell.yaml",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/write_cell.log",
    conda:
        CONDA
    params:
        content=cell_text,
    shell:
        "printf %s {params.content:q} | logged {log:q} cp /dev/stdin {output:q}"


rule train_cell:
    input:
        data=prepared("train", "dev"),
    output:
        cell=f"{CELL}/trained.yaml",
        model=trained(),
        history=f"{CELL}/history.csv",
        training=f"{CELL}/training.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/train.log",
    benchmark:
        f"{RESULTS}/benchmarks/{{task}}/{{model}}/seed{{seed}}/train.tsv"
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
        code=code_with_model("pam.verbs.train"),
        recipe=recipe,
        cell=cell_as_it_is,
        data=folder_of_input("data"),
        out=folder_of_output("training"),
    message:
        "Training {wildcards.model} on {wildcards.task}, seed {wildcards.seed}: "
        "{threads} thread(s), {resources.mem_mb} MB, {resources.runtime} min, {resources.gpu} GPU"
    shell:
        "printf %s {params.cell:q} > {output.cell:q} && "
        "logged {log:q} python -m pam.devices --gpus {resources.gpu} {resources.device} "
        "python -m pam train --cell {output.cell:q} --data {params.data:q} "
        "--out {params.out:q} --code {params.code:q} "
        "--device {resources.device} --processes {resources.processes}"
