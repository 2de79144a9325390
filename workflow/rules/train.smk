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
        # Where it runs is not part of what it is.
        content=EXPERIMENT.model_dump(exclude={"device", "mirror", "resources"}),
    script:
        "../scripts/write_yaml.py"


rule write_cell:
    output:
        f"{CELL}/cell.yaml",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/write_cell.log",
    conda:
        CONDA
    params:
        content=cell_content,
    script:
        "../scripts/write_yaml.py"


rule train_cell:
    input:
        # Its content counts as a parameter, so that a new label does not retrain.
        cell=ancient(f"{CELL}/cell.yaml"),
        data=prepared("train", "dev"),
    output:
        model=trained(),
        history=f"{CELL}/history.csv",
        training=f"{CELL}/training.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/train.log",
    benchmark:
        f"{RESULTS}/benchmarks/{{task}}/{{model}}/seed{{seed}}/train.tsv"
    conda:
        CONDA
    threads: asked("threads")
    resources:
        mem_mb=asked("mem_mb"),
        runtime=asked("runtime"),
        gpu=GPU,
        device=DEVICE,
    params:
        code=code_with_model("pam.verbs.train"),
        training=training_part,
        data=folder_of_input("data"),
        out=folder_of_output("training"),
    message:
        "Training {wildcards.model} on {wildcards.task}, seed {wildcards.seed}: "
        "{threads} thread(s), {resources.mem_mb} MB, {resources.runtime} min, {resources.gpu} GPU"
    shell:
        "logged {log:q} python -m pam.devices {resources.device} python -m pam train "
        "--cell {input.cell:q} --data {params.data:q} "
        "--out {params.out:q} --code {params.code:q} --device {resources.device}"
