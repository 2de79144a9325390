# One run: its outputs, its analyses, their scores; one seed: models compared.


localrules:
    score_run,
    score_dev,
    score_word_alignments,
    score_control,


wildcard_constraints:
    beam=r"\d+",
    control=r"[^/]+",


rule predict_run:
    input:
        model=flow.run.model_files,
        data=flow.prepared("test"),
        penalty=flow.chosen_penalty,
    output:
        predictions=flow.run.predictions("test", "{beam}"),
        decoding=flow.run.decoding("test", "{beam}"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/predict_beam{{beam}}.log",
    conda:
        CONDA
    threads: flow.resource("threads")
    resources:
        mem_mb=flow.resource("mem_mb"),
        runtime=flow.resource("decode_runtime"),
        gpu=flow.gpu,
        gpu_model=flow.gpu_model,
        device=flow.device,
    params:
        code=flow.run_code("predict"),
        decoding=flow.decoding,
        config=flow.config_argument,
        run=lambda wildcards, input: os.path.dirname(folder_of(input.model)),
        split="test",
        beam=lambda wildcards: wildcards.beam,
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, "
        "beam {wildcards.beam}"
    shell:
        "logged {log:q} python -m pam.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam predict --run {params.run:q} --config {params.config:q} "
        "--split {params.split:q} --beam {params.beam} --device {resources.device}"


# The candidate that is best on the development split.
rule choose_length_penalty:
    input:
        model=flow.run.model_files,
        data=flow.prepared("dev"),
    output:
        flow.run.length_penalty("{beam}"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/length_penalty_beam{{beam}}.log",
    conda:
        CONDA
    threads: flow.resource("threads")
    resources:
        mem_mb=flow.resource("mem_mb"),
        runtime=flow.resource("decode_runtime"),
        gpu=flow.gpu,
        gpu_model=flow.gpu_model,
        device=flow.device,
    params:
        code=flow.run_code("length-penalty"),
        decoding=flow.decoding,
        penalties=flow.length_penalties,
        config=flow.config_argument,
        run=lambda wildcards, input: os.path.dirname(folder_of(input.model)),
        beam=lambda wildcards: wildcards.beam,
    message:
        "Choosing the length penalty of {wildcards.model} on {wildcards.task}, "
        "seed {wildcards.seed}, beam {wildcards.beam}"
    shell:
        "logged {log:q} python -m pam.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam length-penalty --run {params.run:q} --config {params.config:q} "
        "--beam {params.beam} --device {resources.device}"


use rule predict_run as predict_dev with:
    input:
        model=flow.run.model_files,
        data=flow.prepared("dev"),
        penalty=flow.chosen_penalty,
    output:
        predictions=flow.run.predictions("dev"),
        decoding=flow.run.decoding("dev"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/predict_dev.log",
    params:
        split="dev",
        beam=flow.main_beam,
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


rule attention_run:
    input:
        model=flow.run.model_files,
        data=flow.prepared("test"),
    output:
        flow.run.attention,
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/attention.log",
    conda:
        CONDA
    resources:
        mem_mb=flow.resource("mem_mb"),
        runtime=flow.resource("decode_runtime"),
    params:
        code=flow.run_code("attention"),
        run=lambda wildcards, input: os.path.dirname(folder_of(input.model)),
        rows=EXPERIMENT.attention_words,
    shell:
        "logged {log:q} python -m pam attention --run {params.run:q} --count {params.rows}"


rule analyze_run:
    input:
        model=flow.run.model_files,
        data=flow.prepared("test"),
    output:
        flow.run.analysis("test"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/analyze.log",
    conda:
        CONDA
    threads: flow.resource("threads")
    resources:
        mem_mb=flow.resource("mem_mb"),
        runtime=flow.resource("decode_runtime"),
        gpu=flow.gpu,
        gpu_model=flow.gpu_model,
        device=flow.device,
    params:
        code=flow.run_code("analyze"),
        batch_size=lambda wildcards: flow.run_config(wildcards).decoding.batch_size,
        run=lambda wildcards, input: os.path.dirname(folder_of(input.model)),
        split="test",
    message:
        "Analyzing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam analyze --run {params.run:q} --split {params.split:q} "
        "--batch-size {params.batch_size} --device {resources.device}"


use rule analyze_run as analyze_dev with:
    input:
        model=flow.run.model_files,
        data=flow.prepared("dev"),
    output:
        flow.run.analysis("dev"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/analyze_dev.log",
    params:
        split="dev",
    message:
        "Analyzing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


use rule analyze_run as analyze_word_alignments with:
    input:
        model=flow.run.model_files,
        data=flow.prepared_gold(),
    output:
        flow.run.analysis("gold"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/analyze_word_alignments.log",
    params:
        split="gold",
    message:
        "Aligning with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"


rule score_run:
    input:
        run=flow.run.config_file,
        training=flow.run.training,
        data=flow.prepared("test"),
        predictions=flow.outputs_by_beam("predictions.tsv"),
        decoding=flow.outputs_by_beam("decoding.json"),
        analysis=flow.analysis,
    output:
        flow.run.scores("test"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/score.log",
    conda:
        CONDA
    params:
        code=lambda wildcards: flow.code("score", flow.kinds[wildcards.task]),
        run=input_folder("run"),
        split="test",
    shell:
        "logged {log:q} python -m pam score --run {params.run:q} --split {params.split:q}"


use rule score_run as score_dev with:
    input:
        run=flow.run.config_file,
        training=flow.run.training,
        data=flow.prepared("dev"),
        predictions=flow.run.predictions("dev"),
        decoding=flow.run.decoding("dev"),
        analysis=flow.run.analysis("dev"),
    output:
        flow.run.scores("dev"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/score_dev.log",
    params:
        split="dev",


use rule score_run as score_word_alignments with:
    input:
        run=flow.run.config_file,
        training=flow.run.training,
        data=flow.prepared_gold(),
        analysis=flow.run.analysis("gold"),
    output:
        flow.run.scores("gold"),
    log:
        f"{flow.logs}/{{task}}/{{model}}/seed{{seed}}/score_word_alignments.log",
    params:
        code=flow.code("score", "alignment"),
        split="gold",


# Of outputs that no model made, such as the first sentences of a text.
rule score_control:
    input:
        data=flow.prepared("test"),
    output:
        predictions=f"{flow.controls()}/predictions.tsv",
        scores=f"{flow.controls()}/scores.json",
    log:
        f"{flow.logs}/{{task}}/controls/{{control}}.log",
    conda:
        CONDA
    params:
        code=lambda wildcards: flow.code("control", flow.kinds[wildcards.task]),
        data=input_folder("data"),
        out=output_folder("scores"),
        experiment=EXPERIMENT.experiment,
    message:
        "Scoring {wildcards.control} on {wildcards.task}"
    shell:
        "logged {log:q} python -m pam control --name {wildcards.control:q} --data {params.data:q} "
        "--experiment {params.experiment:q} --task {wildcards.task:q} --out {params.out:q}"


rule test_significance:
    input:
        baseline=flow.of_models(flow.baseline, "run.yaml", "beam{beam}/predictions.tsv"),
        systems=flow.of_models(flow.compared, "run.yaml", "beam{beam}/predictions.tsv"),
        data=flow.prepared("test"),
    output:
        f"{flow.results}/{{task}}/significance/seed{{seed}}.json",
    log:
        f"{flow.logs}/{{task}}/significance_seed{{seed}}.log",
    conda:
        CONDA
    resources:
        mem_mb=flow.resource("mem_mb"),
        runtime=flow.resource("decode_runtime"),
    params:
        code=flow.code("significance"),
        baseline=input_folder("baseline"),
        systems=input_folders("systems", "run.yaml"),
    message:
        "Testing models against {params.baseline} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam significance --baseline {params.baseline:q} "
        "--systems {params.systems:q} --out {output:q}"
