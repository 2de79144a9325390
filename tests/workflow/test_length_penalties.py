"""A length penalty that each run chooses on its development split, through the workflow."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU

from tests.workflow.checkouts import Checkout, Outcome, checkout, with_own_pairs
from tests.workflow.conftest import PAIRS

pytestmark = pytest.mark.slow

RESULTS = Path("results/translated")
CANDIDATES = [0.0, 0.8, 3.0]
TABLES = [str(RESULTS / f"tables/{name}.csv") for name in ("lengths", "table1")]


NETWORK = "{embedding: 16, encoder: 16, decoder: 32, dropout: 0.0}"


def chosen_from(made: Checkout, candidates: list[float]) -> Checkout:
    """An experiment of two models and their ensemble on one task, with two beams.

    Its development and test split are sentences that were learned, so that small networks translate
    some well.
    """
    for side in ("xx", "yy"):
        lines = (
            (made.folder / f"own/train.{side}")
            .read_text(encoding="utf-8")
            .splitlines(keepends=True)
        )
        made.write(f"own/dev.{side}", "".join(lines[:30]))
        made.write(f"own/test.{side}", "".join(lines[30:]))
    made.edit("own/translation.yaml", "    word_alignments: links\n", "")
    made.edit("own/translation.yaml", "{embedding: 8, encoder: 8, decoder: 16}", NETWORK)
    made.write("config/models/both.yaml", "label: Both\nmembers: [soft, postr-joint]\n")
    made.edit(
        "own/translation.yaml", "models: [soft, postr-joint]", "models: [soft, postr-joint, both]"
    )
    made.edit(
        "own/translation.yaml",
        "[soft, prior-joint, postr-joint]",
        "[soft, prior-joint, postr-joint, both]",
    )
    made.edit(
        "own/translation.yaml",
        "decoding: {beam: 2, ",
        f"decoding: {{beam: 2, length_penalties: {candidates}, ",
    )
    made.edit(
        "own/translation.yaml",
        "{epochs: 1, batch_size: 16, ",
        "{epochs: 20, learning_rate: 0.02, batch_size: 8, ",
    )
    return made


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, Outcome]:
    made = with_own_pairs(checkout(tmp_path_factory.mktemp("penalties") / "checkout"))
    return made, chosen_from(made, CANDIDATES).run(*TABLES, *PAIRS)


def content(made: Checkout, file: str) -> Any:
    return json.loads((made.folder / RESULTS / file).read_text(encoding="utf-8"))


def table(path: Path) -> list[dict[str, str]]:
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    return [dict(zip(header.split("\t"), row.split("\t"), strict=True)) for row in rows]


def decoded(
    made: Checkout, run: str, split: str, beam: int, penalty: float
) -> list[dict[str, str]]:
    """Outputs with a penalty that is given on the command line."""
    out = made.folder / "own/outputs.tsv"
    command = [
        sys.executable,
        "-m",
        "pam",
        "predict",
        "--run",
        str(RESULTS / run),
        "--split",
        split,
        "--out",
        str(out),
    ]
    outcome = made.command([*command, "--beam", str(beam), "--length-penalty", str(penalty)])
    assert outcome.code == 0, outcome.said
    return table(out)


def bleu(rows: list[dict[str, str]], column: str = "predicted") -> float:
    """multi-bleu.perl's, by sacreBLEU."""
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return metric.corpus_score(
        [row[column] for row in rows], [[row["target"] for row in rows]]
    ).score


def test_each_run_and_beam_chooses_by_one_job_on_the_development_split(
    ran: tuple[Checkout, Outcome],
) -> None:
    made, outcome = ran
    assert outcome.code == 0, outcome.said
    assert outcome.jobs["choose_length_penalty"] == outcome.jobs["predict_run"] == 2 * (3 + 1)
    for run in ("pairs/postr-joint/seed1", "pairs/both/seed1"):
        for beam in (1, 2):
            found = content(made, f"{run}/beam{beam}/length_penalty.json")
            assert [one["length_penalty"] for one in found["candidates"]] == CANDIDATES
            best = max(one["bleu"] for one in found["candidates"])
            assert found["chosen"] == min(
                one["length_penalty"] for one in found["candidates"] if one["bleu"] == best
            )


def test_scores_and_ratios_are_those_of_a_search_with_each_candidate(
    ran: tuple[Checkout, Outcome],
) -> None:
    made, _ = ran
    run = "pairs/postr-joint/seed1"
    for one in content(made, f"{run}/beam2/length_penalty.json")["candidates"]:
        rows = decoded(made, run, "dev", 2, one["length_penalty"])
        assert one["bleu"] == pytest.approx(bleu(rows))
        words = [
            sum(len(row[column].split()) for row in rows) for column in ("predicted", "target")
        ]
        assert one["length_ratio"] == pytest.approx(words[0] / words[1])


def test_the_test_split_is_decoded_with_the_chosen_one_beside_none(
    ran: tuple[Checkout, Outcome],
) -> None:
    made, _ = ran
    for run in ("pairs/postr-joint/seed1", "pairs/both/seed1"):
        chosen = content(made, f"{run}/beam2/length_penalty.json")["chosen"]
        found = table(made.folder / RESULTS / run / "beam2/predictions.tsv")
        for column, penalty in (("predicted", chosen), ("unpenalized", 0.0)):
            rows = decoded(made, run, "test", 2, penalty)
            assert [row[column] for row in found] == [row["predicted"] for row in rows]
        record = content(made, f"{run}/beam2/decoding.json")
        assert (record["length_penalty"], record["length_penalty_form"], record["precision"]) == (
            *(chosen, "power"),
            "float32",
        )
        metrics = content(made, f"{run}/scores.json")["metrics"]
        assert metrics["bleu_b2"]["value"] == pytest.approx(bleu(found))
        assert metrics["bleu_unpenalized_b2"]["value"] == pytest.approx(bleu(found, "unpenalized"))


def test_tables_show_both_and_name_what_was_chosen(ran: tuple[Checkout, Outcome]) -> None:
    made, _ = ran
    with open(made.folder / RESULTS / "tables/lengths.csv", encoding="utf-8") as file:
        rows = {(row["task"], row["model"], row["beam"]): row for row in csv.DictReader(file)}
    assert len(rows) == 2 * (3 + 1)
    assert len({row["length_penalty"] for row in rows.values()}) > 1
    assert any(float(row["gain"]) != 0 for row in rows.values())
    largest = [float(row["length_penalty"]) == max(CANDIDATES) for row in rows.values()]
    shown = (made.folder / RESULTS / "tables/lengths.md").read_text(encoding="utf-8")
    assert shown.count("(largest)") == sum(largest)
    for (task, model, beam), row in rows.items():
        found = content(made, f"{task}/{model}/seed1/beam{beam}/length_penalty.json")
        metrics = content(made, f"{task}/{model}/seed1/scores.json")["metrics"]
        assert float(row["length_penalty"]) == found["chosen"]
        for name in ("bleu", "bleu_unpenalized", "length_ratio", "length_ratio_unpenalized"):
            assert float(row[name]) == pytest.approx(metrics[f"{name}_b{beam}"]["value"], abs=1e-4)
    with open(made.folder / RESULTS / "tables/table1.csv", encoding="utf-8") as file:
        assert "bleu_unpenalized_b1" in {row["metric"] for row in csv.DictReader(file)}


def test_other_candidates_choose_and_decode_again_and_train_nothing(
    ran: tuple[Checkout, Outcome], tmp_path: Path
) -> None:
    made = ran[0].copy(tmp_path / "copy")
    assert made.plan(*TABLES, *PAIRS).jobs.total() == 0
    made.edit("own/translation.yaml", str(CANDIDATES), "[0.0, 1.5]")
    outcome = made.plan(*TABLES, *PAIRS)
    assert outcome.trained == set()
    assert outcome.jobs["choose_length_penalty"] == outcome.jobs["predict_run"] == 8


def test_a_penalty_that_was_not_chosen_is_asked_for_with_the_command(
    ran: tuple[Checkout, Outcome],
) -> None:
    made, _ = ran
    run = str(RESULTS / "pairs/soft/seed1")
    outcome = made.command(
        [sys.executable, "-m", "pam", "predict", "--run", run, "--split", "test", "--beam", "3"]
    )
    assert outcome.code == 2
    assert "no length penalty was chosen" in outcome.said
    assert f"python -m pam length-penalty --run {run} --beam 3" in outcome.said
    alone = made.command([sys.executable, "-m", "pam", "predict", "--model", f"{run}/model"])
    assert alone.code == 2 and "give --length-penalty" in alone.said


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        (
            "device: cpu",
            "decoding: {length_penalties: [0.5]}\ndevice: cpu",
            "to choose a length penalty by BLEU",
        ),
        (
            "device: cpu",
            "decoding: {length_penalties: [0.5], length_penalty: 1}\ndevice: cpu",
            "leave out one",
        ),
        (
            "device: cpu",
            "decoding: {length_penalties: [0.5], temperature: 1}\ndevice: cpu",
            "length_penalties: []",
        ),
    ],
)
def test_what_cannot_be_chosen_ends_the_run_before_it_starts(
    fresh: Checkout, place: str, change: str, message: str
) -> None:
    fresh.edit("own/experiment.yaml", place, change)
    outcome = fresh.plan("--configfile", "own/experiment.yaml")
    assert outcome.code != 0
    assert message in outcome.said and "Traceback" not in outcome.said
