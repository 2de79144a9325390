"""Word alignments that people made, with which the attention of a translation is compared."""

from pam.tasks.kind import TaskKind

KIND = TaskKind(
    name="alignment",
    title="Word alignments",
    purpose="align the words of a sentence with those of its translation",
    data="pam.tasks.alignment.links:WordAlignments",
    # They are prepared in the symbols of a task of translation.
    codec="pam.tasks.translation.codec:TranslationCodec",
    counts="pam.tasks.alignment.counts:count",
    metrics="pam.tasks.alignment.metrics:METRICS",
)
