"""What a user sees of a mistake through Snakemake: one message, no traceback, nothing half made.

Most mistakes are found by `check_experiment`, which the Snakefile calls. Of these a few go through
Snakemake here, and the rest through the function alone.
"""

from __future__ import annotations

import sys

import pytest
import yaml

from pam.experiments.given import Given
from tests.workflow.checkouts import Checkout, Outcome, with_own_pairs
from tests.workflow.conftest import OWN, refusal

EXPERIMENT = "own/experiment.yaml"


def check(fresh: Checkout, outcome: Outcome, *texts: str) -> None:
    """Check that a run ended with one message, which has these texts, and made nothing."""
    assert outcome.code != 0
    for text in texts:
        assert text in outcome.said

    assert outcome.said.count("error: ") == 1
    assert "Traceback" not in outcome.said
    assert not (fresh.folder / "results").exists()


def test_a_mistake_in_the_configuration_ends_the_run_with_one_message(fresh: Checkout) -> None:
    fresh.edit(EXPERIMENT, "seeds:", "sedes:")
    outcome = fresh.run(*OWN)
    check(fresh, outcome, f"{EXPERIMENT}:3: unknown key `sedes`", "hint: did you mean `seeds`?")


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
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
def test_a_mistake_in_the_configuration_has_its_line_and_a_hint(
    own: Checkout, old: str, new: str, texts: tuple[str, ...]
) -> None:
    own.edit(EXPERIMENT, old, new)
    message = refusal()
    for text in texts:
        assert text in message


def test_sizes_that_a_model_cannot_take_end_the_run_before_its_first_job(own: Checkout) -> None:
    own.edit(EXPERIMENT, "mono-postr-joint]", "soft-dot]")
    own.edit(EXPERIMENT, "decoder: 16", "decoder: 12")

    message = refusal()

    assert f"{EXPERIMENT}:6: model `soft-dot` of task `nouns`: score `dot` multiplies" in message
    assert "hint: give the decoder as many units" in message


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
def test_a_model_that_cannot_be_is_named_with_its_line(
    own: Checkout, model: str, added: str, message: str
) -> None:
    own.write("config/models/odd.yaml", f"label: Odd\n{added}\n")
    own.edit(EXPERIMENT, "mono-postr-joint]", f"odd]\nbaseline: {model}")
    assert message in refusal()


def test_a_model_that_cannot_be_ends_a_dry_run(fresh: Checkout) -> None:
    fresh.write("config/models/odd.yaml", "label: Odd\ninput_feeding: posterior\n")
    fresh.edit(EXPERIMENT, "mono-postr-joint]", "odd]")
    outcome = fresh.plan(*OWN)
    check(fresh, outcome, "config/models/odd.yaml:2: the posterior needs", "hint: ")


def test_actions_without_a_pointer_are_refused(own: Checkout) -> None:
    with_own_pairs(own)
    own.edit("own/translation.yaml", "models: [", "models: [hard-mono, ")
    own.edit("own/translation.yaml", "models: [soft]", "models: [soft, hard-mono]")

    message = refusal("own/translation.yaml")

    assert "model `hard-mono` of task" in message and "writes pointer actions" in message
    assert "hint: leave it out of this task" in message


def test_a_mistake_in_the_registry_has_its_line_and_a_hint(own: Checkout) -> None:
    own.edit("own/datasets.yaml", "licence:", "license:")

    message = refusal()

    assert message.startswith("own/datasets.yaml:4: ") and "license`" in message
    assert "did you mean `licence`?" in message


def test_a_mistake_in_a_target(fresh: Checkout) -> None:
    outcome = fresh.run("results/tiny/nuons/soft/seed1/scores.json", *OWN)
    check(fresh, outcome, "unknown task `nuons`", "`nouns`?")


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


def test_a_name_that_yaml_takes_for_false_is_a_name(fresh: Checkout) -> None:
    fresh.edit(EXPERIMENT, "{dataset: small}", "{dataset: small}\n  no: {dataset: small}")
    outcome = fresh.plan("train", *OWN)

    assert outcome.code == 0, outcome.said
    assert outcome.jobs["train_run"] == 4


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        ("sedes: [1]", ("--config: unknown key `sedes`", "did you mean `seeds`?")),
        ("training: {epochs: two}", ("--config: `training.epochs`: ", "not 'two'")),
    ],
)
def test_a_mistake_on_the_command_line_blames_no_file(
    own: Checkout, keys: str, texts: tuple[str, ...]
) -> None:
    message = refusal(EXPERIMENT, Given.of("--config", yaml.safe_load(keys)))
    for text in texts:
        assert text in message

    assert "experiment.yaml" not in message


def test_a_mistake_on_the_command_line_ends_the_run_with_one_message(fresh: Checkout) -> None:
    outcome = fresh.run(*OWN, "--config", "seeds=1")
    check(fresh, outcome, "--config: `seeds`: ", "not 1", "--config 'seeds=[1, 2]'")
    assert "experiment.yaml" not in outcome.said.partition("error: ")[2]


def test_yaml_that_is_none_is_named_with_its_line(fresh: Checkout) -> None:
    fresh.write("config/config.yaml", "experiment: x\nmodels: [soft\ntasks: {}\n")
    check(fresh, fresh.run(), "config/config.yaml:3: this is not valid YAML")


def test_a_file_of_ones_own_that_is_not_there(fresh: Checkout) -> None:
    (fresh.folder / "own/dev.tsv").unlink()
    outcome = fresh.run(*OWN)
    check(fresh, outcome, "own/dev.tsv: ", "no such file", "hint: correct its `path:`")


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
    odd = fresh.folder / "my $(touch pwned) 'data'; touch pwned"
    (fresh.folder / "own").rename(odd)
    experiment = odd / "experiment.yaml"
    text = experiment.read_text(encoding="utf-8")
    experiment.write_text(text.replace("own/", f"{odd.name}/"), encoding="utf-8")

    outcome = fresh.run("data", "--configfile", str(experiment))

    assert outcome.code == 0, outcome.said
    assert not list(fresh.folder.rglob("pwned"))


def test_the_front_door_says_first_how_long_it_will_take_and_what_is_wrong(fresh: Checkout) -> None:
    fresh.edit(EXPERIMENT, "batch_size: 16", "batch_size: 16, warmup_steps: 1")
    run = [sys.executable, "-m", "pam", "run"]
    door = [*run, "--config", "seeds=[1, 2]", *OWN, "--dry-run"]

    outcome = fresh.command(door)

    assert outcome.code == 0, outcome.said
    assert outcome.said.startswith("==> in all about ")
    assert outcome.jobs["train_run"] == 4
    assert "index.html" not in outcome.said.splitlines()[-1]

    fresh.edit(EXPERIMENT, "models: [soft", "models: {soft")
    outcome = fresh.command(door)
    check(fresh, outcome, f"error: {EXPERIMENT}:4: this is not valid YAML")
