"""Writes what is known of the configuration from the classes in pam.config.

    python workflow/scripts/make_schemas.py

That is the schemas in workflow/schemas/, with which editors and Snakemake check files, and the list
of keys at the end of config/README.md.
"""

import textwrap
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from pam.config import (
    Decoding,
    Experiment,
    ModelConfig,
    Network,
    Resources,
    ResourcesByModel,
    TaskConfig,
    Training,
)
from pam.io import Strict, write_text

SCHEMAS: dict[str, type[Strict]] = {"config": Experiment, "model": ModelConfig}
DRAFT = "https://json-schema.org/draft/2020-12/schema"
ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- Written by workflow/scripts/make_schemas.py from pam/config.py. -->"
SECTIONS: dict[str, type[Strict]] = {
    "An experiment": Experiment,
    "A task, under `tasks: NAME:`": TaskConfig,
    "`network:`": Network,
    "`training:`": Training,
    "`decoding:`": Decoding,
    "`resources:`": ResourcesByModel,
    "A model, `models/NAME.yaml`": ModelConfig,
}
WIDTH = 120
"""Characters in a line of Markdown at most."""
OVERRIDES = {
    "network": "Network",
    "training": "Training",
    "decoding": "Decoding",
    "resources": "ResourcesByModel",
}


def schema(kind: type[Strict]) -> dict[str, Any]:
    """JSON schema of a class, in which overrides may hold what they override and nothing else."""
    sections = Experiment.model_json_schema()["$defs"]
    made = kind.model_json_schema()
    for part in (*sections.values(), made, *made.get("$defs", {}).values()):
        by_model = part["properties"].get("models", {}).get("additionalProperties")
        if by_model:
            by_model["additionalProperties"] = False
            by_model["properties"] = _without_defaults(Resources.model_json_schema()["properties"])
        for name, section in OVERRIDES.items():
            known = part["properties"].get(name, {})
            if known.get("additionalProperties") is True:
                known["additionalProperties"] = False
                known["properties"] = _without_defaults(sections[section]["properties"])
        for known in part["properties"].values():
            if "patternProperties" in known:
                known["additionalProperties"] = False
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


def keys(kind: type[Strict], title: str) -> str:
    """A class as a Markdown table of its keys, types, defaults and descriptions."""
    required = schema(kind).get("required", [])
    rows = ["| key | what | default |", "| --- | --- | --- |"]
    for name, known in schema(kind)["properties"].items():
        if "$ref" in known:
            rows.append(f"| `{name}` | see `{name}:` below | |")
            continue
        default = "required" if name in required else f"`{_yaml(known.get('default'))}`"
        rows += _rows(f"`{name}`", _described(known), default)
    return "\n".join([f"### {title}", "", kind.__doc__ or "", "", *rows, ""])


def _rows(name: str, text: str, default: str) -> list[str]:
    """A key as a row of the table; a long description goes on in rows without a name."""
    room = WIDTH - len(f"| {name} |  | {default} |")
    first, *more = textwrap.wrap(text, room, break_long_words=False) or [""]
    return [f"| {name} | {first} | {default} |", *(f"| | {line} | |" for line in more)]


def _described(known: dict[str, Any]) -> str:
    options = known.get("enum")
    text = str(known.get("description", ""))
    return f"{text} ({', '.join(map(str, options))})" if options else text


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


def readme(text: str) -> str:
    """config/README.md with its list of keys as the classes are now."""
    head, mark, _ = text.partition(MARK)
    sections = [keys(kind, title) for title, kind in SECTIONS.items()]
    return head + mark + "\n\n" + "\n".join(sections)


if __name__ == "__main__":
    for name, kind in SCHEMAS.items():
        write_text(ROOT / f"workflow/schemas/{name}.schema.yaml", text(kind))
    page = ROOT / "config/README.md"
    write_text(page, readme(page.read_text(encoding="utf-8")))
