"""Translation: a sentence gives its translation."""

from pam.tasks.kind import TaskKind

KIND = TaskKind(
    name="translation",
    title="Translation",
    purpose="translate a sentence",
    data="pam.tasks.translation.stages:Translation",
    codec="pam.tasks.translation.codec:TranslationCodec",
    counts="pam.tasks.translation.counts:count",
    metrics="pam.tasks.translation.metrics:METRICS",
    tables="pam.tasks.translation.tables:TABLES",
    figures="pam.tasks.translation.tables:FIGURES",
    sizes="pam.reporting.sizes:PAIRS",
    is_analyzed=True,
    chooses_length_penalty=True,
)
