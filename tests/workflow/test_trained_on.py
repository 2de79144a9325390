"""Tasks that test the models of another task, and train none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pam.data.dataset import Prepared
from tests.workflow.checkouts import Checkout, checkout, with_own_pairs
from tests.workflow.conftest import PAIRS

FAR = """\
far:
  task: translation
  title: The first words in another order
  files:
    far.xx: {path: far.xx}
    far.yy: {path: far.yy}
  splits: {test: {xx: far.xx, yy: far.yy}}
  format: {source: xx, target: yy, tokenize: none}
"""
TASKS = """\
  far:
    dataset: far
    trained_on: pairs
    decoding: {length_penalties: [0.5, 1.0]}
registries"""
RESULTS = "results/translated"
TABLE = f"{RESULTS}/tables/table1.csv"


@pytest.fixture
def tested(tmp_path: Path) -> Checkout:
    made = with_own_pairs(checkout(tmp_path / "checkout"))
    registry = (made.folder / "own/pairs.yaml").read_text(encoding="utf-8")
    made.write("own/pairs.yaml", registry + FAR)
    for side in ("xx", "yy"):
        lines = (made.folder / f"own/test.{side}").read_text(encoding="utf-8").splitlines()
        made.write(f"own/far.{side}", "".join(f"{line} {line}\n" for line in lines[:6]))
    made.edit("own/translation.yaml", "registries", TASKS)
    return made


def test_no_model_is_trained_for_it_and_all_else_is_as_of_any_task(tested: Checkout) -> None:
    tested.edit(
        "own/translation.yaml",
        "    note: made up",
        "    note: made up\n    more_seeds: {postr-joint: [4]}",
    )
    outcome = tested.plan("all", *PAIRS)
    assert outcome.code == 0, outcome.said
    trained = (
        "soft on pairs, seed 1",
        "soft on yy-xx, seed 1",
        *(f"postr-joint on pairs, seed {n}" for n in (1, 4)),
    )
    assert outcome.trained == set(trained)
    assert (
        outcome.jobs["reuse_run"],
        outcome.jobs["prepare_test"],
        outcome.jobs["prepare_data"],
    ) == (3, 1, 2)
    assert outcome.jobs["predict_run"] == 2 * (3 + 3 + 1)


def test_settings_are_those_of_the_trainings_task_and_of_the_models(tested: Checkout) -> None:
    tested.edit(
        "own/translation.yaml",
        "    note: made up",
        "    network: {decoder: 12}\n    training: {epochs: 2}",
    )
    asked = [f"{RESULTS}/{task}/soft/seed1/run.yaml" for task in ("pairs", "far")]
    assert tested.run(*asked, *PAIRS).code == 0
    texts = [(tested.folder / file).read_text(encoding="utf-8") for file in asked]
    assert all("decoder: 12" in text and "epochs: 2" in text for text in texts)
    assert "- 0.5" in texts[1] and "- 0.5" not in texts[0]


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
    outcome = tested.plan("all", *PAIRS)
    assert outcome.code != 0
    assert message in outcome.said and "hint: " in outcome.said and "Traceback" not in outcome.said


def test_data_of_another_kind_are_refused(tested: Checkout) -> None:
    nouns = "nouns:\n  task: inflection\n  files:\n"
    nouns += "".join(
        f"    {split}.tsv: {{path: {split}.tsv}}\n" for split in ("train", "dev", "test")
    )
    registry = (tested.folder / "own/pairs.yaml").read_text(encoding="utf-8")
    tested.write("own/pairs.yaml", registry + nouns)
    tested.edit("own/translation.yaml", "dataset: far", "dataset: nouns")
    outcome = tested.plan("all", *PAIRS)
    assert "`nouns` is for inflection, but `pairs` trains models for translation" in outcome.said


@pytest.mark.slow
def test_a_run_takes_over_a_model_and_is_scored_on_its_own_test_split(tested: Checkout) -> None:
    tested.edit("own/translation.yaml", "models: [soft, postr-joint]", "models: [soft]")
    outcome = tested.run(TABLE, *PAIRS)
    assert outcome.code == 0, outcome.said
    assert (outcome.jobs["reuse_run"], outcome.jobs["train_run"]) == (1, 2)
    results = tested.folder / RESULTS
    runs = [results / task / "soft/seed1" for task in ("pairs", "far")]
    for name in (
        "model/weights.safetensors",
        "model/target.vocab",
        "model/config.yaml",
        "history.csv",
    ):
        assert len({(run / name).read_bytes() for run in runs}) == 1
    taught, taken = (
        json.loads((run / "training.json").read_text(encoding="utf-8")) for run in runs
    )
    assert taken["trained_on"] == f"{RESULTS}/pairs/soft/seed1"
    assert taken["parameters"] == taught["parameters"] and taken["cpu_s"] < taught["cpu_s"]
    data = Prepared(results / "far/data")
    assert len(data.split("test")) == 6 and not (data.folder / "train.tsv").exists()
    assert data.target.symbols == Prepared(results / "pairs/data").target.symbols
    assert len((runs[1] / "beam2/predictions.tsv").read_text(encoding="utf-8").splitlines()) == 7
    assert json.loads((runs[1] / "scores.json").read_text(encoding="utf-8"))["metrics"]
    assert tested.plan(TABLE, *PAIRS).jobs.total() == 0
    said = tested.command(
        [sys.executable, "-m", "pam", "check", "--configfile", "own/translation.yaml"]
    ).said
    assert "task far: tests the models of pairs, trains none" in said
    # Trained in another way, it is taken over anew.
    tested.edit("own/translation.yaml", "epochs: 1", "epochs: 2")
    again = tested.plan(TABLE, *PAIRS)
    assert (again.jobs["train_run"], again.jobs["reuse_run"], again.jobs["prepare_test"]) == (
        2,
        1,
        0,
    )
