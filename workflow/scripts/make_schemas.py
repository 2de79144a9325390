"""Writes the schemas in workflow/schemas/ from the classes in pam.config.

    python workflow/scripts/make_schemas.py [FOLDER]

Editors read them to complete and check configuration files; Snakemake checks with them too.
"""

import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from pam.config import Experiment, ModelChoices, Strict
from pam.files import write_text

SCHEMAS = {"config": Experiment, "model": ModelChoices}
DRAFT = "https://json-schema.org/draft/2020-12/schema"
OVERRIDES = {
    "network": "Network",
    "training": "Training",
    "decoding": "Decoding",
    "resources": "Resources",
}


def schema(kind: type[Strict]) -> dict[str, Any]:
    """JSON schema of a class, in which overrides may hold what they override and nothing else."""
    sections = Experiment.model_json_schema()["$defs"]
    made = kind.model_json_schema()
    for part in (made, *made.get("$defs", {}).values()):
        for name, section in OVERRIDES.items():
            known = part["properties"].get(name, {})
            if known.get("additionalProperties") is True:
                known["additionalProperties"] = False
                known["properties"] = _without_defaults(sections[section]["properties"])
    return {"$schema": DRAFT, **_without_titles(made)}


def _without_defaults(properties: dict[str, Any]) -> dict[str, Any]:
    """An override that is not given is not the default: it is what the experiment says."""
    result = deepcopy(properties)
    for known in result.values():
        known.pop("default", None)
    return result


def _without_titles(value: Any) -> Any:
    """The same without pydantic's titles, which only repeat the names."""
    if isinstance(value, dict):
        return {
            key: _without_titles(inner)
            for key, inner in value.items()
            if not (key == "title" and isinstance(inner, str))
        }
    return [_without_titles(inner) for inner in value] if isinstance(value, list) else value


def text(kind: type[Strict]) -> str:
    """A schema as YAML."""
    head = "# Written by workflow/scripts/make_schemas.py from pam/config.py.\n"
    return head + yaml.safe_dump(schema(kind), sort_keys=False, allow_unicode=True, width=100)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "schemas"
    for name, kind in SCHEMAS.items():
        write_text(folder / f"{name}.schema.yaml", text(kind))
