# One run: its outputs on the test split, its analyses, their scores; one seed: models compared.


localrules:
    score_run,
    score_dev,
    score_gold,


rule predict_run:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        run=f"{RUN}/beam{{beam}}/decoded.yaml",
        predictions=f"{RUN}/beam{{beam}}/predictions.tsv",
        decoding=f"{RUN}/beam{{beam}}/decoding.json",
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
        code=code_with_model("pam.commands.predict"),
        split="test",
        beam=lambda wildcards: wildcards.beam,
        decoding=decoding,
        run=run_as_it_is,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, "
        "beam {wildcards.beam}"
    shell:
        "printf %s {params.run:q} > {output.run:q} && "
        "logged {log:q} python -m pam.devices --gpus {resources.gpu} {resources.device} "
        "python -m pam predict --model {params.model:q} --data {params.data:q} "
        "--split {params.split:q} --run {output.run:q} --beam {params.beam} "
        "--out {output.predictions:q} --record {output.decoding:q} --device {resources.device}"


rule attend_run:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        f"{RUN}/attention.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/attend.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("mem_mb"),
        runtime=asked("decode_runtime"),
    params:
        code=code_with_model("pam.commands.attention"),
        rows=EXPERIMENT.attention_words,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    shell:
        "logged {log:q} python -m pam attend --model {params.model:q} --data {params.data:q} "
        "--split test --count {params.rows} --out {output:q}"


rule analyze_run:
    input:
        model=trained(),
        data=prepared("test"),
    output:
        f"{RUN}/analysis.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/analyze.log",
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
        code=code_with_model("pam.commands.analyze"),
        split="test",
        batch_size=batch_size,
        model=folder_of_input("model"),
        data=folder_of_input("data"),
    message:
        "Analyzing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam.devices --gpus {resources.gpu} {resources.device} "
        "python -m pam analyze --model {params.model:q} --data {params.data:q} "
        "--split {params.split:q} --batch-size {params.batch_size} --out {output:q} "
        "--device {resources.device}"


use rule analyze_run as analyze_gold with:
    input:
        model=trained(),
        data=prepared_gold(),
    output:
        f"{RUN}/gold_analysis.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/analyze_gold.log",
    params:
        split="gold",
    message:
        "Aligning with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"


rule score_run:
    input:
        predictions=by_beam("predictions.tsv"),
        decoding=by_beam("decoding.json"),
        analysis=analysis,
        training=f"{RUN}/training.json",
        run=f"{RUN}/run.yaml",
        data=prepared("test"),
    output:
        f"{RUN}/scores.json",
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
        "--split {params.split:q} --run {input.run:q} --training {input.training:q} "
        "--out {output:q}"


rule score_gold:
    input:
        analysis=f"{RUN}/gold_analysis.json",
        training=f"{RUN}/training.json",
        run=f"{RUN}/run.yaml",
        data=prepared_gold(),
    output:
        f"{RUN}/gold_scores.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/score_gold.log",
    conda:
        CONDA
    params:
        code=fingerprint("pam.commands.score"),
        data=folder_of_input("data"),
    shell:
        "logged {log:q} python -m pam score --analysis {input.analysis:q} --data {params.data:q} "
        "--split gold --run {input.run:q} --training {input.training:q} --out {output:q}"


use rule predict_run as predict_dev with:
    input:
        model=trained(),
        data=prepared("dev"),
    output:
        run=f"{RUN}/dev/decoded.yaml",
        predictions=f"{RUN}/dev/predictions.tsv",
        decoding=f"{RUN}/dev/decoding.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/predict_dev.log",
    params:
        split="dev",
        beam=main_beam,
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


use rule analyze_run as analyze_dev with:
    input:
        model=trained(),
        data=prepared("dev"),
    output:
        f"{RUN}/dev/analysis.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/analyze_dev.log",
    params:
        split="dev",
    message:
        "Analyzing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


use rule score_run as score_dev with:
    input:
        predictions=f"{RUN}/dev/predictions.tsv",
        decoding=f"{RUN}/dev/decoding.json",
        analysis=[f"{RUN}/dev/analysis.json"],
        training=f"{RUN}/training.json",
        run=f"{RUN}/run.yaml",
        data=prepared("dev"),
    output:
        f"{RUN}/dev/scores.json",
    log:
        f"{LOGS}/{{task}}/{{model}}/seed{{seed}}/score_dev.log",
    params:
        split="dev",


rule test_significance:
    input:
        base=of_models(baseline, "beam{beam}/predictions.tsv"),
        systems=of_models(others, "beam{beam}/predictions.tsv"),
        runs=of_models(EXPERIMENT.models_of, "run.yaml"),
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
        code=fingerprint("pam.commands.significance"),
        beam=main_beam,
        data=folder_of_input("data"),
    message:
        "Testing models against {input.base} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam significance --baseline {input.base:q} "
        "--systems {input.systems:q} --data {params.data:q} --beam {params.beam} --out {output:q}"
