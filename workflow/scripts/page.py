"""Write the page of an experiment's results (`pam.reporting.page`). Output: `page`."""

import sys
from pathlib import Path

from pam.reporting.page import Files, write
from pam.reporting.runs import load_experiment, load_runs
from pam.reporting.tables.data import summaries_of
from pam.runtime.job_lock import open_log

if __name__ == "__main__":
    # Not closed: Python writes to it why it ends.
    sys.stderr = open_log(snakemake.log[0])
    files = snakemake.input
    out = Path(snakemake.output.page)
    experiment = load_experiment(files.experiment)
    page_files = Files(
        experiment=experiment,
        folder=out.parent,
        tables=[Path(file).stem for file in files.tables],
        figures=[Path(file).stem for file in files.figures],
        summaries=summaries_of(files.data),
        gold=summaries_of(files.gold),
        texts=Path(snakemake.params.texts),
        left_out=list(snakemake.params.left_out),
        runs=load_runs(files.scores, experiment),
        outputs=[Path(file) for file in files.outputs],
    )
    write(page_files, out)
