# One cell: its outputs on the test split, its analyses, their scores; one seed: models compared.


localrules:
    score_cell,
    score_dev,
    score_gold,


rule predict_cell:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        cell=f"{CELL}/beam{{beam}}/decoded.yaml",
        predictions=f"{CELL}/beam{{beam}}/predictions.tsv",
        decoding=f"{CELL}/beam{{beam}}/decoding.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/predict_beam{{beam}}.log",
    conda:
        CONDA
    threads: asked("threads")
    resources:
        mem_mb=asked("mem_mb"),
        runtime=asked("decode_runtime"),
        gpu=asked_gpu,
        gpu_model=asked_gpu_model,
        device=asked_device,
    params:
        code=code_with_model("pam.verbs.predict"),
        split="test",
        beam=lambda wildcards: wildcards.beam,
        decoding=decoding,
        cell=cell_as_it_is,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, "
        "beam {wildcards.beam}"
    shell:
        "printf %s {params.cell:q} > {output.cell:q} && "
        "logged {log:q} python -m pam.devices --gpus {resources.gpu} {resources.device} "
        "python -m pam predict --model {params.model:q} --data {params.data:q} "
        "--split {params.split:q} --cell {output.cell:q} --beam {params.beam} "
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
        runtime=asked("decode_runtime"),
    params:
        code=code_with_model("pam.verbs.attend"),
        rows=EXPERIMENT.attention_words,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    shell:
        "logged {log:q} python -m pam attend --model {params.model:q} --data {params.data:q} "
        "--split test --count {params.rows} --out {output:q}"


rule analyse_cell:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        f"{CELL}/analysis.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/analyse.log",
    conda:
        CONDA
    threads: asked("threads")
    resources:
        mem_mb=asked("mem_mb"),
        runtime=asked("decode_runtime"),
        gpu=asked_gpu,
        gpu_model=asked_gpu_model,
        device=asked_device,
    params:
        code=code_with_model("pam.verbs.analyse"),
        split="test",
        batch_size=batch_size,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    message:
        "Analysing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam.devices --gpus {resources.gpu} {resources.device} "
        "python -m pam analyse --model {params.model:q} --data {params.data:q} "
        "--split {params.split:q} --batch-size {params.batch_size} --out {output:q} "
        "--device {resources.device}"


use rule analyse_cell as analyse_gold with:
    input:
        model=trained(),
        data=prepared_gold(),
    output:
        f"{CELL}/gold_analysis.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/analyse_gold.log",
    params:
        split="gold",
    message:
        "Aligning with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"


rule score_cell:
    input:
        predictions=by_beam("predictions.tsv"),
        decoding=by_beam("decoding.json"),
        analysis=analysis,
        training=f"{CELL}/training.json",
        cell=f"{CELL}/cell.yaml",
        data=prepared("test"),
    output:
        f"{CELL}/scores.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/score.log",
    conda:
        CONDA
    params:
        code=scoring_code,
        split="test",
        analysis=analysis_option,
        data=folder_of_input("data"),
    shell:
        "logged {log:q} python -m pam score --predictions {input.predictions:q} "
        "--decoding {input.decoding:q} {params.analysis:q} --data {params.data:q} "
        "--split {params.split:q} --cell {input.cell:q} --training {input.training:q} "
        "--out {output:q}"


rule score_gold:
    input:
        analysis=f"{CELL}/gold_analysis.json",
        training=f"{CELL}/training.json",
        cell=f"{CELL}/cell.yaml",
        data=prepared_gold(),
    output:
        f"{CELL}/gold_scores.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/score_gold.log",
    conda:
        CONDA
    params:
        code=fingerprint("pam.verbs.score", "pam.scoring.kinds.alignment"),
        data=folder_of_input("data"),
    shell:
        "logged {log:q} python -m pam score --analysis {input.analysis:q} --data {params.data:q} "
        "--split gold --cell {input.cell:q} --training {input.training:q} --out {output:q}"


use rule predict_cell as predict_dev with:
    input:
        model=trained(),
        data=prepared("dev"),
    output:
        cell=f"{CELL}/dev/decoded.yaml",
        predictions=f"{CELL}/dev/predictions.tsv",
        decoding=f"{CELL}/dev/decoding.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/predict_dev.log",
    params:
        split="dev",
        beam=main_beam,
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


use rule analyse_cell as analyse_dev with:
    input:
        model=trained(),
        data=prepared("dev"),
    output:
        f"{CELL}/dev/analysis.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/analyse_dev.log",
    params:
        split="dev",
    message:
        "Analysing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


use rule score_cell as score_dev with:
    input:
        predictions=f"{CELL}/dev/predictions.tsv",
        decoding=f"{CELL}/dev/decoding.json",
        analysis=[f"{CELL}/dev/analysis.json"],
        training=f"{CELL}/training.json",
        cell=f"{CELL}/cell.yaml",
        data=prepared("dev"),
    output:
        f"{CELL}/dev/scores.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/score_dev.log",
    params:
        split="dev",


rule test_significance:
    input:
        base=of_models(baseline, "beam{beam}/predictions.tsv"),
        systems=of_models(others, "beam{beam}/predictions.tsv"),
        cells=of_models(EXPERIMENT.models_of, "cell.yaml"),
        data=prepared("test"),
    output:
        f"{RESULTS}/{{task}}/significance/seed{{seed}}.json",
    log:
        f"{LOGS}/{{task}}/significance_seed{{seed}}.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("mem_mb"),
        runtime=asked("decode_runtime"),
    params:
        code=fingerprint("pam.verbs.significance"),
        beam=main_beam,
        data=folder_of_input("data"),
    message:
        "Testing models against {input.base} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam significance --baseline {input.base:q} "
        "--systems {input.systems:q} --data {params.data:q} --beam {params.beam} --out {output:q}"
