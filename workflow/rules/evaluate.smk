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
        model=files.run.model_files,
        data=files.prepared("test"),
        penalty=job_inputs.chosen_penalty(),
    output:
        predictions=files.run.predictions("test", "{beam}"),
        decoding=files.run.decoding("test", "{beam}"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/predict_beam{{beam}}.log",
    conda:
        CONDA
    threads: job_resources.amount("threads")
    resources:
        mem_mb=job_resources.amount("mem_mb"),
        runtime=job_resources.amount("decode_runtime"),
        gpu=job_resources.gpu(),
        gpu_model=job_resources.gpu_model(),
        device=job_resources.device(),
    params:
        code=job_inputs.run_code("predict"),
        decoding=job_inputs.decoding(),
        config=untracked(job_inputs.run_text()),
        run=input_folder("model", above=True),
        split="test",
        beam=lambda wildcards: wildcards.beam,
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, "
        "beam {wildcards.beam}"
    shell:
        "logged {log:q} python -m pam.experiments.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam predict --run {params.run:q} --config {params.config:q} "
        "--split {params.split:q} --beam {params.beam} --device {resources.device}"


# The candidate that is best on the development split.
rule choose_length_penalty:
    input:
        model=files.run.model_files,
        data=files.prepared("dev"),
    output:
        files.run.length_penalty("{beam}"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/length_penalty_beam{{beam}}.log",
    conda:
        CONDA
    threads: job_resources.amount("threads")
    resources:
        mem_mb=job_resources.amount("mem_mb"),
        runtime=job_resources.amount("decode_runtime"),
        gpu=job_resources.gpu(),
        gpu_model=job_resources.gpu_model(),
        device=job_resources.device(),
    params:
        code=job_inputs.run_code("length-penalty"),
        decoding=job_inputs.decoding(),
        penalties=job_inputs.length_penalties(),
        config=untracked(job_inputs.run_text()),
        run=input_folder("model", above=True),
        beam=lambda wildcards: wildcards.beam,
    message:
        "Choosing the length penalty of {wildcards.model} on {wildcards.task}, "
        "seed {wildcards.seed}, beam {wildcards.beam}"
    shell:
        "logged {log:q} python -m pam.experiments.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam length-penalty --run {params.run:q} --config {params.config:q} "
        "--beam {params.beam} --device {resources.device}"


use rule predict_run as predict_dev with:
    input:
        model=files.run.model_files,
        data=files.prepared("dev"),
        penalty=job_inputs.chosen_penalty(),
    output:
        predictions=files.run.predictions("dev"),
        decoding=files.run.decoding("dev"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/predict_dev.log",
    params:
        split="dev",
        beam=job_inputs.main_beam(),
    message:
        "Decoding with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


rule attention_run:
    input:
        model=files.run.model_files,
        data=files.prepared("test"),
    output:
        files.run.attention,
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/attention.log",
    conda:
        CONDA
    resources:
        mem_mb=job_resources.amount("mem_mb"),
        runtime=job_resources.amount("decode_runtime"),
    params:
        code=job_inputs.run_code("attention"),
        run=input_folder("model", above=True),
        rows=EXPERIMENT.attention_words,
    shell:
        "logged {log:q} python -m pam attention --run {params.run:q} --count {params.rows}"


rule analyze_run:
    input:
        model=files.run.model_files,
        data=files.prepared("test"),
    output:
        files.run.analysis("test"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/analyze.log",
    conda:
        CONDA
    threads: job_resources.amount("threads")
    resources:
        mem_mb=job_resources.amount("mem_mb"),
        runtime=job_resources.amount("decode_runtime"),
        gpu=job_resources.gpu(),
        gpu_model=job_resources.gpu_model(),
        device=job_resources.device(),
    params:
        code=job_inputs.run_code("analyze"),
        batch_size=job_inputs.batch_size(),
        run=input_folder("model", above=True),
        split="test",
    message:
        "Analyzing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam.experiments.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam analyze --run {params.run:q} --split {params.split:q} "
        "--batch-size {params.batch_size} --device {resources.device}"


use rule analyze_run as analyze_dev with:
    input:
        model=files.run.model_files,
        data=files.prepared("dev"),
    output:
        files.run.analysis("dev"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/analyze_dev.log",
    params:
        split="dev",
    message:
        "Analyzing {wildcards.model} on {wildcards.task}, seed {wildcards.seed}, development"


use rule analyze_run as analyze_word_alignments with:
    input:
        model=files.run.model_files,
        data=files.prepared_gold(),
    output:
        files.run.analysis("gold"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/analyze_word_alignments.log",
    params:
        split="gold",
    message:
        "Aligning with {wildcards.model} on {wildcards.task}, seed {wildcards.seed}"


rule score_run:
    input:
        run=files.run.config_file,
        training=files.run.training,
        data=files.prepared("test"),
        predictions=job_inputs.outputs_by_beam("predictions.tsv"),
        decoding=job_inputs.outputs_by_beam("decoding.json"),
        analysis=job_inputs.analysis(),
    output:
        files.run.scores("test"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/score.log",
    conda:
        CONDA
    params:
        code=job_inputs.task_code("score"),
        run=input_folder("run"),
        split="test",
    shell:
        "logged {log:q} python -m pam score --run {params.run:q} --split {params.split:q}"


use rule score_run as score_dev with:
    input:
        run=files.run.config_file,
        training=files.run.training,
        data=files.prepared("dev"),
        predictions=files.run.predictions("dev"),
        decoding=files.run.decoding("dev"),
        analysis=files.run.analysis("dev"),
    output:
        files.run.scores("dev"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/score_dev.log",
    params:
        split="dev",


use rule score_run as score_word_alignments with:
    input:
        run=files.run.config_file,
        training=files.run.training,
        data=files.prepared_gold(),
        analysis=files.run.analysis("gold"),
    output:
        files.run.scores("gold"),
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/score_word_alignments.log",
    params:
        code=job_inputs.code("score", "alignment"),
        split="gold",


# Of outputs that no model made, such as the first sentences of a text.
rule score_control:
    input:
        data=files.prepared("test"),
    output:
        predictions=f"{files.controls}/predictions.tsv",
        scores=f"{files.controls}/scores.json",
    log:
        f"{files.logs}/{{task}}/controls/{{control}}.log",
    conda:
        CONDA
    params:
        code=job_inputs.task_code("control"),
        data=input_folder("data"),
        out=output_folder("scores"),
        experiment=EXPERIMENT.experiment,
        plugins=job_inputs.plugins,
    message:
        "Scoring {wildcards.control} on {wildcards.task}"
    shell:
        "logged {log:q} python -m pam control --name {wildcards.control:q} --data {params.data:q} "
        "--experiment {params.experiment:q} --task {wildcards.task:q} --out {params.out:q} {params.plugins:q}"


rule test_significance:
    input:
        baseline=job_inputs.of_models(files.baseline, "run.yaml", "beam{beam}/predictions.tsv"),
        systems=job_inputs.of_models(files.compared, "run.yaml", "beam{beam}/predictions.tsv"),
        data=files.prepared("test"),
    output:
        f"{files.results}/{{task}}/significance/seed{{seed}}.json",
    log:
        f"{files.logs}/{{task}}/significance_seed{{seed}}.log",
    conda:
        CONDA
    resources:
        mem_mb=job_resources.amount("mem_mb"),
        runtime=job_resources.amount("decode_runtime"),
    params:
        code=job_inputs.code("significance"),
        baseline=input_folder("baseline"),
        systems=input_folders("systems", "run.yaml"),
    message:
        "Testing models against {params.baseline} on {wildcards.task}, seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam significance --baseline {params.baseline:q} "
        "--systems {params.systems:q} --out {output:q}"
