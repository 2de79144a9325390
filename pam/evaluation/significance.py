"""Paired bootstrap of translations against a baseline's, by sacreBLEU's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sacrebleu.significance import PairedTest, Result

from pam.data.dataset import Prepared
from pam.evaluation.kinds import EvalInputs
from pam.evaluation.kinds.translation import (
    read_checked,
    read_references,
    sacre_metrics,
    target_language,
)
from pam.evaluation.metrics import of_beam
from pam.run_folder import RunFolder

RESAMPLES = 1_000
"""sacreBLEU's default. Its memory grows with resamples times sentences: 0.5 GB for 7,000."""


class Tested(NamedTuple):
    """One system by one metric.

    Attributes:
        system: its name; metric: `bleu`, `sacrebleu` or `chrf`.
        score, baseline: of the whole set, 0 to 100.
        p: of a difference as large as theirs if both did equally well, as sacreBLEU computes it
            (see `pam.evaluation.bootstrap.p_value` for how that differs from ours).
        signature: sacreBLEU's, of the metric and the test.
    """

    system: str
    metric: str
    score: float
    baseline: float
    p: float
    signature: str


def paired_bootstrap(
    baseline: Path,
    systems: Mapping[str, Path],
    data: Path,
    split: str = "test",
    metrics: Sequence[str] = ("sacrebleu", "chrf"),
    resamples: int = RESAMPLES,
) -> list[Tested]:
    """Tests systems against a baseline on the same resamples of the sentences.

    Args:
        baseline: its file of predictions.
        systems: name of each system to its file of predictions.
        data: the prepared folder of the task.

    Returns:
        for each metric each system, in the orders given.

    Raises:
        UserError: a file is missing, faulty, or about other sentences.
    """
    evidence = EvalInputs(data=data, split=split)
    references = read_references(evidence)
    known = sacre_metrics(target_language(Prepared(data)))
    files = {"": baseline, **systems}
    outputs = {name: read_checked(path, evidence) for name, path in files.items()}
    tested = []
    for metric in metrics:
        in_words = metric == "bleu"
        texts: list[tuple[str, Sequence[str]]] = [
            (name, [row.predicted if in_words else row.text for row in rows])
            for name, rows in outputs.items()
        ]
        held_to = [row.target for row in outputs[""]] if in_words else references
        # One metric a test: sacreBLEU tells metrics apart by names that two of ours share.
        test = PairedTest(
            texts, {metric: known[metric]}, [held_to], test_type="bs", n_samples=resamples
        )
        signatures, found = test()
        ((name, signature),) = signatures.items()
        first, *others = (result for result in found[name] if isinstance(result, Result))
        for system, other in zip(systems, others, strict=True):
            assert other.p_value is not None
            scores = float(other.score), float(first.score)
            tested.append(Tested(system, metric, *scores, float(other.p_value), str(signature)))
    return tested


def compare_runs(
    baseline: RunFolder, systems: Sequence[RunFolder], split: str = "test"
) -> dict[str, Any]:
    """Tests the outputs of runs, with their main beam, against those of the baseline's run.

    Raises:
        UserError: a file of a run is missing or faulty.
    """
    known, *others = (folder.load() for folder in (baseline, *systems))
    beam = known.decoding.beam
    tested = paired_bootstrap(
        baseline.predictions(split, beam),
        {run.model: one.predictions(split, beam) for run, one in zip(others, systems, strict=True)},
        baseline.data(split),
        split,
        ("bleu", "sacrebleu", "chrf"),
    )
    tests = [
        {
            "model": one.system,
            "metric": of_beam(one.metric, beam),
            "score": one.score,
            "baseline": one.baseline,
            "p": one.p,
            "signature": one.signature,
        }
        for one in tested
    ]
    return {"task": known.task, "seed": known.seed, "baseline": known.model, "tests": tests}
