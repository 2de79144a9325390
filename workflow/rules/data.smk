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
        lambda wildcards: [local(file) for file in flow.local_files(wildcards)],
    output:
        # The files themselves are not declared, so that those at hand, the good ones of a download
        # that failed and those put there by hand, are kept.
        touch("data/{dataset}/.fetched"),
    log:
        "data/{dataset}/fetch.log",
    conda:
        CONDA
    params:
        entry=flow.identity_of_files,
        registries=flow.registries,
    message:
        "Fetching {wildcards.dataset}"
    shell:
        "logged {log:q} python -m pam fetch --dataset {wildcards.dataset:q} {params.registries:q} "
        "--out data/{wildcards.dataset:q}"


# The last stage, which completes the data; the stages before it are the same rule.
rule prepare_data:
    input:
        flow.before(),
    output:
        data=flow.prepared("train", "dev", "test"),
    log:
        f"{flow.logs}/{{task}}/prepare.log",
    wildcard_constraints:
        task=flow.teaching,
    conda:
        CONDA
    resources:
        mem_mb=flow.resource("data_mem_mb"),
        runtime=flow.resource("data_runtime"),
    params:
        code=flow.stage_code(),
        options=flow.stage_options(),
        format=flow.format_argument,
        dataset=flow.dataset_of,
        registries=flow.registries,
        base=flow.base_argument,
        out=output_folder("data"),
        stage=flow.last_stage,
    message:
        "Preparing {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--format {params.format:q} --raw data/{params.dataset:q} --out {params.out:q} "
        "{params.base:q} --stage {params.stage}"


# The same for a task that takes over trained models: their symbols, and a test split alone.
use rule prepare_data as prepare_test with:
    output:
        data=flow.prepared("dev", "test"),
    wildcard_constraints:
        task=flow.tested,
    message:
        "Preparing {wildcards.task}, to be tested on"


use rule prepare_data as extract_text with:
    input:
        flow.before("extract"),
    output:
        data=directory(f"{flow.data}/extract"),
    log:
        f"{flow.logs}/{{task}}/extract.log",
    wildcard_constraints:
        task=r"[^/]+",
    params:
        code=flow.stage_code("extract"),
        options=flow.stage_options("extract"),
        stage="extract",
    message:
        "Extracting the sentences of {wildcards.task}"


use rule prepare_data as tokenize_text with:
    input:
        flow.before("tokenize"),
    output:
        data=directory(f"{flow.data}/tokenize"),
    log:
        f"{flow.logs}/{{task}}/tokenize.log",
    wildcard_constraints:
        task=r"[^/]+",
    params:
        code=flow.stage_code("tokenize"),
        options=flow.stage_options("tokenize"),
        stage="tokenize",
    message:
        "Tokenizing of {wildcards.task}"


use rule prepare_data as segment_text with:
    input:
        flow.before("segment"),
    output:
        data=directory(f"{flow.data}/segment"),
    log:
        f"{flow.logs}/{{task}}/segment.log",
    wildcard_constraints:
        task=r"[^/]+",
    params:
        code=flow.stage_code("segment"),
        options=flow.stage_options("segment"),
        stage="segment",
    message:
        "Segmenting the words of {wildcards.task}"


rule prepare_word_alignments:
    input:
        mark=lambda wildcards: f"data/{flow.gold_of(wildcards)}/.fetched",
        data=flow.prepared("train"),
    output:
        gold=flow.prepared_gold(),
    log:
        f"{flow.logs}/{{task}}/word_alignments.log",
    conda:
        CONDA
    params:
        code=flow.gold_code,
        options=flow.gold_options,
        dataset=flow.gold_of,
        registries=flow.registries,
        data=input_folder("data"),
        out=output_folder("gold"),
    message:
        "Preparing word alignments for {wildcards.task}"
    shell:
        "logged {log:q} python -m pam word-alignments --dataset {params.dataset:q} "
        "{params.registries:q} --raw data/{params.dataset:q} --data {params.data:q} "
        "--out {params.out:q}"
