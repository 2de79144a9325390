# Links between the words of the training text: by models of both directions, and by programs.


wildcard_constraints:
    program="eflomal|fast_align",


rule align_text:
    input:
        model=files.run.model_files,
        others=job_inputs.aligned_by(),
    output:
        links=f"{files.run.path}/links.txt",
        record=files.run.alignment_record,
    log:
        f"{files.logs}/{{task}}/{{model}}/seed{{seed}}/align.log",
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
        code=job_inputs.run_code("align"),
        run=input_folder("model", above=True),
        options=job_inputs.alignment_options(),
    message:
        "Aligning the training text of {wildcards.task} by {wildcards.model}, "
        "seed {wildcards.seed}"
    shell:
        "logged {log:q} python -m pam.experiments.jobs --gpus {resources.gpu} {resources.device} "
        "python -m pam align --run {params.run:q} {params.options:q} "
        "--device {resources.device} --out {output.links:q} --record {output.record:q}"


# A program that is not installed leaves the reason in the record, and the table tells it.
rule align_by_program:
    input:
        job_inputs.aligned_by(),
    output:
        links=f"{files.aligners}/{{program}}.txt",
        record=f"{files.aligners}/{{program}}.json",
    log:
        f"{files.logs}/{{task}}/align_{{program}}.log",
    conda:
        CONDA
    resources:
        mem_mb=job_resources.amount("data_mem_mb"),
        runtime=job_resources.amount("data_runtime"),
    params:
        code=job_inputs.code("align-by-program"),
        options=job_inputs.alignment_options(),
    message:
        "Aligning the training text of {wildcards.task} by {wildcards.program}"
    shell:
        "logged {log:q} python -m pam align --aligner {wildcards.program:q} --if-installed "
        "{params.options:q} --out {output.links:q} --record {output.record:q}"


localrules:
    write_aligners,


rule write_aligners:
    input:
        job_inputs.alignment_records(),
    output:
        f"{files.aligners}/table.md",
    log:
        f"{files.logs}/{{task}}/aligners.log",
    conda:
        CONDA
    params:
        code=job_inputs.code("aligners"),
    message:
        "Comparing the aligners of {wildcards.task}"
    shell:
        "logged {log:q} python -m pam aligners --records {input:q} --out {output:q}"
