"""Summarization: a text gives its summary."""

from pam.tasks.kind import TaskKind

KIND = TaskKind(
    name="summarization",
    title="Summarization",
    purpose="shorten a text to a summary",
    data="pam.tasks.summarization.stages:Summarization",
    codec="pam.tasks.summarization.codec:SummarizationCodec",
    counts="pam.tasks.summarization.counts:count",
    metrics="pam.tasks.summarization.metrics:METRICS",
    controls="pam.tasks.summarization.counts:control_rows",
    tables="pam.tasks.summarization.tables:TABLES",
    figures="pam.tasks.summarization.tables:FIGURES",
    sizes="pam.reporting.sizes:PAIRS",
)
