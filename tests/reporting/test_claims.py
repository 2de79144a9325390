"""README and the page of claims agree with the stored runs, by the rule of verdicts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import MadeExperiment

from pam.evaluation.bootstrap import Interval
from pam.reporting import claims as judging
from pam.reporting import render, tables
from pam.reporting.catalogue import load_papers
from pam.reporting.claims import Claim, Outcome, Stored, counted, load_sources, outcome
from pam.reporting.comparison import Inputs, Verdict, compare
from pam.reporting.reference import unpacked
from pam.reporting.runs import load_experiment, load_runs
from pam.runtime.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = ROOT / "docs/claims.yaml"


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    """Import the script that writes the pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "workflow/scripts")
        import write_claims

        yield write_claims
    sys.modules.pop("write_claims")


def claim(*models: str, **more: Any) -> Claim:
    """Return a claim about the accuracy of some models; `more` are other fields."""
    fields: dict[str, Any] = {
        "claim": "a claim",
        "where": "Table 2",
        "why": "",
        "experiment": "made-up",
        "task": "de-noun",
        "metric": "accuracy",
        "table": "table2",
        "models": list(models),
    }
    return Claim(**(fields | more))


def judge(made: MadeExperiment, judged_claim: Claim) -> Outcome:
    """Judge a claim by the runs of a made-up experiment."""
    stored = Stored(load_experiment(made.config), made.folder, [judged_claim])
    return outcome(judged_claim, stored, load_papers(made.paper))


def test_the_pages_say_what_the_stored_runs_say(script: Any) -> None:
    for page, text in script.written().items():
        assert page.read_text(encoding="utf-8") == text, (
            "run python workflow/scripts/write_claims.py"
        )


def test_a_stored_table_has_the_verdicts_of_its_stored_runs() -> None:
    stored = ROOT / "results/reference/table2"
    with unpacked(stored) as folder:
        experiment = load_experiment(stored / "experiment.yaml")
        papers = load_papers(ROOT / "config/paper_results.yaml")
        inputs = Inputs(experiment, papers, sorted(folder.glob("*/*/*/scores.json")))
        made = render.to_csv(tables.build("table2_gains", inputs))

    assert (stored / "tables/table2_gains.csv").read_text(encoding="utf-8") == made


def test_claims_name_runs_that_are_archived_and_type_no_verdict() -> None:
    words = ("agrees", "contradicts", "cannot tell", "reproduced", "confirmed")
    claims = [claim for source in load_sources(CLAIMS) for claim in source.claims]
    for claim in claims:
        archive = ROOT / "results/reference" / claim.experiment / "runs.tar.xz"
        assert archive.is_file(), claim.claim
        assert not any(word in f"{claim.claim} {claim.why}" for word in words), claim.claim


def test_a_claim_has_the_verdict_and_the_figures_of_the_tables(judged: MadeExperiment) -> None:
    experiment = load_experiment(judged.config)
    tasks = load_runs(judged.scores, experiment)
    rows = compare(tasks, experiment, ["accuracy"], load_papers(judged.paper)["table2"])
    row = next(row for row in rows if row.model == "mono-postr-joint")

    answer = judge(judged, claim("mono-postr-joint", "soft"))

    assert (answer.ours, answer.paper) == (pytest.approx(row.gain), pytest.approx(row.paper_gain))
    assert answer.interval == Interval(pytest.approx(row.gain_low), pytest.approx(row.gain_high))
    assert (answer.verdict.words, answer.setting) == (row.verdict, row.setting)


def test_a_model_is_the_best_only_if_it_beats_each(judged: MadeExperiment) -> None:
    alone = judge(judged, claim("postr-joint", "mono-postr-joint"))
    best = judge(judged, claim("postr-joint", "soft", "mono-postr-joint"))
    assert (best.verdict, best.ours) == (alone.verdict, alone.ours)


def test_alike_needs_the_whole_interval_within_the_margin(judged: MadeExperiment) -> None:
    answer = judge(judged, claim("postr-joint", "soft", alike=True))
    assert answer.interval is not None
    is_inside = answer.interval.low >= -1.0 and answer.interval.high <= 1.0
    assert (answer.verdict.direction == "agrees") is is_inside


def test_times_are_compared_as_a_ratio(judged: MadeExperiment) -> None:
    answer = judge(judged, claim("postr-joint", "soft", metric="training_time", table="overhead"))
    assert answer.unit == "ratio"
    assert answer.paper == pytest.approx(1.40)
    assert answer.interval is not None
    assert answer.interval.low <= answer.ours <= answer.interval.high


def test_a_model_without_stored_runs_is_named(judged: MadeExperiment) -> None:
    with pytest.raises(UserError, match="no stored run has accuracy of de-noun, nobody"):
        judge(judged, claim("nobody", "soft"))


def test_the_line_counts_levels_as_gains_and_what_holms_correction_leaves() -> None:
    def made(direction: Any, p_holm: float | None) -> Outcome:
        return Outcome(Verdict(direction, "", ""), None, 0.0, None, p_holm, p_holm, "", "gain", 1)

    outcomes = [
        made("agrees", 0.01),
        made("agrees", 0.2),
        made("contradicts", 0.01),
        made("agrees with", None),
        made("not judged", None),
    ]
    line = counted(outcomes, open_claims=2)

    assert "Of 7 claims we judge 4: our runs agree with 2, contradict 1," in line
    assert "and leave 1 open (cannot tell)." in line
    assert "they agree with 1 and contradict 1" in line


def test_seeds_alone_have_students_interval() -> None:
    measured = judging.over_seeds([1.0, 2.0, 3.0], "soft")
    spread = np.percentile(measured.draws.spread(), [2.5, 97.5])
    assert spread[1] - spread[0] == pytest.approx(2 * 4.30 / np.sqrt(3), rel=0.15)


def test_a_row_too_wide_to_read_is_refused(script: Any) -> None:
    with pytest.raises(SystemExit, match="more than 120"):
        script.table_row("a" * 120)
