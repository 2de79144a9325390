"""Captioning: the frames of a clip give a sentence."""

from pam.tasks.kind import TaskKind

KIND = TaskKind(
    name="captioning",
    title="Captioning",
    purpose="describe a video clip in a sentence",
    data="pam.tasks.captioning.stages:Captioning",
    codec="pam.tasks.captioning.codec:CaptioningCodec",
    counts="pam.tasks.captioning.counts:count",
    metrics="pam.tasks.captioning.metrics:METRICS",
    controls="pam.tasks.captioning.counts:control_rows",
    tables="pam.tasks.captioning.tables:TABLES",
    figures="pam.tasks.captioning.tables:FIGURES",
    sizes="pam.reporting.sizes:PAIRS",
)
