"""A length penalty that each run chooses on its development split, through the workflow."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU

from pam.cli import main
from tests.workflow.checkouts import CANDIDATES, Checkout, Outcome
from tests.workflow.conftest import PAIRS, refusal

RESULTS = Path("results/translated")
TABLES = [str(RESULTS / f"tables/{name}.csv") for name in ("lengths", "table1")]
RUNS = 3 + 1 + 1  # of `pairs`, of `yy-xx` and of `far`
MADE_OF_PAIRS = ("pairs/postr-joint/seed1", "pairs/both/seed1")


@pytest.fixture
def whole(translated: tuple[Checkout, Outcome], monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The repository after the run, which is the working folder of this process."""
    made, outcome = translated

    assert outcome.code == 0, outcome.said

    monkeypatch.chdir(made.folder)

    return made


def content(made: Checkout, file: str) -> Any:
    return json.loads((made.folder / RESULTS / file).read_text(encoding="utf-8"))


def table(path: Path) -> list[dict[str, str]]:
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    return [dict(zip(header.split("\t"), row.split("\t"), strict=True)) for row in rows]


def decoded(run: str, split: str, penalty: float, out: Path) -> list[dict[str, str]]:
    """Return the outputs with beam 2 and a penalty that is given on the command line."""
    command = ["predict", "--run", str(RESULTS / run), "--split", split, "--out", str(out)]

    assert main([*command, "--beam", "2", "--length-penalty", str(penalty)]) == 0

    return table(out)


def bleu(rows: list[dict[str, str]], column: str = "predicted") -> float:
    """Return multi-bleu.perl's BLEU, by sacreBLEU."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    predicted = [row[column] for row in rows]
    targets = [row["target"] for row in rows]

    return metric.corpus_score(predicted, [targets]).score


@pytest.mark.slow
def test_each_run_and_beam_chooses_by_one_job_on_the_development_split(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, outcome = translated
    assert outcome.jobs["choose_length_penalty"] == outcome.jobs["predict_run"] == 2 * RUNS

    for run in MADE_OF_PAIRS:
        for beam in (1, 2):
            record = content(made, f"{run}/beam{beam}/length_penalty.json")
            scores = {entry["length_penalty"]: entry["bleu"] for entry in record["candidates"]}
            assert list(scores) == CANDIDATES
            best = max(scores.values())
            assert record["chosen"] == min(name for name, score in scores.items() if score == best)


@pytest.mark.slow
def test_scores_and_ratios_are_those_of_a_search_with_each_candidate(
    whole: Checkout, tmp_path: Path
) -> None:
    run = "pairs/postr-joint/seed1"
    candidates = content(whole, f"{run}/beam2/length_penalty.json")["candidates"]
    assert len(candidates) == len(CANDIDATES)

    for candidate in candidates:
        rows = decoded(run, "dev", candidate["length_penalty"], tmp_path / "outputs.tsv")
        assert candidate["bleu"] == pytest.approx(bleu(rows))
        predicted = sum(len(row["predicted"].split()) for row in rows)
        target = sum(len(row["target"].split()) for row in rows)
        assert candidate["length_ratio"] == pytest.approx(predicted / target)


@pytest.mark.slow
def test_the_test_split_is_decoded_with_the_chosen_one_beside_none(
    whole: Checkout, tmp_path: Path
) -> None:
    for run in MADE_OF_PAIRS:
        chosen = content(whole, f"{run}/beam2/length_penalty.json")["chosen"]
        outputs = table(whole.folder / RESULTS / run / "beam2/predictions.tsv")
        for column, penalty in (("predicted", chosen), ("unpenalized", 0.0)):
            rows = decoded(run, "test", penalty, tmp_path / "outputs.tsv")
            assert [row[column] for row in outputs] == [row["predicted"] for row in rows]

        record = content(whole, f"{run}/beam2/decoding.json")
        assert record["length_penalty"] == chosen
        assert (record["length_penalty_form"], record["precision"]) == ("power", "float32")

        metrics = content(whole, f"{run}/scores.json")["metrics"]
        assert metrics["bleu_b2"]["value"] == pytest.approx(bleu(outputs))
        unpenalized = metrics["bleu_unpenalized_b2"]["value"]
        assert unpenalized == pytest.approx(bleu(outputs, "unpenalized"))


@pytest.mark.slow
def test_tables_show_both_and_name_what_was_chosen(whole: Checkout) -> None:
    with open(whole.folder / RESULTS / "tables/lengths.csv", encoding="utf-8") as file:
        rows = {(row["task"], row["model"], row["beam"]): row for row in csv.DictReader(file)}

    assert len(rows) == 2 * RUNS
    assert len({row["length_penalty"] for row in rows.values()}) > 1
    assert any(float(row["gain"]) != 0 for row in rows.values())

    largest = 0
    for (task, model, beam), row in rows.items():
        record = content(whole, f"{task}/{model}/seed1/beam{beam}/length_penalty.json")
        assert float(row["length_penalty"]) == record["chosen"]
        largest += record["chosen"] == record["candidates"][-1]["length_penalty"]
        metrics = content(whole, f"{task}/{model}/seed1/scores.json")["metrics"]
        for name in ("bleu", "bleu_unpenalized", "length_ratio", "length_ratio_unpenalized"):
            assert float(row[name]) == pytest.approx(metrics[f"{name}_b{beam}"]["value"], abs=1e-4)

    page = (whole.folder / RESULTS / "tables/lengths.md").read_text(encoding="utf-8")
    assert page.count("(largest)") == largest

    with open(whole.folder / RESULTS / "tables/table1.csv", encoding="utf-8") as file:
        assert "bleu_unpenalized_b1" in {row["metric"] for row in csv.DictReader(file)}


@pytest.mark.slow
def test_other_candidates_choose_and_decode_again_and_train_nothing(
    whole: Checkout, tmp_path: Path
) -> None:
    made = whole.copy(tmp_path / "copy")
    made.edit("own/translation.yaml", str(CANDIDATES), "[0.0, 1.5]")

    outcome = made.plan(*TABLES, *PAIRS)

    assert outcome.trained == set()
    # All but those of `far`, which has candidates of its own.
    again = 2 * (RUNS - 1)
    assert outcome.jobs["choose_length_penalty"] == outcome.jobs["predict_run"] == again


@pytest.mark.slow
def test_a_penalty_that_was_not_chosen_is_asked_for_with_the_command(
    whole: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(RESULTS / "pairs/soft/seed1")

    assert main(["predict", "--run", run, "--split", "test", "--beam", "3"]) == 2
    message = capsys.readouterr().err
    assert "no length penalty was chosen" in message
    assert f"pam length-penalty --run {run} --beam 3" in message

    assert main(["predict", "--model", f"{run}/model"]) == 2
    assert "give --length-penalty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("decoding", "message"),
    [
        ("{length_penalties: [0.5]}", "cannot choose a length penalty: inflection has no BLEU"),
        ("{length_penalties: [0.5], length_penalty: 1}", "leave out one"),
        ("{length_penalties: [0.5], temperature: 1}", "length_penalties: []"),
    ],
)
def test_what_cannot_be_chosen_ends_the_run_before_it_starts(
    own: Checkout, decoding: str, message: str
) -> None:
    own.edit("own/experiment.yaml", "device: cpu", f"decoding: {decoding}\ndevice: cpu")
    assert message in refusal()
