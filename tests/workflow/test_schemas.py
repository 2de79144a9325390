"""Keys are stated in the classes of pam.experiments alone; all else follows them."""

from __future__ import annotations

import runpy
from typing import Any

import jsonschema
import pytest
import yaml

from pam.experiments.experiment import Experiment
from pam.experiments.model import ModelConfig
from tests.workflow.checkouts import ROOT
from tests.workflow.schemas import validator

MADE = runpy.run_path(str(ROOT / "workflow/scripts/make_schemas.py"), run_name="made")
HINT = "run: python workflow/scripts/make_schemas.py"


def load(file: str) -> Any:
    return yaml.load((ROOT / file).read_text(encoding="utf-8"), yaml.CSafeLoader)


@pytest.mark.parametrize(("name", "kind"), [("config", Experiment), ("model", ModelConfig)])
def test_the_schemas_are_what_the_classes_say(name: str, kind: Any) -> None:
    text = (ROOT / f"workflow/schemas/{name}.schema.json").read_text(encoding="utf-8")
    assert text == MADE["text"](kind), HINT


def test_the_list_of_keys_is_what_the_classes_say() -> None:
    text = (ROOT / "config/README.md").read_text(encoding="utf-8")
    assert text == MADE["readme"](text), HINT


def test_every_key_has_a_description() -> None:
    for name in ("config", "model"):
        schema: dict[str, Any] = dict(validator(name).schema)
        for part in (schema, *schema.get("$defs", {}).values()):
            assert part["additionalProperties"] is False
            for key, known in part["properties"].items():
                assert known.get("description") or "$ref" in known, key

    for kind in MADE["DATA"].values():
        for key, known in kind.model_json_schema()["properties"].items():
            assert known.get("description"), key


@pytest.mark.parametrize(
    "file", ["config/config.yaml", "config/ablation.yaml", "config/studies/recipes.yaml"]
)
def test_our_experiments_fit_the_schema(file: str) -> None:
    validator("config").validate(load(file))


def test_our_models_fit_the_schema() -> None:
    for path in (ROOT / "config/models").glob("*.yaml"):
        validator("model").validate(load(f"config/models/{path.name}"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"sedes": [1]},
        {"training": {"epoks": 3}},
        {"tasks": {"nouns": {"dataset": "x", "network": {"hidden": 3}}}},
        {"tasks": {"a task": {"dataset": "x"}}},
        {"seeds": "1"},
    ],
)
def test_the_schema_refuses_what_the_classes_refuse(wrong: dict[str, Any]) -> None:
    right = {"experiment": "x", "models": ["soft"], "tasks": {"nouns": {"dataset": "x"}}}
    validator("config").validate(right)

    with pytest.raises(jsonschema.ValidationError):
        validator("config").validate(right | wrong)
