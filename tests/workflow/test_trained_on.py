"""Tasks that test the models of another task, and train none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pam.cli import main
from pam.data.dataset import Prepared
from pam.experiments.loading import load_plan
from tests.workflow.checkouts import Checkout, Outcome, checkout, with_far_task, with_own_pairs
from tests.workflow.conftest import PAIRS, refusal

RESULTS = "results/translated"
TABLE = f"{RESULTS}/tables/table1.csv"


@pytest.fixture
def tested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The working folder of this process: an experiment with such a task, and nothing else."""
    monkeypatch.chdir(tmp_path)
    return with_far_task(with_own_pairs(Checkout(tmp_path)))


def test_no_model_is_trained_for_it_and_all_else_is_as_of_any_task(tmp_path: Path) -> None:
    made = with_far_task(with_own_pairs(checkout(tmp_path / "checkout")))
    changed = "    note: made up\n    more_seeds: {postr-joint: [4]}"
    made.edit("own/translation.yaml", "    note: made up", changed)

    outcome = made.plan("all", *PAIRS)

    assert outcome.code == 0, outcome.said
    assert outcome.trained == {
        "soft on pairs, seed 1",
        "soft on yy-xx, seed 1",
        "postr-joint on pairs, seed 1",
        "postr-joint on pairs, seed 4",
    }
    assert outcome.jobs["reuse_run"] == 3
    assert (outcome.jobs["prepare_test"], outcome.jobs["prepare_data"]) == (1, 2)
    assert outcome.jobs["predict_run"] == 2 * (3 + 3 + 1)


def test_settings_are_those_of_the_trainings_task_and_of_the_models(tested: Checkout) -> None:
    changed = "    network: {decoder: 12}\n    training: {epochs: 2}"
    tested.edit("own/translation.yaml", "    note: made up", changed)

    plan = load_plan(files=["own/translation.yaml"])

    pairs = plan.run("pairs", "soft", 1)
    far = plan.run("far", "soft", 1)
    for run in (pairs, far):
        assert (run.network.decoder, run.training.epochs) == (12, 2)
    assert (pairs.decoding.length_penalties, far.decoding.length_penalties) == ([], [0.5, 1.0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trained_on: pairs", "trained_on: pears", "unknown task `pears`"),
        ("trained_on: pairs", "trained_on: far", "task `far` is `trained_on` itself"),
        (
            "    note: made up",
            "    trained_on: yy-xx",
            "`far` is `trained_on` `pairs`, which is `trained_on` another",
        ),
        ("trained_on: pairs", "note: x", "`far` has no rows to train on"),
        (
            "trained_on: pairs",
            "trained_on: pairs\n    training: {epochs: 2}",
            "but its own `training`",
        ),
        (
            "trained_on: pairs",
            "trained_on: pairs\n    models: [prior-joint]",
            "asks for `prior-joint`, which `pairs`",
        ),
        (
            "trained_on: pairs",
            "trained_on: pairs\n    seeds: [1, 7]",
            "asks for seed 7 of `soft`, which `pairs`",
        ),
        (
            "trained_on: pairs",
            "trained_on: pairs\n    format: {lowercase: true}",
            "`lowercase` of its `format`",
        ),
        (
            "trained_on: pairs",
            "trained_on: yy-xx",
            "`language` of its `format` differs from that of `yy-xx`",
        ),
    ],
)
def test_what_does_not_fit_ends_the_run_before_it_starts(
    tested: Checkout, old: str, new: str, message: str
) -> None:
    if "trained_on: yy-xx" in new and old != "trained_on: pairs":
        tested.edit("own/translation.yaml", "    word_alignments: links\n", "")
        tested.edit("own/translation.yaml", "    models: [soft, postr-joint]\n", "")
    tested.edit("own/translation.yaml", old, new)

    assert message in refusal("own/translation.yaml")


def test_data_of_another_kind_are_refused(tested: Checkout) -> None:
    nouns = "nouns:\n  task: inflection\n  files:\n"
    for split in ("train", "dev", "test"):
        nouns += f"    {split}.tsv: {{path: {split}.tsv}}\n"
    registry = (tested.folder / "own/pairs.yaml").read_text(encoding="utf-8")
    tested.write("own/pairs.yaml", registry + nouns)
    tested.edit("own/translation.yaml", "dataset: far", "dataset: nouns")

    message = refusal("own/translation.yaml")

    assert "`nouns` is for inflection, but `pairs` trains models for translation" in message


@pytest.mark.slow
def test_a_run_takes_over_a_model_and_is_scored_on_its_own_test_split(
    translated: tuple[Checkout, Outcome],
) -> None:
    made, outcome = translated
    assert outcome.code == 0, outcome.said
    assert (outcome.jobs["reuse_run"], outcome.jobs["train_run"]) == (1, 3)

    results = made.folder / RESULTS
    pairs = results / "pairs/soft/seed1"
    far = results / "far/soft/seed1"
    taken_over = "model/weights.safetensors model/target.vocab model/config.yaml history.csv"
    for name in taken_over.split():
        assert (far / name).read_bytes() == (pairs / name).read_bytes()

    training = json.loads((pairs / "training.json").read_text(encoding="utf-8"))
    record = json.loads((far / "training.json").read_text(encoding="utf-8"))
    assert record["trained_on"] == f"{RESULTS}/pairs/soft/seed1"
    assert record["parameters"] == training["parameters"]
    assert record["cpu_s"] < training["cpu_s"]

    data = Prepared(results / "far/data")
    assert len(data.split("test")) == 6 and not (data.folder / "train.tsv").exists()
    assert data.target.symbols == Prepared(results / "pairs/data").target.symbols
    assert len((far / "beam2/predictions.tsv").read_text(encoding="utf-8").splitlines()) == 7
    assert json.loads((far / "scores.json").read_text(encoding="utf-8"))["metrics"]


@pytest.mark.slow
def test_a_check_says_that_its_models_are_those_of_another_task(
    translated: tuple[Checkout, Outcome],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(translated[0].folder)
    assert main(["check", *PAIRS]) == 0
    assert "task far: tests the models of pairs, trains none" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_that_is_trained_in_another_way_is_taken_over_anew(
    translated: tuple[Checkout, Outcome], tmp_path: Path
) -> None:
    made = translated[0].copy(tmp_path / "copy")
    made.edit("own/translation.yaml", "epochs: 20", "epochs: 21")

    outcome = made.plan(TABLE, *PAIRS)

    assert outcome.trained == {"soft on pairs, seed 1", "postr-joint on pairs, seed 1"}
    assert (outcome.jobs["reuse_run"], outcome.jobs["prepare_test"]) == (1, 0)
