"""sacreBLEU's significance tests of translations against a baseline's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pam.evaluation.inputs import EvalInputs, read_checked
from pam.evaluation.metrics import of_beam
from pam.evaluation.significance import Significance, Test
from pam.experiments.run_folder import RunFolder
from pam.tasks.translation.counts import (
    OF_BEAMS,
    Prediction,
    Target,
    read_other_references,
    read_references,
    sacre_metrics,
    streams_of,
    visible_texts,
)

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric


# sacreBLEU's default; its memory grows with resamples times sentences: 0.5 GB for 7,000
SACREBLEU_RESAMPLES = 1_000


def paired_bootstrap(
    baseline: Path,
    systems: Mapping[str, Path],
    data: Path,
    split: str = "test",
    metrics: Sequence[str] = ("sacrebleu", "chrf"),
    beam: int | None = None,
    resamples: int = SACREBLEU_RESAMPLES,
) -> list[Test]:
    """Test models against a baseline by sacreBLEU's own paired bootstrap.

    All are tested on the same resamples of the sentences.

    Args:
        baseline: its file of predictions.
        systems: name of each model to its file of predictions.
        data: the task's prepared folder.
        metrics: of `bleu`, `sacrebleu` and `chrf`.
        beam: of the predictions, for the metrics' names.

    Returns:
        For each metric each model, in the orders given.

    Raises:
        UserError: a file is faulty or of other sentences.
    """
    inputs = EvalInputs(data=data, split=split)
    references = read_references(inputs)
    further = read_other_references(inputs)
    target = Target.of(inputs.prepared, [*references, *chain.from_iterable(further.texts)])
    further = target.other_references_in_words(further)
    baseline_rows = target.rows_in_words(read_checked(baseline, inputs, Prediction))
    rows_by_system = {
        name: target.rows_in_words(read_checked(path, inputs, Prediction))
        for name, path in systems.items()
    }
    targets = [row.target for row in baseline_rows]
    sacre = sacre_metrics(target, [*targets, *chain.from_iterable(further.words)])

    tests = []
    for metric in metrics:
        in_words = metric == "bleu"
        # BLEU compares the words of the task, the other metrics readable text.
        streams: Any
        if in_words:
            streams = streams_of(visible_texts(targets), list(map(visible_texts, further.words)))
        else:
            streams = streams_of(visible_texts(references), list(map(visible_texts, further.texts)))
        outputs = [("", _outputs(baseline_rows, in_words))]
        for model, rows in rows_by_system.items():
            outputs.append((model, _outputs(rows, in_words)))

        tests += _test(of_beam(metric, beam), sacre[metric], outputs, streams, resamples)

    return tests


def _test(
    name: str,
    metric: SacreMetric,
    outputs: Sequence[tuple[str, Sequence[str]]],
    streams: Any,
    resamples: int,
) -> list[Test]:
    """Test systems by one metric; the first of `outputs` is the baseline's.

    sacreBLEU can test several metrics at once, but it keys results by names that two of ours share.
    """
    from sacrebleu.significance import PairedTest

    test = PairedTest(list(outputs), {name: metric}, streams, test_type="bs", n_samples=resamples)
    signatures, results_by_metric = test()
    ((key, signature),) = signatures.items()
    results: list[Any] = results_by_metric[key]
    baseline_result = results[0]

    tests = []
    for (model, _), result in zip(outputs[1:], results[1:], strict=True):
        tests.append(
            Test(
                model=model,
                metric=name,
                score=float(result.score),
                baseline=float(baseline_result.score),
                p=float(result.p_value),
                signature=str(signature),
            )
        )
    return tests


def _outputs(rows: Sequence[Prediction], in_words: bool) -> Sequence[str]:
    """Return outputs as BLEU of words compares them, or as the metrics of readable text do."""
    if in_words:
        return visible_texts([row.predicted for row in rows])
    return visible_texts([row.text for row in rows])


def compare_runs(
    baseline: RunFolder, systems: Sequence[RunFolder], split: str = "test"
) -> Significance:
    """Test the outputs of runs, with their main beam, against the baseline's.

    See `paired_bootstrap`.
    """
    baseline_run = baseline.load()
    beam = baseline_run.decoding.beam
    predictions = {folder.load().model: folder.predictions(split, beam) for folder in systems}

    tests = paired_bootstrap(
        baseline=baseline.predictions(split, beam),
        systems=predictions,
        data=baseline.data(split),
        split=split,
        metrics=OF_BEAMS,
        beam=beam,
    )
    return Significance(
        task=baseline_run.task, seed=baseline_run.seed, baseline=baseline_run.model, tests=tests
    )
