"""Variants of models, written in an experiment's `models:` beside the names of files."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import yaml

from pam.experiments.experiment import Experiment
from pam.experiments.loading import load_plan
from pam.experiments.model import load_model, model_files
from pam.experiments.parsing import dump_yaml, parse
from pam.models import options
from pam.runtime.errors import UserError
from tests.variants import MODELS, experiment_files, variant_names
from tests.workflow.checkouts import ROOT
from tests.workflow.listed_models import HEAD, load, load_all
from tests.workflow.schemas import validator

ACVI = "  - acvi-kl0:\n      from: acvi\n      latent:\n        weight: 0\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "config/models", tmp_path / "config/models")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fault(models: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load(models)
    return caught.value


def test_a_variant_is_its_base_with_what_it_changes() -> None:
    plan = load(ACVI)

    assert plan.experiment.model_names == ["soft", "acvi-kl0"]

    base = load_model("acvi")
    variant = plan.components["acvi-kl0"]
    assert variant.label == "acvi-kl0"
    assert variant.latent == options.Acvi(variance="bounded", start=-2, weight=0)
    assert variant.model_copy(update={"label": base.label, "latent": base.latent}) == base


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("{from: soft, score: dot}", {"score": options.Dot()}),
        ("{from: soft, score: {scale: false}}", {"score": options.General(scale=False)}),
        ("{from: acvi, latent: {kind: acvi}}", {"latent": options.Acvi()}),
        ("{from: acvi, latent: {kind: ved, size: 7}}", {"latent": options.Ved(size=7)}),
        (
            "{from: hard-mono, network: {encoder: 9}}",
            {"network": load_model("hard-mono").network | {"encoder": 9}},
        ),
        ("{score: dot, label: Dot}", {"score": options.Dot(), "label": "Dot", "source": ""}),
        ("{from: ensemble, members: [soft]}", {"members": ["soft"]}),
    ],
)
def test_what_a_variant_does_not_say_is_its_bases(
    changes: str, expected: dict[str, object]
) -> None:
    components = load(f"  - mine: {changes}\n").components["mine"]
    base = yaml.safe_load(changes).get("from")
    loaded = load_model(base) if base else components

    assert components == loaded.model_copy(update={"label": "mine"} | expected)


def test_options_of_the_experiment_count_where_neither_a_variant_nor_its_base_says_anything() -> (
    None
):
    plan = load(
        "  - mine: {from: acvi, latent: {samples: 2}}\noptions: {latent: {acvi: {last: 0, samples:"
        " 3}}}\n"
    )
    latent = plan.run("nouns", "mine", 1).components.latent

    assert latent == options.Acvi(variance="bounded", start=-2, weight=0.001, last=0, samples=2)


def test_a_variant_may_change_one_that_is_above_it_and_be_a_member_or_a_start() -> None:
    plan = load(
        "  - first: {from: soft, score: mlp}\n  - second: {from: first, coupling: chain}\n"
        "  - both: {members: [first, second]}\n  - later: {from: first, init_from: first}\n"
    )
    second = plan.components["second"]

    assert (second.score, second.coupling) == (options.Mlp(), options.Chain())
    assert plan.members("both") == ["first", "second"]
    assert plan.starts("later") == ["first"]


def test_an_experiment_that_was_written_out_has_the_same_variants() -> None:
    experiment = load(ACVI).experiment
    assert experiment.variants() == {"acvi-kl0": {"from": "acvi", "latent": {"weight": 0}}}
    assert parse(Experiment, yaml.safe_load(dump_yaml(experiment))) == experiment


def test_the_baseline_may_be_a_variant() -> None:
    Path("mine.yaml").write_text(
        "experiment: mine\ntasks:\n  nouns: {dataset: de-noun}\nmodels: [{mine: {from: soft}},"
        " sparse]\n",
        "utf-8",
    )

    assert load_plan(files=["mine.yaml"]).experiment.baseline == "mine"


@pytest.mark.parametrize(
    ("models", "line", "message", "hint"),
    [
        (
            ACVI.replace("from: acvi", "from: avci"),
            7,
            "unknown model `avci`",
            "did you mean `acvi`?",
        ),
        (
            ACVI.replace("weight: 0", "wieght: 0"),
            9,
            "unknown option of latent `acvi` `wieght`",
            "`weight`",
        ),
        (
            ACVI.replace("weight: 0", "weight: -1"),
            9,
            "`models.acvi-kl0.latent.weight`",
            "correct the value",
        ),
        (
            ACVI.replace("latent:", "latnet:"),
            8,
            "unknown key of a model `latnet`",
            "did you mean `latent`?",
        ),
        (
            ACVI.replace("from: acvi", "from: 3"),
            7,
            "`from` is not the name of a model",
            "{from: MODEL",
        ),
        (
            ACVI.replace("acvi-kl0", "acvi"),
            6,
            "the variant `acvi` has the name of config/models/acvi.yaml",
            "another",
        ),
        (ACVI.replace("acvi-kl0", "a/b"), 6, "`a/b` cannot be the name of a model", "- {NAME:"),
        (ACVI.replace("acvi-kl0", "data"), 6, "a model cannot be called `data`", "another name"),
        (ACVI + ACVI, 10, "`acvi-kl0` is in `models` twice", "remove one"),
        (f"{ACVI}      label: Soft\n", 10, "`acvi-kl0` has the label of `soft`", "change one"),
        (
            "  - mine: {from: yours}\n  - yours: {from: soft}\n",
            6,
            "`mine` is a variant of `yours`",
            "first",
        ),
        ("  - mine: {from: mine}\n", 6, "`mine` is a variant of `mine`", "first"),
        ("  - mine: soft\n", 6, "a variant needs one name", "- {NAME:"),
        ("  - mine: {from: soft}\n    yours: {}\n", 6, "a variant needs one name", "- {NAME:"),
        ("  - {}\n", 6, "a variant needs one name", "- {NAME:"),
        ("  - [mine]\n", 6, "`models.1`", "correct the value"),
        (
            "  - mine:\n      from: soft\n      input_feeding: posterior\n",
            8,
            "the posterior needs",
            "output",
        ),
        (
            "  - mine:\n      from: soft\n      decoding: {beam: 3}\n",
            8,
            "`beam` is the same for all",
            "decoding",
        ),
        (
            "  - mine:\n      from: soft\n      members: [softer]\n",
            8,
            "unknown model `softer`",
            "soft",
        ),
        (
            "  - mine:\n      from: soft\n      init_from: mine\n",
            8,
            "starts from it in turn",
            "init_from",
        ),
        (
            "  - mine:\n      from: soft\n      training: {epohcs: 1}\n",
            8,
            "`models.mine.training.epohcs`",
            "epochs",
        ),
        (
            "  - acvi-linear\n",
            6,
            "model `acvi-linear` has no file: it is a variant that config/",
            "copy its line",
        ),
    ],
)
def test_a_fault_in_a_variant_has_its_place(
    models: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as caught:
        load_all(models)

    error = caught.value

    assert (error.file, error.line) == ("mine.yaml", line), error
    assert message in error.message
    assert hint in str(error.hint)


def test_a_fault_in_the_file_of_a_base_is_reported_there() -> None:
    Path("config/models/acvi.yaml").write_text("label: ACVI\nlatent: acvy\n", encoding="utf-8")
    error = fault(ACVI)
    assert (error.file, error.line) == ("config/models/acvi.yaml", 2)


def test_variants_fit_the_schema_that_editors_and_snakemake_read() -> None:
    validator("config").validate(yaml.safe_load(HEAD + ACVI))

    for wrong in ("latnet: acvi", "from: 3", "network: {encodre: 3}"):
        content = yaml.safe_load(f"{HEAD}  - mine: {{{wrong}}}\n")
        with pytest.raises(jsonschema.ValidationError):
            validator("config").validate(content)


def test_variants_of_one_name_are_the_same_in_all_of_our_experiments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    first: dict[str, object] = {}
    for file in experiment_files():
        plan = load_plan(files=[file])
        for name in plan.experiment.variants():
            assert first.setdefault(name, plan.components[name]) == plan.components[name], (
                file,
                name,
            )

    assert len(first) > 30


def test_the_table_of_models_says_which_have_a_file() -> None:
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    section = page.partition("## All models")[2].partition("\n- **")[0]
    names = [
        cell
        for row in section.splitlines()
        if row.startswith("| `")
        for cell in row.split(" | ")[0].split("`")
    ]
    marked = {
        name: after[:1]
        for name, after in pairwise(names)
        if re.fullmatch(r"[a-z][a-z0-9.-]+", name)
    }

    assert {name for name, mark in marked.items() if mark not in ("†", "‡")} == set(
        model_files(MODELS)
    )

    for name in [name for name, mark in marked.items() if mark in ("†", "‡")]:
        # `luong-...` stands for all that begin so.
        beginning = name.removesuffix("...")
        assert [
            known
            for known in variant_names()
            if known == name or (known.startswith(beginning) and beginning != name)
        ]
