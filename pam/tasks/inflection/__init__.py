"""Inflection: a lemma and features give a form."""

from pam.tasks.kind import TaskKind

KIND = TaskKind(
    name="inflection",
    title="Morphological inflection",
    purpose="write the inflected form of a word, letter by letter",
    data="pam.tasks.inflection.stages:Inflection",
    codec="pam.tasks.inflection.codec:InflectionCodec",
    counts="pam.tasks.inflection.counts:count",
    metrics="pam.tasks.inflection.metrics:METRICS",
    tables="pam.tasks.inflection.tables:TABLES",
    figures="pam.tasks.inflection.tables:FIGURES",
    sizes="pam.tasks.inflection.sizes:SIZES",
    example="pam.tasks.inflection.tables:example_source",
    by_letter=True,
)
