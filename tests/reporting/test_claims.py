"""README and the page of claims agree with the stored runs, by the rule of verdicts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_runs import MadeExperiment, make_experiment

from pam.evaluation.bootstrap import Interval
from pam.reporting import render, tables
from pam.reporting.catalogue import load_papers
from pam.reporting.claims import (
    Claim,
    Outcome,
    Stored,
    corrected,
    counted,
    load_sources,
    outcome,
)
from pam.reporting.comparison import Inputs, Verdict, compare
from pam.reporting.reference import unpacked
from pam.reporting.runs import load_experiment, load_runs
from pam.runtime.errors import UserError
from pam.runtime.files import write_json

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
    stored = Stored(load_experiment(made.config), made.folder)
    return outcome(judged_claim, stored, load_papers(made.paper))


def test_the_pages_say_what_the_stored_runs_say(script: Any) -> None:
    for page, text in script.written().items():
        assert page.read_text(encoding="utf-8") == text, (
            "run python workflow/scripts/write_claims.py"
        )


@pytest.fixture(scope="module")
def table2() -> Iterator[Inputs]:
    """The stored runs of the paper's Table 2."""
    stored = ROOT / "results/reference/table2"
    with unpacked(stored, ("scores.json",)) as folder:
        yield Inputs(
            load_experiment(stored / "experiment.yaml"),
            load_papers(ROOT / "config/paper_results.yaml"),
            sorted(folder.glob("*/*/*/scores.json")),
        )


def test_a_stored_table_has_the_verdicts_of_its_stored_runs(table2: Inputs) -> None:
    made = render.to_csv(tables.build("table2_gains", table2))
    stored = ROOT / "results/reference/table2/tables/table2_gains.csv"
    assert stored.read_text(encoding="utf-8") == made


# Computed by a reviewer's own code from the same outcomes.
CHECKED = {
    ("ddn13-de-noun", "prox-postr-joint"): (1.48, 0.51, 2.44),
    ("ddn13-de-noun", "postr-joint"): (0.72, -0.25, 1.70),
    ("ddn13-de-noun", "mono-postr-joint"): (0.85, -0.20, 1.90),
    ("ddn13-de-noun", "prior-joint"): (-0.35, -1.31, 0.61),
    ("ddn13-de-noun", "hard-mono"): (3.39, 1.92, 4.86),
    ("ddn13-de-verb", "prox-postr-joint"): (1.64, 0.13, 3.15),
    ("ddn13-de-verb", "postr-joint"): (1.03, -0.08, 2.14),
    ("ddn13-de-verb", "hard-mono"): (1.61, -0.09, 3.31),
}


def test_gains_of_table_2_are_those_that_other_code_computed(table2: Inputs) -> None:
    rows = compare(table2.tasks, table2.experiment, ["accuracy"], table2.papers["table2"])
    gains = {(row.task, row.model): (row.gain, row.gain_low, row.gain_high) for row in rows}
    for run, checked in CHECKED.items():
        assert gains[run] == pytest.approx(checked, abs=0.01), run


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
    assert (answer.verdict, answer.setting) == ((row.direction, row.reason), row.setting)


def test_a_model_is_the_best_only_if_it_beats_each(judged: MadeExperiment) -> None:
    alone = judge(judged, claim("postr-joint", "mono-postr-joint"))
    best = judge(judged, claim("postr-joint", "soft", "mono-postr-joint"))
    assert best.ours == alone.ours
    assert best.word == alone.word


def test_that_a_rival_is_better_is_the_best_of_several_tests(judged: MadeExperiment) -> None:
    alone = judge(judged, claim("soft", "mono-postr-joint"))
    of_two = judge(judged, claim("soft", "postr-joint", "mono-postr-joint"))
    assert of_two.ours == alone.ours
    assert of_two.p == pytest.approx(min(1.0, 2 * (alone.p or 0.0)))
    assert alone.interval is not None and of_two.interval is not None
    assert of_two.interval.low < alone.interval.low
    assert alone.interval.high < of_two.interval.high


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


def test_costs_are_compared_on_one_processor(tmp_path: Path) -> None:
    made = make_experiment(
        tmp_path, tasks=["de-noun"], models=["soft", "postr-joint"], seeds=[1, 2, 3], count=6
    )
    by_time = claim("postr-joint", "soft", metric="training_time", table="")
    before = judge(made, by_time)
    path = made.run("de-noun", "postr-joint", 3) / "scores.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["training"]["hardware"] = {"cpu": "a slower one", "gpu": None}
    content["training"]["cpu_s"] *= 100
    write_json(path, content)

    answer = judge(made, by_time)

    assert before.word != "not judged"
    assert (answer.word, answer.setting.endswith("2-3 seeds")) == ("not judged", True)
    assert answer.ours == pytest.approx(before.ours, rel=0.1)


def test_where_a_source_states_a_ratio_it_is_judged(judged: MadeExperiment) -> None:
    levels = {model: judge(judged, claim(model)).ours for model in ("postr-joint", "soft")}
    ratio = (levels["postr-joint"] or 0.0) / (levels["soft"] or 1.0)

    alike = judge(judged, claim("postr-joint", "soft", times=1.0, table=""))
    far = judge(judged, claim("postr-joint", "soft", times=3.0, table=""))

    assert (far.unit, far.paper, far.word) == ("ratio", 3.0, "contradicts")
    assert far.ours == pytest.approx(ratio, rel=1e-3)
    assert alike.word != "contradicts"


def test_what_no_run_has_stored_is_left_empty_with_the_reason(judged: MadeExperiment) -> None:
    answer = judge(judged, claim("postr-joint", "soft", metric="entropy_posterior"))
    assert (answer.ours, answer.interval, answer.word) == (None, None, "not judged")
    assert "posterior" in answer.verdict.reason


def test_what_the_stored_runs_do_not_answer_is_not_judged_and_keeps_its_figures(
    judged: MadeExperiment,
) -> None:
    asked = claim("mono-postr-joint", "soft")
    answer = judge(judged, asked)
    withheld = judge(judged, asked.model_copy(update={"unjudged": "trained too briefly"}))

    assert (withheld.word, withheld.verdict.reason) == ("not judged", "trained too briefly")
    assert answer.word != "not judged"
    assert (withheld.ours, withheld.interval) == (answer.ours, answer.interval)


def test_the_entropy_of_the_posterior_is_judged_once_all_runs_have_it(
    judged_translation: MadeExperiment,
) -> None:
    stored = Stored(load_experiment(judged_translation.config), judged_translation.folder)
    analyses = stored._analyses_of("de-en")
    for model, of_seeds in analyses.items():
        for number, analysis in enumerate(of_seeds):
            mean = 1.0 + 0.1 * number + (model == "soft")
            posterior = analysis.entropy.model_copy(update={"mean": mean})
            of_seeds[number] = analysis.model_copy(update={"posterior_entropy": posterior})

    entropy = claim("postr-joint", "soft", task="de-en", metric="entropy_posterior", table="")
    assert outcome(entropy, stored, {}).ours == pytest.approx(1.0)

    analyses["soft"][0] = analyses["soft"][0].model_copy(update={"posterior_entropy": None})
    stored._by_measure.clear()
    assert outcome(entropy, stored, {}).word == "not judged"


def test_a_model_without_stored_runs_is_named(judged: MadeExperiment) -> None:
    with pytest.raises(UserError, match="no stored run has accuracy of de-noun, nobody"):
        judge(judged, claim("nobody", "soft"))


def made_outcome(direction: Any, p: float | None) -> Outcome:
    """Return an outcome of a gain."""
    verdict = Verdict(direction, "")
    return Outcome(verdict, None, 0.0, None, p, "", "gain", 1)


def test_the_line_counts_each_comparison_once_and_only_tested_ones_after_correction() -> None:
    claims = [claim("a", "soft"), claim("b", "soft"), claim("c", "soft"), claim("d")]
    outcomes = corrected(
        claims,
        [
            made_outcome("agrees", 0.01),
            made_outcome("agrees", 0.04),
            made_outcome("contradicts", None),
            made_outcome("agrees with", None),
        ],
    )
    # Another source asks the first question again.
    pairs = [*zip(claims, outcomes, strict=True), (claims[0], outcomes[0])]

    line = counted(pairs, open_claims=2)

    assert "list 7 claims" in line
    assert "4 distinct comparisons" in line
    assert "agree with 2, contradict 1, and leave 1 open" in line
    assert "2 have a p; after Holm's correction they agree with 2 and contradict 0" in line


def test_holms_correction_is_for_the_comparisons_of_a_source() -> None:
    claims = [claim("a", "soft"), claim("b", "soft"), claim("a", "soft")]
    outcomes = [made_outcome("agrees", p) for p in (0.01, 0.04, 0.01)]
    assert [result.p_holm for result in corrected(claims, outcomes)] == [0.02, 0.04, 0.02]


def test_a_row_too_wide_to_read_is_refused(script: Any) -> None:
    with pytest.raises(SystemExit, match="more than 120"):
        script.table_row("a" * 120)
