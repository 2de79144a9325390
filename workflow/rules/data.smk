# From addresses to tensors, stage by stage.


localrules:
    fetch_data,
    prepare_word_alignments,


wildcard_constraints:
    dataset=r"[^/]+",
    content=r"[0-9a-f]+",
    task=r"[^/]+",


# The folder's name says what the files are (pam/data/identity.py), so that neither a time nor an
# input has to tell that they have changed.
rule fetch_data:
    output:
        # The files themselves are not declared, so that those at hand, the good ones of a download
        # that failed and those put there by hand, are kept.
        touch("data/{dataset}-{content}/.fetched"),
    log:
        "data/{dataset}-{content}/fetch.log",
    conda:
        CONDA
    params:
        source=untracked(job_inputs.source()),
        out=job_inputs.fetched_folder(),
    message:
        "Fetching {wildcards.dataset}"
    shell:
        "logged {log:q} python -m pam fetch --dataset {wildcards.dataset:q} {params.source:q} "
        "--out {params.out:q}"


# The last stage, which completes the data; the stages before it are the same rule.
rule prepare_data:
    input:
        job_inputs.before_stage(),
    output:
        data=files.prepared("train", "dev", "test"),
    log:
        f"{files.logs}/{{task}}/prepare.log",
    wildcard_constraints:
        task=files.training_tasks,
    conda:
        CONDA
    resources:
        mem_mb=job_resources.amount("data_mem_mb"),
        runtime=job_resources.amount("data_runtime"),
    params:
        code=job_inputs.stage_code(),
        options=job_inputs.stage_options(),
        format=untracked(job_inputs.format_text()),
        dataset=job_inputs.dataset(),
        source=untracked(job_inputs.fetched_source()),
        base=job_inputs.base_arguments(),
        out=output_folder("data"),
        stage=job_inputs.last_stage(),
    message:
        "Preparing {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.source:q} "
        "--format {params.format:q} --out {params.out:q} "
        "{params.base:q} --stage {params.stage}"


# The same for a task that takes over trained models: their symbols, and a test split alone.
use rule prepare_data as prepare_test with:
    output:
        data=files.prepared("dev", "test"),
    wildcard_constraints:
        task=files.tested_tasks,
    message:
        "Preparing the test split of {wildcards.task}"


use rule prepare_data as extract_text with:
    input:
        job_inputs.before_stage("extract"),
    output:
        data=directory(f"{files.data}/extract"),
    log:
        f"{files.logs}/{{task}}/extract.log",
    wildcard_constraints:
        task=r"[^/]+",
    params:
        code=job_inputs.stage_code("extract"),
        options=job_inputs.stage_options("extract"),
        stage="extract",
    message:
        "Extracting the sentences of {wildcards.task}"


use rule prepare_data as tokenize_text with:
    input:
        job_inputs.before_stage("tokenize"),
    output:
        data=directory(f"{files.data}/tokenize"),
    log:
        f"{files.logs}/{{task}}/tokenize.log",
    wildcard_constraints:
        task=r"[^/]+",
    params:
        code=job_inputs.stage_code("tokenize"),
        options=job_inputs.stage_options("tokenize"),
        stage="tokenize",
    message:
        "Tokenizing {wildcards.task}"


use rule prepare_data as segment_text with:
    input:
        job_inputs.before_stage("segment"),
    output:
        data=directory(f"{files.data}/segment"),
    log:
        f"{files.logs}/{{task}}/segment.log",
    wildcard_constraints:
        task=r"[^/]+",
    params:
        code=job_inputs.stage_code("segment"),
        options=job_inputs.stage_options("segment"),
        stage="segment",
    message:
        "Segmenting the words of {wildcards.task}"


rule prepare_word_alignments:
    input:
        mark=job_inputs.fetched_gold(),
        data=files.prepared("train"),
    output:
        gold=files.prepared_gold(),
    log:
        f"{files.logs}/{{task}}/word_alignments.log",
    conda:
        CONDA
    params:
        code=job_inputs.gold_code(),
        options=job_inputs.gold_options(),
        dataset=job_inputs.gold_dataset(),
        source=untracked(job_inputs.fetched_gold_source()),
        data=input_folder("data"),
        out=output_folder("gold"),
    message:
        "Preparing word alignments for {wildcards.task}"
    shell:
        "logged {log:q} python -m pam word-alignments --dataset {params.dataset:q} "
        "{params.source:q} --data {params.data:q} --out {params.out:q}"
