"""Sweeps of an option, written as one item of an experiment's `models:`."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from pam.experiments.experiment import Experiment
from pam.experiments.loading import load_plan
from pam.experiments.model import load_model
from pam.experiments.parsing import dump_yaml, parse
from pam.models import options
from pam.runtime.errors import UserError
from tests.workflow.checkouts import EXPERIMENT, REGISTRY, ROOT
from tests.workflow.listed_models import HEAD, load, load_all
from tests.workflow.schemas import validator
from tests.workflow.test_workflow import made

MASS = "  - postr-joint:\n      sweep:\n        marginalization.mass: [0.9, 0.99, 1]\n"
TWO = "  - soft:\n      sweep:\n        network.dropout: [0, 0.3]\n        score: [dot, mlp]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_value_makes_a_model_with_a_readable_name_and_label() -> None:
    plan = load(MASS)

    assert plan.experiment.model_names == [
        "soft",
        "postr-joint-mass0.9",
        "postr-joint-mass0.99",
        "postr-joint-mass1",
    ]

    base = load_model("postr-joint")
    swept = plan.components["postr-joint-mass0.9"]

    assert swept.label == "Postr-Joint, mass 0.9"
    assert swept.marginalization == base.marginalization.model_copy(update={"mass": 0.9})

    unchanged = {"label": base.label, "marginalization": base.marginalization}
    assert swept.model_copy(update=unchanged) == base


def test_several_options_make_a_model_for_each_combination() -> None:
    plan = load(TWO)
    names = ["soft-dropout0-score-dot", "soft-dropout0-score-mlp"]
    names += ["soft-dropout0.3-score-dot", "soft-dropout0.3-score-mlp"]

    assert plan.experiment.model_names == ["soft", *names]

    run = plan.run("nouns", names[3], 1)
    assert run.network.dropout == 0.3
    assert run.components.score == options.Mlp()


def test_any_key_of_the_training_can_be_swept_in_a_model_with_other_changes() -> None:
    plan = load(
        "  - mine: {from: soft, label: Mine, network: {encoder: 9}, sweep:"
        " {training.learning_rate: [0.001, 0.01], training.patience: [null]}}\n"
    )
    run = plan.run("nouns", "mine-learning_rate0.01-patience-none", 1)

    assert run.label == "Mine, learning_rate 0.01, patience none"
    assert (run.network.encoder, run.training.learning_rate) == (9, 0.01)


def test_a_kind_that_is_swept_keeps_the_options_of_its_own_model() -> None:
    plan = load(
        "  - mine: {from: soft, score: {kind: general, scale: false},"
        " sweep: {score: [general, mlp]}}\n"
    )
    assert plan.components["mine-score-general"].score == options.General(scale=False)
    assert plan.components["mine-score-mlp"].score == options.Mlp()


def test_a_sweep_with_changes_of_its_own_has_its_own_label() -> None:
    plan = load(
        "  - wide: {from: soft, network: {encoder: 128}, sweep: {network.dropout: [0.1]}}\n"
        "  - soft: {sweep: {network.dropout: [0.1]}}\n"
    )
    labels = [plan.components[name].label for name in plan.experiment.model_names]
    assert labels == ["Soft", "wide, dropout 0.1", "Soft, dropout 0.1"]


def test_a_model_may_be_swept_twice_and_a_variant_above_may_be_swept() -> None:
    plan = load(
        "  - mine: {from: soft, score: dot}\n  - mine: {sweep: {network.dropout: [0]}}\n"
        "  - mine: {sweep: {network.encoder: [64]}}\n"
    )

    assert plan.experiment.model_names == ["soft", "mine", "mine-dropout0", "mine-encoder64"]
    assert plan.components["mine-encoder64"].score == options.Dot()


def test_two_options_of_one_name_are_told_apart() -> None:
    plan = load("  - soft: {sweep: {training.batch_size: [8], decoding.batch_size: [9]}}\n")
    assert plan.experiment.model_names[1:] == ["soft-training.batch_size8-decoding.batch_size9"]


def test_the_first_value_is_the_baseline_where_soft_is_not_run() -> None:
    Path("mine.yaml").write_text(HEAD.replace("  - soft\n", MASS), encoding="utf-8")
    assert load_plan(files=["mine.yaml"]).experiment.baseline == "postr-joint-mass0.9"


def test_an_experiment_that_was_written_out_has_the_same_sweep() -> None:
    experiment = load(MASS).experiment
    assert parse(Experiment, yaml.safe_load(dump_yaml(experiment))) == experiment


@pytest.mark.parametrize(
    ("models", "line", "message", "hint"),
    [
        (MASS.replace("mass:", "mas:"), 8, "unknown option of marginalization `mas`", "`mass`"),
        (
            MASS.replace("marginalization.", "marginalisation."),
            8,
            "unknown option `marginalisation.mass`",
            "did you mean `marginalization`?",
        ),
        (MASS.replace("marginalization.", ""), 8, "unknown option `mass`", "marginalization.mass"),
        (MASS.replace("marginalization.mass", "network"), 8, "unknown option `network`", "keys"),
        (MASS.replace("[0.9, 0.99, 1]", "[]"), 8, "needs a list of values", "write `- MODEL:"),
        (MASS.replace("[0.9, 0.99, 1]", "0.9"), 8, "needs a list of values", "write `- MODEL:"),
        (MASS.replace("0.99, 1", "2"), 8, "`models.postr-joint.sweep.marginalization.mass`", "val"),
        (MASS.replace("0.99, 1", "0.9"), 8, "two values of `marginalization.mass`", "remove one"),
        (MASS.replace("0.99, 1", "{a: 1}"), 8, "has no short name", "variants"),
        (MASS.replace("0.99, 1", "a/b"), 8, "`postr-joint-mass-a/b` cannot be the name", "variant"),
        (MASS.replace("postr-joint", "soft"), 8, "unknown option of marginalization", "known"),
        (MASS.replace("postr-joint", "softer"), 6, "unknown model `softer`", "did you mean"),
        (MASS.partition("        marg")[0], 7, "`sweep` needs options", "write `- MODEL:"),
        (MASS + MASS, 10, "`postr-joint-mass0.9` is in `models` twice", "remove one"),
        (
            TWO.replace("network.dropout: [0, 0.3]", "training.learning_rate: [1e-3]"),
            8,
            "training.learning_rate`: input should be a valid number",
            "1.0e-3",
        ),
        (TWO.replace("[dot, mlp]", "[dot, mlpp]"), 9, "unknown score `mlpp`", "did you mean"),
        (TWO.replace("network.dropout", "decoding.beam"), 8, "`beam` is the same", "decoding"),
        (
            TWO.replace("      sweep:", "      training: {epohcs: 1}\n      sweep:"),
            7,
            "unknown key",
            "did you mean `epochs`?",
        ),
        (
            TWO.replace("[0, 0.3]", f"{list(range(1001))}"),
            7,
            "a sweep over 2002 models",
            "at most 1000",
        ),
    ],
)
def test_a_fault_in_a_sweep_has_its_place(models: str, line: int, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        load_all(models)

    error = caught.value
    assert (error.file, error.line) == ("mine.yaml", line), error
    assert message in error.message
    assert hint in str(error.hint)


def test_sweeps_fit_the_schema_that_editors_and_snakemake_read() -> None:
    validator("config").validate(yaml.safe_load(HEAD + MASS + TWO))

    for wrong in ("{network.dropuot: [1]}", "{network.dropout: []}", "{}", "[1]"):
        content = yaml.safe_load(f"{HEAD}  - soft: {{sweep: {wrong}}}\n")
        with pytest.raises(jsonschema.ValidationError):
            validator("config").validate(content)


def test_a_sweep_has_its_table_and_its_figure_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    swept = made(tmp_path, EXPERIMENT, REGISTRY, models=["soft", *yaml.safe_load(TWO)])
    plain = made(tmp_path, EXPERIMENT, REGISTRY)
    for name, listed in (("tables/sweeps.csv", "tables"), ("figures/sweep.svg", "figures")):
        file = f"results/tiny/{name}"
        assert file in getattr(swept.report, listed)()
        assert file not in getattr(plain.report, listed)()


def test_the_sweep_of_the_recipes_makes_the_models_that_they_name() -> None:
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    section = page.partition("## A sweep")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    Path("mine.yaml").write_text(block, encoding="utf-8")
    names = load_plan(files=["mine.yaml"]).experiment.model_names

    assert names[1:] == re.findall(r"`(postr-joint-mass[0-9.]+)`", section)
