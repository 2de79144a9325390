# From addresses to tensors.


localrules:
    fetch_data,


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


rule prepare_data:
    input:
        fetched,
    output:
        data=prepared("train", "dev", "test"),
    log:
        f"{LOGS}/{{task}}/prepare.log",
    conda:
        CONDA
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        code=data_code,
        entry=meaning_of_data,
        dataset=dataset_of,
        registries=registries,
        out=folder_of_output("data"),
    message:
        "Preparing {wildcards.task}"
    shell:
        "logged {log:q} python -m pam prepare --dataset {params.dataset:q} {params.registries:q} "
        "--raw data/{params.dataset:q} --out {params.out:q}"
