"""What a user sees of a mistake through Snakemake: one message, no traceback, nothing half made."""

from __future__ import annotations

import sys

import pytest

from tests.workflow.checkouts import Checkout, Outcome, with_own_pairs
from tests.workflow.conftest import OWN


def check(fresh: Checkout, outcome: Outcome, *texts: str) -> None:
    assert outcome.code != 0
    for text in texts:
        assert text in outcome.said
    assert outcome.said.count("error: ") == 1
    assert "Traceback" not in outcome.said
    assert not (fresh.folder / "results").exists()


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        (
            "seeds:",
            "sedes:",
            ("own/experiment.yaml:3: unknown key `sedes`", "hint: did you mean `seeds`?"),
        ),
        (
            "models: [soft, mono-postr-joint]",
            "models: [soft, mono-post-joint]",
            ("own/experiment.yaml:4: unknown model `mono-post-joint`", "`mono-postr-joint`?"),
        ),
        (
            "{dataset: small}",
            "{dataset: smal}",
            ("own/experiment.yaml:6: unknown data set `smal`", "did you mean `small`?"),
        ),
        (
            "own/datasets.yaml",
            "own/dataset.yaml",
            ("own/experiment.yaml:7: own/dataset.yaml: no such file", "check the name"),
        ),
    ],
)
def test_a_mistake_in_the_configuration(
    fresh: Checkout, old: str, new: str, texts: tuple[str, ...]
) -> None:
    fresh.edit("own/experiment.yaml", old, new)
    check(fresh, fresh.run(*OWN), *texts)


def test_sizes_that_a_model_cannot_take_end_the_run_before_its_first_job(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", "mono-postr-joint]", "soft-dot]")
    fresh.edit("own/experiment.yaml", "decoder: 16", "decoder: 12")
    message = "own/experiment.yaml:6: model `soft-dot` of task `nouns`: score `dot` multiplies"
    check(fresh, fresh.run(*OWN), message, "hint: give the decoder as many units")


@pytest.mark.parametrize(
    ("model", "added", "message"),
    [
        ("soft", "input_feeding: posterior", "config/models/odd.yaml:2: the posterior needs"),
        ("soft", "marginalization: {kind: output, top_k: six}", "odd.yaml:2: `marginalization.top"),
        ("soft", "label: Twice", "config/models/odd.yaml:2: `label` is given twice"),
        ("soft", "feedback: none", "odd.yaml:2: unknown key `feedback`"),
        ("sotf", "", "own/experiment.yaml:5: unknown baseline `sotf`"),
    ],
)
def test_a_model_that_cannot_be_ends_a_dry_run(
    fresh: Checkout, model: str, added: str, message: str
) -> None:
    fresh.write("config/models/odd.yaml", f"label: Odd\n{added}\n")
    fresh.edit("own/experiment.yaml", "mono-postr-joint]", f"odd]\nbaseline: {model}")
    check(fresh, fresh.plan(*OWN), message, "hint: ")


def test_actions_without_a_pointer_end_a_dry_run(fresh: Checkout) -> None:
    with_own_pairs(fresh)
    fresh.edit("own/translation.yaml", "models: [", "models: [hard-mono, ")
    fresh.edit("own/translation.yaml", "models: [soft]", "models: [soft, hard-mono]")
    outcome = fresh.plan("--configfile", "own/translation.yaml")
    check(
        fresh,
        outcome,
        "model `hard-mono` of task",
        "writes pointer actions",
        "hint: leave it out of this task",
    )


def test_a_mistake_in_the_registry(fresh: Checkout) -> None:
    fresh.edit("own/datasets.yaml", "licence:", "license:")
    outcome = fresh.run(*OWN)
    check(fresh, outcome, "own/datasets.yaml:4: ", "license`", "did you mean `licence`?")


@pytest.mark.parametrize(
    ("target", "texts"),
    [
        ("results/tiny/nuons/soft/seed1/scores.json", ("unknown task `nuons`", "`nouns`?")),
        ("results/tiny/nouns/sotf/seed1/scores.json", ("unknown model `sotf`", "`soft`?")),
    ],
)
def test_a_mistake_in_a_target(fresh: Checkout, target: str, texts: tuple[str, ...]) -> None:
    check(fresh, fresh.run(target, *OWN), *texts)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("tabels", "did you mean `tables`"),
        ("results/tiny/nouns/soft/seed1/score.json", "`results/tiny/nouns/soft/seed1/scores.json`"),
    ],
)
def test_an_unknown_target_is_answered_with_the_nearest(
    fresh: Checkout, target: str, meant: str
) -> None:
    outcome = fresh.plan(target, *OWN)
    assert outcome.code != 0
    assert f"unknown target `{target}`" in outcome.said
    assert meant in outcome.said


def test_lists_and_sections_on_the_command_line_are_read_as_yaml(fresh: Checkout) -> None:
    outcome = fresh.plan(
        "train", *OWN, "--config", "seeds=[1, 2]", "training={epochs: 2, precision: float32}"
    )
    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 4


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("sedes=[1]", ("--config: unknown key `sedes`", "did you mean `seeds`?")),
        ("seeds=1", ("--config: `seeds`: ", "not 1", "--config 'seeds=[1, 2]'")),
        ("training={epochs: two}", ("--config: `training.epochs`: ", "not 'two'")),
    ],
)
def test_a_mistake_on_the_command_line_blames_no_file(
    fresh: Checkout, given: str, texts: tuple[str, ...]
) -> None:
    outcome = fresh.run(*OWN, "--config", given)
    check(fresh, outcome, *texts)
    assert "experiment.yaml" not in outcome.said.partition("error: ")[2]


def test_yaml_that_is_none_is_named_with_its_line(fresh: Checkout) -> None:
    fresh.write("config/config.yaml", "experiment: x\nmodels: [soft\ntasks: {}\n")
    check(fresh, fresh.run(), "config/config.yaml:3: this is not valid YAML")


def test_a_file_of_ones_own_that_is_not_there(fresh: Checkout) -> None:
    (fresh.folder / "own/dev.tsv").unlink()
    texts = ("own/dev.tsv: ", "no such file", "hint: correct its `path:`")
    check(fresh, fresh.run(*OWN), *texts)


def test_a_fault_in_the_data_shows_its_message_without_looking_for_a_log(fresh: Checkout) -> None:
    with open(fresh.folder / "own/train.tsv", "a", encoding="utf-8") as file:
        file.write("only one column\n")
    outcome = fresh.run("data", *OWN)
    assert outcome.code != 0
    assert "train.tsv:81: " in outcome.said
    assert outcome.said.count("error: ") == 1
    assert "Traceback" not in outcome.said
    assert not list((fresh.folder / "results/tiny").glob("nouns/data/*"))


def test_names_are_never_read_by_a_shell(fresh: Checkout) -> None:
    folder = fresh.folder / "own"
    odd = fresh.folder / "my $(touch pwned) 'data'; touch pwned"
    folder.rename(odd)
    experiment = odd / "experiment.yaml"
    text = experiment.read_text(encoding="utf-8")
    experiment.write_text(text.replace("own/", f"{odd.name}/"), encoding="utf-8")
    outcome = fresh.run("data", "--configfile", str(experiment))
    assert outcome.code == 0, outcome.said
    assert not list(fresh.folder.rglob("pwned"))


def test_the_front_door_says_first_how_long_it_will_take_and_what_is_wrong(fresh: Checkout) -> None:
    fresh.edit("own/experiment.yaml", "batch_size: 16", "batch_size: 16, warmup_steps: 1")
    door = [
        sys.executable,
        "workflow/scripts/run.py",
        "--config",
        "seeds=[1, 2]",
        *OWN,
        "--dry-run",
    ]
    outcome = fresh.command(door)
    assert outcome.code == 0, outcome.said
    assert outcome.said.startswith("==> in all about ")
    assert outcome.jobs["train_run"] == 4
    assert "index.html" not in outcome.said.splitlines()[-1]
    fresh.edit("own/experiment.yaml", "models: [soft", "models: {soft")
    outcome = fresh.command(door)
    check(fresh, outcome, "error: own/experiment.yaml:4: this is not valid YAML")
