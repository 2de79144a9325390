# From addresses to tensors, stage by stage.


localrules:
    fetch_data,
    prepare_gold,


rule fetch_data:
    input:
        local_files,
    output:
        # The files themselves are not declared, so that those at hand, the good ones of a download
        # that failed and those put there by hand, are kept.
        touch("data/{dataset}/.fetched"),
    log:
        "data/{dataset}/fetch.log",
    conda:
        CONDA
    params:
        entry=identity_of_data,
        registries=registries,
    message:
        "Fetching {wildcards.dataset}"
    shell:
        "logged {log:q} python -m pam fetch --dataset {wildcards.dataset:q} {params.registries:q} "
        "--out data/{wildcards.dataset:q}"


rule extract_text:
    input:
        before("extract"),
    output:
        directory(f"{DATA}/extract"),
    log:
        f"{LOGS}/{{task}}/extract.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("data_mem_mb"),
        runtime=asked("data_runtime"),
    params:
        code=stage_code("extract"),
        entry=stage_format("extract"),
        format=format_as_it_is,
        dataset=dataset_of,
        registries=registries,
        out=folder_around_output,
    message:
        "Extracting the sentences of {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--format {params.format:q} --raw data/{params.dataset:q} --out {params.out:q} "
        "--stage extract"


rule tokenize_text:
    input:
        before("tokenize"),
    output:
        directory(f"{DATA}/tokenize"),
    log:
        f"{LOGS}/{{task}}/tokenize.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("data_mem_mb"),
        runtime=asked("data_runtime"),
    params:
        code=stage_code("tokenize"),
        entry=stage_format("tokenize"),
        format=format_as_it_is,
        dataset=dataset_of,
        registries=registries,
        out=folder_around_output,
    message:
        "Tokenizing of {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--format {params.format:q} --raw data/{params.dataset:q} --out {params.out:q} "
        "--stage tokenize"


rule segment_text:
    input:
        before("segment"),
    output:
        directory(f"{DATA}/segment"),
    log:
        f"{LOGS}/{{task}}/segment.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("data_mem_mb"),
        runtime=asked("data_runtime"),
    params:
        code=stage_code("segment"),
        entry=stage_format("segment"),
        format=format_as_it_is,
        dataset=dataset_of,
        registries=registries,
        out=folder_around_output,
    message:
        "Segmenting the words of {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--format {params.format:q} --raw data/{params.dataset:q} --out {params.out:q} "
        "--stage segment"


rule prepare_data:
    input:
        before(),
    output:
        data=prepared("train", "dev", "test"),
    log:
        f"{LOGS}/{{task}}/prepare.log",
    conda:
        CONDA
    resources:
        mem_mb=asked("data_mem_mb"),
        runtime=asked("data_runtime"),
    params:
        code=stage_code(),
        entry=stage_format(),
        format=format_as_it_is,
        dataset=dataset_of,
        registries=registries,
        out=folder_of_output("data"),
        stage=stage_name,
    message:
        "Preparing {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--format {params.format:q} --raw data/{params.dataset:q} --out {params.out:q} "
        "--stage {params.stage}"


rule prepare_gold:
    input:
        mark=fetched_gold,
        data=prepared("train"),
    output:
        gold=prepared_gold(),
    log:
        f"{LOGS}/{{task}}/gold.log",
    conda:
        CONDA
    params:
        code=gold_code,
        entry=meaning_of_gold,
        dataset=gold_of,
        registries=registries,
        data=folder_of_input("data"),
        out=folder_of_output("gold"),
    message:
        "Preparing word alignments for {wildcards.task}"
    shell:
        "logged {log:q} python -m pam gold --dataset {params.dataset:q} {params.registries:q} "
        "--raw data/{params.dataset:q} --data {params.data:q} --out {params.out:q}"
