"""The record of tests of models against a baseline, `significance/seed<k>.json`."""

from __future__ import annotations

from pydantic import Field

from pam.experiments.parsing import Strict


class Test(Strict):
    """One model against the baseline by one metric, scores of the whole set, 0 to 100."""

    model: str
    metric: str = Field(description="named as in `scores.json`")
    score: float
    baseline: float
    p: float = Field(
        description="by sacreBLEU; `pam.evaluation.bootstrap.p_value` says how it differs from ours"
    )
    signature: str = Field(description="sacreBLEU's, of the metric and the test")


class Significance(Strict):
    """The content of `significance/seed<k>.json`."""

    task: str
    seed: int
    baseline: str
    tests: list[Test]
