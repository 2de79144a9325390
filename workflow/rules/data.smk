# From addresses to tensors, stage by stage.


localrules:
    fetch_data,
    prepare_word_alignments,


wildcard_constraints:
    dataset=r"[^/]+",
    task=r"[^/]+",


rule fetch_data:
    input:
        # Files of the repository stay where they are, also where results go to a storage provider.
        lambda wildcards: [local(file) for file in job_inputs.local_files()(wildcards)],
    output:
        # The files themselves are not declared, so that those at hand, the good ones of a download
        # that failed and those put there by hand, are kept.
        touch("data/{dataset}/.fetched"),
    log:
        "data/{dataset}/fetch.log",
    conda:
        CONDA
    params:
        entry=job_inputs.identity_of_files(),
        registries=job_inputs.registry_arguments(),
    message:
        "Fetching {wildcards.dataset}"
    shell:
        "logged {log:q} python -m pam fetch --dataset {wildcards.dataset:q} {params.registries:q} "
        "--out data/{wildcards.dataset:q}"


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
        registries=job_inputs.registry_arguments(),
        base=job_inputs.base_arguments(),
        out=output_folder("data"),
        stage=job_inputs.last_stage(),
    message:
        "Preparing {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--format {params.format:q} --raw data/{params.dataset:q} --out {params.out:q} "
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
        registries=job_inputs.registry_arguments(),
        data=input_folder("data"),
        out=output_folder("gold"),
    message:
        "Preparing word alignments for {wildcards.task}"
    shell:
        "logged {log:q} python -m pam word-alignments --dataset {params.dataset:q} "
        "{params.registries:q} --raw data/{params.dataset:q} --data {params.data:q} "
        "--out {params.out:q}"
