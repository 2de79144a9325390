# One cell: its outputs on the test split, their scores, its alignments.


localrules:
    score_cell,


rule predict_cell:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        predictions=f"{CELL}/predictions.tsv",
        decoding=f"{CELL}/decoding.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/predict.log",
    conda:
        CONDA
    threads: asked("threads")
    resources:
        mem_mb=asked("mem_mb"),
        runtime=60,
        gpu=GPU,
        device=DEVICE,
    params:
        code=code_with_model("pam.verbs.predict"),
        beam=beam,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam.devices {resources.device} python -m pam predict "
        "--model {params.model:q} --data {params.data:q} --split test --beam {params.beam} "
        "--out {output.predictions:q} --record {output.decoding:q} --device {resources.device}"


rule attend_cell:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        f"{CELL}/attention.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/attend.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("mem_mb"),
        runtime=60,
    params:
        code=code_with_model("pam.verbs.attend"),
        words=EXPERIMENT.attention_words,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    shell:
        "logged {log:q} python -m pam attend --model {params.model:q} --data {params.data:q} "
        "--split test --count {params.words} --out {output:q}"


rule score_cell:
    input:
        predictions=f"{CELL}/predictions.tsv",
        decoding=f"{CELL}/decoding.json",
        training=f"{CELL}/training.json",
        cell=f"{CELL}/cell.yaml",
        split=f"{DATA}/test.tsv",
    output:
        f"{CELL}/scores.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/score.log",
    conda:
        CONDA
    params:
        code=fingerprint("pam.verbs.score"),
    shell:
        "logged {log:q} python -m pam score --predictions {input.predictions:q} "
        "--split {input.split:q} --cell {input.cell:q} --training {input.training:q} "
        "--decoding {input.decoding:q} --out {output:q}"
